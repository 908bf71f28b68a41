"""The schedules of Tables 2 and 3: ``schedules.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files

from fedbandits.problems.problem import Problem
from fedbandits.reproduce.catalogue import paper_experiment
from fedbandits.rules.algorithms import Fed1Ucb, Fed2Ucb
from fedbandits.rules.radii import PaperRadius
from fedbandits.simulation import Variant

GAMES = {2: "fig4", 3: "fig3"}
"""The experiment whose first game is played for a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TabledSchedule:
    """A schedule, on the game of its table.

    Parameters
    ----------
    table : int
        2 or 3.
    label : str
        What tables and legends call it.
    pulls, admissions : str
        f(p), and g(p) of Fed2-UCB in Table 2.
    row : int, optional
        Where the paper's table has it, from 0; None if it does not.
    kappa, lam : float
        κ and λ of that row, if it has them.
    one_horizon : bool
        Whether it is not part of how regret grows with the horizon.
    """

    table: int
    label: str
    pulls: str
    admissions: str = ""
    row: int | None = None
    kappa: float = 1.0
    lam: float = 1.0
    one_horizon: bool = False

    def variant(self, radius: PaperRadius) -> Variant:
        """Return its algorithm with this radius, on the game of its table."""
        algorithm = (
            Fed2Ucb(pulls=self.pulls, admissions=self.admissions, radius=radius)
            if self.table == 2
            else Fed1Ucb(pulls=self.pulls, radius=radius)
        )
        label = f"{self.table}: {self.label}"
        return Variant(label=label, problem=game_of(self.table), algorithm=algorithm)


def _read() -> list[TabledSchedule]:
    text = (files(__package__) / "schedules.toml").read_text(encoding="utf-8")
    schedules = tomllib.loads(text)["schedules"]
    return [TabledSchedule(lam=one.pop("lambda", 1.0), **one) for one in schedules]


_ALL = _read()
SCHEDULES = tuple(schedule for schedule in _ALL if not schedule.one_horizon)
"""Those whose regret is played at many horizons."""

TABLED = tuple(schedule for schedule in _ALL if schedule.row is not None)
"""Those of the paper's tables, in their order, and figure 4's own among them."""


def game_of(table: int) -> Problem:
    """Return the game of a table.

    Examples
    --------
    >>> game_of(2).population, game_of(3).population
    (None, 5)
    """
    return paper_experiment(GAMES[table]).variants[0].problem
