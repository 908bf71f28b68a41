"""Values in files: frozen dataclasses and what they hold, as JSON beside arrays, without any code.

A file is an archive of NumPy's: a text, and one array per type of number, in which all arrays of
the value lie one after the other. Whoever reads it makes values of classes of this package, and of
parts that are registered already; it names no other, and nothing in it is run.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from fedbandits.errors import InputError, file_errors
from fedbandits.registry import registered_at

_FORMAT = 1
_TEXT = "value"
_PACKAGE = __name__.partition(".")[0]


def write_value(value: Any, path: Path) -> Path:
    """Write a value to a file, whole or not at all; return the path.

    Parameters
    ----------
    value : dataclass
        With fields that are numbers, texts, arrays, enums, dataclasses, or collections of these.
    path : Path
        The file, which is replaced.
    """
    writer = _Writer()
    plain = writer.plain(value, type(value).__name__)
    text = {"format": _FORMAT, _PACKAGE: version(_PACKAGE), _TEXT: plain}
    arrays = {kind: np.concatenate(parts) for kind, parts in writer.arrays.items()}
    with file_errors(str(path), "cannot be written", "; name another one"):
        handle, begun = tempfile.mkstemp(prefix=".saved-", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez_compressed(
                    file, allow_pickle=False, **{_TEXT: np.array(json.dumps(text))}, **arrays
                )
            Path(begun).replace(path)
        except BaseException:
            Path(begun).unlink(missing_ok=True)
            raise
    return path


def read_value(path: Path) -> Any:
    """Return the value of a file that `write_value` has written."""
    try:
        with (
            file_errors(str(path), "cannot be read", "; give the path that was saved to"),
            path.open("rb") as file,
            np.load(file, allow_pickle=False) as content,
        ):
            arrays = dict(content)
        text = json.loads(str(arrays.pop(_TEXT)))
        _check_format(path, text)
        return _Reader(path, arrays).value(text[_TEXT])
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, EOFError, zipfile.BadZipFile):
        raise InputError(
            str(path), "is not a file that save() has written, or is damaged; give another one"
        ) from None


def _check_format(path: Path, text: dict[str, Any]) -> None:
    if text["format"] != _FORMAT:
        raise InputError(
            str(path),
            f"has format {text['format']}, and this version reads {_FORMAT}; read it with"
            f" {_PACKAGE} {text[_PACKAGE]}, which wrote it",
        )


class _Writer:
    """A value as plain JSON, and its arrays by their types.

    A dataclass that occurs twice is written once: problems that variants share stay the same one.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, list[np.ndarray]] = {}
        self.lengths: dict[str, int] = {}
        # Values are kept with their numbers: the id of one that is gone may be given to another.
        self.numbers: dict[int, tuple[int, object]] = {}

    def plain(self, value: Any, where: str) -> Any:
        if isinstance(value, Enum):
            return {"enum": _name_of(type(value), where), "name": value.name}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        found: Any
        match value:
            case np.ndarray():
                found = self._array(value, where)
            case np.generic():
                found = value.item()
            case Path():
                found = {"path": str(value)}
            case list():
                found = self._each(value, where)
            case tuple():
                found = {"tuple": self._each(value, where)}
            case frozenset():
                found = {"set": self._each(value, where)}
            case dict():
                pairs = [self._each(pair, f"{where}[{pair[0]!r}]") for pair in value.items()]
                found = {"dict": pairs}
            case _:
                found = self._dataclass(value, where)
        return found

    def _each(self, values: Iterable[Any], where: str) -> list[Any]:
        return [self.plain(one, f"{where}[{number}]") for number, one in enumerate(values)]

    def _dataclass(self, value: Any, where: str) -> dict[str, Any]:
        if not is_dataclass(value):
            raise InputError(
                where, f"a {type(value).__qualname__} cannot be saved; make it a dataclass"
            )
        if id(value) in self.numbers:
            return {"same": self.numbers[id(value)][0]}
        # Numbered when it is complete, as a reader numbers it.
        own = {
            field.name: self.plain(getattr(value, field.name), f"{where}.{field.name}")
            for field in fields(value)
            if field.init
        }
        self.numbers[id(value)] = len(self.numbers), value
        return {"class": _name_of(type(value), where), "fields": own}

    def _array(self, array: np.ndarray, where: str) -> dict[str, Any]:
        if array.dtype.hasobject:
            raise InputError(where, "an array of objects cannot be saved; make it one of numbers")
        kind = array.dtype.str
        begin = self.lengths.get(kind, 0)
        self.arrays.setdefault(kind, []).append(array.ravel())
        self.lengths[kind] = begin + array.size
        return {"array": kind, "begin": begin, "shape": array.shape}


class _Reader:
    def __init__(self, path: Path, arrays: dict[str, np.ndarray]) -> None:
        self.path, self.arrays = path, arrays
        self.known: list[Any] = []

    def value(self, plain: Any) -> Any:
        found = plain
        match plain:
            case list():
                found = [self.value(one) for one in plain]
            case {"tuple": parts}:
                found = tuple(self.value(one) for one in parts)
            case {"set": parts}:
                found = frozenset(self.value(one) for one in parts)
            case {"dict": pairs}:
                found = {self.value(key): self.value(one) for key, one in pairs}
            case {"path": text}:
                found = Path(text)
            case {"array": kind, "begin": begin, "shape": shape}:
                size = int(np.prod(shape, dtype=np.int64))
                found = self.arrays[kind][begin : begin + size].reshape(shape)
            case {"same": number}:
                found = self.known[number]
            case {"enum": name, "name": member}:
                found = self._class(name)[member]
            case {"class": name, "fields": own}:
                found = self._made(name, {key: self.value(one) for key, one in own.items()})
                self.known.append(found)
        return found

    def _made(self, name: str, own: dict[str, Any]) -> Any:
        try:
            return self._class(name)(**own)
        except TypeError as error:
            raise InputError(
                str(self.path), f"was written by another version of {name} ({error}); run it again"
            ) from None

    def _class(self, name: str) -> Any:
        """Return a class by its name: of this package, or of a part that is registered already."""
        module, _, qualified = name.partition(":")
        own = module.partition(".")[0] == _PACKAGE
        try:
            found: Any = import_module(module) if own else sys.modules.get(module)
        except ImportError:
            found = None
        for part in qualified.split("."):
            found = getattr(found, part, None)
        if not isinstance(found, type) or not (is_dataclass(found) or issubclass(found, Enum)):
            found = None
        if found is None or not (own or registered_at(found) is not None):
            raise InputError(
                str(self.path),
                f"needs {qualified} of {module}, which is not loaded; import or load what registers"
                " it, then read the file again",
            )
        return found


def _name_of(kind: type, where: str) -> str:
    """Return where a class is found again, or say that it cannot be."""
    if "<" in kind.__qualname__ or kind.__module__ == "__main__":
        raise InputError(
            where,
            f"{kind.__qualname__} cannot be found again by whoever reads the file; move the class"
            " to the top of a module of its own",
        )
    return f"{kind.__module__}:{kind.__qualname__}"
