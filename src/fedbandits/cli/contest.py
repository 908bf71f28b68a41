"""``fedbandits contest``: every algorithm on every game, with the same parameters."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from fedbandits.cli.interrupt import interruptible


def contest(
    games: Annotated[
        list[str] | None,
        typer.Argument(
            help='Games whose names contain one of these, such as "figure 4"; all by default.',
            metavar="[GAME]...",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write tables, profile and report.html here.")
    ] = None,
    replications: Annotated[
        int,
        typer.Option("--replications", "-n", min=2, help="Of each game; fewer where it is slow."),
    ] = 400,
    workers: Annotated[
        int | None, typer.Option("--workers", "-w", min=1, help="Processes; all cores by default.")
    ] = None,
) -> None:
    """Rank all algorithms on the games of the package, none of them tuned to any."""
    from rich.console import Console  # noqa: PLC0415 - after --help
    from rich.table import Table  # noqa: PLC0415 - likewise

    from fedbandits.contest.play import chosen_games, play_contest  # noqa: PLC0415 - likewise
    from fedbandits.contest.standings import standings  # noqa: PLC0415 - likewise
    from fedbandits.experiments.output import open_output  # noqa: PLC0415 - likewise

    chosen = chosen_games(games or [])
    progress = Console(stderr=True)

    def show(name: str, done: int, of: int) -> None:
        progress.print(f"{done} of {of}: {name}", highlight=False)

    with (
        interruptible("nothing was written"),
        nullcontext() if out is None else open_output(out) as folder,
    ):
        found = play_contest(chosen, replications=replications, workers=workers, progress=show)
        if folder is not None:
            from fedbandits.contest.page import write_contest  # noqa: PLC0415 - heavy

            write_contest(found, folder)
    shown = Table("entrant", "games", "first", "within 10 %", "median ratio", "worst ratio")
    for place in standings(found):
        name = f"{place.entrant} (reference)" if place.reference else place.entrant
        shown.add_row(
            name,
            *(str(number) for number in (place.games, place.first, place.near)),
            f"{place.median:.2f}",
            f"{place.worst:,.1f}",
        )
    Console().print(shown)
    if out is not None:
        typer.echo(f"report: {out / 'report.html'}")
