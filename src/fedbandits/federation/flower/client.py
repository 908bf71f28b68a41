"""The ClientApp: answers for the clients of a node, with files of their own.

What a node is for is in its ``--node-config``: ``project`` (the folder with fedbandits.toml and
client.py), ``state`` (where its clients keep their files), and its clients: either their names,
separated by commas, or how many there are, with a ``name`` before their numbers and the ``first``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedbandits.errors import InputError
from fedbandits.federation.flower.wire import CONCLUDE, PHASE, WHO, packed, unpacked
from fedbandits.federation.host import ClientHost, ClientInfo, PullByName
from fedbandits.federation.local import load_pull
from fedbandits.federation.state_files import check_name
from fedbandits.federation.trial import Trial, load_trial
from fedbandits.protocol import Assignment, Conclusion, Refusal, Refused, Update
from fedbandits.protocol.codec import decode, encode

app = ClientApp()
"""What a SuperNode runs."""

_LOG = logging.getLogger("flwr.fedbandits")

# A reply takes its time to arrive, too.
_SHARE_OF_DEADLINE = 0.8

_Found = TypeVar("_Found")


class NodeError(Exception):
    """Something on a node failed; it says what kind of error it was, and nothing of its text."""


@contextmanager
def _discreet() -> Iterator[None]:
    """Keep the text of an error on the node: there may be outcomes in it."""
    try:
        yield
    except Exception as error:
        _LOG.exception("this node cannot answer")
        raise NodeError(_kind(error)) from None


@app.query(WHO)
def who(message: Message, context: Context) -> Message:
    """Say which clients this node hosts."""
    with _discreet():
        node = NodePlan(context.node_config)
        node.trial()  # a mistake in it is said now, and not in the middle of a phase
        return Message(packed({"clients": [info.name for info in node.clients]}), reply_to=message)


@app.train(PHASE)
def phase(message: Message, context: Context) -> Message:
    """Let the clients that are asked play a phase, one after the other."""
    with _discreet():
        node, said = NodePlan(context.node_config), unpacked(message)
        assignment: Assignment = decode(Assignment, said.get("message"), "assignment")
        here, strangers = node.named(said.get("clients"))
        patience = node.trial().patience
        # They answer together: none may take so long that all of them are late.
        end = time.monotonic() + _SHARE_OF_DEADLINE * patience.deadline
        answers = [
            _answer(node, info, assignment, min(patience.pulls, end - time.monotonic()))
            for info in here
        ]
        reply = {"answers": [encode(answer) for answer in answers], "strangers": strangers}
        return Message(packed(reply), reply_to=message)


@app.query(CONCLUDE)
def conclude(message: Message, context: Context) -> Message:
    """Let clients keep the last word; say which of them have."""
    with _discreet():
        node, said = NodePlan(context.node_config), unpacked(message)
        conclusion: Conclusion = decode(Conclusion, said.get("message"), "conclusion")
        here, strangers = node.named(said.get("clients"))
        told = []
        for info in here:
            try:
                node.host(info, plays=False).conclude(conclusion)
            except Exception:
                _LOG.exception("client %s cannot keep the last word", info.name)
            else:
                told.append(info.name)
        return Message(packed({"told": told, "strangers": strangers}), reply_to=message)


def _answer(
    node: NodePlan, info: ClientInfo, assignment: Assignment, seconds: float
) -> Update | Refusal:
    """Return a client's answer; if its own code fails or hangs, a refusal that says so."""
    try:
        return within(seconds, lambda: node.host(info).answer(assignment))
    except Exception as error:
        _LOG.exception("client %s cannot answer phase %d", info.name, assignment.phase)
        return Refusal(
            header=assignment.header,
            phase=assignment.phase,
            client=info.name,
            why=Refused.FAILED,
            detail=_kind(error),
        )


def _kind(error: Exception) -> str:
    """Return what others are told of an error: what kind it is, and where the rest is."""
    return f"{type(error.__cause__ or error).__name__}; more is in the node's own output"


def within(seconds: float, call: Callable[[], _Found]) -> _Found:
    """Return what a call returns, if it does so in time.

    A call that hangs is left to itself: the process that Flower starts for every message ends soon.

    Raises
    ------
    TimeoutError
        If it does not.
    """
    found: list[_Found] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            found.append(call())
        except BaseException as error:
            failed.append(error)  # and raised where it is waited for

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(max(seconds, 0.0))
    if failed and not isinstance(failed[0], Exception):  # as of somebody who calls sys.exit
        raise RuntimeError(f"it ends the process ({failed[0]!r})") from failed[0]
    if failed:
        raise failed[0]
    if not found:
        raise TimeoutError(
            f"it takes more than {seconds:g} s; give it longer (patience.pulls), or mend it"
        )
    return found[0]


class NodePlan:
    """What a node is for.

    Parameters
    ----------
    config : dict
        The node's ``--node-config``.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.project = _folder(config, "project", None)
        self.state = _folder(config, "state", self.project / "state")
        self.clients = _clients(config)
        self._trial: Trial | None = None
        self._pull: PullByName | None = None

    def trial(self) -> Trial:
        """Return what is compared, as this node knows it."""
        if self._trial is None:
            self._trial = load_trial(self.project)
        return self._trial

    def host(self, info: ClientInfo, *, plays: bool = True) -> ClientHost:
        """Return a client with its files, and the user's code if it is to play."""
        self.state.mkdir(parents=True, exist_ok=True)
        if plays and self._pull is None and self.trial().live is None:
            self._pull = load_pull(self.project)
        return ClientHost(info, self._pull, self.trial(), folder=self.state)

    def named(self, names: Any) -> tuple[list[ClientInfo], list[str]]:
        """Return the clients that a message is for, and the names of those who are not here.

        Raises
        ------
        InputError
            If it is for nobody that has a name.
        """
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InputError("clients", f"{str(names)[:200]} are no names")
        here = {info.name: info for info in self.clients}
        return [here[name] for name in names if name in here], [
            name for name in names if name not in here
        ]


def _folder(config: dict[str, Any], key: str, default: Path | None) -> Path:
    value = config.get(key, default)
    if value is None or not str(value):
        raise InputError(
            f"node-config.{key}",
            "is missing; start the node with --node-config 'project=\"/path/to/my_test\" …'",
        )
    return Path(str(value)).absolute()


def _clients(config: dict[str, Any]) -> list[ClientInfo]:
    said, name, first = config.get("clients", 1), config.get("name"), config.get("first", 0)
    if isinstance(said, str):
        names = [each.strip() for each in said.split(",") if each.strip()]
    elif not isinstance(name, str) or not name:
        raise InputError(
            "node-config.name", 'is missing; give the node\'s clients a name, such as name="clinic"'
        )
    elif type(said) is not int or type(first) is not int or first < 0:
        raise InputError("node-config.clients", f"{said!r} is neither names nor a number of them")
    else:
        alone = said == 1 and "first" not in config
        names = [name] if alone else [f"{name}-{first + place}" for place in range(said)]
    if not names or len(set(names)) != len(names):
        raise InputError("node-config.clients", f"{said!r}: none, or one of them twice")
    for each in names:
        check_name(each, "node-config.clients")
    first = 0 if isinstance(said, str) else first
    return [ClientInfo(name=each, number=first + place) for place, each in enumerate(names)]
