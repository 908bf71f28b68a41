"""A trial: what is compared, by which rule, with how much patience. What fedbandits.toml says."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from fedbandits.construct import (
    StrictTable,
    construct,
    keys_of,
    pair_from,
    validated,
)
from fedbandits.errors import (
    LARGEST,
    InputError,
    check_not_negative,
    check_number,
    check_word,
    nearest,
)
from fedbandits.federation.coordinator import Patience
from fedbandits.plugins import load_tables, plugins_in_use, plugins_of
from fedbandits.privacy.policy import FEWEST_PULLS, Privacy
from fedbandits.protocol import Quorum
from fedbandits.rules.algorithms import ALGORITHMS, Algorithm, Fed2Ucb
from fedbandits.rules.phased import Beliefs, Goal, PhasedRule
from fedbandits.rules.radii.bounded import check_range

FILE = "fedbandits.toml"
"""What the file is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """When an outcome of live traffic is final.

    Parameters
    ----------
    maturity : float, optional
        So many seconds after it was assigned, a unit without an outcome is final. Without it, a
        phase is not reported before every unit has one.
    missing : float, optional
        The value of such a unit, as 0.0 for a visitor who has bought nothing.
    """

    maturity: float | None = None
    missing: float | None = None

    def __post_init__(self) -> None:
        if (self.maturity is None) != (self.missing is None):
            name = "maturity" if self.maturity is None else "missing"
            raise InputError(
                name,
                "is missing; maturity says when a unit without an outcome is final, and missing"
                " what it counts: give both or neither",
            )
        if self.maturity is not None:
            check_not_negative(self.maturity, "maturity")
            if self.maturity == 0:
                raise InputError("maturity", "0 s: every outcome would come too late")
        if self.missing is not None:
            check_number(self.missing, "missing")
            if not abs(self.missing) <= LARGEST:
                raise InputError("missing", f"{self.missing!r} is not a finite number such as 0.0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What a federation is to find out, and how.

    Parameters
    ----------
    title : str
        What reports are headed with, and what the run is called.
    arms : tuple of str
        Names of the options.
    algorithm : Algorithm
        What decides.
    noise, spread : float, optional
        σ and σ_c, as bounds. With a range, half of it by default.
    limits : (float, float), optional
        The range that contains every outcome.
    goal : {"max", "min"}
        Whether the best option has the highest or the lowest mean.
    horizon, population : int, optional
        T and N.
    privacy : Privacy, optional
        How clients protect their means.
    quorum : Quorum
        How many clients must report.
    patience : Patience
        How long to wait for them.
    min_pulls : int
        A mean of fewer pulls is never sent.
    quarantine_after : int
        A client whose updates were wrong so often is not listened to any more.
    max_phases : int
        After so many phases the run ends, undecided: a tie would go on for ever.
    interleave : bool
        Whether clients try the options in turns, in an order that is drawn anew for each turn, so
        that none is confounded with the time of day.
    seed : int
        Of which clients are let in, and of the order of turns.
    live : Live, optional
        That outcomes come from live traffic, and when they are final; from ``pull`` by default.
    tables : dict
        What it was read from.
    """

    title: str
    arms: tuple[str, ...]
    algorithm: Algorithm
    noise: float | None = None
    spread: float | None = None
    limits: tuple[float, float] | None = None
    goal: Goal = "max"
    horizon: int | None = None
    population: int | None = None
    privacy: Privacy | None = None
    quorum: Quorum = field(default_factory=Quorum)
    patience: Patience = field(default_factory=Patience)
    min_pulls: int = FEWEST_PULLS
    quarantine_after: int = 3
    max_phases: int = 100
    interleave: bool = True
    seed: int = 0
    live: Live | None = None
    tables: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.arms) < 2:
            raise InputError("arms", f"{len(self.arms)}; a comparison needs at least two")
        for name in self.arms:
            if not name.strip() or self.arms.count(name) > 1:
                raise InputError("arms", f'"{name}" is empty, or there twice; name each by itself')
        if self.limits is not None:
            object.__setattr__(self, "limits", check_range(self.limits))
        for name in ("noise", "spread"):
            value = getattr(self, name)
            if value is not None:
                check_not_negative(value, name)

    def rule(self) -> PhasedRule:
        """Return what decides.

        Raises
        ------
        InputError
            If what it needs is not said.
        """
        half = None if self.limits is None else (self.limits[1] - self.limits[0]) / 2
        needed = self.algorithm.uses_variances
        noise = self.noise if self.noise is not None or not needed else half
        spread, bounded = self.spread, False
        if spread is None and needed:
            # Of clients that exist, their range is enough to know.
            bounded = self.population is not None or self.algorithm.all_clients_from_start
            spread = half if bounded else None
            if spread is None and self.algorithm.all_clients_from_start:
                spread = 0.0
        for name, value in (("noise", noise), ("spread", spread)):
            if value is None and needed:
                raise InputError(
                    f"assume.{name}",
                    "is missing; give a bound, or a range of outcomes"
                    + ("" if name == "noise" else " and the population"),
                )
        rule = self.algorithm.rule(
            Beliefs(
                n_arms=len(self.arms),
                horizon=self.horizon,
                noise=noise,
                spread=spread,
                population=self.population,
                goal=self.goal,
                bounded=bounded,
            )
        )
        if rule.decides_every_slot:
            raise InputError(
                "algorithm", f'"{self.algorithm.name}" decides in every slot; use one with phases'
            )
        if self.spread is None and spread == 0.0 and not rule.asks_everyone:
            raise InputError(
                "assume.spread",
                "is missing, and the answer is for more clients than those who play; give a bound,"
                " or a range of outcomes",
            )
        return replace(rule.with_fewest_pulls(self.min_pulls), max_phases=self.max_phases)


class _Assume(StrictTable):
    noise: float | None = None
    spread: float | None = None


class _File(StrictTable):
    """The keys of the file; the others are its algorithm's."""

    model_config = ConfigDict(extra="allow")

    title: str
    arms: list[str]
    algorithm: str = Fed2Ucb.name
    goal: str = "max"
    horizon: Annotated[int, Field(ge=1)] | None = None
    population: Annotated[int, Field(ge=1)] | None = None
    assume: dict[str, Any] = Field(default_factory=dict)
    range: list[float] | None = None
    privacy: dict[str, Any] | None = None
    quorum: dict[str, Any] = Field(default_factory=dict)
    patience: dict[str, Any] = Field(default_factory=dict)
    min_pulls: Annotated[int, Field(ge=1)] = FEWEST_PULLS
    quarantine_after: Annotated[int, Field(ge=1)] = 3
    max_phases: Annotated[int, Field(ge=1)] = 100
    interleave: bool = True
    seed: Annotated[int, Field(ge=0)] = 0
    live: dict[str, Any] | None = None
    plugins: list[Any] = Field(default_factory=list)


def load_trial(path: str | Path, *, plugins: Iterable[str | Path] = ()) -> Trial:
    """Return the trial of a file, or of the fedbandits.toml in a folder.

    Parameters
    ----------
    path : path
        Of the file or the folder.
    plugins : iterable of paths
        Plugin files besides those that the file lists.

    Raises
    ------
    InputError
        If it cannot be read or says something that cannot be; the message names the key.
    """
    path = Path(path)
    if path.is_dir():
        path /= FILE
    if not path.exists():
        raise InputError(str(path), "is not there; fedbandits new FOLDER writes a project with one")
    return read_trial(load_tables(path, plugins=plugins))


def read_trial(tables: Mapping[str, Any]) -> Trial:
    """Return the trial that the tables of a file describe.

    Examples
    --------
    >>> trial = read_trial({
    ...     "title": "colours",
    ...     "arms": ["red", "blue"],
    ...     "pulls": "50",
    ...     "admissions": "2^p",
    ...     "radius": {"rule": "certified", "delta": 0.05},
    ...     "range": [0, 1],
    ...     "population": 40,
    ... })
    >>> trial.arms, trial.rule().population
    (('red', 'blue'), 40)
    """
    with plugins_in_use(plugins_of(tables)):
        return _trial(tables)


def _trial(tables: Mapping[str, Any]) -> Trial:
    file = validated(_File, tables, "")
    assume = validated(_Assume, file.assume, "assume")
    algorithm = ALGORITHMS.named(file.algorithm, "algorithm")
    if not isinstance(algorithm.all_clients_from_start, bool):
        raise InputError(
            "algorithm",
            f'"{file.algorithm}" does not run in a federation, since {algorithm.__name__} does not'
            f" say all_clients_from_start; use one that does, such as {Fed2Ucb.name}",
        )
    own = {key: value for key, value in tables.items() if key not in _File.model_fields}
    known = [*_File.model_fields, *keys_of(algorithm)]
    for key in own:
        if key not in known:
            raise InputError(key, f"is not a key here; {nearest(key, known)}")
    check_word(file.goal, Goal, "goal")
    trial = Trial(
        title=file.title,
        arms=tuple(file.arms),
        algorithm=construct(algorithm, own, ""),
        noise=assume.noise,
        spread=assume.spread,
        limits=None if file.range is None else _range(file.range),
        goal="max" if file.goal == "max" else "min",
        horizon=file.horizon,
        population=file.population,
        privacy=None if file.privacy is None else construct(Privacy, file.privacy, "privacy"),
        quorum=construct(Quorum, file.quorum, "quorum"),
        patience=construct(Patience, file.patience, "patience"),
        min_pulls=file.min_pulls,
        quarantine_after=file.quarantine_after,
        max_phases=file.max_phases,
        interleave=file.interleave,
        seed=file.seed,
        live=None if file.live is None else construct(Live, file.live, "live"),
        tables=dict(tables),
    )
    _check(trial)
    return trial


def _range(values: list[float]) -> tuple[float, float]:
    try:
        return pair_from(values)
    except InputError as error:
        raise error.within("range") from None


def _check(trial: Trial) -> None:
    """Refuse a trial that could never run, before anybody pulls anything."""
    rule = trial.rule()
    pulls = rule.pulls(1)
    if pulls < trial.min_pulls:
        raise InputError(
            "pulls",
            f"{pulls} in the first phase, and min_pulls is {trial.min_pulls}: a mean of so few"
            " gives observations away; pull more, or lower min_pulls",
        )
    if pulls * rule.n_arms > (math.inf if trial.horizon is None else trial.horizon):
        raise InputError(
            "horizon", f"{trial.horizon:,} slots, and the first phase takes {pulls * rule.n_arms:,}"
        )
    if trial.live is not None:
        _check_live(trial, trial.live)


def _check_live(trial: Trial, live: Live) -> None:
    """Refuse live traffic that nobody could report of in time, or that the clock would bias."""
    deadline, resend = trial.patience.deadline, trial.patience.resend
    if not trial.interleave:
        raise InputError(
            "interleave",
            "false, with live: each option would have a time of day of its own; leave it true",
        )
    if live.maturity is not None and live.maturity >= deadline:
        raise InputError(
            "live.maturity",
            f"{live.maturity:g} s, and patience.deadline is {deadline:g} s: a phase takes its"
            " traffic and then the maturity; make the deadline longer than both together",
        )
    if resend >= deadline:
        raise InputError(
            "patience.resend",
            f"{resend:g} s, and the deadline {deadline:g} s: clients with live traffic report when"
            " they are asked again, so ask more often than that",
        )
    limits = trial.limits
    if live.missing is not None and limits and not limits[0] <= live.missing <= limits[1]:
        raise InputError(
            "live.missing", f"{live.missing:g} is outside the range {limits[0]:g} to {limits[1]:g}"
        )
