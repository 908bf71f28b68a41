"""What an experiment gave: tables, and the folder of files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedbandits.experiments.bounds import beside_lower_bound, yardstick
from fedbandits.experiments.describe import describe_experiment, versions
from fedbandits.experiments.protection import protection_of, uplink_of
from fedbandits.simulation import Simulation
from fedbandits.simulation.tables import Table, curves_table, replications_table, summarise

if TYPE_CHECKING:
    from fedbandits.experiments.experiment import Experiment


@dataclass(frozen=True, kw_only=True, eq=False)
class Results:
    """The simulations of an experiment's variants, in their order.

    Parameters
    ----------
    experiment : Experiment
        What was run.
    simulations : tuple of Simulation
        What came out.
    """

    experiment: Experiment
    simulations: tuple[Simulation, ...]

    def summary(self) -> dict[str, Any]:
        """Return what summary.json holds: the same dictionary every time."""
        return self._summary

    @cached_property
    def _summary(self) -> dict[str, Any]:
        experiment = self.experiment
        promised, doubts = experiment.guarantees(), experiment.doubts()
        return {
            "title": experiment.title,
            "seed": experiment.seed,
            "versions": versions(),
            "spec": describe_experiment(experiment),
            "variants": [
                {
                    **summarise(simulation),
                    "lower_bound": beside_lower_bound(
                        simulation.games.total,
                        yardstick(simulation.variant, simulation.rule, experiment.horizon),
                    ),
                    "uplink_bits": uplink_of(simulation),
                    "privacy": protection_of(simulation),
                    "guarantee": promised[number].words(),
                    "doubts": doubts[number],
                }
                for number, simulation in enumerate(self.simulations)
            ],
        }

    def replications(self) -> Table:
        """Return a row for every variant and replication, as columns."""
        return replications_table(self.simulations)

    def curves(self) -> Table:
        """Return a row for every variant, regret and slot of the grid, as columns."""
        return self._curves

    @cached_property
    def _curves(self) -> Table:
        return curves_table(self.simulations)

    def table(self) -> str:
        """Return the summary as text that fits a terminal."""
        from fedbandits.experiments.text import shown_summary  # noqa: PLC0415 - Rich, only to print

        return shown_summary(self.summary()).text()

    def write(self, directory: str | Path) -> Path:
        """Write summary, tables, figures and the page into a directory; return its path.

        Needs the extra ``report``.
        """
        from fedbandits.experiments.output import open_output, write_results  # noqa: PLC0415 - the plots, only here

        with open_output(Path(directory), command="fedbandits run") as output:
            write_results(self, output)
        return Path(directory)
