"""Processes of this machine, by joblib."""

from __future__ import annotations

import time
import warnings
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from fedbandits.sweeps.backends import MOST_LOSSES, Backend, Where, all_lost
from fedbandits.sweeps.tasks import SweepTask, TaskResult

# Starting processes takes about a second, and many sweeps are done before.
_SERIAL_SECONDS = 1.0
# Once there are some, work is handed to them at once.
_processes = {"started": False}


@contextmanager
def opened(where: Where) -> Iterator[Backend]:
    """Yield what plays tasks: here for a second, and what is left then on several processes."""
    n_workers = where.n_workers

    def play(tasks: Sequence[SweepTask]) -> Generator[TaskResult, None, None]:
        alone = 0.0 if _processes["started"] else _SERIAL_SECONDS
        left, until = deque(tasks), time.perf_counter() + alone
        while left and (n_workers == 1 or time.perf_counter() < until):
            yield left.popleft().run()
        yield from _on_processes(left, n_workers)

    yield Backend(workers=n_workers, play=play)


def _on_processes(tasks: Iterable[SweepTask], workers: int) -> Generator[TaskResult, None, None]:
    """Yield the answers to tasks; what a lost process had in hand is begun again.

    Which of those in hand was to blame is not known: they are played one by one before others are.
    """
    from joblib import Parallel  # noqa: PLC0415 - only long work needs it

    left = {tuple(task.cells): task for task in tasks}
    losses: Counter[tuple[str, ...]] = Counter()
    suspects: list[tuple[str, ...]] = []
    while left:
        _processes["started"] = True
        in_hand: list[tuple[str, ...]] = []
        one_by_one = [left[key] for key in suspects if key in left]
        parallel = Parallel(
            n_jobs=max(workers, 2),  # never in this process
            return_as="generator_unordered",
            batch_size=1,
            # No more is handed out than is played.
            pre_dispatch=1 if one_by_one else workers,
        )
        answers = parallel(_handed(one_by_one or list(left.values()), in_hand))
        try:
            for answer in answers:
                del left[answer.addresses]
                in_hand.remove(answer.addresses)
                yield answer
        except GeneratorExit:
            # A setting was refused. The others are abandoned on purpose, and joblib warns.
            with warnings.catch_warnings(action="ignore"):
                answers.close()
            raise
        except BrokenProcessPool as error:
            if one_by_one:
                losses[in_hand[-1]] += 1
            else:
                suspects = in_hand
            if max(losses.values(), default=0) > MOST_LOSSES:
                raise all_lost(type(error).__name__) from None


def _handed(tasks: Sequence[SweepTask], in_hand: list[tuple[str, ...]]) -> Iterator[object]:
    """Yield tasks as joblib takes them, and note which it has taken."""
    from joblib import delayed  # noqa: PLC0415 - as above

    for task in tasks:
        in_hand.append(tuple(task.cells))
        yield delayed(SweepTask.run)(task)
