"""The ClientApp: answers for the clients of a node, with files of their own.

What a node is for is in its ``--node-config``: ``project`` (the folder with fedbandits.toml and
client.py), ``state`` (where its clients keep their files), and its clients: either their names,
separated by commas, or how many there are, with a ``name`` before their numbers and the ``first``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedbandits.errors import InputError
from fedbandits.federation.coordinator import Answer
from fedbandits.federation.flower.wire import CONCLUDE, PHASE, WHO, packed, unpacked
from fedbandits.federation.host import ClientHost, ClientInfo, PullByName
from fedbandits.federation.local import load_pull
from fedbandits.federation.trial import Trial, load_trial
from fedbandits.protocol import Assignment, Conclusion, Refusal, Refused
from fedbandits.protocol.codec import decode, encode

app = ClientApp()
"""What a SuperNode runs."""

_LOG = logging.getLogger("flwr.fedbandits")

_Found = TypeVar("_Found")


@app.query(WHO)
def who(message: Message, context: Context) -> Message:
    """Say which clients this node hosts."""
    node = NodePlan(context.node_config)
    node.trial()  # a mistake in it is said now, and not in the middle of a phase
    return Message(packed({"clients": [info.name for info in node.clients]}), reply_to=message)


@app.train(PHASE)
def phase(message: Message, context: Context) -> Message:
    """Let the clients that are asked play a phase, one after the other."""
    node = NodePlan(context.node_config)
    said = unpacked(message)
    assignment: Assignment = decode(Assignment, said.get("message"), "assignment")
    answers = [_answer(node, info, assignment) for info in node.named(said.get("clients"))]
    return Message(packed({"answers": [encode(answer) for answer in answers]}), reply_to=message)


@app.query(CONCLUDE)
def conclude(message: Message, context: Context) -> Message:
    """Let clients keep the last word."""
    node = NodePlan(context.node_config)
    said = unpacked(message)
    conclusion: Conclusion = decode(Conclusion, said.get("message"), "conclusion")
    told = node.named(said.get("clients"))
    for info in told:
        node.host(info).conclude(conclusion)
    return Message(packed({"told": [info.name for info in told]}), reply_to=message)


def _answer(node: NodePlan, info: ClientInfo, assignment: Assignment) -> Answer:
    """Return a client's answer; if its own code fails or hangs, a refusal that says so.

    The server is told what kind of error it was, and not its text: there may be outcomes in it.
    """
    try:
        return within(node.trial().patience.pulls, lambda: node.host(info).answer(assignment))
    except Exception as error:
        _LOG.exception("client %s cannot answer phase %d", info.name, assignment.phase)
        cause = error.__cause__ or error
        return Refusal(
            header=assignment.header,
            phase=assignment.phase,
            client=info.name,
            why=Refused.FAILED,
            detail=f"{type(cause).__name__}; more is in the node's own output",
        )


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
    thread.join(seconds)
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

    def host(self, info: ClientInfo) -> ClientHost:
        """Return a client with its files."""
        self.state.mkdir(parents=True, exist_ok=True)
        if self._pull is None and self.trial().live is None:
            self._pull = load_pull(self.project)
        return ClientHost(info, self._pull, self.trial(), folder=self.state)

    def named(self, names: Any) -> list[ClientInfo]:
        """Return the clients that a message is for.

        Raises
        ------
        InputError
            If one of them is not here.
        """
        here = {info.name: info for info in self.clients}
        if not isinstance(names, list) or not all(name in here for name in names):
            raise InputError("clients", f"{str(names)[:200]} are not all on this node")
        return [here[name] for name in names]


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
    first = 0 if isinstance(said, str) else first
    return [ClientInfo(name=each, number=first + place) for place, each in enumerate(names)]
