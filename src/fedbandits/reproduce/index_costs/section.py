"""The numbers as tables to read: on the page, and as Markdown for README and documentation."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from fedbandits.experiments.estimates import Estimate
from fedbandits.experiments.figures import NORMAL_95
from fedbandits.experiments.report.markup import figure, with_subscripts
from fedbandits.experiments.report.shown import Shown
from fedbandits.experiments.tables import Table
from fedbandits.experiments.wording import listed
from fedbandits.reproduce.index_costs.figures import GROWTH_CAPTION, TAILS_CAPTION
from fedbandits.reproduce.index_costs.tables import (
    CERTIFIED,
    FIRST,
    GROWING,
    HORIZONS,
    MOSS,
    OURS,
    POWERS,
    index_games,
)
from fedbandits.reproduce.part import rows_of

_POWER_NAMES = {0.5: "√log T", 1.0: "log T", 1.5: "(log T)^1.5", 2.0: "log² T"}
# R² that differ by less are not told apart in a table.
_DIGITS = 4


def shown_tables(tables: Mapping[str, Table]) -> dict[str, Shown]:
    """Return everything to read, by name.

    Parameters
    ----------
    tables : mapping of str to Table
        From `fedbandits.reproduce.index_costs.tables.index_costs_tables`.
    """
    found = (
        _brief(tables["games"]),
        _regrets(tables["games"]),
        _tails(tables["games"]),
        _growth(tables["growth"]),
        _fits(tables["fits"]),
        _movielens(tables["movielens"]),
    )
    return {shown.name: shown for shown in found}


BRIEF, REGRETS, TAILS = "In brief", "Total regret", "Tails and ends"
GROWTH, FITS, MOVIELENS = "Mean regret by horizon", "Growth with log T", "MovieLens as released"


def _brief(games: Table) -> Shown:
    """Return what the README repeats: one index beside certified elimination."""
    rows = []
    for key, title in _titles().items():
        ours, theirs = _row(games, key, MOSS), _row(games, key, CERTIFIED)
        rows.append(
            [
                title,
                _mean(games, theirs),
                _mean(games, ours),
                *(f"{games[name][ours]:,.0f}" for name in ("median", "q99", "worst")),
                *_ends(games, ours)[:2],
            ]
        )
    headings = (
        *("game", CERTIFIED, OURS, "median", "99 %", "worst"),
        *("wrong commits", "no commit by T"),
    )
    return Shown(name=BRIEF, headings=headings, rows=rows)


def _regrets(games: Table) -> Shown:
    rules = list(dict.fromkeys(games["rule"]))
    rows = [
        [title, *(_mean(games, _row(games, key, rule)) for rule in rules), _times(games, key)]
        for key, title in _titles().items()
    ]
    headings = ("game", *rules, f"{CERTIFIED} / moss")
    return Shown(name=REGRETS, headings=headings, rows=rows)


def _times(games: Table, key: str) -> str:
    row = _row(games, key, CERTIFIED)
    n = games["replications"][row]
    return Estimate(games["ratio"][row], games["ratio_stderr"][row], n).shown()


def _tails(games: Table) -> Shown:
    titles = _titles()
    rows = [
        [
            f"{titles[game]}: {rule}",
            f"{games['phases'][row]:.1f}",
            f"{games['clients'][row]:,.0f}",
            *(f"{games[name][row]:,.0f}" for name in ("median", "q95", "q99", "worst")),
            *_ends(games, row),
        ]
        for row, (game, rule) in enumerate(zip(games["game"], games["rule"], strict=True))
    ]
    headings = (
        *("game and rule", "phases", "clients", "median", "95 %", "99 %", "worst"),
        *("wrong commits", "no commit by T", "worse arm at the end"),
    )
    return Shown(name=TAILS, headings=headings, rows=rows)


def _ends(games: Table, row: int) -> list[str]:
    """Return how the games of a rule ended; of wrong commits with what their rate is at most."""
    return [
        f"{games['wrong'][row]:,} (≤ {1e4 * games['wrong_high'][row]:,.1f} in 10,000)",
        f"{games['undecided'][row]:,}",
        f"{games['worse_at_end'][row]:,}",
    ]


def _growth(growth: Table) -> Shown:
    titles = _titles()
    rows = [
        [titles[game], *(_mean(growth, row, "mean") for row in rows_of(growth, game=game))]
        for game in GROWING
    ]
    headings = ("game", *(f"T = {horizon:,}" for horizon in HORIZONS))
    return Shown(name=GROWTH, headings=headings, rows=rows)


def _fits(fits: Table) -> Shown:
    titles = _titles()
    rows = []
    for game in GROWING:
        for first in FIRST:
            (line,) = rows_of(fits, game=game, first=first, power=1.0)
            rows.append(
                [
                    f"{titles[game]}, from T = {first:,}",
                    f"{fits['slope'][line]:,.1f}",
                    f"± {fits['sampling_margin'][line]:,.1f}",
                    f"± {fits['residual_margin'][line]:,.1f}",
                    f"{fits['lai_robbins'][line]:,.0f}",
                    *(
                        f"{fits['r_squared'][row]:.{_DIGITS}f} ({_p(fits['misfit'][row])})"
                        for row in rows_of(fits, game=game, first=first)
                    ),
                ]
            )
    headings = (
        *("game", "slope", "from standard errors", "from residuals", "Lai and Robbins"),
        *(f"R² of {_POWER_NAMES[power]}" for power in POWERS),
    )
    return Shown(name=FITS, headings=headings, rows=rows)


def _p(value: float) -> str:
    return "p < 0.001" if value < 1e-3 else f"p = {value:.3f}"


def _movielens(movielens: Table) -> Shown:
    rows = []
    for row, algorithm in enumerate(movielens["algorithm"]):
        n = movielens["replications"][row]
        ratio = Estimate(movielens["ratio"][row], movielens["ratio_stderr"][row], n)
        rows.append(
            [
                algorithm,
                _mean(movielens, row),
                "1" if algorithm == OURS else ratio.shown(),
                f"{movielens['clients'][row]:,.0f}",
                f"{movielens['phases'][row]:.1f}",
                f"{movielens['wrong'][row]:,}",
                f"{movielens['undecided'][row]:,}",
            ]
        )
    headings = (
        *("algorithm", "total regret", f"times {OURS}", "clients", "phases"),
        *("wrong commits", "no commit by T"),
    )
    return Shown(name=MOVIELENS, headings=headings, rows=rows)


def _titles() -> dict[str, str]:
    return {game.key: game.title for game in index_games()}


def _row(games: Table, game: str, rule: str) -> int:
    return rows_of(games, game=game, rule=rule)[0]


def _mean(table: Table, row: int, column: str = "regret") -> str:
    return f"{table[column][row]:,.0f} ± {NORMAL_95 * table['stderr'][row]:,.0f}"


def index_costs_markdown(tables: Mapping[str, Table]) -> str:
    """Return all tables as Markdown, as README and documentation repeat them."""
    return "\n\n".join(
        f"## {name}\n\n{shown.markdown()}" for name, shown in shown_tables(tables).items()
    )


def index_costs_section(tables: Mapping[str, Table], images: Mapping[str, bytes]) -> str:
    """Return the section of the page.

    Parameters
    ----------
    tables : mapping of str to Table
        From `fedbandits.reproduce.index_costs.tables.index_costs_tables`.
    images : mapping of str to bytes
        The figures "tails" and "growth", as PNG.
    """
    pictures = {
        name: figure(images[name], alt=alt, caption=with_subscripts(caption))
        for name, alt, caption in (
            ("tails", "Share of games with as much regret or more, on three games.", TAILS_CAPTION),
            ("growth", "Mean regret against the horizon, on two games.", GROWTH_CAPTION),
        )
    }
    shown = {name: table.html() for name, table in shown_tables(tables).items()}
    games, growth, movielens = (
        max(tables[name]["replications"]) for name in ("games", "growth", "movielens")
    )
    return f"""<p>Elimination pulls all arms that are left equally often; <code>fed-index</code>
pulls what may still be the best. With the same defaults on all games its mean regret is a fraction
of elimination's on the same draws. It promises no error probability, so that its tail is shown as
well, and how its games ended. {games:,} games each, T = 1,000,000, C = 1.</p>
{shown[REGRETS]}
{pictures["tails"]}
{shown[TAILS]}
<p>A wrong commit is for good; in brackets stands where the 95&nbsp;% interval of its rate ends
(Clopper and Pearson). Without a commit by T the rule was still asking. “Worse arm at the end”:
another arm than the best was played at some time in the last hundredth of the horizon, whether by a
commit, by a wrong leader, or to try it once more.</p>
<h3>Growth with the horizon</h3>
<p>{growth:,} games a point, of draws of its own. {_which_power_fits(tables["fits"])}</p>
{pictures["growth"]}
{shown[GROWTH]}
{shown[FITS]}
<p>Slopes are regret for every unit of log T, by least squares weighted with the standard errors of
the means. The first interval takes the line for granted and asks what other games would change; the
second asks how far the means are from the line, and is wide where they lie on a curve. In brackets:
how likely means would be as far from a curve of this power if they lay on one.</p>
<h3>MovieLens as released</h3>
<p>{movielens:,} games each, on the same draws.</p>
{shown[MOVIELENS]}"""


def _which_power_fits(fits: Table) -> str:
    """Return in words which powers of log T the means do not refute, game by game."""
    titles = _titles()
    said = []
    for game in GROWING:
        for first in FIRST:
            rows = rows_of(fits, game=game, first=first)
            best = max(rows, key=lambda row: float(fits["r_squared"][row]))
            kept = [row for row in rows if fits["misfit"][row] >= _REFUTED]
            refuted = (
                f"do not refute {listed(_POWER_NAMES[fits['power'][row]] for row in kept)}"
                if kept
                else "refute all four powers"
            )
            said.append(
                f"{titles[game]} from T = {first:,} on they {refuted}, and"
                f" {_POWER_NAMES[fits['power'][best]]} has the highest R²"
            )
    listing = "; on ".join(said)
    return escape(
        f"Means can refute that regret grows as a power of log T (here at level {_REFUTED:g}). On"
        f" {listing}. Six horizons say no more than that."
    )


_REFUTED = 0.01
"""A power is refuted when its misfit has a smaller p-value."""
