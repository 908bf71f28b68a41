"""The plan: what a comparison of arms will need, and how to run it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from fedbandits.errors import InputError, check_count, check_number
from fedbandits.experiments.describe import describe_privacy, toml_value
from fedbandits.experiments.output import open_output
from fedbandits.notebook.followed import followed
from fedbandits.notebook.viewed import Table, Viewed, known_name
from fedbandits.planning import text
from fedbandits.planning.candidates import scheduled
from fedbandits.planning.detection import POWER, Feasibility, feasibility, gap_table
from fedbandits.planning.honesty import Price, bearable, hidden, prices
from fedbandits.planning.outlook import IndexOutlook, Outlook, look_ahead, look_at_index_rule
from fedbandits.planning.pilot import Pilot, read_pilot
from fedbandits.planning.question import Question, least_favourable
from fedbandits.planning.search import OnTried, Searched, map_table, search
from fedbandits.privacy.policy import Privacy
from fedbandits.problems.approximate import Approximate
from fedbandits.report.chart import Chart
from fedbandits.report.shown import Shown
from fedbandits.rules.algorithms import Algorithm

REPLICATIONS = 1000
"""Games behind the numbers of a plan."""

DEFAULT_COST = 1.0
"""What a report costs if a file does not say it."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Plan(Viewed):
    """What to run, and what to expect.

    Parameters
    ----------
    question : Question
        What was asked.
    feasibility : Feasibility
        Whether the gap can be found at all.
    searched : Searched
        The schedules that were tried.
    suggested : Outlook, optional
        The best schedule and what to expect of it; None if nothing decides.
    others : tuple of Outlook
        The best with all clients at once or with gradual admission, whichever is not suggested.
    yours : Outlook, optional
        The schedule that was given, if one was.
    index : IndexOutlook, optional
        What to expect of an index rule, if there is a horizon.
    pilot : Pilot, optional
        What noise and spread were estimated from.
    unprotected : Plan, optional
        The same plan without the privacy policy, if there is one; the difference is its cost.
    correlation : float, optional
        Of the outcome with a covariate, within options, if outcomes are adjusted by one. The noise
        of the question is then that of adjusted outcomes.
    unadjusted : Plan, optional
        The same plan without the covariate, if there is one; the difference is its gain.
    honesty : tuple of Price
        What it takes for several shares of liars, if that was asked for.
    seed : int
        Of the simulations.
    """

    tables: ClassVar[tuple[str, ...]] = ("schedules", "regret_map", "smallest_gap")
    charts: ClassVar[tuple[str, ...]] = ("regret_map", "smallest_gap", "honesty")

    question: Question
    feasibility: Feasibility
    searched: Searched
    suggested: Outlook | None
    others: tuple[Outlook, ...] = ()
    yours: Outlook | None = None
    index: IndexOutlook | None = None
    pilot: Pilot | None = None
    unprotected: Plan | None = None
    correlation: float | None = None
    unadjusted: Plan | None = None
    honesty: tuple[Price, ...] = ()
    seed: int = 0

    @property
    def feasible(self) -> bool:
        """Whether there is a schedule that decides."""
        return self.suggested is not None

    def problem(self) -> Approximate:
        """Return the game that is planned for."""
        return self.question.problem()

    def algorithm(self) -> Algorithm:
        """Return the algorithm with the schedules that are suggested."""
        outlook = self._suggestion()
        return scheduled(self.question, outlook.pulls, outlook.admissions)

    def variant(self) -> dict[str, Any]:
        """Return what is suggested as the table of a variant in an experiment file."""
        outlook = self._suggestion()
        return variant_table(self.question, outlook.pulls, outlook.admissions)

    def toml(self) -> str:
        """Return what is suggested, ready to be put into an experiment file."""
        return variant_toml(self.question, self._suggestion())

    def _suggestion(self) -> Outlook:
        if self.suggested is None:
            raise InputError("plan", "nothing is suggested: no schedule finds this gap")
        return self.suggested

    def answer(self) -> list[str]:
        """Return the plan in plain words, one paragraph per item."""
        return text.answer(self)

    def in_short(self) -> str:
        """Return what is suggested, in a line."""
        asked = f"{self.question.n_arms} arms, gap {self.question.gap:.4g}"
        if self.suggested is None:
            return f"{asked}, nothing suggested"
        best = self.suggested
        joining = "all clients at once" if best.admissions is None else f"g(p) = {best.admissions}"
        return f"{asked}, {best.algorithm} with f(p) = {best.pulls} and {joining}"

    def shown(self) -> Shown:
        """Return the numbers, one column per schedule, and the plan in a few sentences."""
        return replace(text.shown_plan(self), note=text.in_short(self))

    def table(self) -> str:
        """Return the numbers as plain text."""
        return text.shown_plan(self).text()

    def schedules(self) -> Table:
        """Return one row per schedule that is suggested or compared with that, as columns.

        Of every quantity there are the mean, its standard error, and the ends of the range in which
        nine of ten games lie.
        """
        return text.schedules_table(self)

    def regret_map(self) -> Table:
        """Return one row per schedule around the best one, with its mean regret, as columns."""
        return map_table(self.searched)

    def smallest_gap(self) -> Table:
        """Return the smallest gap that can be detected by number of clients, as columns."""
        pulls = 1.0 if self.suggested is None else max(1.0, self.suggested.pulls_of_arm.mean)
        return gap_table(self.question, pulls)

    def chart(self, name: str | None = None) -> Chart:
        """Return regret over f and g, the smallest gap, or what honesty is worth.

        By default it is the first of these; the second, if no schedule decides.
        """
        from fedbandits.planning import charts  # noqa: PLC0415 - it takes this plan

        if name is None:
            return charts.map_chart(self) or charts.gap_chart(self)
        name = known_name(name, self.charts, "name")
        draw = {
            "regret_map": (charts.map_chart, "no schedule decides"),
            "honesty": (charts.honesty_chart, "plan with liars=..., for shares that can be borne"),
        }
        if name not in draw:
            return charts.gap_chart(self)
        make, why = draw[name]
        found = make(self)
        if found is None:
            raise InputError("name", f"there is no chart {name!r} of this plan: {why}")
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        suggested, bare = self.suggested, self.unprotected
        return {
            "answer": self.answer(),
            "assumptions": list(text.assumptions(self)),
            "question": self.question.as_dict(),
            "pilot": _plain(self.pilot),
            "feasible": self.feasible,
            "power": POWER,
            "feasibility": self.feasibility.as_dict(self.question.population),
            "lower_bound": text.least_regret(self),
            "suggested": _plain(suggested),
            "variant": None if suggested is None else self.variant(),
            "toml": None if suggested is None else self.toml(),
            "others": [asdict(other) for other in self.others],
            "yours": _plain(self.yours),
            "index_rule": _plain(self.index),
            "without_privacy": None
            if bare is None
            else {"suggested": _plain(bare.suggested), "yours": _plain(bare.yours)},
            "covariate": None
            if self.correlation is None
            else {"correlation": self.correlation, "toml": text.trial_keys(self)},
            "without_covariate": None
            if self.unadjusted is None
            else {
                "noise": self.unadjusted.question.noise,
                "suggested": _plain(self.unadjusted.suggested),
                "yours": _plain(self.unadjusted.yours),
            },
            "honesty": None if not self.honesty else self._honesty(),
            "schedules_tried": len(self.searched.tried),
            "map": self.regret_map(),
            "smallest_gap": self.smallest_gap(),
            "seed": self.seed,
        }

    def _honesty(self) -> dict[str, Any]:
        return {
            "nobody_lies_in_the_games": True,
            "bearable_share": bearable(self.question),
            "prices": [price.as_dict() for price in self.honesty],
        }

    def write(self, directory: str | Path) -> None:
        """Write plan.json, the pictures and report.html, all or nothing."""
        from fedbandits.planning.page import write_plan  # noqa: PLC0415 - heavy

        with open_output(Path(directory)) as folder:
            write_plan(self, folder)


def _plain(part: Outlook | IndexOutlook | Pilot | None) -> dict[str, Any] | None:
    return None if part is None else asdict(part)


def plan(
    *,
    n_arms: int | None = None,
    gap: float | None = None,
    noise: float | None = None,
    spread: float | None = None,
    means: Sequence[float] | None = None,
    clients: int | None = None,
    communication_cost: float = 1.0,
    delta: float | None = None,
    horizon: int | None = None,
    pilot: str | Path | None = None,
    pulls: str | int | None = None,
    admissions: str | int | None = None,
    privacy: Privacy | None = None,
    liars: float | None = None,
    covariate_correlation: float | None = None,
    replications: int = REPLICATIONS,
    seed: int = 0,
    workers: int | None = 1,
    progress: OnTried | Literal[False] | None = None,
) -> Plan:
    r"""Plan a comparison of arms: clients, pulls, phases, regret, and the best f and g.

    Parameters
    ----------
    n_arms : int, optional
        K; with ``means`` or ``pilot`` it is known from there.
    gap : float, optional
        Δ, the smallest difference that matters. All other arms are taken to be exactly so far below
        the best one, which is the hardest case.
    noise, spread : float, optional
        σ and σ_c, as true bounds; by default they come from ``pilot``.
    means : sequence of float, optional
        The means that are expected, instead of the hardest case.
    clients : int, optional
        N, if only these clients exist and the answer is for them alone. Unlimited by default.
    communication_cost : float
        C, what a client's report costs, in units of regret.
    delta : float, optional
        δ, the error probability; 0.05 by default, 1/T with a horizon.
    horizon : int, optional
        T, if the game goes on to a known end; without one it ends with the decision.
    pilot : str or Path, optional
        A CSV file to estimate noise and spread from; see `fedbandits.planning.pilot`.
    pulls, admissions : schedule, optional
        Your own f and g, to compare with the best.
    privacy : Privacy, optional
        How clients protect the means that they send. The plan is then made with and without it.
    liars : int or float, optional
        How many clients may lie: a share below 0.5, or a number if ``clients`` are given. The plan
        is then made for that many, and `Plan.honesty` compares it with other shares; 0 compares
        alone. See ``docs/liars.md``.
    covariate_correlation : float, optional
        R, within options, of the outcome with what is known of a unit before its option.
        Outcomes adjusted by it have a noise of :math:`\sigma \sqrt{1 - R^2}`. The plan is then made
        with and without it. See ``docs/covariates.md``.
    replications : int
        Number of simulated games behind the numbers.
    seed : int
        Not negative; the same seed gives the same plan.
    workers : int, optional
        Number of processes; None is all cores, which pays off from a hundred arms on.
    progress : callable or False, optional
        Called as the search goes on; see `fedbandits.simulate_all`.

    Examples
    --------
    >>> import fedbandits as fb
    >>> found = fb.plan(n_arms=3, gap=0.1, noise=0.5, spread=0.1, clients=200, delta=0.05)
    >>> found.feasible, found.feasibility.within_reach, found.feasibility.clients_finite
    (True, True, 35)
    """
    check_count(replications, "replications", 2)
    check_count(workers, "workers", optional=True)
    check_count(seed, "seed", 0)
    if (pulls is None) != (admissions is None):
        missing = "pulls" if pulls is None else "admissions"
        raise InputError(missing, "is missing; your own schedule needs both f and g")
    if pilot is not None and not isinstance(pilot, str | Path):
        raise InputError("pilot", f"{pilot!r} is not the path of a CSV file")
    measured = None if pilot is None else read_pilot(pilot)
    if measured is not None:
        # The upper ends: a plan with too little noise or spread promises too much.
        noise = measured.noise.high if noise is None else noise
        spread = measured.spread.high if spread is None else spread
        n_arms = measured.arms if n_arms is None and means is None else n_arms
    bound = "give a bound, or pilot data to estimate it from"
    question = _question(
        means,
        n_arms,
        gap,
        noise=_given(noise, "noise", bound),
        spread=_given(spread, "spread", bound),
        delta=_delta(delta, horizon),
        horizon=horizon,
        population=clients,
        communication_cost=communication_cost,
        privacy=privacy,
        liars=0 if liars is None else liars,
    )
    plain = question
    if covariate_correlation is not None:
        question = replace(question, noise=_adjusted(question.noise, covariate_correlation))
    own = None if pulls is None or admissions is None else (str(pulls), str(admissions))
    games: dict[str, Any] = {"replications": replications, "seed": seed, "workers": workers}
    with followed(progress, _bar) as told:
        made = _made(question, own, told, **games)
        if liars is not None:
            priced = prices(question, made.suggested, progress=told, **games)
            made = replace(made, honesty=priced)
        if covariate_correlation is not None:
            without = _made(plain, own, told, **games)
            made = replace(made, correlation=float(covariate_correlation), unadjusted=without)
        if privacy is None:
            return replace(made, pilot=measured)
        unprotected = _made(replace(question, privacy=None), own, told, **games)
        return replace(made, pilot=measured, unprotected=unprotected)


@contextmanager
def _bar() -> Iterator[OnTried | None]:
    from fedbandits.notebook.bar import bar, counting  # noqa: PLC0415 - Rich, only to show

    with bar(*counting("schedules"), total=None) as update:
        yield update and (lambda what, n, of: update(description=what, completed=n, total=of))


def _adjusted(noise: float, correlation: float) -> float:
    """Return σ of outcomes that are adjusted by a covariate of this correlation.

    Examples
    --------
    >>> _adjusted(0.5, 0.6)
    0.4
    """
    check_number(correlation, "covariate_correlation")
    if not -1.0 < correlation < 1.0:
        raise InputError(
            "covariate_correlation", f"{correlation:g} is not a correlation: between -1 and 1"
        )
    return noise * math.sqrt(1.0 - correlation**2)


def _given(value: T | None, name: str, way_out: str) -> T:
    """Return a value; refuse the question if it is missing."""
    if value is None:
        raise InputError(name, f"is missing; {way_out}")
    return value


def _delta(delta: float | None, horizon: int | None) -> float:
    """Return the error probability that is given, or the usual one."""
    check_count(horizon, "horizon", 2, optional=True)
    if delta is None:
        return 0.05 if horizon is None else 1.0 / horizon
    if horizon is not None:
        raise InputError("delta", "is 1/T if there is a horizon; give delta or horizon, not both")
    return delta


def _question(means: Any, n_arms: int | None, gap: float | None, **others: Any) -> Question:
    """Return the question about the means that are given, or the hardest that a gap allows."""
    if means is None:
        return least_favourable(
            n_arms=_given(n_arms, "arms", "how many arms are compared?"),
            gap=_given(gap, "gap", "which difference between arms matters to you?"),
            **others,
        )
    if gap is not None:
        raise InputError("gap", "is known from the means; give one of the two")
    question = Question(means=means, **others)
    if n_arms not in (None, question.n_arms):
        problem = f"{n_arms} arms and {question.n_arms} means; give one of the two"
        raise InputError("arms", problem)
    return question


def _made(
    question: Question, own: tuple[str, str] | None, progress: OnTried | None, **games: Any
) -> Plan:
    """Return the plan for a question, beside a schedule of one's own."""

    def look(pulls: str, admissions: str | None) -> Outlook:
        return look_ahead(question, pulls, admissions, **games)

    if hidden(question) is not None:
        nothing = Searched(tried=(), best=None, others=(), map=())
        found = feasibility(question)
        return Plan(question=question, feasibility=found, searched=nothing, suggested=None)
    # First, so that a mistake in it is reported before the search.
    yours = None if own is None else look(*own)
    searched = search(question, seed=games["seed"], workers=games["workers"], progress=progress)
    best = searched.best
    return Plan(
        question=question,
        feasibility=feasibility(question),
        searched=searched,
        suggested=None if best is None else look(best.f, best.g),
        others=tuple(look(other.f, other.g) for other in searched.others),
        yours=yours,
        index=None if question.liars else look_at_index_rule(question, **games),
        seed=games["seed"],
    )


def variant_table(question: Question, pulls: str, admissions: str | None) -> dict[str, Any]:
    """Return the variant with these schedules, whatever its file says of the problem.

    Its rule is told the noise and spread of the question.
    """
    at_once = admissions is None
    cost, privacy = question.communication_cost, question.privacy
    table = {
        "algorithm": scheduled(question, pulls, admissions).name,
        "pulls": pulls,
        "admissions": admissions,
        "weights": None if at_once or question.liars else question.weights,
        "clients" if at_once else "max_clients": question.population,
        "radius": {"rule": question.radius.rule},
        "delta": question.delta if question.horizon is None else "1/T",
        "assume": {"noise": question.noise, "spread": question.spread},
        "communication_cost": None if cost == DEFAULT_COST else cost,
        "privacy": None if privacy is None else describe_privacy(privacy),
        "liars": question.liars or None,
    }
    return {key: value for key, value in table.items() if value is not None}


def variant_toml(question: Question, outlook: Outlook) -> str:
    """Return that table as it stands in a file.

    Examples
    --------
    >>> from fedbandits.planning.outlook import look_ahead
    >>> from fedbandits.planning.question import least_favourable
    >>> question = least_favourable(n_arms=2, gap=0.3, noise=0.5, spread=0.1)
    >>> print(variant_toml(question, look_ahead(question, "20", "8", replications=9, seed=1)))
    [[variants]]
    algorithm = "fed2-ucb"
    pulls = "20"
    admissions = "8"
    weights = "inverse-variance"
    radius = { rule = "certified" }
    delta = 0.05
    assume = { noise = 0.5, spread = 0.1 }
    """
    lines = ["[[variants]]"]
    if question.population is not None:
        # Only the problem can say that a game has N clients, not the variant.
        lines.append(f"# in a game with [problem] population = {question.population}")
    table = variant_table(question, outlook.pulls, outlook.admissions)
    return "\n".join([*lines, *(f"{key} = {toml_value(value)}" for key, value in table.items())])
