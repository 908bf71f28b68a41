"""``fedbandits sweep``: one file under many settings of its keys."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from fedbandits.cli.options import OUT, AsJson, Fresh, MemoryLimit, Plugins, Quiet, Workers
from fedbandits.cli.printing import interruptible, print_json, print_table, print_warnings


def sweep(  # noqa: PLR0917 - options of a command, all of them named
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    out: Annotated[Path, OUT],
    backend: str = "processes",
    address: str | None = None,
    timeout: Annotated[float, typer.Option(min=0.1)] = 10.0,
    workers: Workers = None,
    memory_limit: MemoryLimit = 512,
    plugin: Plugins = None,
    fresh: Fresh = False,
    yes: Annotated[bool, typer.Option("--yes")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Simulate a file under many settings of its keys, and draw the map.

    Parameters
    ----------
    file
        An experiment file with a table "sweep" (TOML).
    backend
        Where to run it: processes, dask or ray.
    address
        Address of a Dask scheduler or Ray cluster. Default: start one here.
    timeout
        Seconds to wait for an answer from the address.
    yes
        Allow more than a million settings.
    """
    from fedbandits.cli.progress import sweep_progress  # noqa: PLC0415 - after --help
    from fedbandits.experiments.output import check_output  # noqa: PLC0415 - likewise
    from fedbandits.sweeps import doubts, run, store  # noqa: PLC0415 - likewise
    from fedbandits.sweeps.sweep import MOST_SETTINGS, load_sweep  # noqa: PLC0415 - likewise

    def left_behind() -> str:
        if not (out / store.FOLDER).exists():
            return "nothing was finished, and nothing was written"
        return f"finished cells are kept in {out}; run it again to continue"

    asked = load_sweep(file, most=None if yes else MOST_SETTINGS, plugins=plugin or ())
    with interruptible(left_behind):
        check_output(out, command="fedbandits sweep")
        results = run.run_sweep(
            asked,
            out,
            backend=backend,
            address=address,
            workers=workers,
            memory_limit=memory_limit * 2**20,
            timeout=timeout,
            fresh=fresh,
            progress=sweep_progress(quiet=quiet),
            warn=None
            if quiet
            else lambda found: print_warnings(doubts.warnings_of(found, len(asked))),
        )
        results.write(out)
    if as_json:
        print_json(results.summary())
    elif not quiet:
        from fedbandits.sweeps.charts import why_not_drawn  # noqa: PLC0415 - likewise
        from fedbandits.sweeps.text import shown_comparisons  # noqa: PLC0415 - likewise

        print_table(shown_comparisons(results))
        typer.echo(f"table: {out / 'replications.parquet'}")
        undrawn = why_not_drawn(asked)
        typer.echo(f"figure: {out / 'sweep.png'}" if undrawn is None else f"no figure: {undrawn}")
        typer.echo(f"report: {out / 'report.html'}")
    if not quiet:
        idle = results.idle_keys()
        print_warnings(f"{key}: all its values give the same numbers" for key in idle)


def check_sweep(file: Path, tables: Mapping[str, Any]) -> None:
    """Check every setting of a file with a sweep, and say how many there are."""
    from fedbandits.sweeps import doubts  # noqa: PLC0415 - after --help
    from fedbandits.sweeps.cells import cells_of  # noqa: PLC0415 - likewise
    from fedbandits.sweeps.sweep import read_sweep  # noqa: PLC0415 - likewise

    asked = read_sweep(tables)
    cells = [cell for number in range(len(asked)) for cell, _ in cells_of(asked, number)]
    found = Counter((cell.label, cell.fidelity.value) for cell in cells)
    typer.echo(f"{file}: valid, {len(asked):,} settings")
    for (label, fidelity), settings in found.items():
        typer.echo(f"  {label}: fidelity {fidelity} in {settings:,} of them")
    print_warnings(doubts.warnings_of(doubts.doubts_of(cells), len(asked)))
