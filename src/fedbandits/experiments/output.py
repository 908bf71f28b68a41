"""The folder of results: written whole or not at all."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from fedbandits.errors import InputError
from fedbandits.experiments.parquet import write_parquet
from fedbandits.experiments.results import Results

# What one command writes and the other does not; the rest has the same names.
_ONLY_BY = {
    "fedbandits run": ("curves.parquet", "regret.png", "regret.pdf"),
    "fedbandits sweep": ("sweep.png", "sweep.pdf", "finished"),
}


def check_output(directory: Path, *, command: str | None = None) -> None:
    """Make sure, long before, that results will be written; what is in the way is said now.

    Parameters
    ----------
    directory, command
        As for `open_output`, which raises the same errors.
    """
    with _staged(directory, command):
        pass


@contextmanager
def open_output(directory: Path, *, command: str | None = None) -> Iterator[Path]:
    """Make sure that results can be written, and put them in place when all of them are.

    Yields a staging folder in or beside the directory. When the block ends well its files are
    moved into place, each replacing what had its name; when it fails nothing has changed.

    Parameters
    ----------
    directory : Path
        Where results go.
    command : {"fedbandits run", "fedbandits sweep"}, optional
        Whose they are. A folder that has those of the other is refused, and what this command has
        written there before and does not write now is removed.

    Raises
    ------
    InputError
        If the directory cannot be written, or a package that writes it is not installed.
    """
    with _staged(directory, command) as staging:
        yield staging
        _move(staging, directory.absolute(), directory, command)


@contextmanager
def _staged(directory: Path, command: str | None) -> Iterator[Path]:
    """Yield a folder of this file system that is gone afterwards, with all that was made for it."""
    if find_spec("matplotlib") is None:
        raise InputError("", "figures need matplotlib: install the extra, fedbandits[report]")
    # What is said of it is said as it was typed.
    typed, directory = directory, directory.absolute()
    made: list[Path] = []
    try:
        # The innermost first.
        made = [parent for parent in directory.parents if not parent.exists()]
        exists = _checked(typed, command)
        beside = directory if exists else directory.parent
        beside.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".results-", dir=beside))
    except OSError as error:
        _remove_empty(made)
        raise InputError(
            "--out", f"{typed} cannot be written: {error.strerror}; name another one"
        ) from None
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        _remove_empty(made)


def _checked(directory: Path, command: str | None) -> bool:
    """Return whether a directory is there already; refuse what cannot become one."""
    if directory.is_dir():
        for other, names in _ONLY_BY.items():
            theirs = [name for name in names if (directory / name).exists()]
            if command is not None and other != command and theirs:
                raise InputError(
                    "--out",
                    f"{directory} has results of {other} ({', '.join(theirs)}); name another one,"
                    " or move them",
                )
        return True
    if directory.exists() or directory.is_symlink():
        raise InputError("--out", f"{directory} is not a directory; name another one")
    return False


def _move(staging: Path, directory: Path, typed: Path, command: str | None) -> None:
    """Put the files in place, once it is sure that all of them can be; remove what is outdated."""
    files = sorted(staging.iterdir())
    for file in files:
        if (directory / file.name).is_dir():
            raise InputError(
                "--out", f"{typed / file.name} is a directory; move it, or name another one"
            )
    directory.mkdir(exist_ok=True)
    for name in _ONLY_BY.get(command or "", ()):
        if (directory / name).is_file() and not (staging / name).exists():
            (directory / name).unlink()
    for file in files:
        file.replace(directory / file.name)


def _remove_empty(folders: list[Path]) -> None:
    """Remove folders that were made for nothing."""
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return


def write_results(results: Results, folder: Path) -> None:
    """Write summary, tables, figures and the page."""
    from fedbandits.experiments.report.page import report_html  # noqa: PLC0415 - heavy

    images = write_tables_and_figures(results, folder)
    page = report_html(results, images=images)
    (folder / "report.html").write_text(page, encoding="utf-8")


def write_tables_and_figures(results: Results, folder: Path) -> dict[str, bytes]:
    """Write all but the page; return the images by their names."""
    from fedbandits.experiments.availability import availability_figure, map_names  # noqa: PLC0415 - Matplotlib, only here
    from fedbandits.experiments.report.page import regret_of  # noqa: PLC0415
    from fedbandits.report.still import write_still  # noqa: PLC0415
    from fedbandits.report.style import image  # noqa: PLC0415

    summary = json.dumps(results.summary(), indent=2, allow_nan=False)
    (folder / "summary.json").write_text(summary + "\n", encoding="utf-8")
    curves = results.curves()
    for name, table in (("replications", results.replications()), ("curves", curves)):
        write_parquet(table, folder / f"{name}.parquet")
    chart = regret_of(curves, results.summary())["total"]
    images = {"regret.png": write_still(chart, folder, "regret")}
    problems = [simulation.variant.problem for simulation in results.simulations]
    names = map_names(problems)
    for problem in problems:
        if problem.map is not None and (name := names[problem.map.place]) not in images:
            images[name] = image(availability_figure(problem))
            (folder / name).write_bytes(images[name])
    return images
