"""Registries: the parts that experiment files name, those of this package and those of others.

A part is a class: an algorithm, a radius, a law, a problem. A table of an experiment file names it,
and the other keys of the table are its fields. Besides the built-in parts a registry finds

- what was registered in Python (``RADII.register``);
- what a plugin file has registered, while a file that lists the plugin is read;
- what an installed distribution declares as an entry point, loaded when it is first asked for.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import KW_ONLY, InitVar, dataclass, fields
from functools import cache
from importlib import metadata
from typing import Any, TypeAlias, TypeVar

from fedbandits.errors import InputError, nearest

PartT = TypeVar("PartT")
ValueT = TypeVar("ValueT")
ClassT = TypeVar("ClassT", bound=type[Any])

# Classes by the group of their registry and their own name.
Parts: TypeAlias = dict[tuple[str, str], type[Any]]

_registered: Parts = {}
_registered_at: dict[type, float] = {}
_in_use: ContextVar[Parts | None] = ContextVar("parts in use", default=None)
_collected: ContextVar[tuple[str, Parts]] = ContextVar("parts of a plugin", default=("", {}))


def registered_at(part: type) -> float | None:
    """Return when a class was registered, in seconds of `time.time`; None for a built-in one."""
    return _registered_at.get(part)


@contextmanager
def _set(variable: ContextVar[ValueT], value: ValueT) -> Iterator[ValueT]:
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


def parts_in_use(parts: Parts) -> AbstractContextManager[Parts | None]:
    """Let the registries know more parts within a block, and in this thread alone."""
    return _set(_in_use, {**(_in_use.get() or {}), **parts})


def collected_parts(module: str) -> AbstractContextManager[tuple[str, Parts]]:
    """Yield what classes of a module are registered within a block; registries forget them."""
    return _set(_collected, (module, {}))


def keys_in_files(part: Any) -> dict[str, str]:
    """Return the fields of a dataclass by name, each with its key in files.

    It is the field's name, unless the field says otherwise in its metadata: "spread.offset" is the
    key ``offset`` of the table ``spread``.
    """
    return {one.name: one.metadata.get("key", one.name) for one in fields(part) if one.init}


@dataclass(eq=False, repr=False)
class Registry(Mapping[str, type[PartT]]):
    """Parts of one kind by their names in experiment files.

    Parameters
    ----------
    what : str
        What a part is, with its article: "a radius".
    group : str
        The group of entry points: ``fedbandits.radii``.
    key : str
        The class attribute that holds the name of a part.
    roles : tuple of protocols
        What a part can be; it has all members of at least one of them, and none as abstract.
    parent : str, optional
        The class to inherit from, which has defaults; that of the roles by default.
    required : collection of str
        Members that a role has, but not for others to inherit.
    built_in : iterable of classes
        The parts of this package.

    Examples
    --------
    >>> from fedbandits.rules.radii import RADII
    >>> RADII["paper"]
    <class 'fedbandits.rules.radii.intervals.PaperRadius'>
    >>> RADII.named("papper", "radius.rule")
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: radius.rule: "papper" is not a radius; did you mean "paper"?
    (known: bernstein, certified, chernoff, joint, paired-t, pairwise, paper)
    """

    what: str
    _: KW_ONLY
    group: str
    key: str
    roles: tuple[type, ...]
    parent: str = ""
    required: Collection[str] = ()
    built_in: InitVar[Iterable[type[PartT]]]

    def __post_init__(self, built_in: Iterable[type[PartT]]) -> None:
        self._built_in = {self._checked(part): part for part in built_in}
        self._loaded: dict[str, type[PartT]] = {}
        package = self.roles[0].__module__.rpartition(".")[0]
        named = " or ".join(role.__name__ for role in self.roles)
        self.parent = self.parent or f"{named} of {package}"

    def register(self, part: ClassT) -> ClassT:
        """Add a class; also as a decorator, above that of the dataclass.

        In a plugin file it is added for the files that list the plugin, elsewhere for this process.

        Raises
        ------
        InputError
            If its name is taken, a member is missing, or it is not a frozen dataclass.

        Examples
        --------
        >>> from dataclasses import dataclass
        >>> from typing import ClassVar
        >>> from fedbandits.problems import LAWS, SpreadLaw
        >>> @LAWS.register
        ... @dataclass(frozen=True)
        ... class Fixed(SpreadLaw):
        ...     law: ClassVar[str] = "fixed"
        ...     def support(self, mean): return mean, mean
        ...     def proxy(self, means): return 0.0
        Traceback (most recent call last):
            ...
        fedbandits.errors.InputError: Fixed: does not define draw; write it as SpreadLaw describes,
        or inherit from NoiseLaw or SpreadLaw of fedbandits.problems, which has defaults for most
        """
        name = self._checked(part)
        key = self.group, name
        module, collected = _collected.get()
        home = collected if part.__module__ == module else _registered
        other: type | None = self._built_in.get(name) or _registered.get(key) or home.get(key)
        # A class that is defined once more, as in a notebook, replaces itself.
        if other is not None and _origin(other) != _origin(part):
            raise InputError(
                part.__qualname__,
                f'{self.key} is "{name}", which {_origin(other)} has already; choose another name',
            )
        home[key] = part
        _registered_at[part] = time.time()
        return part

    def named(
        self, name: object, where: str, *, role: type | None = None, what: str | None = None
    ) -> type[PartT]:
        """Return the class of a name, or say which names there are.

        Parameters
        ----------
        name : object
            What a file says.
        where : str
            The key that says it.
        role : protocol, optional
            What the part must be, in a registry of several roles.
        what : str, optional
            What errors call such a part.
        """
        if isinstance(name, str) and name in self:
            found = self[name]
            if role is None or not self._missing(found, role):
                return found
        hint = nearest(str(name or ""), self._names(role))
        if name is None:
            raise InputError(where, f"is missing; {hint}")
        shown = f'"{name}"' if isinstance(name, str) else repr(name)
        raise InputError(where, f"{shown} is not {what or self.what}; {hint}")

    def __getitem__(self, name: str) -> type[PartT]:
        found = self._here().get(name)
        return self._entered(name) if found is None else found

    def __contains__(self, name: object) -> bool:
        return name in self._here() or any(point.name == name for point in self._entry_points())

    def __iter__(self) -> Iterator[str]:
        return iter(self._names(None))

    def __len__(self) -> int:
        return len(self._names(None))

    def _here(self) -> dict[str, type[PartT]]:
        """Return what is known without looking at entry points."""
        others = {**_registered, **(_in_use.get() or {})}
        own = {name: part for (group, name), part in others.items() if group == self.group}
        return {**self._loaded, **own, **self._built_in}

    def _names(self, role: type | None) -> list[str]:
        """Return all names; those of entry points that nobody has asked for are not loaded."""
        here = self._here()
        names = [n for n, part in here.items() if role is None or not self._missing(part, role)]
        return names + sorted({point.name for point in self._entry_points()} - here.keys())

    def _entry_points(self) -> metadata.EntryPoints:
        return metadata.entry_points(group=self.group)

    def _entered(self, name: str) -> type[PartT]:
        """Load the entry point of a name."""
        points = [point for point in self._entry_points() if point.name == name]
        if not points:
            raise KeyError(name)
        said = " and ".join(f"{_distribution(point)} ({point.value})" for point in points)
        where = f'entry point "{name}" of {self.group}, declared by {said}'
        if len(points) > 1:
            raise InputError(where, "only one of them can have this name; uninstall the other")
        try:
            part: Any = points[0].load()
            found = self._checked(part)
        except Exception as error:
            own = isinstance(error, InputError)
            problem = str(error) if own else f"{type(error).__name__}: {error}"
            raise InputError(where, f"cannot be loaded: {problem}") from error
        if found != name:
            raise InputError(where, f'is {self.key} "{found}"; both must have the same name')
        self._loaded[name] = part
        _registered_at[part] = time.time()
        return self._loaded[name]

    def _checked(self, part: Any) -> str:
        """Return the name of a class that can be a part; say what it lacks otherwise."""
        if not isinstance(part, type):
            raise InputError(repr(part), f"is not a class; {self.what} is one")
        where = part.__qualname__
        how: Any = getattr(part, "__dataclass_params__", None)
        if how is None or not how.frozen:
            raise InputError(
                where,
                "is not a frozen dataclass, whose fields are the keys of a table; write"
                " @dataclass(frozen=True) above it",
            )
        name = getattr(part, self.key, None)
        if not isinstance(name, str) or not name:
            raise InputError(where, f'has no name; write {self.key}: ClassVar[str] = "my-own"')
        missing, role = min(
            ((self._missing(part, role), role) for role in self.roles),
            key=lambda found: len(found[0]),
        )
        if missing:
            raise InputError(
                where,
                f"does not define {', '.join(missing)}; write it as {role.__name__} describes, or"
                f" inherit from {self.parent}, which has defaults for most",
            )
        return name

    def _missing(self, part: Any, role: type) -> tuple[str, ...]:
        """Return the public members of a role that a class neither defines nor may inherit."""
        return _missing(part, role, frozenset(self.required))


@cache  # a sweep asks for the same few classes thousands of times
def _missing(part: Any, role: type, required: frozenset[str]) -> tuple[str, ...]:
    def lacks(name: str) -> bool:
        found = [vars(base)[name] for base in part.__mro__ if name in vars(base)]
        if not found or getattr(found[0], "__isabstractmethod__", False):
            return True
        return name in required and found[0] is vars(role).get(name)

    kept = {field.name for field in fields(part)}
    members = [name for name in dir(role) if not name.startswith("_") and name not in kept]
    return tuple(name for name in members if lacks(name))


def _origin(part: type) -> str:
    return f"{part.__module__}.{part.__qualname__}"


def _distribution(point: metadata.EntryPoint) -> str:
    return "an unknown distribution" if point.dist is None else point.dist.name
