"""A client whose outcomes come from live traffic, some time after the choice.

The service that has the traffic asks for each unit (a visitor, an order, a patient) which option it
gets, and says what came of it when that is known. The server's messages are answered elsewhere, by
a `fedbandits.federation.host.ClientHost` that reads the same file.
"""

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedbandits.errors import LARGEST, InputError, file_errors
from fedbandits.federation import state_files
from fedbandits.federation.live_store import LiveStore, WallClock
from fedbandits.federation.trial import Trial, load_trial
from fedbandits.protocol.codec import is_text
from fedbandits.protocol.outcomes import refuse_outside


class LiveTrial(state_files.Closing):
    """A trial, for the service that has the traffic.

    Threads may share one, and processes may share the folder; what has returned is on disk. After a
    fork both processes can use it.

    Parameters
    ----------
    project : path or Trial
        The folder with fedbandits.toml, or what is in it.
    client : str
        The client's name, as the server knows it.
    state : path
        The folder of the client's files, on a disk of this machine; made if it is not there.
    clock : callable
        Seconds since 1970.
    durable : bool
        False for simulated traffic: what has returned may then be lost, and the file with it.

    Raises
    ------
    InputError
        If the trial is not a live one, or the folder cannot be used.

    Examples
    --------
    >>> import tempfile
    >>> from fedbandits.federation.trial import read_trial
    >>> trial = read_trial({
    ...     "title": "demo", "arms": ["red", "blue"], "pulls": "20", "admissions": "2^p",
    ...     "radius": {"rule": "certified", "delta": 0.05}, "assume": {"noise": 0.5, "spread": 0.1},
    ...     "live": {"maturity": 600, "missing": 0.0},
    ... })
    >>> with LiveTrial(trial, client="shop-1", state=tempfile.mkdtemp()) as live:
    ...     live.assign("visitor-1") == live.assign("visitor-1")
    True
    """

    def __init__(
        self,
        project: str | Path | Trial,
        *,
        client: str,
        state: str | Path,
        clock: WallClock = time.time,
        durable: bool = True,
    ) -> None:
        trial = project if isinstance(project, Trial) else load_trial(project)
        state_files.check_name(client, "client")
        folder = Path(state)
        self.trial = trial
        self._limits = trial.range
        path = state_files.live_file(folder, client)
        self.store = LiveStore(path, client, trial, clock=clock, durable=durable)
        with file_errors(folder, "cannot be made"):
            state_files.private_folder(folder)
        # Report a problem with the file now, not to the first visitor.
        self.store.wanted()

    def assign(self, unit: str, *, covariate: float | None = None) -> str:
        """Return the option of a unit.

        The same unit gets the same option again, as long as that is in the game. While a phase is
        open units get its options in permuted blocks; those beyond it, and those that come when
        none is open, get the best known option and do not count.

        Parameters
        ----------
        unit : str
            Who gets it.
        covariate : float, optional
            What the trial's covariate is for the unit, if it has one; what was given with the
            unit's first option counts. If it is not known, give any value that does not depend
            on the option, such as the usual mean.

        Raises
        ------
        InputError
            If the unit has no name, the covariate is not a number in its range, or the file cannot
            be written.
        """
        _check_unit(unit)
        return self.store.assign(unit, self._checked_covariate(covariate))

    def record(self, unit: str, value: float, **guardrails: float) -> bool:
        """Record the outcome of a unit, with all its guardrails; return whether it counts.

        It does not if no phase has counted the unit, its phase is over, or it comes later than
        ``maturity``. The same outcome may be recorded again.

        Raises
        ------
        InputError
            If the unit was never assigned, has another outcome already, or the value is no finite
            number in the trial's range. A trial with ``outside = "clip"`` takes any finite number,
            keeps it as it is, and clips it when the phase is reported. Likewise if a guardrail of
            the trial is missing, is none of the trial, or lies outside its range.
        """
        _check_unit(unit)
        return self.store.record(unit, self._checked(value), self._guarded(guardrails))

    def _guarded(self, given: Mapping[str, float]) -> dict[str, float]:
        """Return the values of all guardrails, by their names."""
        rails = self.trial.guardrails
        names = [rail.name for rail in rails]
        wanted = f"record(unit, value{''.join(f', {name}=…' for name in names)})"
        for name in given:
            if name not in names:
                raise InputError(name, f"is no guardrail of the trial; call {wanted}")
        found = {}
        for rail in rails:
            if rail.name not in given:
                raise InputError(rail.name, f"is missing; call {wanted}")
            number = _number(given[rail.name], rail.name, "record")
            try:
                refuse_outside(np.array([number]), rail.range, "it", "guardrail's")
            except InputError as error:
                raise error.within(rail.name) from None
            found[rail.name] = number
        return found

    def _checked(self, value: float) -> float:
        """Return an outcome as it is kept; a trial that clips does so when the outcome counts."""
        number = _number(value, "value", "record")
        if self._limits is not None and self.trial.outside == "refuse":
            try:
                refuse_outside(np.array([number]), self._limits, "it")
            except InputError as error:
                raise error.within("value") from None
        return number

    def _checked_covariate(self, value: float | None) -> float | None:
        """Return a covariate as it is kept; outside its range only if the trial clips."""
        declared = self.trial.covariate
        if declared is None:
            if value is not None:
                raise InputError("covariate", "is not in fedbandits.toml; declare it, or give none")
            return None
        if value is None:
            raise InputError(
                "covariate", f'is missing; give "{declared.name}": assign(unit, covariate=12.0)'
            )
        number = _number(value, "covariate")
        # One that is clipped is clipped when its unit counts.
        declared.held(np.array([number]), clips=self.trial.outside == "clip", name="it")
        return number

    def wanted(self) -> int:
        """Return how many more new units the open phase counts; 0 if none is open."""
        return self.store.wanted()

    def best_arm(self) -> str | None:
        """Return the option to stay on; None while the run goes on.

        Raises
        ------
        HaltedError
            If it is halted here.
        """
        return self.store.best()

    def forget(self, before: float) -> int:
        """Delete units that were assigned before a time, and overwrite them; return how many.

        Units of the open phase stay. A forgotten unit is a new one when it comes again, and its
        outcome can no longer be recorded.

        Parameters
        ----------
        before : float
            Seconds since 1970, such as ``time.time() - 90 * 86400``.
        """
        return self.store.forget(before)

    def close(self) -> None:
        """Let go of the file. The next call opens it again."""
        self.store.close()


def _number(value: float, where: str, do: str = "give") -> float:
    """Return a number that a service gives; refuse anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if isinstance(value, bool | np.bool_):  # as in pull: it may be a mistaken comparison
        raise InputError(where, f"{value!r} is a truth value; {do} 1.0 or 0.0")
    if isinstance(value, str) or not abs(number) <= LARGEST:
        raise InputError(where, f"{value!r} is not a finite number such as 1.0")
    return number


def _check_unit(unit: object) -> None:
    if not isinstance(unit, str) or not unit or not is_text(unit):
        raise InputError("unit", f"{unit!r} is not a name such as 'visitor-1'")
