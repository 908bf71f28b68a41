"""The centralised version of Fed1-UCB, in both readings of the paper."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from fedbandits.errors import check_count, check_word
from fedbandits.rules.algorithms.algorithm import Algorithm
from fedbandits.rules.algorithms.elimination import check_paper_radius, everyone_at_once
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.phased import Charge, PhasedRule
from fedbandits.rules.radii import PaperRadius, Radius

Communicate: TypeAlias = Literal["phase", "slot"]
"""When clients talk to the server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Centralized(Algorithm):
    """Fed1-UCB whose clients send every observation: one pull per arm and phase.

    Parameters
    ----------
    clients : int, optional
        M; the whole population by default.
    communicate : {"phase", "slot"}
        "phase" is the authors' released code, a round of communication for every pull of each
        active arm; "slot" is the wording of the paper, "in every time slot".
    radius : PaperRadius
        As in Fed1-UCB.
    """

    name: ClassVar[str] = "centralized"
    uses_cost: ClassVar[bool] = False

    clients: int | None = None
    communicate: Communicate = "phase"
    radius: Radius = field(default_factory=PaperRadius)

    def __post_init__(self) -> None:
        check_count(self.clients, "clients", optional=True)
        check_word(self.communicate, Communicate, "communicate")
        check_paper_radius(self.radius)

    def rule(self, beliefs: Beliefs) -> PhasedRule:
        """Return the rule for a game, given what is believed about it."""
        return everyone_at_once(
            beliefs,
            pulls=1,
            clients=self.clients,
            radius=self.radius,
            charge=Charge(self.communicate),
        )
