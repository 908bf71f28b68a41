"""What privacy costs: regret against ε, against bits, and against the horizon.

Figure 4's means with outcomes of 0 and 1, whose range is known, and clients of a beta law: clipping
figure 4's own Gaussian outcomes would change what is estimated. Claimed for this game only.
"""

from dataclasses import replace

from fedbandits.privacy.mechanisms import Rounding
from fedbandits.privacy.policy import Privacy, Quantize
from fedbandits.privacy.sampling import NoiseKind
from fedbandits.problems.approximate import Approximate
from fedbandits.problems.laws import Bernoulli, Beta, Gaussian
from fedbandits.report.chart import Axis, Chart, Plot, Series
from fedbandits.report.palette import PALETTE
from fedbandits.reproduce import part
from fedbandits.reproduce.catalogue import paper_experiment
from fedbandits.reproduce.texts import fill, table_html
from fedbandits.rules.algorithms import Fed2Ucb
from fedbandits.rules.radii import CertifiedRadius
from fedbandits.simulation.tables import Table, as_columns, rows_of

REPLICATIONS = 60
# Cohorts are simulated as a whole.
HORIZON_REPLICATIONS = 400
HORIZON = 1_000_000
HORIZONS = (10**4, 10**5, 10**6, 10**7, 10**8)
SEED = 2023
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
DELTA = 1e-6
BITS = (3, 4, 5, 6, 8, 10)
NEAREST_BITS = (7, 8, 10)
_NOISES: dict[NoiseKind, float | None] = {"gaussian": DELTA, "laplace": None}
_ROUNDINGS: dict[Rounding, tuple[int, ...]] = {"stochastic": BITS, "nearest": NEAREST_BITS}

EPSILON, BITS_PANEL, GROWTH = "epsilon", "bits", "horizon"
_NONE = "not protected"
_COLOURS = {
    "gaussian noise": PALETTE[0],
    "laplace noise": PALETTE[1],
    "stochastic rounding": PALETTE[2],
    "nearest rounding": PALETTE[3],
    _NONE: "#5b6670",
}


def _protections() -> dict[tuple[str, str, float], Privacy | None]:
    """Return how means are protected in the first two panels, by panel, curve and place."""
    unit = (0.0, 1.0)
    found: dict[tuple[str, str, float], Privacy | None] = {("", _NONE, 0.0): None}
    for kind, delta in _NOISES.items():
        for epsilon in EPSILONS:
            found[EPSILON, f"{kind} noise", epsilon] = Privacy(
                range=unit, noise=kind, epsilon=epsilon, delta=delta
            )
    for rounding, numbers in _ROUNDINGS.items():
        for bits in numbers:
            found[BITS_PANEL, f"{rounding} rounding", float(bits)] = Privacy(
                range=unit, quantize=Quantize(bits=bits, rounding=rounding)
            )
    return found


def privacy_costs_batches() -> list[part.Batch]:
    """Return every setting; the unprotected one first."""
    means = paper_experiment("fig4").variants[0].problem.means
    game = Approximate(means=means, noise=Bernoulli(), spread=Beta(0.02), name="private")
    wide = Approximate(means=means, noise=Gaussian(0.5), spread=Gaussian(0.02), name="wide")
    policy = Privacy(range=(-3.0, 4.5), noise="gaussian", epsilon=8.0, delta=DELTA)
    algorithm = Fed2Ucb(pulls=100, admissions="2^p", radius=CertifiedRadius())

    shared = {"problem": game, "algorithm": algorithm}
    shown = {key: {**shared, "privacy": privacy} for key, privacy in _protections().items()}
    apart = {"problem": wide, "algorithm": algorithm}
    batches = [part.Batch(part.labelled(shown), HORIZON, REPLICATIONS, SEED)]
    for horizon in HORIZONS:
        noised = {(GROWTH, "gaussian noise", horizon): {**apart, "privacy": policy}}
        both = part.labelled({(GROWTH, _NONE, horizon): apart, **noised})
        batches.append(part.Batch(both, horizon, HORIZON_REPLICATIONS, SEED))
    return batches


def privacy_costs_table(runs: part.Runs) -> Table:
    """Return one row per setting: what it cost, and the bits that a client sends.

    ``ratio`` is to the unprotected regret of the same horizon; the games share their draws.
    """
    rows = []
    for (panel, scheme, x), run in runs.items():
        plain = runs[(GROWTH, _NONE, x) if panel == GROWTH else ("", _NONE, 0.0)]
        bits = float((run.games.uplink_bits / run.games.clients).mean())
        costs = {**part.costs_of(run), **part.ratio_columns(run, plain), "bits_a_client": bits}
        rows.append({"panel": panel, "scheme": scheme, "x": float(x), **costs})
    return as_columns(rows)


def privacy_costs_chart(table: Table) -> Chart:
    """Return regret against ε, against bits, and over log T against T."""
    epsilons = {epsilon: f"{epsilon:g}" for epsilon in EPSILONS}
    bits = {float(bits): f"{bits}" for bits in sorted({*BITS, *NEAREST_BITS})}
    regret = Axis("mean total regret", low=0.0)
    over_log = replace(regret, label="mean total regret / log T")
    private = Axis("ε, event level (smaller: more private)", log=True, ticks=epsilons)
    rounded = Axis("bits of a mean (64 when not rounded)", ticks=bits)
    horizon = Axis("horizon T", log=True, form="power")
    panels = [
        Plot(x, y, _series(table, panel), title=title)
        for panel, title, x, y in (
            (EPSILON, "Noise", private, regret),
            (BITS_PANEL, "Rounding", rounded, regret),
            (GROWTH, "Order of the regret", horizon, over_log),
        )
    ]
    return Chart("privacy", panels, columns=3, size=(10.4, 3.9))


def _series(table: Table, panel: str) -> list[Series]:
    """Return regret of every scheme of a panel; dashed without protection."""
    found = []
    for scheme in dict.fromkeys(row["scheme"] for row in rows_of(table, panel=panel)):
        rows = rows_of(table, panel=panel, scheme=scheme)
        noised = panel == GROWTH and scheme != _NONE
        label = f"{scheme}, ε = 8, range 7.5" if noised else scheme
        columns, over_log = ("x", "regret"), panel == GROWTH
        curve = part.curve_of(label, rows, columns, _COLOURS[scheme], over_log=over_log)
        found.append(replace(curve, dash=(4.0, 2.0) if scheme == _NONE else ()))
    if panel != GROWTH:
        (row,) = rows_of(table, panel="", scheme=_NONE)
        places = [x for one in found for x in one.x]
        ends, level = [min(places), max(places)], [row["regret"]] * 2
        found.append(Series(_NONE, ends, level, _COLOURS[_NONE], dash=(4.0, 2.0), width=1.3))
    return found


_SAID = {"": "none", EPSILON: "{scheme}, ε = {x:g}", BITS_PANEL: "{scheme}, {x:g} bits"}


def privacy_costs_html(table: Table) -> str:
    """Return the table of what each protection costs, as HTML."""
    rows = [row for row in rows_of(table) if row["panel"] in _SAID]
    shown = ({**row, "protection": fill(_SAID[row["panel"]], row)} for row in rows)
    return table_html("privacy", shown)


PART = part.Part(
    key="privacy",
    heading="What privacy costs",
    cost=(0.5, 8.0),
    batches=privacy_costs_batches,
    table=privacy_costs_table,
    drawings={"privacy": part.Drawing(chart=privacy_costs_chart)},
    show=lambda table: {"table": privacy_costs_html(table), "delta": DELTA},
)
