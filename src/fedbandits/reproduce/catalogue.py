"""The experiments of the paper, as files that ship with the package."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

from fedbandits.errors import InputError, nearest
from fedbandits.experiments.experiment import Experiment
from fedbandits.experiments.files import read_experiment

_FOLDER = files("fedbandits.reproduce") / "files"


def experiment_text(name: str) -> str:
    """Return the TOML of a shipped experiment.

    Examples
    --------
    >>> print(experiment_text("fig4").splitlines()[0])
    # Figure 4: Fed2-UCB on the approximate model, f(p) = 100 and g(p) = 2^p.
    """
    known = sorted(file.name.removesuffix(".toml") for file in _FOLDER.iterdir())
    if name in known:
        return (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    from fedbandits.reproduce.parts import PARTS  # noqa: PLC0415 - heavy, and imports this module

    if name in PARTS:
        raise InputError(
            "", f'"{name}" is computed and has no experiment file; files: {", ".join(known)}'
        )
    raise InputError("", f'"{name}" is not an experiment of the paper; {nearest(name, known)}')


@cache
def paper_experiment(name: str) -> Experiment:
    """Return a shipped experiment, which is read once.

    Examples
    --------
    >>> [variant.label for variant in paper_experiment("fig5").variants]
    ['f = 10', 'f = 50', 'f = 100']
    """
    return read_experiment(tomllib.loads(experiment_text(name)))
