"""Answers one message from the server with the installed app, in a process of its own.

Import it after `fedbandits.federation.flower.pinned.check_flower`: it uses private parts of Flower.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import httpx
from flwr.app import Error, Message
from flwr.common.constant import ErrorCode, SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.protobuf.client import ProtobufClientInterceptor
from flwr.supercore.retry import RetryInvoker, make_simple_http_retry_invoker
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from fedbandits.federation.flower.client import NodeError, clients
from fedbandits.federation.flower.pinned import ForeignAppError, check_bundle
from fedbandits.federation.status import printable

_LOG = logging.getLogger("flwr.fedbandits")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPort:
    """Where a SuperNode is asked for its messages.

    Parameters
    ----------
    address : str
        On this machine.
    authority : bytes
        Certificate of the authority that signed its own; new whenever a node starts.
    """

    address: str
    authority: bytes

    def client(
        self, interceptor: ProtobufClientInterceptor, again: RetryInvoker | None = None
    ) -> RuntimeHttpClient:
        """Return a connection; each call over it passes the interceptor."""
        return RuntimeHttpClient.from_server_address(
            server_address=self.address,
            insecure=False,
            root_certificates=self.authority,
            interceptors=[RuntimeVersionHttpInterceptor(component_name="SuperExec"), interceptor],
            retry_invoker=again,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A message that waits for an answer.

    Parameters
    ----------
    port : LocalPort
        Of the SuperNode that has it.
    token : str
        What entitles to it.
    kind : str
        Whom it is for; only a client app is there.
    """

    port: LocalPort
    token: str
    kind: str


class TaskQueue:
    """The messages that a SuperNode has, for a process that knows its secret.

    Parameters
    ----------
    port : LocalPort
        Of the SuperNode.
    secret : bytes
        What keeps other accounts of this machine from taking messages.
    """

    def __init__(self, port: LocalPort, secret: bytes) -> None:
        self._port = port
        self._node = port.client(
            SuperExecAuthHttpInterceptor(
                master_secret=secret, protected_methods={"/flwr.proto.Runtime/AcquireTask"}
            )
        )

    def next(self) -> Task | None:
        """Return the message that has waited longest; None if there is none, or no answer."""
        # Every kind is taken: otherwise a node waits forever for an answer that nobody gives.
        try:
            found = self._node.AcquireTask(AcquireTaskRequest(supported_task_types=list(TaskType)))
        except httpx.TransportError:
            return None
        if not found.token:
            return None
        return Task(port=self._port, token=found.token, kind=found.task.type)


def answer_task(task: Task, config: Mapping[str, str | int]) -> None:
    """Answer one message; if something is wrong with it, the answer is an error.

    Parameters
    ----------
    task : Task
        The message.
    config : mapping
        What this node is for, as `NodePlan` reads it. The server has no say in it.
    """
    again = make_simple_http_retry_invoker()
    server = task.port.client(RuntimeTokenHttpInterceptor(task.token), again)
    heart = HeartbeatSender(make_task_heartbeat_fn_http(server))
    heart.start()
    message, context, run, bundle = pull_task_input(server)
    status, details = SubStatus.COMPLETED, ""
    try:
        _check_ours(task, bundle.content)
        context.node_config = dict(config)
        reply = clients(message, context)
    except Exception as error:
        told = isinstance(error, ForeignAppError | NodeError)  # other texts stay here
        status, details = SubStatus.FAILED, f"{type(error).__name__}: {error if told else ''}"
        if isinstance(error, ForeignAppError):
            _LOG.error(
                "REFUSED: run %s is of another app, %s %s (bundle %s): %s. Nothing of it was"
                " unpacked or run on this node.",
                run.run_id,
                *map(printable, (run.fab_id, run.fab_version, bundle.hash_str, str(error))),
            )
        elif not told:
            _LOG.exception("this node cannot answer")
        code = ErrorCode.CLIENT_APP_RAISED_EXCEPTION
        reply = Message(Error(code=code, reason=details), reply_to=message)
    push_message(server, reply, context)
    push_task_output(server, context, status, details)
    heart.stop()
    server.close()


def _check_ours(task: Task, bundle: bytes) -> None:
    """Refuse a message that is not for our client app."""
    if task.kind != TaskType.CLIENT_APP:
        raise ForeignAppError(f"it asks for a task of the kind {task.kind[:50]!r}")
    check_bundle(bundle)
