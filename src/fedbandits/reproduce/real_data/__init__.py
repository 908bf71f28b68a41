"""MovieLens with its real users: what their data says, the games on it, and their section.

Two problems that the paper's figure 6 leaves out. *Real clients*: a user's own values are the local
means of a client, in a finite population. *Real ratings*: a client's observations are its own
ratings. Both need data that the user imports with ``fedbandits data import PATH``.
"""

from fedbandits.reproduce.real_data.figure import can_be_drawn, order_figure, order_table
from fedbandits.reproduce.real_data.section import real_data_section
from fedbandits.reproduce.real_data.table import (
    real_data_fingerprint,
    real_data_replications,
    real_data_table,
)

__all__ = [
    "can_be_drawn",
    "order_figure",
    "order_table",
    "real_data_fingerprint",
    "real_data_replications",
    "real_data_section",
    "real_data_table",
]
