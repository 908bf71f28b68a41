"""What an experiment gave: tables, and the folder of files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fedbandits.experiments.bounds import beside_lower_bound, yardstick
from fedbandits.experiments.describe import describe_experiment, versions
from fedbandits.experiments.protection import protection_of, uplink_of
from fedbandits.notebook.viewed import Viewed, known_name
from fedbandits.report.chart import Chart
from fedbandits.simulation import Simulation
from fedbandits.simulation.tables import (
    REGRETS,
    Table,
    curves_table,
    replications_table,
    summarise,
)

if TYPE_CHECKING:
    from fedbandits.experiments.experiment import Experiment
    from fedbandits.report.shown import Shown


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Results(Viewed):
    """The simulations of an experiment's variants, in their order.

    Parameters
    ----------
    experiment : Experiment
        What was run.
    simulations : tuple of Simulation
        What came out.
    """

    tables: ClassVar[tuple[str, ...]] = ("replications", "curves")
    charts: ClassVar[tuple[str, ...]] = REGRETS

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
        """Return one row per variant and replication, as columns."""
        return replications_table(self.simulations)

    def curves(self) -> Table:
        """Return one row per variant, regret and slot of the grid, as columns."""
        return self._curves

    @cached_property
    def _curves(self) -> Table:
        return curves_table(self.simulations)

    def in_short(self) -> str:
        """Return what was run, in a line."""
        variants, n = len(self.simulations), self.experiment.replications
        games = "one replication" if n == 1 else f"{n:,} replications"
        return f"{self.experiment.title}, {variants} variant{'s' * (variants > 1)}, {games} each"

    def shown(self) -> Shown:
        """Return the summary, one row per variant."""
        from fedbandits.experiments.text import shown_summary  # noqa: PLC0415 - Rich, only to show

        return shown_summary(self.summary())

    def chart(self, name: str | None = None) -> Chart:
        """Return regret against slot: the total, exploration or communication."""
        from fedbandits.experiments.report.page import regret_of  # noqa: PLC0415 - as above

        found = regret_of(self.curves(), self.summary())
        return found[known_name(name, self.charts, "name")]

    def write(self, directory: str | Path) -> Path:
        """Write summary, tables, figures and the page into a directory; return its path.

        Needs the extra ``report``.
        """
        from fedbandits.experiments.output import open_output, write_results  # noqa: PLC0415 - the plots, only here

        with open_output(Path(directory), command="fedbandits run") as output:
            write_results(self, output)
        return Path(directory)
