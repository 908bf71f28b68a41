"""Plugin files: your own Python files that register parts, listed by an experiment file.

Once a file that lists a plugin is read, the plugin is a path and its source: results, logs and the
tasks of other processes carry both, so that all of them refer to the code that was run, even if the
file has moved or changed.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import tomllib
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from fedbandits.errors import FedbanditsError, InputError
from fedbandits.registry import Parts, collected_parts, parts_in_use

KEY = "plugins"
"""The key of a file that lists them."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin file, as it was when it was read.

    Parameters
    ----------
    path : str
        Where it was.
    source : str
        What it said.
    """

    path: str
    source: str

    @classmethod
    def read(cls, path: Path, where: str) -> Plugin:
        """Return a plugin file, or say at its key why it cannot be read."""
        return cls(str(path.absolute()), _text_of(path, where, f"{path} "))

    @property
    def module(self) -> str:
        """The name of its module, which is the same in all processes.

        Examples
        --------
        >>> Plugin("/home/me/my-rules.py", "pass").module
        'plugin_my_rules_d8e0955569e7'
        """
        stem = re.sub(r"\W", "_", Path(self.path).stem)
        digest = sha256("\n".join((self.path, self.source)).encode()).hexdigest()
        return f"plugin_{stem}_{digest[:12]}"

    def parts(self) -> Parts:
        """Return what it registers; its code runs once in a process."""
        with _loading:
            if self not in _loaded:
                _loaded[self] = self._run()
            return _loaded[self]

    def _run(self) -> Parts:
        module = ModuleType(self.module)
        module.__file__ = self.path
        # Types of fields are looked up here, and so are classes that come from another process.
        sys.modules[self.module] = module
        before = set(sys.modules)
        try:
            with collected_parts(self.module) as (_, parts):
                exec(compile(self.source, self.path, "exec"), vars(module))
        except (Exception, SystemExit) as error:
            del sys.modules[self.module]
            raise self._fault(error) from error
        _brought[self.module] = frozenset(sys.modules) - before
        if not parts:
            raise InputError(
                self.path,
                "registers nothing; write e.g. @fedbandits.RADII.register above a class of it",
            )
        return parts

    def _fault(self, error: BaseException) -> InputError:
        """Return what is wrong with the file, with the line."""
        if isinstance(error, SyntaxError) and error.filename == self.path:
            return InputError(f"{self.path}, line {error.lineno}", f"is not Python: {error.msg}")
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == self.path]
        own = isinstance(error, FedbanditsError)
        told = str(error) if own else f"{type(error).__name__}: {error}"
        return InputError(
            f"{self.path}, line {lines[-1]}" if lines else self.path,
            f"fails when it is read: {told}",
        )


_loaded: dict[Plugin, Parts] = {}
_brought: dict[str, frozenset[str]] = {}
_loading = threading.RLock()


def loaded_plugins() -> dict[str, Plugin]:
    """Return the plugins that have run in this process, by the names of their modules."""
    return {plugin.module: plugin for plugin in list(_loaded)}


def brought_by(module: str) -> frozenset[str]:
    """Return the modules that were imported while that of a plugin ran, however it did that."""
    return _brought.get(module, frozenset())


def load_tables(path: str | Path, *, plugins: Iterable[str | Path] = ()) -> dict[str, Any]:
    """Return the tables of a TOML file, or of a summary.json, with the sources of its plugins.

    Parameters
    ----------
    path : path
        Of the file.
    plugins : iterable of paths
        Plugin files besides those that the file lists.
    """
    path = Path(path)
    text = _text_of(path, str(path))
    kind = "JSON" if path.suffix == ".json" else "TOML"
    try:
        tables = json.loads(text) if kind == "JSON" else {"spec": tomllib.loads(text)}
    except ValueError as error:  # also for a whole number of thousands of digits
        raise InputError(str(path), f"is not {kind}: {error}") from None
    match tables:
        case {"spec": dict(spec)}:
            return with_sources(spec, path.parent, map(Path, plugins))
    raise InputError(str(path), 'has no "spec", as the summary.json of a run or a sweep has')


def _text_of(path: Path, where: str, named: str = "") -> str:
    """Return the text of a file; an error names the key, and the file if the key does not."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(where, f"{named}cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(where, f"{named}is not UTF-8 text: {error.reason}") from None


def with_sources(
    tables: Mapping[str, Any], folder: Path, plugins: Iterable[Path] = ()
) -> dict[str, Any]:
    """Return the tables of a file whose plugins are tables of path and source.

    Parameters
    ----------
    tables, folder
        Of the file; its paths are relative to the folder.
    plugins : iterable of Path
        More of them, from the command line.
    """
    found = [*plugins_of(tables, folder), *(Plugin.read(path, "--plugin") for path in plugins)]
    if not found:
        return dict(tables)
    return {**tables, KEY: [asdict(plugin) for plugin in dict.fromkeys(found)]}


def plugins_of(tables: Mapping[str, Any], folder: Path = Path()) -> tuple[Plugin, ...]:
    """Return the plugins that a file lists: paths, or tables of path and source."""
    listed = tables.get(KEY, [])
    if not isinstance(listed, list):
        raise InputError(KEY, f'{listed!r} is not a list of files such as ["my_rules.py"]')
    found: list[Plugin] = []
    for number, one in enumerate(listed):
        where = f"{KEY}[{number}]"
        match one:
            case str():
                found.append(Plugin.read(folder / one, where))
            case {"path": str(path), "source": str(source), **others} if not others:
                found.append(Plugin(path, source))
            case _:
                raise InputError(where, f'{one!r} is not the path of a file such as "my_rules.py"')
    return tuple(found)


@contextmanager
def plugins_in_use(plugins: Iterable[Plugin]) -> Iterator[None]:
    """Let the registries know the parts of plugins within a block."""
    known: Parts = {}
    for plugin in plugins:
        for key, part in plugin.parts().items():
            if known.setdefault(key, part) is not part:
                other = sys.modules[known[key].__module__].__file__
                raise InputError(
                    plugin.path, f'registers "{key[1]}", and so does {other}; rename one of them'
                )
    with parts_in_use(known):
        yield


def check_unchanged(tables: Mapping[str, Any], where: str) -> None:
    """Refuse tables whose plugins differ from the files on disk; code in tables does not run.

    Parameters
    ----------
    tables : mapping
        With sources.
    where : str
        What the tables are from.
    """
    for plugin in plugins_of(tables):
        if Plugin.read(Path(plugin.path), where) != plugin:
            raise InputError(
                where,
                f"{plugin.path} has changed since this was written; restore it, or read this with"
                " the file that it was written with",
            )


class RunPlugins:
    """All plugins that have run in this process; unpickled in another, they run there, too.

    Pickled before values of their classes, it makes these known before they are unpickled.
    """

    def __reduce__(self) -> tuple[Callable[[tuple[Plugin, ...]], RunPlugins], tuple[object]]:
        return _run_here, (tuple(_loaded),)


def _run_here(plugins: tuple[Plugin, ...]) -> RunPlugins:
    for plugin in plugins:
        plugin.parts()
    return RunPlugins()
