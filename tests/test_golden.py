"""Outcomes are the same to the last bit as when their hashes were written; see tests/golden.py."""

from __future__ import annotations

import json

import pytest

from golden import FILE, settings

_HASHES: dict[str, str] = json.loads(FILE.read_text(encoding="utf-8"))
_PARTS = 24


@pytest.mark.parametrize("part", range(_PARTS))
def test_outcomes_are_what_they_were(part: int) -> None:
    known = settings()
    changed = [
        name for name in sorted(_HASHES)[part::_PARTS] if known[name].fingerprint() != _HASHES[name]
    ]
    assert not changed


def test_the_settings_cover_what_can_be_combined() -> None:
    index = [name for name in _HASHES if name.startswith(("fed-index", "certified commit"))]
    assert len(index) >= 60
    assert len(_HASHES) - len(index) >= 400
    # Settings that happen to end alike would hide a change; most must differ.
    assert len(set(_HASHES.values())) > 0.75 * len(_HASHES)
