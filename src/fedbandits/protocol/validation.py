"""Which updates count: what a client has sent against what it was asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeAlias, TypeGuard

import numpy as np

from fedbandits.errors import LARGEST, InputError
from fedbandits.privacy.mechanisms import Mechanism, Noised
from fedbandits.protocol.codec import is_text
from fedbandits.protocol.decisions import is_closing
from fedbandits.protocol.messages import Assignment, Halt, Header, Update, signed_bytes
from fedbandits.protocol.outcomes import Limits
from fedbandits.protocol.records import Rejection
from fedbandits.protocol.state import RunState, ServerState
from fedbandits.protocol.tally import means_of
from fedbandits.rules.guardrails import Guardrail

FAULTS = frozenset(
    {
        Rejection.FORM,
        Rejection.SHAPE,
        Rejection.COUNTS,
        Rejection.NOT_FINITE,
        Rejection.PACKED,
        Rejection.RANGE,
        Rejection.GUARDRAILS,
    }
)
"""What only a broken or lying client sends.

Late and repeated updates happen to everybody, and one that is not signed is of somebody else: who
sends such updates in a client's name must not have the client ignored.
"""

IsSigned: TypeAlias = Callable[[bytes, bytes, bytes], bool]
"""``is_signed(key, said, signature)`` says whether a signature of bytes is by a public key."""

# The mean of outcomes at an end of their range may be off that end by its last digits.
_LAST_DIGITS = 1e-9

# What a stranger sends is in the log with its name and phase: they must be short enough for it.
_LONGEST_WORD = 1000
_LARGEST_WHOLE = 2**63
_LONGEST_SIGNATURE = 64

# Noise that is further out than so many of its scales is no noise: e^-60 is less than 10^-26.
_SCALES_OUT = 60.0


def rejection_of(
    state: RunState, update: Update, is_signed: IsSigned | None = None
) -> Rejection | None:
    """Return why an update does not count; None if it does.

    Parameters
    ----------
    state : RunState
        When it has come.
    update : Update
        A well-formed one.
    is_signed : callable, optional
        What checks signatures, if updates must have them.
    """
    # What is signed for the open assignment answers it, whichever server has sent it: a letter may
    # come back after a restart.
    earlier = is_signed is not None and update.header.epoch < state.header.epoch
    header = replace(update.header, epoch=state.header.epoch) if earlier else update.header
    if header != state.header:
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
        or is_closing(state)
    ):
        return Rejection.PHASE
    if update.client in state.reports:
        return Rejection.DUPLICATE
    if is_signed is not None:
        key = state.keys.get(update.client)
        said = signed_bytes(update, assignment)
        if key is None or not is_signed(key, said, update.signature):
            return Rejection.SIGNATURE
    # A client that does not adjust outcomes as agreed cannot tell what that gains.
    noised = isinstance(assignment.release.mechanism, Noised)
    if (update.gain is not None) != (state.terms.covariate is not None and not noised):
        return Rejection.SHAPE
    return _fault_in_values(update, assignment, state.terms.range)


def _counts_as_assigned(update: Update, assignment: Assignment) -> bool:
    """Return whether a client has pulled what it was to pull.

    Of an arm that was withdrawn in this phase it may have pulled less: how much depends on when it
    has heard of that, and nothing of it is counted. Of an arm that was halted at the client itself
    nothing is reported.
    """
    halted, asked = set(update.halted), assignment.pulls
    if len(update.counts) != len(asked) or not halted.union(update.uneven) <= set(
        range(len(asked))
    ):
        return False
    most = [0 if arm in halted else n for arm, n in enumerate(asked)]
    least = [0 if arm in assignment.withdrawn else n for arm, n in enumerate(most)]
    return all(map(lambda low, n, high: low <= n <= high, least, update.counts, most))


def _fault_in_values(
    update: Update, assignment: Assignment, limits: Limits | None
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
    if not _guarded_as(assignment.release.guardrails, update):
        return Rejection.GUARDRAILS
    # Noise may carry a mean out of the limits, and rounding by less than a step.
    if limits is None or isinstance(mechanism, Noised):
        return None
    aside = _LAST_DIGITS * max(map(abs, limits)) + (mechanism.step if mechanism else 0.0)
    return None if _within(limits, aside, update, mechanism) else Rejection.RANGE


def _guarded_as(guardrails: Sequence[Guardrail], update: Update) -> bool:
    """Return whether an update has the sums of all guardrails, of values in their ranges."""
    rows, counts = update.guardrails, update.counts
    if [len(row) for row in rows] != [len(counts)] * len(guardrails):
        return False
    for rail, row in zip(guardrails, rows, strict=True):
        low, high = rail.range
        aside = _LAST_DIGITS * max(abs(low), abs(high))
        each = zip(row, counts, strict=True)
        if not all((low - aside) * n <= total <= (high + aside) * n for total, n in each):
            return False
    return True


def _within(limits: Limits, aside: float, update: Update, mechanism: Mechanism | None) -> bool:
    """Return whether all means of an update lie within limits, or aside of them by so much."""
    means = means_of(update, mechanism)[np.array(update.counts) > 0]
    return bool(((limits[0] - aside <= means) & (means <= limits[1] + aside)).all())


def _packed_as(mechanism: Mechanism | None, update: Update) -> bool:
    """Return whether an update's means are packed as its assignment asks."""
    if mechanism is None:
        return not update.packed
    # How many noised observations were clipped, or lost, is a release of its own.
    out, told = math.inf, False
    if isinstance(mechanism, Noised):
        out, told = _SCALES_OUT * mechanism.scale, update.clipped > 0 or bool(update.uneven)
    try:
        possible = _within((mechanism.low, mechanism.high), out, update, mechanism)
    except InputError:
        return False
    return possible and not told


def is_well_formed(update: object) -> TypeGuard[Update]:
    """Return whether something that came from outside is an update with values of its types."""
    if not isinstance(update, Update) or not isinstance(update.header, Header):
        return False
    header, squares = update.header, () if update.squares is None else update.squares
    halt = Halt(arms=(), reason="") if update.halt is None else update.halt
    if not isinstance(halt, Halt) or not isinstance(update.packed, bytes):
        return False
    if not isinstance(update.signature, bytes) or len(update.signature) > _LONGEST_SIGNATURE:
        return False
    vectors = (update.counts, update.means, squares, update.halted, halt.arms, update.uneven)
    if not all(isinstance(vector, tuple) for vector in (*vectors, update.guardrails)):
        return False
    if not all(isinstance(row, tuple) for row in update.guardrails):
        return False
    once = (header.epoch, header.version, update.phase, update.clipped)
    return (
        all(map(_is_word, (header.run, header.arms, update.client, halt.reason)))
        and all(map(_is_whole, (*once, *update.counts, *update.halted, *halt.arms, *update.uneven)))
        and update.clipped >= 0
        and (update.gain is None or (type(update.gain) is float and abs(update.gain) <= 1))
        and all(
            isinstance(number, int | float) and not isinstance(number, bool)
            for number in (*update.means, *squares, *chain(*update.guardrails))
        )
    )


def _is_word(word: object) -> bool:
    """Return whether something is text of reasonable length that a log can keep."""
    return isinstance(word, str) and len(word) <= _LONGEST_WORD and is_text(word)


def _is_whole(number: object) -> bool:
    """Return whether something is a whole number that a log can keep."""
    return type(number) is int and abs(number) < _LARGEST_WHOLE
