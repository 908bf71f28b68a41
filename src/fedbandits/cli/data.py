"""``fedbandits data``: import the user's copy of the MovieLens data once."""

from pathlib import Path
from typing import Annotated

import typer

from fedbandits.cli.options import add_command
from fedbandits.cli.printing import interruptible

app = typer.Typer(
    name="data",
    help="Import MovieLens data, which does not ship with the package, and show what is imported.",
    no_args_is_help=True,
)


def import_(
    path: Annotated[Path, typer.Argument(metavar="PATH")],
    groups: Annotated[int | None, typer.Option(min=2)] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Check MovieLens data, say what is in it, and store it in your data directory.

    PATH is the HetRec-2011 zip file or folder, or a .npy file with one row per user, one column per
    group and values from 0 to 1.

    Parameters
    ----------
    groups : default 100
        Split the movies of an archive into this many groups; a user takes part only if they have
        rated a movie in every group.
    seed
        Seed of which movies are in which group.
    """
    from fedbandits.reproduce.movielens.store import import_data  # noqa: PLC0415 - after --help

    with interruptible("nothing was written"):
        typer.echo(import_data(path, seed=seed, n_groups=groups).report())


def show() -> None:
    """Print what is imported, and where it is stored."""
    from fedbandits.reproduce.movielens import container, store  # noqa: PLC0415 - after --help

    found = store.imported()
    if not found:
        typer.echo(f"no data imported in {container.data_directory()}")
        typer.echo("import it with: fedbandits data import PATH")
        typer.echo("PATH is the zip file of https://grouplens.org/datasets/hetrec-2011/, or a .npy")
    for data in found:
        typer.echo(data.report())


add_command(app, import_)
add_command(app, show)
