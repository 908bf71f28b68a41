"""One small value of every class that shows itself."""

from __future__ import annotations

from pathlib import Path

import fedbandits as fb
from fedbandits.notebook.viewed import Viewed
from fedbandits.protocol import Answer, Server, Update, answer_of
from fedbandits.rules.beliefs import Beliefs

GAME = fb.Approximate(
    means=[0.5, 0.6, 0.9], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.1), name="game"
)
RULE = fb.Fed2Ucb(pulls=10, admissions="2^p")

SWEEP = {
    "title": "a sweep",
    "horizon": 20_000,
    "replications": 5,
    "problem": {
        "model": "approximate",
        "means": [0.5, 0.6, 0.9],
        "noise": {"law": "gaussian", "sigma": 0.5},
        "spread": {"law": "gaussian", "sigma": 0.1},
    },
    "variants": [{"label": "it", "algorithm": "fed2-ucb", "admissions": "2^p"}],
    "sweep": {"variants.pulls": [10, 30], "communication_cost": [0, 10]},
}


def experiment(replications: int = 5) -> fb.Experiment:
    variants = [
        fb.Variant(label="fed2-ucb", problem=GAME, algorithm=RULE),
        fb.Variant(label="local", problem=GAME, algorithm=fb.LocalUcb(clients=3)),
    ]
    return fb.Experiment(title="a run", variants=variants, horizon=2_000, replications=replications)


def simulation(replications: int = 5) -> fb.Simulation:
    return fb.simulate(GAME, RULE, horizon=2_000, replications=replications, trace=True)


def plan() -> fb.Plan:
    return fb.plan(
        n_arms=3, gap=0.3, noise=0.5, spread=0.1, clients=100, replications=20, horizon=5_000
    )


def answer() -> Answer:
    rule = fb.Fed1Ucb(pulls="10", clients=1).rule(
        Beliefs(n_arms=3, horizon=1000, noise=0.01, spread=0.0)
    )
    server = Server(rule, arms=["red", "<b>blue</b>", "green"])
    server.open(["alice"])
    server.receive(
        Update(
            header=server.header,
            phase=1,
            client="alice",
            counts=(10, 10, 10),
            means=(0.2, 0.9, 0.9),
        )
    )
    server.close()
    return answer_of(server)


def every(folder: Path) -> list[Viewed]:
    sweep = fb.run_sweep(fb.read_sweep(SWEEP), folder, workers=1)
    return [simulation(), experiment().run(workers=1), plan(), sweep, answer()]
