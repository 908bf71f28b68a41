"""Liars in a live trial: the same rules, and a run that none of them ends or stalls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from commands import Command
from fedbandits.errors import InputError
from fedbandits.federation.host import ClientInfo
from fedbandits.federation.local import try_trial
from fedbandits.federation.trial import Trial, read_trial
from fedbandits.protocol.decisions import interval_widths
from fedbandits.protocol.fold import apply
from fedbandits.protocol.promises import coverage
from fedbandits.protocol.records import ClientHalted
from fedbandits.protocol.server import Server
from fedbandits.protocol.state import RunState
from fedbandits.rules.estimators import Median
from fedbandits.rules.guarantees import Assumption

CLIENTS = 30


def trial(**keys: Any) -> Trial:
    algorithm = fb.Fed1Ucb(pulls=40, radius=fb.CertifiedRadius(delta=0.05), **keys)
    return Trial(
        title="colours",
        arms=("red", "blue"),
        algorithm=algorithm,
        limits=(0.0, 1.0),
        population=CLIENTS,
    )


def pull(arm: str, n: int, client: ClientInfo, *, lying: int) -> list[float]:
    """Return outcomes: blue is better, and liars say the opposite as loudly as they can."""
    if client.number < lying:
        return [float(arm == "red")] * n
    rng = np.random.default_rng([client.number, len(arm)])
    return [float(u < (0.2 if arm == "red" else 0.85)) for u in rng.random(n)]


def decided(lying: int, **keys: Any) -> Any:
    return try_trial(trial(**keys), lambda *told: pull(*told, lying=lying), CLIENTS)


def test_a_trial_that_allows_for_liars_finds_the_best_option_among_them() -> None:
    server = decided(3, liars=3)
    assert server.decision.winner == 1
    found = server.run_state.guarantee
    assert found.error == 0.05
    assert "at most 3 of the clients lie" in found.words()
    assert found.whom == "the honest ones of these 30 clients"
    # The same clients decide nothing that is promised if they are taken for honest.
    assert decided(3).run_state.guarantee.condition(Assumption.HONEST) is not None


def test_a_file_says_how_many_may_lie() -> None:
    tables: dict[str, Any] = {
        "title": "colours",
        "arms": ["red", "blue"],
        "range": [0, 1],
        "population": CLIENTS,
        "algorithm": "fed1-ucb",
        "pulls": 40,
        "radius": {"rule": "certified", "delta": 0.05},
        "liars": 3,
    }
    assert "at most 3" in read_trial(tables).rule().guarantee().words()
    with pytest.raises(InputError, match="liars: is not a key"):
        read_trial(
            {"title": "colours", "arms": ["red", "blue"], "algorithm": "fed-index", "liars": 3}
        )


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("liars = 0.2", "by 0.0817, however many clients report"),
        (
            'estimator = { name = "median", liars = 0.3 }',
            "to find a gap below 0.16 between options",
        ),
        (
            'estimator = { name = "trimmed", liars = 0.2, groups = 4 }',
            "by any amount, however many clients report",
        ),
        ('dependence = "any"\nliars = 0.2', "by 0.115, however many clients report"),
    ],
)
def test_check_says_what_liars_can_hide_whatever_reports(
    command: Command, tmp_path: Path, keys: str, said: str
) -> None:
    (tmp_path / "fedbandits.toml").write_text(
        'title = "colours"\narms = ["red", "blue"]\npulls = 20\nadmissions = 20\nrange = [0, 1]\n'
        'radius = { rule = "certified", delta = 0.05 }\nassume = { noise = 0.2, spread = 0.1 }\n'
        f"{keys}\n",
        encoding="utf-8",
    )
    done = command("check", tmp_path)
    assert done.code == 0, done.err
    assert said in done.out


def test_a_median_needs_to_know_how_much_clients_differ() -> None:
    told = trial(estimator=Median(liars=3))
    assert told.rule().guarantee().conditions
    with pytest.raises(InputError, match=r"assume\.spread: is missing, and"):
        replace(told, limits=None, noise=0.5).rule()
    # What the data say is enough for a trimmed mean.
    assert replace(trial(liars=3), limits=None, noise=0.5).rule().guarantee().error == 0.05


def test_an_option_that_is_out_keeps_the_interval_of_the_clients_that_tried_it() -> None:
    algorithm = fb.Fed2Ucb(
        pulls=60, admissions=25, radius=fb.CertifiedRadius(delta=0.05, dependence="any"), liars=0.04
    )
    many = 100
    told = Trial(
        title="colours",
        arms=("red", "blue", "green"),
        algorithm=algorithm,
        limits=(0.0, 1.0),
        population=many,
        max_phases=4,
    )

    def outcomes(arm: str, n: int, client: ClientInfo) -> list[float]:
        rng = np.random.default_rng([client.number, len(arm)])
        return [float(u < (0.02 if arm == "red" else 0.9)) for u in rng.random(n)]

    state = try_trial(told, outcomes, many).run_state
    assert list(state.beaten) == [0]
    assert state.behind is not None
    assert state.behind.pulled.sum(axis=1).tolist() == [25, many, many]
    # Its estimate is that of 25 of 100 clients, and those of the others are of all.
    widths = interval_widths(state, 0.05)
    assert widths[0] > 2 * widths[1] == 2 * widths[2]
    kept = RunState.restored(state.kept(), state.terms)
    assert np.array_equal(interval_widths(kept, 0.05), widths)
    again = kept.beaten[0].verdict(kept.terms.rule, np.ones(3, dtype=np.bool_))
    assert again.active.tolist() == [False, True, True]


@pytest.mark.parametrize(("options", "left"), [(2, True), (3, False)])
def test_a_halt_leaves_a_promise_between_two_options_alone(options: int, left: bool) -> None:
    told = fb.Beliefs(n_arms=options, horizon=None, noise=0.5, spread=0.5, population=CLIENTS)
    radius = fb.CertifiedRadius(delta=0.05)
    for liars in (None, 3):
        rule = fb.Fed1Ucb(pulls=10, radius=radius, liars=liars).rule(told)
        server = Server(rule)
        server.open([f"c{i}" for i in range(CLIENTS)])
        halted = apply(
            server.run_state, ClientHalted(client="c0", arms=(1,), reason="out of stock")
        )
        assert (halted.guarantee.error == 0.05) == (left or liars is None)
        assert (coverage(halted, 0.05).error == 0.05) == (left or liars is None)
