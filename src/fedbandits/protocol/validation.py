"""Which updates count: what a client has sent against what it was asked for."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np

from fedbandits.errors import LARGEST, InputError
from fedbandits.privacy.mechanisms import Mechanism, Noised
from fedbandits.privacy.packing import payload_bits, unpack
from fedbandits.protocol.codec import is_text
from fedbandits.protocol.messages import Assignment, Halt, Header, Update
from fedbandits.protocol.records import Rejection
from fedbandits.protocol.state import RunState, ServerState
from fedbandits.protocol.tally import means_of

FAULTS = frozenset(
    {
        Rejection.FORM,
        Rejection.SHAPE,
        Rejection.COUNTS,
        Rejection.NOT_FINITE,
        Rejection.PACKED,
        Rejection.RANGE,
    }
)
"""What only a broken or lying client sends; late and repeated updates happen to everybody."""

# The mean of outcomes at an end of their range may be off that end by its last digits.
_LAST_DIGITS = 1e-9

# What a stranger sends is in the log with its name and phase: they must be short enough for it.
_LONGEST_WORD = 1000
_LARGEST_WHOLE = 2**63

# Noise that is further out than so many of its scales is no noise: e^-60 is less than 10^-26.
_SCALES_OUT = 60.0


def rejection_of(state: RunState, update: Update) -> Rejection | None:
    """Return why an update does not count; None if it does.

    Parameters
    ----------
    state : RunState
        When it has come.
    update : Update
        A well-formed one.
    """
    if update.header != state.header:
        return Rejection.HEADER
    if update.client not in state.columns:
        return Rejection.CLIENT
    if state.is_quarantined(update.client):
        return Rejection.QUARANTINED
    assignment = state.assignment
    if (
        state.stage is not ServerState.COLLECTING
        or assignment is None
        or update.phase != assignment.phase
    ):
        return Rejection.PHASE
    if update.client in state.reports:
        return Rejection.DUPLICATE
    return _fault_in_values(update, assignment, state.terms.range)


def _counts_as_assigned(update: Update, assignment: Assignment) -> bool:
    """Return whether a client has pulled what it was to pull.

    Of an arm that was withdrawn in this phase it may have pulled less: how much depends on when it
    has heard of that, and nothing of it is counted. Of an arm that was halted at the client itself
    nothing is reported.
    """
    arms = range(len(assignment.pulls))
    if len(update.counts) != len(arms) or not set(update.halted) <= set(arms):
        return False
    for arm, (n, asked) in enumerate(zip(update.counts, assignment.pulls, strict=True)):
        least, most = asked, asked
        if arm in update.halted:
            least, most = 0, 0
        elif arm in assignment.withdrawn:
            least = 0
        if not least <= n <= most:
            return False
    return True


def _fault_in_values(
    update: Update, assignment: Assignment, limits: tuple[float, float] | None
) -> Rejection | None:
    squares = () if update.squares is None else update.squares
    n_arms = len(assignment.pulls)
    mechanism = assignment.release.mechanism
    wanted = (n_arms if mechanism is None else 0, n_arms if assignment.release.squares else 0)
    sent_as_asked = (update.squares is not None) == assignment.release.squares
    if (len(update.means), len(squares)) != wanted or not sent_as_asked:
        return Rejection.SHAPE
    if not _counts_as_assigned(update, assignment):
        return Rejection.COUNTS
    if not _packed_as(mechanism, update):
        return Rejection.PACKED
    reasonable = all(abs(value) <= LARGEST for value in update.means)
    reasonable &= all(0 <= value <= LARGEST for value in squares)
    if not reasonable:
        return Rejection.NOT_FINITE
    return None if _in_range(update, mechanism, limits) else Rejection.RANGE


def _in_range(
    update: Update, mechanism: Mechanism | None, limits: tuple[float, float] | None
) -> bool:
    """Return whether means are possible if all outcomes lie within limits.

    Noise may carry a mean out of them, and rounding by less than a step.
    """
    if limits is None or isinstance(mechanism, Noised):
        return True
    low, high = limits
    aside = _LAST_DIGITS * max(abs(low), abs(high)) + (mechanism.step if mechanism else 0.0)
    means = means_of(update, mechanism)[np.array(update.counts) > 0]
    return bool(((low - aside <= means) & (means <= high + aside)).all())


def _packed_as(mechanism: Mechanism | None, update: Update) -> bool:
    """Return whether an update's means are packed as its assignment asks."""
    if mechanism is None:
        return not update.packed
    arms = sum(count > 0 for count in update.counts)
    if 8 * len(update.packed) != payload_bits(arms, mechanism.bits):
        return False
    try:
        places = unpack(update.packed, mechanism.bits, arms)
    except InputError:
        return False
    if not isinstance(mechanism, Noised):
        return True
    if update.clipped:  # such a count is a release of its own
        return False
    means = mechanism.values(np.array(places, dtype=np.int64))
    out = _SCALES_OUT * mechanism.scale
    return bool(((mechanism.low - out <= means) & (means <= mechanism.high + out)).all())


def is_well_formed(update: object) -> TypeGuard[Update]:
    """Return whether something that came from outside is an update with values of its types."""
    if not isinstance(update, Update) or not isinstance(update.header, Header):
        return False
    header = update.header
    squares = () if update.squares is None else update.squares
    words = (header.run, header.arms, update.client)
    vectors = (update.counts, update.means, squares, update.halted)
    return (
        all(_is_word(word) for word in words)
        and all(isinstance(vector, tuple) for vector in vectors)
        and all(
            _is_whole(number)
            for number in (
                *(header.epoch, header.version, update.phase),
                *(*update.counts, *update.halted),
            )
        )
        and (update.halt is None or _is_halt(update.halt))
        and isinstance(update.packed, bytes)
        and _is_whole(update.clipped)
        and update.clipped >= 0
        and all(
            isinstance(number, int | float) and not isinstance(number, bool)
            for number in (*update.means, *squares)
        )
    )


def _is_halt(halt: object) -> bool:
    return (
        isinstance(halt, Halt)
        and isinstance(halt.arms, tuple)
        and all(_is_whole(arm) for arm in halt.arms)
        and _is_word(halt.reason)
    )


def _is_word(word: object) -> bool:
    """Return whether something is text of reasonable length that a log can keep."""
    return isinstance(word, str) and len(word) <= _LONGEST_WORD and is_text(word)


def _is_whole(number: object) -> bool:
    """Return whether something is a whole number that a log can keep."""
    return type(number) is int and abs(number) < _LARGEST_WHOLE
