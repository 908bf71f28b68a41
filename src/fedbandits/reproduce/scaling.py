"""The schedules of Tables 2 and 3 (``schedules.toml``): how their regret grows with the horizon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from itertools import cycle
from typing import Any

import numpy as np

from fedbandits.experiments.game_means import game_mean
from fedbandits.problems.problem import Problem
from fedbandits.report.chart import Axis, Chart, Mark, Plot, Series
from fedbandits.report.palette import colours
from fedbandits.reproduce.catalogue import paper_experiment
from fedbandits.reproduce.part import Batch, Drawing, Part, Runs, curve_of
from fedbandits.reproduce.texts import Row, listing, table_html
from fedbandits.rules.algorithms import Fed1Ucb, Fed2Ucb
from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.rules.radii import PaperRadius
from fedbandits.rules.schedules import as_schedule
from fedbandits.simulation import Variant
from fedbandits.simulation.tables import Table, arrays, as_columns, rows_of

GAMES = {2: "fig4", 3: "fig3"}
"""The experiment whose first game is played for a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TabledSchedule:
    """A schedule, on the game of its table.

    Parameters
    ----------
    table : int
        2 or 3.
    label : str
        What tables and legends call it.
    pulls, admissions : str
        f(p), and g(p) of Fed2-UCB in Table 2.
    row : int, optional
        Where the paper's table has it, from 0; None if it does not.
    kappa, lam : float
        κ and λ of that row, if it has them.
    one_horizon : bool
        Whether it is not part of how regret grows with the horizon.
    """

    table: int
    label: str
    pulls: str
    admissions: str = ""
    row: int | None = None
    kappa: float = 1.0
    lam: float = 1.0
    one_horizon: bool = False

    def variant(self, radius: PaperRadius) -> Variant:
        """Return its algorithm with this radius, on the game of its table."""
        algorithm = (
            Fed2Ucb(pulls=self.pulls, admissions=self.admissions, radius=radius)
            if self.table == 2
            else Fed1Ucb(pulls=self.pulls, radius=radius)
        )
        label = f"{self.table}: {self.label}"
        return Variant(label=label, problem=game_of(self.table), algorithm=algorithm)


_ALL = [TabledSchedule(**schedule) for schedule in listing("schedules")["schedules"]]
SCHEDULES = tuple(schedule for schedule in _ALL if not schedule.one_horizon)
"""Those whose regret is played at many horizons."""

TABLED = tuple(schedule for schedule in _ALL if schedule.row is not None)
"""Those of the paper's tables, in their order, and figure 4's own among them."""


def game_of(table: int) -> Problem:
    """Return the game of a table.

    Examples
    --------
    >>> game_of(2).population, game_of(3).population
    (None, 5)
    """
    return paper_experiment(GAMES[table]).variants[0].problem


# How regret grows --------------------------------------------------------------------------------


HORIZONS = tuple(10**exponent for exponent in range(3, 10))
REPLICATIONS = 200
RESAMPLED = 4_000
"""How often replications are drawn again for the intervals of what is fitted."""

_SEED = 2021
_FEWEST_HORIZONS = 3
# A horizon at which some games are still open has the regret of a game that was cut short.
_MOST_UNDECIDED = 0.01


_RADIUS = PaperRadius(arm=1.0, client=1.0)


def scaling_batches() -> list[Batch]:
    """Return every schedule at every horizon that its first phase fits into."""
    batches = []
    for horizon in HORIZONS:
        variants = {
            (schedule.table, schedule.label, horizon): schedule.variant(_RADIUS)
            for schedule in SCHEDULES
            if _fits(schedule.pulls, horizon)
        }
        batches.append(Batch(variants, horizon, REPLICATIONS, _SEED))
    return batches


def scaling_table(runs: Runs) -> Table:
    """Return regret for every schedule and horizon, and how it grows."""
    rows: list[dict[str, Any]] = []
    decided: dict[tuple[int, str], dict[int, FloatArray]] = {}
    for (number, schedule, horizon), run in runs.items():
        mean, undecided = game_mean(run.games.total), float((run.games.winner < 0).mean())
        rows.append(
            {
                "table": number,
                "schedule": schedule,
                "horizon": horizon,
                "replications": mean.n,
                "mean": mean.value,
                "stderr": mean.error,
                "undecided": undecided,
            }
        )
        totals = decided.setdefault((number, schedule), {})
        if undecided <= _MOST_UNDECIDED:
            totals[horizon] = run.games.total
    growth = {key: fit_growth(totals, seed=_SEED) for key, totals in decided.items()}
    unknown = dict.fromkeys(_FITTED)
    return as_columns([row | (growth[row["table"], row["schedule"]] or unknown) for row in rows])


def _fits(pulls: str, horizon: int) -> bool:
    """Return whether the first phase fits into the horizon, with ten arms."""
    return 10 * as_schedule(pulls).pulls(phase=1, horizon=horizon) <= horizon


_FITTED = [f"{name}{end}" for name in ("exponent", "slope") for end in ("", "_low", "_high")]


def fit_growth(
    totals: Mapping[int, FloatArray], *, seed: int, resampled: int = RESAMPLED
) -> dict[str, float] | None:
    """Return how regret grows, fitted to its means; None for fewer than three horizons.

    Replication r of every horizon is made from the same draws. The intervals therefore draw whole
    replications again, with all of their horizons.

    Parameters
    ----------
    totals : mapping of int to array of shape (replications,)
        Regrets by horizon.
    seed : int
        Of the resampling.
    resampled : int
        How often as many replications are drawn, with replacement.

    Returns
    -------
    dict
        ``exponent``: regret grows as (log T) to this power. ``slope``: by so much per unit of
        log T, if it grows as log T. ``exponent_low``, ``exponent_high``, ``slope_low`` and
        ``slope_high`` are the ends of their 95 % intervals.

    Examples
    --------
    >>> squares = {10**e: np.full(5, np.log(10**e) ** 2) for e in range(3, 10)}
    >>> found = fit_growth(squares, seed=1)
    >>> [round(found[name], 6) for name in ("exponent", "exponent_low", "exponent_high")]
    [2.0, 2.0, 2.0]
    """
    if len(totals) < _FEWEST_HORIZONS:
        return None
    logs = np.log(np.array(list(totals), dtype=np.float64))
    regrets = np.stack(list(totals.values()), axis=1)
    n = len(regrets)
    rng = np.random.default_rng(np.random.SeedSequence([seed, n]))
    drawn = rng.multinomial(n, np.full(n, 1 / n), size=resampled) @ regrets / n
    # The means themselves first, then those of what was drawn.
    means = np.vstack([regrets.mean(axis=0), drawn])
    slopes = np.stack([_slopes(np.log(logs), np.log(means)), _slopes(logs, means)])
    low, high = np.quantile(slopes[:, 1:], [0.025, 0.975], axis=1)
    fitted = np.stack([slopes[:, 0], low, high], axis=1)
    return dict(zip(_FITTED, fitted.ravel().tolist(), strict=True))


def _slopes(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the least-squares slope of every row of y against x.

    Examples
    --------
    >>> _slopes(np.array([1.0, 2.0, 4.0]), np.array([[3.0, 5.0, 9.0], [0.0, 0.0, 0.0]]))
    array([2., 0.])
    """
    around = x - x.mean()
    return np.asarray(y @ (around / (around @ around)))


def growth_table(table: Table) -> str:
    """Return exponents and slopes of all schedules as HTML.

    Parameters
    ----------
    table : Table
        From `scaling_table`.
    """
    groups: dict[str, list[Row]] = {}
    for number, title in _TITLES.items():
        for rows in _by_schedule(table, number).values():
            decided = sum(row["undecided"] <= _MOST_UNDECIDED for row in rows)
            row = {**rows[0], "decided": decided, "horizons": len(rows)}
            groups.setdefault(escape(title), []).append(row)
    return table_html("scaling", groups)


_TITLES = {2: "Fed2-UCB (Table 2)", 3: "Fed1-UCB (Table 3)"}
_ALGORITHMS = {2: Fed2Ucb.name, 3: Fed1Ucb.name}
_HEADING = (
    "flat: regret grows as log T; rising: faster than log T; bars: 95 % confidence intervals of "
    "means; hollow: more than 1 % of the games undecided"
)


# Of what is undecided: how much of its colour lines and points have.
_LIGHTER, _LIGHTER_POINTS = 0.35, 0.7
# The shape tells shades of one hue apart once more.
_MARKS: tuple[Mark, ...] = ("dot", "square", "triangle", "diamond", "down")


def scaling_chart(table: Table) -> Chart:
    """Return regret over log T against the horizon, one panel per table."""
    panels = [
        Plot(
            Axis("horizon T (slots)", log=True, form="power"),
            Axis("total regret / log T", low=0.0),
            _series(table, number),
            title=title,
        )
        for number, title in _TITLES.items()
    ]
    return Chart("scaling", panels, columns=2, key=_HEADING, size=(9.0, 5.0), legend="below")


_EXPONENT = ": exponent {exponent:.2f} ({exponent_low:.2f}–{exponent_high:.2f})"


def _by_schedule(table: Table, number: int) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each schedule of a table."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows_of(table, table=number):
        found.setdefault(row["schedule"], []).append(row)
    return found


def _series(table: Table, number: int) -> list[Series]:
    """Return regret over log T of every schedule of a table; hollow where games are undecided."""
    schedules = _by_schedule(table, number)
    colour_of = colours(list(schedules), [_ALGORITHMS[number]] * len(schedules))
    series = []
    for (schedule, rows), mark in zip(schedules.items(), cycle(_MARKS), strict=False):
        label = schedule
        if rows[0]["exponent"] is not None:
            label += _EXPONENT.format_map(rows[0])
        curve = replace(curve_of(label, rows, ("horizon", "mean"), colour_of[schedule]), mark=mark)
        rest = replace(curve, label="", group=label)
        path = replace(rest, half=None, mark="", width=1.2, opacity=_LIGHTER)
        (undecided,) = arrays(rows, "undecided")
        decided = undecided <= _MOST_UNDECIDED
        said = [f"{100 * share:.0f} % undecided" for share in undecided]
        points = replace(rest, width=0.0, hollow=True, opacity=_LIGHTER_POINTS, said=said)
        series += [path, _only(points, ~decided), _only(curve, decided)]
    return series


def _only(series: Series, places: BoolArray) -> Series:
    """Return a series with gaps at all other places."""
    return replace(series, y=np.where(places, series.y, np.nan).tolist())


PART = Part(
    key="scaling",
    heading="Tables 2 and 3: how regret grows with the horizon",
    cost=(2.0, 4.0),
    batches=scaling_batches,
    table=scaling_table,
    drawings={"scaling": Drawing(chart=scaling_chart)},
    show=lambda table: {
        "games": max(table["replications"]),
        "growth": growth_table(table),
        "times": RESAMPLED,
    },
)
