"""What sweeps cost, as ratios that are taken side by side in one run.

Prints a table and exits 1 when a bar is missed. Every ratio is that of medians over interleaved
rounds, because machines are noisy.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fedbandits as fb
from bars import Row, shown
from measure import medians

FIGURE_4: dict[str, Any] = {
    "title": "figure 4's game",
    "horizon": 1_000_000,
    "replications": 100,
    "seed": 2021,
    "problem": {
        "model": "approximate",
        "means": [0.70, 0.71, 0.72, 0.73, 0.74, 0.75, 0.76, 0.765, 0.77, 0.79],
        "noise": {"law": "gaussian", "sigma": 0.5},
        "spread": {"law": "gaussian", "sigma": 0.02},
    },
    "variants": [
        {
            "algorithm": "fed2-ucb",
            "pulls": 100,
            "admissions": "2^p",
            "radius": {"rule": "paper", "arm": 1.0, "client": 1.0},
        }
    ],
}
THOUSAND = fb.read_sweep(
    {
        **FIGURE_4,
        "sweep": {
            "variants.pulls": {"from": 20, "to": 300, "points": 40},
            "problem.spread.sigma": {"from": 0.01, "to": 0.05, "points": 25},
        },
    }
)
ONE_BY_ONE = fb.read_sweep(
    {
        **FIGURE_4,
        "replications": 24,
        "variants": [
            {"algorithm": "fed1-ucb", "pulls": 2, "clients": 2_000, "fidelity": "clients"}
        ],
        "sweep": {"problem.spread.sigma": {"from": 0.01, "to": 0.05, "points": 48}},
    }
)


def swept(sweep: fb.Sweep, workers: int) -> Callable[[], object]:
    """Return the work of a whole sweep: checked, played, kept on disk."""

    def work() -> object:
        with tempfile.TemporaryDirectory() as folder:
            return fb.run_sweep(sweep, Path(folder), workers=workers)

    return work


def against_a_loop_in_process() -> Row:
    """Time (a): 1,000 settings as one sweep against a loop over some of them, on one core.

    Both keep regret at the end of the games alone; a sweep needs no curves.
    """
    some = range(0, len(THOUSAND), 20)

    def loop() -> None:
        for number in some:
            replace(THOUSAND.experiment(number), grid_points=1).run(workers=1)

    sweep, looped = medians([swept(THOUSAND, 1), loop], rounds=3)
    a_second, looped_a_second = len(THOUSAND) / sweep, len(some) / looped
    detail = f"{a_second:,.0f} against {looped_a_second:,.0f} settings a second, 100 games each"
    return Row("(a) sweep / loop", a_second / looped_a_second, 3.0, True, "×", detail)


def against_a_loop_of_commands() -> Row:
    """Time (b): the same sweep against `fedbandits run` for one setting after the other."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figure-4.toml"
        file.write_text(_one_setting(), encoding="utf-8")
        words = [sys.executable, "-m", "fedbandits", "run", str(file), "--quiet"]

        def command() -> None:
            subprocess.run(words, check=True)

        sweep, one = medians([swept(THOUSAND, 1), command], rounds=3)
    a_second = len(THOUSAND) / sweep
    detail = f"{a_second:,.0f} against {1 / one:,.1f} settings a second, 100 games each"
    return Row("(b) sweep / fedbandits run", a_second * one, 20.0, True, "×", detail)


def _one_setting() -> str:
    """Return a file with the game of the sweep in its first setting: one variant, no curves."""
    game, (variant,) = FIGURE_4["problem"], THOUSAND.tables_of(0)["variants"]
    sigma = THOUSAND.tables_of(0)["problem"]["spread"]["sigma"]
    return f"""
title = "{FIGURE_4["title"]}"
horizon = {FIGURE_4["horizon"]}
replications = {FIGURE_4["replications"]}
seed = {FIGURE_4["seed"]}
grid_points = 1

[problem]
model = "approximate"
means = {game["means"]}
noise = {{ law = "gaussian", sigma = {game["noise"]["sigma"]} }}
spread = {{ law = "gaussian", sigma = {sigma} }}

[[variants]]
algorithm = "fed2-ucb"
pulls = {variant["pulls"]}
admissions = "{variant["admissions"]}"
radius = {{ rule = "paper", arm = 1.0, client = 1.0 }}
"""


def two_workers_over_one() -> Row:
    """Time (c): a sweep of games in `clients` on one worker against two."""
    swept(ONE_BY_ONE, 2)()  # processes are started once
    one, two = medians([swept(ONE_BY_ONE, 1), swept(ONE_BY_ONE, 2)], rounds=3)
    detail = f"{len(ONE_BY_ONE)} settings of 2,000 clients, {one:.1f} s against {two:.1f} s"
    return Row("(c) two workers / one, clients", one / two, 1.6, True, "×", detail)


def main() -> int:
    """Run all of it."""
    measures = [against_a_loop_in_process, against_a_loop_of_commands]
    if (os.cpu_count() or 1) > 1:
        measures.append(two_workers_over_one)
    return shown("sweeps", (measure() for measure in measures))


if __name__ == "__main__":
    sys.exit(main())
