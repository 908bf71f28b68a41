"""How many clients must report before a phase is decided."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedbandits.errors import InputError, check_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """The clients without whom nothing is decided.

    Parameters
    ----------
    fraction : float
        Of the clients that were asked, above 0 and at most 1; all of them by default.
    least : int
        Their number, at least. The first phase lets so many in, and is not opened with fewer.

    Examples
    --------
    >>> Quorum(fraction=0.8, least=3).of(10), Quorum(fraction=0.5, least=3).of(4)
    (8, 3)
    """

    fraction: float = 1.0
    least: int = 1

    def __post_init__(self) -> None:
        check_number(self.fraction, "fraction")
        check_number(self.least, "least", whole=True)
        if not 0.0 < self.fraction <= 1.0:
            raise InputError(
                "fraction", f"{self.fraction:g} is not above 0 and at most 1; give one such as 0.8"
            )
        if self.least < 1:
            raise InputError("least", f"{self.least} is below 1; a decision needs a client")

    def of(self, clients: int) -> int:
        """Return how many of so many clients must report."""
        # A product that is whole on paper may be a little above in floating point.
        return max(self.least, math.ceil(self.fraction * clients - 1e-9))
