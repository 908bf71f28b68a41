"""The setting of the laboratory: fields that anybody may fill in, checked one by one.

A setting is read from text, such as the fields of a form or the query of a link. Reading it is
cheap whatever the text is. What follows from it is worked out elsewhere, in a process that can be
ended.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypeAlias
from urllib.parse import urlencode

from fedbandits.errors import InputError, Mistakes, nearest

Outcome: TypeAlias = Literal["rate", "number"]
"""What is observed: yes or no, or a number."""

Given: TypeAlias = Literal["gap", "means"]
"""How the options are described: by the smallest gap, or each by its mean."""

Protection: TypeAlias = Literal["none", "bits", "epsilon"]
"""What clients do to the means that they send: nothing, round them, or add noise."""

Design: TypeAlias = Literal["fed2-ucb", "fed1-ucb", "fed-index", "fed-ts"]
"""What plays in the column of one's own."""

Rule: TypeAlias = Literal["paper", "certified", "joint", "pairwise", "bernstein", "chernoff"]
"""The radius of that column."""

MOST_OPTIONS = 100
MOST_LETTERS = 2000
"""Of any field; the means of 100 options fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of the form: what it is about, and what it takes.

    Parameters
    ----------
    name : str
        That of the attribute of a `Setting`.
    label, unit, words : str
        What the form calls it, what it is counted in, and what it means.
    low, high : float
        The least and the most of a number.
    whole : bool
        Whether the number is a whole one.
    log : bool
        Whether its slider has equal ratios, and not equal steps.
    optional : bool
        Whether it may be empty.
    choices : mapping of str to str
        What may be chosen, and what the form calls that; it is a number, or text, without any.
    text : bool
        Whether it is text.
    slider : (float, float), optional
        From where to where its slider goes, if it has one.
    scaled : bool
        Whether the slider of a number goes around its value instead, because outcomes may be in
        any unit; that of a rate does not.
    ends : {"", "zero", "none"}
        What a slider on a logarithmic scale says at its end: 0 at the lower, nothing at the upper.
    group : str
        The heading that it stands under.
    when : mapping of str to tuple of str
        What other fields say when this one counts.
    """

    name: str
    label: str
    unit: str = ""
    words: str = ""
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    log: bool = False
    optional: bool = False
    choices: Mapping[str, str] | None = None
    text: bool = False
    slider: tuple[float, float] | None = None
    scaled: bool = False
    ends: Literal["", "zero", "none"] = ""
    group: str = ""
    when: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def read(self, said: str) -> Any:
        """Return the value that a text says, or refuse it."""
        said = said.strip()
        if len(said) > MOST_LETTERS:
            raise InputError(
                self.name,
                f"has {len(said):,} characters; {MOST_LETTERS:,} are the most: shorten it",
            )
        if self.choices is not None:
            if said not in self.choices:
                raise InputError(
                    self.name, f'"{said}" is not a choice; {nearest(said, self.choices)}'
                )
            return said
        if self.text:
            return said
        if not said:
            if self.optional:
                return None
            raise InputError(self.name, f"is empty; give {self._rule}")
        return self.number(said)

    @property
    def _rule(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} from {self.low:g} to {self.high:,.12g}"

    def number(self, said: str) -> float | int:
        """Return the number that a text says, within the limits."""
        try:
            value = float(said.replace("_", "").replace(",", ""))
        except ValueError:
            raise InputError(
                self.name, f'"{said[:40]}" is not a number; give {self._rule}'
            ) from None
        if not math.isfinite(value) or not self.low <= value <= self.high:
            raise InputError(self.name, f"{said[:40]} is out of range; give {self._rule}")
        if not self.whole:
            return value
        if not value.is_integer():
            raise InputError(self.name, f"{said[:40]} is not whole; give {self._rule}")
        return int(value)


OPTIONS, CLIENTS, COSTS, TRUST, DESIGN = GROUPS = (
    "The options",
    "The clients",
    "Costs and time",
    "Privacy and trust",
    "Your own design",
)
"""The headings of the form."""

_BY_GAP = {"given": ("gap",)}
_BY_PAPER = {"design": ("fed2-ucb", "fed1-ucb"), "rule": ("paper",)}

FIELDS: tuple[Field, ...] = (
    Field(
        name="outcome",
        group=OPTIONS,
        label="What is observed",
        choices={"rate": "yes or no (a rate)", "number": "a number"},
        words="A rate is a share of successes: cured, bought, delivered. Its noise is known.",
    ),
    Field(
        name="given",
        group=OPTIONS,
        label="Options are described by",
        choices={"gap": "the smallest gap that matters", "means": "the mean of each"},
    ),
    Field(
        name="options",
        group=OPTIONS,
        slider=(2, 30),
        when=_BY_GAP,
        label="Options",
        unit="options",
        low=2,
        high=MOST_OPTIONS,
        whole=True,
        words="How many are compared.",
    ),
    Field(
        name="gap",
        group=OPTIONS,
        slider=(0.001, 0.5),
        scaled=True,
        when=_BY_GAP,
        label="Gap Δ",
        low=1e-6,
        high=1e6,
        log=True,
        words="How far the best is above the next. All others are taken to be exactly so far below"
        " the best, which is the hardest case.",
    ),
    Field(
        name="best",
        group=OPTIONS,
        slider=(0.01, 0.99),
        scaled=True,
        when=_BY_GAP,
        label="Mean of the best",
        low=-1e9,
        high=1e9,
        words="Of a rate: from 0 to 1.",
    ),
    Field(
        name="means",
        group=OPTIONS,
        when={"given": ("means",)},
        label="Means",
        text=True,
        words="One per option, separated by commas or spaces.",
    ),
    Field(
        name="noise",
        group=CLIENTS,
        slider=(0.01, 10),
        scaled=True,
        when={"outcome": ("number",)},
        label="Noise σ",
        low=1e-6,
        high=1e6,
        log=True,
        words="How one observation scatters around its client's mean.",
    ),
    Field(
        name="spread",
        group=CLIENTS,
        slider=(0.001, 0.3),
        scaled=True,
        ends="zero",
        label="Spread of clients σ_c",
        low=0.0,
        high=1e6,
        log=True,
        words="How clients' means scatter around the mean of all.",
    ),
    Field(
        name="clients",
        group=CLIENTS,
        slider=(2, 20_000),
        ends="none",
        label="Clients",
        unit="clients",
        low=1,
        high=1e6,
        whole=True,
        log=True,
        optional=True,
        words="If only these exist and the answer is for them. Empty: as many as one likes.",
    ),
    Field(
        name="cost",
        group=COSTS,
        slider=(0.01, 1000),
        ends="zero",
        label="Cost of a report C",
        low=0.0,
        high=1e6,
        log=True,
        words="In units of regret: what one client's report is worth, counted in outcomes.",
    ),
    Field(
        name="horizon",
        group=COSTS,
        slider=(100, 1e7),
        label="Horizon T",
        unit="slots",
        low=100,
        high=1e7,
        whole=True,
        log=True,
        words="How many times each client chooses an option.",
    ),
    Field(
        name="privacy",
        group=TRUST,
        label="Privacy",
        choices={
            "none": "means are sent as they are",
            "bits": "means are rounded to a few bits",
            "epsilon": "means get noise (differential privacy)",
        },
    ),
    Field(
        name="bits",
        group=TRUST,
        slider=(1, 16),
        when={"privacy": ("bits",)},
        label="Bits of a mean",
        unit="bits",
        low=1,
        high=16,
        whole=True,
    ),
    Field(
        name="epsilon",
        group=TRUST,
        slider=(0.05, 20),
        when={"privacy": ("epsilon",)},
        label="Privacy budget ε",
        low=0.01,
        high=100.0,
        log=True,
        words="For each observation, with δ = 10⁻⁶. Less is more private.",
    ),
    Field(
        name="liars",
        group=TRUST,
        slider=(0, 0.45),
        label="Liars",
        unit="of all clients",
        low=0.0,
        high=0.45,
        words="The share of clients that lie, together and knowing everything. The certified"
        " design allows for so many; the index rule allows for none.",
    ),
    Field(
        name="design",
        group=DESIGN,
        label="Your own design",
        choices={
            "fed2-ucb": "Fed2-UCB: clients join gradually",
            "fed1-ucb": "Fed1-UCB: all clients from the start",
            "fed-index": "index rule with a certified commitment",
            "fed-ts": "Thompson sampling",
        },
    ),
    Field(
        name="pulls",
        group=DESIGN,
        when={"design": ("fed2-ucb", "fed1-ucb")},
        label="Pulls per phase f(p)",
        text=True,
        words="Of each option by each client in phase p: 100, 20*p, ceil(10*log(T)).",
    ),
    Field(
        name="admissions",
        group=DESIGN,
        when={"design": ("fed2-ucb",)},
        label="New clients per phase g(p)",
        text=True,
        words="In phase p: 8, 2^p.",
    ),
    Field(
        name="rule",
        group=DESIGN,
        when={"design": ("fed2-ucb", "fed1-ucb")},
        label="Radius",
        choices={
            "paper": "the paper's",
            "certified": "certified",
            "joint": "joint",
            "pairwise": "pairwise",
            "bernstein": "empirical Bernstein",
            "chernoff": "Chernoff, for rates",
        },
    ),
    Field(
        name="arm_constant",
        group=DESIGN,
        slider=(0.1, 10),
        when=_BY_PAPER,
        label="Constant of the pulls",
        low=0.01,
        high=100.0,
        words="6 carries the proof; the authors' scripts have less.",
    ),
    Field(
        name="client_constant",
        group=DESIGN,
        slider=(0.1, 10),
        when=_BY_PAPER,
        label="Constant of the clients",
        low=0.01,
        high=100.0,
        words="6 carries the proof; the authors' scripts have less.",
    ),
    Field(name="seed", group=DESIGN, label="Seed", low=0, high=2**32 - 1, whole=True),
)

_FIELDS = {one.name: one for one in FIELDS}

GAME = Field(name="game", label="Game", low=0, high=999, whole=True)
"""Which game is shown step by step; it is no part of the setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What the form says; each attribute is the field of that name.

    Examples
    --------
    >>> setting = Setting.read({"options": "3", "gap": "0.05", "clients": "40"})
    >>> setting.clients, setting.link()
    (40, 'options=3&gap=0.05&clients=40')
    >>> Setting.read({"options": "1"})
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: options: 1 is out of range; give a whole number from 2 to 100
    """

    outcome: Outcome = "number"
    given: Given = "gap"
    options: int = 10
    gap: float = 0.02
    best: float = 0.79
    means: str = ""
    noise: float = 0.5
    spread: float = 0.02
    clients: int | None = None
    cost: float = 1.0
    horizon: int = 1_000_000
    privacy: Protection = "none"
    bits: int = 8
    epsilon: float = 1.0
    liars: float = 0.0
    design: Design = "fed2-ucb"
    pulls: str = "100"
    admissions: str = "2^p"
    rule: Rule = "paper"
    arm_constant: float = 6.0
    client_constant: float = 6.0
    seed: int = 2021

    @classmethod
    def read(cls, said: Mapping[str, str]) -> Setting:
        """Return the setting of some fields; the others are as usual.

        Raises
        ------
        InputError
            With every field that cannot be, the rule, the value and the way out.
        """
        mistakes, found = Mistakes(), {}
        for name, text in said.items():
            with mistakes.gathered():
                if name not in _FIELDS:
                    raise InputError(name[:40], f"is not a field; {nearest(name[:40], _FIELDS)}")
                found[name] = _FIELDS[name].read(text)
        mistakes.tell()
        setting = cls(**found)
        setting._check()
        return setting

    def _check(self) -> None:
        """Refuse fields that do not go together."""
        mistakes = Mistakes()
        with mistakes.gathered():
            self.global_means()
        if self.liars and self.privacy != "none":
            mistakes.add(
                InputError(
                    "liars",
                    f"{self.liars:g}, and means are protected; games with both are not simulated:"
                    " set one of the two to none",
                )
            )
        if self.clients is not None and self.clients < 2 and self.liars:
            mistakes.add(InputError("liars", "of one client are none, or all: give more clients"))
        mistakes.tell()

    def global_means(self) -> tuple[float, ...]:
        """Return the mean of each option, the best one first if a gap is given."""
        rates = self.outcome == "rate"
        if self.given == "gap":
            if rates and not self.gap < self.best < 1:
                raise InputError(
                    "best" if not 0 < self.best < 1 else "gap",
                    f"the best has a rate of {self.best:g} and all others {self.best - self.gap:g};"
                    " rates lie between 0 and 1: change one of the two",
                )
            return (self.best, *[self.best - self.gap] * (self.options - 1))
        means = _numbers(self.means)
        if rates and not all(0 < mean < 1 for mean in means):
            wrong = next(mean for mean in means if not 0 < mean < 1)
            raise InputError("means", f"{wrong:g} is not a rate between 0 and 1; change it")
        first, second = sorted(means, reverse=True)[:2]
        if not first - second >= _FIELDS["gap"].low:
            raise InputError(
                "means",
                f"the best is {first - second:g} above the next; the least is"
                f" {_FIELDS['gap'].low:g}: change one of them",
            )
        return means

    def link(self) -> str:
        """Return the query that restores it: the fields that are not as usual."""
        usual = Setting()
        return urlencode(
            {
                one.name: shown(getattr(self, one.name))
                for one in fields(Setting)
                if getattr(self, one.name) != getattr(usual, one.name)
            }
        )

    def as_text(self) -> dict[str, str]:
        """Return every field as text."""
        return {name: shown(value) for name, value in asdict(self).items()}


def refusal(error: InputError) -> list[dict[str, str]]:
    """Return mistakes for JSON, each with its field.

    Examples
    --------
    >>> refusal(InputError("seed", "is empty; give a number"))
    [{'field': 'seed', 'problem': 'is empty; give a number'}]
    """
    return [{"field": one.where, "problem": one.problem} for one in error.each]


def shown(value: Any) -> str:
    """Return the value of a field as its text.

    Examples
    --------
    >>> shown(None), shown(0.5), shown(1e-06), shown(1000000)
    ('', '0.5', '1e-06', '1000000')
    """
    return "" if value is None else str(value)


def _numbers(text: str) -> tuple[float, ...]:
    """Return the means in a text."""
    words = text.replace(",", " ").replace(";", " ").split()
    if not 2 <= len(words) <= MOST_OPTIONS:
        raise InputError(
            "means",
            f"{len(words)} of them; give one for each of 2 to {MOST_OPTIONS} options, such as"
            " 0.70, 0.75, 0.79",
        )
    within = Field(name="means", label="", low=_FIELDS["best"].low, high=_FIELDS["best"].high)
    return tuple(float(within.number(word)) for word in words)
