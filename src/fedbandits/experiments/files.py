"""Experiment files: TOML, every error naming the key, the rule and the value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import ConfigDict, Field

from fedbandits.construct import (
    READERS,
    StrictTable,
    construct,
    keys_of,
    noise_from,
    spread_from,
    validated,
)
from fedbandits.errors import InputError, check_not_negative, nearest
from fedbandits.experiments.experiment import Experiment
from fedbandits.plugins import Plugin, load_tables, plugins_in_use, plugins_of
from fedbandits.privacy.policy import Privacy, Quantize
from fedbandits.problems import (
    LAWS,
    PROBLEMS,
    Approximate,
    Channel,
    CognitiveRadio,
    Empirical,
    Exact,
    Problem,
    Transmitter,
)
from fedbandits.problems.cognitive_radio import Listener
from fedbandits.problems.problem import as_goal
from fedbandits.rules.algorithms import ALGORITHMS
from fedbandits.rules.radii import RADII, PaperRadius, check_option
from fedbandits.simulation.simulator import MOST_GRID_POINTS, Assume, Told, Variant, as_told

READERS[Told | None] = lambda value: as_told(value, "")

LawT = TypeVar("LawT")


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


class _Variant(StrictTable):
    """The keys that every variant may have; the others are its algorithm's."""

    model_config = ConfigDict(extra="allow")

    label: str | None = None
    algorithm: str
    problem: str | None = None
    communication_cost: float | None = None
    assume: dict[str, Any] = Field(default_factory=dict)
    fidelity: str | None = None
    max_clients: int | None = None
    max_phases: int | None = None
    privacy: dict[str, Any] | None = None


class _ProblemTable(StrictTable):
    """The keys of a problem whose table is not its fields."""

    inner: ClassVar[tuple[str, ...]] = ()

    model: str


class _ApproximateTable(_ProblemTable):
    inner: ClassVar[tuple[str, ...]] = ("spread.offset",)

    means: list[float]
    noise: dict[str, Any]
    spread: dict[str, Any]
    goal: str = "max"
    population: Annotated[int, Field(ge=1, le=10**15)] | None = None


class _ExactTable(_ProblemTable):
    local_means: list[list[float]] | None = None
    observations: list[list[list[float]]] | None = None
    noise: dict[str, Any]
    client_weights: list[float] | None = None
    goal: str = "max"


class _CognitiveRadioTable(_ProblemTable):
    inner: ClassVar[tuple[str, ...]] = ("city.channels", "city.seed")

    area: list[float] | None = None
    channels: list[list[dict[str, Any]]] | None = None
    city: dict[str, int] | None = None
    base_station: list[float] | None = None
    listener: Listener = "users"
    population: int | None = None


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
    with plugins_in_use(plugins):
        return _experiment(validated(_File, tables, ""), plugins)


def _experiment(file: _File, plugins: tuple[Plugin, ...]) -> Experiment:
    check_not_negative(file.communication_cost, "communication_cost")
    problems = _problems(file)
    variants = []
    for number, table in enumerate(file.variants):
        try:
            variants.append(_variant(table, problems, file.communication_cost))
        except InputError as error:
            raise error.within(f"variants[{number}]") from None
    return Experiment(
        title=file.title,
        variants=variants,
        horizon=file.horizon,
        replications=file.replications,
        seed=file.seed,
        grid_points=file.grid_points,
        plugins=plugins,
    )


def _problems(file: _File) -> dict[str, Problem]:
    """Return the problems by name; a single one is called "problem"."""
    if (file.problem is None) == (file.problems is None):
        raise InputError(
            "problem", "give either one [problem] or several [problems.NAME], and not both"
        )
    if file.problem is not None:
        return {"problem": _problem(file.problem, "problem", "problem")}
    tables = file.problems or {}
    return {name: _problem(table, name, f"problems.{name}") for name, table in tables.items()}


def _variant(table: Mapping[str, Any], problems: dict[str, Problem], cost: float) -> Variant:
    common = validated(_Variant, table, "")
    algorithm = ALGORITHMS.named(common.algorithm, "algorithm")
    own = {key: value for key, value in table.items() if key not in _Variant.model_fields}
    try:
        built = construct(algorithm, own, "")
    except InputError as error:
        if error.where in own and error.problem.startswith("is not a key here"):
            known = [*_Variant.model_fields, *keys_of(algorithm)]
            hint = nearest(error.where, known)
            raise InputError(
                error.where, f"is not a key of a {common.algorithm} variant; {hint}"
            ) from None
        raise
    _check_options(own)
    return Variant(
        label=common.algorithm if common.label is None else common.label,
        problem=_chosen(common.problem, problems),
        algorithm=built,
        communication_cost=cost if common.communication_cost is None else common.communication_cost,
        assume=construct(Assume, common.assume, "assume"),
        fidelity=common.fidelity,
        max_clients=common.max_clients,
        max_phases=common.max_phases,
        privacy=None if common.privacy is None else construct(Privacy, common.privacy, "privacy"),
    )


def _check_options(own: Mapping[str, Any]) -> None:
    """Refuse what a variant and its radius say differently.

    The algorithm refuses that too, but cannot tell a default that was written from one that was
    not.
    """
    radius = own.get("radius", {})
    for key in ("delta", "dependence"):
        if key in own and key in radius:
            check_option(key, own[key], radius[key])


def _chosen(name: str | None, problems: dict[str, Problem]) -> Problem:
    if name is None:
        if len(problems) != 1:
            raise InputError("problem", f"is missing; known: {', '.join(problems)}")
        return next(iter(problems.values()))
    if name not in problems:
        raise InputError("problem", f'"{name}" is not a problem; {nearest(name, problems)}')
    return problems[name]


def _problem(table: Mapping[str, Any], name: str, where: str) -> Problem:
    try:
        model = PROBLEMS.named(table.get("model"), "model")
        if model in _MODELS:
            return _MODELS[model][1](table, name)
        own = {key: value for key, value in table.items() if key != "model"}
        return construct(model, own | ({"name": name} if "name" in keys_of(model) else {}), "")
    except InputError as error:
        raise error.within(where) from None


def _approximate(table: Mapping[str, Any], name: str) -> Problem:
    checked = validated(_ApproximateTable, table, "")
    if checked.noise.get("law") == Empirical.law:
        raise InputError("noise.law", 'empirical noise needs given clients; use model = "exact"')
    spread = {key: value for key, value in checked.spread.items() if key != "offset"}
    offset = checked.spread.get("offset", 0.0)
    if isinstance(offset, bool) or not isinstance(offset, int | float):
        raise InputError("spread.offset", f"{offset!r} is not a number")
    return Approximate(
        means=checked.means,
        noise=_law(noise_from, checked.noise, "noise"),
        spread=_law(spread_from, spread, "spread"),
        offset=float(offset),
        population=checked.population,
        name=name,
        goal=as_goal(checked.goal),
    )


def _exact(table: Mapping[str, Any], name: str) -> Problem:
    try:
        return _given(validated(_ExactTable, table, ""), name)
    except InputError as error:
        if error.where.startswith("weights"):
            raise InputError(f"client_{error.where}", error.problem) from None
        raise


def _given(checked: _ExactTable, name: str) -> Problem:
    goal, weights = as_goal(checked.goal), checked.client_weights
    if checked.noise.get("law") == Empirical.law:
        if checked.local_means is not None:
            raise InputError("local_means", "empirical noise has the means of its observations")
        if checked.observations is None:
            raise InputError("observations", "is missing; empirical noise draws from them")
        if len(checked.noise) > 1:
            extra = next(key for key in checked.noise if key != "law")
            raise InputError(f"noise.{extra}", "is not a key of empirical noise")
        return Exact.from_observations(checked.observations, name=name, goal=goal, weights=weights)
    if checked.observations is not None:
        raise InputError("observations", 'only goes with noise = { law = "empirical" }')
    if checked.local_means is None:
        raise InputError("local_means", "is missing; give a row for every client")
    noise = _law(noise_from, checked.noise, "noise")
    return Exact(
        local_means=checked.local_means, noise=noise, name=name, goal=goal, weights=weights
    )


def _cognitive_radio(table: Mapping[str, Any], name: str) -> Problem:
    checked = validated(_CognitiveRadioTable, table, "")
    if (checked.channels is None) == (checked.city is None):
        raise InputError("channels", "give either channels or a city, and not both")
    if checked.city is not None:
        return _city(checked, name)
    if checked.area is None:
        raise InputError("area", "is missing; give its width and height in km")
    channels = [
        Channel(
            [
                construct(Transmitter, _with_place(mast), f"channels[{k}][{j}]")
                for j, mast in enumerate(channel)
            ]
        )
        for k, channel in enumerate(checked.channels or ())
    ]
    return CognitiveRadio(
        area=_pair(checked.area, "area"),
        channels=channels,
        population=checked.population,
        base_station=None
        if checked.base_station is None
        else _pair(checked.base_station, "base_station"),
        listener=checked.listener,
        name=name,
    )


def _city(checked: _CognitiveRadioTable, name: str) -> Problem:
    """Return a made-up city: ``city = { channels = 10, seed = 2021 }``."""
    city = checked.city or {}
    for key in city:
        if key not in ("channels", "seed"):
            raise InputError(
                f"city.{key}", f"is not a key here; {nearest(key, ('channels', 'seed'))}"
            )
    for key in ("area", "base_station"):
        if getattr(checked, key) is not None:
            raise InputError(key, "a city brings its own; leave it out, or give channels")
    for key, least in (("channels", 2), ("seed", 0)):
        if city.get(key, least) < least:
            raise InputError(f"city.{key}", f"{city[key]} is below {least}")
    made = CognitiveRadio.example(city.get("channels", 10), city.get("seed", 2021))
    return CognitiveRadio(
        area=made.area,
        channels=made.channels,
        population=checked.population,
        base_station=made.base_station,
        listener=checked.listener,
        name=name,
    )


def _with_place(mast: Mapping[str, Any]) -> dict[str, Any]:
    """Return a transmitter's table with its place as a tuple: TOML has only lists."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in mast.items()}


def _pair(values: list[float], where: str) -> tuple[float, float]:
    if len(values) != 2:
        raise InputError(where, f"{values} is not a pair of numbers, in km")
    return values[0], values[1]


_MODELS: dict[type, tuple[type[_ProblemTable], Callable[[Mapping[str, Any], str], Problem]]] = {
    Approximate: (_ApproximateTable, _approximate),
    Exact: (_ExactTable, _exact),
    CognitiveRadio: (_CognitiveRadioTable, _cognitive_radio),
}


def _law(read: Callable[[object], LawT], table: Mapping[str, Any], where: str) -> LawT:
    try:
        return read(table)
    except InputError as error:
        raise error.within(where) from None


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
    with plugins_in_use(plugins_of(tables)):
        return _keys_of_file(tables)


def _keys_of_file(tables: Mapping[str, Any]) -> list[str]:
    beside = ("title", "grid_points", "problem", "problems", "variants", "sweep", "plugins")
    found = [key for key in _File.model_fields if key not in beside]
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
    found = {f"problems.{name}": table for name, table in (tables.get("problems") or {}).items()}
    return found if tables.get("problem") is None else {"problem": tables["problem"]}


def _keys_of_problem(table: Mapping[str, Any]) -> list[str]:
    model = PROBLEMS.get(str(table.get("model")))
    if model is None:
        return []
    own = _MODELS[model][0] if model in _MODELS else None
    keys = keys_of(model) if own is None else list(own.model_fields)
    found = [key for key in keys if key not in ("model", "name")]
    for key in ("noise", "spread"):
        if key in found:
            law = LAWS.get(str(table.get(key, {}).get("law")))
            found += [f"{key}.law", *(f"{key}.{one}" for one in (keys_of(law) if law else ()))]
    return found + list(() if own is None else own.inner)


def _keys_of_variant(table: Mapping[str, Any]) -> list[str]:
    algorithm = keys_of(ALGORITHMS.named(str(table.get("algorithm")), "algorithm"))
    found = [key for key in _Variant.model_fields if key != "label"] + algorithm
    parts: dict[str, list[str]] = {
        "assume": keys_of(Assume),
        "privacy": [*keys_of(Privacy), *(f"quantize.{key}" for key in keys_of(Quantize))],
    }
    if "radius" in algorithm:
        rule = RADII.get(str(table.get("radius", {}).get("rule", PaperRadius.rule)), PaperRadius)
        parts["radius"] = ["rule", *keys_of(rule)]
    return found + [f"{part}.{key}" for part, keys in parts.items() for key in keys]
