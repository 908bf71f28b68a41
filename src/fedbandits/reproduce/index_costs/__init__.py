"""What index rules cost: the paper's games, how regret grows with the horizon, and MovieLens.

Index rules promise no error probability, so that what they do has to be measured: means beside
elimination on the same draws, tails, commitments to a wrong arm, and games without a commitment.
Defaults throughout, nothing is tuned to a game. Claimed for these games only.
"""

from fedbandits.reproduce.index_costs.figures import growth_figure, tails_figure
from fedbandits.reproduce.index_costs.section import index_costs_markdown, index_costs_section
from fedbandits.reproduce.index_costs.tables import (
    index_costs_fingerprint,
    index_costs_replications,
    index_costs_tables,
)

__all__ = [
    "growth_figure",
    "index_costs_fingerprint",
    "index_costs_markdown",
    "index_costs_replications",
    "index_costs_section",
    "index_costs_tables",
    "tails_figure",
]
