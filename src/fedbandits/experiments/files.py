"""Experiment files: TOML, every error naming the key, the rule and the value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field, create_model

from fedbandits.construct import (
    ANY,
    StrictTable,
    all_keys_of,
    construct,
    key_of,
    keys_of,
    keys_of_part,
    validated,
)
from fedbandits.errors import InputError, Mistakes, check_not_negative, is_number, nearest
from fedbandits.experiments.experiment import Experiment
from fedbandits.plugins import load_tables, plugins_in_use, plugins_of
from fedbandits.problems import PROBLEMS, Approximate, Gaussian, Problem
from fedbandits.rules.algorithms import ALGORITHMS, Algorithm, Fed2Ucb
from fedbandits.rules.radii import CertifiedRadius, check_option
from fedbandits.simulation import Variant, build_rules


class _Tables(StrictTable):
    """What a file has besides the keys of an `Experiment`, which that checks itself."""

    communication_cost: float = 1.0
    problem: dict[str, Any] | None = None
    problems: dict[str, dict[str, Any]] | None = None
    variants: list[dict[str, Any]]
    # Read by `fedbandits.sweeps`; without it the file is the experiment that it varies.
    sweep: dict[str, Any] | None = None
    # Read by `fedbandits.federation.trial`: how the same comparison is run in earnest.
    trial: dict[str, Any] | None = None
    # Read by `fedbandits.plugins`, before anything else.
    plugins: list[Any] = Field(default_factory=list)


@cache
def _file() -> type[_Tables]:
    """Return the keys of the file itself."""
    others = [key for key in keys_of(Experiment) if key not in _Tables.model_fields]
    own: dict[str, Any] = dict.fromkeys(others, (Any, None))
    return create_model("_File", __base__=_Tables, **own)


# Takes the place of what cannot be read while the rest of the file is checked.
_STAND_IN = Variant(
    label="",
    problem=Approximate(
        means=[0.5, 0.6], noise=Gaussian(0.5), spread=Gaussian(0.1), name="a stand-in"
    ),
    # One that needs no horizon.
    algorithm=Fed2Ucb(pulls=1, admissions=1, radius=CertifiedRadius(delta=0.05)),
)


def load_experiment(path: str | Path, *, plugins: Iterable[str | Path] = ()) -> Experiment:
    """Return the experiment of a TOML file, or of the summary.json of a run.

    Parameters
    ----------
    path, plugins
        As in `fedbandits.plugins.load_tables`.

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
    variants: list[Variant] = []
    cost = _Tables.model_fields["communication_cost"].default
    with plugins_in_use(plugins):
        with mistakes.gathered():
            validated(_file(), tables, "")
        with mistakes.gathered():
            given = tables.get("communication_cost", cost)
            check_not_negative(given, "communication_cost")
            cost = given
        with mistakes.gathered():
            if (tables.get("problem") is None) == (tables.get("problems") is None):
                raise InputError(
                    "problem", "give either one [problem] or several [problems.NAME], and not both"
                )
        for where, table in problem_tables(tables).items():
            name = where.removeprefix("problems.")
            problems[name] = _STAND_IN.problem
            with mistakes.gathered(where):
                problems[name] = _problem(table, name)
        for number, table in enumerate(_only_tables(tables.get("variants"))):
            where = f"variants[{number}]"
            variants.append(replace(_STAND_IN, label=str(table.get("label", where))))
            with mistakes.gathered(where):
                variants[-1] = _variant(table, problems, cost)
        own = {key: tables[key] for key in keys_of(Experiment) if key in tables}
        with mistakes.gathered():
            found = construct(Experiment, own | {"variants": variants, "plugins": plugins}, "")
        if mistakes.found and all(one.where != "horizon" for one in mistakes.found):
            unread = _STAND_IN.problem
            with mistakes.gathered():  # the rules of the variants that could be read
                build_rules(
                    [_STAND_IN if one.problem is unread else one for one in variants],
                    tables.get("horizon"),
                )
        places = ["", *tables]
        mistakes.found.sort(key=lambda one: places.index(key_of(one, tables)))
        mistakes.tell()
    return found


def _only_tables(given: object) -> list[Mapping[str, Any]]:
    """Return a list of tables, or none of it: what is wrong with another one is said elsewhere."""
    tables = given if isinstance(given, list) else []
    return tables if all(isinstance(table, Mapping) for table in tables) else []


def _variant(table: Mapping[str, Any], problems: Mapping[str, Problem], cost: float) -> Variant:
    mistakes = Mistakes()
    made = {"problem": _STAND_IN.problem, "algorithm": _STAND_IN.algorithm}
    with mistakes.gathered():
        made["algorithm"] = _algorithm(table)
    with mistakes.gathered():
        made["problem"] = _chosen(table.get("problem"), problems)
    with mistakes.gathered():
        usual = {"label": str(table.get("algorithm")), "communication_cost": cost}
        own = {key: table[key] for key in keys_of(Variant) if key in table}
        found = construct(Variant, usual | own | made, "")
    mistakes.tell()
    return found


def _algorithm(table: Mapping[str, Any]) -> Algorithm:
    """Return the algorithm of a variant; its keys are those that not all variants have."""
    name, mistakes = table.get("algorithm"), Mistakes()
    algorithm = ALGORITHMS.named(name, "algorithm")
    known = keys_of(algorithm)
    own = {key: value for key, value in table.items() if key not in keys_of(Variant)}
    for key in own.keys() - set(known):
        hint = nearest(key, [*keys_of(Variant), *known])
        mistakes.add(InputError(key, f"is not a key of a {name} variant; {hint}"))
    with mistakes.gathered():
        found = construct(algorithm, {key: own[key] for key in known if key in own}, "")
        _check_options(own)
    mistakes.tell()
    return found


def _check_options(own: Mapping[str, Any]) -> None:
    """Refuse what a variant and its radius say differently.

    The algorithm refuses that too, but cannot tell a default that was written from one that was
    not.
    """
    radius = own.get("radius")
    for key in ("delta", "dependence"):
        if key in own and isinstance(radius, Mapping) and key in radius:
            check_option(key, own[key], radius[key])


def _chosen(name: object, problems: Mapping[str, Problem]) -> Problem:
    if name is None:
        if len(problems) > 1:
            raise InputError("problem", f"is missing; known: {', '.join(problems)}")
        return next(iter(problems.values()), _STAND_IN.problem)
    if not isinstance(name, str) or name not in problems:
        raise InputError("problem", f'"{name}" is not a problem; {nearest(str(name), problems)}')
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
    every variant which has one. If nothing has the name of a law, it is ``problem.noise.*``.

    Examples
    --------
    >>> keys_of_file({
    ...     "problem": {"model": "exact", "noise": {"law": "gaussian"}},
    ...     "variants": [{"algorithm": "ucb1"}],
    ... })[:9]
    ['title', 'horizon', 'replications', 'seed', 'grid_points', 'communication_cost',
    'problem.local_means', 'problem.observations', 'problem.noise']
    """
    tables_in_it = _Tables.model_fields.keys() - {"communication_cost"}
    found = [key for key in (*keys_of(Experiment), "communication_cost") if key not in tables_in_it]
    with plugins_in_use(plugins_of(tables)):
        problems = problem_tables(tables)
        for where, table in (problems or {"problem": {}, "problems": {}}).items():
            model = PROBLEMS.get(str(table.get("model")))
            keys = keys_of_part(model and model.reader(), table)
            found += [f"{where}.{key}" for key in keys if key != "name"]
        own = [
            all_keys_of(Variant, table)
            + keys_of_part(ALGORITHMS.get(str(table.get("algorithm"))), table)
            for table in _only_tables(tables.get("variants"))
        ]
    everywhere = dict.fromkeys(key for keys in own for key in keys) or [ANY]
    found += [f"variants.{key}" for key in everywhere]
    found += [f"variants[{n}].{key}" for n, keys in enumerate(own) for key in keys]
    return found


def defaults_of_file() -> dict[str, Any]:
    """Return the numbers of a file that says nothing about them.

    Examples
    --------
    >>> defaults_of_file()
    {'replications': 100, 'seed': 0, 'grid_points': 400, 'communication_cost': 1.0}
    """
    found = {one.name: one.default for one in fields(Experiment)} | {
        "communication_cost": _Tables.model_fields["communication_cost"].default
    }
    return {key: value for key, value in found.items() if is_number(value)}


def problem_tables(tables: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the tables of a file's problems, by where they stand."""
    several = tables.get("problems")
    found = {"problem": tables.get("problem")}
    if found["problem"] is None and isinstance(several, Mapping):
        found = {f"problems.{name}": table for name, table in several.items()}
    return {where: table for where, table in found.items() if isinstance(table, Mapping)}
