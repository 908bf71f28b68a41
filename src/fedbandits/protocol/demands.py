"""What a server says to a client: whether it fits the trial, no matter who sent it.

The codec has checked every type. What is wrong here would be kept by the client, and would break
the service that asks it for options long after the message.
"""

from __future__ import annotations

from collections.abc import Collection

from fedbandits.errors import InputError
from fedbandits.protocol.messages import PROTOCOL_VERSION, Assignment, Conclusion, Decision, Recall

_LONGEST_RUN = 1000


def check_demand(message: Assignment | Recall | Conclusion, n_arms: int) -> None:
    """Refuse a message that no server of a trial with so many arms sends.

    Raises
    ------
    InputError
        With what is wrong.
    """
    header = message.header
    if len(header.run) > _LONGEST_RUN or header.epoch < 0:
        raise InputError("header", f"of run {header.run[:80]!r} cannot be")
    if header.version != PROTOCOL_VERSION:
        raise InputError(
            "version",
            f"the server speaks version {header.version} of the protocol, and this client"
            f" {PROTOCOL_VERSION}; install the same version of fedbandits on both",
        )
    match message:
        case Assignment():
            if message.phase < 1:
                raise InputError("phase", f"{message.phase}, and the first one is 1")
            if len(message.pulls) != n_arms or min(message.pulls) < 0 or not any(message.pulls):
                raise InputError("pulls", f"{str(message.pulls)[:200]} of {n_arms} arms")
            _check_arms(message.withdrawn, n_arms, "withdrawn")
            if message.previous is not None:
                _check_decision(message.previous, n_arms)
        case Recall():
            _check_arms(message.arms, n_arms, "arms")
        case Conclusion():
            _check_decision(message.decision, n_arms)
            if not message.decision.final:
                raise InputError("decision", "is called the last word, and another phase follows")
            if len(message.low) != n_arms or len(message.high) != n_arms:
                raise InputError("low, high", "there is an interval for every arm")


def _check_arms(arms: Collection[int], n_arms: int, where: str) -> None:
    if len(arms) > n_arms or not all(0 <= arm < n_arms for arm in arms):
        raise InputError(where, f"{str(arms)[:200]} are not all among {n_arms} arms")


def _check_decision(decision: Decision, n_arms: int) -> None:
    vectors = (decision.active, decision.estimates, decision.widths)
    if any(len(vector) != n_arms for vector in vectors):
        raise InputError("decision", f"is not about {n_arms} arms")
    named = [decision.best] if decision.winner is None else [decision.best, decision.winner]
    _check_arms(named, n_arms, "decision")
    none_is_left = decision.winner is None and not any(decision.active)
    if not none_is_left and not all(decision.active[arm] for arm in named):
        raise InputError("decision", "has a best arm that is out")
