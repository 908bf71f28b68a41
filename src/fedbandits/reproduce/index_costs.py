"""What index rules cost: the paper's games, how regret grows with the horizon, and MovieLens.

Index rules promise no error probability, so what they do has to be measured: means beside
elimination on the same draws, tails, commitments to a wrong arm, and games without a commitment.
Defaults throughout, nothing is tuned to a game. Claimed for these games only.
"""

from dataclasses import dataclass, replace
from html import escape
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
from scipy.special import chdtrc, stdtrit

from fedbandits.experiments.game_means import GameMean
from fedbandits.problems.problem import Problem
from fedbandits.report.chart import NORMAL_95, Axis, Chart, Plot, Series
from fedbandits.report.palette import FAINT, colours
from fedbandits.report.shown import Shown
from fedbandits.report.wording import listed
from fedbandits.reproduce import part
from fedbandits.reproduce.catalogue import paper_experiment
from fedbandits.reproduce.findings import share_of
from fedbandits.reproduce.movielens.groups import as_released
from fedbandits.reproduce.texts import Row, shown_table
from fedbandits.rules.algorithms import Algorithm, FedIndex
from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.rules.radii import CertifiedRadius
from fedbandits.simulation import Simulation, Variant
from fedbandits.simulation.tables import Table, arrays, as_columns, rows_of
from fedbandits.theory.orders import lai_robbins_slope

Tables: TypeAlias = dict[str, Table]
"""By name: "games", "tails", "growth", "fits" and "movielens"."""

REPLICATIONS = 10_000
GROWTH_REPLICATIONS = 2_000
MOVIELENS_REPLICATIONS = 400
HORIZON = 1_000_000
HORIZONS = tuple(10**power for power in range(4, 10))
# As in the part "rules", whose columns of elimination are on the same games and draws.
SEED = 2022

MOSS, UCB2, UCB = "fed-index, moss", "fed-index, ucb2", "fed-index, ucb"
CERTIFIED, AUTHORS = "certified elimination", "authors' constants"
OURS, PAPERS = "fed-index", "Fed2-UCB, f = 200"
GROWING = ("fig3-5", "fig4")
"""The games whose horizon varies."""

POWERS = (0.5, 1.0, 1.5, 2.0)
"""Of log T, that are fitted."""

FIRST = (HORIZONS[0], HORIZONS[1])
"""From which horizon on they are fitted: the first is too short for some games."""

QUANTILES = {"median": 0.5, "q95": 0.95, "q99": 0.99}
# Curves have so many points: what is played after the last but one is the end of a game.
_GRID = 100


@dataclass(frozen=True, slots=True)
class RuledGame:
    """A game that all rules are tried on.

    Parameters
    ----------
    title : str
        What people call it.
    problem : Problem
        What is played.
    algorithms : dict
        By the name of their rule.
    """

    title: str
    problem: Problem
    algorithms: dict[str, Algorithm]


def index_games() -> dict[str, RuledGame]:
    """Return the paper's games with index rules and elimination, all with their defaults, by key.

    Elimination has the authors' schedules, with the certified radius and with their own constants.
    If clients join, certified elimination weighs cohorts by their variance.
    """
    five, ten, *_ = paper_experiment("fig3").variants
    sampled = paper_experiment("fig4").variants[0]
    games = {}
    for key, title, variant, settings in (
        ("fig3-5", "figure 3, 5 clients", five, {}),
        ("fig3-10", "figure 3, 10 clients", ten, {}),
        ("fig4", "figure 4", sampled, {"weights": "inverse-variance"}),
    ):
        authors: Any = variant.algorithm
        algorithms = {
            MOSS: FedIndex(index="moss"),
            UCB2: FedIndex(index="ucb2"),
            UCB: FedIndex(index="ucb"),
            CERTIFIED: replace(authors, radius=CertifiedRadius(), **settings),
            AUTHORS: authors,
        }
        games[key] = RuledGame(title, variant.problem, algorithms)
    return games


def games_batch(
    *, rules: tuple[str, ...] = (MOSS, UCB2, UCB, CERTIFIED, AUTHORS), seed: int = SEED
) -> part.Batch:
    """Return rules on the paper's games; all rules of a game share its draws."""
    settings = {
        (key, rule): {"problem": game.problem, "algorithm": game.algorithms[rule]}
        for key, game in index_games().items()
        for rule in rules
    }
    return part.Batch(part.labelled(settings), HORIZON, REPLICATIONS, seed, grid_points=_GRID)


def growth_batches(*, seed: int = SEED) -> list[part.Batch]:
    """Return ``fed-index`` on two games at every horizon.

    Each horizon has its own seed, so that the means are independent, as the weights and intervals
    of a line through them assume.
    """
    games = index_games()
    batches = []
    for number, horizon in enumerate(HORIZONS, 1):
        settings = {
            (key, horizon): {"problem": games[key].problem, "algorithm": FedIndex()}
            for key in GROWING
        }
        batches.append(
            part.Batch(part.labelled(settings), horizon, GROWTH_REPLICATIONS, seed + number)
        )
    return batches


def movielens_batch() -> part.Batch:
    """Return ``fed-index`` and Fed2-UCB on MovieLens as its authors released it."""
    papers = paper_experiment("fig6").variants[0].algorithm
    ours = Variant(label=OURS, problem=as_released(spread=0.02), algorithm=FedIndex())
    variants = {OURS: ours, PAPERS: replace(ours, label=PAPERS, algorithm=papers)}
    return part.Batch(variants, HORIZON, MOVIELENS_REPLICATIONS, SEED)


def index_costs_tables(runs: part.Runs) -> Tables:
    """Return all tables.

    Returns
    -------
    dict
        "games": one row per game and rule; "tails": which share of its games has how much regret
        or more; "growth": one row per game and horizon; "fits": one row per game, first horizon
        and power of log T; "movielens": one row per algorithm.
    """

    def of(batches: list[part.Batch]) -> part.Runs:
        return {key: runs[key] for batch in batches for key in batch.variants}

    played, growth = of([games_batch()]), growth_table(of(growth_batches()))
    return {
        "games": games_table(played),
        "tails": _tails_table(played),
        "growth": growth,
        "fits": fits_table(growth),
        "movielens": movielens_table(of([movielens_batch()])),
    }


def games_table(runs: part.Runs) -> Table:
    """Return one row per game and rule: regret, its tail, and how the games ended.

    ``ratio`` is to the first rule of a game, over the same draws. ``wrong`` counts commitments to
    another arm than the best, ``undecided`` games without a commitment, and ``worse_at_end`` games
    in whose last hundredth a worse arm was still played, committed to or not.
    """
    rows = []
    first: dict[str, Simulation] = {}
    for (game, rule), run in runs.items():
        total = run.games.total
        rows.append(
            {
                "game": game,
                "rule": rule,
                **part.costs_of(run),
                **part.ratio_columns(run, first.setdefault(game, run)),
                **{name: float(np.quantile(total, level)) for name, level in QUANTILES.items()},
                "worst": float(total.max()),
                "wrong_high": share_of(part.chose_wrong(run), "wrong")["high"],
                "worse_at_end": int(_worse_at_end(run).sum()),
            }
        )
    return as_columns(rows)


def _worse_at_end(run: Simulation) -> BoolArray:
    """Return in which games a worse arm is played after the last but one point of the curves."""
    curves = run.games.exploration_curves
    # If no regret was added, what is left is rounding.
    return np.asarray(curves[:, -1] - curves[:, -2] > 1e-9 * curves[:, -1])


def _tails_table(runs: part.Runs) -> Table:
    """Return, for each game and rule, how much regret a share of the games has at least."""
    rows = []
    for (game, rule), run in runs.items():
        ordered = np.sort(run.games.total)[::-1]
        n = ordered.size
        ranks = np.unique([*np.geomspace(1, n, 121), *np.linspace(0.8, 1.0, 41) * n]).round()
        rows += [
            {"game": game, "rule": rule, "share": rank / n, "regret": float(ordered[rank - 1])}
            for rank in sorted({max(1, int(rank)) for rank in ranks.tolist()})
        ]
    return as_columns(rows)


def growth_table(runs: part.Runs) -> Table:
    """Return the regret of ``fed-index`` by game and horizon."""
    return as_columns(
        [{"game": game, "horizon": at, **part.costs_of(run)} for (game, at), run in runs.items()]
    )


def fits_table(growth: Table) -> Table:
    """Return lines through the means of `growth_table` against powers of log T.

    ``lai_robbins`` is the slope of Lai and Robbins for one player with these means and this noise:
    the least that a line against log T can have in the end.
    """
    rows = []
    for key in GROWING:
        problem = index_games()[key].problem
        slope = lai_robbins_slope(problem.means, noise="gaussian", sigma=problem.noise_proxy)
        for first in FIRST:
            horizons, means, errors = points(growth, key, first)
            for power in POWERS:
                fitted = fit_power(horizons, means, errors, power)
                fitted |= {"lai_robbins": slope}
                rows.append({"game": key, "first": first, "power": power, **fitted})
    return as_columns(rows)


def fit_power(
    horizons: FloatArray, means: FloatArray, errors: FloatArray, power: float
) -> dict[str, float]:
    """Return the line through independent means against a power of log T, weighted by precision.

    Parameters
    ----------
    horizons, means, errors : array of shape (n,)
        T, mean regret, and its standard error; at least three.
    power : float
        Of log T.

    Returns
    -------
    dict
        ``slope`` and ``intercept``: regret per unit of that power, and at 0.

        ``sampling_margin``: half of the slope's 95 % interval from the standard errors of the
        means, that is, what other games of the same horizons would change. It takes for granted
        that the line is the right curve.

        ``residual_margin``: the same from how far the means are from the line, by Student's t. It
        is wide if the line is not the right curve, and then no interval of anything that exists.

        ``r_squared``: the part of the weighted variance of the means that the line explains.

        ``misfit``: a p-value, how likely means of games that lie on a line would be as far from
        one.

    Examples
    --------
    >>> horizons = 10.0 ** np.arange(4, 10)
    >>> found = fit_power(horizons, 7 + 3 * np.log(horizons), np.full(6, 0.1), 1.0)
    >>> [round(found[name], 6) for name in ("slope", "intercept", "misfit")]
    [3.0, 7.0, 1.0]
    """
    x, free = np.log(horizons) ** power, means.size - 2
    (slope, intercept), covariance = np.polyfit(x, means, 1, w=1 / errors, cov="unscaled")
    error = float(covariance[0, 0]) ** 0.5
    around = (means - np.average(means, weights=errors**-2.0)) / errors
    left = (means - slope * x - intercept) / errors
    misfit = float(left @ left)
    return {
        "slope": float(slope),
        "intercept": float(intercept),
        "sampling_margin": NORMAL_95 * error,
        "residual_margin": float(stdtrit(free, 0.975)) * error * (misfit / free) ** 0.5,
        "r_squared": 1 - misfit / float(around @ around),
        "misfit": float(chdtrc(free, misfit)),
    }


def points(growth: Table, game: str, first: int) -> list[FloatArray]:
    """Return horizons from ``first`` on, mean regrets and their standard errors, of a game."""
    rows = [row for row in rows_of(growth, game=game) if row["horizon"] >= first]
    return arrays(rows, "horizon", "regret", "stderr")


def movielens_table(runs: part.Runs) -> Table:
    """Return what ``fed-index`` and Fed2-UCB cost on MovieLens as its authors released it.

    ``ratio`` is to that of ``fed-index``, over the same draws.
    """
    rows = [
        {"algorithm": label, **part.costs_of(run), **part.ratio_columns(run, runs[OURS])}
        for label, run in runs.items()
    ]
    return as_columns(rows)


# On the page --------------------------------------------------------------------------------------


_POWER_NAMES = {0.5: "√log T", 1.0: "log T", 1.5: "(log T)^1.5", 2.0: "log² T"}
_MEAN = "{regret:,.0f} ± {half:,.0f}"


def shown_tables(tables: Tables) -> dict[str, Shown]:
    """Return everything to read, by what the text of the section calls it.

    Parameters
    ----------
    tables : dict of str to Table
        From `index_costs_tables`.
    """
    games = [
        {**row, "title": _titled(row["game"]), "wrong_in_10_000": 1e4 * row["wrong_high"]}
        for row in rows_of(tables["games"])
    ]
    movielens = [
        {**row, "times": _times(row) if row["ratio_stderr"] else "1"}
        for row in rows_of(tables["movielens"])
    ]
    beside = _side_by_side(games)
    rules = list(dict.fromkeys(tables["games"]["rule"]))
    return {
        "regrets": Shown(
            name="Total regret",
            headings=["game", *rules, f"{CERTIFIED} / moss"],
            rows=[[row[name] for name in ("title", *rules, "times")] for row in beside],
        ),
        "tails": shown_table("index-tails", games),
        "growth": _growth(tables["growth"]),
        "fits": shown_table("index-fits", _fits(tables["fits"])),
        "movielens": shown_table("index-movielens", movielens),
    }


def _titled(game: str) -> str:
    return index_games()[game].title


def _side_by_side(games: list[dict[str, Any]]) -> list[Row]:
    """Return a row for every game: that of one index, with the mean regret of every rule."""
    rows: list[Row] = []
    for game in dict.fromkeys(row["game"] for row in games):
        rules = {row["rule"]: row for row in games if row["game"] == game}
        means = {rule: _MEAN.format_map(row) for rule, row in rules.items()}
        rows.append({**rules[MOSS], **means, "times": _times(rules[CERTIFIED])})
    return rows


def _times(row: Row) -> str:
    return GameMean(row["ratio"], row["ratio_stderr"], row["replications"]).shown()


def _growth(growth: Table) -> Shown:
    by_game = {game: rows_of(growth, game=game) for game in GROWING}
    return Shown(
        name="Mean regret by horizon",
        headings=["game", *(f"T = {row['horizon']:,}" for row in by_game[GROWING[0]])],
        rows=[
            [_titled(game), *(_MEAN.format_map(row) for row in rows)]
            for game, rows in by_game.items()
        ],
    )


def _fits(fits: Table) -> list[Row]:
    rows: list[Row] = []
    for line in rows_of(fits, power=1.0):
        same = rows_of(fits, game=line["game"], first=line["first"])
        explained = [_explained(row) for row in same]
        rows.append({**line, "explained": explained, "title": _titled(line["game"])})
    return rows


def _explained(row: Row) -> str:
    p = "p < 0.001" if row["misfit"] < 1e-3 else f"p = {row['misfit']:.3f}"
    return f"{row['r_squared']:.4f} ({p})"


def index_costs_markdown(tables: Tables) -> str:
    """Return all tables as Markdown, as README and documentation repeat them."""
    shown = shown_tables(tables).values()
    return "\n\n".join(f"## {table.name}\n\n{table.markdown()}" for table in shown) + "\n"


def index_costs_values(tables: Tables) -> dict[str, object]:
    """Return what the text of the section has in braces.

    Parameters
    ----------
    tables : dict of str to Table
        From `index_costs_tables`.
    """
    return {
        **{key: shown.html() for key, shown in shown_tables(tables).items()},
        "games": max(tables["games"]["replications"]),
        "growth_games": max(tables["growth"]["replications"]),
        "movielens_games": max(tables["movielens"]["replications"]),
        "powers": _which_power_fits(tables["fits"]),
    }


def _which_power_fits(fits: Table) -> str:
    """Return in words which powers of log T the means do not refute, game by game."""
    said = []
    for game in GROWING:
        for first in FIRST:
            rows = rows_of(fits, game=game, first=first)
            best = max(rows, key=lambda row: float(row["r_squared"]))
            kept = [_POWER_NAMES[row["power"]] for row in rows if row["misfit"] >= _REFUTED]
            refuted = f"do not refute {listed(kept)}" if kept else "refute all four powers"
            said.append(
                f"{_titled(game)} from T = {first:,} on they {refuted}, and"
                f" {_POWER_NAMES[best['power']]} has the highest R²"
            )
    return escape(
        f"Means can refute that regret grows as a power of log T (here at level {_REFUTED:g}). On"
        f" {'; on '.join(said)}. Six horizons say no more than that."
    )


_REFUTED = 0.01
"""A power is refuted when its misfit has a smaller p-value."""


_LINE = "line from T = {first:,} on: slope {slope:,.0f} ± {sampling_margin:.1f}"
TAILED = (MOSS, CERTIFIED, AUTHORS)
"""The rules whose tails are drawn."""


def tails_chart(tables: Tables) -> Chart:
    """Return the share of games with as much regret or more, one panel per game."""
    ticks = {float(regret): f"{regret:,}" for regret in (500, 1_000, 2_000, 5_000, 10_000)}
    across = Axis("total regret at T = 1,000,000", log=True, low=300.0, ticks=ticks)
    share = Axis("share of the games with as much or more", log=True, form="percent")
    panels = []
    for key, game in index_games().items():
        colour_of = colours(TAILED, [game.algorithms[rule].name for rule in TAILED])
        series: list[Series] = []
        for rule in TAILED:
            drawn = arrays(rows_of(tables["tails"], game=key, rule=rule), "regret", "share")
            x, y = (column.tolist() for column in drawn)
            series += [
                Series(rule, x, y, colour_of[rule], width=1.6),
                # The worst of all games.
                Series("", x[:1], y[:1], colour_of[rule], group=rule, mark="dot", width=0.0),
            ]
        panels.append(Plot(across, share, series, title=_capital(game.title)))
    return Chart("tails", panels, columns=3, aligned=True, size=(10.4, 4.4), legend="below")


def growth_chart(tables: Tables) -> Chart:
    """Return mean regret against log T with the lines that are fitted, one panel per game."""
    panels = [
        Plot(
            Axis("horizon T (slots)", log=True, form="power"),
            Axis("mean total regret", low=0.0),
            _growth_lines(tables["growth"], tables["fits"], game),
            title=_capital(_titled(game)),
        )
        for game in GROWING
    ]
    return Chart("growth", panels, columns=2, size=(9.0, 4.8), legend="below")


def _growth_lines(growth: Table, fits: Table, game: str) -> list[Series]:
    horizons, means, errors = points(growth, game, FIRST[0])
    x, logs = horizons.tolist(), np.log(horizons)
    colour = colours([MOSS], [FedIndex.name])[MOSS]
    series = []
    for first, dash in zip(FIRST, ((4.0, 2.0), ()), strict=True):
        (row,) = rows_of(fits, game=game, first=first, power=1.0)
        line = (row["intercept"] + row["slope"] * logs).tolist()
        series.append(Series(_LINE.format_map(row), x, line, colour, dash=dash, width=1.2))
    slope = fits["lai_robbins"][0]
    least, half = (slope * logs).tolist(), (NORMAL_95 * errors).tolist()
    return [
        *series,
        Series(f"Lai and Robbins: {slope:,.0f} log T", x, least, FAINT, dash=(1.0, 2.0)),
        Series("mean of fed-index", x, means.tolist(), colour, half=half, mark="dot", width=0.0),
    ]


def _capital(title: str) -> str:
    return title[0].upper() + title[1:]


PART = part.Part(
    key="index-rules",
    heading="Index rules: less regret than elimination, and what is only measured",
    cost=(2.0, 14.0),
    batches=lambda: [games_batch(), *growth_batches(), movielens_batch()],
    table=index_costs_tables,
    drawings={
        "tails": part.Drawing(chart=tails_chart, drawn=itemgetter("tails")),
        "growth": part.Drawing(chart=growth_chart, drawn=itemgetter("growth")),
    },
    files=lambda _, tables: {"tables.md": index_costs_markdown(tables)},
    show=index_costs_values,
)
