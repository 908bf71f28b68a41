"""Keys of an experiment file by their paths: whether they exist, and files with other values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any, TypeAlias

from fedbandits.construct import ANY
from fedbandits.errors import InputError, Mistakes, nearest
from fedbandits.experiments.files import keys_of_file

Path: TypeAlias = tuple[str | int, ...]
"""Names of keys and places in lists, from the outside in."""

_PART = re.compile(r"([^.\[\]]+)((?:\[\d+\])*)")
# Names and pictures; the model of a problem decides which other keys it has.
_NOT_SWEPT = re.compile(
    r"title|grid_points|variants(\[\d+\])?\.label|problem\.model|problems\.[^.]+\.model"
)
_MOST_HINTS = 6


def check_keys(keys: Sequence[str], tables: Mapping[str, Any]) -> None:
    """Refuse keys that no table of the file has, and suggest the nearest that one has.

    A number in brackets after a key is a place in its list: ``problem.means[9]``.

    Parameters
    ----------
    keys : sequence of str
        What a sweep names.
    tables : mapping
        Of the file.
    """
    known = [key for key in keys_of_file(tables) if can_be_swept(key)]
    mistakes = Mistakes()
    for key in keys:
        with mistakes.gathered():
            _check_key(key, known)
    mistakes.tell()


def _check_key(key: str, known: Sequence[str]) -> None:
    path_of(key)
    anything = tuple(name.removesuffix(ANY) for name in known if name.endswith(ANY))
    plain = re.sub(r"(?<!^variants)\[\d+\]", "", key)
    if plain in known or plain.startswith(anything):
        return
    if not can_be_swept(plain):
        raise InputError(
            place_of(key),
            "cannot be swept: it names what is played or how it is shown; sweep what is played",
        )
    first = re.split(r"[.\[]", key)[0]
    named = [name for name in known if not name.endswith(ANY)]
    alike = [name for name in named if name.startswith(first)] or named
    # Of one variant's own keys only if one variant was meant.
    one = [name for name in alike if name.startswith("variants[") == ("[" in plain)]
    hint = nearest(plain, one or alike, most=_MOST_HINTS)
    raise InputError(place_of(key), f"is not a key of this file; {hint}")


def can_be_swept(key: str) -> bool:
    """Return whether a key, if the file has it, says what is played.

    Examples
    --------
    >>> can_be_swept("variants.pulls"), can_be_swept("variants[0].label")
    (True, False)
    """
    return _NOT_SWEPT.fullmatch(key) is None


def check_apart(paths: Mapping[str, Sequence[Path]]) -> None:
    """Refuse keys, given with their paths, of which one would undo what another sets."""
    for (other, theirs), (key, own) in combinations(paths.items(), 2):
        for known, path in product(theirs, own):
            shorter = min(len(path), len(known))
            if path[:shorter] == known[:shorter]:
                raise InputError(
                    place_of(key),
                    f'sets {written(path)}, and so does "{other}"; leave one of them out',
                )


def place_of(key: str) -> str:
    """Return the place of a key in the sweep, as it is written."""
    return f'sweep."{key}"'


def written(path: Path) -> str:
    """Return a path as keys are written.

    Examples
    --------
    >>> written(("variants", 1, "pulls"))
    'variants[1].pulls'
    """
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)[1:]


def path_of(key: str) -> Path:
    """Return the parts of a key.

    Examples
    --------
    >>> path_of("variants[1].radius.arm"), path_of("problem.means[9]")
    (('variants', 1, 'radius', 'arm'), ('problem', 'means', 9))
    """
    parts: list[str | int] = []
    for piece in key.split("."):
        found = _PART.fullmatch(piece)
        if found is None:
            raise InputError(
                place_of(key), 'is not a key such as "problem.spread.sigma" or "variants.pulls"'
            )
        parts.append(found[1])
        parts += [int(place) for place in re.findall(r"\d+", found[2])]
    return tuple(parts)


def with_value(tables: Any, path: Path, value: Any, *, above: Path = ()) -> Any:
    """Return tables with another value at a path; what is not on the path is shared.

    Examples
    --------
    >>> tables = {"problem": {"means": [0.4, 0.6]}, "seed": 1}
    >>> with_value(tables, ("problem", "means", 1), 0.9), tables
    ({'problem': {'means': [0.4, 0.9]}, 'seed': 1}, {'problem': {'means': [0.4, 0.6]}, 'seed': 1})
    """
    if not path:
        return value
    first, *rest = path
    if isinstance(first, int):
        if not isinstance(tables, list) or first >= len(tables):
            held = len(tables) if isinstance(tables, list) else 0
            raise InputError(
                place_of(written((*above, *path))),
                f"{written(above)} has no entry {first}; the list has {held} entries",
            )
        changed: Any = list(tables)
        below = tables[first]
    else:
        if not isinstance(tables, Mapping):
            raise InputError(
                place_of(written((*above, *path))), f"{written(above)} is no table with keys"
            )
        changed = dict(tables)
        below = tables.get(first, {})
    changed[first] = with_value(below, tuple(rest), value, above=(*above, first))
    return changed


def paths_of(key: str, tables: Mapping[str, Any]) -> list[Path]:
    """Return the paths that a key stands for: ``variants.pulls`` is of all variants with pulls."""
    path = path_of(key)
    if path[0] != "variants" or isinstance(path[1], int):
        return [path]
    own = "variants[{}]." + re.sub(r"\[\d+\]", "", key).removeprefix("variants.")
    known = set(keys_of_file(tables))
    return [
        ("variants", number, *path[1:])
        for number in range(len(tables.get("variants", ())))
        if own.format(number) in known
    ]


def reaches(path: Path, variant: int, problem: str) -> bool:
    """Return whether a variant has a path: as its own, as its problem's, or as the file's.

    Examples
    --------
    >>> path = ("variants", 1, "pulls")
    >>> reaches(path, 1, "city"), reaches(path, 0, "city"), reaches(("horizon",), 0, "city")
    (True, False, True)
    """
    its_own: dict[str | int, str | int] = {"variants": variant, "problems": problem}
    return path[0] not in its_own or path[1] == its_own[path[0]]


def is_choice(key: str) -> bool:
    """Return whether a key is one's own to choose; the others say what is played.

    Examples
    --------
    >>> is_choice("variants.pulls"), is_choice("problem.spread.sigma"), is_choice("horizon")
    (True, False, False)
    >>> is_choice("variants[0].communication_cost")
    False
    """
    path = path_of(key)
    return path[0] == "variants" and not {"problem", "communication_cost"} & set(path)


_IN_WORDS = {
    "problem.spread.sigma": "spread of clients σ_c",
    "problem.noise.sigma": "noise of an observation σ",
    "problem.population": "population N",
    "horizon": "horizon T",
    "communication_cost": "cost of communication C",
    "variants.communication_cost": "cost of communication C",
    "variants.pulls": "pulls f(p)",
    "variants.admissions": "new clients g(p)",
    "variants.clients": "clients M",
}


def in_words(key: str, short: str) -> str:
    """Return what an axis calls a key: with the word and the symbol that it has elsewhere, if any.

    Examples
    --------
    >>> in_words("variants.pulls", "pulls"), in_words("variants.max_phases", "max_phases")
    ('pulls f(p)', 'max_phases')
    >>> in_words("problem.spread.sigma", "spread.sigma")
    'spread of clients σ_c (spread.sigma)'
    """
    words = _IN_WORDS.get(key)
    if words is None:
        return short
    return words if words.startswith(f"{short} ") else f"{words} ({short})"


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """Return what labels and axes call keys: without the table they are in, if that is clear.

    Examples
    --------
    >>> short_names(["problem.spread.sigma", "variants[1].pulls", "variants[0].pulls", "horizon"])
    {'problem.spread.sigma': 'spread.sigma', 'variants[1].pulls': 'variants[1].pulls',
    'variants[0].pulls': 'variants[0].pulls', 'horizon': 'horizon'}
    """
    short = {key: key.partition(".")[2] or key for key in keys}
    names = list(short.values())
    return {key: name if names.count(name) == 1 else key for key, name in short.items()}
