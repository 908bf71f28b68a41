"""A node is kept to the app that is installed on it, and to the Flower that was tested."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pytest

from fedbandits.errors import InputError
from fedbandits.federation.flower import pinned
from fedbandits.federation.flower.client import NodeError, app
from fedbandits.federation.flower.pinned import ForeignAppError, check_bundle, check_flower
from fedbandits.federation.project import flower_app, new_project
from foreign_app import OURS, about, bundle


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # Flower's own
def test_the_bundle_of_a_new_project_is_ours(tmp_path: Path) -> None:
    from flwr.cli.build import build_fab_from_disk

    new_project(tmp_path / "colours")
    app_folder = flower_app(tmp_path / "app", tmp_path / "colours")
    check_bundle(build_fab_from_disk(app_folder))


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"pyproject.toml": about("evil.client:app"), "evil/client.py": "1/0"}, "evil.client:app"),
        ({"pyproject.toml": about(OURS), "fedbandits/__init__.py": "1/0"}, "files of its own"),
        ({"pyproject.toml": about(OURS), "sitecustomize.py": "1/0"}, "sitecustomize.py"),
        ({"pyproject.toml": about(OURS), "x.pth": "import evil"}, "x.pth"),
        ({"pyproject.toml": about(OURS), "../README.md": ""}, "files of its own"),
        ({"pyproject.toml": about(OURS) + "#" * 200_000}, "too large"),
        ({"pyproject.toml": "[project]\nname = 1"}, "cannot be read"),
        ({"pyproject.toml": "not TOML"}, "cannot be read"),
        ({"evil.py": ""}, "cannot be read"),
    ],
)
def test_another_bundle_is_refused_and_nothing_of_it_is_run(
    files: dict[str, str], why: str
) -> None:
    """Version 0.1.0 ran nodes as Flower does: they ran any bundle that a server sent."""
    before = set(sys.modules)
    with pytest.raises(ForeignAppError, match=why):
        check_bundle(bundle(files))
    assert not {"evil", "sitecustomize"}.intersection(set(sys.modules) - before)


def test_bytes_that_are_no_bundle_are_refused() -> None:
    with pytest.raises(ForeignAppError, match="cannot be read"):
        check_bundle(b"PK\x03\x04 and no more")


def test_a_node_does_not_start_with_a_flower_that_was_not_tested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_flower()
    monkeypatch.setattr(pinned, "version", lambda _: "1.99.0")
    with pytest.raises(InputError, match=r"1\.99\.0 is not the version .* nothing was started"):
        check_flower()


def test_a_node_does_not_start_where_private_parts_of_flower_are_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from flwr.supernode.runtime import run_clientapp

    monkeypatch.delattr(run_clientapp, "pull_task_input")
    monkeypatch.delitem(sys.modules, "fedbandits.federation.flower.task", raising=False)
    with pytest.raises(InputError, match="pull_task_input"):
        check_flower()
    assert importlib.metadata.version("flwr").startswith(pinned.TESTED)


def test_a_node_that_loads_bundles_gets_no_answer_from_our_app() -> None:
    from flwr.app import Context, Message, RecordDict
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    message = Message(RecordDict(), 1, "query.who")
    context = Context(1, 1, {}, RecordDict(), {}, 1)
    with pytest.raises(NodeError, match="fedbandits node"):
        app(message, context)
