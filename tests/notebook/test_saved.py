"""What is saved is read back, the same to the last bit; nothing in a file is run."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import fedbandits as fb
import golden
from fedbandits import registry
from fedbandits.notebook.saved import read_value, write_value
from fedbandits.notebook.viewed import Viewed
from fedbandits.protocol import Answer
from fedbandits.simulation import build_rules
from viewed_values import every, experiment, simulation


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> list[Viewed]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedbandits.planning.search._effort", lambda _: (3, 5, 64))
        return every(tmp_path_factory.mktemp("sweep"))


@pytest.mark.parametrize("place", range(5))
def test_what_is_saved_is_read_back(values: list[Viewed], place: int, tmp_path: Path) -> None:
    value = values[place]
    path = value.save(tmp_path / "saved.fed")
    again = type(value).load(path)
    assert type(again) is type(value)
    assert repr(again) == repr(value)
    for name in value.tables:
        assert again.columns(name) == value.columns(name)
    assert again.shown() == value.shown()
    assert again.chart() == value.chart()
    # Once more gives the same file: nothing is lost on the way.
    assert again.save(tmp_path / "again.fed").read_bytes() == path.read_bytes()


def test_arrays_are_the_same_to_the_last_bit(tmp_path: Path) -> None:
    run = simulation()
    again = fb.Simulation.load(run.save(tmp_path / "run.fed"))
    for field in fields(run.games):
        one, two = getattr(run.games, field.name), getattr(again.games, field.name)
        if isinstance(one, np.ndarray):
            assert one.dtype == two.dtype
            assert one.tobytes() == two.tobytes()
            assert one.shape == two.shape
        else:
            assert one == two
    assert again.games.trace is not None


def test_results_keep_what_variants_share(tmp_path: Path) -> None:
    results = experiment().run(workers=1)
    again = fb.Results.load(results.save(tmp_path / "run.fed"))
    assert again.summary() == results.summary()
    one, two = again.experiment.variants
    assert one.problem is two.problem
    assert again.simulations[0].variant is one


def test_every_rule_of_the_golden_games_can_be_saved(tmp_path: Path) -> None:
    known = json.loads(golden.FILE.read_text(encoding="utf-8"))
    settings = golden.settings()
    # What is drawn is no part of a rule: one fidelity of each is enough.
    different = {
        (type(one.problem), repr(one.algorithm), repr(one.privacy)): one
        for one in map(settings.__getitem__, known)
    }
    assert len(different) > 50
    for setting in different.values():
        variant = fb.Variant(
            label=setting.name,
            problem=setting.problem,
            algorithm=setting.algorithm,
            fidelity=setting.fidelity,
            assume=setting.assume or fb.Assume(),
            privacy=setting.privacy,
            max_clients=setting.max_clients,
            max_phases=setting.max_phases,
        )
        whole = variant, build_rules([variant], setting.horizon)
        again = read_value(write_value(whole, tmp_path / "whole.fed"))
        assert repr(again) == repr(whole)


def test_one_kind_is_not_taken_for_another(values: list[Viewed], tmp_path: Path) -> None:
    path = values[-1].save(tmp_path / "answer.fed")
    assert isinstance(Answer.load(path), Answer)
    with pytest.raises(fb.InputError, match=r"holds Answer, not Plan; use Answer\.load"):
        fb.Plan.load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file"),
        (b"", "is not a file that save"),
        (b"PK\x03\x04 nothing", "is not a file that save"),
        (b"hello", "is not a file that save"),
    ],
)
def test_what_is_no_such_file_is_refused(
    content: bytes | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "saved.fed"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(fb.InputError, match=message):
        fb.Results.load(path)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = simulation().save(tmp_path / "run.fed")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(fb.InputError, match="is damaged"):
        fb.Simulation.load(path)


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "run.fed"
    path.write_bytes(b"before")
    with pytest.raises(fb.InputError, match=r"tuple\[0\]: a object cannot be saved"):
        write_value((object(),), path)
    with pytest.raises(fb.InputError, match="cannot be written"):
        simulation().save(tmp_path / "missing" / "run.fed")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def _write(path: Path, value: Any, version: int = 1) -> Path:
    text = {"format": version, "fedbandits": "9.9", "value": value}
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, value=np.array(json.dumps(text)))
    return path


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "subprocess:Popen",
        "builtins:eval",
        "no.such:Class",
        "pathlib:Path",
        "fedbandits.no:Such",
    ],
)
def test_a_file_makes_nothing_that_is_no_part(name: str, tmp_path: Path) -> None:
    path = _write(tmp_path / "evil.fed", {"class": name, "fields": {}})
    with pytest.raises(fb.InputError, match="which is not loaded; import or load what registers"):
        read_value(path)


@pytest.mark.parametrize(
    "name", ["fedbandits.federation.user_code:sys.exit", "fedbandits.simulation:simulate"]
)
def test_a_file_calls_no_function_of_the_package(name: str, tmp_path: Path) -> None:
    path = _write(tmp_path / "evil.fed", {"class": name, "fields": {}})
    with pytest.raises(fb.InputError, match="which is not loaded"):
        read_value(path)


def test_pickled_objects_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "pickled.fed"
    with path.open("wb") as file:
        np.savez(file, value=np.array([object()], dtype=object))
    assert zipfile.is_zipfile(path)
    with pytest.raises(fb.InputError, match="is not a file that save"):
        read_value(path)


@pytest.mark.parametrize(
    "value",
    [
        {"same": 3},
        {"array": "<f8", "begin": 0, "shape": [2]},
        {"enum": "fedbandits.simulation.fidelities:Fidelity", "name": "GUESSES"},
        {"dict": [1]},
    ],
)
def test_what_leads_nowhere_is_refused(value: Any, tmp_path: Path) -> None:
    with pytest.raises(fb.InputError, match="is damaged; give another one"):
        read_value(_write(tmp_path / "broken.fed", value))


def test_another_format_says_which_version_reads_it(tmp_path: Path) -> None:
    path = _write(tmp_path / "later.fed", None, version=2)
    with pytest.raises(
        fb.InputError, match=r"format 2, and this version reads 1; .*fedbandits 9\.9"
    ):
        read_value(path)


def test_other_fields_say_that_another_version_wrote_them(tmp_path: Path) -> None:
    table = {"class": "fedbandits.rules.radii:PaperRadius", "fields": {"arms": 1.0}}
    with pytest.raises(fb.InputError, match="was written by another version of"):
        read_value(_write(tmp_path / "later.fed", table))


@dataclass(frozen=True, slots=True)
class RegisteredRadius(fb.PaperRadius):
    """A radius of somebody else."""

    rule: ClassVar[str] = "test-saved-radius"


@dataclass(frozen=True)
class Unregistered:
    """No part."""

    size: int = 1


def test_registered_parts_are_read_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))  # for this test alone
    fb.RADII.register(RegisteredRadius)
    path = write_value(RegisteredRadius(arm=2.0), tmp_path / "radius.fed")
    assert read_value(path) == RegisteredRadius(arm=2.0)
    with pytest.raises(fb.InputError, match=r"needs Unregistered of test_saved"):
        read_value(write_value(Unregistered(), tmp_path / "other.fed"))


def test_a_class_that_nobody_finds_again_is_refused_at_once(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Local:
        size: int = 1

    with pytest.raises(fb.InputError, match="cannot be found again"):
        write_value(Local(), tmp_path / "local.fed")
