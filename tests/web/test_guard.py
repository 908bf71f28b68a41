"""Requests that should not be answered are not, and pages may do only what they need."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fedbandits.errors import InputError
from fedbandits.web.guard import LONGEST_BODY, LONGEST_QUERY, Allowance
from fedbandits.web.serving import PageServer, access_of, bound
from pages import TOKEN, Viewer, address_of, ask, served, wait_until
from staged import staged


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ward") / "run.fedlog"
    with staged(path, phases=1):
        return path


@pytest.fixture(scope="module")
def server(log: Path) -> Iterator[PageServer]:
    """Return pages that anybody on this machine can see."""
    with served(log) as found:
        yield found


@pytest.fixture
def private(log: Path) -> Iterator[PageServer]:
    """Return pages that need a token."""
    with served(log, token=TOKEN) as found:
        yield found


HOSTS = ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "[::2]", "a b")


@pytest.mark.parametrize("host", HOSTS)
def test_another_name_of_the_server_is_refused(server: PageServer, host: str) -> None:
    """A site whose name is made to lead here (DNS rebinding) would read everything."""
    said = ask(server, "/", headers={"Host": host})
    assert said.status in (400, 421)
    assert "dressings" not in said.text


def test_two_names_are_refused_and_each_of_ours_is_not(server: PageServer) -> None:
    port = urlsplit(server.address).port
    for name in ("127.0.0.1", "localhost", "[::1]", f"LOCALHOST:{port}"):
        assert ask(server, address_of(server), headers={"Host": name}).status == 200
    with socket.create_connection(("127.0.0.1", port or 0)) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert raw.recv(100).split()[1] in (b"400", b"421")


def test_a_name_of_a_proxy_is_allowed_and_needs_the_token(log: Path) -> None:
    with served(log, names=["trial.example"], token=TOKEN) as server:
        host = {"Host": "trial.example"}
        assert ask(server, "/health", headers=host).status == 200
        assert ask(server, address_of(server), headers=host).status == 401
        known = host | {"Authorization": f"Bearer {TOKEN}"}
        assert ask(server, address_of(server), headers=known).status == 200


def test_without_the_token_nothing_is_shown(private: PageServer) -> None:
    wrong: tuple[dict[str, str], ...] = (
        {"Authorization": "Bearer wrong"},
        {"Cookie": f"{private.access.cookie}={TOKEN}"},
        {},
    )
    for path in ("/", address_of(private), address_of(private, "/events"), "/metrics"):
        for headers in wrong:
            said = ask(private, path, headers=headers)
            assert said.status == 401
            assert "dressings" not in said.text
    # A load balancer learns that there is a server, and no more.
    health = ask(private, "/health")
    assert health.status == 200
    assert "dressings" not in health.text


def test_the_token_is_taken_once_and_does_not_stay_in_the_address(private: PageServer) -> None:
    path = address_of(private)
    entered = ask(private, f"{path}?q=7&token={TOKEN}")
    assert (entered.status, entered.headers["location"]) == (303, f"{path}?q=7")
    cookie = entered.headers["set-cookie"]
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    assert TOKEN not in cookie
    shown = ask(private, path, headers={"Cookie": cookie.partition(";")[0]})
    assert shown.status == 200
    assert "Four dressings" in shown.text
    assert TOKEN not in shown.text
    assert ask(private, f"{path}?token={TOKEN}x").status == 401


def test_the_token_leads_to_no_other_site(private: PageServer) -> None:
    entered = ask(private, f"//evil.example/%2e?token={TOKEN}")
    assert entered.status == 303
    assert urlsplit(entered.headers["location"]).netloc == ""


def test_the_token_cannot_be_guessed_fast(log: Path) -> None:
    with served(log, token=TOKEN, limits={"guesses": Allowance(3, 0.0)}) as server:
        codes = [ask(server, f"/?token={number}").status for number in range(5)]
        assert codes == [401] * 3 + [429] * 2
        # Nor does somebody get in who has guessed too often.
        assert ask(server, f"/?token={TOKEN}").status == 429


def test_a_token_is_long_and_made_where_it_is_needed() -> None:
    with pytest.raises(InputError, match="has 5 characters; use at least 16"):
        access_of(host="127.0.0.1", token="short")
    assert access_of(host="127.0.0.1").token is None
    for found in (
        access_of(host="0.0.0.0"),
        access_of(host="192.0.2.1"),
        access_of(host="127.0.0.1", names=["trial.example"]),
    ):
        assert found.private
        assert len(found.token or "") >= 32
    acting = access_of(host="127.0.0.1", allow_actions=True)
    assert (acting.private, bool(acting.token)) == (False, True)


def test_a_port_that_is_taken_is_the_users_mistake() -> None:
    taken = bound("127.0.0.1", 0)
    with taken, pytest.raises(InputError, match="choose another --port or --host"):
        bound("127.0.0.1", taken.getsockname()[1])


CROSS = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost:1"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]


@pytest.mark.parametrize("headers", CROSS)
def test_a_form_on_another_site_does_nothing(log: Path, headers: dict[str, str]) -> None:
    known = {"Authorization": f"Bearer {TOKEN}"}
    with served(log, token=TOKEN, allow_actions=True) as server:
        said = ask(
            server,
            address_of(server, "/do"),
            method="POST",
            headers=headers | known,
            body="what=stop&reason=spite",
        )
        assert said.status == 403
    assert not log.with_name("run.fedlog.requests").exists()


def test_other_sites_cannot_embed_what_is_here_and_people_can_follow_links(
    server: PageServer,
) -> None:
    site = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert ask(server, address_of(server, "/events"), headers=site).status == 403
    link = site | {"Sec-Fetch-Mode": "navigate"}
    assert ask(server, address_of(server), headers=link).status == 200


def test_large_requests_are_refused_before_they_are_read(server: PageServer) -> None:
    path = address_of(server, "/do")
    assert ask(server, path, method="POST", body=b"x" * (LONGEST_BODY + 1)).status == 413
    chunks = (b"x" * 1_000 for _ in range(LONGEST_BODY // 1_000 + 1))
    assert ask(server, path, method="POST", body=chunks).status in (403, 413)
    assert ask(server, f"/?{'x' * (LONGEST_QUERY + 1)}").status == 414


def test_chunks_are_counted_as_they_come(log: Path) -> None:
    known = {"Authorization": f"Bearer {TOKEN}"}
    with served(log, token=TOKEN, allow_actions=True) as server:
        chunks = (b"x" * 1_000 for _ in range(LONGEST_BODY // 1_000 + 1))
        path = address_of(server, "/do")
        said = ask(server, path, method="POST", headers=known, body=chunks)
        assert said.status == 413


PATHS = (
    "/static/../app.py",
    "/static/%2e%2e/app.py",
    "/static/..%2fguard.py",
    "/static/%2fetc%2fpasswd",
    "/static//etc/passwd",
    "/static/app.py",
    "/run/../../etc/passwd",
    "/run/..%2f..%2frun.fedlog",
    "/run/%00",
    "/../../etc/passwd",
)


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_to_a_file(server: PageServer, path: str) -> None:
    said = ask(server, path)
    assert said.status == 404
    assert "import" not in said.text
    assert "root:" not in said.text


def test_too_many_requests_have_to_wait(log: Path) -> None:
    with served(log, limits={"requests": Allowance(5, 0.0)}) as server:
        codes = [ask(server, "/health").status for _ in range(8)]
        assert codes == [200] * 5 + [429] * 3


def test_too_many_changes_have_to_wait(log: Path) -> None:
    known = {"Authorization": f"Bearer {TOKEN}"}
    limits = {"changes": Allowance(2, 0.0)}
    with served(log, token=TOKEN, allow_actions=True, limits=limits) as server:
        path = address_of(server, "/confirm")
        codes = [
            ask(server, path, method="POST", headers=known, body="what=stop&reason=x").status
            for _ in range(4)
        ]
        assert codes == [200, 200, 429, 429]


def test_too_many_streams_are_not_opened_and_one_that_is_closed_makes_room(log: Path) -> None:
    with served(log) as server:
        streams = server.app.state.streams
        streams.most = 3
        path = address_of(server, "/events")
        viewers = [Viewer(server, path) for _ in range(3)]
        for viewer in viewers:
            viewer.next()
        assert streams.open == 3
        assert ask(server, path).status == 503
        viewers.pop().close()
        wait_until(lambda: streams.open == 2)
        viewers.append(Viewer(server, path))
        assert viewers[-1].next()
        for viewer in viewers:
            viewer.close()


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(server: PageServer, method: str) -> None:
    assert ask(server, "/", method=method).status == 405


def test_no_socket_is_opened(server: PageServer) -> None:
    wanted = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    assert ask(server, "/health", headers=wanted).status != 101


def test_every_answer_says_what_a_page_may_do(server: PageServer) -> None:
    for path in ("/", address_of(server), "/nowhere", "/static/live.js", "/metrics"):
        said = ask(server, path)
        policy = said.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert said.headers["x-frame-options"] == "DENY"
        assert said.headers["x-content-type-options"] == "nosniff"
        assert said.headers["referrer-policy"] == "same-origin"
        assert "server" not in said.headers
    assert ask(server, address_of(server)).headers["cache-control"] == "no-store"


def test_parts_are_not_sent_twice(server: PageServer) -> None:
    first = ask(server, "/static/d3.min.js")
    again = ask(server, "/static/d3.min.js", headers={"If-None-Match": first.headers["etag"]})
    assert (first.status, again.status, again.text) == (200, 304, "")
