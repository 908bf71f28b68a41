"""The figures of the paper that show regret curves: each of their experiments is a part.

``figures.toml`` lists them.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from fedbandits.experiments.fingerprint import hashed
from fedbandits.experiments.output import write_tables_and_figures
from fedbandits.experiments.report.page import regret_section
from fedbandits.report.markup import with_subscripts
from fedbandits.reproduce.catalogue import experiment_text, paper_experiment
from fedbandits.reproduce.part import Kept, Part, is_made_from, marked

_CURVES = "curves.json"
"""Beside curves.parquet, which is for other programs: what the page is made of, if it is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegretCurves(Part):
    """An experiment of the paper, in a folder of its own.

    What it makes has as its table ``summary``, what summary.json holds, and ``curves``, what
    curves.parquet holds.

    Parameters
    ----------
    key, heading, cost, figure
        As in `fedbandits.reproduce.part.Part`; the key is the name of the file.
    title : str
        What tells it from the other experiments of the figure.
    caption : str
        Above the first experiment of a figure: what to see in it, and where settings come from.
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
        experiment = paper_experiment(self.key)
        return (games or experiment.replications) * len(experiment.variants)

    def fingerprint(self, games: int | None) -> str:
        """Return what the results depend on, as a hash.

        Examples
        --------
        >>> figure_4, _ = FIGURES["fig4"]
        >>> figure_4.fingerprint(None) == figure_4.fingerprint(7)
        False
        """
        return hashed([experiment_text(self.key), games or paper_experiment(self.key).replications])

    def find(self, directory: Path, made_from: str | None = None) -> Kept | None:
        """Return what an earlier run left; its summary says how many replications it has."""
        folder = directory / self.key
        try:
            summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
            replications = int(summary["spec"]["replications"])
            stated = self.fingerprint(replications)
            if made_from not in {None, stated} or not is_made_from(folder, stated):
                return None
            curves = json.loads((folder / _CURVES).read_text(encoding="utf-8"))
            return Kept(
                made_from=stated,
                replications=replications,
                table={"summary": summary, "curves": curves},
                images={"regret": (folder / "regret.png").read_bytes()},
                reused=True,
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def make(self, directory: Path, *, games: int | None = None, **settings: Any) -> Kept:
        """Run the experiment into its folder."""
        experiment = paper_experiment(self.key)
        if games is not None:
            experiment = replace(experiment, replications=games)
        made_from = self.fingerprint(games)
        with marked(directory / self.key, made_from) as staging:
            results = experiment.run(**settings)
            images = write_tables_and_figures(results, staging)
            curves = results.curves()
            (staging / _CURVES).write_text(json.dumps(curves), encoding="utf-8")
        return Kept(
            made_from=made_from,
            replications=games,
            table={"summary": results.summary(), "curves": curves},
            images={"regret": images["regret.png"]},
        )

    def section(self, kept: Kept) -> str:
        """Return the curves with the table of results, as HTML."""
        summary, curves = kept.table["summary"], kept.table["curves"]
        caption = f"<p>{with_subscripts(self.caption)}</p>\n" if self.caption else ""
        played = "{replications:,} replications of {horizon:,} slots".format_map(summary["spec"])
        shown = regret_section(self.key, curves, summary, kept.images["regret"])
        return f"{caption}<h3>{escape(self.title)}</h3>\n<p>{played}.</p>\n{shown}"


def _figures() -> dict[str, list[RegretCurves]]:
    text = (files(__package__) / "figures.toml").read_text(encoding="utf-8")
    return {
        key: [
            RegretCurves(
                key=name,
                figure=key,
                heading=f"Figure {key.removeprefix('fig')}: {escape(figure['title'])}",
                cost=tuple(experiment["cost"]),
                title=experiment["title"],
                caption=" ".join(figure["caption"].split()) if name == key else "",
            )
            for name, experiment in figure["experiments"].items()
        ]
        for key, figure in tomllib.loads(text).items()
    }


FIGURES = _figures()
"""The experiments behind each figure; the authors' constants come first."""
