"""What stands in the documentation: pages, blocks of code, tables."""

from __future__ import annotations

import re

from repository import DOCS


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def section(text: str, heading: str) -> str:
    """Return what stands under a heading, up to the next one."""
    (found,) = re.findall(rf"^#+ {heading}\n(.*?)(?=^#|\Z)", text, flags=re.MULTILINE | re.DOTALL)
    return str(found)


def rows(text: str) -> dict[str, list[str]]:
    """Return the rows of tables whose first cell is one word of code, by that word."""
    table = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| `")]
    return {first.strip(" `"): [cell.strip() for cell in rest] for first, *rest in table}


def words(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))
