"""The command line: what people type, what they see, and the exit codes.

0: done. 1: our mistake, or the command could not do what was asked. 2: the user's mistake, in one
line on standard error. 3: a run is over, and undecided. 130: interrupted.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from fedbandits.cli.contest import contest
from fedbandits.cli.data import app as data_app
from fedbandits.cli.federation import TRIAL_FILE, check_trial, new, try_
from fedbandits.cli.letters import deliver, post, site
from fedbandits.cli.options import OUT, AsJson, MemoryLimit, Plugins, Quiet, Workers, add_command
from fedbandits.cli.plan import plan
from fedbandits.cli.printing import (
    RunInterruptedError,
    interruptible,
    print_json,
    print_plain,
    print_table,
    print_warnings,
)
from fedbandits.cli.reproduce import reproduce
from fedbandits.cli.runs import (
    backup,
    rebind,
    report,
    restore,
    status,
    stop,
    verify,
    withdraw,
)
from fedbandits.cli.serve import serve
from fedbandits.cli.site import audit, halt, kit, node
from fedbandits.cli.sweep import check_sweep, sweep
from fedbandits.cli.up import coordinate, resume, up
from fedbandits.errors import FedbanditsError, InputError, UnstatedError

if TYPE_CHECKING:
    from fedbandits.experiments.experiment import Experiment

app = typer.Typer(
    name="fedbandits",
    help="Find the best of K options across many clients whose data never leaves them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    suggest_commands=False,  # Click does it already
)

File = Annotated[Path, typer.Argument(help="An experiment file (TOML).", metavar="FILE")]


def _show_version(asked: bool) -> None:
    if asked:
        from fedbandits import __version__  # noqa: PLC0415 - reads the package's metadata

        typer.echo(f"fedbandits {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


def run(  # noqa: PLR0917 - options of a command, all of them named
    file: File,
    out: Annotated[Path | None, OUT] = None,
    plugin: Plugins = None,
    replications: Annotated[int | None, typer.Option("--replications", "-n", min=1)] = None,
    seed: Annotated[int | None, typer.Option(min=0)] = None,
    fidelity: str | None = None,
    workers: Workers = None,
    memory_limit: MemoryLimit = 512,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Simulate every variant of an experiment file, print a table, write the results.

    Parameters
    ----------
    replications
        Number of replications, instead of the file's.
    seed
        Seed, instead of the file's.
    fidelity
        Use cohorts, clients or pulls for every variant that has fidelities.
    """
    from fedbandits.cli.progress import show_progress  # noqa: PLC0415 - after --help
    from fedbandits.experiments.files import read_experiment  # noqa: PLC0415 - after --help
    from fedbandits.experiments.output import open_output, write_results  # noqa: PLC0415 - likewise
    from fedbandits.experiments.unfinished import Unfinished  # noqa: PLC0415 - likewise
    from fedbandits.plugins import load_tables  # noqa: PLC0415 - likewise

    tables = load_tables(file, plugins=plugin or ())
    if "sweep" in tables and not quiet:
        typer.echo("note: [sweep] is ignored here; fedbandits sweep plays it", err=True)
    experiment = _changed(
        read_experiment(tables), replications=replications, seed=seed, fidelity=fidelity
    )
    experiment.check()
    if not quiet:
        _print_doubts(experiment)
    kept = None if out is None else Unfinished(out)

    def left_behind() -> str:
        if kept is None or not kept.folder.exists():
            return "nothing was written"
        return f"finished variants are kept in {out}; run it again to continue"

    with (
        interruptible(left_behind),
        nullcontext() if out is None else open_output(out, command="fedbandits run") as output,
    ):
        with show_progress(experiment, quiet=quiet) as progress:
            results = experiment.run(
                workers=workers, memory_limit=memory_limit * 2**20, progress=progress, kept=kept
            )
        if output is not None:
            write_results(results, output)
        if kept is not None:
            kept.clear()
    if as_json:
        print_json(results.summary())
    elif not quiet:
        from fedbandits.experiments.text import shown_summary  # noqa: PLC0415 - after --help

        summary = results.summary()
        print_table(shown_summary(summary))
        for variant in summary["variants"]:
            typer.echo(f"guarantee of {variant['label']}: {variant['guarantee']}")
        if out is not None:
            typer.echo(f"report: {out / 'report.html'}")


def check(file: Annotated[Path, typer.Argument(metavar="FILE")], plugin: Plugins = None) -> None:
    """Validate an experiment file (with its sweep, if any) or a trial, without playing it.

    Parameters
    ----------
    file
        An experiment file (TOML), or a trial's project.
    """
    from fedbandits.experiments.files import read_experiment  # noqa: PLC0415 - after --help
    from fedbandits.plugins import load_tables  # noqa: PLC0415 - likewise

    if file.is_dir() or file.name == TRIAL_FILE:
        check_trial(file, plugin or ())
        return
    tables = load_tables(file, plugins=plugin or ())
    if "sweep" in tables:
        check_sweep(file, tables)
        return
    experiment = read_experiment(tables)
    fidelities = experiment.check()
    typer.echo(f"{file}: valid")
    for variant, fidelity, proven in zip(
        experiment.variants, fidelities, experiment.guarantees(), strict=True
    ):
        typer.echo(f"  {variant.label}: {variant.algorithm.name}, fidelity {fidelity}")
        typer.echo(f"    guarantee: {proven.words()}")
    _print_doubts(experiment)


def bounds(file: File, plugin: Plugins = None) -> None:
    """Print what the paper's theorems promise for each variant, or why they promise nothing."""
    from fedbandits.experiments.bounds import bounds_of  # noqa: PLC0415 - after --help
    from fedbandits.experiments.files import load_experiment  # noqa: PLC0415 - after --help
    from fedbandits.experiments.text import shown_bounds  # noqa: PLC0415 - after --help

    experiment = load_experiment(file, plugins=plugin or ())
    print_table(shown_bounds(experiment.title, experiment.horizon, bounds_of(experiment)))


_PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Experiments": (run, check, bounds, sweep, plan, contest, reproduce),
    "Federations": (new, try_, up, resume, coordinate, kit, node, post, deliver, site),
    "Runs of a federation": (
        *(status, serve, report, verify, withdraw, stop, halt),
        *(rebind, audit, backup, restore),
    ),
}
for panel, commands in _PANELS.items():
    for command in commands:
        add_command(app, command, panel)
app.add_typer(data_app, rich_help_panel="Experiments")


def _print_doubts(experiment: Experiment) -> None:
    """Say which assumptions do not hold, each once with the labels of its variants."""
    said: dict[str, list[str]] = {}
    for variant, found in zip(experiment.variants, experiment.doubts(), strict=True):
        for doubt in found:
            said.setdefault(doubt, []).append(variant.label)
    print_warnings(f"{'; '.join(labels)}: {doubt}" for doubt, labels in said.items())


def _changed(
    experiment: Experiment, *, replications: int | None, seed: int | None, fidelity: str | None
) -> Experiment:
    """Return the experiment with the overrides of the command line."""
    from fedbandits.simulation import build_rules  # noqa: PLC0415 - after --help

    variants = experiment.variants
    if fidelity is not None:
        plain = [replace(variant, fidelity=None) for variant in variants]
        variants = [
            variant if rule.decides_every_slot else replace(variant, fidelity=fidelity)
            for variant, (rule, _) in zip(
                plain, build_rules(plain, experiment.horizon), strict=True
            )
        ]
    return replace(
        experiment,
        variants=variants,
        replications=experiment.replications if replications is None else replications,
        seed=experiment.seed if seed is None else seed,
    )


def _end(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command; turn errors into one line and an exit code."""
    # A signal to end is treated like Ctrl-C: workers and half-made output are removed too.
    signal.signal(signal.SIGTERM, _end)
    if hasattr(signal, "SIGHUP"):  # the terminal is closed
        signal.signal(signal.SIGHUP, _end)
    try:
        app()
    except SystemExit as ended:
        if ended.code == 130:  # Typer turns Ctrl-C into this, without a word
            typer.echo("interrupted", err=True)
        raise
    except FedbanditsError as error:
        print_plain(str(error), "error: ", err=True)
        # What a class of the user's does not state is the user's mistake, too.
        sys.exit(2 if isinstance(error, InputError | UnstatedError) else 1)
    except MemoryError:
        typer.echo("error: there is not enough memory; ask for fewer clients or arms", err=True)
        sys.exit(1)
    except RunInterruptedError as error:
        typer.echo(f"interrupted; {error}", err=True)
        sys.exit(130)
