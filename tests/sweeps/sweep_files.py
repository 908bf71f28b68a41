"""Small sweeps for the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fedbandits as fb
from fedbandits.report.chart import Chart, Heat
from fedbandits.sweeps.charts import sweep_chart
from fedbandits.sweeps.run import run_sweep

BASE: dict[str, Any] = {
    "title": "demo",
    "horizon": 20_000,
    "replications": 30,
    "seed": 3,
    "problem": {
        "model": "approximate",
        "means": [0.5, 0.6, 0.9],
        "noise": {"law": "gaussian", "sigma": 0.5},
        "spread": {"law": "gaussian", "sigma": 0.1},
    },
    "variants": [
        {"label": "doubling", "algorithm": "fed2-ucb", "pulls": "10", "admissions": "2^p"},
        {"label": "alone", "algorithm": "improved-ucb"},
    ],
}

FILE = """
title = "demo"
horizon = 20_000
replications = 30
seed = 3

[problem]
model = "approximate"
means = [0.5, 0.6, 0.9]
noise = { law = "gaussian", sigma = 0.5 }
spread = { law = "gaussian", sigma = 0.1 }

[[variants]]
label = "doubling"
algorithm = "fed2-ucb"
pulls = "10"
admissions = "2^p"

[[variants]]
label = "alone"
algorithm = "improved-ucb"

[sweep]
"""

# Eighty cells that take a while each.
CELL_BY_CELL_FILE = (
    FILE.replace("replications = 30", "replications = 1")
    .replace("horizon = 20_000", "horizon = 4_000")
    .replace('admissions = "2^p"', 'admissions = "2"\nfidelity = "pulls"\nmax_clients = 20')
    + '"problem.means[2]" = { from = 0.60001, to = 0.60002, points = 12 }\n'
)
"""A sweep whose cells are kept in many files, since none is played in step with another."""

DISTURBED = """
import os, signal, sys
from fedbandits.cli import main
from fedbandits.sweeps.store import Store

# Whoever runs the tests in the background has Ctrl-C ignored, and so would this.
signal.signal(signal.SIGINT, signal.default_int_handler)
keep, kept = Store.keep, []

def keep_and_end(store, cells):
    keep(store, cells)
    kept.append(cells)
    if len(kept) == 2:
        {end}

Store.keep = keep_and_end
main()
"""
"""The command, to which something happens when the second file of cells is kept."""


def sweep_of(grid: dict[str, Any], **changed: Any) -> fb.Sweep:
    """Return the sweep of a grid over the base, with other keys of the file."""
    return fb.read_sweep({**BASE, **changed, "sweep": grid})


GRID = {"problem.spread.sigma": [0.05, 0.1, 0.2], "variants.pulls": ["10", "20"]}


def run(grid: dict[str, Any], folder: Path, **changed: Any) -> fb.SweepResults:
    return run_sweep(sweep_of(grid, **changed), folder, workers=1)


def chart_of(results: fb.SweepResults) -> Chart:
    chart = sweep_chart(results)
    assert chart is not None
    return chart


def maps_of(results: fb.SweepResults) -> list[Heat]:
    chart = chart_of(results)
    maps = [panel for panel in chart.panels if isinstance(panel, Heat)]
    assert len(maps) == len(chart.panels)
    return maps
