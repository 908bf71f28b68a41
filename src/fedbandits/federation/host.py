"""A client in its place: the user's function, and the machine that answers for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from fedbandits.errors import InputError
from fedbandits.federation.audit_file import AuditFile
from fedbandits.federation.last_word import best_in, keep_last_word, read_last_word
from fedbandits.federation.live_store import LiveStore
from fedbandits.federation.state_files import audit_file, last_word_file, live_file
from fedbandits.federation.trial import Trial
from fedbandits.privacy.sampling import Noise, discrete_noise
from fedbandits.protocol import (
    Assignment,
    Client,
    Conclusion,
    Refusal,
    RefusalError,
    Refused,
    Update,
    arms_hash,
)
from fedbandits.protocol.client import Pull
from fedbandits.protocol.turns import in_order, permuted_blocks
from fedbandits.rules.arrays import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientInfo:
    """Who is asked, for a ``pull`` that serves several.

    Parameters
    ----------
    name : str
        The client's name.
    number : int
        Its place among the clients of its process.
    """

    name: str
    number: int = 0


PullByName: TypeAlias = Callable[[str, int, ClientInfo], Sequence[float] | FloatArray]
"""``pull(arm, n, client)`` tries an option n times and returns the n outcomes: the user's code."""


class ClientHost:
    """Answers a server's messages for one client.

    Parameters
    ----------
    info : ClientInfo
        Who it is.
    pull : callable, optional
        The user's function; none where the trial has its outcomes from live traffic, or where
        nothing is to be played.
    trial : Trial
        What is compared; the client keeps to it whatever the server asks.
    folder : path, optional
        Where the client keeps what it has sent and what it was told in the end, which outlasts the
        process. Without one it forgets with it.
    noise : Noise
        Where noise comes from; OpenDP's discrete samplers by default.
    rng : numpy.random.Generator, optional
        For stochastic rounding.
    live : LiveStore, optional
        Where the outcomes of live traffic are; the client's file in the folder by default.
    """

    def __init__(
        self,
        info: ClientInfo,
        pull: PullByName | None,
        trial: Trial,
        *,
        folder: Path | None = None,
        noise: Noise = discrete_noise,
        rng: np.random.Generator | None = None,
        live: LiveStore | None = None,
    ) -> None:
        self.info = info
        self.trial = trial
        self._folder = folder
        self._last_word: Conclusion | None = None
        self._live = _live_store(info, trial, folder) if live is None else live
        self._client = Client(
            info.name,
            _observing(info, pull, trial, self._live),
            privacy=trial.privacy,
            outbox=None if folder is None else AuditFile(audit_file(folder, info.name)),
            noise=noise,
            rng=rng,
            turns=permuted_blocks(trial.seed, info.name) if trial.interleave else in_order,
            min_pulls=trial.min_pulls,
        )

    def answer(self, assignment: Assignment) -> Update | Refusal:
        """Play a phase, or refuse to."""
        if assignment.header.arms != arms_hash(self.trial.arms):
            return self._refusal(
                assignment,
                Refused.ARMS,
                "server and clients need the same in fedbandits.toml, in the same order",
            )
        if self._live is None:
            return self._played(assignment)
        with self._live as store:
            collected = store.take(assignment)
            if collected.ready:
                return self._played(assignment)
        return self._refusal(assignment, Refused.PENDING, collected.words)

    def _refusal(self, assignment: Assignment, why: Refused, detail: str) -> Refusal:
        return Refusal(
            header=assignment.header,
            phase=assignment.phase,
            client=self.info.name,
            why=why,
            detail=detail,
        )

    def _played(self, assignment: Assignment) -> Update | Refusal:
        try:
            return self._client.play(assignment)
        except RefusalError as error:
            return error.refusal

    def conclude(self, conclusion: Conclusion) -> None:
        """Take the last word, and keep it."""
        if conclusion.arms != self.trial.arms:
            raise InputError(
                "arms", f"the last word is about others than {', '.join(self.trial.arms)}"
            )
        if self._folder is not None:
            keep_last_word(self._folder, self.info.name, conclusion)
        if self._live is not None:
            with self._live as store:
                store.conclude(conclusion.header.run, conclusion.decision)
        self._client.conclude(conclusion.decision)
        self._last_word = conclusion

    def best_arm(self) -> str | None:
        """Return the option to stay on, once it is known; a restart does not forget it."""
        last = self._last_word
        if last is None and self._folder is not None:
            last = read_last_word(last_word_file(self._folder, self.info.name))
        return None if last is None else best_in(last)


def _live_store(info: ClientInfo, trial: Trial, folder: Path | None) -> LiveStore | None:
    """Return where a client's outcomes are, if they come from live traffic."""
    if trial.live is None:
        return None
    if folder is None:
        raise InputError(
            "folder", f"client {info.name} has none; the outcomes of live traffic are kept there"
        )
    return LiveStore(live_file(folder, info.name), info.name, trial)


def _observing(
    info: ClientInfo, pull: PullByName | None, trial: Trial, live: LiveStore | None
) -> Pull:
    """Return where observations come from: live traffic, or the user's function."""
    if live is not None:
        return live.read
    return lambda arm, n: asked(pull, trial.arms[arm], n, info)


def asked(
    pull: PullByName | None, arm: str, n: int, info: ClientInfo
) -> Sequence[float] | FloatArray:
    """Call the user's function; what goes wrong in it is said with its line."""
    if pull is None:
        raise InputError("pull", "is missing; only a trial with live in fedbandits.toml needs none")
    try:
        return pull(arm, n, info)
    except Exception as error:
        raise InputError(f'pull("{arm}", {n}, {info.name})', f"failed: {told(error)}") from error


def told(error: Exception) -> str:
    """Return an error of the user's code in one line, with where it stands."""
    file, line, trace = "", 0, error.__traceback__
    while trace is not None:
        file, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, SyntaxError):
        file, line = error.filename or file, error.lineno or line
    return f"{type(error).__name__}: {error} ({file}, line {line})"
