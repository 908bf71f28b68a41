"""A matrix of local means: one row per user, one column per group of movies."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedbandits.errors import InputError
from fedbandits.reproduce.movielens.archive import readable
from fedbandits.rules.arrays import FloatArray

MAGIC = b"\x93NUMPY"
"""How every .npy file begins."""

MOST_VALUES = 50_000_000
"""Two hundred times the authors' matrix."""


def read_matrix(path: Path) -> FloatArray:
    """Return the local means of a finite population of clients, from a .npy file.

    Every row takes part: unlike in the archive, a group that a user never rated cannot be told
    from one that it rated badly. In the authors' matrix a fifth of the values are 0, and every row
    is scaled so that its largest value is 1: a client's values compare groups with the client's
    own first choice, and are not stars.

    Parameters
    ----------
    path : Path
        The file: floats in [0, 1], shape (users, groups).

    Raises
    ------
    InputError
        If it is anything else; the message names the row and the column.
    """
    with readable(path):
        try:
            # Mapped, so that a header that claims a huge array is found out before memory is taken.
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise InputError(
                str(path), f"is not a plain .npy file, or not all of one: {error}"
            ) from None
    if mapped.ndim != 2 or mapped.shape[0] < 1 or mapped.shape[1] < 2:
        raise InputError(
            str(path),
            f"has shape {mapped.shape}; it needs one row per user and one column per group, "
            "at least 2 groups",
        )
    if mapped.dtype.kind != "f":
        raise InputError(str(path), f"holds {mapped.dtype}; it needs floats in [0, 1]")
    if mapped.size > MOST_VALUES:
        raise InputError(
            str(path), f"holds {mapped.size:,} values; at most {MOST_VALUES:,} are read"
        )
    means = np.array(mapped, dtype=np.float64)
    wrong = ~((means >= 0) & (means <= 1))  # also true if it is not a number
    if wrong.any():
        row, column = (int(place) for place in np.argwhere(wrong)[0])
        raise InputError(
            f"{path}, row {row}, column {column}",
            f"{means[row, column]:g} is not in [0, 1]; leave out users without a value for "
            "every group",
        )
    return means
