"""MovieLens with its real users: what their data says, the games on it, and their section.

Two problems that the paper's figure 6 leaves out. *Real clients*: a user's own values are the local
means of a client, in a finite population. *Real ratings*: a client's observations are its own
ratings. Both need data that the user imports with ``fedbandits data import PATH``.
"""

from fedbandits.reproduce.computed import Computed, Drawing
from fedbandits.reproduce.real_data.section import order_chart, order_table, real_data_values
from fedbandits.reproduce.real_data.table import (
    real_data_batches,
    real_data_inputs,
    real_data_table,
)

PART = Computed(
    key="movielens",
    heading="MovieLens with its real users",
    # Of a matrix that is imported; without one there is nothing to simulate.
    cost=(0.1, 35.0),
    batches=real_data_batches,
    table=real_data_table,
    drawings={"order": Drawing(chart=order_chart, drawn=order_table)},
    show=real_data_values,
    inputs=real_data_inputs,
)
