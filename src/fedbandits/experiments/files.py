"""Experiment files: TOML, every error naming the key, the rule and the value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from fedbandits.construct import (
    StrictTable,
    all_keys_of,
    construct,
    keys_of,
    parameters_of,
    validated,
)
from fedbandits.errors import InputError, Mistakes, check_not_negative, nearest
from fedbandits.experiments.experiment import Experiment
from fedbandits.plugins import load_tables, plugins_in_use, plugins_of
from fedbandits.privacy.policy import Privacy
from fedbandits.problems import PROBLEMS, Problem
from fedbandits.rules.algorithms import ALGORITHMS, Algorithm
from fedbandits.rules.radii import check_option
from fedbandits.simulation import Assume, Variant
from fedbandits.simulation.simulator import MOST_GRID_POINTS


class _File(StrictTable):
    """The keys of the file itself."""

    title: str
    horizon: Annotated[int, Field(ge=1)] | None = None
    replications: Annotated[int, Field(ge=1)] = 100
    seed: Annotated[int, Field(ge=0)] = 0
    grid_points: Annotated[int, Field(ge=1, le=MOST_GRID_POINTS)] = 400
    communication_cost: float = 1.0
    problem: dict[str, Any] | None = None
    problems: dict[str, dict[str, Any]] | None = None
    variants: list[dict[str, Any]]
    # Read by `fedbandits.sweeps`; without it the file is the experiment that it varies.
    sweep: dict[str, Any] | None = None
    # Read by `fedbandits.plugins`, before anything else.
    plugins: list[Any] = Field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Common:
    """What every variant may have; the other keys are those of its algorithm."""

    algorithm: str
    label: str | None = None
    problem: str | None = None
    communication_cost: float | None = None
    assume: Assume = field(default_factory=Assume)
    fidelity: str | None = None
    max_clients: int | None = None
    max_phases: int | None = None
    privacy: Privacy | None = None


def load_experiment(path: str | Path, *, plugins: Iterable[str | Path] = ()) -> Experiment:
    """Return the experiment of a TOML file, or of the summary.json of a run.

    Parameters
    ----------
    path : path
        Of the file.
    plugins : iterable of paths
        Plugin files besides those that the file lists.

    Raises
    ------
    InputError
        If the file cannot be read or says something that cannot be; the message names the key.
    """
    return read_experiment(load_tables(path, plugins=plugins))


def read_experiment(tables: Mapping[str, Any]) -> Experiment:
    """Return the experiment that the tables of a file describe.

    Examples
    --------
    >>> experiment = read_experiment({
    ...     "title": "demo",
    ...     "horizon": 10_000,
    ...     "problem": {
    ...         "model": "exact",
    ...         "local_means": [[0.2, 0.9], [0.7, 0.4]],
    ...         "noise": {"law": "bernoulli"},
    ...     },
    ...     "variants": [{"algorithm": "fed1-ucb", "pulls": "ceil(10*log(T))"}],
    ... })
    >>> experiment.variants[0].label, experiment.check()
    ('fed1-ucb', ['clients'])
    """
    plugins = plugins_of(tables)
    mistakes = Mistakes()
    problems: dict[str, Problem] = {}
    parts, variants = [], []
    with plugins_in_use(plugins):
        with mistakes.gathered():
            file = validated(_File, tables, "")
            check_not_negative(file.communication_cost, "communication_cost")
            if (file.problem is None) == (file.problems is None):
                raise InputError(
                    "problem", "give either one [problem] or several [problems.NAME], and not both"
                )
        for where, table in problem_tables(tables).items():
            name = where.removeprefix("problems.")
            with mistakes.gathered(where):
                problems[name] = _problem(table, name)
        for number, table in enumerate(_only_tables(tables.get("variants"))):
            with mistakes.gathered(f"variants[{number}]"):
                parts.append(_parts_of(table))
        mistakes.tell()
        for number, (common, algorithm) in enumerate(parts):
            with mistakes.gathered(f"variants[{number}]"):
                variants.append(_variant(common, algorithm, problems, file.communication_cost))
        mistakes.tell()
        return Experiment(
            title=file.title,
            variants=variants,
            horizon=file.horizon,
            replications=file.replications,
            seed=file.seed,
            grid_points=file.grid_points,
            plugins=plugins,
        )


def _only_tables(given: object) -> list[Mapping[str, Any]]:
    """Return a list of tables, or none of it: what is wrong with another one is said elsewhere."""
    tables = given if isinstance(given, list) else []
    return tables if all(isinstance(table, Mapping) for table in tables) else []


def _parts_of(table: Mapping[str, Any]) -> tuple[_Common, Algorithm]:
    """Return what every variant has, and the algorithm."""
    common = construct(_Common, {key: table[key] for key in keys_of(_Common) if key in table}, "")
    algorithm = ALGORITHMS.named(common.algorithm, "algorithm")
    own = {key: value for key, value in table.items() if key not in keys_of(_Common)}
    for key in own:
        if key not in keys_of(algorithm):
            hint = nearest(key, [*keys_of(_Common), *keys_of(algorithm)])
            raise InputError(key, f"is not a key of a {common.algorithm} variant; {hint}")
    built = construct(algorithm, own, "")
    _check_options(own)
    return common, built


def _variant(
    common: _Common, algorithm: Algorithm, problems: dict[str, Problem], cost: float
) -> Variant:
    settings = parameters_of(common) | {
        "label": common.algorithm if common.label is None else common.label,
        "problem": _chosen(common.problem, problems),
        "algorithm": algorithm,
    }
    if common.communication_cost is None:
        settings["communication_cost"] = cost
    return Variant(**settings)


def _check_options(own: Mapping[str, Any]) -> None:
    """Refuse what a variant and its radius say differently.

    The algorithm refuses that too, but cannot tell a default that was written from one that was
    not.
    """
    radius = own.get("radius")
    for key in ("delta", "dependence"):
        if key in own and isinstance(radius, Mapping) and key in radius:
            check_option(key, own[key], radius[key])


def _chosen(name: str | None, problems: dict[str, Problem]) -> Problem:
    if name is None:
        if len(problems) != 1:
            raise InputError("problem", f"is missing; known: {', '.join(problems)}")
        return next(iter(problems.values()))
    if name not in problems:
        raise InputError("problem", f'"{name}" is not a problem; {nearest(name, problems)}')
    return problems[name]


def _problem(table: Mapping[str, Any], name: str) -> Problem:
    read = PROBLEMS.named(table.get("model"), "model").reader()
    own = {key: value for key, value in table.items() if key != "model"}
    made: Problem = construct(read, own | ({"name": name} if "name" in keys_of(read) else {}), "")
    return made


def keys_of_file(tables: Mapping[str, Any]) -> list[str]:
    """Return the keys whose values make up the experiment of a file, in it or not.

    Those of its own, of its problems' models and laws, of its variants' algorithms and radii:
    ``problem.spread.sigma``, ``variants[0].radius.arm``; and ``variants.radius.arm`` for that of
    every variant which has one.

    Examples
    --------
    >>> keys_of_file({
    ...     "problem": {"model": "exact", "noise": {"law": "gaussian"}},
    ...     "variants": [{"algorithm": "ucb1"}],
    ... })[:8]
    ['horizon', 'replications', 'seed', 'communication_cost', 'problem.local_means',
    'problem.observations', 'problem.noise', 'problem.client_weights']
    """
    beside = ("title", "grid_points", "problem", "problems", "variants", "sweep", "plugins")
    found = [key for key in _File.model_fields if key not in beside]
    with plugins_in_use(plugins_of(tables)):
        for where, table in problem_tables(tables).items():
            found += [f"{where}.{key}" for key in _keys_of_problem(table)]
        own = [_keys_of_variant(table) for table in tables.get("variants", ())]
    found += [f"variants.{key}" for key in dict.fromkeys(key for keys in own for key in keys)]
    found += [f"variants[{n}].{key}" for n, keys in enumerate(own) for key in keys]
    return found


def defaults_of_file() -> dict[str, Any]:
    """Return what a file says of replications, seed and C where it says nothing.

    Examples
    --------
    >>> defaults_of_file()
    {'replications': 100, 'seed': 0, 'communication_cost': 1.0}
    """
    keys = ("replications", "seed", "communication_cost")
    return {key: _File.model_fields[key].default for key in keys}


def problem_tables(tables: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the tables of a file's problems, by where they stand."""
    several = tables.get("problems")
    found = {"problem": tables.get("problem")}
    if found["problem"] is None and isinstance(several, Mapping):
        found = {f"problems.{name}": table for name, table in several.items()}
    return {where: table for where, table in found.items() if isinstance(table, Mapping)}


def _keys_of_problem(table: Mapping[str, Any]) -> list[str]:
    model = PROBLEMS.get(str(table.get("model")))
    keys = [] if model is None else all_keys_of(model.reader(), table)
    return [key for key in keys if key != "name"]


def _keys_of_variant(table: Mapping[str, Any]) -> list[str]:
    algorithm = ALGORITHMS.named(str(table.get("algorithm")), "algorithm")
    found = [*all_keys_of(_Common, table), *all_keys_of(algorithm, table)]
    return [key for key in found if key != "label"]
