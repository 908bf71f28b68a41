"""MovieLens with its real users: what their data says, the games on it, and their section.

Two problems that the paper's figure 6 leaves out. *Real clients*: a user's own values are the local
means of a client, in a finite population. *Real ratings*: a client's observations are its own
ratings. Both need data that the user imports with ``fedbandits data import PATH``.
"""

from fedbandits.reproduce.catalogue import MOVIELENS
from fedbandits.reproduce.part import Drawing, Part
from fedbandits.reproduce.real_data.figure import order_figure, order_table
from fedbandits.reproduce.real_data.section import real_data_section
from fedbandits.reproduce.real_data.table import (
    real_data_batches,
    real_data_inputs,
    real_data_table,
)

PART = Part(
    key=MOVIELENS,
    heading="MovieLens with its real users",
    batches=real_data_batches,
    table=real_data_table,
    drawings={"order": Drawing(draw=order_figure, drawn=order_table)},
    section=real_data_section,
    inputs=real_data_inputs,
)
