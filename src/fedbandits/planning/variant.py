"""What a plan suggests, as the table of a variant in an experiment file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedbandits.experiments.describe import describe_privacy
from fedbandits.planning.outlook import Outlook
from fedbandits.planning.question import Question
from fedbandits.rules.algorithms import Fed1Ucb

DEFAULT_COST = 1.0
"""What a report costs in a file that does not say it."""


def variant_table(question: Question, outlook: Outlook) -> dict[str, Any]:
    """Return the variant that does what was foreseen, whatever its file says of the problem.

    Parameters
    ----------
    question : Question
        What was planned for: the rule is told the noise and spread of the plan.
    outlook : Outlook
        With the schedules.
    """
    table: dict[str, Any] = {"algorithm": outlook.algorithm, "pulls": outlook.pulls}
    if outlook.algorithm == Fed1Ucb.name:
        table["clients"] = question.population
    else:
        table["admissions"] = outlook.admissions
        table["weights"] = outlook.weights
        if question.population is not None:
            table["max_clients"] = question.population
    table["radius"] = {"rule": question.radius.rule}
    table["delta"] = question.delta if question.horizon is None else "1/T"
    table["assume"] = {"noise": question.noise, "spread": question.spread}
    if question.communication_cost != DEFAULT_COST:
        table["communication_cost"] = question.communication_cost
    if question.privacy is not None:
        table["privacy"] = describe_privacy(question.privacy)
    return table


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
        # A game of N clients is one whose problem says so: the variant cannot.
        lines.append(f"# in a game with [problem] population = {question.population}")
    table = variant_table(question, outlook)
    return "\n".join([*lines, *(f"{key} = {_value(value)}" for key, value in table.items())])


def _value(value: Any) -> str:
    """Return a value as TOML has it.

    Examples
    --------
    >>> _value({"range": [0.0, 1.0], "noise": "gaussian", "delta": 1e-06})
    '{ range = [0.0, 1.0], noise = "gaussian", delta = 1e-06 }'
    """
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(part)}" for key, part in value.items()) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)
