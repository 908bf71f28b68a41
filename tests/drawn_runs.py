"""A small run with nasty labels, and what is drawn of it."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

from matplotlib.figure import Figure

from fedbandits.experiments.experiment import Experiment
from fedbandits.experiments.results import Results
from fedbandits.problems import Approximate, Gaussian
from fedbandits.report.chart import Chart, Plot
from fedbandits.report.still import figure_of
from fedbandits.rules.algorithms import Fed2Ucb, ImprovedUcb
from fedbandits.simulation import Variant
from fedbandits.simulation.charts import regret_charts
from fedbandits.simulation.tables import Table

NASTY = '<script>alert(1)</script> & "x"'
GAME = Approximate(means=[0.5, 0.7, 0.9], noise=Gaussian(0.5), spread=Gaussian(0.1))


def curves(totals: dict[str, float], *, cost: float = 0.0, stderr: float | None = 1.0) -> Table:
    """Return a table of curves that rise straight to the given totals in 1,000 slots."""
    table: Table = {"variant": [], "regret": [], "slot": [], "mean": [], "stderr": []}
    for label, total in totals.items():
        ends = {"total": total, "exploration": total - cost, "communication": cost}
        for regret, end in ends.items():
            for slot in (250, 500, 1000):
                row = (label, regret, slot, end * slot / 1000, stderr)
                for column, value in zip(table.values(), row, strict=True):
                    column.append(value)
    return table


def run(*, replications: int = 5, labels: tuple[str, ...] = (NASTY, "f = 40 $x^{$")) -> Results:
    """Return small results with an algorithm that communicates and one that does not."""
    variants = [
        Variant(label=label, problem=GAME, algorithm=Fed2Ucb(pulls=pulls, admissions="2^p"))
        for label, pulls in zip(labels, (20, 40, 80, 160), strict=False)
    ]
    variants.append(Variant(label="_alone", problem=GAME, algorithm=ImprovedUcb()))
    return Experiment(
        title=f"Title of {NASTY}", variants=variants, horizon=5_000, replications=replications
    ).run()


def regret_figure(table: Table, title: str, **settings: Any) -> Figure:
    return figure_of(regret_charts(table, title, **settings)["total"])


def plot_of(chart: Chart) -> Plot:
    (plot,) = chart.panels
    assert isinstance(plot, Plot)
    return plot


def drawn(figure: Figure) -> Figure:
    figure.canvas.draw()
    return figure


class Page(HTMLParser):
    """Reads a page strictly: every element is closed, and in order."""

    VOID = frozenset({"meta", "img", "br", "link", "hr", "input"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.append((*self.open[-1], data))

    def of(self, tag: str, **attributes: str) -> Iterator[str]:
        """Return the texts of elements, as they are shown."""
        for name, attrs, text in self.texts:
            if name == tag and attributes.items() <= attrs.items():
                yield text

    def shown(self) -> str:
        return " ".join(text for tag, _, text in self.texts if tag not in ("script", "style"))
