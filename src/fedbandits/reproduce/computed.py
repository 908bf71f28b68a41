"""Parts with a table of their own: what they play, what that gives, how it is kept and shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from fedbandits.experiments.fingerprint import hashed
from fedbandits.experiments.game_means import game_mean, ratio_of
from fedbandits.experiments.output import check_output, open_output
from fedbandits.experiments.parquet import write_parquet
from fedbandits.experiments.tables import Table, chose_best
from fedbandits.report.chart import Chart
from fedbandits.report.page import live_chart
from fedbandits.report.still import write_still
from fedbandits.reproduce.part import Kept, Made, Part, is_made_from, marked
from fedbandits.reproduce.texts import fill, section_text
from fedbandits.simulation import Simulation, Variant, simulate_all
from fedbandits.simulation.simulator import Progress

Runs: TypeAlias = dict[Any, Simulation]
"""What was played, by the keys that its batches have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Variants that are played together.

    Parameters
    ----------
    variants : mapping
        By keys that no other batch of the part has.
    horizon, seed, grid_points
        As in `fedbandits.simulate_all`.
    replications : int
        How many games of each, if no fewer are asked for.
    fewest : int
        However few are asked for.
    """

    variants: Mapping[Any, Variant]
    horizon: int | None
    replications: int
    seed: int
    grid_points: int = 1
    fewest: int = 2

    def games(self, asked: int | None) -> int:
        """Return how many games of each are played if so many are asked for: no more than usual.

        Examples
        --------
        >>> batch = Batch(variants={}, horizon=10, replications=200, seed=1)
        >>> [batch.games(asked) for asked in (None, 100, 500, 1)]
        [200, 100, 200, 2]
        """
        most = self.replications
        return most if asked is None else max(self.fewest, min(asked, most))


def labelled(settings: Mapping[Any, Mapping[str, Any]]) -> dict[Any, Variant]:
    """Return variants with their keys as labels.

    Parameters
    ----------
    settings : mapping
        By keys, which are tuples: what a `fedbandits.Variant` takes besides its label.
    """
    return {
        key: Variant(label=" ".join(map(str, key)), **setting) for key, setting in settings.items()
    }


def play(
    batches: Iterable[Batch],
    *,
    games: int | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Runs:
    """Play batches.

    Parameters
    ----------
    batches : iterable of Batch
        What to play.
    games : int, optional
        At most so many of each, for a quick look.
    workers, progress
        As in `fedbandits.simulate_all`.
    """
    runs: Runs = {}
    for batch in batches:
        found = simulate_all(
            list(batch.variants.values()),
            horizon=batch.horizon,
            replications=batch.games(games),
            seed=batch.seed,
            grid_points=batch.grid_points,
            workers=workers,
            progress=progress,
            warn=False,
        )
        runs.update(zip(batch.variants, found, strict=True))
    return runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A figure of a part.

    Parameters
    ----------
    chart : callable
        From the table of the part to the chart.
    drawn : callable
        From the table of the part to the columns that are drawn; None if there is nothing to draw.
    """

    chart: Callable[[Any], Chart]
    drawn: Callable[[Any], Table | None] = lambda table: table


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed(Part):
    """A part with a table of its own, kept as JSON.

    Its section is the text ``texts/KEY.html``. An element ``chart`` in it is the drawing of that
    name, with what the element holds as its caption; it is left out if nothing is drawn.

    Parameters
    ----------
    key, heading, cost, figure
        As in `Part`.
    table : callable
        From what was played to what is kept.
    show : callable
        From that to what the text of the section has in braces, by name; "heading" replaces the
        heading.
    batches : callable
        Returns what is played.
    drawings : mapping of str to Drawing
        By the names of their files.
    texts : callable
        From the table to files of text that are written as well, by name.
    inputs : callable
        Returns what the table depends on besides the package's sources and the number of games.
    beside : callable
        From what other parts have made to what joins the table, by name.
    """

    table: Callable[[Runs], Any]
    show: Callable[[Any], Mapping[str, object]] = lambda _: {}
    batches: Callable[[], list[Batch]] = list
    drawings: Mapping[str, Drawing] = field(default_factory=dict)
    texts: Callable[[Any], Mapping[str, str]] = lambda _: {}
    inputs: Callable[[], object] = lambda: None
    beside: Callable[[Made], Mapping[str, Any]] = lambda _: {}

    def replications(self, games: int | None) -> int:
        """Return how many replications are simulated, given how many were asked for."""
        return sum(len(batch.variants) * batch.games(games) for batch in self.batches())

    def fingerprint(self, games: int | None) -> str:
        """Return what the table depends on, as a hash."""
        played = [batch.games(games) for batch in self.batches()]
        return hashed([self.key, played, self.inputs()])

    def find(self, directory: Path, made_from: str | None = None) -> Kept | None:
        """Return what an earlier run left; what is missing of its figures is drawn."""
        try:
            found = json.loads((directory / f"{self.key}.json").read_text(encoding="utf-8"))
            stated = self.fingerprint(found["replications"])
            kept = Kept(**found, reused=True)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if kept.made_from != stated or made_from not in {None, stated}:
            return None
        return self._drawn(directory, kept)

    def make(self, directory: Path, *, games: int | None = None, **settings: Any) -> Kept:
        """Play everything, write the table and draw it."""
        check_output(directory)
        table = self.compute(games=games, **settings)
        kept = Kept(made_from=self.fingerprint(games), replications=games, table=table)
        self._write(directory, kept)
        return self._drawn(directory, kept)

    def compute(self, **settings: Any) -> Any:
        """Play everything and return the table; ``settings`` as in `play`."""
        return self.table(play(self.batches(), **settings))

    def complete(self, directory: Path, made: Made) -> Kept:
        """Return what was made with what joins its table, on disk as well."""
        kept, joined = made[self.key], self.beside(made)
        if all(kept.table.get(name) == value for name, value in joined.items()):
            return kept
        whole = replace(kept, table={**kept.table, **joined})
        self._write(directory, whole)
        return whole

    def heading_of(self, kept: Kept) -> str:
        """Return the heading that its values give, or its own."""
        return str(self.show(kept.table).get("heading", self.heading))

    def section(self, kept: Kept) -> str:
        """Return its text with all values and charts, as HTML."""

        def chart(found: re.Match[str]) -> str:
            key, name, alt, caption = found.groups()
            if name not in kept.images:
                return ""
            shown = self.drawings[name].chart(kept.table)
            return live_chart(key, shown, alt=alt, caption=caption, image=kept.images[name])

        return _CHART.sub(chart, fill(section_text(self.key), self.show(kept.table)))

    def _write(self, directory: Path, kept: Kept) -> None:
        content = {name: getattr(kept, name) for name in ("made_from", "replications", "table")}
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        with open_output(directory) as staging:
            (staging / f"{self.key}.json").write_text(text + "\n", encoding="utf-8")

    def _drawn(self, directory: Path, kept: Kept) -> Kept:
        """Return what was made with its images; several drawings have a folder each.

        A folder gets the figure as PNG and PDF and what is drawn as Parquet, if they are not there.
        """
        own = directory / self.key
        images = {}
        for name, drawing in self.drawings.items():
            drawn = drawing.drawn(kept.table)
            if drawn is None:
                continue
            folder = own / name if len(self.drawings) > 1 else own
            files = [folder / f"{name}.{suffix}" for suffix in ("png", "pdf", "parquet")]
            whole = is_made_from(folder, kept.made_from) and all(file.is_file() for file in files)
            if kept.reused and whole:
                images[name] = files[0].read_bytes()
                continue
            with marked(folder, kept.made_from) as staging:
                images[name] = write_still(drawing.chart(kept.table), staging, name)
                write_parquet(drawn, staging / f"{name}.parquet")
        texts = self.texts(kept.table)
        if texts:
            with open_output(own) as staging:
                for name, text in texts.items():
                    (staging / name).write_text(text, encoding="utf-8")
        return replace(kept, images=images)


_CHART = re.compile(
    r'<chart id="([^"]+)" drawing="([^"]+)"\s+alt="([^"]+)">\s*(.*?)\s*</chart>', re.DOTALL
)


def costs_of(run: Simulation) -> dict[str, float | int]:
    """Return what a rule cost, as columns: mean regret, clients, phases, and how games ended."""
    played, mean = run.games, game_mean(run.games.total)
    decided = played.winner >= 0
    return {
        "replications": mean.n,
        "regret": mean.value,
        "stderr": mean.error,
        "clients": float(played.clients.mean()),
        "phases": float(played.phases.mean()),
        "undecided": int((~decided).sum()),
        "wrong": int((decided & ~chose_best(run)).sum()),
    }


def ratio_columns(run: Simulation, to: Simulation) -> dict[str, float]:
    """Return the ratio of two mean regrets over the same draws, as columns."""
    ratio = ratio_of(run.games.total, to.games.total)
    return {"ratio": ratio.value, "ratio_stderr": ratio.error}
