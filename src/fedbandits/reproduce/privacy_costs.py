"""What privacy costs: regret against ε, against bits, and against the horizon.

Figure 4's means with outcomes of 0 and 1, whose range is known, and clients of a beta law: clipping
figure 4's own Gaussian outcomes would change what is estimated. Claimed for this game only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from fedbandits.experiments.figures import NORMAL_95, PALETTE
from fedbandits.experiments.figures.style import house_style
from fedbandits.experiments.fingerprint import hashed
from fedbandits.experiments.tables import Table
from fedbandits.privacy.policy import Privacy, Quantize
from fedbandits.privacy.sampling import Law
from fedbandits.problems.approximate import Approximate
from fedbandits.problems.laws import Bernoulli, Beta, Gaussian
from fedbandits.reproduce.catalogue import experiment_text, paper_experiment
from fedbandits.reproduce.run import at_most
from fedbandits.rules.algorithms import Fed2Ucb
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.radii import CertifiedRadius
from fedbandits.simulation.simulator import Progress, Simulation, Variant, simulate_all

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """A setting: its panel and curve, where it stands, and how means are protected."""

    panel: str
    scheme: str
    x: float
    privacy: Privacy | None


def _points() -> list[_Point]:
    """Return the settings of the first two panels; what is not protected first."""
    unit = (0.0, 1.0)
    noises: tuple[Law, ...] = ("gaussian", "laplace")
    return [
        _Point(panel="", scheme=_NONE, x=0.0, privacy=None),
        *(
            _Point(
                panel=EPSILON,
                scheme=f"{kind} noise",
                x=epsilon,
                privacy=Privacy(
                    range=unit,
                    noise=kind,
                    epsilon=epsilon,
                    delta=DELTA if kind == "gaussian" else None,
                ),
            )
            for kind in noises
            for epsilon in EPSILONS
        ),
        *(
            _Point(
                panel=BITS_PANEL,
                scheme="stochastic rounding",
                x=float(bits),
                privacy=Privacy(range=unit, quantize=Quantize(bits=bits)),
            )
            for bits in BITS
        ),
        *(
            _Point(
                panel=BITS_PANEL,
                scheme="nearest rounding",
                x=float(bits),
                privacy=Privacy(range=unit, quantize=Quantize(bits=bits, rounding="nearest")),
            )
            for bits in NEAREST_BITS
        ),
    ]


def _algorithm() -> Fed2Ucb:
    return Fed2Ucb(pulls=100, admissions="2^p", radius=CertifiedRadius())


def privacy_costs_table(
    *, games: int | None = None, workers: int | None = None, progress: Progress | None = None
) -> Table:
    """Simulate every setting.

    Parameters
    ----------
    games : int, optional
        At most so many of each, for a quick look.
    workers, progress
        As in `simulate_all`.

    Returns
    -------
    Table
        A row a setting: regret with its standard error, what it is of the unprotected regret (the
        games share their draws), clients, bits that a client sends, and how many games ended
        undecided or on a wrong arm.
    """
    means = paper_experiment("fig4").variants[0].problem.means
    game = Approximate(means=means, noise=Bernoulli(), spread=Beta(0.02), name="private")
    points = _points()
    n = at_most(games, REPLICATIONS)
    runs = simulate_all(
        [
            Variant(
                label=f"{point.panel} {point.scheme} {point.x:g}",
                problem=game,
                algorithm=_algorithm(),
                privacy=point.privacy,
            )
            for point in points
        ],
        horizon=HORIZON,
        replications=n,
        seed=SEED,
        grid_points=1,
        workers=workers,
        progress=progress,
        warn=False,
    )
    plain = runs[0].outcome.total
    best = int(means.argmax())
    rows = [
        _row((point.panel, point.scheme, point.x), run, plain, best)
        for point, run in zip(points, runs, strict=True)
    ]
    rows += _growth_rows(at_most(games, HORIZON_REPLICATIONS), workers, progress)
    return {name: [row[name] for row in rows] for name in rows[0]}


def _growth_rows(
    n: int, workers: int | None, progress: Progress | None
) -> list[dict[str, float | str]]:
    """Return regret against the horizon, with and without noise, cohort by cohort."""
    problem = paper_experiment("fig4").variants[0].problem
    wide = Approximate(means=problem.means, noise=Gaussian(0.5), spread=Gaussian(0.02), name="wide")
    policy = Privacy(range=(-3.0, 4.5), noise="gaussian", epsilon=8.0, delta=DELTA)
    best = int(problem.means.argmax())
    rows = []
    for horizon in HORIZONS:
        plain, noised = simulate_all(
            [
                Variant(label=label, problem=wide, algorithm=_algorithm(), privacy=privacy)
                for label, privacy in ((_NONE, None), ("gaussian noise", policy))
            ],
            horizon=horizon,
            replications=n,
            seed=SEED,
            grid_points=1,
            workers=workers,
            progress=progress,
            warn=False,
        )
        rows += [
            _row((GROWTH, run.variant.label, float(horizon)), run, plain.outcome.total, best)
            for run in (plain, noised)
        ]
    return rows


def _row(
    place: tuple[str, str, float], run: Simulation, plain: FloatArray, best: int
) -> dict[str, float | str]:
    panel, scheme, x = place
    outcome = run.outcome
    total, n = outcome.total, outcome.total.size
    ratio = float(total.mean() / plain.mean())
    return {
        "panel": panel,
        "scheme": scheme,
        "x": x,
        "regret": float(total.mean()),
        "stderr": float(total.std(ddof=1) / math.sqrt(n)),
        "ratio": ratio,
        # Of a ratio of means over the same games.
        "ratio_stderr": float((total - ratio * plain).std(ddof=1) / math.sqrt(n) / plain.mean()),
        "clients": float(outcome.clients.mean()),
        "bits_a_client": float((outcome.uplink_bits / outcome.clients).mean()),
        "undecided": int((outcome.winner < 0).sum()),
        "wrong": int(((outcome.winner >= 0) & (outcome.winner != best)).sum()),
        "replications": n,
    }


def privacy_costs_replications(games: int | None) -> int:
    """Return how many replications `privacy_costs_table` simulates, given how many were asked."""
    growth = 2 * len(HORIZONS) * at_most(games, HORIZON_REPLICATIONS)
    return len(_points()) * at_most(games, REPLICATIONS) + growth


def privacy_costs_fingerprint(games: int | None) -> str:
    """Return what the table depends on, as a hash."""
    return hashed([experiment_text("fig4"), repr(_points()), HORIZONS, HORIZON, SEED, games])


def privacy_costs_figure(table: Table) -> Figure:
    """Draw regret against ε, against bits, and over log T against T."""
    with house_style():
        figure = Figure(figsize=(10.4, 3.9), layout="constrained")
        FigureCanvasAgg(figure)
        left, middle, right = figure.subplots(1, 3)
        _draw_panel(left, table, EPSILON)
        left.set_xscale("log")
        left.xaxis.set_major_locator(FixedLocator(EPSILONS))
        left.xaxis.set_minor_locator(NullLocator())
        left.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        left.set_xlabel("ε, event level (smaller: more private)")
        left.set_ylabel("mean total regret")
        _draw_panel(middle, table, BITS_PANEL)
        middle.set_xticks(sorted({*BITS, *NEAREST_BITS}))
        middle.set_xlabel("bits of a mean (64 when not rounded)")
        for axes, title in ((left, "Noise"), (middle, "Rounding")):
            axes.set_title(title, loc="left", fontweight="bold", size=10.0)
            axes.set_ylim(0.0, None)
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            _draw_unprotected(axes, table)
            axes.legend(fontsize=8.5, frameon=False)
        _draw_growth(right, table)
    return figure


def _rows(table: Table, panel: str, scheme: str) -> list[int]:
    return [
        i
        for i, (at, curve) in enumerate(zip(table["panel"], table["scheme"], strict=True))
        if (at, curve) == (panel, scheme)
    ]


def _draw_panel(axes: Axes, table: Table, panel: str) -> None:
    of_panel = [i for i, at in enumerate(table["panel"]) if at == panel]
    for scheme in dict.fromkeys(table["scheme"][i] for i in of_panel):
        rows = _rows(table, panel, scheme)
        axes.errorbar(
            [table["x"][i] for i in rows],
            [table["regret"][i] for i in rows],
            yerr=[NORMAL_95 * table["stderr"][i] for i in rows],
            color=_COLOURS[scheme],
            label=scheme,
            marker="o",
            markersize=4,
            linewidth=1.6,
            capsize=2,
        )


def _draw_unprotected(axes: Axes, table: Table) -> None:
    (row,) = _rows(table, "", _NONE)
    axes.axhline(
        table["regret"][row], color=_COLOURS[_NONE], linestyle="--", linewidth=1.3, label=_NONE
    )


def _draw_growth(axes: Axes, table: Table) -> None:
    for scheme in (_NONE, "gaussian noise"):
        rows = _rows(table, GROWTH, scheme)
        horizons = np.array([table["x"][i] for i in rows])
        logs = np.log(horizons)
        axes.errorbar(
            horizons,
            np.array([table["regret"][i] for i in rows]) / logs,
            yerr=NORMAL_95 * np.array([table["stderr"][i] for i in rows]) / logs,
            color=_COLOURS[scheme],
            label=scheme if scheme == _NONE else f"{scheme}, ε = 8, range 7.5",
            marker="o",
            markersize=4,
            linewidth=1.6,
            capsize=2,
            linestyle="--" if scheme == _NONE else "-",
        )
    axes.set_xscale("log")
    axes.set_ylim(0.0, None)
    axes.set_xlabel("horizon T")
    axes.set_ylabel("mean total regret / log T")
    axes.set_title("Order of the regret", loc="left", fontweight="bold", size=10.0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.legend(fontsize=8.5, frameon=False)


def privacy_costs_html(table: Table) -> str:
    """Return the table of what each protection costs, as HTML."""
    (plain,) = _rows(table, "", _NONE)
    rows = [_html_row(table, plain, "none")]
    for panel, schemes in (
        (EPSILON, ("gaussian noise", "laplace noise")),
        (BITS_PANEL, ("stochastic rounding", "nearest rounding")),
    ):
        for scheme in schemes:
            for i in _rows(table, panel, scheme):
                said = f"ε = {table['x'][i]:g}" if panel == EPSILON else f"{table['x'][i]:g} bits"
                rows.append(_html_row(table, i, f"{scheme}, {said}"))
    return f"""<p>Clients send means. Noise makes them differentially private at event level: what
is sent hardly depends on any one observation (on a whole person it may: see the documentation).
Rounding sends fewer bits and is no differential privacy. Widths are widened by exactly what the
scheme costs, so that the certified rule keeps its guarantee. ± is a 95&nbsp;% interval; of the
ratio it is narrow because all settings are played on the same games.</p>
<div class="scroll" role="region" aria-label="Privacy" tabindex="0">
<table>
<thead><tr><th scope="col">protection</th><th scope="col">total regret</th>
<th scope="col">of the unprotected</th><th scope="col">clients</th>
<th scope="col">bits a client</th><th scope="col">wrong arm</th>
<th scope="col">undecided</th></tr></thead>
<tbody>
{"".join(rows)}</tbody>
</table>
</div>"""


def _html_row(table: Table, i: int, name: str) -> str:
    n = table["replications"][i]
    return (
        f'<tr><th scope="row">{escape(name)}</th>'
        f"<td>{table['regret'][i]:,.0f} ± {NORMAL_95 * table['stderr'][i]:,.0f}</td>"
        f"<td>{table['ratio'][i]:.3f} ± {NORMAL_95 * table['ratio_stderr'][i]:.3f}</td>"
        f"<td>{table['clients'][i]:,.0f}</td><td>{table['bits_a_client'][i]:,.0f}</td>"
        f"<td>{table['wrong'][i]:,} of {n:,}</td><td>{table['undecided'][i]:,} of {n:,}</td></tr>\n"
    )
