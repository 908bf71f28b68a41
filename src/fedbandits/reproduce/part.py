"""What a part of the reproduction is: what it plays, what that gives, how it is kept and shown.

`fedbandits.reproduce.parts` lists all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fedbandits.experiments.fingerprint import hashed
from fedbandits.experiments.game_means import game_mean, ratio_of
from fedbandits.experiments.output import check_output, open_output
from fedbandits.experiments.parquet import write_parquet
from fedbandits.report.chart import Chart, Series
from fedbandits.report.page import live_chart
from fedbandits.report.still import write_still
from fedbandits.reproduce.texts import Row, fill, section_text
from fedbandits.rules.arrays import BoolArray
from fedbandits.simulation import Simulation, Variant, simulate_all
from fedbandits.simulation.tables import Table, arrays, chose_best

# What was played, by the keys that its batches have.
Runs: TypeAlias = dict[Any, Simulation]


@dataclass(frozen=True, slots=True)
class Batch:
    """Variants that are played together.

    They are one call of `fedbandits.simulate_all`, so that variants of one problem share draws.

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
    _: KW_ONLY
    grid_points: int = 1
    fewest: int = 2

    def games(self, asked: int | None) -> int:
        """Return how many games of each are played if so many are asked for: no more than usual.

        Examples
        --------
        >>> batch = Batch({}, horizon=10, replications=200, seed=1)
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


def play(batches: Iterable[Batch], *, games: int | None = None, **settings: Any) -> Runs:
    """Play batches.

    Parameters
    ----------
    batches : iterable of Batch
        What to play.
    games : int, optional
        At most so many of each, for a quick look.
    **settings
        ``workers`` and ``progress``, as in `fedbandits.simulate_all`.
    """
    runs: Runs = {}
    for batch in batches:
        found = simulate_all(
            list(batch.variants.values()),
            horizon=batch.horizon,
            replications=batch.games(games),
            seed=batch.seed,
            grid_points=batch.grid_points,
            warn=False,
            **settings,
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
    columns : str
        What the file of these columns is called; as the figure if empty.
    """

    chart: Callable[[Any], Chart]
    drawn: Callable[[Any], Table | None] = lambda table: table
    columns: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a part has made, which is on disk as well.

    A later run with the same sources and the same number of games reads it back.

    Parameters
    ----------
    made_from : str
        The hash of what it was made from.
    replications : int or None
        How many were asked for; a part has fewer if it has fewer by itself.
    table : Any
        Its numbers.
    images : mapping of str to bytes
        Its figures as PNG, by name.
    reused : bool
        Whether an earlier run had made it.
    """

    made_from: str
    replications: int | None
    table: Any
    images: Mapping[str, bytes] = field(default_factory=dict)
    reused: bool = False


Made: TypeAlias = Mapping[str, Kept]
"""What parts have made, by their keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the reproduction, which is made and kept as a whole.

    Its table is kept as JSON, in a file that is written last: without it, nothing of the part is
    taken for finished. Its section is the text ``texts/KEY.html``. An element ``chart`` in it is
    the drawing of that name, with what the element holds as its caption; it is left out if nothing
    is drawn.

    Parameters
    ----------
    key : str
        What its files and the progress line call it.
    heading : str
        Of its section on the page.
    cost : (float, float)
        Seconds that it takes on two cores: in any case, and for all of its replications.
    figure : str
        What the command calls the section that it shares with other parts; its own key if empty.
    batches : callable
        Returns what is played.
    table : callable
        From what was played to what is kept.
    drawings : mapping of str to Drawing
        By the names of their files.
    files : callable
        From what was played and the table to further files by name: texts, or tables for Parquet.
    show : callable
        From the table to what the text of the section has in braces, by name; "heading" replaces
        the heading.
    inputs : callable
        Returns what the table depends on besides the package's sources and the number of games.
    beside : callable
        From what other parts have made to what joins the table, by name.
    """

    key: str
    heading: str
    cost: tuple[float, float]
    figure: str = ""
    batches: Callable[[], list[Batch]] = list
    table: Callable[[Any], Any]
    drawings: Mapping[str, Drawing] = field(default_factory=dict)
    files: Callable[[Any, Any], Mapping[str, str | Table]] = lambda _, __: {}
    show: Callable[[Any], Mapping[str, object]] = lambda _: {}
    inputs: Callable[[], object] = lambda: None
    beside: Callable[[Made], Mapping[str, Any]] = lambda _: {}

    @property
    def asked(self) -> str:
        """What the command calls its section."""
        return self.figure or self.key

    def replications(self, games: int | None) -> int:
        """Return how many replications are simulated, given how many were asked for."""
        return sum(len(batch.variants) * batch.games(games) for batch in self.batches())

    def seconds(self, games: int | None) -> float:
        """Return about how many seconds it takes."""
        always, all_replications = self.cost
        share = self.replications(games) / max(1, self.replications(None))
        return always + share * all_replications

    def fingerprint(self, games: int | None) -> str:
        """Return what it depends on, as a hash."""
        return hashed([self.key, self.replications(games), self.inputs()])

    def get(
        self, directory: Path, *, games: int | None = None, fresh: bool = False, **settings: Any
    ) -> Kept:
        """Return what an earlier run has left, or make it.

        Parameters
        ----------
        directory, games
            As in `make`.
        fresh : bool
            Make it even if it is there.
        **settings
            As in `make`.
        """
        found = None if fresh else self.find(directory, self.fingerprint(games))
        return found or self.make(directory, games=games, **settings)

    def find(self, directory: Path, made_from: str | None = None) -> Kept | None:
        """Return what an earlier run left if it is whole and today's sources would give the same.

        What is missing of its figures is drawn.

        Parameters
        ----------
        directory : Path
            Where the page is.
        made_from : str, optional
            The hash that it must have; any number of replications will do by default.
        """
        try:
            found = json.loads(self._file(directory).read_text(encoding="utf-8"))
            stated = self.fingerprint(found["replications"])
            kept = Kept(**found, reused=True)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if kept.made_from != stated or made_from not in {None, stated}:
            return None
        return self._drawn(directory, kept)

    def make(self, directory: Path, *, games: int | None = None, **settings: Any) -> Kept:
        """Make it, put its files in place, and return it.

        Parameters
        ----------
        directory : Path
            Where the page is; files and folders there have the part's key as their name.
        games : int, optional
            How many games of each variant are asked for.
        **settings
            ``workers`` and ``progress``, as in `fedbandits.simulate_all`.
        """
        check_output(directory)
        runs = self.play(games=games, **settings)
        table = self.table(runs)
        # Until all files are in place, none of another run is to be taken for one of this run.
        if self._file(directory).is_file():
            self._file(directory).unlink()
        made = Kept(made_from=self.fingerprint(games), replications=games, table=table)
        kept = self._drawn(directory, made)
        if files := self.files(runs, table):
            with open_output(directory / self.key) as staging:
                for name, content in files.items():
                    if isinstance(content, str):
                        (staging / name).write_text(content, encoding="utf-8")
                    else:
                        write_parquet(content, staging / name)
        self._write(directory, kept)
        return kept

    def play(self, **settings: Any) -> Any:
        """Play everything and return what the table is made of; ``settings`` as in `make`."""
        return play(self.batches(), **settings)

    def compute(self, **settings: Any) -> Any:
        """Play everything and return the table; ``settings`` as in `make`."""
        return self.table(self.play(**settings))

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

    def _file(self, directory: Path) -> Path:
        return directory / f"{self.key}.json"

    def _write(self, directory: Path, kept: Kept) -> None:
        content = {name: getattr(kept, name) for name in ("made_from", "replications", "table")}
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        with open_output(directory) as staging:
            self._file(staging).write_text(text + "\n", encoding="utf-8")

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
            columns = f"{drawing.columns or name}.parquet"
            files = [folder / file for file in (f"{name}.png", f"{name}.pdf", columns)]
            if kept.reused and all(file.is_file() for file in files):
                images[name] = files[0].read_bytes()
                continue
            with open_output(folder) as staging:
                images[name] = write_still(drawing.chart(kept.table), staging, name)
                write_parquet(drawn, staging / columns)
        return replace(kept, images=images)


_CHART = re.compile(
    r'<chart id="([^"]+)" drawing="([^"]+)"\s+alt="([^"]+)">\s*(.*?)\s*</chart>', re.DOTALL
)


def chose_wrong(run: Simulation) -> BoolArray:
    """Return which games ended on another arm than the best."""
    return ~chose_best(run) & (run.games.winner >= 0)


def costs_of(run: Simulation) -> dict[str, float | int]:
    """Return what a rule cost, as columns: mean regret, clients, phases, and how games ended."""
    played, mean = run.games, game_mean(run.games.total)
    return {
        "replications": mean.n,
        "regret": mean.value,
        "stderr": mean.error,
        "clients": float(played.clients.mean()),
        "phases": float(played.phases.mean()),
        "undecided": int((played.winner < 0).sum()),
        "wrong": int(chose_wrong(run).sum()),
    }


def curve_of(
    label: str, rows: Iterable[Row], columns: tuple[str, str], colour: str, *, over_log: bool = True
) -> Series:
    """Return means against what they depend on, as dots with their intervals.

    Parameters
    ----------
    label, colour : str
        As in `fedbandits.report.chart.Series`.
    rows : iterable of mapping
        From `fedbandits.simulation.tables.rows_of`, with ``half``.
    columns : (str, str)
        What is drawn across and up.
    over_log : bool
        Whether means are divided by the logarithm of what they depend on.
    """
    x, means, halves = arrays(rows, *columns, "half")
    part = np.log(x) if over_log else 1.0
    y, half = (means / part).tolist(), (halves / part).tolist()
    return Series(label, x.tolist(), y, colour, half=half, mark="dot", width=1.6)


def ratio_columns(run: Simulation, to: Simulation) -> dict[str, float]:
    """Return the ratio of two mean regrets over the same draws, as columns."""
    ratio = ratio_of(run.games.total, to.games.total)
    return {"ratio": ratio.value, "ratio_stderr": ratio.error}
