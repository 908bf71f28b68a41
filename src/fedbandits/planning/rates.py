"""Plans for rates: which radius is the sharpest for outcomes of 0 and 1, and a file that runs.

A radius for a known range reads the variance off the rates themselves, which pays if they are near
0 or 1. Which of the valid ones needs the fewest pulls depends on the rates, so each is asked: after
how many pulls would it decide if estimates equalled the rates? The best is then simulated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedbandits.errors import InputError, check_count, check_not_negative, check_number
from fedbandits.experiments.output import open_output
from fedbandits.planning.outlook import Expected
from fedbandits.planning.wording import counted, rounded
from fedbandits.privacy.policy import FEWEST_PULLS
from fedbandits.problems.approximate import Approximate
from fedbandits.problems.laws import Bernoulli, Beta
from fedbandits.problems.problem import checked_means
from fedbandits.report.wording import share
from fedbandits.rules.algorithms import Algorithm, Fed1Ucb, Fed2Ucb, FedIndex
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.phased import LONGEST_HORIZON, PhasedRule
from fedbandits.rules.radii import BernsteinRadius, CertifiedRadius, ChernoffRadius
from fedbandits.rules.radii.known import Radius
from fedbandits.rules.reports import Reports
from fedbandits.simulation import simulate

NOISE = 0.5
"""A valid σ of every outcome in [0, 1]."""

MOST_UNDECIDED = 0.05
"""If more simulated games stay undecided, nothing is suggested."""

_GAMES = 100
_CLIENTS = tuple(2**step for step in range(1, 11))
# Estimates scatter, so a game may be decided before or after it is forecast to be: which part of
# the forecast pulls the first phase makes.
_PARTS = (1, 2, 4, 8)
_DEFAULT_DELTA = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class RatesQuestion:
    """What is compared, and how sure the answer must be.

    Parameters
    ----------
    rates : tuple of float
        The expected rate of each option, one of them the highest.
    spread : float
        Standard deviation of clients' rates around these.
    clients : int, optional
        N, if the answer is for these clients alone; unlimited by default.
    cost : float
        C: what a client's report costs.
    delta : float, optional
        δ. Without one it is 0.05, or 1/T with a horizon; an index rule, which promises none, is
        then considered too.
    horizon : int, optional
        T.
    """

    rates: tuple[float, ...]
    spread: float = 0.0
    clients: int | None = None
    cost: float = 1.0
    delta: float | None = None
    horizon: int | None = None

    def __post_init__(self) -> None:
        rates = checked_means(self.rates, "rates")
        for place, rate in enumerate(rates.tolist()):
            if not 0.0 <= rate <= 1.0:
                raise InputError(f"rates[{place}]", f"{rate:g} is not a rate from 0 to 1")
        if np.sort(rates)[-1] == np.sort(rates)[-2]:
            raise InputError("rates", f"{rates.max():g} is there twice, and only one can be best")
        object.__setattr__(self, "rates", tuple(rates.tolist()))
        check_not_negative(self.spread, "spread")
        check_not_negative(self.cost, "cost")
        check_count(self.clients, "clients", optional=True)
        check_count(self.horizon, "horizon", 2, optional=True)
        if self.delta is not None:
            check_number(self.delta, "delta")
            if not 0.0 < self.delta < 1.0:
                raise InputError("delta", f"{self.delta:g} is not an error probability: 0 < δ < 1")
        self.problem()  # refuses a spread that rates cannot have

    @property
    def level(self) -> float | str:
        """δ as a radius takes it."""
        if self.delta is not None:
            return self.delta
        return _DEFAULT_DELTA if self.horizon is None else "1/T"

    @property
    def gaps(self) -> list[float]:
        """How far each rate is below the highest."""
        return [max(self.rates) - rate for rate in self.rates]

    def problem(self) -> Approximate:
        """Return the game."""
        return Approximate(
            means=self.rates,
            noise=Bernoulli(),
            spread=Beta(self.spread),
            population=self.clients,
        )

    def beliefs(self) -> Beliefs:
        """Return what a rule is told."""
        return Beliefs(
            n_arms=len(self.rates),
            horizon=self.horizon,
            noise=NOISE,
            spread=self.told_spread,
            population=self.clients,
            cost=self.cost,
        )

    @property
    def told_spread(self) -> float:
        """A bound that is valid for rates with this standard deviation, which a rule is told."""
        return self.problem().spread_proxy

    def radii(self) -> tuple[Radius, ...]:
        """Return the radii that are valid for outcomes of 0 and 1 and carry δ."""
        return (
            BernsteinRadius(delta=self.level),
            ChernoffRadius(delta=self.level),
            CertifiedRadius(delta=self.level),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a radius needs to decide in one phase if estimates equal the rates.

    Parameters
    ----------
    radius : str
        Its name in files.
    clients, pulls : int
        How many clients, and how often each tries every option.
    pulls_in_all : int
        By all clients.
    regret : float
        Exploration, and the cost of reports.
    """

    radius: str
    clients: int
    pulls: int
    pulls_in_all: int
    regret: float


def forecasts(question: RatesQuestion) -> list[Forecast]:
    """Return what each radius needs that decides within the horizon, the fewest pulls first.

    Each is forecast with the number of clients with which its regret is the least.

    Examples
    --------
    >>> found = forecasts(RatesQuestion(rates=(0.02, 0.03), clients=20))
    >>> [(one.radius, one.pulls) for one in found]
    [('bernstein', 321), ('chernoff', 473), ('certified', 1747)]
    """
    best = []
    for radius in question.radii():
        crowds = _CLIENTS if question.clients is None else (question.clients,)
        decided = [
            one for clients in crowds if (one := _forecast(question, radius, clients)) is not None
        ]
        if decided:
            best.append(min(decided, key=lambda one: one.regret))
    return sorted(best, key=lambda one: (one.pulls_in_all, one.clients))


def _forecast(question: RatesQuestion, radius: Radius, clients: int) -> Forecast | None:
    """Return what a radius needs with so many clients, or None if the horizon does not allow it."""
    rule = _algorithm(question, radius, 1, clients).rule(question.beliefs())
    n_arms = len(question.rates)
    most = (question.horizon or LONGEST_HORIZON) // n_arms
    if not _decides(rule, question, most, clients):
        return None
    few, enough = 0, most
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (
            (few, middle) if _decides(rule, question, middle, clients) else (middle, enough)
        )
    pulls = max(enough, FEWEST_PULLS)
    return Forecast(
        radius=radius.rule,
        clients=clients,
        pulls=pulls,
        pulls_in_all=n_arms * clients * pulls,
        regret=clients * (pulls * sum(question.gaps) + question.cost),
    )


def _decides(rule: PhasedRule, question: RatesQuestion, pulls: int, clients: int) -> bool:
    """Return whether one option is left after a phase in which averages equal the rates."""
    found = rule.estimator.estimate(Reports.planned([[pulls]], clients), rule.sampling)
    verdict = rule.decide(
        phase=1,
        active=np.ones(rule.n_arms, dtype=np.bool_),
        estimate=replace(found, values=np.array(question.rates)),
    )
    return int(verdict.active.sum()) == 1


def _doubling(first: int) -> str:
    return f"{first}*2^(p-1)"


def _algorithm(
    question: RatesQuestion, radius: Radius, first: int, clients: int
) -> Fed1Ucb | Fed2Ucb:
    """Return a rule whose pulls double from phase to phase."""
    pulls = _doubling(first)
    if question.clients is not None:
        return Fed1Ucb(pulls=pulls, radius=radius)
    return Fed2Ucb(pulls=pulls, admissions=str(clients), radius=radius)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What games with an algorithm took.

    Parameters
    ----------
    algorithm : Algorithm
        What was played.
    keys : dict
        Its keys, as a file has them.
    regret, clients, phases : Expected
        Means with standard errors.
    wrong_rate, undecided_rate : float
        Shares of games that ended on a worse option, or on none.
    """

    algorithm: Algorithm
    keys: dict[str, str]
    regret: Expected
    clients: Expected
    phases: Expected
    wrong_rate: float
    undecided_rate: float

    def as_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        numbers = {name: asdict(getattr(self, name)) for name in ("regret", "clients", "phases")}
        return {
            "algorithm": self.algorithm.name,
            **numbers,
            "wrong_rate": self.wrong_rate,
            "undecided_rate": self.undecided_rate,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RatesPlan:
    """Which rule to run for a comparison of rates.

    Parameters
    ----------
    question : RatesQuestion
        What was asked.
    compared : tuple of Forecast
        One for each radius that decides, the sharpest first; empty if none does.
    elimination : Simulated, optional
        Games with the sharpest radius.
    index : Simulated, optional
        Games with `fed-index`, if no error probability was asked for and there is a horizon.
    seed : int
        Of the simulations.
    """

    question: RatesQuestion
    compared: tuple[Forecast, ...]
    elimination: Simulated | None
    index: Simulated | None
    seed: int = 0

    @property
    def suggested(self) -> Simulated | None:
        """What has the least regret of what decides; None if nothing is feasible."""
        found = [one for one in (self.elimination, self.index) if one is not None]
        fit = [one for one in found if one is self.index or one.undecided_rate <= MOST_UNDECIDED]
        return min(fit, key=lambda one: one.regret.mean, default=None)

    @property
    def feasible(self) -> bool:
        """Whether anything is suggested."""
        return self.suggested is not None

    def answer(self) -> list[str]:
        """Return the plan in plain words, one paragraph per item."""
        asked, best = self.question, self.suggested
        who = (
            "all clients there might be" if asked.clients is None else f"{asked.clients:,} clients"
        )
        rates = ", ".join(f"{rate:g}" for rate in asked.rates)
        spread = (
            "which all have the same rates"
            if asked.spread == 0
            else f"whose own rates have a spread of {asked.spread:g}"
        )
        found = [f"Outcomes are 0 or 1, the rates {rates}; the answer is for {who}, {spread}."]
        if asked.clients is None and asked.spread == 0:
            found.append("If clients may differ, give --spread: the guarantee rests on it.")
        needs = [
            f"{one.radius} ({one.pulls_in_all:,} pulls, {one.clients:,} clients)"
            for one in self.compared
        ]
        if needs:
            found.append(
                f"If estimates equal the rates, these radii decide with: {', '.join(needs)}."
            )
        if best is None:
            return [*found, self._refusal()]
        expected = (
            f"Run {best.algorithm.name}. In {_GAMES} simulated games it took"
            f" {counted(best.clients.mean, 'client')}, {counted(best.phases.mean, 'phase')} and a"
            f" regret of {rounded(best.regret.mean)}; {share(best.wrong_rate)} ended on a worse"
            f" option, {share(best.undecided_rate)} on none."
        )
        return [*found, expected, f"Guarantee: {self._rule().guarantee().words()}."]

    def _refusal(self) -> str:
        asked = self.question
        if asked.horizon is None:
            return "This is not feasible: no schedule that was tried decides; expect a larger gap."
        return (
            f"This is not feasible: within {asked.horizon:,} slots no radius decides; raise the"
            " horizon, take more clients, or allow a larger delta."
        )

    def algorithm(self) -> Algorithm:
        """Return what is suggested."""
        return self._suggested().algorithm

    def _suggested(self) -> Simulated:
        if self.suggested is None:
            raise InputError("plan", "nothing is suggested: the comparison is not feasible")
        return self.suggested

    def _rule(self) -> PhasedRule:
        rule = self.algorithm().rule(self.question.beliefs())
        if rule.decides_every_slot:
            raise TypeError("a slot rule is never suggested")
        return rule

    def toml(self) -> str:
        """Return a file that `fedbandits run` and `fedbandits try` take as it is."""
        asked, algorithm = self.question, self.algorithm()
        assumed = f"{{ noise = {NOISE}, spread = {asked.told_spread} }}"
        keys = {
            "algorithm": json.dumps(algorithm.name),
            **self._suggested().keys,
            "assume": assumed,
        }
        top = {"title": json.dumps("rates"), "replications": str(_GAMES), "seed": str(self.seed)}
        shared = {} if asked.horizon is None else {"horizon": str(asked.horizon)}
        game = {
            "model": json.dumps("approximate"),
            "means": str(list(asked.rates)),
            "noise": '{ law = "bernoulli" }',
            "spread": f'{{ law = "beta", sigma = {asked.spread} }}',
        }
        crowd = {} if asked.clients is None else {"population": str(asked.clients)}
        arms = [f"option-{number}" for number in range(1, len(asked.rates) + 1)]
        trial = {"title": json.dumps("rates"), "arms": json.dumps(arms), "range": "[0, 1]"}
        paid = {"communication_cost": str(asked.cost)}
        cost = paid if algorithm.uses_cost else {}
        parts: tuple[tuple[str, dict[str, str]], ...] = (
            (
                "# fedbandits run plays the game; fedbandits try, and a federation, read [trial].",
                {},
            ),
            ("", top | shared | paid),
            ("[problem]", game | crowd),
            ("[[variants]]", keys),
            ("[trial]", trial | shared | crowd | cost | keys),
        )
        return "\n\n".join(
            "\n".join([*([head] if head else []), *(f"{k} = {v}" for k, v in table.items())])
            for head, table in parts
        )

    def as_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return {
            "answer": self.answer(),
            "question": asdict(self.question),
            "feasible": self.feasible,
            "compared": [asdict(one) for one in self.compared],
            "suggested": None if self.suggested is None else self.suggested.algorithm.name,
            "elimination": None if self.elimination is None else self.elimination.as_dict(),
            "index_rule": None if self.index is None else self.index.as_dict(),
            "toml": self.toml() if self.feasible else None,
            "seed": self.seed,
        }

    def write(self, directory: str | Path) -> None:
        """Write plan.json and, if it is feasible, fedbandits.toml."""
        with open_output(Path(directory)) as folder:
            (folder / "plan.json").write_text(json.dumps(self.as_dict(), indent=2), "utf-8")
            if self.feasible:
                (folder / "fedbandits.toml").write_text(self.toml() + "\n", "utf-8")


def plan_rates(
    rates: Sequence[float], *, seed: int = 0, workers: int | None = 1, **asked: Any
) -> RatesPlan:
    """Plan a comparison of rates, with the sharpest valid radius.

    Parameters
    ----------
    rates : sequence of float
        The expected rate of each option.
    seed, workers : int
        Of the simulations.
    **asked
        As in `RatesQuestion`.

    Examples
    --------
    >>> found = plan_rates([0.02, 0.10], clients=20)
    >>> found.compared[0].radius, found.suggested.algorithm.name, found.suggested.wrong_rate
    ('chernoff', 'fed1-ucb', 0.0)
    """
    question = RatesQuestion(rates=tuple(rates), **asked)
    games = {"seed": seed, "workers": workers}
    compared = tuple(forecasts(question))
    elimination = index = None
    if compared:
        elimination = _best_schedule(question, compared[0], **games)
    if question.delta is None and question.horizon is not None:
        index = _simulated(question, FedIndex(), {}, **games)
    return RatesPlan(
        question=question, compared=compared, elimination=elimination, index=index, seed=seed
    )


def _best_schedule(question: RatesQuestion, found: Forecast, **games: Any) -> Simulated:
    """Return the games with the least regret of some that begin with parts of the forecast pulls.

    Those in which too many stay undecided come last.
    """
    radius = next(one for one in question.radii() if one.rule == found.radius)
    firsts = {max(FEWEST_PULLS, math.ceil(found.pulls / part)) for part in _PARTS}
    joining = {} if question.clients is not None else {"admissions": f'"{found.clients}"'}
    rule = {"radius": f'{{ rule = "{radius.rule}", delta = {json.dumps(question.level)} }}'}
    tried = [
        _simulated(
            question,
            _algorithm(question, radius, first, found.clients),
            {"pulls": f'"{_doubling(first)}"', **joining, **rule},
            **games,
        )
        for first in sorted(firsts)
    ]
    return min(tried, key=lambda one: (one.undecided_rate > MOST_UNDECIDED, one.regret.mean))


def _simulated(
    question: RatesQuestion, algorithm: Algorithm, keys: dict[str, str], **games: Any
) -> Simulated:
    run = simulate(
        question.problem(),
        algorithm,
        horizon=question.horizon,
        communication_cost=question.cost,
        replications=_GAMES,
        warn=False,
        **games,
    ).games
    best = int(np.argmax(question.rates))
    return Simulated(
        algorithm=algorithm,
        keys=keys,
        regret=Expected.over(run.total),
        clients=Expected.over(run.clients),
        phases=Expected.over(run.phases),
        wrong_rate=float(((run.winner >= 0) & (run.winner != best)).mean()),
        undecided_rate=float((run.winner < 0).mean()),
    )
