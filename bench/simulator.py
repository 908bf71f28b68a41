"""What the simulator costs, as ratios that are taken side by side in one run.

Prints a table and exits 1 when a bar is missed. Every ratio is the median over interleaved rounds,
because machines are noisy.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable

import numpy as np

import fedbandits as fb
from bars import Row, shown
from measure import medians

MEANS = [0.70, 0.71, 0.72, 0.73, 0.74, 0.75, 0.76, 0.765, 0.77, 0.79]
FIGURE_4 = fb.Approximate(means=MEANS, noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.02))
TUNED = fb.PaperRadius(arm=1.0, client=1.0)


def clients_against_bare_normals() -> Row:
    """Time (a): `clients` against drawing as many normals with NumPy."""
    n_clients = 2_000

    def game(trace: bool = False) -> fb.Simulation:
        return fb.simulate(
            FIGURE_4,
            fb.Fed1Ucb(pulls=1, clients=n_clients),
            horizon=10**6,
            replications=16,
            fidelity="clients",
            workers=1,
            trace=trace,
        )

    trace = game(trace=True).games.trace
    if trace is None:
        raise RuntimeError("no trace")
    draws = n_clients * int(np.isfinite(trace).sum())
    if draws < 10**7:
        raise RuntimeError(f"only {draws:,} draws")
    buffer = np.empty(2**16)
    rng = np.random.default_rng(1)

    def bare() -> None:
        for _ in range(draws // buffer.size + 1):
            rng.standard_normal(out=buffer)

    ours, theirs = medians([game, bare], rounds=5)
    detail = f"{draws:,} active (client, arm, phase) draws, {1e9 * ours / draws:.0f} ns each"
    return Row("(a) clients / bare normals", ours / theirs, 3.0, False, "×", detail)


def cohorts_of_any_size() -> Row:
    """Time (b): `cohorts` with 10⁹ clients against 10³, at the same number of phases."""
    # So wide a radius that no arm is ever dropped: both games play the same ten phases.
    wide = fb.PaperRadius(arm=1e18, client=1e18)

    def game(admissions: str) -> Callable[[], fb.Simulation]:
        return lambda: fb.simulate(
            FIGURE_4,
            fb.Fed2Ucb(pulls=100, admissions=admissions, radius=wide),
            horizon=10**6,
            replications=2_000,
            max_phases=10,
            workers=1,
        )

    for admissions, expected in (("100", 10**3), ("10^8", 10**9)):
        if game(admissions)().games.clients[0] != expected:
            raise RuntimeError("the game admits another number of clients")
    few, many = medians([game("100"), game("10^8")], rounds=7)
    detail = f"ten phases, 2,000 replications, {many:.2f} s with a billion"
    return Row("(b) cohorts: 10⁹ / 10³ clients", many / few, 2.0, False, "×", detail)


def cohorts_against_pulls() -> Row:
    """Time (c): figure 4, per replication: 10,000 in `cohorts` against 20 in `pulls`."""

    def game(fidelity: str, replications: int) -> Callable[[], fb.Simulation]:
        return lambda: fb.simulate(
            FIGURE_4,
            fb.Fed2Ucb(pulls=100, admissions="2^p", radius=TUNED),
            horizon=10**6,
            replications=replications,
            fidelity=fidelity,
            workers=1,
        )

    cohorts, pulls = medians([game("cohorts", 10_000), game("pulls", 20)], rounds=3)
    a_cohort, a_pull = cohorts / 10_000, pulls / 20
    detail = f"{1e6 * a_cohort:.0f} µs against {1e3 * a_pull:.0f} ms a replication"
    return Row("(c) pulls / cohorts, figure 4", a_pull / a_cohort, 1_000.0, True, "×", detail)


def memory_of_clients() -> Row:
    """Measure (d): peak memory of 100 replications, K = 100, 4,000 clients, in `clients`."""
    done = subprocess.run(
        [sys.executable, __file__, "--memory"], check=True, capture_output=True, text=True
    )
    peak = int(done.stdout) / 1024
    return Row("(d) peak memory, 4,000 clients", peak, 1024.0, False, " MiB", "K = 100, 100 games")


def play_for_memory() -> None:
    """Play the game of (d) in this process and print its peak memory in KiB."""
    rng = np.random.default_rng(1)
    problem = fb.Approximate(
        means=rng.uniform(0.3, 0.4, 100).tolist(),
        noise=fb.Gaussian(0.2),
        spread=fb.Gaussian(0.1),
    )
    fb.simulate(
        problem,
        fb.Fed1Ucb(pulls=10, clients=4_000),
        horizon=10**6,
        replications=100,
        fidelity="clients",
        max_phases=3,
        workers=1,
    )
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def memory_of_a_million_clients() -> Row:
    """Measure (e): peak memory of games with 10⁶ admitted clients, K = 10, in `clients`."""
    done = subprocess.run(
        [sys.executable, __file__, "--million"], check=True, capture_output=True, text=True
    )
    peak, took = (float(word) for word in done.stdout.split())
    detail = f"K = 10, 24 phases, {took:.1f} s a game"
    return Row("(e) peak memory, 10⁶ clients", peak / 1024, 1536.0, False, " MiB", detail)


def play_a_million() -> None:
    """Play the games of (e) in this process; print peak memory in KiB and seconds a game."""
    # So wide a radius that no arm is ever dropped.
    wide = fb.PaperRadius(arm=1e18, client=1e18)
    run = fb.simulate(
        FIGURE_4,
        fb.Fed2Ucb(pulls=10, admissions="2^p", radius=wide),
        horizon=10**6,
        replications=3,
        fidelity="clients",
        max_phases=24,
        workers=1,
    )
    if (run.games.clients != 10**6).any():
        raise RuntimeError("the game admits another number of clients")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, run.seconds / 3)


def trimmed_against_averages() -> Row:
    """Time (f): phases in `clients`, draws included, with the trimmed mean against averages."""
    n_clients, phases = 10_000, 50
    # A tie: nothing is ever dropped, and both play the same phases.
    tied = fb.Approximate(means=[0.5] * 10, noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.02))

    def game(liars: float | None) -> Callable[[], object]:
        algorithm = fb.Fed2Ucb(
            pulls=10,
            admissions=n_clients,
            radius=fb.CertifiedRadius(delta=1e-9),
            liars=liars,
        )
        return lambda: fb.simulate(
            tied,
            algorithm,
            horizon=10**6,
            replications=1,
            fidelity="clients",
            max_clients=n_clients,
            max_phases=phases,
            workers=1,
            warn=False,
        )

    ours, theirs = medians([game(0.1), game(None)], rounds=5)
    detail = f"{n_clients:,} clients, 10 arms: {1e3 * ours / phases:.1f} ms a phase"
    return Row("(f) trimmed / averages", ours / theirs, 3.0, False, "×", detail)


def main() -> int:
    """Run all of it."""
    if "--memory" in sys.argv[1:]:
        play_for_memory()
        return 0
    if "--million" in sys.argv[1:]:
        play_a_million()
        return 0
    measures = (
        clients_against_bare_normals,
        cohorts_of_any_size,
        cohorts_against_pulls,
        memory_of_clients,
        memory_of_a_million_clients,
        trimmed_against_averages,
    )
    return shown("simulator", (measure() for measure in measures))


if __name__ == "__main__":
    sys.exit(main())
