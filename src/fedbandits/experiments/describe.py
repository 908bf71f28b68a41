"""An experiment as plain tables, in the words of experiment files: reading them gives it back."""

from __future__ import annotations

import platform
from dataclasses import asdict
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


def describe_experiment(experiment: Experiment) -> dict[str, Any]:
    """Return the tables of an experiment file that says the same."""
    problems = {variant.problem.name: variant.problem for variant in experiment.variants}
    single = list(problems) == ["problem"]
    tables = {name: problem.described() for name, problem in problems.items()}
    described = {
        "title": experiment.title,
        "horizon": experiment.horizon,
        "replications": experiment.replications,
        "seed": experiment.seed,
        "grid_points": experiment.grid_points,
        "plugins": [asdict(plugin) for plugin in experiment.plugins] or None,
        **(tables if single else {"problems": tables}),
        "variants": [
            _describe_variant(variant, None if single else variant.problem.name)
            for variant in experiment.variants
        ],
    }
    return _given(described)


def _describe_variant(variant: Variant, problem: str | None) -> dict[str, Any]:
    table = {
        "label": variant.label,
        "algorithm": variant.algorithm.name,
        "problem": problem,
        **{name: _plain(value) for name, value in parameters_of(variant.algorithm).items()},
        "communication_cost": variant.communication_cost,
        "assume": _given(parameters_of(variant.assume)) or None,
        **{name: getattr(variant, name) for name in ("fidelity", "max_clients", "max_phases")},
        "privacy": None if variant.privacy is None else describe_privacy(variant.privacy),
    }
    return _given(table)


def _given(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table without what is None: files leave that out."""
    return {name: value for name, value in table.items() if value is not None}


def describe_privacy(privacy: Privacy) -> dict[str, Any]:
    """Return the table of a privacy policy.

    Examples
    --------
    >>> describe_privacy(Privacy(range=(0, 1), noise="laplace", epsilon=1.0))
    {'range': [0.0, 1.0], 'noise': 'laplace', 'epsilon': 1.0, 'level': 'event', 'min_pulls': 10}
    """
    table = _given(parameters_of(privacy))
    table["range"] = list(privacy.range)
    if privacy.quantize is not None:
        table["quantize"] = parameters_of(privacy.quantize)
        del table["level"]  # rounding alone protects at none
    return table


def _plain(value: Any) -> Any:
    match value:
        case Schedule(source=source):
            return source
        case Level():
            return str(value)
    for registry in (RADII, ESTIMATORS):
        if isinstance(value, registry.roles):
            name = {registry.key: getattr(value, registry.key)}
            return name | {key: _plain(part) for key, part in parameters_of(value).items()}
    return value
