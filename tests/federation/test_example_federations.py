"""The federations in examples/: what they find is what is true of their map and their files."""

from __future__ import annotations

import math
import os
import random
import runpy
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedbandits.federation.host import ClientInfo
from fedbandits.federation.local import load_pull, try_trial
from fedbandits.federation.trial import Trial, load_trial
from fedbandits.protocol import MemoryLog, Server, UpdateAccepted
from fedbandits.rules.arrays import FloatArray
from logged_runs import followed
from repository import EXAMPLES

RADIO = EXAMPLES / "cognitive-radio-federation"
RECOMMENDER = EXAMPLES / "recommender-federation"
STATIONS, HOUSEHOLDS = 500, 400


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """Seed what the examples draw, and put everything back afterwards."""
    state = random.getstate()
    random.seed(2021)
    yield
    random.setstate(state)


def ran(*command: str | Path, ratings: Path | None = None) -> subprocess.CompletedProcess[str]:
    settings = {"PYTHONDONTWRITEBYTECODE": "1"}
    if ratings is not None:
        settings["RATINGS_FOLDER"] = str(ratings)
    return subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **settings},
    )


def winner(server: Server) -> str:
    assert server.decision is not None
    assert server.decision.winner is not None
    return server.arms[server.decision.winner]


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if "__pycache__" not in path.parts)


def readme_of(folder: Path) -> str:
    return " ".join((folder / "README.md").read_text(encoding="utf-8").split())


@pytest.mark.parametrize("folder", [RADIO, RECOMMENDER], ids=lambda folder: folder.name)
def test_an_example_states_its_error_probability_and_is_explained(folder: Path) -> None:
    trial = load_trial(folder)
    assert trial.tables["radius"]["delta"] == 0.05
    assert trial.tables["radius"]["dependence"] == "any"
    described = readme_of(folder)
    for path in folder.iterdir():
        if path.suffix in {".py", ".toml"}:
            assert f"`{path.name}`" in described
    assert "δ = 5 %" in described


# Cognitive radio ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def radio() -> dict[str, Any]:
    return runpy.run_path(str(RADIO / "client.py"))


def available(radio: dict[str, Any], channel: str, station: str) -> float:
    """Return the probability that a channel is free at a station, worked out by hand."""
    free = 1.0
    x, y = radio["place_of"](station)
    for mast in radio["TRANSMITTERS"]:
        if mast.channel != channel:
            continue
        distance = math.hypot(mast.at[0] - x, mast.at[1] - y)
        # The same link has the same shadowing.
        shadowing = random.Random(f"{station} {mast.channel} {mast.at}").gauss(0.0, 8.0)
        decibels = mast.power - 68.0 - 35.0 * math.log10(max(distance / 0.1, 1.0)) - shadowing
        # A power that fades by Rayleigh's law is exponential: it exceeds -100 dBm so often.
        free *= 1.0 - mast.duty * math.exp(-1.0 / 10 ** ((decibels + 100.0) / 10.0))
    return free


@pytest.fixture(scope="module")
def availability(radio: dict[str, Any]) -> FloatArray:
    """Return how often each channel is free at each of 500 stations, a row a station."""
    channels = load_trial(RADIO).arms
    return np.array(
        [[available(radio, each, f"client-{m}") for each in channels] for m in range(STATIONS)]
    )


def test_sensing_has_the_law_of_the_map(radio: dict[str, Any]) -> None:
    n = 4000
    for number, channel in enumerate(load_trial(RADIO).arms):
        station = f"client-{number}"
        mean = available(radio, channel, station)
        outcomes = radio["pull"](channel, n, ClientInfo(name=station))
        assert set(outcomes) <= {0.0, 1.0}
        error = math.sqrt(mean * (1.0 - mean) / n)
        assert abs(np.mean(outcomes) - mean) <= 5.0 * error + 1e-9


def test_the_stated_spread_bounds_the_stations(
    radio: dict[str, Any], availability: FloatArray
) -> None:
    trial = load_trial(RADIO)
    assert {mast.channel for mast in radio["TRANSMITTERS"]} == set(trial.arms)
    lowest = min(
        math.prod(1.0 - mast.duty for mast in radio["TRANSMITTERS"] if mast.channel == channel)
        for channel in trial.arms
    )
    # Half of a range is a variance proxy of any law on it.
    assert trial.spread is not None
    assert (1.0 - lowest) / 2.0 <= trial.spread + 1e-12
    assert lowest <= availability.min() <= availability.max() <= 1.0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_stations_find_the_best_channel_of_the_map(availability: FloatArray, seed: int) -> None:
    trial = load_trial(RADIO)
    means = availability.mean(axis=0)
    best = trial.arms[int(means.argmax())]
    # Far from a tie, and not what many stations would choose by themselves.
    assert means.max() - np.sort(means)[-2] > 0.1
    others = availability.max(axis=1) > availability[:, means.argmax()] + 0.05
    assert 0.2 < others.mean() < 0.5
    assert winner(try_trial(trial, load_pull(RADIO), STATIONS, seed=seed)) == best


def test_stations_downtown_would_be_wrong(radio: dict[str, Any], availability: FloatArray) -> None:
    """The winner's own transmitter is next to them."""
    best = int(availability.mean(axis=0).argmax())
    winning = load_trial(RADIO).arms[best]
    (mast,) = (each for each in radio["TRANSMITTERS"] if each.channel == winning)
    near = [math.dist(radio["place_of"](f"client-{m}"), mast.at) < 2.0 for m in range(STATIONS)]
    assert sum(near) >= 10
    assert np.mean(availability[near].argmax(axis=1) != best) >= 0.9


def test_a_channel_that_is_not_on_the_map_is_no_free_channel(tmp_path: Path) -> None:
    shutil.copy(RADIO / "client.py", tmp_path)
    text = (RADIO / "fedbandits.toml").read_text(encoding="utf-8")
    (tmp_path / "fedbandits.toml").write_text(text.replace('"ch48"', '"ch49"'), encoding="utf-8")
    done = ran("-m", "fedbandits", "try", tmp_path, "--clients", "30")
    assert done.returncode == 2
    said = " ".join(done.stderr.split())
    assert '"ch49" is not a channel of the map; add it to TRANSMITTERS' in said
    assert "Traceback" not in said


def test_the_map_is_drawn_with_what_is_true_of_it(tmp_path: Path, availability: FloatArray) -> None:
    before = files_in(EXAMPLES)
    picture = tmp_path / "map.png"
    done = ran(RADIO / "draw_map.py", "--clients", str(STATIONS), "--out", picture)
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    means = availability.mean(axis=0)
    for channel, mean in zip(load_trial(RADIO).arms, means, strict=True):
        assert f"{channel} {mean:.3f}" in done.stdout
    others = np.mean(availability.max(axis=1) > availability[:, means.argmax()] + 0.05)
    assert f"{others:.0%} of the stations would choose another" in done.stdout
    assert f"{100 * others:.0f} % of them would choose another" in readme_of(RADIO)
    assert files_in(EXAMPLES) == before


# Recommender --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ratings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files of all households, made as the example makes them."""
    folder = tmp_path_factory.mktemp("ratings")
    done = ran(RECOMMENDER / "make_data.py", "--clients", str(HOUSEHOLDS), "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder


def local_means(folder: Path, genres: tuple[str, ...]) -> FloatArray:
    """Return each household's average of each genre, on the scale of 0 to 1, a row a household."""
    rows = []
    for number in range(HOUSEHOLDS):
        with closing(sqlite3.connect(folder / f"client-{number}.sqlite")) as file:
            stars = dict(file.execute("SELECT genre, avg(stars) FROM ratings GROUP BY genre"))
        rows.append([(stars[genre] - 0.5) / 4.5 for genre in genres])
    return np.array(rows)


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch, ratings: Path) -> Trial:
    monkeypatch.setenv("RATINGS_FOLDER", str(ratings))
    return load_trial(RECOMMENDER)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_households_find_the_genre_that_they_like_best(
    trial: Trial, ratings: Path, seed: int
) -> None:
    means = local_means(ratings, trial.arms)
    best = int(means.mean(axis=0).argmax())
    others = np.mean(means.argmax(axis=1) != best)
    assert others > 0.4
    assert f"For {100 * others:.0f} % of the households a genre other than" in readme_of(
        RECOMMENDER
    )
    server = try_trial(trial, load_pull(RECOMMENDER), HOUSEHOLDS, seed=seed)
    assert winner(server) == trial.arms[best]
    # Of these households, not of others like them: with all of them in, no spread is left open.
    assert trial.population == HOUSEHOLDS
    assert server.decision is not None
    estimate, width = server.decision.estimates[best], server.decision.widths[best]
    assert abs(estimate - means.mean(axis=0)[best]) <= width


def test_draws_are_independent_and_from_the_own_ratings(trial: Trial, ratings: Path) -> None:
    pull = load_pull(RECOMMENDER)
    n = 4000
    for number, genre in enumerate(trial.arms):
        name = f"client-{number}"
        with closing(sqlite3.connect(ratings / f"{name}.sqlite")) as file:
            found = file.execute("SELECT stars FROM ratings WHERE genre = ?", (genre,)).fetchall()
        own = [(stars - 0.5) / 4.5 for (stars,) in found]
        drawn = np.array(pull(genre, n, ClientInfo(name=name)))
        assert 5 <= len(own) <= 25
        assert set(drawn) == set(own)  # a value is missed with probability (24/25)^4000
        assert 0.0 <= drawn.min() <= drawn.max() <= 1.0
        assert abs(drawn.mean() - np.mean(own)) <= 5.0 * np.std(own) / math.sqrt(n) + 1e-9
        # Pairs of draws are as uncorrelated as those with replacement are.
        scaled = (drawn - drawn.mean()) / (drawn.std() or 1.0)
        assert abs(np.mean(scaled[1:] * scaled[:-1])) <= 5.0 / math.sqrt(n)


def test_ratings_stay_where_they_are(trial: Trial, ratings: Path) -> None:
    before = {path: path.read_bytes() for path in files_in(ratings)}
    log = MemoryLog()
    try_trial(trial, load_pull(RECOMMENDER), HOUSEHOLDS, log=log)
    updates = [record.update for record in log if isinstance(record, UpdateAccepted)]
    assert len(updates) >= HOUSEHOLDS
    for update in updates:
        played = sum(count > 0 for count in update.counts)
        # A byte for the mean of each genre that was drawn from, and nothing else that varies.
        assert len(update.packed) == played
        assert set(update.counts) <= {0, 20}
        assert (update.means, update.squares, update.clipped) == ((), None, 0)
    # Nor is anything written, a journal for instance.
    assert {path: path.read_bytes() for path in files_in(ratings)} == before


def test_made_up_ratings_are_the_same_for_the_same_seed(tmp_path: Path, ratings: Path) -> None:
    made = runpy.run_path(str(RECOMMENDER / "make_data.py"))
    again = made["films_of"](random.Random("1 3"))
    with closing(sqlite3.connect(ratings / "client-3.sqlite")) as file:
        assert list(file.execute("SELECT title, genre, stars FROM ratings")) == again
    assert made["films_of"](random.Random("2 3")) != again
    assert set(made["LIKING"]) == set(load_trial(RECOMMENDER).arms)


def test_a_missing_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    done = ran("-m", "fedbandits", "try", RECOMMENDER, "--clients", "30", ratings=tmp_path)
    assert done.returncode == 2
    said = " ".join(done.stderr.split())
    assert "client-" in said
    assert ".sqlite does not exist; write it with make_data.py" in said
    assert "RATINGS_FOLDER" in said
    assert "Traceback" not in said
    assert files_in(tmp_path) == []


def test_a_missing_genre_is_named_with_its_file(tmp_path: Path, ratings: Path) -> None:
    for number in range(3):
        shutil.copy(ratings / f"client-{number}.sqlite", tmp_path)
        with closing(sqlite3.connect(tmp_path / f"client-{number}.sqlite")) as file, file:
            file.execute("DELETE FROM ratings WHERE genre = 'horror'")
    done = ran("-m", "fedbandits", "try", RECOMMENDER, "--clients", "30", ratings=tmp_path)
    assert done.returncode == 2
    said = " ".join(done.stderr.split())
    assert '.sqlite has no rating of "horror"; a client needs at least one' in said
    assert "Traceback" not in said


def test_without_a_variable_the_files_are_next_to_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ratings: Path
) -> None:
    monkeypatch.delenv("RATINGS_FOLDER", raising=False)
    (tmp_path / "data").mkdir()
    for name in ("client.py", "fedbandits.toml"):
        shutil.copy(RECOMMENDER / name, tmp_path)
    for number in range(40):
        shutil.copy(ratings / f"client-{number}.sqlite", tmp_path / "data")
    trial = replace(load_trial(tmp_path), max_phases=1)
    server = try_trial(trial, load_pull(tmp_path), 40)
    assert len(server.clients) == 40


# With liars ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder", "clients", "best"),
    [(RADIO, STATIONS, "ch34"), (RECOMMENDER, HOUSEHOLDS, "drama")],
    ids=lambda value: getattr(value, "name", None),
)
def test_liars_change_no_answer_and_show_up_in_the_hint(
    monkeypatch: pytest.MonkeyPatch, ratings: Path, folder: Path, clients: int, best: str
) -> None:
    monkeypatch.setenv("RATINGS_FOLDER", str(ratings))
    trial, lying = load_trial(folder / "liars"), runpy.run_path(str(folder / "liars/client.py"))
    assert trial.arms == load_trial(folder).arms
    assert (lying["BEST"], trial.population) == (best, clients)
    allowed = trial.tables["liars"]
    assert len(lying["LIARS"]) == allowed
    log = MemoryLog()
    server = try_trial(trial, load_pull(folder / "liars"), clients, seed=1, log=log)
    assert winner(server) == best
    assert server.run_state.guarantee.error == 0.05
    assert set(server.clients) > lying["LIARS"]
    course = followed("liars", trial, log).status().course
    found = {one.name: one.compared for one in course.clients if one.compared is not None}
    assert len(found) == clients
    shares = {name: one.share for name, one in found.items()}
    expected = 2 * allowed / clients
    # They decry the leader and praise all others, so that they are at the low end everywhere.
    assert all(shares[name] > 0.9 for name in lying["LIARS"])
    honest = [share for name, share in shares.items() if name not in lying["LIARS"]]
    assert 0.0 < np.mean(honest) < expected
    # Of some honest clients it is far more, too: a hint, and no verdict.
    assert max(honest) > 3 * expected
    described = readme_of(folder)
    assert "`liars/`" in described
    assert f"{allowed} of the {clients}" in described
