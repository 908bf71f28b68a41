"""A client in its place: the user's function, and the machine that answers for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from fedbandits.errors import InputError
from fedbandits.federation.last_word import keep_last_word, read_last_word
from fedbandits.federation.state_files import audit_file, last_word_file
from fedbandits.federation.trial import Trial
from fedbandits.privacy.sampling import Noise, discrete_noise
from fedbandits.protocol import (
    Assignment,
    AuditFile,
    Client,
    Conclusion,
    Refusal,
    RefusalError,
    Update,
    arms_hash,
)
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
    pull : callable
        The user's function.
    trial : Trial
        What is compared; the client keeps to it whatever the server asks.
    folder : path, optional
        Where the client keeps what it has sent and what it was told in the end, which outlasts the
        process. Without one it forgets with it.
    noise : Noise
        Where noise comes from; OpenDP's discrete samplers by default.
    rng : numpy.random.Generator, optional
        For stochastic rounding.
    """

    def __init__(
        self,
        info: ClientInfo,
        pull: PullByName,
        trial: Trial,
        *,
        folder: Path | None = None,
        noise: Noise = discrete_noise,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.info = info
        self.trial = trial
        self._folder = folder
        self._client = Client(
            info.name,
            lambda arm, n: _asked(pull, trial.arms[arm], n, info),
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
            raise InputError(
                "arms",
                f"the server has others than {', '.join(self.trial.arms)}; server and clients need"
                " the same in fedbandits.toml, in the same order",
            )
        try:
            return self._client.play(assignment)
        except RefusalError as error:
            return error.refusal

    def conclude(self, conclusion: Conclusion) -> None:
        """Take the last word, and keep it."""
        if self._folder is not None:
            path = last_word_file(self._folder, self.info.name)
            keep_last_word(path, conclusion, self.trial.arms)
        self._client.conclude(conclusion.decision)

    def best_arm(self) -> str | None:
        """Return the option to stay on, once it is known; a restart does not forget it."""
        best = self._client.best
        if best is None and self._folder is not None:
            kept = read_last_word(last_word_file(self._folder, self.info.name))
            best = None if kept is None else kept[0].decision.best
        return None if best is None else self.trial.arms[best]


def _asked(pull: PullByName, arm: str, n: int, info: ClientInfo) -> Sequence[float] | FloatArray:
    """Call the user's function; what goes wrong in it is said with its line."""
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
