"""What randomised rules draw; a game that is played again draws the same.

A rule keeps no generator. It says what to draw for a number of games, and its driver says
from which streams: a simulation from those of its replications, a server from that of its
seed and phase, so that a run that is resumed goes on as it would have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

# Numbers of any kind.
Drawn: TypeAlias = npt.NDArray[Any]

Draw: TypeAlias = Callable[[np.random.Generator, int], Drawn]
"""From a generator and a number of games to what each of them gets, along the first axis."""

Draws: TypeAlias = Callable[[Draw], Drawn]
"""From what is to be drawn to what was drawn in a phase, with the leading axes of its state."""

PhaseDraws: TypeAlias = Callable[[int], Draws]
"""From a phase to what is drawn in it."""

DrawRows: TypeAlias = Callable[[np.random.Generator, slice], Drawn]
"""From a generator and some of the games to what each of them gets, drawn one after the other."""

SlotDraws: TypeAlias = Callable[[DrawRows], Drawn]
"""From what is to be drawn in a slot to what was drawn, for all games along the first axis.

Unlike in `Draw`, how much of a stream a game uses up may depend on its state.
"""

# Apart from the streams of clients that are tried in one process.
_OF_RULES = 3


@dataclass(frozen=True, slots=True)
class SeededDraws:
    """What a single game draws in its phases.

    Parameters
    ----------
    seed : int
        Not negative.

    Examples
    --------
    >>> one, again = SeededDraws(7)(2), SeededDraws(7)(2)
    >>> normals = lambda rng, games: rng.standard_normal((games, 3))
    >>> bool((one(normals) == again(normals)).all()), one(normals).shape
    (True, (3,))
    """

    seed: int

    def __call__(self, phase: int) -> Draws:
        """Return what draws in a phase."""

        def drawn(draw: Draw) -> Drawn:
            rng = np.random.default_rng([self.seed, phase, _OF_RULES])
            return np.asarray(draw(rng, 1)[0])

        return drawn
