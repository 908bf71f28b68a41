"""Tables to read: nothing of them is lost, however narrow the terminal is."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from fedbandits.report.shown import WIDTH, Shown

SUMMARY = Shown(
    name="Figure [4]",
    headings=[
        *("variant", "fidelity", "total regret", "exploration", "communication"),
        *("per client", "clients", "phases", "best arm found"),
    ],
    rows=[
        [
            *("Fed2-UCB, authors' constants", "cohorts", "13,873 ± 1,301", "10,219 ± 1,407"),
            *("1,132 ± 630", "23.2 ± 8.7", "574 ± 316", "8.00 ± 0.80", "95 %, 5 % undecided"),
        ],
        ["推荐系统", "slots", "3,731 ± 389", "3,731 ± 389", "0 ± 0", "3,731 ± 389", "1", "–", "–"],
    ],
    words=("fidelity", "best arm found"),
    note="± half of a 95 % interval",
)


def printed(shown: Shown, width: int) -> str:
    """Return what a terminal of a width shows."""
    buffer = io.StringIO()
    shown.print(Console(file=buffer, width=width, force_terminal=True, color_system=None))
    return buffer.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100, 120, 140, 200])
def test_a_terminal_shows_every_name_and_every_number(width: int) -> None:
    text = printed(SUMMARY, width)
    assert max(map(len, text.splitlines())) <= width
    assert text.startswith("Figure [4]\n")
    assert text.endswith(f"{SUMMARY.note}\n")
    # Only words are broken, between words.
    for line in SUMMARY.rows:
        for cell in line[2:8]:
            assert re.search(f" {re.escape(cell)} │", text), cell
    for word in " ".join([*SUMMARY.headings, *(row[0] for row in SUMMARY.rows)]).split():
        assert re.search(rf"[┃│ ] ?{re.escape(word)} ", text), word


def test_what_has_no_room_follows_with_the_first_column_again() -> None:
    assert printed(SUMMARY, 80).count("variant") == 3
    assert printed(SUMMARY, 200).count("variant") == 1


def test_a_pipe_has_lines_as_long_as_the_table_needs() -> None:
    (line,) = [line for line in SUMMARY.text().splitlines() if "Fed2-UCB" in line]
    assert len(line) > WIDTH
    assert "Fed2-UCB, authors' constants │ cohorts" in line
    assert line.endswith("│ 95 %, 5 % undecided │")


def test_words_of_a_page_begin_at_the_left_under_their_headings() -> None:
    html = SUMMARY.html()
    assert '<th scope="col" class="words">fidelity</th>' in html
    assert '<td class="words">cohorts</td><td>13,873 ± 1,301</td>' in html
    assert '<th scope="col">total regret</th>' in html
