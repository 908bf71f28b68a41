"""Find the best of K options across many clients whose data never leaves them.

The names in ``__init__.pyi`` are the Python interface; each is imported when it is first used.

Examples
--------
>>> import fedbandits as fb
>>> problem = fb.Approximate(means=[0.6, 0.9], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.1))
>>> run = fb.simulate(problem, fb.Fed2Ucb(pulls=20, admissions="2^p"), horizon=10_000, seed=1)
>>> run.games.winner.mean()
np.float64(1.0)
"""

from __future__ import annotations

import re
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_HOME_OF = {name: home for home, name in re.findall(r"from (\S+) import (\w+)", _STUB)}

__version__ = version("fedbandits")
__all__ = list(_HOME_OF)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import fedbandits` costs nothing."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'fedbandits' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
