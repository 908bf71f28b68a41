"""What each rule costs: the paper's games once more, with every radius of the package.

The paper's radius is safe and wide; its authors tuned its constants by hand and lost the guarantee.
Claimed for these games only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fedbandits.experiments.figures import NORMAL_95, PALETTE
from fedbandits.experiments.figures.style import house_style
from fedbandits.experiments.fingerprint import hashed
from fedbandits.experiments.tables import Table, chose_best
from fedbandits.problems.approximate import Approximate
from fedbandits.problems.exact import Exact
from fedbandits.problems.laws import Bernoulli, Beta
from fedbandits.problems.problem import Problem
from fedbandits.reproduce.catalogue import experiment_text, paper_experiment
from fedbandits.rules.algorithms import Algorithm, Fed1Ucb, Fed2Ucb
from fedbandits.rules.radii import (
    BernsteinRadius,
    CertifiedRadius,
    ChernoffRadius,
    JointRadius,
    PairedTRadius,
    PairwiseRadius,
    PaperRadius,
    Radius,
)
from fedbandits.simulation.simulator import (
    Progress,
    Variant,
    build_rules,
    guarantee_of,
    simulate_all,
)

REPLICATIONS = 10_000
# Clients are drawn one by one where outcomes are rates, or a rule looks at each of them.
FEWER = 200
HORIZON = 1_000_000
SEED = 2022

# Of rules that guarantee nothing.
_PALE = "#c4c9ce"

CAPTION = """Mean total regret at T = 1,000,000 with C = 1 and 95 % confidence intervals; pale bars
are of rules without a guarantee. Claimed for these games only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuledGame:
    """A game that all rules are tried on.

    Parameters
    ----------
    key, title : str
        What files and people call it.
    problem : Problem
        What is played.
    algorithms : dict
        By the name of their rule.
    replications : int
        How many games each.
    """

    key: str
    title: str
    problem: Problem
    algorithms: dict[str, Algorithm]
    replications: int


def ruled_games() -> list[RuledGame]:
    """Return figure 4's game, figure 3's with five clients, and two of low rates."""

    def fed2(radius: Radius, **settings: Any) -> Fed2Ucb:
        return Fed2Ucb(pulls=100, admissions="2^p", radius=radius, **settings)

    def fed1(radius: Radius) -> Fed1Ucb:
        return Fed1Ucb(pulls="ceil(10*log(T))", radius=radius)

    by_variance: dict[str, Any] = {"weights": "inverse-variance"}
    fourth = paper_experiment("fig4-theory").variants[0].problem
    third = paper_experiment("fig3-theory").variants[0].problem
    low = [0.02, 0.022, 0.025, 0.04]
    sampled = Approximate(means=low, noise=Bernoulli(), spread=Beta(0.005), name="rates")
    # From half to one and a half times the rate.
    given = Exact(
        local_means=[[(0.5 + m / 19) * rate for rate in low] for m in range(20)],
        noise=Bernoulli(),
        name="given rates",
    )
    return [
        RuledGame(
            key="fig4",
            title="Figure 4's game (Fed2-UCB)",
            problem=fourth,
            replications=REPLICATIONS,
            algorithms={
                "paper": fed2(PaperRadius()),
                "joint": fed2(JointRadius()),
                "pairwise": fed2(PairwiseRadius()),
                "pairwise, weighted": fed2(PairwiseRadius(), **by_variance),
                "authors' tuned constants": fed2(PaperRadius(arm=1.0, client=1.0)),
                "certified": fed2(CertifiedRadius()),
                "certified, weighted": fed2(CertifiedRadius(), **by_variance),
            },
        ),
        RuledGame(
            key="fig3",
            title="Figure 3's game, 5 clients (Fed1-UCB)",
            problem=third,
            replications=REPLICATIONS,
            algorithms={
                "paper": fed1(PaperRadius()),
                "pairwise": fed1(PairwiseRadius()),
                "authors' tuned constants": fed1(PaperRadius(arm=4.0)),
                "certified": fed1(CertifiedRadius()),
            },
        ),
        RuledGame(
            key="rates",
            title="Rates of 2 to 4 %, clients drawn (Fed2-UCB)",
            problem=sampled,
            replications=FEWER,
            algorithms={
                "certified": fed2(CertifiedRadius()),
                "bernstein": fed2(BernsteinRadius()),
                "paired-t": fed2(PairedTRadius()),
            },
        ),
        RuledGame(
            key="given-rates",
            title="Rates of 2 to 4 %, 20 given clients (Fed1-UCB)",
            problem=given,
            replications=FEWER,
            algorithms={
                "certified": fed1(CertifiedRadius()),
                "bernstein": fed1(BernsteinRadius()),
                "chernoff": fed1(ChernoffRadius()),
            },
        ),
    ]


def rule_costs_table(
    *,
    games: int | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Table:
    """Simulate every game with every rule.

    Parameters
    ----------
    games : int, optional
        At most so many of each, for a quick look.
    workers, progress
        As in `simulate_all`.

    Returns
    -------
    Table
        A row a game and rule: regret with its standard error, clients, phases, in how many games
        the best arm was lost, and what the rule guarantees.
    """
    table: Table = {
        name: []
        for name in (
            *("game", "rule", "regret", "stderr", "clients", "phases"),
            *("lost", "replications", "guarantee", "proven"),
        )
    }
    for game in ruled_games():
        variants = [
            Variant(label=rule, problem=game.problem, algorithm=algorithm)
            for rule, algorithm in game.algorithms.items()
        ]
        n = _games(game, games)
        runs = simulate_all(
            variants,
            horizon=HORIZON,
            replications=n,
            seed=SEED,
            grid_points=1,
            workers=workers,
            progress=progress,
            warn=False,
        )
        rules = build_rules(variants, HORIZON)
        for run, (rule, _) in zip(runs, rules, strict=True):
            total, proven = run.outcome.total, guarantee_of(run.variant, rule)
            row = {
                "game": game.key,
                "rule": run.variant.label,
                "regret": float(total.mean()),
                "stderr": float(total.std(ddof=1) / math.sqrt(n)),
                "clients": float(run.outcome.clients.mean()),
                "phases": float(run.outcome.phases.mean()),
                "lost": int((~chose_best(run)).sum()),
                "replications": n,
                "guarantee": proven.words(),
                "proven": proven.holds,
            }
            for name, value in row.items():
                table[name].append(value)
    return table


def _games(game: RuledGame, games: int | None) -> int:
    # A standard error takes two.
    return max(2, min(game.replications, games or game.replications))


def rule_costs_replications(games: int | None) -> int:
    """Return how many replications `rule_costs_table` simulates, given how many were asked for."""
    return sum(len(game.algorithms) * _games(game, games) for game in ruled_games())


def rule_costs_fingerprint(games: int | None) -> str:
    """Return what the table depends on, as a hash."""
    texts = [experiment_text(name) for name in ("fig4-theory", "fig3-theory")]
    played = [
        (game.key, [repr(algorithm) for algorithm in game.algorithms.values()], game.replications)
        for game in ruled_games()
    ]
    return hashed([texts, played, HORIZON, SEED, games])


def rule_costs_figure(table: Table) -> Figure:
    """Draw a bar for every rule, a panel a game; rules without a guarantee are pale."""
    games = ruled_games()
    with house_style():
        heights = [len(game.algorithms) + 0.9 for game in games]
        figure = Figure(figsize=(8.4, 0.36 * sum(heights)), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(len(games), 1, height_ratios=heights)
        for axes, game in zip(panels, games, strict=True):
            rows = [i for i, key in enumerate(table["game"]) if key == game.key]
            widths = [table["regret"][i] for i in rows]
            axes.barh(
                range(len(rows)),
                widths,
                xerr=[NORMAL_95 * table["stderr"][i] for i in rows],
                color=[PALETTE[0] if table["proven"][i] else _PALE for i in rows],
                height=0.62,
                error_kw={"elinewidth": 1.0, "capsize": 2.0},
            )
            for place, i in enumerate(rows):
                axes.text(
                    table["regret"][i] + 0.015 * max(widths),
                    place,
                    f"  {table['regret'][i]:,.0f}",
                    va="center",
                    size=8.5,
                )
            axes.set_yticks(range(len(rows)), [table["rule"][i] for i in rows])
            axes.invert_yaxis()
            axes.set_xlim(0, 1.14 * max(widths))
            axes.set_title(game.title, loc="left", fontweight="bold", size=10.0)
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(axis="y", length=0)
        panels[-1].set_xlabel("mean total regret (pale: no guarantee)")
    return figure


def rule_costs_html(table: Table) -> str:
    """Return the table of what each rule costs and guarantees, as HTML."""
    bodies = []
    for game in ruled_games():
        rows = "\n".join(
            f'<tr><th scope="row">{escape(table["rule"][i])}</th>'
            f"<td>{table['regret'][i]:,.0f} ± {NORMAL_95 * table['stderr'][i]:,.0f}</td>"
            f"<td>{table['clients'][i]:,.0f}</td><td>{table['phases'][i]:,.1f}</td>"
            f"<td>{table['lost'][i]:,} of {table['replications'][i]:,}</td>"
            f'<td class="words">{escape(table["guarantee"][i])}</td></tr>'
            for i, key in enumerate(table["game"])
            if key == game.key
        )
        heading = f'<tr><th colspan="6" scope="rowgroup">{escape(game.title)}</th></tr>'
        bodies.append(f"<tbody>\n{heading}\n{rows}\n</tbody>")
    return f"""<p>The radius decides how long every arm is tried. The paper's is safe and wide; the
constants that its authors tuned by hand are faster and prove nothing. Sharper rules are faster than
those <em>and</em> keep a proof. ± is a 95&nbsp;% interval; claimed for these games only.</p>
<div class="scroll" role="region" aria-label="Rules" tabindex="0">
<table>
<thead><tr><th scope="col">rule</th><th scope="col">total regret</th><th scope="col">clients</th>
<th scope="col">phases</th><th scope="col">best arm not found</th>
<th scope="col" class="words">what it guarantees</th></tr></thead>
{"".join(bodies)}
</table>
</div>"""
