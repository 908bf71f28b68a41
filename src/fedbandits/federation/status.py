"""Where a run is, according to its log: for a terminal, for scripts, for the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import Enum
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbandits.federation.course import ClientCourse, Course, PhaseEnd, joint_gain
from fedbandits.protocol import Answer, Refused, RunState, Server, ServerState
from fedbandits.protocol.health import Drift, Guarded, Segment
from fedbandits.rules.outliers import outliers

if TYPE_CHECKING:
    from fedbandits.federation.presence import Presence

MOST_NAMES = 8
"""How many clients are named if there may be thousands."""

MOST_PHASES = 24
"""Of more phases only some are shown one by one."""

_LONGEST_NAME = 60

# What goes into JSON as it is.
_OF_STATUS = (
    *("run", "title", "began", "wrote", "epoch", "missing", "quarantined", "unconfirmed", "halted"),
    *("abandoned", "bits", "dropped", "aa", "uneven", "signed", "head"),
)
_OF_COURSE = ("withdrawals", "halts", "moves", "restarts")
_OF_ANSWER = ("winner", "survivors", "whom", "phase", "clients", "level", "error", "assumptions")


class ArmState(Enum):
    """Whether an arm is still in the game."""

    LEFT = "left"
    OUT = "out"
    """It was decided against."""
    WITHDRAWN = "withdrawn"
    """Somebody has taken it out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmStatus:
    """What is known of an arm.

    Parameters
    ----------
    name : str
        Of the arm.
    state : ArmState
        Whether it is left.
    phase : int or None
        Which decided against it, or was the last one when it was withdrawn; None if it is left.
    when, reason : str or None
        Before, in or after which phase it was withdrawn, in words, and why.
    estimate, low, high : float or None
        With its interval; None before a phase is decided, and for an arm that was never tried.
    """

    name: str
    state: ArmState
    phase: int | None
    when: str | None
    reason: str | None
    estimate: float | None
    low: float | None
    high: float | None

    @property
    def words(self) -> str:
        """What became of it.

        Examples
        --------
        >>> known = {"estimate": 0.2, "low": 0.1, "high": 0.3}
        >>> ArmStatus(
        ...     name="red", state=ArmState.OUT, phase=2, when=None, reason=None, **known
        ... ).words
        'out since phase 2'
        """
        match self.state:
            case ArmState.LEFT:
                return "left"
            case ArmState.OUT:
                return f"out since phase {self.phase}"
        return f"withdrawn {self.when}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMeans:
    """What is known of one client.

    Parameters
    ----------
    client : str
        Its name.
    means : tuple of float or None
        By arm, over all finished phases; rounded or noised if clients protect them. None if it
        has reported nothing.
    unlike : tuple of bool
        By arm, whether the mean is far from those of the others; see
        `fedbandits.rules.outliers.outliers`.
    """

    client: str
    means: tuple[float | None, ...]
    unlike: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """Where a run is.

    Parameters
    ----------
    run, title : str
        Names of the run and of its trial.
    began, wrote : str or None
        When the first and the last record were written; None if there is none.
    state : ServerState
        Between phases, in one, or finished.
    epoch : int
        1 plus the number of restarts.
    arms : tuple of ArmStatus
        In their order.
    answer : Answer or None
        What can be said; None before a phase is decided.
    reported, missing : tuple of str
        In the open phase: the clients that have reported, and those that have not.
    quarantined : tuple of str
        Clients that are ignored.
    unconfirmed : tuple of str
        Clients that have not confirmed yet that they give nobody what is withdrawn.
    halted : tuple of str
        What is halted at clients by their operators now, in words.
    homes : mapping from str to str
        Which node answers for a client, by the fingerprint of its key.
    conflicts : tuple of (str, str)
        Clients, and nodes that claim them and do not answer for them.
    course : Course
        What happened.
    means : tuple of ClientMeans
        What each client's means are, as far as the server knows.
    aa : str
        What an A/A run says about the trial, in words; nothing if it is none.
    drift : Drift or str
        Whether options stay as good as they were; why that is not watched, if it is not.
    segments : tuple of Segment or str
        What options are like for groups of clients; why that is not known, if it is not.
    guardrails : tuple of Guarded
        What second outcomes say of every option; empty if the trial has none.
    dropped : int
        Damaged records at the end of the log, which do not count.
    uneven : mapping from str to tuple of str
        Clients that lose suspiciously many outcomes of some options, and of which.
    covariate : str
        What outcomes are adjusted by; empty if there is no covariate.
    signed : bool
        Whether updates and decisions are signed.
    head : str
        Fingerprint of the log at the last decision, which the server has signed; empty if none is.
    presence : Presence, optional
        What can be seen of the server; None if the run is not read from a file.
    """

    run: str
    title: str
    began: str | None
    wrote: str | None
    state: ServerState
    epoch: int
    arms: tuple[ArmStatus, ...]
    answer: Answer | None
    reported: tuple[str, ...]
    missing: tuple[str, ...]
    quarantined: tuple[str, ...]
    unconfirmed: tuple[str, ...]
    halted: tuple[str, ...]
    homes: Mapping[str, str]
    conflicts: tuple[tuple[str, str], ...]
    course: Course
    means: tuple[ClientMeans, ...]
    aa: str
    drift: Drift | str
    segments: tuple[Segment, ...] | str
    uneven: Mapping[str, tuple[str, ...]]
    guardrails: tuple[Guarded, ...]
    dropped: int
    covariate: str = ""
    signed: bool = False
    head: str = ""
    presence: Presence | None = None

    @property
    def finished(self) -> bool:
        """Whether nothing more is decided."""
        return self.state in (ServerState.ENDING, ServerState.FINISHED)

    @property
    def bits(self) -> int:
        """Of all means that were sent and counted."""
        return sum(client.bits for client in self.course.clients)

    @property
    def abandoned(self) -> tuple[int, ...]:
        """The phases that ended below their quorum."""
        return tuple(each.phase for each in self.course.phases if each.end is PhaseEnd.ABANDONED)

    def state_words(self) -> str:
        """Return where it is, in a sentence."""
        match self.state:
            case ServerState.COLLECTING:
                done, asked = len(self.reported), len(self.reported) + len(self.missing)
                have = "has" if done == 1 else "have"
                missing = f"; missing: {shortened(self.missing)}" if self.missing else ""
                return (
                    f"phase {self.course.phases[-1].phase} is open: {done:,} of"
                    f" {counted(asked, 'client')} {have} reported{missing}"
                )
            case ServerState.READY if not self.course.phases:
                return "no phase was opened yet"
            case ServerState.READY:
                last = self.course.phases[-1]
                return f"between phases: phase {last.phase} was {last.end.value}"
        return self._ending()

    def _ending(self) -> str:
        if self.answer is not None:
            given_up = f" ({self.course.ending})" if self.course.ending else ""
            return f"it is over{given_up}"
        left = [arm.name for arm in self.arms if arm.state is ArmState.LEFT]
        if self.course.ending is not None:
            why = self.course.ending
        elif len(left) == 1:
            why = f"{left[0]} is all that withdrawals have left"
        else:
            why = "no phase follows"
        if not left:  # then it is known that they harm, or why people have withdrawn them
            return f"it is over: {why}"
        return f"it is over: {why}; no phase was decided, and nothing is known of the options"

    def as_dict(self) -> dict[str, Any]:
        """Return it in values that JSON has."""
        answer, course = self.answer, self.course
        said = None
        if answer is not None:
            said = {key: getattr(answer, key) for key in _OF_ANSWER}
            said |= {"reason": answer.reason.value, "words": answer.words()}
        return {
            **{key: getattr(self, key) for key in _OF_STATUS},
            **({"covariate": self.covariate, "gain": self.gain} if self.covariate else {}),
            "state": self.state.value,
            "words": self.state_words(),
            "server": None if self.presence is None else self.presence.as_dict(),
            "phase": course.phases[-1].phase if course.phases else 0,
            "reported": len(self.reported),
            "answer": said,
            "arms": [asdict(arm) | {"state": arm.state.value} for arm in self.arms],
            "segments": self.segments
            if isinstance(self.segments, str)
            else [asdict(one) for one in self.segments],
            "guardrails": [asdict(one) for one in self.guardrails],
            "drift": self.drift if isinstance(self.drift, str) else self.drift.as_dict(),
            "rejections": {kind.name: n for kind, n in course.rejections.items()},
            "refusals": [
                {key: getattr(one, key) for key in ("client", "phase", "detail")}
                | {"why": one.why.name}
                for one in course.refusals
            ],
            **{key: [asdict(one) for one in getattr(course, key)] for key in _OF_COURSE},
            "nodes": dict(self.homes),
            "conflicts": [
                {"client": client, "claimed_by": node, "node": self.homes[client]}
                for client, node in self.conflicts
            ],
            "phases": [asdict(one) | {"end": one.end.value} for one in course.phases],
            "clients": [
                _client(one)
                | {"rejections": {kind.name: n for kind, n in one.rejections.items()}}
                | {"means": self._by_arm(known.means), "unlike": self._by_arm(known.unlike)}
                for one, known in zip(course.clients, self.means, strict=True)
            ],
        }

    def _by_arm(self, values: Sequence[Any]) -> dict[str, Any]:
        return {arm.name: value for arm, value in zip(self.arms, values, strict=True)}

    def words(self) -> str:
        """Return it for a terminal."""
        course = self.course
        lines = [f"{self.run}: {self.title}"]
        if self.began is not None and self.wrote is not None:
            lines.append(f"began {clock_time(self.began)}, last wrote {clock_time(self.wrote)}")
        lines.append(self.state_words())
        if self.presence is not None and not self.finished:
            lines += self.presence.lines()
        lines += ["", *_table(self.arms, self.answer), ""]
        if self.guardrails:
            lines += [*_guardrail_table(self.guardrails), ""]
        clients = counted(len(course.clients), "client")
        lines.append(f"{clients} in; {self.bits:,} bits of means sent")
        lines += self.gain_words()
        lines.append(self.signature_words())
        if self.quarantined:
            lines.append(f"ignored: {shortened(self.quarantined)}")
        lines += self.events()
        if self.answer is not None:
            lines += ["", *self.answer.words().split("\n")]
        return "\n".join(printable(line) for line in lines)

    @property
    def gain(self) -> float | None:
        """By which share adjusting makes the variance within options smaller; None if unknown."""
        return joint_gain(self.course.clients)

    def gain_words(self) -> list[str]:
        """Return what the covariate gains, in a sentence; nothing if there is none."""
        if not self.covariate:
            return []
        adjusted = f"outcomes are adjusted by {self.covariate}"
        if self.gain is None:
            return [f"{adjusted}; no client has told what that gains"]
        change = f"{100 * abs(self.gain):.0f} % {'larger' if self.gain < 0 else 'smaller'}"
        told = sum(client.gain is not None for client in self.course.clients)
        said = f"which makes the variance within options {change}"
        return [f"{adjusted}, {said} ({counted(told, 'client')})"]

    def signature_words(self) -> str:
        """Return what is signed, in a sentence."""
        if not self.signed:
            return "not signed: nobody else can verify it"
        if not self.head:
            return "signed; nothing is decided yet"
        return f"signed; fingerprint of the log at the last decision: {self.head}"

    def events(self) -> list[str]:
        """Return what went wrong or unexpectedly, one sentence each."""
        course, said = self.course, [*([self.aa] if self.aa else []), *self.halted]
        if self.unconfirmed:
            said.append(f"withdrawal not confirmed yet by: {shortened(self.unconfirmed)}")
        if course.rejections:
            kinds = "; ".join(f"{kind.value}: {n:,}" for kind, n in course.rejections.items())
            n = sum(course.rejections.values())
            said.append(f"{counted(n, 'update')} did not count ({kinds})")
        if course.refusals:
            refused: dict[Refused, dict[str, None]] = {}
            for refusal in course.refusals:
                refused.setdefault(refusal.why, {})[refusal.client] = None
            kinds = "; ".join(f"{why.value}: {shortened(who)}" for why, who in refused.items())
            said.append(f"clients refused to answer ({kinds})")
        arms = [arm.name for arm in self.arms]
        unlike = [
            f"{short_name(one.client)} ({shortened(compress(arms, one.unlike))})"
            for one in self.means
            if any(one.unlike)
        ]
        if unlike:
            said.append(f"means far from those of the other clients: {shortened(unlike)}")
        if self.uneven:
            lost = (f"{short_name(one)} ({', '.join(names)})" for one, names in self.uneven.items())
            said.append(
                f"outcomes are lost more often than those of other options: {shortened(lost)}"
            )
        if self.abandoned:
            phases = shortened(map(str, self.abandoned))
            said.append(f"abandoned below the quorum, and not decided: phase {phases}")
        said += [
            f"moved to {f'node {move.node}' if move.node else f'the key {move.key}'}:"
            f" {shortened(move.clients)} ({move.reason})"
            for move in course.moves
        ]
        for node in dict.fromkeys(node for _, node in self.conflicts):
            claimed = [client for client, by in self.conflicts if by == node]
            homes = shortened(dict.fromkeys(self.homes[client] for client in claimed))
            own = (client for client, home in self.homes.items() if home == node)
            said.append(
                f"REFUSED: {node_words(node, own)} claims {shortened(claimed)}, which {homes}"
                " answers for; if that is right, move them: fedbandits rebind"
            )
        if course.restarts:
            n = len(course.restarts)
            said.append(f"{counted(n, 'restart')} of the server; this is epoch {self.epoch}")
        if self.dropped:
            records = counted(self.dropped, "record")
            said.append(f"damaged and left out at the end of the log, as after a crash: {records}")
        return said


def _client(one: ClientCourse) -> dict[str, Any]:
    """Return what a client has sent, in values that JSON has."""
    said = asdict(one)
    if one.compared is None:
        del said["compared"]
    if one.gain is None:
        del said["gain"], said["measured"]
    return said


def client_means(state: RunState) -> tuple[ClientMeans, ...]:
    """Return the means of all clients, in the order in which they joined."""
    tally = state.counted
    known = tally.pulled
    far = outliers(tally.means, known)
    shown = np.where(known, tally.means, np.nan)
    return tuple(
        ClientMeans(
            client=client,
            means=tuple(None if math.isnan(mean) else mean for mean in shown[:, column].tolist()),
            unlike=tuple(far[:, column].tolist()),
        )
        for client, column in state.columns.items()
    )


def arm_statuses(
    server: Server, course: Course, answer: Answer | None, earlier: Mapping[str, Answer | None]
) -> tuple[ArmStatus, ...]:
    """Return what is known of each arm; of a withdrawn one, by the answer of that time."""
    gone = {one.arm: one for one in course.withdrawals}
    found = []
    for number, name in enumerate(server.arms):
        out, beaten = gone.get(name), server.run_state.beaten.get(number)
        known = answer if out is None else earlier[name]
        fate = ArmState.LEFT if beaten is None else ArmState.OUT
        ended = out or beaten
        estimate = low = high = None
        if known is not None and all(map(math.isfinite, known.intervals[name])):
            estimate, (low, high) = known.estimates[name], known.intervals[name]
        found.append(
            ArmStatus(
                name=name,
                state=fate if out is None else ArmState.WITHDRAWN,
                phase=None if ended is None else ended.phase,
                when=None if out is None else out.when,
                reason=None if out is None else out.reason,
                estimate=estimate,
                low=low,
                high=high,
            )
        )
    return tuple(found)


def _table(arms: Sequence[ArmStatus], answer: Answer | None) -> list[str]:
    """Return arms in lines and columns."""
    sure = "" if answer is None or answer.level == 1 else f"{100 * (1 - answer.level):g} % "
    rows = [("option", "estimate", f"{sure}interval", "")]
    for arm in arms:
        estimate = interval = "–"
        if arm.estimate is not None:
            estimate, interval = f"{arm.estimate:.4g}", f"{arm.low:.4g} to {arm.high:.4g}"
        won = answer is not None and arm.name == answer.winner
        rows.append((short_name(arm.name), estimate, interval, "the answer" if won else arm.words))
    return _in_columns(rows)


def _guardrail_table(guarded: Sequence[Guarded]) -> list[str]:
    """Return what guardrails have seen, in lines and columns."""
    rows = [("option", "guardrail", "mean", "interval", "limit", "")]
    for one in guarded:
        mean = interval = "–"
        if one.mean is not None:
            mean, interval = f"{one.mean:.4g}", f"{one.low:.4g} to {one.high:.4g}"
        limit = f"{'≤' if one.goal == 'min' else '≥'} {one.limit:g}"
        named = (short_name(one.arm), short_name(one.guardrail))
        rows.append((*named, mean, interval, limit, one.state))
    return _in_columns(rows)


def _in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows in lines; all columns but the last are as wide as they need to be."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    return ["  ".join([*map(str.ljust, row[:-1], widths), row[-1]]).rstrip() for row in rows]


def counted(number: int, what: str) -> str:
    """Return a number of things.

    Examples
    --------
    >>> counted(1, "client"), counted(2000, "client")
    ('1 client', '2,000 clients')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def shortened(names: Iterable[str], most: int = MOST_NAMES) -> str:
    """Return some names, and how many more there are.

    Examples
    --------
    >>> shortened(["a", "b", "c"], most=2), shortened(["a", "b"])
    ('a, b and 1 more', 'a, b')
    """
    listed = list(names)
    more = len(listed) - most
    return ", ".join(map(short_name, listed[:most])) + (f" and {more:,} more" if more > 0 else "")


def short_name(name: str, longest: int = _LONGEST_NAME) -> str:
    """Return a name, cut short if it is too long.

    Examples
    --------
    >>> short_name("forget-me-not", 7)
    'forget…'
    """
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def node_words(key: str, clients: Iterable[str]) -> str:
    """Return a node as people know it: by its key, and by some of its clients if it has any.

    Examples
    --------
    >>> node_words("SHA256:Qf0k", ["clinic-1"]), node_words("SHA256:9mJr", [])
    ('node SHA256:Qf0k (of clinic-1)', 'node SHA256:9mJr')
    """
    names = shortened(clients, most=3)
    return f"node {key} (of {names})" if names else f"node {key}"


def printable(text: str) -> str:
    r"""Return text without what a terminal would take for a command: names come from anybody.

    Examples
    --------
    >>> printable("a\x1b[2J")
    'a�[2J'
    """
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def clock_time(at: str) -> str:
    """Return a time of the log as people read it.

    Examples
    --------
    >>> clock_time("2026-01-31T12:00:00.250+00:00")
    '2026-01-31 12:00:00 UTC'
    """
    return f"{datetime.fromisoformat(at):%Y-%m-%d %H:%M:%S} UTC"
