"""What privacy costs: regret against ε, against bits, and against the horizon.

Figure 4's means with outcomes of 0 and 1, whose range is known, and clients of a beta law: clipping
figure 4's own Gaussian outcomes would change what is estimated. Claimed for this game only.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from fedbandits.experiments.figures import NORMAL_95, PALETTE, style
from fedbandits.experiments.report import markup
from fedbandits.experiments.tables import Table
from fedbandits.privacy.mechanisms import Rounding
from fedbandits.privacy.policy import Privacy, Quantize
from fedbandits.privacy.sampling import Law
from fedbandits.problems.approximate import Approximate
from fedbandits.problems.laws import Bernoulli, Beta, Gaussian
from fedbandits.reproduce.catalogue import PRIVACY, paper_experiment
from fedbandits.reproduce.findings import ratio_of
from fedbandits.reproduce.part import Batch, Drawing, Part, Runs, as_columns, costs_of, rows_of
from fedbandits.rules.algorithms import Fed2Ucb
from fedbandits.rules.radii import CertifiedRadius
from fedbandits.simulation.simulator import Variant

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
_NOISES: dict[Law, float | None] = {"gaussian": DELTA, "laplace": None}
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

CAPTION = f"""Mean total regret of Fed2-UCB with the certified radius (δ = 1/T, C = 1, f = 100,
g = 2^p) on figure 4's means, with outcomes of 0 and 1; bars are 95 % confidence intervals. Left:
noise at event level, δ = {DELTA:g} for Gaussian noise. Middle: bits of a mean; nearest rounding to
6 bits or fewer has steps near the gap of 0.02 or above it, and takes far longer or never decides.
Right: regret over log T, on figure 4's own Gaussian game; so that nothing is clipped the range is
[-3, 4.5], and the noise 7.5 times as large as on the left. A flat curve grows as log T."""


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


def privacy_costs_batches() -> list[Batch]:
    """Return every setting; the unprotected one first."""
    means = paper_experiment("fig4").variants[0].problem.means
    game = Approximate(means=means, noise=Bernoulli(), spread=Beta(0.02), name="private")
    wide = Approximate(means=means, noise=Gaussian(0.5), spread=Gaussian(0.02), name="wide")
    policy = Privacy(range=(-3.0, 4.5), noise="gaussian", epsilon=8.0, delta=DELTA)
    algorithm = Fed2Ucb(pulls=100, admissions="2^p", radius=CertifiedRadius())

    def batch(
        problem: Approximate,
        horizon: int,
        replications: int,
        settings: Mapping[tuple[str, str, float], Privacy | None],
    ) -> Batch:
        return Batch(
            variants={
                key: Variant(
                    label=f"{key[0]} {key[1]} {key[2]:g}",
                    problem=problem,
                    algorithm=algorithm,
                    privacy=privacy,
                )
                for key, privacy in settings.items()
            },
            horizon=horizon,
            replications=replications,
            seed=SEED,
        )

    return [
        batch(game, HORIZON, REPLICATIONS, _protections()),
        *(
            batch(
                wide,
                horizon,
                HORIZON_REPLICATIONS,
                {(GROWTH, _NONE, horizon): None, (GROWTH, "gaussian noise", horizon): policy},
            )
            for horizon in HORIZONS
        ),
    ]


def privacy_costs_table(runs: Runs) -> Table:
    """Return a row a setting: what it cost, and the bits that a client sends.

    ``ratio`` is to the unprotected regret of the same horizon; the games share their draws.
    """
    rows = []
    for (panel, scheme, x), run in runs.items():
        plain = runs[(GROWTH, _NONE, x) if panel == GROWTH else ("", _NONE, 0.0)].outcome.total
        ratio = ratio_of(run.outcome.total, plain)
        rows.append(
            {
                "panel": panel,
                "scheme": scheme,
                "x": float(x),
                **costs_of(run),
                "ratio": ratio.value,
                "ratio_stderr": ratio.error,
                "bits_a_client": float((run.outcome.uplink_bits / run.outcome.clients).mean()),
            }
        )
    return as_columns(rows)


def privacy_costs_figure(table: Table) -> Figure:
    """Draw regret against ε, against bits, and over log T against T."""
    with style.new_figure(10.4, 3.9) as figure:
        left, middle, right = figure.subplots(1, 3)
        for axes, panel, title, along, up in (
            (left, EPSILON, "Noise", "ε, event level (smaller: more private)", "mean total regret"),
            (middle, BITS_PANEL, "Rounding", "bits of a mean (64 when not rounded)", ""),
            (right, GROWTH, "Order of the regret", "horizon T", "mean total regret / log T"),
        ):
            _draw_panel(axes, table, panel)
            axes.set(xlabel=along, ylabel=up, ylim=(0.0, None))
            style.head(axes, title)
            style.whole_numbers(axes.yaxis)
            axes.legend(fontsize=8.5, frameon=False)
        left.set_xscale("log")
        left.xaxis.set_major_locator(FixedLocator(EPSILONS))
        style.no_minor_ticks(left.xaxis)
        left.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        middle.set_xticks(sorted({*BITS, *NEAREST_BITS}))
        right.set_xscale("log")
    return figure


def _draw_panel(axes: Axes, table: Table, panel: str) -> None:
    for scheme in dict.fromkeys(table["scheme"][i] for i in rows_of(table, panel=panel)):
        rows = rows_of(table, panel=panel, scheme=scheme)
        x, regret, stderr = (
            np.array([table[name][i] for i in rows]) for name in ("x", "regret", "stderr")
        )
        part = np.log(x) if panel == GROWTH else 1.0
        noised = panel == GROWTH and scheme != _NONE
        axes.errorbar(
            x, regret / part, yerr=NORMAL_95 * stderr / part, color=_COLOURS[scheme], marker="o",
            markersize=4, linewidth=1.6, capsize=2, linestyle="--" if scheme == _NONE else "-",
            label=f"{scheme}, ε = 8, range 7.5" if noised else scheme,
        )  # fmt: skip
    if panel != GROWTH:
        (row,) = rows_of(table, panel="", scheme=_NONE)
        axes.axhline(
            table["regret"][row], color=_COLOURS[_NONE], linestyle="--", linewidth=1.3, label=_NONE
        )


def privacy_costs_html(table: Table) -> str:
    """Return the table of what each protection costs, as HTML."""
    rows = []
    for i, (panel, scheme, x) in enumerate(
        zip(table["panel"], table["scheme"], table["x"], strict=True)
    ):
        if panel == GROWTH:
            continue
        said = {"": "none", EPSILON: f"{scheme}, ε = {x:g}", BITS_PANEL: f"{scheme}, {x:g} bits"}
        n = table["replications"][i]
        rows.append(
            markup.row(
                escape(said[panel]),
                f"{table['regret'][i]:,.0f} ± {NORMAL_95 * table['stderr'][i]:,.0f}",
                f"{table['ratio'][i]:.3f} ± {NORMAL_95 * table['ratio_stderr'][i]:.3f}",
                f"{table['clients'][i]:,.0f}",
                f"{table['bits_a_client'][i]:,.0f}",
                f"{table['wrong'][i]:,} of {n:,}",
                f"{table['undecided'][i]:,} of {n:,}",
            )
        )
    headings = (
        *("protection", "total regret", "of the unprotected", "clients", "bits a client"),
        *("wrong arm", "undecided"),
    )
    return f"""<p>Clients send means. Noise makes them differentially private at event level: what
is sent hardly depends on any one observation (on a whole person it may: see the documentation).
Rounding sends fewer bits and is no differential privacy. Widths are widened by exactly what the
scheme costs, so that the certified rule keeps its guarantee. ± is a 95&nbsp;% interval; of the
ratio it is narrow because all settings are played on the same games.</p>
{markup.table("Privacy", headings, rows, kind="")}"""


def _section(table: Table, images: Mapping[str, bytes]) -> str:
    alt = "Total regret against epsilon, against bits of a mean, and over log T against T."
    shown = markup.figure(images["privacy"], alt=alt, caption=markup.with_subscripts(CAPTION))
    return f"{shown}\n{privacy_costs_html(table)}"


PART = Part(
    key=PRIVACY,
    heading="Better privacy protection: what it costs",
    batches=privacy_costs_batches,
    table=privacy_costs_table,
    drawings={"privacy": Drawing(draw=privacy_costs_figure)},
    section=_section,
)
