"""Fed1-UCB: Fed2-UCB whose first clients are the whole population."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedbandits.errors import InputError, check_count
from fedbandits.rules.algorithms.elimination import Elimination, everyone_at_once
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.phased import PhasedRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed1Ucb(Elimination):
    """Fed1-UCB, for the exact model: all clients from the start, no client-sampling term.

    On clients that are only a sample (figure 6 of the paper) it takes them for the whole
    population, and may settle on an arm that is best for them alone.

    Parameters
    ----------
    pulls : schedule
        f(p).
    clients : int, optional
        M; the whole population by default.
    radius : Radius
        The paper's with constant 6 by default, for which Theorem 3 holds; its client constant has
        no effect on an answer for these clients.
    target : {"clients", "population"}, optional
        Whom the answer is for: these clients, by default, or future clients like these, of which M
        leave σ_c²/M open however often they pull.
    weights : {"equal"}
        How clients' means are averaged. All are in from the start and pull alike, so that equal
        weights have the least variance, and no others are taken.
    estimator : Estimator, optional
        How clients' means become one value per arm; the plain average by default.
    liars, delta, dependence, epsilon
        As in `Fed2Ucb`.

    Examples
    --------
    >>> from fedbandits.rules.reports import Reports
    >>> told = Beliefs(n_arms=2, horizon=10**6, noise=0.5, spread=0.1)
    >>> planned = Reports.planned([100], sizes=[50])
    >>> for target in ("clients", "population"):
    ...     rule = Fed1Ucb(pulls=100, clients=50, target=target).rule(told)
    ...     print(rule.width(phase=1, reports=planned).round(4))
    0.0644
    0.1931
    """

    name: ClassVar[str] = "fed1-ucb"
    all_clients_from_start: ClassVar[bool] = True

    clients: int | None = None

    def __post_init__(self) -> None:
        Elimination.__post_init__(self)
        if self.weights != "equal":
            raise InputError(
                "weights",
                f'"{self.weights}", but with {self.name} all clients play from the start and pull'
                ' equally often, so equal weights are the best; use "equal"',
            )
        check_count(self.clients, "clients", optional=True)

    def rule(self, beliefs: Beliefs) -> PhasedRule:
        """Return the rule for a game, given what is believed about it."""
        return everyone_at_once(beliefs, clients=self.clients, **self.parts)
