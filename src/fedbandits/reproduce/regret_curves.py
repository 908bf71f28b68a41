"""The figures of the paper that show regret curves: each of their experiments is a part.

``figures.toml`` lists them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from fedbandits.experiments.report.page import regret_of, regret_section
from fedbandits.experiments.results import Results
from fedbandits.report.chart import Chart
from fedbandits.report.markup import with_subscripts
from fedbandits.reproduce.catalogue import paper_experiment
from fedbandits.reproduce.part import Drawing, Kept, Part
from fedbandits.reproduce.texts import listing
from fedbandits.simulation.tables import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class RegretCurves(Part):
    """An experiment of the paper, whose folder has the files of any other run.

    Its table has ``summary``, what summary.json holds, and ``curves``, what curves.parquet holds.

    Parameters
    ----------
    title : str
        What tells it from the other experiments of the figure.
    caption : str
        Above the first experiment of a figure: what to see in it, and where settings come from.
    **others
        As in `fedbandits.reproduce.part.Part`; the key is the name of the file.
    """

    title: str
    caption: str = ""

    def replications(self, games: int | None) -> int:
        """Return how many replications are simulated, given how many were asked for.

        Examples
        --------
        >>> figure_5, _ = FIGURES["fig5"]
        >>> figure_5.replications(7), figure_5.replications(None) > 21
        (21, True)
        """
        paper = paper_experiment(self.key)
        return (games or paper.replications) * len(paper.variants)

    def play(self, *, games: int | None = None, **settings: Any) -> Results:
        """Run the experiment, as often as asked for."""
        paper = paper_experiment(self.key)
        return replace(paper, replications=games or paper.replications).run(**settings)

    def section(self, kept: Kept) -> str:
        """Return the curves with the table of results, as HTML."""
        summary, curves = kept.table["summary"], kept.table["curves"]
        caption = f"<p>{with_subscripts(self.caption)}</p>\n" if self.caption else ""
        played = "{replications:,} replications of {horizon:,} slots".format_map(summary["spec"])
        shown = regret_section(self.key, curves, summary, kept.images["regret"])
        return f"{caption}<h3>{escape(self.title)}</h3>\n<p>{played}.</p>\n{shown}"


def _table(results: Results) -> dict[str, Any]:
    return {"summary": results.summary(), "curves": results.curves()}


def _files(results: Results, table: dict[str, Any]) -> dict[str, str | Table]:
    summary = json.dumps(table["summary"], indent=2, allow_nan=False)
    return {"summary.json": f"{summary}\n", "replications.parquet": results.replications()}


def _chart(table: dict[str, Any]) -> Chart:
    return regret_of(table["curves"], table["summary"])["total"]


_REGRET = Drawing(chart=_chart, drawn=lambda table: table["curves"], columns="curves")


FIGURES = {
    key: [
        RegretCurves(
            key=name,
            figure=key,
            heading=f"Figure {key.removeprefix('fig')}: {escape(figure['title'])}",
            cost=tuple(experiment["cost"]),
            table=_table,
            drawings={"regret": _REGRET},
            files=_files,
            title=experiment["title"],
            caption=" ".join(figure["caption"].split()) if name == key else "",
        )
        for name, experiment in figure["experiments"].items()
    ]
    for key, figure in listing("figures").items()
}
"""The experiments behind each figure; the authors' constants come first."""
