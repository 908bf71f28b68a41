"""Processes of this machine, by joblib."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from fedbandits.errors import FedbanditsError
from fedbandits.sweeps.backends import Play, Where
from fedbandits.sweeps.tasks import Answer, Task

# Starting processes takes about a second, and many sweeps are done before.
_SERIAL_SECONDS = 1.0
# Once there are some, work is handed to them at once.
_processes = {"started": False}
# The same task is begun again so often when its process is lost.
_MOST_LOSSES = 3


@contextmanager
def opened(where: Where) -> Iterator[Play]:
    """Yield what plays tasks: here for a second, and what is left then on several processes."""
    n_workers = where.n_workers

    def play(tasks: Sequence[Task]) -> Iterator[Answer]:
        alone = 0.0 if _processes["started"] else _SERIAL_SECONDS
        begin = time.perf_counter()
        left = deque(tasks)
        while left and (n_workers == 1 or time.perf_counter() - begin < alone):
            yield left.popleft().run()
        yield from _on_processes(left, n_workers)

    yield play


def _on_processes(tasks: Iterable[Task], workers: int) -> Iterator[Answer]:
    """Yield the answers to tasks; what a lost process had in hand is begun again."""
    from joblib import Parallel, delayed  # noqa: PLC0415 - only long work needs it
    from joblib.externals.loky.process_executor import TerminatedWorkerError  # noqa: PLC0415

    left = {tuple(task.specs): task for task in tasks}
    losses = 0
    while left:
        _processes["started"] = True
        parallel = Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1)
        try:
            for answer in parallel(delayed(Task.run)(task) for task in list(left.values())):
                del left[answer.addresses]
                yield answer
        except TerminatedWorkerError:
            losses += 1
            if losses > _MOST_LOSSES:
                raise FedbanditsError(
                    f"processes were lost {losses} times, perhaps for want of memory; take fewer"
                    " --workers, or lower --memory-limit"
                ) from None
