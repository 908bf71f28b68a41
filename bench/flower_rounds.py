"""The app that the benchmark runs on Flower: bare rounds and phases of a trial, in turns.

A bare round carries as many bytes as a phase, there and back, and its client does nothing. It must
not pay for what it does not use: everything of fedbandits is imported where a phase needs it.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

if TYPE_CHECKING:
    from fedbandits.federation.coordinator import Coordinator

client = ClientApp()
"""What SuperNodes run."""

server = ServerApp()
"""What the SuperLink runs."""

_BARE = "train.bare"

# SuperNodes look for messages every 3 s, and a bare round for replies as often: rounds begin at
# random moments, so that neither kind is in step with that.
_LONGEST_PAUSE = 3.0


@client.query("who")
def _who(message: Message, context: Context) -> Message:
    from fedbandits.federation.flower.client import who  # noqa: PLC0415 - not for bare rounds

    return who(message, context)


@client.train("phase")
def _phase(message: Message, context: Context) -> Message:
    from fedbandits.federation.flower.client import phase  # noqa: PLC0415 - not for bare rounds

    return phase(message, context)


@client.train("bare")
def _bare(message: Message, _: Context) -> Message:
    wanted = message.content.config_records["bare"]["reply"]
    return Message(_of_length(int(str(wanted))), reply_to=message)


def _of_length(length: int, **more: int) -> RecordDict:
    return RecordDict({"bare": ConfigRecord({"json": "x" * length, **more})})


class _Weighed:
    """A grid that knows how long the last text was, each way."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self.sent = self.received = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        messages = list(messages)
        self.sent = _length(messages, self.sent)
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        messages = list(self._grid.pull_messages(message_ids))
        self.received = _length([each for each in messages if each.has_content()], self.received)
        return messages


def _length(messages: list[Message], otherwise: int) -> int:
    lengths = [
        len(str(record["json"]))
        for message in messages
        for record in message.content.config_records.values()
    ]
    return max(lengths, default=otherwise)


@server.main()
def _main(grid: Grid, context: Context) -> None:
    from fedbandits.federation.coordinator import Coordinator  # noqa: PLC0415 - see above
    from fedbandits.federation.flower.transport import FlowerTransport  # noqa: PLC0415 - likewise
    from fedbandits.federation.run import begin_or_resume  # noqa: PLC0415 - likewise
    from fedbandits.federation.trial import load_trial  # noqa: PLC0415 - likewise

    project = Path(str(context.run_config["project"]))
    rounds = int(str(context.run_config["rounds"]))
    weighed: Any = _Weighed(grid)
    trial = load_trial(project)
    log, server = begin_or_resume(trial, project / "run.fedlog")
    pause = random.Random(1)
    with log:
        transport = FlowerTransport(weighed, server, trial.patience)
        coordinator = Coordinator(
            server,
            transport,
            clock=time.monotonic,
            patience=trial.patience,
        )
        while not server.phase:  # until all nodes are there
            coordinator.step()
        _play_phase(coordinator)
        times: list[dict[str, Any]] = []
        for _ in range(rounds):
            for kind in ("bare", "phase"):
                time.sleep(pause.uniform(0.0, _LONGEST_PAUSE))
                begin = time.time()
                if kind == "bare":
                    _play_bare(grid, weighed.sent, weighed.received)
                else:
                    _play_phase(coordinator)
                times.append({"kind": kind, "begin": begin, "end": time.time()})
    said = {"times": times, "sent": weighed.sent, "received": weighed.received}
    result = project / "result.json"
    result.with_suffix(".new").write_text(json.dumps(said), encoding="utf-8")
    result.with_suffix(".new").replace(result)


def _play_phase(coordinator: Coordinator) -> None:
    """Go on until the next phase is decided."""
    before = coordinator.server.decision
    while coordinator.server.decision is before:
        coordinator.step()


def _play_bare(grid: Grid, sent: int, received: int) -> None:
    nodes = list(grid.get_node_ids())
    messages = [Message(_of_length(sent, reply=received), node, _BARE) for node in nodes]
    replies = list(grid.send_and_receive(messages))
    if len(replies) < len(nodes) or any(reply.has_error() for reply in replies):
        raise RuntimeError("a bare round failed")
