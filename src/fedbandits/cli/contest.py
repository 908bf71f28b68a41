"""``fedbandits contest``: every algorithm on every game, with the same parameters."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from fedbandits.cli.interrupt import interruptible
from fedbandits.cli.options import Workers, print_table


def contest(
    games: Annotated[
        list[str] | None,
        typer.Argument(
            help='Parts of names of games, such as "figure 4", in any case; all by default.',
            metavar="GAME...",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write tables, profile and report.html here.")
    ] = None,
    replications: Annotated[
        int, typer.Option("--replications", "-n", min=2, help="Of each game, by every algorithm.")
    ] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Of all draws.")] = 8,
    workers: Workers = None,
) -> None:
    """Rank all algorithms on the games of the package, none of them tuned to any."""
    from rich.console import Console  # noqa: PLC0415 - after --help

    from fedbandits.contest.play import chosen_games, play_contest  # noqa: PLC0415 - likewise
    from fedbandits.contest.summary import contest_summary  # noqa: PLC0415 - likewise
    from fedbandits.experiments.output import open_output  # noqa: PLC0415 - likewise

    chosen = chosen_games(games or [])
    progress = Console(stderr=True)
    begin = time.monotonic()

    def show(name: str, done: int, of: int) -> None:
        line = f"{done} of {of}: {name} ({time.monotonic() - begin:.0f} s)"
        progress.print(line, markup=False, highlight=False, soft_wrap=True)

    with (
        interruptible("nothing was written"),
        nullcontext() if out is None else open_output(out) as folder,
    ):
        found = play_contest(
            chosen, replications=replications, seed=seed, workers=workers, progress=show
        )
        if folder is not None:
            from fedbandits.contest.page import write_contest  # noqa: PLC0415 - heavy

            write_contest(found, folder)
    _print_standings(contest_summary(found))
    if out is not None:
        typer.echo(f"report: {out / 'report.html'}")


def _print_standings(summary: Mapping[str, Any]) -> None:
    from rich.table import Table  # noqa: PLC0415 - after --help

    from fedbandits.contest.words import (  # noqa: PLC0415 - likewise
        HOW_TO_READ,
        played_with,
        shown_standings,
    )

    shown = shown_standings(summary)
    table = Table(title=played_with(summary), caption=HOW_TO_READ)
    table.title_justify = table.caption_justify = "left"
    named, *numbers = shown.headings
    table.add_column(named, no_wrap=True)
    for heading in numbers:
        table.add_column(heading, justify="right")
    for row in shown.rows:
        table.add_row(*row)
    print_table(table, width=160, markup=False, highlight=False)
