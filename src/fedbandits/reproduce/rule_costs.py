"""What each rule costs: the paper's games once more, with every radius of the package.

The paper's radius is safe and wide; its authors tuned its constants by hand and lost the guarantee.
Claimed for these games only.
"""

from __future__ import annotations

from dataclasses import replace
from html import escape

from fedbandits.experiments.experiment import Experiment
from fedbandits.report.chart import Axis, Chart, Row, Rows
from fedbandits.report.palette import PALETTE
from fedbandits.reproduce.catalogue import paper_experiment
from fedbandits.reproduce.part import Batch, Drawing, Part, Runs, costs_of
from fedbandits.reproduce.texts import table_html
from fedbandits.simulation.tables import Table, as_columns, chose_best, rows_of
from fedbandits.simulation.variants import guarantee_of

# Of rules that guarantee nothing.
_PALE = "#c4c9ce"


def ruled_games() -> dict[str, Experiment]:
    """Return the games that all rules are tried on: the paper's, and two of low rates.

    Their files are ``rules-fig4.toml`` and so on.
    """
    keys = ("fig4", "fig3", "rates", "given-rates")
    return {key: paper_experiment(f"rules-{key}") for key in keys}


def rule_costs_batches() -> list[Batch]:
    """Return the variants of every game, by the key of the game and their labels."""
    batches = []
    for key, game in ruled_games().items():
        variants = {(key, variant.label): variant for variant in game.variants}
        batches.append(Batch(variants, game.horizon, game.replications, game.seed))
    return batches


def rule_costs_table(runs: Runs) -> Table:
    """Return one row per game and rule: what it cost, and what the rule guarantees.

    ``lost`` counts the games in which the best arm was not found.
    """
    rows = []
    for (game, rule), run in runs.items():
        guarantee = guarantee_of(run.variant, run.rule)
        proven = {"guarantee": guarantee.words(), "proven": guarantee.holds}
        lost = int((~chose_best(run)).sum())
        rows.append({"game": game, "rule": rule, **costs_of(run), "lost": lost, **proven})
    return as_columns(rows)


def rule_costs_chart(costs: Table) -> Chart:
    """Return a bar for every rule, one panel per game; rules without a guarantee are pale."""
    panels = []
    for key, game in ruled_games().items():
        rows = [
            Row(
                label=row["rule"],
                value=row["regret"],
                low=row["regret"] - row["half"],
                high=row["regret"] + row["half"],
                colour=PALETTE[0] if row["proven"] else _PALE,
            )
            for row in rows_of(costs, game=key)
        ]
        panels.append(Rows(x=Axis(), rows=rows, title=game.title, bars=True))
    panels[-1] = replace(panels[-1], x=Axis(label="mean total regret (pale: no guarantee)"))
    height = 0.36 * sum(len(panel.rows) + 0.9 for panel in panels)
    return Chart("rules", panels, size=(8.4, height))


def rule_costs_html(costs: Table) -> str:
    """Return the table of what each rule costs and guarantees, as HTML."""
    rows = {escape(game.title): rows_of(costs, game=key) for key, game in ruled_games().items()}
    return table_html("rules", rows)


PART = Part(
    key="rules",
    heading="Sharper than the paper: what each rule costs",
    cost=(0.5, 9.0),
    batches=rule_costs_batches,
    table=rule_costs_table,
    drawings={"rules": Drawing(chart=rule_costs_chart)},
    show=lambda costs: {"table": rule_costs_html(costs)},
)
