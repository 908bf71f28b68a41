"""What is known of each arm of a run: as rows, and phase by phase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from fedbandits.federation.status import MOST_PHASES, ArmState, ArmStatus, printable, short_name
from fedbandits.protocol import Answer
from fedbandits.report.chart import Axis, Chart, Mark, Plot, Row, Rows, Series
from fedbandits.report.palette import PALETTE, RULE
from fedbandits.rules.beliefs import Goal

MOST_ROWS = 25
"""So many arms are shown, the best ones of those that are left first."""

MOST_COLOURED = 8
"""So many arms have a colour, a name and intervals over phases; others are grey lines."""

_OUT = "#9aa0a6"
_MARKS: dict[ArmState, Mark] = {
    ArmState.LEFT: "dot",
    ArmState.OUT: "cross",
    ArmState.WITHDRAWN: "square",
}
# Pixels from one arm to the next in one phase.
_BESIDE = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRow(ArmStatus):
    """An arm with an estimate.

    Parameters
    ----------
    name, state, phase, when, reason
        As in `fedbandits.federation.status.ArmStatus`.
    estimate, low, high : float
        With the ends of its interval.
    """

    estimate: float
    low: float
    high: float

    @property
    def label(self) -> str:
        """Its name, as it can be shown."""
        return printable(self.name)

    @property
    def fate(self) -> str:
        """What became of it, in two words: reasons are long, and stand elsewhere."""
        match self.state:
            case ArmState.LEFT:
                return "left"
            case ArmState.OUT:
                return f"out in phase {self.phase}"
        return f"withdrawn {self.when}"


def arm_rows(arms: Sequence[ArmStatus], goal: Goal) -> list[ArmRow]:
    """Return the arms that a chart shows: those with an estimate, who is left and best first.

    Examples
    --------
    >>> def arm(name, state, estimate):
    ...     known = {"estimate": estimate, "low": 0.0, "high": 1.0}
    ...     return ArmStatus(name=name, state=state, phase=1, when=None, reason=None, **known)
    >>> out, left = ArmState.OUT, ArmState.LEFT
    >>> arms = [arm("a", out, 0.9), arm("b", left, 0.5), arm("c", left, 0.6), arm("d", left, None)]
    >>> [row.name for row in arm_rows(arms, "max")], [row.name for row in arm_rows(arms, "min")]
    (['c', 'b', 'a'], ['b', 'c', 'a'])
    """
    rows = [ArmRow(**asdict(arm)) for arm in arms if arm.estimate is not None]
    sign = -1.0 if goal == "max" else 1.0
    return sorted(rows, key=lambda row: (row.state is not ArmState.LEFT, sign * row.estimate))


def intervals_chart(arms: Sequence[ArmRow]) -> Chart:
    """Return estimates and intervals, one row per arm.

    Parameters
    ----------
    arms : sequence of ArmRow
        From `arm_rows`; of more than `MOST_ROWS` the first.
    """
    rows = [
        Row(
            label=short_name(arm.label, 30),
            below=arm.fate,
            value=arm.estimate,
            low=arm.low,
            high=arm.high,
            colour=PALETTE[0] if arm.state is ArmState.LEFT else _OUT,
            faint=arm.state is not ArmState.LEFT,
        )
        for arm in arms[:MOST_ROWS]
    ]
    panel = Rows(x=Axis("estimated mean"), rows=rows)
    return Chart("estimates", [panel], size=(8.0, 1.0 + 0.3 * len(rows)))


def phases_chart(arms: Sequence[ArmRow], answers: Sequence[Answer]) -> Chart:
    """Return estimates and intervals against phase; a cross is where an arm was decided against.

    Parameters
    ----------
    arms : sequence of ArmRow
        From `arm_rows`: the first have a colour.
    answers : sequence of Answer
        After each phase, from `fedbandits.federation.followed.FollowedRun.answers`.
    """
    seen = {arm.name: _answers_with(arm, answers) for arm in arms}
    shown = [arm for arm in arms if seen[arm.name]]  # the others were withdrawn before a decision
    coloured = shown[:MOST_COLOURED]
    series = [_path(arm, seen[arm.name], "", RULE, 1.0) for arm in shown[MOST_COLOURED:]]
    for number, (arm, colour) in enumerate(zip(coloured, PALETTE, strict=False)):
        beside = _BESIDE * (number - (len(coloured) - 1) / 2)
        series += _coloured(arm, seen[arm.name], colour, beside)
    last = max(answer.phase for found in seen.values() for answer in found)
    logarithmic = last > MOST_PHASES
    phases = Axis(
        label="phase",
        log=logarithmic,
        low=0.9 if logarithmic else 0.5,
        high=1.1 * last if logarithmic else last + 0.5,
        ticks={phase: f"{phase:,}" for phase in _ticks(last, 12)},
    )
    plot = Plot(phases, Axis("estimated mean"), series)
    return Chart("eliminations", [plot], size=(8.0, 4.6), legend="shared")


def _answers_with(arm: ArmRow, answers: Sequence[Answer]) -> list[Answer]:
    """Return the answers for as long as an arm was in the game."""
    return [
        answer
        for answer in answers
        if arm.name in answer.survivors or (arm.state is ArmState.OUT and arm.phase == answer.phase)
    ]


def _path(arm: ArmRow, seen: Sequence[Answer], label: str, colour: str, width: float) -> Series:
    estimates = [answer.estimates[arm.name] for answer in seen]
    return Series(label, [answer.phase for answer in seen], estimates, colour, width=width)


def _coloured(
    arm: ArmRow, seen: Sequence[Answer], colour: str, beside: float
) -> tuple[Series, Series]:
    """Return an arm's path with its intervals, and a mark of how it ended."""
    name = short_name(arm.label, 24)
    label = name if arm.state is ArmState.LEFT else f"{name} ({arm.fate})"
    ends = [answer.intervals[arm.name] for answer in seen]
    path = _path(arm, seen, label, colour, 1.6)
    path = replace(
        path, low=[low for low, _ in ends], high=[high for _, high in ends], mark="dot", size=3.0,
        beside=beside,
    )  # fmt: skip
    end = replace(
        path, label="", group=label, x=path.x[-1:], y=path.y[-1:], low=None, high=None,
        mark=_MARKS[arm.state], size=8.0, width=0.0,
    )  # fmt: skip
    return path, end


def _ticks(last: int, most: int) -> list[int]:
    """Return the phases that an axis names, so many at most.

    Examples
    --------
    >>> _ticks(7, 12), _ticks(7, 4), _ticks(90, 12)
    ([1, 2, 3, 4, 5, 6, 7], [1, 3, 5, 7], [1, 2, 5, 10, 20, 50])
    """
    if last > MOST_PHASES:
        steps = (digit * 10**power for power in range(9) for digit in (1, 2, 5))
        return [phase for phase in steps if phase <= last]
    return list(range(1, last + 1, -(-last // most)))
