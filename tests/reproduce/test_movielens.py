"""MovieLens: the facts that ship, and data that a user brings in. No real data is needed here."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedbandits.cli import data as command
from fedbandits.cli.printing import RunInterruptedError
from fedbandits.errors import InputError
from fedbandits.problems import Empirical, Exact, Gaussian, best_arm, gap
from fedbandits.reproduce.movielens import container, hetrec
from fedbandits.reproduce.movielens.container import data_directory
from fedbandits.reproduce.movielens.groups import as_released, group_means
from fedbandits.reproduce.movielens.hetrec import group_ratings, read_ratings, split_movies
from fedbandits.reproduce.movielens.store import (
    Imported,
    import_data,
    imported,
    load_real_clients,
    load_real_ratings,
)
from fedbandits.simulation import simulate
from rating_files import DATED, MOVIES, RATINGS, STAMPED, folder, matrix, table

ARCHIVE = "hetrec2011-movielens-2k-v2.zip"


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members.items():
            packed.writestr(name, content)
    return path


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the data directory, which everything uses by default."""
    monkeypatch.setenv("FEDBANDITS_DATA", str(tmp_path / "store"))
    return tmp_path / "store"


# What ships


def test_the_group_means_are_the_facts_of_the_paper() -> None:
    means = group_means()
    assert means.shape == (100,)
    best, second, lowest = np.sort(means)[[-1, -2, 0]]
    assert [round(float(mean), 5) for mean in (best, second, lowest)] == [0.36397, 0.35865, 0.33671]
    assert best - second == pytest.approx(0.0053182, abs=5e-8)
    assert not means.flags.writeable


def test_as_released_draws_local_means_around_the_group_means() -> None:
    game = as_released(spread=0.1)
    assert (game.spread, game.noise, game.population) == (Gaussian(0.1), Gaussian(0.2), None)
    np.testing.assert_array_equal(game.means, group_means())
    assert as_released(spread=0.02, noise=0.5, name="other").noise == Gaussian(0.5)
    with pytest.raises(InputError, match="sigma: -1"):
        as_released(spread=-1)


# Reading an archive


def assert_same(found: hetrec.Ratings, ratings: list[tuple[int, int, float]] = RATINGS) -> None:
    rows = zip(
        found.users.tolist(), found.movies.tolist(), (found.levels / 2).tolist(), strict=True
    )
    assert sorted(rows) == sorted(ratings)


@pytest.mark.parametrize("name", [DATED, STAMPED])
@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_variant_of_the_file_says_the_same(
    tmp_path: Path, name: str, header: bool, end: str
) -> None:
    content = table(name=name, header=header, end=end)
    members = {name: content, "movies.dat": MOVIES.encode("iso-8859-1"), "readme.txt": b"\xff"}
    inside = {f"hetrec2011/{member}": text for member, text in members.items()}
    places = [
        folder(tmp_path / "flat", content, name),
        folder(tmp_path / "above" / "hetrec2011", content, name).parent,
        folder(tmp_path / "far" / "above" / "hetrec2011", content, name).parent.parent,
        tmp_path / "flat" / name,
        zipped(tmp_path / ARCHIVE, members),
        zipped(tmp_path / "inside.zip", inside),
    ]
    for place in places:
        found = read_ratings(place)
        assert_same(found)
        # Movie 12 is listed and never rated.
        assert found.catalogue.tolist() == list(range(1, 13))


def test_other_liberties_of_the_file(tmp_path: Path) -> None:
    # A byte order mark, no line end at the end, blank lines, 3.0 for 3, three columns, no movies.
    content = b"\xef\xbb\xbf1\t5\t3.0\n\n2\t5\t0.5\r\n2\t700\t5"
    place = tmp_path / DATED
    place.write_bytes(content)
    found = read_ratings(place)
    assert_same(found, [(1, 5, 3.0), (2, 5, 0.5), (2, 700, 5.0)])
    assert found.catalogue.tolist() == [5, 700]


def test_of_both_files_the_first_is_read(tmp_path: Path) -> None:
    place = folder(tmp_path / "both")
    (place / STAMPED).write_bytes(b"nonsense")
    assert_same(read_ratings(place))


def test_lines_are_the_same_wherever_the_buffers_end(tmp_path: Path) -> None:
    many = [(user, movie, 3.5) for user in range(1, 500) for movie in range(1, 20)]
    content = table(many, end="\r\n")
    assert len(content) > 20 * io.DEFAULT_BUFFER_SIZE
    assert_same(read_ratings(folder(tmp_path / "plain", content)), many)
    assert_same(read_ratings(zipped(tmp_path / ARCHIVE, {DATED: content})), many)


def test_a_movie_rated_again_counts_once_with_the_later_rating(tmp_path: Path) -> None:
    place = tmp_path / DATED
    place.write_bytes(table([(1, 1, 2.0), (2, 1, 3.0), (1, 1, 4.5), (1, 2, 1.0)]))
    found = read_ratings(place)
    assert_same(found, [(1, 1, 4.5), (1, 2, 1.0), (2, 1, 3.0)])
    assert found.repeated == 1


GOOD = b"75\t3\t1\t1162160236000\n"


@pytest.mark.parametrize(
    ("bad", "line", "problem"),
    [
        (GOOD + b"75\t4\t1\n", 2, "'75\\t4\\t1' has 3 fields separated by tabs where 4 belong"),
        (GOOD + b"75 4 1 5\n", 2, "1 fields separated by tabs where 4 belong"),
        (b"75\t3\n", 1, "2 fields separated by tabs where 3 belong"),
        (GOOD + b"75\t4\t6\t1\n", 2, "rating '6'; ratings go from 0.5 to 5 in steps of 0.5"),
        (GOOD + b"75\t4\t0\t1\n", 2, "rating '0'"),
        (GOOD + b"75\t4\t3.25\t1\n", 2, "rating '3.25'"),
        (GOOD + b"75\t4\tnan\t1\n", 2, "rating 'nan'"),
        (GOOD + b"75\t4\t\t1\n", 2, "rating ''"),
        (GOOD + b"-75\t4\t1\t1\n", 2, "user '-75' is not the number of a user"),
        (GOOD + b"75\tni\xf1o\t1\t1\n", 2, "movie 'niño' is not the number of a movie"),
        (GOOD + b"9" * 19 + b"\t4\t1\t1\n", 2, "is not the number of a user"),
        (b"user\tmovie\tstars\n" + GOOD, 1, "rating 'stars'"),
        (GOOD + b"\n" + GOOD.replace(b"1\t1", b"x\t1"), 3, "rating 'x'"),
        (b"\x00" * 70_000, 1, "is longer than 65,536 bytes; this is not a HetRec file"),
        (b"", None, "holds no ratings"),
        (table([]), None, "holds no ratings"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, bad: bytes, line: int | None, problem: str) -> None:
    for place, name in (
        (folder(tmp_path / "plain", bad, STAMPED), str(tmp_path / "plain" / STAMPED)),
        (zipped(tmp_path / "x.zip", {STAMPED: bad}), f"{tmp_path / 'x.zip'}, {STAMPED}"),
    ):
        with pytest.raises(InputError) as caught:
            read_ratings(place)
        assert caught.value.where == (name if line is None else f"{name}, line {line}")
        assert problem in caught.value.problem
        assert len(str(caught.value).splitlines()) == 1


def test_a_bad_line_of_the_movies_is_named(tmp_path: Path) -> None:
    place = folder(tmp_path / "plain")
    (place / "movies.dat").write_bytes("1\tQué\nQué\t1\n".encode("iso-8859-1"))
    with pytest.raises(InputError, match=r"movies\.dat, line 2: movie 'Qué' is not the number"):
        read_ratings(place)


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_bytes(b"hello")
    (tmp_path / "broken.zip").write_bytes(
        zipped(tmp_path / "a.zip", {DATED: table()}).read_bytes()[:99]
    )
    folder(tmp_path / "two" / "a")
    folder(tmp_path / "two" / "b")
    refused = {
        "nowhere": "cannot be read: No such file or directory",
        "empty": f"holds no {DATED} or {STAMPED}",
        "text.txt": "is not a HetRec zip file or folder",
        "broken.zip": "is not a zip file, or not all of one",
        "two": "holds ratings in 2 folders: a, b; give one of them",
    }
    for name, problem in refused.items():
        with pytest.raises(InputError) as caught:
            import_data(tmp_path / name)
        assert caught.value.where == str(tmp_path / name)
        assert problem in caught.value.problem
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("name", [f"../{DATED}", f"/{DATED}", f"a/../../{DATED}", "C:\\x", "..\\x"])
def test_names_that_point_out_of_the_archive_are_refused(tmp_path: Path, name: str) -> None:
    place = zipped(tmp_path / "evil.zip", {DATED: table(), name: b""})
    with pytest.raises(InputError, match="outside the archive"):
        read_ratings(place)


def test_a_damaged_member_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "stored.zip"
    with zipfile.ZipFile(place, "w") as packed:  # not compressed, so that its bytes can be found
        packed.writestr(DATED, table())
    whole = place.read_bytes()
    at = whole.index(b"\t2006\t")
    place.write_bytes(whole[:at] + b"\t2007\t" + whole[at + 6 :])
    with pytest.raises(InputError, match=rf"stored\.zip, {DATED}: is damaged: Bad CRC-32"):
        read_ratings(place)


def test_unusual_packing_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "other.zip"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_BZIP2) as packed:
        packed.writestr(DATED, table())
    with pytest.raises(InputError, match="unusual way; unpack it"):
        read_ratings(place)
    zipped(place, {DATED: table()})
    locked = bytearray(place.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        locked[locked.index(mark) + offset] |= 1  # says that it has a password
    place.write_bytes(locked)
    with pytest.raises(InputError, match=r"cannot be unpacked: .*password"):
        read_ratings(place)


def test_what_unpacks_to_something_enormous_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hetrec, "MOST_BYTES", 2**20)
    place = zipped(tmp_path / "bomb.zip", {DATED: b"\n" * 2**22})
    assert place.stat().st_size < 2**14
    with pytest.raises(InputError, match="has more than 1 MiB"):
        read_ratings(place)
    monkeypatch.setattr(hetrec, "MOST_MEMBERS", 1)
    with pytest.raises(InputError, match="holds 2 files"):
        read_ratings(zipped(tmp_path / "many.zip", {DATED: b"", "x": b""}))
    monkeypatch.setattr(hetrec, "MOST_RATINGS", 5)
    with pytest.raises(InputError, match="line 7: more than 5 ratings"):
        read_ratings(folder(tmp_path / "long"))


# Groups


def test_movies_are_split_evenly_and_by_the_seed() -> None:
    first = split_movies(103, n_groups=10, seed=0)
    assert sorted(np.bincount(first).tolist()) == [10] * 7 + [11] * 3
    np.testing.assert_array_equal(first, split_movies(103, n_groups=10, seed=0))
    assert (first != split_movies(103, n_groups=10, seed=1)).any()


@pytest.mark.parametrize(
    ("n_groups", "seed", "problem"),
    [
        (1, 0, "groups: 1 is no game"),
        (13, 0, "groups: 13 groups of 12 movies"),
        (2, -1, "seed: -1 is negative"),
    ],
)
def test_groups_that_cannot_be_are_refused(n_groups: int, seed: int, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        split_movies(12, n_groups=n_groups, seed=seed)


def lists_by_client(ratings: list[tuple[int, int, float]], seed: int) -> list[list[list[float]]]:
    """Return the ratings of the users who rated all of four groups, the slow and plain way."""
    group_of = split_movies(12, n_groups=4, seed=seed).tolist()
    lists: dict[int, list[list[float]]] = defaultdict(lambda: [[], [], [], []])
    for user, movie, rating in ratings:
        lists[user][group_of[movie - 1]].append(rating)
    return [rows for _, rows in sorted(lists.items()) if all(rows)]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_only_users_who_rated_every_group_take_part(tmp_path: Path, store: Path, seed: int) -> None:
    lists = lists_by_client(RATINGS, seed)
    assert 0 < len(lists) < 9
    grouped = group_ratings(read_ratings(folder(tmp_path / "plain")), n_groups=4, seed=seed)
    assert grouped.shape == (len(lists), 4, 10)
    for counts, rows in zip(grouped, lists, strict=True):
        for levels, ratings in zip(counts, rows, strict=True):
            assert np.repeat(np.arange(1, 11) / 2, levels).tolist() == sorted(ratings)
    # The game is that of the lists.
    assert import_data(tmp_path / "plain", seed=seed, n_groups=4).users == 9
    game = load_real_ratings()
    plain = Exact.from_observations([[[r / 5 for r in cell] for cell in row] for row in lists])
    assert game is not None
    assert isinstance(game.noise, Empirical)
    assert isinstance(plain.noise, Empirical)
    np.testing.assert_allclose(game.table, plain.table, rtol=1e-14)
    np.testing.assert_array_equal(game.noise.support, plain.noise.support)
    np.testing.assert_array_equal(game.noise.probabilities, plain.noise.probabilities)
    np.testing.assert_array_equal(game.noise.sizes, plain.noise.sizes)


def test_too_many_groups_for_anybody_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    place = folder(tmp_path / "plain")
    with pytest.raises(InputError, match=r"no user rated .* 12 groups \(at most 11 of them\); ask"):
        import_data(place, n_groups=12)
    with pytest.raises(InputError, match="groups: 100 groups of 12 movies"):
        import_data(place)


def test_the_order_of_lines_makes_no_difference(tmp_path: Path) -> None:
    shuffled = [RATINGS[place] for place in np.random.default_rng(1).permutation(len(RATINGS))]
    first = group_ratings(read_ratings(folder(tmp_path / "a")), n_groups=4, seed=3)
    second = group_ratings(
        read_ratings(folder(tmp_path / "b", table(shuffled))), n_groups=4, seed=3
    )
    np.testing.assert_array_equal(first, second)


def test_the_rows_of_a_matrix_are_the_clients(tmp_path: Path, store: Path) -> None:
    found = import_data(matrix(tmp_path / "means.npy"))
    assert (found.kind, found.users, found.clients, found.groups) == ("matrix", 4, 4, 3)
    assert (found.movies, found.seed) == (None, None)
    values = np.load(tmp_path / "means.npy")
    assert found.best_arm == 2
    assert found.gap == pytest.approx(0.5875 - 0.475)
    assert found.spread == pytest.approx(values.std(axis=0, ddof=1).mean())
    game = load_real_clients()
    assert game is not None
    np.testing.assert_array_equal(game.table, values)
    assert (game.noise, game.population) == (Gaussian(0.2), 4)
    assert load_real_ratings() is None  # a matrix has no ratings
    loud = load_real_clients(noise=0.5)
    assert loud is not None
    assert loud.noise == Gaussian(0.5)


def test_other_floats_and_orders_are_read_too(tmp_path: Path) -> None:
    values = np.asfortranarray(np.array([[0.5, 0.25], [0.75, 1.0], [0.0, 0.125]], dtype=">f4"))
    import_data(matrix(tmp_path / "m.npy", values), n_groups=2)
    game = load_real_clients()
    assert game is not None
    assert game.table.dtype == np.float64
    np.testing.assert_array_equal(game.table, values)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([0.1, 0.2], "has shape (2,); it needs one row per user and one column per group"),
        ([[0.1], [0.2]], "has shape (2, 1)"),
        (np.zeros((0, 3)), "has shape (0, 3)"),
        ([[1, 0], [0, 1]], "; it needs floats in [0, 1]"),
        ([[0.1, 0.2], [0.3, 1.01]], "row 1, column 1: 1.01 is not in [0, 1]"),
        ([[0.1, -0.2], [0.3, 1.0]], "row 0, column 1: -0.2 is not in [0, 1]"),
        ([[0.1, 0.2], [np.nan, 1.0]], "row 1, column 0: nan is not in [0, 1]"),
        ([[0.1, np.inf]], "row 0, column 1: inf is not in [0, 1]"),
    ],
)
def test_other_matrices_are_refused(tmp_path: Path, values: object, problem: str) -> None:
    place = matrix(tmp_path / "m.npy", values)
    with pytest.raises(InputError) as caught:
        import_data(place)
    assert str(caught.value).startswith(str(place))
    assert problem in str(caught.value)


def test_files_that_are_no_plain_matrix_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "pickled.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    whole = matrix(tmp_path / "whole.npy").read_bytes()
    (tmp_path / "short.npy").write_bytes(whole[:-8])
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "text.npy").write_bytes(b"0.1 0.2\n")
    claims = whole.replace(b"(4, 3)", b"(4000000000, 3)")[: len(whole)]
    (tmp_path / "huge.npy").write_bytes(claims)
    np.savez(tmp_path / "packed.npz", np.zeros((2, 2)))
    for name in ("pickled", "short", "empty", "text", "huge"):
        with pytest.raises(InputError, match=r"is not a plain \.npy file"):
            import_data(tmp_path / f"{name}.npy")
    with pytest.raises(InputError, match=f"holds no {DATED}"):
        import_data(tmp_path / "packed.npz")
    with pytest.raises(
        InputError, match="groups: is 5, but the matrix has 3 columns; leave it out"
    ):
        import_data(tmp_path / "whole.npy", n_groups=5)


# The store


def ratings_archive(tmp_path: Path) -> Path:
    return zipped(tmp_path / ARCHIVE, {DATED: table(), "movies.dat": MOVIES.encode("iso-8859-1")})


def test_nothing_imported_is_none(store: Path) -> None:
    assert imported() == ()
    assert load_real_clients() is None
    assert load_real_ratings() is None
    assert not store.exists()


def test_an_import_says_what_it_found(tmp_path: Path, store: Path) -> None:
    found = import_data(ratings_archive(tmp_path), seed=2, n_groups=4)
    game = load_real_clients()
    assert game is not None
    n_clients = len(lists_by_client(RATINGS, 2))
    assert found == Imported(
        kind="ratings",
        source=ARCHIVE,
        file=store / "movielens-ratings.npz",
        users=9,
        clients=n_clients,
        movies=12,
        movies_rated=11,
        ratings=len(RATINGS),
        repeated=0,
        seed=2,
        groups=4,
        gap=gap(game),
        spread=float(game.table.std(axis=0, ddof=1).mean()),
        best_arm=best_arm(game),
    )
    assert imported() == (found,)
    report = found.report()
    for text in (
        ARCHIVE,
        "12, of which 11 were rated",
        "4, movies split at random with seed 2",
        f"{n_clients}: the users who rated a movie of every group; the other {9 - n_clients} are",
        f"{found.gap:.4g}, between arm {found.best_arm}",
        str(store / "movielens-ratings.npz"),
    ):
        assert text in report
    # Only the store itself is left behind.
    assert [file.name for file in store.iterdir()] == ["movielens-ratings.npz"]


def test_ratings_left_out_are_reported(tmp_path: Path, store: Path) -> None:
    again = [*RATINGS, RATINGS[0]]
    found = import_data(folder(tmp_path / "plain", table(again)), n_groups=2)
    assert (found.ratings, found.repeated) == (len(RATINGS), 1)
    assert "after 1 were left out because the user rated again later" in found.report()


def test_the_same_import_gives_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ratings_archive(tmp_path)

    def content(directory: str, seed: int) -> bytes:
        monkeypatch.setenv("FEDBANDITS_DATA", str(tmp_path / directory))
        found = import_data(place, seed=seed, n_groups=4)
        return found.file.read_bytes()

    first = content("a", 5)
    assert content("b", 5) == first
    assert content("b", 6) != first
    assert content("b", 5) == first  # replaced again


def test_matrix_and_ratings_stand_side_by_side(tmp_path: Path, store: Path) -> None:
    import_data(ratings_archive(tmp_path), n_groups=4)
    ratings = load_real_clients()
    import_data(matrix(tmp_path / "means.npy"))
    assert [found.kind for found in imported()] == ["matrix", "ratings"]
    either, chosen, own = (
        load_real_clients(),
        load_real_clients(kind="ratings"),
        load_real_ratings(),
    )
    assert either is not None
    assert chosen is not None
    assert ratings is not None
    assert own is not None
    assert either.table.shape == (4, 3)  # the matrix goes first
    np.testing.assert_array_equal(chosen.table, ratings.table)
    np.testing.assert_array_equal(own.table, ratings.table)
    assert own.table.min() >= 0.1
    assert own.table.max() <= 1


def test_the_games_can_be_played(tmp_path: Path, store: Path) -> None:
    import fedbandits as fb

    import_data(ratings_archive(tmp_path), n_groups=3)
    for game in (load_real_clients(), load_real_ratings()):
        assert game is not None
        variant = fb.Fed1Ucb(pulls=20, clients=game.population)
        run = simulate(game, variant, horizon=2000, replications=5, seed=1)
        assert run.games.winner.shape == (5,)


def test_a_failed_import_leaves_the_former_one(tmp_path: Path, store: Path) -> None:
    found = import_data(ratings_archive(tmp_path), n_groups=4)
    with pytest.raises(InputError):
        import_data(folder(tmp_path / "bad", GOOD + b"75\t4\n", STAMPED), n_groups=2)
    assert imported() == (found,)


def test_any_flipped_byte_is_noticed_or_changes_nothing(tmp_path: Path) -> None:
    file = import_data(matrix(tmp_path / "m.npy")).file
    whole = file.read_bytes()
    intact = container.read_container(file)
    assert intact is not None
    errors = []
    for place in range(len(whole)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            found = container.read_container(file)
        except InputError as error:
            errors.append(error)
        else:  # a time stamp in the zip file, for example
            assert found is not None
            assert found[0] == intact[0]
            np.testing.assert_array_equal(found[1], intact[1])
    assert len(errors) > len(whole) / 2
    assert {error.where for error in errors} == {str(file)}
    assert all(container.AGAIN in error.problem for error in errors)


def rewritten(file: Path, **parts: bytes) -> None:
    """Write a store with other parts than it had."""
    with zipfile.ZipFile(file) as packed:
        members = {name: packed.read(name) for name in packed.namelist()}
    zipped(file, {**members, **{f"{name}.npy": part for name, part in parts.items()}})


def npy(tmp_path: Path, values: object) -> bytes:
    np.save(tmp_path / "part.npy", np.asarray(values))
    return (tmp_path / "part.npy").read_bytes()


def test_a_damaged_store_is_refused_everywhere(tmp_path: Path, store: Path) -> None:
    file = import_data(ratings_archive(tmp_path), n_groups=4).file
    whole = file.read_bytes()
    loaded = container.read_container(file)
    assert loaded is not None
    changed = loaded[1].copy()
    changed[0, 0, 0] += 1

    def with_facts(text: str) -> None:
        rewritten(file, facts=npy(tmp_path, np.frombuffer(text.encode(), dtype=np.uint8)))

    damages: dict[str, Callable[[], object]] = {
        "its hash is another one": lambda: rewritten(file, table=npy(tmp_path, changed)),
        "is damaged": lambda: file.write_bytes(whole[:-30]),
        "is damaged (": lambda: file.write_bytes(b""),
        "has version 2 where 1 is known": lambda: with_facts(
            '{"format": "fedbandits-movielens", "version": 2}'
        ),
        "is not a file of imported MovieLens data": lambda: with_facts('["else"]'),
    }
    for problem, damage in damages.items():
        file.write_bytes(whole)
        damage()
        for load in (load_real_clients, load_real_ratings, imported):
            with pytest.raises(InputError) as caught:
                load()
            assert caught.value.where == str(file)
            assert problem in caught.value.problem
    # An import once more mends it.
    import_data(ratings_archive(tmp_path), n_groups=4)
    assert file.read_bytes() == whole


def test_a_store_under_another_name_is_refused(tmp_path: Path, store: Path) -> None:
    import_data(matrix(tmp_path / "m.npy")).file.rename(store / "movielens-ratings.npz")
    with pytest.raises(InputError, match="holds a matrix, not what it says"):
        load_real_ratings()


def test_a_directory_that_cannot_be_written_is_an_error_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = matrix(tmp_path / "m.npy")
    monkeypatch.setenv("FEDBANDITS_DATA", str(blocked))
    with pytest.raises(InputError, match=r"cannot be written: .*; set FEDBANDITS_DATA to another"):
        import_data(blocked)
    with pytest.raises(InputError, match="cannot be read"):
        load_real_clients()


def test_where_data_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    absolute = str(tmp_path / "xdg")
    assert data_directory(environ={"FEDBANDITS_DATA": "here", "XDG_DATA_HOME": absolute}) == Path(
        "here"
    )
    shared = tmp_path / ".local" / "share" / "fedbandits"
    for environ, platform, expected in (
        ({"XDG_DATA_HOME": absolute}, "linux", tmp_path / "xdg" / "fedbandits"),
        ({"XDG_DATA_HOME": "relative"}, "linux", shared),
        ({"FEDBANDITS_DATA": ""}, "linux", shared),
        ({}, "darwin", tmp_path / "Library" / "Application Support" / "fedbandits"),
        ({"LOCALAPPDATA": absolute}, "win32", tmp_path / "xdg" / "fedbandits"),
        ({}, "win32", tmp_path / "AppData" / "Local" / "fedbandits"),
    ):
        assert data_directory(environ=environ, platform=platform) == expected


# The command


def test_the_command_imports_and_shows(tmp_path: Path, store: Path) -> None:
    runner = CliRunner()
    before = runner.invoke(command.app, ["show"])
    assert before.exit_code == 0
    assert f"no data imported in {store}" in before.output
    assert "fedbandits data import PATH" in before.output
    place = str(ratings_archive(tmp_path))
    done = runner.invoke(command.app, ["import", place, "--groups", "4", "--seed", "2"])
    assert done.exit_code == 0, done.output
    (found,) = imported()
    assert (found.groups, found.seed) == (4, 2)
    assert done.output == found.report() + "\n"
    assert runner.invoke(command.app, ["import", str(matrix(tmp_path / "m.npy"))]).exit_code == 0
    shown = runner.invoke(command.app, ["show"])
    assert shown.output == "".join(found.report() + "\n" for found in imported())


def test_the_command_lets_errors_through_and_refuses_wrong_usage(
    tmp_path: Path, store: Path
) -> None:
    runner = CliRunner()
    failed = runner.invoke(command.app, ["import", str(tmp_path / "nowhere.zip")])
    assert isinstance(failed.exception, InputError)  # which the command turns into one line
    for words in (["import"], ["import", "x", "--groups", "1"], ["import", "x", "--seed", "-1"]):
        assert runner.invoke(command.app, words).exit_code == 2


def test_an_interrupted_import_says_so(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fedbandits.reproduce.movielens.store.import_data", interrupted)
    done = CliRunner().invoke(command.app, ["import", "x"])
    assert isinstance(done.exception, RunInterruptedError)  # which the command turns into one line
    assert str(done.exception) == "nothing was written"


def test_the_help_imports_nothing_heavy() -> None:
    script = (
        "import sys, fedbandits.cli.data as data\n"
        "data.app(['import', '--help'], standalone_mode=False)\n"
        "print('LOADED', [name for name in ('numpy', 'scipy') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert "HetRec-2011 zip file" in done.stdout
    assert "default: (100)" in done.stdout
    assert done.stdout.splitlines()[-1] == "LOADED []"
