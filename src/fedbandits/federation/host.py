"""A client: the user's function, and the machine that answers for it."""

from __future__ import annotations

import inspect
import logging
import traceback
from collections.abc import Callable, Collection
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from fedbandits.errors import InputError
from fedbandits.federation.audit_file import AuditFile
from fedbandits.federation.halts import as_told, halt_of
from fedbandits.federation.kept_file import Adjustments, Recalls, WorkbenchFile
from fedbandits.federation.last_word import best_arm, best_in, keep_last_word
from fedbandits.federation.live_store import LiveStore
from fedbandits.federation.signing import Sign
from fedbandits.federation.state_files import (
    adjustments_file,
    audit_file,
    live_file,
    recalls_file,
    workbench_file,
)
from fedbandits.federation.trial import Trial
from fedbandits.privacy.sampling import Noise, discrete_noise
from fedbandits.protocol import (
    Assignment,
    Client,
    Conclusion,
    Halt,
    Recall,
    Receipt,
    Refusal,
    RefusalError,
    Refused,
    Release,
    Update,
    arms_hash,
)
from fedbandits.protocol.client import Returned, Slice
from fedbandits.protocol.covariates import FEWEST_PAIRS, Adjustment
from fedbandits.protocol.demands import check_demand
from fedbandits.protocol.messages import signed_bytes
from fedbandits.protocol.outcomes import parted
from fedbandits.protocol.turns import in_order, permuted_blocks


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


PullByName: TypeAlias = Callable[[str, int, ClientInfo], Returned]
"""``pull(arm, n, client)`` tries an option n times and returns the n outcomes: the user's code."""

History: TypeAlias = Callable[[ClientInfo], Returned]
"""``history(client)`` returns outcomes and covariates of units of before the trial."""

_LOG = logging.getLogger(__name__)


@dataclass(eq=False)
class ClientHost:
    """Answers a server's messages for one client.

    Parameters
    ----------
    info : ClientInfo
        Who it is.
    pull : callable, optional
        The user's function; None if the outcomes come from live traffic, or if nothing is to be
        played.
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
    sign : callable, optional
        What signs updates with the client's key; they are not signed by default.
    history : callable, optional
        The user's function that returns past outcomes and covariates, if the trial's covariate has
        no fixed coefficient.
    """

    info: ClientInfo
    pull: PullByName | None
    trial: Trial
    _: KW_ONLY
    folder: Path | None = None
    noise: Noise = discrete_noise
    rng: np.random.Generator | None = None
    live: LiveStore | None = None
    sign: Sign | None = None
    history: History | None = None

    def __post_init__(self) -> None:
        name, folder = self.info.name, self.folder
        self._last_word: Conclusion | None = None
        self._workbench = None if folder is None else WorkbenchFile(workbench_file(folder, name))
        adjusted = None if folder is None else adjustments_file(folder, name)
        self._adjustments = Adjustments(adjusted)
        self._recalls = Recalls(None if folder is None else recalls_file(folder, name))
        if self.trial.live is not None and self.live is None:
            if folder is None:
                raise InputError("folder", f"client {name} has none; live outcomes are kept there")
            self.live = LiveStore(live_file(folder, name), name, self.trial)

    @cached_property
    def _client(self) -> Client:
        """The machine that plays. A withdrawal works even if its files are damaged."""
        name, trial, folder, live = self.info.name, self.trial, self.folder, self.live
        return Client(
            name,
            self._observe if live is None else live.read,
            privacy=trial.privacy,
            outbox=None if folder is None else AuditFile(audit_file(folder, name)),
            noise=self.noise,
            rng=self.rng,
            turns=permuted_blocks(trial.seed, name) if trial.interleave else in_order,
            min_pulls=trial.min_pulls,
            halted=self.halt if live is None else live.halt,
            workbench=self._workbench,
            limits=trial.range,
            outside=trial.outside,
            where=self._name_outcomes,
            uneven=tuple if live is None else live.uneven,
            guardrails=tuple(trial.guardrails),
            covariate=trial.covariate,
            adjustment=self._adjustment,
        )

    def _adjustment(self, run: str) -> Adjustment:
        """Return what this client adjusts outcomes by in all of a run, which has a covariate."""
        fixed = None if self.trial.covariate is None else self.trial.covariate.fixed
        return fixed or self._adjustments.settled(run, partial(self._estimated, run))

    def _estimated(self, run: str) -> Adjustment:
        """Return what the client's history says, before the first unit of a run."""
        trial, where, covariate = self.trial, f"history({self.info.name})", self.trial.covariate
        if self.history is None or covariate is None:
            raise InputError("history", "is missing; write history(client) in client.py")
        if self._client.has_played(run) or (self.live is not None and self.live.has_begun(run)):
            raise InputError(
                where, "is not asked in the middle of a run; restore what the client has kept"
            )
        try:
            returned = self.history(self.info)
        except Exception as error:
            raise InputError(where, f"failed: {error_line(error)}") from error
        try:
            outcomes, _, covariates = parted(returned, None, (), covariate=True)
            held = covariate.held(covariates, clips=trial.outside == "clip")
        except InputError as error:
            raise error.within(where) from None
        found = covariate.estimated(outcomes, held, trial.limits)
        if not found.coefficient:
            few = f"{found.units} units, and {FEWEST_PAIRS} are needed"
            why = few if found.units < FEWEST_PAIRS else "the covariate explains nothing"
            if trial.noise is not None:
                raise InputError(
                    where,
                    f"no coefficient is known from it ({why}), and assume.noise is that of adjusted"
                    " outcomes; give more history, or fix the coefficient in fedbandits.toml",
                )
            _LOG.warning("%s: outcomes of this client count as they are: %s", where, why)
        return found

    def _observe(self, arm: int, n: int) -> Returned:
        return call_pull(self.pull, self.trial.given(arm), n, self.info)

    def _name_outcomes(self, arm: int, n: int) -> str:
        """Return what outcomes are called in an error: by option, client and line."""
        if self.live is not None:
            return f'outcomes of "{self.trial.arms[arm]}" in {self.live.path}'
        return call_words(self.pull, self.trial.given(arm), n, self.info)

    def halt(self) -> Halt | None:
        """Return what the operator of this client has halted here, or None."""
        name, arms = self.info.name, self.trial.arms
        return None if self.folder is None else halt_of(self.folder, name, arms)

    def answer(self, assignment: Assignment, within: Slice | None = None) -> Update | Refusal:
        """Play a phase, or as much of it as a slice of time allows, or refuse to.

        The answer says what is halted here now. An update is signed with all that it says.
        """
        answer, halt = self._answer(assignment, within), self.halt()
        answer = replace(answer, halt=None if halt is None else as_told(halt))
        if self.sign is None or not isinstance(answer, Update):
            return answer
        return replace(answer, signature=self.sign(signed_bytes(answer, assignment)))

    def recall(self, recall: Recall) -> Receipt:
        """Take back the options that are withdrawn: nobody is given them from now on."""
        if recall.header.arms != arms_hash(self.trial.arms):
            raise InputError("arms", f"the recall is about others than {self.trial.arms}")
        check_demand(recall, len(self.trial.arms))
        if self.live is None:
            self._recalls.add(recall.header.run, recall.arms)
        else:
            with self.live as store:
                store.recall(recall.header.run, recall.arms)
        return Receipt(
            header=recall.header, client=self.info.name, arms=recall.arms, halt=self.halt()
        )

    def _answer(self, assignment: Assignment, within: Slice | None) -> Update | Refusal:
        refused = partial(assignment.refused, self.info.name)
        if assignment.header.arms != arms_hash(self.trial.arms):
            words = "server and clients need the same in fedbandits.toml, in the same order"
            return refused(Refused.ARMS, words)
        check_demand(assignment, len(self.trial.arms))
        if self._asks_too_much(assignment.release):
            return refused(Refused.POLICY, f"{assignment.release}, which is not in the trial")
        if self.live is None:
            run, bench = assignment.header.run, self._workbench
            out = self._recalls.add(run, assignment.withdrawn)
            other = None if bench is None else bench.other_run(run)
            if other is not None:
                return refused(Refused.BUSY, f'"{other}" has a phase here')
            return self._played(assignment, out, within)
        try:  # before any unit gets an option for it
            self._client.refuse_forbidden(assignment)
        except RefusalError as error:
            return error.refusal
        with self.live as store:
            if self.trial.covariate is not None:  # settled before the first unit
                store.adjustment = self._adjustment(assignment.header.run)
            taken = store.take(assignment)
            return taken if isinstance(taken, Refusal) else self._played(assignment, taken, None)

    def _asks_too_much(self, release: Release) -> bool:
        """Return whether the server asks for more about outcomes than the trial says.

        A mechanism of the server's own could reveal how many outcomes lie in any range.
        """
        if release.squares and not self.trial.rule().needs_squares:
            return True
        return self.trial.privacy is None and release.mechanism is not None

    def _played(
        self, assignment: Assignment, withdrawn: Collection[int], within: Slice | None
    ) -> Update | Refusal:
        """Play without what is withdrawn: an older assignment may arrive after a withdrawal."""
        out = tuple(arm for arm, n in enumerate(assignment.pulls) if n and arm in withdrawn)
        try:
            return self._client.play(replace(assignment, withdrawn=out), within)
        except RefusalError as error:
            return error.refusal

    def conclude(self, conclusion: Conclusion) -> None:
        """Take the last word, and keep it."""
        if conclusion.arms != self.trial.arms:
            raise InputError("arms", f"the last word is about others than {self.trial.arms}")
        check_demand(conclusion, len(self.trial.arms))
        if self.live is not None:
            with self.live as store:
                store.conclude(conclusion.header.run, conclusion.decision)
        if self.folder is not None:
            keep_last_word(self.folder, self.info.name, conclusion)
        self._client.conclude(conclusion.decision)
        self._last_word = conclusion

    def best_arm(self) -> str | None:
        """Return the option to stay on, once it is known; a restart does not forget it.

        Raises
        ------
        HaltedError
            If it is halted here.
        """
        if self.folder is not None:
            return best_arm(self.folder, self.info.name)
        return None if self._last_word is None else best_in(self._last_word)


def call_words(pull: PullByName | None, arm: str, n: int, info: ClientInfo) -> str:
    """Return a call of the user's function in words, with the function's file and line."""
    code = getattr(inspect.unwrap(pull) if pull is not None else pull, "__code__", None)
    line = "" if code is None else f" in {code.co_filename}, line {code.co_firstlineno}"
    return f'pull("{arm}", {n}, {info.name}){line}'


def call_pull(pull: PullByName | None, arm: str, n: int, info: ClientInfo) -> Returned:
    """Call the user's function; an error in it is reported with its line."""
    if pull is None:
        raise InputError("pull", "is missing; only a trial with live in fedbandits.toml needs none")
    try:
        return pull(arm, n, info)
    except Exception as error:
        code = getattr(inspect.unwrap(pull), "__code__", None)
        file = "" if code is None else code.co_filename
        raise InputError(
            f'pull("{arm}", {n}, {info.name})', f"failed: {error_line(error, file)}"
        ) from error


def error_line(error: Exception, file: str = "") -> str:
    """Return an error of the user's code in one line, with its place in that code.

    Parameters
    ----------
    error : Exception
        What was raised.
    file : str
        The user's file: lines of what lies in its folder are named rather than those of a library
        that it calls.
    """
    lines = traceback.extract_tb(error.__traceback__)
    own = [one for one in lines if file and Path(one.filename).is_relative_to(Path(file).parent)]
    name, line = ((own or lines)[-1].filename, (own or lines)[-1].lineno) if lines else ("", 0)
    if isinstance(error, SyntaxError):
        name, line = error.filename or name, error.lineno or line
    return f"{type(error).__name__}: {error} ({name}, line {line})"
