"""The section on theory: what the theorems promise, in words and tables."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from fedbandits.reproduce.computed import Computed
from fedbandits.reproduce.texts import Row, fill, section_text, table_html, texts
from fedbandits.reproduce.theory_tables import (
    HORIZON,
    Rows,
    bounds_table,
    theory_batches,
    theory_tables,
)


def theory_values(tables: Mapping[str, Rows]) -> dict[str, object]:
    """Return what the text of the section has in braces.

    Parameters
    ----------
    tables : mapping
        From `fedbandits.reproduce.theory_tables.theory_tables`, with its bounds.
    """
    played = {"horizon": HORIZON, "replications": tables["schedules"][0]["replications"]}
    schedules = {
        number: [row for row in tables["schedules"] if row["table"] == number] for number in (2, 3)
    }
    orders = [
        {**row, "said": texts("tables")["statements"][row["statement"]]} for row in tables["orders"]
    ]
    return {
        **played,
        "bounds": bounds_html(tables["bounds"]),
        "table_2": table_html("schedules", schedules[2]),
        "table_3": table_html("schedules", schedules[3]),
        "schedules_caption": fill(section_text("theory-schedules"), played),
        "clients": table_html("theorem-1", tables["clients"]),
        "orders": table_html("orders", orders),
    }


def bounds_html(rows: Rows) -> str:
    """Return every variant with its bound, or the reason why it has none."""
    if not rows:
        return (
            "<p>No figure was reproduced along with this page, so there is no variant to compare."
            " <code>fedbandits reproduce</code> makes all of them.</p>"
        )
    covered = [row["mean"] / row["bound"] for row in rows if row["bound"] is not None]
    groups: dict[str, list[Row]] = {}
    for row in rows:
        title = f"{escape(row['title'])} <small>{row['replications']:,} replications</small>"
        covers = row["bound"] is not None
        shown = {
            **row,
            "by": f"Theorem {row['theorem']}" if covers else None,
            "why": "" if covers else f"none: {row['reason']}",
            "part": row["mean"] / row["bound"] if covers else None,
        }
        groups.setdefault(title, []).append(shown)
    table = table_html("bounds", groups)
    values = {"variants": len(rows), "covered": len(covered), "table": table, "nearest": ""}
    if covered:
        values["nearest"] = fill(section_text("theory-nearest"), {"nearest": max(covered)})
    return fill(section_text("theory-bounds"), values)


PART = Computed(
    key="theory",
    heading="Theory: what the theorems promise for these games",
    cost=(3.0, 8.0),
    batches=theory_batches,
    table=theory_tables,
    beside=lambda made: {"bounds": bounds_table(made)},
    show=theory_values,
)
