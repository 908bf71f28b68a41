"""What a process of the laboratory does: one task, within limits, told message by message."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
from collections.abc import Iterator, Mapping
from itertools import chain
from multiprocessing.connection import Connection
from pathlib import Path

from fedbandits.errors import FedbanditsError, InputError
from fedbandits.laboratory.designs import CERTIFIED, Laboratory, field_of
from fedbandits.laboratory.playback import playback
from fedbandits.laboratory.pool import Message
from fedbandits.laboratory.setting import GAME, Setting

MEMORY = 2**30
"""Bytes that a process may take, beyond those that it begins with."""

# Other work on the machine goes first: the pages of running trials among it.
_NICE = 5
# Seconds that the server has to end a process before that ends itself.
_GRACE = 5


def work(connection: Connection, said: Mapping[str, str], seconds: float) -> None:
    """Answer what is asked, and end.

    Parameters
    ----------
    connection : Connection
        Where messages go, as JSON.
    said : mapping of str to str
        The fields of a setting; with ``game``, one game is shown step by step, beside the index
        rule that of the design ``left``.
    seconds : float
        How long it may take; the process is ended from outside then.
    """
    limit_itself(seconds)
    with contextlib.suppress(BrokenPipeError):  # nobody listens any more
        for message in chain([{"kind": "ready"}], answers(said, seconds)):
            connection.send_bytes(json.dumps(message, allow_nan=False).encode())
    connection.close()


def answers(said: Mapping[str, str], seconds: float) -> Iterator[Message]:
    """Yield what is known about a setting, as it becomes known; mistakes are among it.

    Examples
    --------
    >>> [mistake] = answers({"options": "many"}, 1.0)
    >>> mistake["kind"], mistake["errors"]
    ('refused', [{'field': 'options', 'problem': '"many" is not a number; give a whole number from
    2 to 100'}])
    """
    try:
        asked = dict(said)
        number, left = asked.pop("game", None), asked.pop("left", CERTIFIED)
        replication = None if number is None else int(GAME.read(number))
        laboratory = Laboratory(Setting.read(asked))
        if replication is None:
            yield from laboratory.stages(0.75 * seconds)
        else:
            yield playback(laboratory, left=left, replication=replication)
    except InputError as error:
        found = [{"field": field_of(one), "problem": one.problem} for one in error.each]
        yield {"kind": "refused", "errors": found}
    except (FedbanditsError, ArithmeticError, RecursionError) as error:
        problem = f"this cannot be played ({error}); change a field back"
        yield {"kind": "refused", "errors": [{"field": "", "problem": problem}]}
    except MemoryError:
        problem = f"takes more than {MEMORY / 2**30:g} GiB of memory; ask for fewer clients"
        yield {"kind": "refused", "errors": [{"field": "clients", "problem": problem}]}


def limit_itself(seconds: float) -> None:
    """Take no more memory and time than is allowed, leave Ctrl-C to the server, go behind others.

    The server ends a process in time. Should it be killed itself, the process still ends.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(AttributeError, OSError):  # not everywhere
        signal.alarm(math.ceil(seconds) + _GRACE)
        os.nice(_NICE)
    try:
        import resource  # noqa: PLC0415 - not everywhere

        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))
    except (ImportError, OSError, ValueError):
        return  # the games' own limit holds everywhere
