"""A mapping that grows, and of which every earlier version stays as it was."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Journal(Generic[K, V]):
    """An append-only sequence of keys with values, as an immutable value.

    A state must not change when the next one is made from it, and a phase of 10,000 clients must
    not copy 10,000 updates for each of them. So all versions share one list, and each knows how
    long its own part is: nobody reads beyond it, and nothing within it is ever written again.
    Adding to the longest version appends in constant time; adding to a shorter one, from which
    somebody has gone on before, copies its part first.

    Examples
    --------
    >>> one = Journal[str, int]().added("a", 1)
    >>> two, other = one.added("b", 2), one.added("c", 3)
    >>> [list(journal) for journal in (one, two, other)]
    [[('a', 1)], [('a', 1), ('b', 2)], [('a', 1), ('c', 3)]]
    >>> "b" in two, "b" in one, two.added("b", 4).count("b")
    (True, False, 2)
    >>> two.get("b"), one.get("b"), two.added("b", 4).get("b"), two.get("b")
    (2, None, 4, 2)
    """

    __slots__ = ("_entries", "_length", "_places")

    def __init__(self) -> None:
        self._entries: list[tuple[K, V]] = []
        self._places: dict[K, list[int]] = {}
        self._length = 0

    def added(self, key: K, value: V) -> Journal[K, V]:
        """Return the journal with one more entry."""
        longer: Journal[K, V] = Journal()
        if len(self._entries) == self._length:
            longer._entries, longer._places = self._entries, self._places
        else:
            for old_key, old_value in self:
                longer._append(old_key, old_value)
        longer._append(key, value)
        longer._length = self._length + 1
        return longer

    def _append(self, key: K, value: V) -> None:
        self._places.setdefault(key, []).append(len(self._entries))
        self._entries.append((key, value))

    def count(self, key: K) -> int:
        """Return how many entries a key has."""
        return bisect_left(self._places.get(key, ()), self._length)

    def get(self, key: K) -> V | None:
        """Return the value of a key's last entry; None if there is none."""
        n = self.count(key)
        return self._entries[self._places[key][n - 1]][1] if n else None

    def __contains__(self, key: K) -> bool:
        return self.count(key) > 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[tuple[K, V]]:
        entries = self._entries
        return (entries[place] for place in range(self._length))
