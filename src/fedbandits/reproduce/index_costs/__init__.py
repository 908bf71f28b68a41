"""What index rules cost: the paper's games, how regret grows with the horizon, and MovieLens.

Index rules promise no error probability, so what they do has to be measured: means beside
elimination on the same draws, tails, commitments to a wrong arm, and games without a commitment.
Defaults throughout, nothing is tuned to a game. Claimed for these games only.
"""

from operator import itemgetter

from fedbandits.reproduce.computed import Computed, Drawing
from fedbandits.reproduce.index_costs.section import (
    growth_chart,
    index_costs_markdown,
    index_costs_values,
    tails_chart,
)
from fedbandits.reproduce.index_costs.tables import index_costs_batches, index_costs_tables

PART = Computed(
    key="index-rules",
    heading="Index rules: less regret than elimination, and what is only measured",
    cost=(2.0, 14.0),
    batches=index_costs_batches,
    table=index_costs_tables,
    drawings={
        "tails": Drawing(chart=tails_chart, drawn=itemgetter("tails")),
        "growth": Drawing(chart=growth_chart, drawn=itemgetter("growth")),
    },
    texts=lambda tables: {"tables.md": f"{index_costs_markdown(tables)}\n"},
    show=index_costs_values,
)
