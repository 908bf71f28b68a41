"""``fedbandits contest``: every algorithm on every game, with the same parameters."""

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from fedbandits.cli.options import OUT, Workers
from fedbandits.cli.printing import interruptible, print_table


def contest(  # noqa: PLR0917 - options of a command, all of them named
    games: Annotated[list[str] | None, typer.Argument(metavar="GAME...")] = None,
    out: Annotated[Path | None, OUT] = None,
    replications: Annotated[int, typer.Option("--replications", "-n", min=2)] = 200,
    seed: Annotated[int, typer.Option(min=0)] = 8,
    plugin: Annotated[list[Path] | None, typer.Option("--plugin", metavar="PATH")] = None,
    workers: Workers = None,
    list_games: Annotated[bool, typer.Option("--list")] = False,
) -> None:
    """Rank all algorithms on the games of the package, and your own; none is tuned to any game.

    Parameters
    ----------
    games
        Parts of names of games, such as "figure 4"; case does not matter. Default: all.
    replications
        Games that each algorithm plays.
    seed
        Seed of all random draws.
    plugin
        A Python file whose algorithms enter, with their defaults; may be repeated.
    list_games
        Print the names of the games, and play nothing.
    """
    from fedbandits.contest import play, summary, words  # noqa: PLC0415 - after --help
    from fedbandits.experiments.output import open_output  # noqa: PLC0415 - likewise
    from fedbandits.plugins import Plugin  # noqa: PLC0415 - likewise

    chosen = play.chosen_games(games or [])
    if list_games:
        typer.echo("\n".join(game.name for game in chosen))
        return
    plugins = [Plugin.read(path, "--plugin") for path in dict.fromkeys(plugin or ())]
    begin = time.monotonic()

    def show(name: str, done: int, of: int) -> None:
        typer.echo(f"{done} of {of}: {name} ({time.monotonic() - begin:.0f} s)", err=True)

    with (
        interruptible("nothing was written"),
        nullcontext() if out is None else open_output(out) as folder,
    ):
        found = play.play_contest(
            chosen,
            plugins=plugins,
            replications=replications,
            seed=seed,
            workers=workers,
            progress=show,
        )
        if folder is not None:
            from fedbandits.contest.page import write_contest  # noqa: PLC0415 - heavy

            write_contest(found, folder)
    print_table(words.printed_standings(summary.contest_summary(found)))
    if out is not None:
        typer.echo(f"report: {out / 'report.html'}")
