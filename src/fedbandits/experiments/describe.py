"""An experiment as plain tables, in the words of experiment files: reading them gives it back."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any

from fedbandits.construct import parameters_of
from fedbandits.privacy.policy import Privacy
from fedbandits.rules.estimators import ESTIMATORS
from fedbandits.rules.levels import Level
from fedbandits.rules.radii import RADII
from fedbandits.rules.schedules import Schedule
from fedbandits.simulation import Variant

if TYPE_CHECKING:
    from fedbandits.experiments.experiment import Experiment


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    found = {"python": platform.python_version()}
    for package in ("fedbandits", "numpy", "scipy"):
        found[package] = metadata.version(package)
    return found


def as_toml(tables: Mapping[str, Any]) -> str:
    """Return the tables of an experiment file as its text: plain keys first, a problem, variants.

    Examples
    --------
    >>> print(as_toml({"horizon": 10, "problem": {"means": [1, 2]}, "variants": [{"label": "a"}]}))
    horizon = 10
    <BLANKLINE>
    [problem]
    means = [1, 2]
    <BLANKLINE>
    [[variants]]
    label = "a"
    <BLANKLINE>
    """
    parts: list[tuple[str, Mapping[str, Any]]] = [("", {})]
    for key, value in tables.items():
        if isinstance(value, Mapping):
            parts.append((f"\n[{key}]\n", value))
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            parts += [(f"\n[[{key}]]\n", each) for each in value]
        else:
            parts[0] = ("", {**parts[0][1], key: value})
    return "".join(
        head + "".join(f"{key} = {toml_value(value)}\n" for key, value in table.items())
        for head, table in parts
    )


def toml_value(value: Any) -> str:
    """Return a value as TOML has it.

    Examples
    --------
    >>> toml_value({"range": [0.0, 1.0], "noise": "gaussian", "delta": 1e-06, "release": True})
    '{ range = [0.0, 1.0], noise = "gaussian", delta = 1e-06, release = true }'
    """
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key} = {toml_value(part)}" for key, part in value.items())
        return f"{{ {inside} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    # A string of JSON is one of TOML, and so are true and false.
    return json.dumps(value) if isinstance(value, str | bool) else str(value)


def describe_experiment(experiment: Experiment) -> dict[str, Any]:
    """Return the tables of an experiment file that says the same."""
    problems = {variant.problem.name: variant.problem for variant in experiment.variants}
    single = list(problems) == ["problem"]
    tables = {name: problem.described() for name, problem in problems.items()}
    own = parameters_of(experiment)
    variants: Sequence[Variant] = own.pop("variants")
    return {
        **_table(own),
        **(tables if single else {"problems": tables}),
        "variants": [_describe_variant(variant, single=single) for variant in variants],
    }


def _describe_variant(variant: Variant, *, single: bool) -> dict[str, Any]:
    algorithm, problem = variant.algorithm, variant.problem
    named = {"algorithm": algorithm.name, "problem": None if single else problem.name}
    privacy = None if variant.privacy is None else describe_privacy(variant.privacy)
    own = parameters_of(variant) | named | parameters_of(algorithm) | {"privacy": privacy}
    return _table(own)


def describe_privacy(privacy: Privacy) -> dict[str, Any]:
    """Return the table of a privacy policy.

    Examples
    --------
    >>> describe_privacy(Privacy(range=(0, 1), noise="laplace", epsilon=1.0))
    {'range': [0.0, 1.0], 'noise': 'laplace', 'epsilon': 1.0, 'level': 'event', 'min_pulls': 10}
    """
    table = _table(parameters_of(privacy))
    if privacy.quantize is not None:
        del table["level"]  # rounding alone protects at none
    return table


def _table(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters in the words of a file, which leaves out what is None or empty."""
    plain = {name: _plain(value) for name, value in parameters.items()}
    return {name: value for name, value in plain.items() if value is not None and value != {}}


def _plain(value: Any) -> Any:
    match value:
        case Schedule(source=source):
            return source
        case Level():
            return str(value)
        case tuple() | list():
            return [_plain(one) for one in value] or None
    if not is_dataclass(value):
        return value
    named = [one for one in (RADII, ESTIMATORS) if isinstance(value, one.roles)]
    name = {one.key: getattr(value, one.key) for one in named}
    return name | _table(parameters_of(value))
