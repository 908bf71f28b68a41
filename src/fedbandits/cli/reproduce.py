"""``fedbandits reproduce``: the figures of the paper, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedbandits.cli.options import OUT, Fresh, Workers
from fedbandits.cli.printing import interruptible


def reproduce(  # noqa: PLR0917 - options of a command, all of them named
    figures: Annotated[list[str] | None, typer.Argument(metavar="[FIGURE]...")] = None,
    out: Annotated[Path, OUT] = Path("out/reproduction"),
    replications: Annotated[int | None, typer.Option("--replications", "-n", min=1)] = None,
    workers: Workers = None,
    fresh: Fresh = False,
    show: str | None = None,
) -> None:
    """Run the paper's experiments and draw its figures, on one page.

    Parameters
    ----------
    figures
        fig3 to fig8, movielens, theory, scaling, rules, index-rules, privacy, claims; all by
        default.
    replications
        Number of replications, instead of the files'; parts without a file play at most this many.
    show
        Print an experiment file, e.g. fig4 or fig4-theory.
    """
    from fedbandits.reproduce.catalogue import experiment_text  # noqa: PLC0415 - after --help

    if show is not None:
        typer.echo(experiment_text(show), nl=False)
        return
    from fedbandits.cli.progress import show_steps  # noqa: PLC0415 - heavy
    from fedbandits.reproduce.reproduction import reproduce_paper  # noqa: PLC0415 - likewise

    def left_behind() -> str:
        if out.is_dir() and any(out.iterdir()):
            return f"finished figures are kept in {out}; run it again to continue"
        return "nothing was finished, and nothing was written"

    with interruptible(left_behind), show_steps() as watch:
        page = reproduce_paper(
            figures or [], out, replications=replications, workers=workers, fresh=fresh, watch=watch
        )
    typer.echo(f"report: {page}")
