"""What each rule costs: the paper's games once more, with every radius of the package.

The paper's radius is safe and wide; its authors tuned its constants by hand and lost the guarantee.
Claimed for these games only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from matplotlib.figure import Figure

from fedbandits.experiments.figures import NORMAL_95, PALETTE, style
from fedbandits.experiments.report import markup
from fedbandits.experiments.tables import Table, chose_best
from fedbandits.problems.approximate import Approximate
from fedbandits.problems.exact import Exact
from fedbandits.problems.laws import Bernoulli, Beta
from fedbandits.problems.problem import Problem
from fedbandits.reproduce.catalogue import RULES, paper_experiment
from fedbandits.reproduce.part import Batch, Drawing, Part, Runs, as_columns, costs_of, rows_of
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
from fedbandits.simulation.simulator import Variant, guarantee_of

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


def rule_costs_batches() -> list[Batch]:
    """Return every game with every rule."""
    return [
        Batch(
            variants={
                (game.key, rule): Variant(label=rule, problem=game.problem, algorithm=algorithm)
                for rule, algorithm in game.algorithms.items()
            },
            horizon=HORIZON,
            replications=game.replications,
            seed=SEED,
        )
        for game in ruled_games()
    ]


def rule_costs_table(runs: Runs) -> Table:
    """Return a row a game and rule: what it cost, and what the rule guarantees.

    ``lost`` counts the games in which the best arm was not found.
    """
    proven = {key: guarantee_of(run.variant, run.rule) for key, run in runs.items()}
    return as_columns(
        [
            {
                "game": game,
                "rule": rule,
                **costs_of(run),
                "lost": int((~chose_best(run)).sum()),
                "guarantee": proven[game, rule].words(),
                "proven": proven[game, rule].holds,
            }
            for (game, rule), run in runs.items()
        ]
    )


def rule_costs_figure(costs: Table) -> Figure:
    """Draw a bar for every rule, a panel a game; rules without a guarantee are pale."""
    games = ruled_games()
    heights = [len(game.algorithms) + 0.9 for game in games]
    with style.new_figure(8.4, 0.36 * sum(heights)) as figure:
        panels = figure.subplots(len(games), 1, height_ratios=heights)
        for axes, game in zip(panels, games, strict=True):
            rows = rows_of(costs, game=game.key)
            widths = [costs["regret"][i] for i in rows]
            axes.barh(
                range(len(rows)),
                widths,
                xerr=[NORMAL_95 * costs["stderr"][i] for i in rows],
                color=[PALETTE[0] if costs["proven"][i] else _PALE for i in rows],
                height=0.62,
                error_kw={"elinewidth": 1.0, "capsize": 2.0},
            )
            for place, i in enumerate(rows):
                axes.text(
                    costs["regret"][i] + 0.015 * max(widths),
                    place,
                    f"  {costs['regret'][i]:,.0f}",
                    va="center",
                    size=8.5,
                )
            axes.set_yticks(range(len(rows)), [costs["rule"][i] for i in rows])
            axes.invert_yaxis()
            axes.set_xlim(0, 1.14 * max(widths))
            style.head(axes, game.title)
            style.whole_numbers(axes.xaxis)
            style.open_frame(axes)
            axes.tick_params(axis="y", length=0)
        panels[-1].set_xlabel("mean total regret (pale: no guarantee)")
    return figure


def rule_costs_html(costs: Table) -> str:
    """Return the table of what each rule costs and guarantees, as HTML."""
    groups = {
        escape(game.title): [
            markup.row(
                escape(costs["rule"][i]),
                f"{costs['regret'][i]:,.0f} ± {NORMAL_95 * costs['stderr'][i]:,.0f}",
                f"{costs['clients'][i]:,.0f}",
                f"{costs['phases'][i]:,.1f}",
                f"{costs['lost'][i]:,} of {costs['replications'][i]:,}",
                markup.Words(escape(costs["guarantee"][i])),
            )
            for i in rows_of(costs, game=game.key)
        ]
        for game in ruled_games()
    }
    headings = (
        *("rule", "total regret", "clients", "phases", "best arm not found"),
        markup.Words("what it guarantees"),
    )
    return f"""<p>The radius decides how long every arm is tried. The paper's is safe and wide; the
constants that its authors tuned by hand are faster and prove nothing. Sharper rules are faster than
those <em>and</em> keep a proof. ± is a 95&nbsp;% interval; claimed for these games only.</p>
{markup.table("Rules", headings, groups, kind="")}"""


def _section(costs: Table, images: Mapping[str, bytes]) -> str:
    alt = "Bars of total regret for every rule, on four games."
    shown = markup.figure(images["rules"], alt=alt, caption=markup.with_subscripts(CAPTION))
    return f"{rule_costs_html(costs)}\n{shown}"


PART = Part(
    key=RULES,
    heading="Sharper than the paper: what each rule costs",
    batches=rule_costs_batches,
    table=rule_costs_table,
    drawings={"rules": Drawing(draw=rule_costs_figure)},
    section=_section,
)
