"""What a plan suggests, as the table of a variant in an experiment file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedbandits.experiments.describe import describe_privacy
from fedbandits.planning.outlook import Outlook
from fedbandits.planning.question import Question

DEFAULT_COST = 1.0
"""What a report costs if a file does not say it."""


def variant_table(question: Question, outlook: Outlook) -> dict[str, Any]:
    """Return the variant that does what was foreseen, whatever its file says of the problem.

    Parameters
    ----------
    question : Question
        What was planned for: the rule is told the noise and spread of the plan.
    outlook : Outlook
        With the schedules.
    """
    at_once = outlook.admissions is None
    cost, privacy = question.communication_cost, question.privacy
    table = {
        "algorithm": outlook.algorithm,
        "pulls": outlook.pulls,
        "admissions": outlook.admissions,
        "weights": None if at_once else outlook.weights,
        "clients" if at_once else "max_clients": question.population,
        "radius": {"rule": question.radius.rule},
        "delta": question.delta if question.horizon is None else "1/T",
        "assume": {"noise": question.noise, "spread": question.spread},
        "communication_cost": None if cost == DEFAULT_COST else cost,
        "privacy": None if privacy is None else describe_privacy(privacy),
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
