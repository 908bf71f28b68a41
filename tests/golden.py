"""Settings whose outcomes must stay the same to the last bit, and the hashes of these outcomes.

``make golden`` plays every setting and writes ``tests/golden.json``. Do that only for a change that
is meant to change numbers, and say in its message which and why.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import fedbandits as fb
from fedbandits.problems import Problem
from fedbandits.rules.algorithms import Algorithm
from fedbandits.rules.phased import Weights
from fedbandits.rules.radii import Index
from fedbandits.rules.sampling import Target

FILE = Path(__file__).with_suffix(".json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A game, a rule and a fidelity under a name that never changes."""

    name: str
    problem: Problem
    algorithm: Algorithm
    fidelity: str | None
    horizon: int | None = 6000
    replications: int = 3
    assume: fb.Assume | None = None
    privacy: fb.Privacy | None = None
    max_clients: int | None = None
    max_phases: int | None = None

    def fingerprint(self) -> str:
        """Play the setting and return a hash of everything that came out."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fb.AssumptionWarning)
            run = fb.simulate(
                self.problem,
                self.algorithm,
                horizon=self.horizon,
                replications=self.replications,
                seed=15,
                grid_points=7,
                workers=1,
                fidelity=self.fidelity,
                assume=self.assume,
                privacy=self.privacy,
                max_clients=self.max_clients,
                max_phases=self.max_phases,
                trace=True,
            )
        digest = hashlib.sha256(run.fidelity.value.encode())
        for name in sorted(field.name for field in fields(run.games)):
            value = getattr(run.games, name)
            if isinstance(value, np.ndarray):
                digest.update(name.encode())
                # One NaN of several bit patterns, and no negative zero.
                digest.update((np.nan_to_num(value * 1.0, nan=-1e300) + 0.0).tobytes())
        return digest.hexdigest()[:16]


_MEANS = [0.35, 0.5, 0.6]
_SPREAD = 0.05
_TABLE = np.array([[0.2, 0.7, 0.5], [0.6, 0.3, 0.9], [0.3, 0.4, 0.5], [0.1, 0.6, 0.8]])


def _problems() -> dict[str, Problem]:
    gaussian, bernoulli = fb.Gaussian(0.5), fb.Bernoulli()
    ratings = [[[1, 4], [3], [5, 5, 2]], [[2], [1, 3], [4]], [[3, 3], [2, 2], [5, 4]]]
    masts = (
        fb.Transmitter(at=(5.0, 5.0), reach=1.0, activity=0.9),
        fb.Transmitter(at=(2.0, 8.0), reach=2.0, activity=0.6),
        fb.Transmitter(at=(7.0, 3.0), reach=3.0, activity=0.5),
    )
    radio = fb.CognitiveRadio(area=(10.0, 10.0), channels=[fb.Channel([mast]) for mast in masts])
    return {
        "normal": fb.Approximate(means=_MEANS, noise=gaussian, spread=fb.Gaussian(_SPREAD)),
        "lowest": fb.Approximate(
            means=_MEANS, noise=gaussian, spread=fb.Gaussian(_SPREAD), goal="min"
        ),
        "offset": fb.Approximate(
            means=_MEANS, noise=gaussian, spread=fb.Gaussian(_SPREAD), offset=0.1
        ),
        "finite": fb.Approximate(
            means=_MEANS, noise=gaussian, spread=fb.Gaussian(_SPREAD), population=40
        ),
        "uniform": fb.Approximate(means=_MEANS, noise=gaussian, spread=fb.Uniform(_SPREAD)),
        "box": fb.Approximate(means=_MEANS, noise=fb.Uniform(0.2), spread=fb.Gaussian(_SPREAD)),
        "rates": fb.Approximate(means=_MEANS, noise=bernoulli, spread=fb.Beta(_SPREAD)),
        "finite rates": fb.Approximate(
            means=_MEANS, noise=bernoulli, spread=fb.Beta(_SPREAD), population=40
        ),
        "given": fb.Exact(local_means=_TABLE, noise=gaussian),
        "weighted": fb.Exact(local_means=_TABLE, noise=gaussian, weights=[1, 2, 3, 4]),
        "given rates": fb.Exact(local_means=_TABLE, noise=bernoulli),
        "lists": fb.Exact.from_observations(ratings),
        "radio": radio,
    }


_RADII: dict[str, Any] = {
    "paper": fb.PaperRadius(),
    "tuned": fb.PaperRadius(arm=1.0, client=1.0),
    "joint": fb.JointRadius(),
    "pairwise": fb.PairwiseRadius(),
    "dependent": fb.PairwiseRadius(dependence="any"),
    "certified": fb.CertifiedRadius(delta=0.05),
    "paired-t": fb.PairedTRadius(delta=0.05, min_clients=4),
    "bernstein": fb.BernsteinRadius(delta=0.05),
    "chernoff": fb.ChernoffRadius(delta=0.05),
}
_PRIVACY = {
    "stochastic": fb.Privacy(range=(0, 1), quantize=fb.Quantize(bits=5)),
    "nearest": fb.Privacy(range=(0, 1), quantize=fb.Quantize(bits=7, rounding="nearest")),
    "by radius": fb.Privacy(
        range=(0, 1), quantize=fb.Quantize(bits="radius", rounding="nearest", widening="paper")
    ),
    "gaussian": fb.Privacy(range=(0, 1), noise="gaussian", epsilon=4.0, delta=1e-6),
    "laplace": fb.Privacy(range=(0, 1), noise="laplace", epsilon=4.0),
    "user": fb.Privacy(
        range=(0, 1), noise="gaussian", epsilon=60.0, delta=1e-6, level="user", releases=6
    ),
}
_FIDELITIES = ("cohorts", "clients", "pulls")
_TARGETS: tuple[Target, ...] = ("clients", "population")
_WEIGHTS: tuple[Weights, ...] = ("equal", "inverse-variance")
_INDICES: tuple[Index, ...] = ("moss", "ucb2", "ucb")


def _eliminations() -> Iterator[Setting]:
    problems = _problems()
    for (game, problem), (radius, rule), fidelity in product(
        problems.items(), _RADII.items(), _FIDELITIES
    ):
        algorithm = fb.Fed2Ucb(pulls="10*p", admissions="2^p", radius=rule)
        yield Setting(
            name=f"fed2-ucb {game} {radius} {fidelity}",
            problem=problem,
            algorithm=algorithm,
            fidelity=fidelity,
            replications=1 if fidelity == "pulls" else 3,
            max_clients=60,
        )
        yield Setting(
            name=f"fed1-ucb {game} {radius} {fidelity}",
            problem=problem,
            algorithm=fb.Fed1Ucb(
                pulls=20, clients=4 if game in ("normal", "rates") else None, radius=rule
            ),
            fidelity=fidelity,
        )
    for radius, fidelity in product(("paper", "joint", "certified", "bernstein"), _FIDELITIES):
        for game in ("normal", "lowest", "rates", "uniform"):
            yield Setting(
                name=f"inverse-variance {game} {radius} {fidelity}",
                problem=problems[game],
                algorithm=fb.Fed2Ucb(
                    pulls=12,
                    admissions="p",
                    radius=_RADII[radius],
                    weights="inverse-variance",
                ),
                fidelity=fidelity,
            )
    for game, target, fidelity in product(
        ("finite", "given", "finite rates"), _TARGETS, _FIDELITIES
    ):
        yield Setting(
            name=f"target {game} {target} {fidelity}",
            problem=problems[game],
            algorithm=fb.Fed2Ucb(
                pulls=15, admissions=2, radius=_RADII["certified"], target=target, epsilon=0.05
            ),
            fidelity=fidelity,
        )
    for game, told, weights in product(
        ("normal", "rates", "given rates", "lists", "offset"),
        (
            fb.Assume(noise="estimate", min_clients=3),
            fb.Assume(spread="estimate", min_clients=3),
            fb.Assume(noise="estimate", spread="estimate", min_clients=3),
        ),
        _WEIGHTS,
    ):
        for fidelity in ("clients", "pulls"):
            yield Setting(
                name=f"estimated {game} {told.noise} {told.spread} {weights} {fidelity}",
                problem=problems[game],
                algorithm=fb.Fed2Ucb(
                    pulls=10, admissions=4, radius=_RADII["certified"], weights=weights
                ),
                fidelity=fidelity,
                assume=told,
            )
    for (policy, privacy), game, radius, fidelity in product(
        _PRIVACY.items(), ("rates", "given rates"), _RADII, _FIDELITIES
    ):
        yield Setting(
            name=f"private {policy} {game} {radius} {fidelity}",
            problem=problems[game],
            algorithm=fb.Fed2Ucb(pulls=40, admissions="2^p", radius=_RADII[radius]),
            fidelity=fidelity,
            privacy=privacy,
            horizon=4000,
            replications=1 if fidelity == "pulls" else 3,
            max_clients=20,
        )
    for game, fidelity in product(("normal", "given", "rates"), _FIDELITIES):
        plain: dict[str, Algorithm] = {
            "centralized": fb.Centralized(clients=3),
            "slot": fb.Centralized(clients=4, communicate="slot"),
            "baseline": fb.AuthorsBaseline(pulls=20),
            "improved": fb.ImprovedUcb(),
        }
        for label, other in plain.items():
            yield Setting(
                name=f"{label} {game} {fidelity}",
                problem=problems[game],
                algorithm=other,
                fidelity=fidelity,
                horizon=1500,
                replications=2,
            )
        yield Setting(
            name=f"capped {game} {fidelity}",
            problem=problems[game],
            algorithm=fb.Fed2Ucb(pulls=5, admissions="2^p"),
            fidelity=fidelity,
            max_clients=4,
            max_phases=9,
        )
        yield Setting(
            name=f"no horizon {game} {fidelity}",
            problem=problems[game],
            algorithm=fb.Fed2Ucb(pulls=20, admissions="p", radius=_RADII["certified"]),
            fidelity=fidelity,
            horizon=None,
            max_phases=25,
        )
    for game in ("normal", "given", "rates", "lists"):
        for label, slots in (("ucb1", fb.Ucb1()), ("local-ucb", fb.LocalUcb(clients=3))):
            yield Setting(
                name=f"{label} {game}",
                problem=problems[game],
                algorithm=slots,
                fidelity=None,
                horizon=500,
            )


def _index_rules() -> Iterator[Setting]:
    problems = _problems()
    for game, index, fidelity in product(problems, _INDICES, _FIDELITIES):
        yield Setting(
            name=f"fed-index {game} {index} {fidelity}",
            problem=problems[game],
            algorithm=fb.FedIndex(index=index),
            fidelity=fidelity,
            replications=2,
            horizon=3000 if game == "radio" else 6000,
        )
    for game, fidelity in product(("given", "weighted", "given rates", "lists"), _FIDELITIES):
        yield Setting(
            name=f"certified commit {game} {fidelity}",
            problem=problems[game],
            algorithm=fb.FedIndex(commit="certified", delta=0.05),
            fidelity=fidelity,
            replications=2,
        )
    for (policy, privacy), fidelity in product(_PRIVACY.items(), _FIDELITIES):
        yield Setting(
            name=f"fed-index private {policy} {fidelity}",
            problem=problems["rates"],
            algorithm=fb.FedIndex(initial_clients=4, first_pulls=80),
            fidelity=fidelity,
            privacy=privacy,
            replications=2,
            horizon=3000,
        )
    for fidelity in _FIDELITIES:
        yield Setting(
            name=f"fed-index narrow {fidelity}",
            problem=problems["normal"],
            algorithm=fb.FedIndex(arms_per_phase=2),
            fidelity=fidelity,
            max_clients=40,
        )


def settings() -> dict[str, Setting]:
    """Return all settings by name; some are refused, and those are not in the file."""
    return {setting.name: setting for part in (_eliminations(), _index_rules()) for setting in part}


def fingerprints() -> dict[str, str]:
    """Play every setting that is not refused."""
    found = {}
    for name, setting in settings().items():
        try:
            found[name] = setting.fingerprint()
        except fb.InputError:
            continue
    return found


if __name__ == "__main__":
    played = fingerprints()
    FILE.write_text(json.dumps(played, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    sys.stderr.write(f"{len(played)} hashes written to {FILE.name}\n")
