"""What clients have reported so far, as sums per arm and client."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedbandits.privacy.mechanisms import Mechanism
from fedbandits.privacy.packing import unpack
from fedbandits.privacy.policy import Privacy
from fedbandits.protocol.messages import Update
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.distortion import UNDISTORTED, Distortion, DistortionSums
from fedbandits.rules.drift import Seen
from fedbandits.rules.variance_components import merged_squares


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tally:
    """One row per arm, one column per client in the order of admission. Never written into.

    Parameters
    ----------
    counts, sums, squares : array, shape (arms, clients)
        Pulls, rewards, and sums of squares around each client's own mean.
    distorted : DistortionSums
        What protecting the means has put into them.
    bits : array of int, shape (clients,)
        Of the means that each client has sent.
    """

    counts: IntArray
    sums: FloatArray
    squares: FloatArray
    distorted: DistortionSums
    bits: IntArray

    @classmethod
    def nothing(cls, n_arms: int) -> Tally:
        """Return the tally before anybody is admitted."""
        return cls(
            counts=np.zeros((n_arms, 0), dtype=np.int64),
            sums=np.zeros((n_arms, 0)),
            squares=np.zeros((n_arms, 0)),
            distorted=DistortionSums.nothing((n_arms, 0)),
            bits=np.zeros(0, dtype=np.int64),
        )

    @property
    def means(self) -> FloatArray:
        """The mean of every client and arm; 0 if nothing was pulled."""
        return np.divide(self.sums, self.counts, out=np.zeros_like(self.sums), where=self.pulled)

    @property
    def pulled(self) -> BoolArray:
        """Which client has pulled which arm."""
        return self.counts > 0

    @property
    def seen(self) -> Seen:
        """What is needed to tell whether options change."""
        left = self.distorted
        return Seen(self.counts.astype(np.float64), self.sums, left.variance_sums, left.bias_sums)

    def distortion(self, privacy: Privacy | None) -> Distortion:
        """Return what protecting the means of clients leaves in them."""
        if privacy is None:
            return UNDISTORTED
        return self.distorted.over(self.counts, doubled=privacy.doubled)

    def admitted(self, clients: int) -> Tally:
        """Return the tally with new clients, who have reported nothing."""
        if not clients:
            return self
        none = np.zeros((len(self.counts), clients))
        whole = none.astype(np.int64)
        return Tally(
            counts=np.concatenate([self.counts, whole], axis=1),
            sums=np.concatenate([self.sums, none], axis=1),
            squares=np.concatenate([self.squares, none], axis=1),
            distorted=self.distorted.admitted(clients),
            bits=np.concatenate([self.bits, whole[0]]),
        )

    def reported(
        self,
        columns: list[int],
        updates: list[Update],
        active: BoolArray,
        mechanism: Mechanism | None,
    ) -> Tally:
        """Return the tally with the updates of a phase; of arms that are out nothing is counted.

        Parameters
        ----------
        columns, updates : list
            Whose updates, and what they say.
        active : array of bool, shape (arms,)
            Which arms count.
        mechanism : Mechanism, optional
            How their means are protected.
        """
        if not updates:
            return self
        counts, sums, squares = self.counts.copy(), self.sums.copy(), self.squares.copy()
        left = active[:, None]
        fresh = left * np.array([update.counts for update in updates], dtype=np.int64).T
        means = np.array([means_of(update, mechanism) for update in updates]).T
        scatter = [update.squares for update in updates if update.squares is not None]
        if scatter:
            before = counts[:, columns], sums[:, columns], squares[:, columns]
            reported = fresh, fresh * means, left * np.array(scatter, dtype=np.float64).T
            squares[:, columns] = merged_squares(before, reported)
        counts[:, columns] += fresh
        sums[:, columns] += fresh * means
        bits = self.bits.copy()
        bits[columns] += np.array([update.payload_bits for update in updates], dtype=np.int64)
        distorted = self.distorted
        if mechanism is not None:
            distorted = distorted.released(counts - self.counts, mechanism.error)
        return Tally(counts=counts, sums=sums, squares=squares, distorted=distorted, bits=bits)

    def with_arms(self, arms: BoolArray, other: Tally) -> Tally:
        """Return the tally with some arms as another one has them, of the same clients."""
        rows = arms[:, None]
        theirs, ours = other.distorted, self.distorted
        distorted = DistortionSums(
            variance_sums=np.where(rows, theirs.variance_sums, ours.variance_sums),
            scales=np.where(rows, theirs.scales, ours.scales),
            bias_sums=np.where(rows, theirs.bias_sums, ours.bias_sums),
        )
        return Tally(
            counts=np.where(rows, other.counts, self.counts),
            sums=np.where(rows, other.sums, self.sums),
            squares=np.where(rows, other.squares, self.squares),
            distorted=distorted,
            bits=other.bits,
        )

    def tobytes(self) -> bytes:
        """Return all of it, to be compared bit for bit."""
        arrays = (self.counts, self.sums, self.squares, self.bits)
        return b"".join([*(values.tobytes() for values in arrays), self.distorted.tobytes()])


def means_of(update: Update, mechanism: Mechanism | None) -> FloatArray:
    """Return the means that an update reports, unpacked if they are packed."""
    if mechanism is None:
        return np.array(update.means, dtype=np.float64)
    pulled = np.array(update.counts) > 0
    places = unpack(update.packed, mechanism.bits, int(pulled.sum()))
    means = np.zeros(pulled.size)
    means[pulled] = mechanism.values(np.array(places, dtype=np.int64))
    return means
