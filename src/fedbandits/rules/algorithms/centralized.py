"""The centralised version of Fed1-UCB, in both readings of the paper."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from fedbandits.errors import check_word
from fedbandits.rules.algorithms.algorithm import Algorithm
from fedbandits.rules.algorithms.checks import check_paper_radius
from fedbandits.rules.algorithms.everyone_at_once import check_clients, everyone_at_once
from fedbandits.rules.phased import Beliefs, Charge, PhasedRule
from fedbandits.rules.radii import PaperRadius

Communicate: TypeAlias = Literal["phase", "slot"]
"""When clients talk to the server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Centralized(Algorithm):
    """Fed1-UCB whose clients send every observation: one pull an arm a phase.

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

    clients: int | None = None
    communicate: Communicate = "phase"
    radius: PaperRadius = field(default_factory=PaperRadius)

    def __post_init__(self) -> None:
        check_clients(self.clients)
        check_word(self.communicate, Communicate, "communicate")
        check_paper_radius(self.radius)

    def rule(self, beliefs: Beliefs) -> PhasedRule:
        """Return the rule for a game of which this is believed."""
        return everyone_at_once(
            pulls=1,
            clients=self.clients,
            radius=self.radius,
            beliefs=beliefs,
            charge=Charge(self.communicate),
        )
