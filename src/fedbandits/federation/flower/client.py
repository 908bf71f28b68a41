"""The ClientApp: answers for the clients of a node, with files of their own.

What a node is for is in its ``--node-config``: ``project`` (the folder with fedbandits.toml and
client.py), ``state`` (where its clients keep their files), and its clients: either their names,
separated by commas, or how many there are, with a ``name`` before their numbers and the ``first``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedbandits.errors import InputError
from fedbandits.federation.flower.wire import CONCLUDE, PHASE, RECALL, WHO, packed, unpacked
from fedbandits.federation.halts import halt_of
from fedbandits.federation.host import ClientHost, ClientInfo
from fedbandits.federation.local import ClientCode, load_client
from fedbandits.federation.signing import client_key
from fedbandits.federation.state_files import check_name, private_folder
from fedbandits.federation.trial import Trial, load_trial
from fedbandits.federation.user_code import each_in_time, limited_output
from fedbandits.protocol import Assignment, Conclusion, Halt, Recall, Refusal, Refused, Update
from fedbandits.protocol.client import Slice
from fedbandits.protocol.codec import decode, encode
from fedbandits.protocol.outcomes import OutOfRangeError

clients = ClientApp()
"""What answers the messages of a node; `fedbandits.federation.flower.task` calls it."""

app = ClientApp()
"""What bundles name. It answers nothing: a node that loads it runs whatever servers send."""

_LOG = logging.getLogger("flwr.fedbandits")

_Said = TypeVar("_Said", Assignment, Recall, Conclusion)
_Done = TypeVar("_Done")

SLICE = 10.0
"""Seconds that a node plays before it looks for other messages."""

# The rest is for the reply to arrive.
_SHARE_OF_DEADLINE = 0.8


class NodeError(Exception):
    """Something on a node failed. This names the kind of error, and nothing of its text."""


def _unprotected(_: Message, __: Context) -> Message:
    """Refuse to answer on a node that runs whatever app it is sent."""
    raise NodeError(
        "this node was started as flower-supernode, which runs any code that a server sends; start"
        " it with: fedbandits node"
    )


for _register in (app.query(WHO), app.train(PHASE), app.query(RECALL), app.query(CONCLUDE)):
    _register(_unprotected)


@contextmanager
def _errors_kept_here() -> Iterator[None]:
    """Keep the text of an error on the node: there may be outcomes in it."""
    try:
        yield
    except Exception as error:
        _LOG.exception("this node cannot answer")
        raise NodeError(_kind(error)) from None


@clients.query(WHO)
def who(message: Message, context: Context) -> Message:
    """Say which clients this node hosts, by which keys they sign, and what time it is here."""
    with _errors_kept_here():
        node = NodePlan(context.node_config)
        private_folder(node.state)
        _ = node.trial  # report a mistake in it now, not in the middle of a phase
        names = [info.name for info in node.clients]
        said = {"clients": names, "keys": encode(_keys(node, names)), "time": time.time()}
        return Message(packed(said), reply_to=message)


def _keys(node: NodePlan, names: Sequence[str]) -> dict[str, bytes]:
    """Return the public keys of clients; one that cannot be read holds up nobody else."""
    found = {}
    for name in names:
        try:
            found[name] = client_key(node.state, name).public
        except InputError:
            _LOG.exception("client %s has no key that it can sign with", name)
    return found


@clients.train(PHASE)
def phase(message: Message, context: Context) -> Message:
    """Let the clients that are asked play a phase, for a slice of time.

    A node takes one message at a time. Those who have not finished keep what they have and say so:
    they go on when they are asked again, and the node can be told of a withdrawal in between. One
    that hangs does not keep the others.
    """
    with _asked(message, context, Assignment) as (node, assignment, here, strangers):
        patience = node.trial.patience
        end = time.monotonic() + SLICE
        with limited_output():
            found = each_in_time(
                [partial(_played, node, info, assignment, end, patience.pulls) for info in here],
                each=patience.pulls,
                # They answer together: none may take so long that all of them are late.
                together=_SHARE_OF_DEADLINE * patience.deadline,
            )
        answers = [
            _with_halt(node, info, _failure(info, assignment, one))
            if isinstance(one, Exception)
            else one
            for info, one in zip(here, found, strict=True)
        ]
        reply = {"answers": [encode(answer) for answer in answers], "strangers": strangers}
        return Message(packed(reply), reply_to=message)


@clients.query(RECALL)
def recall(message: Message, context: Context) -> Message:
    """Take options back from all clients: nobody is given them from now on."""
    with _asked(message, context, Recall) as (node, recalled, here, strangers):
        receipts = _each(node, here, lambda host: encode(host.recall(recalled)))
        return Message(packed({"answers": receipts, "strangers": strangers}), reply_to=message)


@clients.query(CONCLUDE)
def conclude(message: Message, context: Context) -> Message:
    """Let clients keep the last word; say which of them have."""
    with _asked(message, context, Conclusion) as (node, conclusion, here, strangers):

        def kept(host: ClientHost) -> str:
            host.conclude(conclusion)
            return host.info.name

        told = _each(node, here, kept)
        return Message(packed({"told": told, "strangers": strangers}), reply_to=message)


@contextmanager
def _asked(
    message: Message, context: Context, kind: type[_Said]
) -> Iterator[tuple[NodePlan, _Said, list[ClientInfo], list[str]]]:
    """Yield the node, the message, the clients it is for, and the names that are not here."""
    with _errors_kept_here():
        node, said = NodePlan(context.node_config), unpacked(message)
        told: _Said = decode(kind, said.get("message"), kind.__name__.lower())
        here, strangers = node.named(said.get("clients"))
        yield node, told, here, strangers


def _each(
    node: NodePlan, clients: Sequence[ClientInfo], act: Callable[[ClientHost], _Done]
) -> list[_Done]:
    """Return the result of each client; one that fails does not hold up the others."""
    done = []
    for info in clients:
        try:
            done.append(act(node.host(info, plays=False)))
        except Exception:
            _LOG.exception("client %s cannot do what it is told", info.name)
    return done


def _played(
    node: NodePlan, info: ClientInfo, assignment: Assignment, end: float, in_all: float
) -> Update | Refusal:
    """Let a client play until the end of the slice, unless that is over."""
    left = end - time.monotonic()
    if left <= 0.0:
        paused = assignment.refused(info.name, Refused.PAUSED, "it has not begun")
        return _with_halt(node, info, paused)
    part = Slice(seconds=left, in_all=in_all, clock=time.monotonic)
    return node.host(info).answer(assignment, part)


def _with_halt(node: NodePlan, info: ClientInfo, refusal: Refusal) -> Refusal:
    """Return a refusal with what is halted at the client: without it, the halt would be lifted."""
    arms = node.trial.arms
    try:
        halt = halt_of(node.state, info.name, arms)
    except InputError:  # until it can be read, nothing is given to anybody
        halt = Halt(arms=tuple(range(len(arms))), reason="what is halted cannot be read")
    return replace(refusal, halt=halt)


def _failure(info: ClientInfo, assignment: Assignment, error: Exception) -> Refusal:
    """Return what the server is told of an error: its kind. All of it is in the node's output."""
    _LOG.error(
        "client %s cannot answer phase %d: %s", info.name, assignment.phase, error, exc_info=error
    )
    why = Refused.OUTSIDE if isinstance(error, OutOfRangeError) else Refused.FAILED
    return assignment.refused(info.name, why, _kind(error))


def _kind(error: Exception) -> str:
    """Return what the server is told of an error: its kind, and where to find the rest."""
    return f"{type(error.__cause__ or error).__name__}; more is in the node's own output"


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
        self._code: ClientCode | None = None
        self._loading = threading.Lock()

    @cached_property
    def trial(self) -> Trial:
        """What is compared, as this node knows it."""
        return load_trial(self.project)

    def host(self, info: ClientInfo, *, plays: bool = True) -> ClientHost:
        """Return a client with its files, and the user's code if it is to play."""
        private_folder(self.state)
        with self._loading:  # once, for all clients of the node
            if plays and self._code is None:
                self._code = load_client(self.project, self.trial)
        sign = client_key(self.state, info.name).sign if plays else None
        code = self._code or ClientCode()
        return ClientHost(
            info, code.pull, self.trial, folder=self.state, sign=sign, history=code.history
        )

    def named(self, names: Any) -> tuple[list[ClientInfo], list[str]]:
        """Return the clients that a message is for, and the names of those who are not here.

        Raises
        ------
        InputError
            If it is for nobody that has a name.
        """
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InputError("clients", f"{str(names)[:200]} are no names")
        here, once = {info.name: info for info in self.clients}, dict.fromkeys(names)
        strangers = [name for name in once if name not in here]
        return [here[name] for name in once if name in here], strangers


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
