"""What index rules cost: the paper's games, how regret grows with the horizon, and MovieLens.

Index rules promise no error probability, so that what they do has to be measured: means beside
elimination on the same draws, tails, commitments to a wrong arm, and games without a commitment.
Defaults throughout, nothing is tuned to a game. Claimed for these games only.
"""

from fedbandits.reproduce.catalogue import INDEX_RULES
from fedbandits.reproduce.index_costs.figures import growth_figure, tails_figure
from fedbandits.reproduce.index_costs.section import index_costs_markdown, index_costs_section
from fedbandits.reproduce.index_costs.tables import index_costs_batches, index_costs_tables
from fedbandits.reproduce.part import Drawing, Part

PART = Part(
    key=INDEX_RULES,
    heading="Index rules: less regret than elimination, and what is only measured",
    batches=index_costs_batches,
    table=index_costs_tables,
    drawings={
        "tails": Drawing(
            draw=lambda tables: tails_figure(tables["tails"]), drawn=lambda tables: tables["tails"]
        ),
        "growth": Drawing(
            draw=lambda tables: growth_figure(tables["growth"]),
            drawn=lambda tables: tables["growth"],
        ),
    },
    texts=lambda tables: {"tables.md": f"{index_costs_markdown(tables)}\n"},
    section=index_costs_section,
)
