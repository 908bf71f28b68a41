"""A trial: what is compared, by which rule, with how much patience. What fedbandits.toml says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedbandits.construct import construct, keys_of, parameters_of
from fedbandits.errors import LARGEST, InputError, check_not_negative, check_number, nearest
from fedbandits.federation.coordinator import Patience
from fedbandits.federation.state_files import check_name
from fedbandits.plugins import load_tables, plugins_in_use, plugins_of
from fedbandits.privacy.policy import FEWEST_PULLS, Privacy
from fedbandits.protocol import Quorum
from fedbandits.protocol.covariates import Covariate
from fedbandits.protocol.outcomes import Limits, Outside, joint_range, words_of
from fedbandits.protocol.terms import no_guardrails
from fedbandits.rules.algorithms import ALGORITHMS, Algorithm, Fed2Ucb
from fedbandits.rules.beliefs import Beliefs, Goal
from fedbandits.rules.guardrails import Guardrail, settled
from fedbandits.rules.phased import PhasedRule
from fedbandits.rules.radii.bounded import check_range

FILE = "fedbandits.toml"
"""What the file is called."""

# What a report costs by default, in units of σ: about half a dozen phases.
_COST_IN_NOISE = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """When an outcome of live traffic is final.

    Parameters
    ----------
    maturity : float, optional
        Seconds after its assignment when a unit without an outcome is final. Without it, a phase
        is reported only when every unit has an outcome.
    missing : float, optional
        The value of such a unit, such as 0.0 for a visitor who has bought nothing.
    attrition : bool
        Whether every unit should have an outcome, so that one without is lost: the client then
        watches whether it loses as many of every option.
    """

    maturity: float | None = None
    missing: float | None = None
    attrition: bool = False

    def __post_init__(self) -> None:
        if (self.maturity is None) != (self.missing is None):
            name = "maturity" if self.maturity is None else "missing"
            raise InputError(
                name,
                "is missing; maturity says when a unit without an outcome is final, and missing"
                " what it counts: give both or neither",
            )
        if self.attrition and self.maturity is None:
            raise InputError("attrition", "true, and no maturity says when an outcome is lost")
        if self.maturity is not None:
            check_not_negative(self.maturity, "maturity")
            if self.maturity == 0:
                raise InputError("maturity", "0 s: every outcome would come too late")
        if self.missing is not None:
            check_number(self.missing, "missing")
            if not abs(self.missing) <= LARGEST:
                raise InputError("missing", f"{self.missing!r} is not a finite number such as 0.0")


@dataclass(frozen=True, kw_only=True)
class TrialKeys:
    """What the file says, except for the keys of its algorithm.

    Parameters
    ----------
    title : str
        What reports are headed with, and what the run is called.
    arms : tuple of str
        Names of the options.
    noise, spread : float, optional
        σ and σ_c, as bounds. With a range, half of it by default.
    limits : (float, float), optional
        The range that contains every outcome; by default that of the privacy policy.
    outside : {"refuse", "clip"}
        What clients do with an outcome outside it.
    goal : {"max", "min"}
        Whether the best option has the highest or the lowest mean.
    horizon, population : int, optional
        T and N.
    cost : float, optional
        C: what a report of one client costs, in units of the outcome, for algorithms that plan by
        it. More means fewer and longer phases; 20 σ by default, because a round
        takes seconds.
    privacy : Privacy, optional
        How clients protect their means.
    quorum : Quorum
        How many clients must report.
    patience : Patience
        How long to wait for them.
    min_pulls : int
        A mean of fewer pulls is never sent.
    quarantine_after : int
        The number of invalid updates after which a client is ignored.
    max_phases : int
        The number of phases after which the run ends undecided: a tie would never end.
    interleave : bool
        Whether clients try the options in turns, in an order that is drawn anew for each turn, so
        that none is confounded with the time of day.
    seed : int
        Of which clients are let in, and of the order of turns.
    live : Live, optional
        That outcomes come from live traffic, and when they are final; from ``pull`` by default.
    covariate : Covariate, optional
        What is known of a unit before its option, and adjusts its outcome. ``noise`` and ``spread``
        are then those of adjusted outcomes, ``limits`` those of outcomes before that.
    segments : mapping from str to list of str
        Groups of clients that the report shows apart: names, or patterns of names such as
        ``"north-*"``. A client is in the first group that has it.
    aa : bool
        Whether all options are the first one under other names, to see whether a difference is
        called where there is none.
    offline : tuple of str
        Clients at sites without a network, which get letters; see
        `fedbandits.federation.letters`.
    signed : bool
        Whether updates of a federation count only if their clients have signed them, and the server
        signs its decisions. What is only tried in one process is not signed.
    guardrails : list of Guardrail
        Second outcomes with a limit: an option that is beyond one is withdrawn.
    """

    title: str
    arms: tuple[str, ...]
    noise: float | None = field(default=None, metadata={"key": "assume.noise"})
    spread: float | None = field(default=None, metadata={"key": "assume.spread"})
    limits: Limits | None = field(default=None, metadata={"key": "range"})
    outside: Outside = "refuse"
    goal: Goal = "max"
    horizon: int | None = None
    population: int | None = None
    cost: float | None = field(default=None, metadata={"key": "communication_cost"})
    privacy: Privacy | None = None
    quorum: Quorum = field(default_factory=Quorum)
    patience: Patience = field(default_factory=Patience)
    min_pulls: int = FEWEST_PULLS
    quarantine_after: int = 3
    max_phases: int = 100
    interleave: bool = True
    seed: int = 0
    live: Live | None = None
    covariate: Covariate | None = None
    segments: Mapping[str, list[str]] = field(default_factory=dict)
    aa: bool = False
    offline: tuple[str, ...] = ()
    signed: bool = True
    guardrails: list[Guardrail] = field(default_factory=list)

    def __post_init__(self) -> None:
        object.__setattr__(self, "guardrails", settled(self.guardrails))
        if len(self.arms) < 2:
            raise InputError("arms", f"{len(self.arms)}; a comparison needs at least two")
        for name in self.arms:
            if not name.strip() or self.arms.count(name) > 1:
                raise InputError("arms", f'"{name}" is empty, or there twice; name each by itself')
        for name in ("horizon", "population", "min_pulls", "quarantine_after", "max_phases"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(name, f"{value} is below 1")
        for name in self.offline:
            check_name(name, "offline")
            if self.offline.count(name) > 1 or not self.signed:
                raise InputError(
                    "offline", f'"{name}" is there twice, or signed is false: letters are signed'
                )
        if self.seed < 0:
            raise InputError("seed", f"{self.seed} is below 0")
        for segment, clients in self.segments.items():
            if not segment.strip() or not clients or not all(clients):
                raise InputError(
                    f"segments.{segment}",
                    "is empty; name each segment and its clients, such as"
                    ' north = ["clinic-1", "north-*"]',
                )
        self._settle_range()
        for name in ("noise", "spread", "cost"):
            value = getattr(self, name)
            if value is not None:
                check_not_negative(value, "communication_cost" if name == "cost" else name)

    def _settle_range(self) -> None:
        """Make sure that outcomes have one range, both of the trial and of the privacy policy."""
        if self.limits is not None:
            object.__setattr__(self, "limits", check_range(self.limits))
        if self.privacy is not None and self.covariate is None:
            clipped = self.privacy.range
            if self.limits not in (None, clipped):
                raise InputError(
                    "privacy.range",
                    f"{words_of(clipped)}, and range is {words_of(self.limits or clipped)};"
                    " outcomes have one range: leave one of the two out",
                )
            object.__setattr__(self, "limits", clipped)


@dataclass(frozen=True, kw_only=True)
class Trial(TrialKeys):
    """What a federation is to find out, and how: see `TrialKeys` for the other parameters.

    Parameters
    ----------
    algorithm : Algorithm
        What decides.
    tables : dict
        What it was read from.
    treatment : str, optional
        What all options are if they are one under several names; each is its own by default.
    """

    algorithm: Algorithm
    tables: Mapping[str, Any] = field(default_factory=dict)
    treatment: str | None = None

    def given(self, arm: int) -> str:
        """Return what a client does if it tries an option: the name that its code knows."""
        return self.arms[arm] if self.treatment is None else self.treatment

    @property
    def range(self) -> Limits | None:
        """The range that every outcome is held to: the trial's, within that of its radius.

        If there is a covariate, the radius is about adjusted outcomes.
        """
        if self.covariate is not None:
            return self.limits
        return joint_range((self.limits, self.rule().radius.limits))

    @property
    def adjusted_limits(self) -> Limits | None:
        """The range of what is compared: outcomes, or adjusted ones if there is a covariate."""
        if self.covariate is None or self.limits is None:
            return self.limits
        return self.covariate.adjusted_range(self.limits)

    def check_clients(self, clients: int) -> None:
        """Refuse a number of clients with which the run would wait for more forever.

        Raises
        ------
        InputError
            With the key that asks for more.
        """
        everyone = self.population if self.algorithm.all_clients_from_start else None
        asking = (
            ("quorum.least", self.quorum.least),
            ("patience.clients", self.patience.clients),
            ("population", everyone or 1),
        )
        for key, wanted in asking:
            if clients < wanted:
                raise InputError(
                    key,
                    f"{wanted}, and there are {clients} clients: the first phase would never be"
                    f" opened; take --clients {wanted} or more, or lower it",
                )

    def doubts(self) -> tuple[str, ...]:
        """Return what the trial leaves unchecked, in sentences."""
        found = []
        if self.range is None:
            found.append(
                "no range is declared, so that no outcome can be checked: one that is mistyped"
                " counts as it is; write range = [low, high]"
            )
        if self.covariate is not None and not self._gains(self.rule()):
            found.append(
                f'the covariate "{self.covariate.name}" gains nothing: the rule rests on the range'
                " of outcomes, which adjusting only widens; write assume.noise, the σ of adjusted"
                " outcomes, or take a radius that estimates it"
            )
        return tuple(found)

    def _gains(self, rule: PhasedRule) -> bool:
        """Return whether a rule decides sooner if outcomes scatter less."""
        if rule.needs_squares:
            return True
        return rule.radius.limits is None and (self.noise is not None or not rule.radius.uses_noise)

    def covariate_words(self) -> str:
        """Return what the covariate does, in a sentence; nothing if there is none."""
        if self.covariate is None:
            return ""
        fixed, name = self.covariate.fixed, self.covariate.name
        by = (
            "a coefficient that each client estimates from its history"
            if fixed is None
            else f"{fixed.coefficient:g} times what {name} is above {fixed.mean:g}"
        )
        said = [f"outcomes are adjusted by {by}"]
        if self.limits is not None and self.adjusted_limits is not None:
            ranges = map(words_of, (self.adjusted_limits, self.limits))
            said.append("they lie in {} instead of {}".format(*ranges))
        rule = self.rule()
        if rule.noise is not None and rule.radius.uses_noise:
            source = "as was told" if self.noise is not None else "half of that range"
            said.append(f"the σ of adjusted outcomes is at most {rule.noise:.4g}, {source}")
        return "; ".join(said)

    def rule(self) -> PhasedRule:
        """Return what decides.

        Raises
        ------
        InputError
            If what it needs is not said.
        """
        limits = self.adjusted_limits
        half = None if limits is None else (limits[1] - limits[0]) / 2
        needed = self.algorithm.uses_variances
        noise = self.noise if self.noise is not None or not needed else half
        spread, bounded = self.spread, False
        if spread is None and needed:
            # For clients that exist, their range is enough.
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
                cost=self._cost(noise),
                goal=self.goal,
                bounded=bounded,
            )
        )
        if rule.decides_every_slot:
            raise InputError(
                "algorithm", f'"{self.algorithm.name}" decides in every slot; use one with phases'
            )
        unknown = self.spread is None and spread == 0.0
        if unknown and (rule.estimator.needs_spread or not rule.asks_everyone):
            why = (
                f'the estimator "{rule.estimator.name}" needs it'
                if rule.asks_everyone
                else "the answer is for more clients than those who play"
            )
            raise InputError(
                "assume.spread",
                f"is missing, and {why}; give a bound, or a range of outcomes",
            )
        return replace(rule.with_fewest_pulls(self.min_pulls), max_phases=self.max_phases)

    def _cost(self, noise: float | None) -> float:
        """Return C, for an algorithm that plans by it."""
        if self.cost is None:
            return _COST_IN_NOISE * (1.0 if noise is None else noise)
        if not self.algorithm.uses_cost:
            raise InputError(
                "communication_cost", f'"{self.algorithm.name}" does not use it; leave it out'
            )
        return self.cost


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
        own = tables.get("trial")
        if not isinstance(own, Mapping):
            return _trial(tables)
        # An experiment file that says in a table how the comparison is run in earnest.
        shared = {"plugins": tables["plugins"]} if "plugins" in tables else {}
        try:
            return _trial({**shared, **own})
        except InputError as error:
            raise error.within("trial") from None


def _trial(tables: Mapping[str, Any]) -> Trial:
    named = tables.get("algorithm", Fed2Ucb.name)
    algorithm = ALGORITHMS.named(named, "algorithm")
    if not isinstance(algorithm.all_clients_from_start, bool):
        raise InputError(
            "algorithm",
            f'"{named}" does not run in a federation: {algorithm.__name__} does not'
            f" say all_clients_from_start; use one that does, such as {Fed2Ucb.name}",
        )
    own = keys_of(algorithm)
    known = [*keys_of(TrialKeys), *own]
    said = {key: value for key, value in tables.items() if key not in ("algorithm", "plugins")}
    assumed = said.pop("assume", {})
    if not isinstance(assumed, Mapping):
        raise InputError("assume", f"{assumed!r} is not a table such as {{ noise = 0.5 }}")
    said |= {f"assume.{key}": value for key, value in assumed.items()}
    for key in said:
        if key not in known:
            why = algorithm.refusals.get(key, f"is not a key here; {nearest(key, known)}")
            raise InputError(key, why)
    for key in ("arms", "offline"):
        if isinstance(said.get(key), list):
            said[key] = tuple(said[key])
    shared = construct(TrialKeys, {k: v for k, v in said.items() if k not in own}, "")
    first, names = shared.arms[0], shared.arms
    if shared.aa:
        # No option keeps its name: whoever halts the first one at a site halts all of them.
        names = tuple(f"{first} ({number})" for number in range(1, len(names) + 1))
    trial = Trial(
        **(parameters_of(shared) | {"arms": names}),
        algorithm=construct(algorithm, {k: v for k, v in said.items() if k in own}, ""),
        tables=dict(tables),
        treatment=first if shared.aa else None,
    )
    _check(trial)
    return trial


def _check(trial: Trial) -> None:
    """Refuse a trial that could never run, before anything is pulled."""
    rule = trial.rule()
    unwatched = no_guardrails(rule, trial.privacy) if trial.guardrails else None
    if unwatched is not None:
        raise InputError("guardrails", unwatched)
    least, population = trial.quorum.least, trial.population
    if population is not None and population < least:
        raise InputError("quorum.least", f"{least} is above the population, {population}; lower it")
    if trial.range is None and trial.outside == "clip":
        raise InputError("outside", '"clip", and no range is declared; write range = [low, high]')
    for phase in rule.checked_phases():
        if phase.pulls < trial.min_pulls:
            which = "the first phase" if phase.number == 1 else f"phase {phase.number}"
            raise InputError(
                "pulls",
                f"{phase.pulls} in {which}, and min_pulls is {trial.min_pulls}: a mean of so few"
                " gives observations away; pull more, or lower min_pulls",
            )
    slots = rule.pulls(1) * rule.n_arms
    if trial.horizon is not None and slots > trial.horizon:
        raise InputError("horizon", f"{trial.horizon:,} slots, and the first phase takes {slots:,}")
    check_not_above(trial.patience.clients, trial.population, "patience.clients")
    if trial.covariate is not None:
        _check_covariate(trial, trial.covariate, rule)
    if trial.live is not None:
        _check_live(trial, trial.live)


def _check_covariate(trial: Trial, covariate: Covariate, rule: PhasedRule) -> None:
    """Refuse ranges that adjusted outcomes may leave, and what would reveal a history."""
    privacy = trial.privacy
    if privacy is not None and privacy.noise is not None and covariate.fixed is None:
        raise InputError(
            "covariate.coefficient",
            '"history", and means have noise: what is estimated from a history tells of units that'
            " no budget covers; fix the coefficient and the mean",
        )
    declared = {
        "radius.range": rule.radius.limits,
        "privacy.range": None if privacy is None else privacy.range,
    }
    covariate.check_held_by(trial.limits, declared)


def check_not_above(clients: int, population: int | None, where: str) -> None:
    """Refuse to wait for more clients than exist."""
    if population is not None and clients > population:
        raise InputError(
            where,
            f"{clients} clients of a population of {population}: it would wait forever; give fewer",
        )


def _check_live(trial: Trial, live: Live) -> None:
    """Refuse live traffic that could not be reported in time, or that the clock would bias."""
    deadline, resend = trial.patience.deadline, trial.patience.resend
    if not trial.interleave:
        raise InputError("interleave", "false with live biases options by time of day; remove it")
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
    limits = trial.range
    if live.missing is not None and limits and not limits[0] <= live.missing <= limits[1]:
        raise InputError("live.missing", f"{live.missing:g} is outside range = {words_of(limits)}")
