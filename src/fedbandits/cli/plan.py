"""``fedbandits plan``: what a comparison will need, before anything is run."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer

from fedbandits.cli.interrupt import interruptible
from fedbandits.cli.options import OUT, AsJson
from fedbandits.cli.printing import print_json, print_table
from fedbandits.errors import InputError

if TYPE_CHECKING:
    from fedbandits.planning.plan import Plan
    from fedbandits.privacy.policy import Privacy

_EXAMPLE = "{ quantize = { bits = 8 }, range = [0, 1] }"


def plan(  # noqa: PLR0917 - options of a command, all of them named
    arms: Annotated[
        int | None, typer.Option("--arms", "-k", help="Number of arms to compare.")
    ] = None,
    gap: Annotated[
        float | None, typer.Option(help="The smallest difference between arms that matters.")
    ] = None,
    noise: Annotated[
        float | None, typer.Option(help="σ: how one observation scatters around a client's mean.")
    ] = None,
    spread: Annotated[
        float | None, typer.Option(help="σ_c: how clients' means scatter around the global mean.")
    ] = None,
    clients: Annotated[
        int | None,
        typer.Option(
            help="Number of clients, if the answer is only for them.",
            show_default="unlimited",
        ),
    ] = None,
    cost: Annotated[float, typer.Option(help="C: what a client's report costs.")] = 1.0,
    delta: Annotated[
        float | None,
        typer.Option(help="The error probability.", show_default="0.05, or 1/T with a horizon"),
    ] = None,
    horizon: Annotated[
        int | None,
        typer.Option(help="T: the number of slots.", show_default="until it is decided"),
    ] = None,
    means: Annotated[
        str | None,
        typer.Option(
            help="The means that you expect, such as 0.70,0.75,0.79, instead of --arms and --gap.",
            show_default="the hardest case: all others one gap below the best",
        ),
    ] = None,
    pilot: Annotated[
        Path | None,
        typer.Option(
            help="A CSV file to estimate noise and spread from, with the columns client, arm, value"
            " or client, arm, count, mean, sd."
        ),
    ] = None,
    pulls: Annotated[
        str | None, typer.Option(help="Your own f(p), to compare with the best.")
    ] = None,
    admissions: Annotated[
        str | None, typer.Option(help="Your own g(p), to compare with the best.")
    ] = None,
    privacy: Annotated[
        str | None,
        typer.Option(
            help="How clients protect their means, as an inline table with the keys of an"
            ' experiment file: { noise = "gaussian", epsilon = 2.0, delta = 1e-6, range = [0, 1] }.'
            " Shows what that costs.",
            show_default="means are sent as they are",
        ),
    ] = None,
    out: Annotated[Path | None, OUT] = None,
    as_json: AsJson = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulations.")] = 0,
    workers: Annotated[
        int, typer.Option("--workers", "-w", min=1, help="Number of processes.")
    ] = 1,
) -> None:
    """Say how many clients, pulls and phases you need to find the best arm, and which f and g.

    This only runs simulations; it tries hundreds of schedules in seconds.
    """
    from fedbandits.cli.progress import show_search  # noqa: PLC0415 - after --help
    from fedbandits.experiments.output import check_output  # noqa: PLC0415 - likewise
    from fedbandits.planning.plan import plan as make_plan  # noqa: PLC0415 - likewise

    with interruptible("nothing was written"):
        if out is not None:
            check_output(out)
        with show_search() as progress:
            made = make_plan(
                n_arms=arms,
                gap=gap,
                noise=noise,
                spread=spread,
                means=None if means is None else _numbers(means),
                clients=clients,
                communication_cost=cost,
                delta=delta,
                horizon=horizon,
                pilot=pilot,
                pulls=pulls,
                admissions=admissions,
                privacy=None if privacy is None else _policy(privacy),
                seed=seed,
                workers=workers,
                progress=progress,
            )
        if out is not None:
            made.write(out)
    if as_json:
        print_json(made.as_dict())
        return
    _print(made)
    if out is not None:
        typer.echo(f"report: {out / 'report.html'}")


def _numbers(text: str) -> list[float]:
    """Return the means of a list, separated by commas or spaces."""
    found: list[float] = []
    for word in text.replace(",", " ").split():
        try:
            found.append(float(word))
        except ValueError:
            problem = f'"{word}" is not a number; write --means 0.70,0.75,0.79'
            raise InputError(f"means[{len(found)}]", problem) from None
    return found


def _policy(text: str) -> Privacy:
    """Return the policy of an inline table."""
    import tomllib  # noqa: PLC0415 - after --help

    from fedbandits.construct import construct  # noqa: PLC0415 - likewise
    from fedbandits.privacy.policy import Privacy  # noqa: PLC0415 - likewise

    try:
        table = tomllib.loads(f"privacy = {text}")["privacy"]
    except tomllib.TOMLDecodeError as error:
        raise InputError("privacy", f"is not a table of TOML such as {_EXAMPLE}: {error}") from None
    if not isinstance(table, dict):
        raise InputError("privacy", f"{table!r} is not a table such as {_EXAMPLE}")
    return construct(Privacy, table, "privacy")


def _print(made: Plan) -> None:
    from rich.console import Console  # noqa: PLC0415 - after --help

    from fedbandits.planning.text import columns, conditions, shown_plan  # noqa: PLC0415 - likewise

    console = Console()
    width = min(console.width, 100) if console.is_terminal else 100
    for line in made.answer():
        typer.echo(fill(line, width, break_on_hyphens=False) + "\n")
    if made.feasible:
        typer.echo(f"To run it, put this into an experiment file:\n\n{made.toml()}\n")
    if columns(made):
        print_table(shown_plan(made))
        typer.echo()
    typer.echo(fill(conditions(made), width, break_on_hyphens=False))
