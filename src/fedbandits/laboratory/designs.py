"""What a setting comes to: three designs side by side, as an experiment file would play them.

The numbers are those of `fedbandits run` with the file that stands beside them: the same game,
seed and number of games. They come in stages of more and more games, the first within a moment.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from fedbandits.construct import keys_of
from fedbandits.errors import InputError
from fedbandits.experiments.bounds import lower_bound_of
from fedbandits.experiments.describe import as_toml, describe_privacy
from fedbandits.experiments.experiment import Experiment
from fedbandits.experiments.files import read_experiment
from fedbandits.experiments.results import Results
from fedbandits.laboratory.setting import Setting
from fedbandits.planning import text
from fedbandits.planning.candidates import rule_for
from fedbandits.planning.detection import feasibility
from fedbandits.planning.honesty import hidden
from fedbandits.planning.outlook import Expected
from fedbandits.planning.plan import Plan, variant_table
from fedbandits.planning.question import Question
from fedbandits.planning.search import Searched, foreseen_best
from fedbandits.planning.wording import between, rounded
from fedbandits.privacy.policy import Privacy, Quantize
from fedbandits.problems.problem import Problem
from fedbandits.report.chart import Chart
from fedbandits.report.page import chart_data
from fedbandits.report.palette import colours
from fedbandits.report.wording import in_words, share
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.radii import RADII
from fedbandits.simulation.charts import regret_charts
from fedbandits.simulation.tables import curves_table, outcome_columns

STAGES = (16, 128, 1000)
"""Games of each design: a first estimate, and what it is refined to."""

CERTIFIED, INDEX, OWN = LABELS = ("certified elimination", "index rule", "your design")
"""The designs, as tables and files call them."""

COLOURS = colours(LABELS, ("fed2-ucb", "fed-index", "fed1-ucb"))
"""The colour of each, whatever it plays."""

GRID_POINTS = 240
"""Slots of the regret curves."""

MEMORY_LIMIT = 256 * 2**20
"""Bytes that the statistics of simulated clients may take."""

# Outcomes lie so many standard deviations around their mean, but for a negligible part of them.
_NEARLY_ALL = 8.0
# Where a mistake in a file is to be mended in the form.
_FIELD_OF = {
    "means": "means",
    "noise": "noise",
    "spread": "spread",
    "population": "clients",
    "horizon": "horizon",
    "pulls": "pulls",
    "admissions": "admissions",
    "clients": "clients",
    "radius": "rule",
    "liars": "liars",
    "privacy": "privacy",
    "arms": "options",
    "max_clients": "clients",
    "memory_limit": "clients",
}


def field_of(error: InputError) -> str:
    """Return the field that mends a mistake in an experiment; empty if there is none.

    Examples
    --------
    >>> keys = ("variants[2].pulls", "problem.spread.sigma", "x")
    >>> [field_of(InputError(key, "")) for key in keys]
    ['pulls', 'spread', '']
    """
    key = re.sub(r"^variants\[\d+\]\.|^problem\.", "", error.where).partition(".")[0]
    return _FIELD_OF.get(key, key if hasattr(Setting, key) else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One of the designs.

    Parameters
    ----------
    label : str
        Its name.
    table : mapping, optional
        The table of its variant; None if there is none.
    refused : str
        Why it cannot be played; empty if it can.
    field : str
        Which field to change then, if there is one.
    """

    label: str
    table: Mapping[str, Any] | None = None
    refused: str = ""
    field: str = ""


@dataclass(frozen=True)
class Laboratory:
    r"""A setting, and all that follows from it.

    Parameters
    ----------
    setting : Setting
        What the form says.

    Examples
    --------
    >>> lab = Laboratory(Setting.read({"options": "3", "gap": "0.1", "horizon": "20000"}))
    >>> [column.label for column in lab.columns if not column.refused]
    ['certified elimination', 'index rule', 'your design']
    >>> numbers = lab.numbers(lab.play(16))
    >>> numbers["index rule"]["wrong"]["text"], numbers["certified elimination"]["clients"]["text"]
    ('0 %', '32.6\xa0±\xa03.6')
    """

    setting: Setting

    @cached_property
    def problem_table(self) -> dict[str, Any]:
        """The table of the problem: normal laws for numbers, and rates that stay rates."""
        setting = self.setting
        rates = setting.outcome == "rate"
        noise = {"law": "bernoulli"} if rates else {"law": "gaussian", "sigma": setting.noise}
        # Clients that are alike have the same law either way.
        law = "beta" if rates and setting.spread else "gaussian"
        return {
            "model": "approximate",
            "means": list(setting.global_means()),
            "noise": noise,
            "spread": {"law": law, "sigma": setting.spread},
            **({} if setting.clients is None else {"population": setting.clients}),
        }

    @cached_property
    def problem(self) -> Problem:
        """The game itself."""
        alone = {"label": "any", "algorithm": "fed-index"}
        return read_experiment(self._tables([alone], 1)).variants[0].problem

    @cached_property
    def question(self) -> Question:
        """The question that planning answers: noise and spread are what a rule is told of them."""
        setting = self.setting
        return Question(
            means=setting.global_means(),
            noise=self.problem.noise_proxy,
            spread=self.problem.spread_proxy,
            population=setting.clients,
            communication_cost=setting.cost,
            delta=1.0 / setting.horizon,
            horizon=setting.horizon,
            least_favourable=setting.given == "gap",
            privacy=self.privacy,
            liars=setting.liars,
        )

    @property
    def outcome_range(self) -> tuple[float, float]:
        """Between which all outcomes lie: those of numbers nearly."""
        if self.setting.outcome == "rate":
            return 0.0, 1.0
        means = self.setting.global_means()
        beyond = _NEARLY_ALL * math.hypot(self.setting.noise, self.setting.spread)
        return min(means) - beyond, max(means) + beyond

    @cached_property
    def privacy(self) -> Privacy | None:
        """How clients protect what they send."""
        setting = self.setting
        if setting.privacy == "none":
            return None
        if setting.privacy == "bits":
            return Privacy(range=self.outcome_range, quantize=Quantize(bits=setting.bits))
        return Privacy(
            range=self.outcome_range, noise="gaussian", epsilon=setting.epsilon, delta=1e-6
        )

    @cached_property
    def plan(self) -> Plan:
        """The question with what can be said of it before anything is played."""
        nothing = Searched(tried=(), best=None, others=(), map=())
        found = feasibility(self.question)
        return Plan(question=self.question, feasibility=found, searched=nothing, suggested=None)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The designs, each with its variant or with the reason why there is none."""
        makers = (self._certified, lambda: {"algorithm": "fed-index"}, self._own)
        return tuple(map(self._column, LABELS, makers))

    def _column(self, label: str, make: Callable[[], dict[str, Any]]) -> Column:
        """Return a design, or why it cannot be played."""
        try:
            own = {"label": label} | make()
            if self.privacy is not None:
                own["privacy"] = describe_privacy(self.privacy)
            if self.setting.liars:
                own["attack"] = {"share": self.setting.liars, "range": list(self.outcome_range)}
            read_experiment(self._tables([own], 1)).check()
        except InputError as error:
            first = error.each[0]
            return Column(label=label, refused=first.problem, field=field_of(first))
        return Column(label=label, table=own)

    def _certified(self) -> dict[str, Any]:
        """Return the elimination with the certified radius and the schedule foreseen to be best."""
        schedule = self._schedule()
        if schedule is None:
            raise InputError("", text.refusal(self.plan))
        table = variant_table(self.question, *schedule)
        # The file says these of the problem, and of all variants.
        return {key: table[key] for key in table if key not in ("assume", "communication_cost")}

    def _schedule(self) -> tuple[str, str | None] | None:
        """Return f and g with the least foreseen regret; None if nothing decides in time.

        Those for liars would take seconds to foresee. Instead, they are those for honest clients
        and gaps that are as much smaller as liars can make them. What is proven does not depend on
        the schedule.
        """
        question = self.question
        if question.liars:
            if hidden(question) is not None:
                return None
            floor = rule_for(question).liars_floor or 0.0
            smaller = 1.0 - 2.0 * floor / question.gap
            best = max(question.means)
            means = tuple(best - smaller * (best - mean) for mean in question.means)
            question = replace(question, liars=0, means=means)
        found = foreseen_best(question)
        return None if found is None else (found.f, found.g)

    def _own(self) -> dict[str, Any]:
        """Return the design of the form."""
        setting = self.setting
        table: dict[str, Any] = {"algorithm": setting.design}
        if setting.design == "fed-index":
            return table | {"commit": "certified"}  # with the usual one it is the second design
        if setting.design == "fed-ts":
            return table
        table["pulls"] = setting.pulls
        if setting.design == "fed2-ucb":
            table["admissions"] = setting.admissions
        elif setting.clients is None:
            raise InputError(
                "clients", "is empty, and Fed1-UCB plays with all clients there are; give a number"
            )
        radius = RADII.named(setting.rule, "radius.rule")
        constants = {"arm": setting.arm_constant, "client": setting.client_constant}
        own = {key: constants[key] for key in keys_of(radius) if key in constants}
        table["radius"] = {"rule": setting.rule} | own
        if setting.liars and radius.takes_contrasts:
            table["liars"] = setting.liars
        return table

    def _tables(self, variants: list[dict[str, Any]], games: int) -> dict[str, Any]:
        return {
            "title": "From the laboratory",
            "horizon": self.setting.horizon,
            "replications": games,
            "seed": self.setting.seed,
            "communication_cost": self.setting.cost,
            "problem": self.problem_table,
            "variants": variants,
        }

    @property
    def playable(self) -> list[str]:
        """The labels of the designs that can be played."""
        return [column.label for column in self.columns if column.table is not None]

    def tables(self, games: int, labels: Collection[str]) -> dict[str, Any]:
        """Return the experiment file that plays these designs, as tables."""
        made = [
            dict(column.table)
            for column in self.columns
            if column.table is not None and column.label in labels
        ]
        return self._tables(made, games)

    def file(self, games: int, labels: Collection[str]) -> str:
        """Return the text of that file."""
        return as_toml(self.tables(games, labels))

    @cached_property
    def experiment(self) -> Experiment:
        """What is played, with a few points of the regret curves."""
        return replace(read_experiment(self.tables(1, LABELS)), grid_points=GRID_POINTS)

    def outlook(self) -> dict[str, Any]:
        """Return what is known before a game is played: is it feasible at all, and what is proven.

        Ready for JSON, as all that follows.
        """
        refused = self.columns[0].refused
        proven = {}
        if self.playable:
            of_each = zip(self.experiment.guarantees(), self.experiment.doubts(), strict=True)
            proven = dict(zip(self.playable, of_each, strict=True))
        designs = []
        for column in self.columns:
            said: dict[str, Any] = {"label": column.label, "refused": column.refused}
            said["field"] = column.field
            if column.table is not None:
                promised, doubts = proven[column.label]
                said["words"] = _in_words(column.table)
                said["guarantee"], said["doubts"] = promised.words(), doubts
            designs.append(said)
        return {
            "feasible": not refused,
            # What can be said of the clients that there are comes first.
            "why": [*([refused] if refused else []), *reversed(text.reach(self.plan))],
            "bound": self._bound(),
            "designs": designs,
            "gap": self.question.gap,
            "means": list(self.question.means),
        }

    def _bound(self) -> dict[str, Any]:
        """Return the lower bound at the horizon, or why there is none."""
        if self.setting.liars:
            return {"slope": None, "at": None, "reason": "some clients lie"}
        least = lower_bound_of(self.problem, self.setting.cost)
        if isinstance(least, str):
            return {"slope": None, "at": None, "reason": least}
        at = least.at(self.setting.horizon)
        return {"slope": least.slope, "at": at, "text": rounded(at), "reason": ""}

    def play(self, games: int, only: str | None = None) -> Results:
        """Play so many games of every design, or of one."""
        experiment = self.experiment
        variants = [one for one in experiment.variants if only in (None, one.label)]
        played = replace(experiment, variants=variants, replications=games)
        return played.run(workers=1, memory_limit=MEMORY_LIMIT)

    def numbers(self, *results: Results) -> dict[str, Any]:
        """Return what came out of games, by design: means, their errors, and the spread of games.

        Columns are those of the table of replications that `fedbandits run` writes.
        """
        return {
            simulation.variant.label: _numbers(outcome_columns(simulation))
            for result in results
            for simulation in result.simulations
        }

    def chart(self, *results: Results) -> Chart:
        """Return the regret curves."""
        played = [simulation for result in results for simulation in result.simulations]
        slope = self._bound()["slope"]
        charts = regret_charts(
            curves_table(played),
            "Regret",
            colour_of=COLOURS,
            slopes=[] if slope is None else [slope],
        )
        return charts["total"]

    def stages(self, seconds: float = math.inf) -> Iterator[dict[str, Any]]:
        """Yield what is known, and then what more and more games give.

        The first stage is told design by design, and later ones as a whole. No stage is begun that
        would probably end later than after so many seconds.
        """
        begin = time.monotonic()
        yield {"kind": "outlook", **self.outlook(), "colours": COLOURS}
        before, labels = 0.0, self.playable
        for games in STAGES:
            since = time.monotonic()
            if not labels or (before and since - begin + before * games > seconds):
                yield {"kind": "done", "complete": False}
                return
            results = []
            for label in list(labels):
                yield {"kind": "playing", "games": games, "design": label}
                try:
                    results.append(self.play(games, label))
                except InputError as error:
                    labels.remove(label)
                    first = error.each[0]
                    said = {"field": field_of(first), "problem": first.problem}
                    yield {"kind": "failed", "design": label, **said}
                if games == STAGES[0] and results:
                    yield self._stage(games, results, labels)
            if games != STAGES[0] and labels:
                yield self._stage(games, results, labels)
            before = (time.monotonic() - since) / games
        yield {"kind": "done", "complete": True}

    def _stage(self, games: int, results: list[Results], labels: Collection[str]) -> dict[str, Any]:
        file, name = self.file(games, labels), "laboratory.toml"
        return {
            "kind": "games",
            "games": games,
            "designs": self.numbers(*results),
            "chart": chart_data({"": self.chart(*results)}),
            "file": file,
            # What writes the file and plays it, in a POSIX shell.
            "command": f"cat > {name} <<'END'\n{file}END\nfedbandits run {name}\n",
        }


def _in_words(table: Mapping[str, Any]) -> str:
    """Return what a design does, in a few words.

    Examples
    --------
    >>> _in_words({"algorithm": "fed2-ucb", "pulls": "100", "admissions": "2^p"})
    'fed2-ucb, f(p) = 100, g(p) = 2^p'
    """
    words = [str(table["algorithm"])]
    words += [f"f(p) = {table['pulls']}"] if "pulls" in table else []
    words += [f"g(p) = {table['admissions']}"] if "admissions" in table else []
    radius = table.get("radius", {}).get("rule")
    return ", ".join([*words, *([f"{radius} radius"] if radius else [])])


def _numbers(columns: Mapping[str, Any]) -> dict[str, Any]:
    decided, best = columns["winner"] >= 0, columns["best"]
    shown = {
        "regret": columns["total"],
        "exploration": columns["exploration"],
        "communication": columns["communication"],
        "clients": columns["clients"],
        "phases": columns["phases"],
        "pulls": columns["decision_slot"][decided],
    }
    rates = {"best": best, "wrong": decided & ~best, "undecided": ~decided}
    return {
        **{name: _expected(some) for name, some in shown.items()},
        **{
            name: {"mean": float(some.mean()), "text": share(float(some.mean()))}
            for name, some in rates.items()
        },
    }


def _expected(values: FloatArray) -> dict[str, Any] | None:
    """Return a quantity over games, as numbers and as people read them; None without any game."""
    if not values.size:
        return None
    found = Expected.over(values)
    said = in_words({"mean": found.mean, "stderr": found.stderr})
    return {**asdict(found), "text": said, "range": between(found)}
