"""What results were made from, as a hash: inputs, versions, and sources, also those of others."""

from __future__ import annotations

import ast
import hashlib
import json
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.util import find_spec, resolve_name
from pathlib import Path

from fedbandits.errors import InputError
from fedbandits.experiments.describe import versions
from fedbandits.plugins import brought_by, loaded_plugins
from fedbandits.registry import registered_at

_SOURCES = {".py", ".toml", ".csv", ".css", ".js", ".mplstyle"}


def hashed(inputs: object) -> str:
    """Return the hash of what something was made from; versions and sources belong to it."""
    text = json.dumps([inputs, versions(), _own_sources()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _own_sources() -> str:
    return sources(Path(__file__).parents[1])


def sources(package: Path) -> str:
    """Return the hash of what a package computes with: all its sources but the commands.

    Parameters
    ----------
    package : Path
        Its folder.
    """
    found = hashlib.sha256()
    for file in sorted(package.rglob("*")):
        name = file.relative_to(package)
        if file.suffix in _SOURCES and name.parts[0] != "cli":
            found.update(json.dumps([name.as_posix(), file.stat().st_size]).encode())
            found.update(file.read_bytes())
    return found.hexdigest()


def code_of(value: object) -> list[str]:
    """Return hashes of the code of others that a value's classes run.

    It is the modules of those of its parts that are not of this package, and what these import,
    apart from installed packages that are not their own.

    Parameters
    ----------
    value : dataclass
        With fields that are parts, which have fields themselves.

    Raises
    ------
    InputError
        If a class has no source, or its source has changed since it was registered: results of it
        could not be told from those of what it becomes.

    Examples
    --------
    >>> from fedbandits import Fed2Ucb
    >>> code_of(Fed2Ucb(pulls=10, admissions=2))
    []
    """
    found = {one for part in set(_classes_in(value)) for one in _code_of_class(part)}
    return sorted(found)


def _classes_in(value: object) -> Iterator[type]:
    yield type(value)
    inner: Iterable[object] = value if isinstance(value, list | tuple) else ()
    if is_dataclass(value) and not isinstance(value, type):
        inner = [getattr(value, field.name) for field in fields(value)]
    for one in inner:
        if type(one) is not float:  # many, and no code of others
            yield from _classes_in(one)


@cache  # what was hashed once is what runs, whatever becomes of the file
def _code_of_class(part: type) -> frozenset[str]:
    first = part.__module__
    is_part = registered_at(part) is not None
    if _is_versioned(first) or not (is_part or _is_uninstalled(first)):
        return frozenset()
    found: dict[str, str] = {}
    left = [first]
    while left:
        name = left.pop()
        source = _source_of(name, part)
        found[name] = hashlib.sha256(source).hexdigest()
        left += [
            other
            for other in dict.fromkeys((*_imports(source, name), *brought_by(name)))
            if other not in found and _belongs(other, name)
        ]
    return frozenset(found.values())


def _is_versioned(module: str) -> bool:
    """Return whether the version of a module's package is in every hash anyway."""
    first = module.partition(".")[0]
    return first in sys.stdlib_module_names or first in versions()


def _is_uninstalled(module: str) -> bool:
    """Return whether a module is a file of one's own, and not part of an installed package."""
    file = _file_of(module)
    installed = [sysconfig.get_path(name) for name in ("purelib", "platlib")]
    return file is None or not any(file.is_relative_to(path) for path in installed)


def _file_of(module: str) -> Path | None:
    """Return the file of a module, which need not be imported yet; None if there is none."""
    if module in sys.modules:
        file = getattr(sys.modules[module], "__file__", None)
    else:
        try:
            spec = find_spec(module)
        except (ImportError, ValueError):  # a name in a module, say
            return None
        file = None if spec is None else spec.origin
    return None if file is None else Path(file)


def _belongs(imported: str, module: str) -> bool:
    """Return whether an imported module is part of the code that imports it."""
    if _is_versioned(imported) or _file_of(imported) is None:
        return False
    same_package = imported.partition(".")[0] == module.partition(".")[0]
    return same_package or _is_uninstalled(imported)


def _source_of(module: str, part: type) -> bytes:
    """Return what a module says, as it was when the class was registered."""
    plugin = loaded_plugins().get(module)
    if plugin is not None:
        return plugin.source.encode()
    file = _file_of(module)
    if file is None or not file.is_file():
        raise InputError(
            part.__qualname__,
            f"{module} has no source file, and results of code that nobody can compare are not"
            " kept; move the class into a file, and list the file in plugins",
        )
    since = registered_at(part)
    if since is not None and file.stat().st_mtime > since:
        raise InputError(
            part.__qualname__, f"{file} has changed since it was imported; restart Python"
        )
    return file.read_bytes()


def _imports(source: bytes, module: str) -> Iterator[str]:
    """Yield what a source imports, anywhere in it: modules, and names that may be modules.

    A function that imports what is written as its argument counts as well.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return  # a compiled module
    package = getattr(sys.modules.get(module), "__package__", None) or ""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=base, names=names, level=level):
                first = resolve_name("." * level + (base or ""), package) if level else base or ""
                yield first
                yield from (f"{first}.{alias.name}" for alias in names)
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module")
                | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield resolve_name(name, package) if package else name
