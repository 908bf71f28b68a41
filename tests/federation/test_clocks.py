"""A clock that is off is said on both sides, and a node does not hang because of it."""

from __future__ import annotations

import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from fedbandits.errors import InputError
from fedbandits.federation.flower.clocks import check_clock, seconds_ahead
from fedbandits.federation.flower.keys import Certificates, make_certificates, make_node_key
from fedbandits.federation.project import new_project

FEDBANDITS = str(Path(sys.executable).parent / "fedbandits")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@contextmanager
def server_whose_clock_is(ahead: float, certificates: Certificates) -> Iterator[str]:
    """Run a server whose clock is so many seconds ahead of this machine's; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response_only(403)
            self.send_header("Date", formatdate(time.time() + ahead, usegmt=True))
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.certificate, certificates.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("ahead", [-400.0, -20.0, 0.0, 20.0])
def test_how_far_a_clock_is_off_is_known_to_a_second(
    ahead: float, certificates: Certificates
) -> None:
    with server_whose_clock_is(-ahead, certificates) as address:
        found = seconds_ahead(address, certificates.authority)
    assert found is not None
    assert abs(found) <= abs(ahead)  # never more than it is
    assert abs(found - ahead) < 1.5


def test_a_server_that_does_not_answer_says_nothing_of_clocks(certificates: Certificates) -> None:
    assert seconds_ahead("127.0.0.1:1", certificates.authority) is None


def test_a_clock_that_is_off_and_not_refused_is_warned_of(certificates: Certificates) -> None:
    news: list[str] = []
    for ahead in (-20.0, 0.0, 4.0):
        with server_whose_clock_is(-ahead, certificates) as address:
            check_clock(address, certificates.authority, news.append)
    assert len(news) == 2
    assert "s behind the server's" in news[0]
    assert "s ahead of the server's" in news[1]


@pytest.mark.parametrize("ahead", [20.0, -400.0])
def test_a_clock_that_is_refused_is_refused_at_once(
    ahead: float, certificates: Certificates
) -> None:
    with (
        server_whose_clock_is(-ahead, certificates) as address,
        pytest.raises(InputError, match="timedatectl"),
    ):
        check_clock(address, certificates.authority, lambda _: None)


def test_a_node_says_that_its_clock_is_off_and_ends(
    tmp_path: Path, certificates: Certificates
) -> None:
    """Version 0.1.0 compared no clocks: the node hung, and neither side said why."""
    new_project(tmp_path / "colours")
    key = make_node_key(tmp_path / "keys", "node")
    with server_whose_clock_is(-20.0, certificates) as address:
        call = subprocess.run(
            [
                *(FEDBANDITS, "node", str(tmp_path / "colours"), "--superlink", address),
                *("--root-certificates", str(certificates.authority), "--key", str(key.private)),
                *("--name", "clinic"),
            ],
            check=False,
            capture_output=True,
            text=True,
            timeout=600,
        )
    assert call.returncode == 2
    assert "this machine's clock is at least" in call.stderr
    assert "s ahead of the server's" in call.stderr
    assert "Traceback" not in call.stderr
