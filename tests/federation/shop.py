"""One client with live traffic, and a clock that is set by hand."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

from coin_trial import TABLES
from fedbandits.federation import LiveTrial
from fedbandits.federation.host import ClientHost, ClientInfo
from fedbandits.federation.live_store import LiveStore
from fedbandits.federation.state_files import live_file
from fedbandits.federation.trial import Trial, read_trial
from fedbandits.protocol import (
    Assignment,
    Conclusion,
    Decision,
    Reason,
    Refusal,
    Refused,
    Update,
    arms_hash,
)
from fedbandits.protocol.messages import Header

ARMS = ("red", "green", "blue")
LIVE: dict[str, Any] = {"maturity": 600, "missing": 0.0}
TRIAL = read_trial({**TABLES, "live": LIVE, "min_pulls": 2})
PATIENT = read_trial({**TABLES, "live": {}, "min_pulls": 2})


class Time:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def header(run: str = "run 1", epoch: int = 1) -> Header:
    return Header(run=run, epoch=epoch, arms=arms_hash(ARMS))


def decided(best: int, active: tuple[bool, ...], **changes: Any) -> Decision:
    said: dict[str, Any] = {
        "header": header(),
        "phase": 1,
        "active": active,
        "estimates": (0.0,) * len(active),
        "widths": (1.0,) * len(active),
        "best": best,
        "winner": None,
        "reason": Reason.OPEN,
    }
    return Decision(**{**said, **changes})


def phase(number: int, *pulls: int, **changes: Any) -> Assignment:
    return Assignment(**{"header": header(), "phase": number, "pulls": pulls, **changes})


class Shop:
    """One client: its service, and what answers the server, each with a view of its own."""

    def __init__(self, folder: Path, trial: Trial = TRIAL) -> None:
        self.time = Time()
        self.folder, self.trial = folder, trial
        self.live = LiveTrial(trial, client="shop", state=folder, clock=self.time, durable=False)
        self.units = count(1)

    def answer(self, assignment: Assignment) -> Update | Refusal:
        """Answer as a process that begins and ends with the message."""
        path = live_file(self.folder, "shop")
        store = LiveStore(path, "shop", self.trial, clock=self.time, durable=False)
        host = ClientHost(ClientInfo(name="shop"), None, self.trial, folder=self.folder, live=store)
        return host.answer(assignment)

    def pending(self, assignment: Assignment, why: Refused = Refused.PENDING) -> str:
        answer = self.answer(assignment)
        assert isinstance(answer, Refusal)
        assert answer.why is why
        return answer.detail

    def played(self, assignment: Assignment) -> str:
        """Refuse what only an old copy of the server's log asks for."""
        return self.pending(assignment, Refused.PLAYED)

    def update(self, assignment: Assignment) -> Update:
        answer = self.answer(assignment)
        assert isinstance(answer, Update)
        return answer

    def come(self, n: int) -> dict[str, str]:
        """Let so many new units come; return their options."""
        return {unit: self.live.assign(unit) for unit in (f"u{next(self.units)}" for _ in range(n))}


def concluded(winner: int) -> Conclusion:
    active = tuple(arm == winner for arm in range(3))
    last = decided(winner, active, winner=winner, reason=Reason.ONE_ARM_LEFT)
    return Conclusion(
        header=header(),
        arms=ARMS,
        decision=last,
        low=(0.0,) * 3,
        high=(1.0,) * 3,
        level=0.05,
        error=None,
        assumptions=(),
        words="",
    )
