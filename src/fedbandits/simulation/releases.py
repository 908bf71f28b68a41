"""How means of simulated clients are protected: from the exact law, in drivers of phases."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from fedbandits.privacy.mechanisms import UNPROTECTED_BITS, Mechanism
from fedbandits.privacy.policy import Privacy
from fedbandits.privacy.protection import bits_in_phase
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.distortion import UNDISTORTED, Distortion, DistortionSums, ReleaseError
from fedbandits.simulation.game import Game


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalPrivacy(Privacy):
    """A policy whose effect is simulated approximately, in a normal game.

    Released means are off by normal errors of the variance that the policy's own have, and nothing
    is clipped. Widths are those of the policy itself. This lets the fastest fidelity play what it
    otherwise could not: for planning, where the true laws are not known anyway.

    Parameters
    ----------
    **policy
        As in `Privacy`.
    """

    @classmethod
    def of(cls, privacy: Privacy) -> NormalPrivacy:
        """Return a policy that is simulated approximately.

        Examples
        --------
        >>> NormalPrivacy.of(Privacy(range=(0, 1), noise="laplace", epsilon=1.0)).epsilon
        1.0
        """
        return cls(**{field.name: getattr(privacy, field.name) for field in fields(Privacy)})


class Releases:
    """What protects the means of the clients of many replications.

    Rows and arms that are pulled alike, by a schedule, are held once.

    Parameters
    ----------
    game : Game
        With the policy of its clients, or none.
    replications : int
        How many.
    """

    def __init__(self, game: Game, replications: int) -> None:
        self.privacy = game.privacy
        self.rule = game.phased_rule()
        self.how: list[Mechanism] = []
        """How every row protects the means of the last phase; none where nothing is protected."""
        apart = (1, 1) if self.rule.scheduled else (replications, self.rule.n_arms)
        self._sums = DistortionSums.nothing((*apart, 0))
        self._known: dict[tuple[int, int | None], Mechanism] = {}

    @property
    def bits(self) -> int:
        """Bits of every mean that was sent in the last phase."""
        return self.how[0].bits if self.how else UNPROTECTED_BITS

    @property
    def one_by_one(self) -> bool:
        """Whether phases differ in how means are protected even where they are alike otherwise."""
        # A narrower radius changes the bits of the next phase.
        return self.privacy is not None and self.privacy.bits_by_phase

    def admit(self, groups: int) -> None:
        """Admit new groups of clients."""
        self._sums = self._sums.admitted(groups)

    def keep(self, going: BoolArray) -> None:
        """Forget the replications that are over."""
        if not self.rule.scheduled:
            self._sums = self._sums.kept(going)

    def play(
        self, phase: int, pulls: IntArray, fresh: FloatArray, counts: FloatArray, sizes: FloatArray
    ) -> Distortion:
        """Count the means of phases that are alike as released; return the errors left in them.

        Parameters
        ----------
        phase : int
            The first of them.
        pulls : array of int, shape (rows, arms)
            Of each client. Noise is that of the fewest.
        fresh : array, broadcast against (rows, arms, groups)
            The same; 0 for groups that are not there.
        counts : array, shape (phases, rows, arms, groups)
            Pulls so far, after each phase.
        sizes : array, shape (rows, 1, groups)
            Clients in each group.
        """
        privacy = self.privacy
        if privacy is None:
            return UNDISTORTED
        n_rows = self._sums.scales.shape[0]
        fewest = np.where(pulls > 0, pulls, np.iinfo(np.int64).max)[:n_rows]
        self.how = []
        for row, arm in enumerate(fewest.argmin(axis=-1).tolist()):
            often, place = int(fewest[row, arm]), (row, arm if counts.shape[2] > 1 else 0)
            privacy.check_pulls(often, phase)
            bits = bits_in_phase(
                self.rule,
                privacy,
                phase=phase,
                pulls=often,
                counts=counts[0][place],
                sizes=sizes[row if len(sizes) > 1 else 0, 0],
                sums=self._sums.kept(place),
            )
            if (often, bits) not in self._known:
                self._known[often, bits] = privacy.mechanism(often, self.rule.n_arms, bits)
            self.how.append(self._known[often, bits])
        error = ReleaseError.several((one.error for one in self.how), (-1, 1, 1))
        left = []
        for after in counts:
            self._sums = self._sums.released(fresh, error)
            left.append(self._sums.over(after, doubled=privacy.doubled))
        return Distortion.merged(left, np.array)
