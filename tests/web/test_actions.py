"""What can be done from a page: only if it is allowed, with the token, after a question."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from fedbandits.federation.coordinator import Stop
from fedbandits.federation.requests import RequestFolder
from fedbandits.protocol import ArmWithdrawn
from fedbandits.web.serving import PageServer
from pages import TOKEN, Said, address_of, ask, served, wait_until
from staged import Staged, staged

KNOWN = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Staged]:
    with staged(tmp_path / "run.fedlog", phases=1) as found:
        found.opened(["clinic-4"])
        yield found


@pytest.fixture
def server(run: Staged) -> Iterator[PageServer]:
    with served(run.path, token=TOKEN, allow_actions=True) as found:
        yield found


def post(server: PageServer, ending: str, **said: str) -> Said:
    path = address_of(server, ending)
    return ask(server, path, method="POST", headers=KNOWN, body=urlencode(said))


def left(run: Staged) -> list[object]:
    return list(RequestFolder(run.path, len(run.server.arms))())


def test_an_option_is_withdrawn_by_the_note_that_the_command_leaves(
    run: Staged, server: PageServer
) -> None:
    before = len(run.log)
    page = ask(server, address_of(server), headers=KNOWN).text
    assert "Withdraw an option …" in page
    asked = post(server, "/confirm", what="withdraw", arm="1", reason="  a rash \n appeared ")
    assert asked.status == 200
    assert "to withdraw honey (a rash appeared)" in asked.text
    assert left(run) == []  # nothing was done yet
    assert post(server, "/do", what="withdraw", arm="1", reason="a rash appeared").status == 303
    wanted = RequestFolder(run.path, 4)
    assert list(wanted()) == [ArmWithdrawn(arm=1, reason="a rash appeared")]
    assert len(run.log) == before  # only the server writes the log
    said = "The server was asked to withdraw honey (a rash appeared), and has not done it yet."
    wait_until(lambda: said in ask(server, address_of(server), headers=KNOWN).text)
    run.server.withdraw(1, "a rash appeared")
    wanted()  # the server has done it, and removes the note
    wait_until(lambda: said not in ask(server, address_of(server), headers=KNOWN).text)
    shown = ask(server, address_of(server), headers=KNOWN).text
    assert "withdrawn: a rash appeared" in shown


def test_a_run_is_stopped(run: Staged, server: PageServer) -> None:
    assert "to stop the run (enough)" in post(server, "/confirm", what="stop", reason="enough").text
    assert post(server, "/do", what="stop", reason="enough").status == 303
    assert left(run) == [Stop(reason="enough")]


MISTAKES = [
    ({"what": "stop", "reason": " "}, "say why"),
    ({"what": "stop"}, "say why"),
    ({"what": "withdraw", "arm": "honey", "reason": "x"}, "choose one"),
    ({"what": "withdraw", "reason": "x"}, "choose one"),
    ({"reason": "x"}, "choose one"),
]


@pytest.mark.parametrize(("said", "words"), MISTAKES)
def test_mistakes_are_named_and_nothing_is_done(
    run: Staged, server: PageServer, said: dict[str, str], words: str
) -> None:
    for ending in ("/confirm", "/do"):
        answer = post(server, ending, **said)
        assert answer.status == 400
        assert words in answer.text
    assert left(run) == []


def test_the_last_option_and_a_finished_run_are_left_alone(run: Staged, server: PageServer) -> None:
    for arm in (0, 2):
        run.server.withdraw(arm, "harm")
    wait_until(lambda: post(server, "/confirm", what="withdraw", arm="3", reason="x").status)
    run.server.stop(words="over")
    (watched,) = server.app.state.board.runs.values()
    wait_until(lambda: watched.live is not None and watched.live.status.finished)
    assert post(server, "/do", what="stop", reason="x").status == 400
    assert post(server, "/do", what="withdraw", arm="3", reason="x").status == 400
    page = ask(server, address_of(server), headers=KNOWN).text
    assert "There is nothing to be done" in page
    assert left(run) == []


def test_without_the_token_or_the_permission_nothing_is_done(run: Staged) -> None:
    body = urlencode({"what": "stop", "reason": "x"})
    with served(run.path, allow_actions=True) as server:  # everybody may look
        page = ask(server, address_of(server)).text
        assert "Those who know the token" in page
        assert str(server.access.token) not in page
        for ending in ("/confirm", "/do"):
            path = address_of(server, ending)
            assert ask(server, path, method="POST", body=body).status == 401
            wrong = {"Authorization": "Bearer wrong"}
            assert ask(server, path, method="POST", body=body, headers=wrong).status == 401
    with served(run.path, token=TOKEN) as server:
        assert "Actions" not in ask(server, address_of(server), headers=KNOWN).text
        assert post(server, "/do", what="stop", reason="x").status == 403
    assert left(run) == []


def test_looking_at_an_action_does_nothing(run: Staged, server: PageServer) -> None:
    for ending in ("/confirm", "/do"):
        path = address_of(server, f"{ending}?what=stop&reason=x")
        assert ask(server, path, headers=KNOWN).status == 405
    assert left(run) == []
