"""``fedbandits plan``: what a comparison will need, before anything is run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedbandits.cli.options import OUT, UNDECIDED, AsJson
from fedbandits.cli.printing import interruptible, print_json, print_table
from fedbandits.errors import InputError

if TYPE_CHECKING:
    from fedbandits.planning.plan import Plan
    from fedbandits.privacy.policy import Privacy

_EXAMPLE = "{ quantize = { bits = 8 }, range = [0, 1] }"


def plan(  # noqa: PLR0917 - options of a command, all of them named
    arms: Annotated[int | None, typer.Option("--arms", "-k")] = None,
    gap: float | None = None,
    noise: float | None = None,
    spread: float | None = None,
    clients: int | None = None,
    cost: float = 1.0,
    delta: float | None = None,
    horizon: int | None = None,
    means: str | None = None,
    outcome: str | None = None,
    rates: str | None = None,
    pilot: Path | None = None,
    pulls: str | None = None,
    admissions: str | None = None,
    privacy: str | None = None,
    liars: float | None = None,
    covariate_correlation: float | None = None,
    out: Annotated[Path | None, OUT] = None,
    as_json: AsJson = False,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    workers: Annotated[int, typer.Option("--workers", "-w", min=1)] = 1,
) -> None:
    """Say how many clients, pulls and phases you need to find the best arm, and which f and g.

    This only runs simulations; it tries hundreds of schedules in seconds.

    Parameters
    ----------
    arms
        Number of arms to compare.
    gap
        The smallest difference between arms that matters.
    noise
        σ: how one observation scatters around a client's mean.
    spread
        σ_c: how clients' means scatter around the global mean.
    clients : default unlimited
        Number of clients, if the answer is only for them.
    cost
        C: what a client's report costs.
    delta : default 0.05, or 1/T with a horizon
        The error probability.
    horizon : default until it is decided
        T: the number of slots.
    means : default the hardest case: all others one gap below the best
        The means that you expect, such as 0.70,0.75,0.79, instead of --arms and --gap.
    outcome
        "binary" if outcomes are 0 or 1; then give --rates.
    rates
        The rates that you expect, such as 0.10,0.12, instead of --arms, --gap and --noise. Chooses
        the radius that needs the fewest pulls, and prints a whole file. Exit code 3 if the
        comparison is not feasible.
    pilot
        A CSV file to estimate noise and spread from, with the columns client, arm, value or client,
        arm, count, mean, sd.
    pulls
        Your own f(p), to compare with the best.
    admissions
        Your own g(p), to compare with the best.
    privacy : default means are sent as they are
        How clients protect their means, as an inline table with the keys of an experiment file:
        { noise = "gaussian", epsilon = 2.0, delta = 1e-6, range = [0, 1] }. Shows what that costs.
    liars : default nobody may lie
        How many clients may lie: a share such as 0.1, or a number of --clients such as 3. Plans for
        that, and compares it with other shares, which takes up to a minute; 0 compares alone.
    covariate_correlation : default no covariate
        Correlation of the outcome, within options, with something known of a unit before its
        option, such as 0.7. Plans for outcomes adjusted by it, and shows what that gains.
    seed
        Seed of the simulations.
    workers
        Number of processes.
    """
    from fedbandits.experiments.output import check_output  # noqa: PLC0415 - after --help
    from fedbandits.planning.plan import plan as make_plan  # noqa: PLC0415 - likewise

    if outcome is not None or rates is not None:
        given = {"arms": arms, "gap": gap, "noise": noise, "means": means, "pilot": pilot}
        given |= {"pulls": pulls, "admissions": admissions, "privacy": privacy, "liars": liars}
        _check_rates(outcome, rates, given)
        asked = {"clients": clients, "cost": cost, "delta": delta, "horizon": horizon}
        made_for = asked | {"spread": spread or 0.0, "seed": seed, "workers": workers}
        _plan_rates(_numbers(rates or "", "rates"), made_for, out, as_json=as_json)
        return
    with interruptible("nothing was written"):
        if out is not None:
            check_output(out)
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
            liars=_number_or_share(liars),
            covariate_correlation=covariate_correlation,
            seed=seed,
            workers=workers,
        )
        if out is not None:
            made.write(out)
    if as_json:
        print_json(made.as_dict())
        return
    _print(made)
    if out is not None:
        typer.echo(f"report: {out / 'report.html'}")


def _check_rates(outcome: str | None, rates: str | None, given: Mapping[str, object]) -> None:
    """Refuse options that do not go with rates."""
    if outcome not in (None, "binary"):
        raise InputError("outcome", f'"{outcome}" is not "binary"; leave it out for other outcomes')
    if rates is None:
        raise InputError("rates", "is missing; with --outcome binary write --rates 0.10,0.12")
    for name, value in given.items():
        if value is not None:
            raise InputError(name, "does not go with --rates; leave one of them out")


def _plan_rates(
    rates: list[float], asked: dict[str, Any], out: Path | None, *, as_json: bool
) -> None:
    """Print the plan of a comparison of rates; exit code 3 if it is not feasible."""
    from fedbandits.experiments.output import check_output  # noqa: PLC0415 - after --help
    from fedbandits.planning.rates import plan_rates  # noqa: PLC0415 - likewise

    with interruptible("nothing was written"):
        if out is not None:
            check_output(out)
        made = plan_rates(rates, **asked)
        if out is not None:
            made.write(out)
    if as_json:
        print_json(made.as_dict())
    else:
        for line in made.answer():
            typer.echo(fill(line, 100, break_on_hyphens=False) + "\n")
        if made.feasible:
            typer.echo(f"To run it, write this into fedbandits.toml:\n\n{made.toml()}")
    if not made.feasible:
        raise typer.Exit(UNDECIDED)


def _numbers(text: str, name: str = "means") -> list[float]:
    """Return the numbers of a list, separated by commas or spaces."""
    found: list[float] = []
    for word in text.replace(",", " ").split():
        try:
            found.append(float(word))
        except ValueError:
            problem = f'"{word}" is not a number; write --{name} 0.70,0.75,0.79'
            raise InputError(f"{name}[{len(found)}]", problem) from None
    return found


def _number_or_share(liars: float | None) -> float | None:
    """Return a whole number as one: it is written into a file."""
    return liars if liars is None or not liars.is_integer() else int(liars)


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

    from fedbandits.planning.honesty import (  # noqa: PLC0415 - likewise
        honesty_words,
        shown_prices,
    )
    from fedbandits.planning.text import (  # noqa: PLC0415 - likewise
        columns,
        conditions,
        shown_plan,
        trial_keys,
    )

    console = Console()
    width = min(console.width, 100) if console.is_terminal else 100
    for line in made.answer():
        typer.echo(fill(line, width, break_on_hyphens=False) + "\n")
    if made.feasible:
        typer.echo(f"To run it, put this into an experiment file:\n\n{made.toml()}\n")
    if made.feasible and made.correlation is not None:
        typer.echo(f"In a trial, put this into fedbandits.toml:\n\n{trial_keys(made)}\n")
    if columns(made):
        print_table(shown_plan(made))
        typer.echo()
    if made.honesty:
        for line in honesty_words(made.question):
            typer.echo(fill(line, width, break_on_hyphens=False) + "\n")
        print_table(shown_prices(made.honesty))
        typer.echo()
    typer.echo(fill(conditions(made), width, break_on_hyphens=False))
