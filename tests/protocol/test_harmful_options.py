"""An option that harms is withdrawn when a phase ends, and δ is kept for the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.errors import InputError, ProtocolError
from fedbandits.privacy.policy import Privacy, Quantize
from fedbandits.protocol import (
    ArmWithdrawn,
    Client,
    PhaseAbandoned,
    PhaseClosed,
    Quorum,
    Reason,
    Record,
    RefusalError,
    Refused,
    Rejection,
    RunEnded,
    RunState,
    Server,
    ServerState,
    Update,
    UpdateAccepted,
    answer_of,
    conclusion_of,
    fold,
)
from fedbandits.protocol import state as state_module
from fedbandits.protocol.codec import decode, encode
from fedbandits.protocol.consistency import contradiction, worked_out
from fedbandits.protocol.decisions import harms
from fedbandits.protocol.fold import apply
from fedbandits.protocol.health import guarded
from fedbandits.protocol.outcomes import parted
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.guarantees import Assumption
from fedbandits.rules.guardrails import Guardrail
from kept_promises import DELTA, is_kept
from small_server import records_of, steady

ADVERSE = Guardrail(name="adverse", limit=0.05)
ARMS = ("red", "green", "blue")


def a_server(
    guardrails: tuple[Guardrail, ...] = (ADVERSE,), algorithm: Any = None, **terms: Any
) -> Server:
    told = fb.Beliefs(n_arms=3, horizon=20_000, noise=0.5, spread=0.1, population=2)
    certified = fb.CertifiedRadius(delta=DELTA)
    algorithm = algorithm or fb.Fed1Ucb(pulls=200, clients=2, radius=certified)
    return Server(algorithm.rule(told), arms=ARMS, guardrails=guardrails, **terms)


def reported(
    server: Server, client: str, harmed: tuple[float, ...], means: tuple[float, ...]
) -> Update:
    """Return what a client sends in the open phase, with shares of units that were harmed."""
    assignment = server.assignment
    assert assignment is not None
    pulls = assignment.pulls
    return Update(
        header=server.header,
        phase=assignment.phase,
        client=client,
        counts=pulls,
        means=tuple(m if n else 0.0 for m, n in zip(means, pulls, strict=True)),
        guardrails=(tuple(round(h * n) * 1.0 for h, n in zip(harmed, pulls, strict=True)),),
    )


def after(
    harmed: tuple[float, ...],
    means: tuple[float, ...] = (0.55, 0.5, 0.5),
    phases: int = 1,
    server: Server | None = None,
) -> Server:
    """Return a server after phases in which units were harmed in these shares."""
    server = a_server() if server is None else server
    for _ in range(phases):
        server.open("ab" if server.phase == 0 else "")
        for client in "ab":
            assert server.receive(reported(server, client, harmed, means)) is None
        server.close()
    return server


def unharmed(_: int, n: int) -> list[list[float]]:
    return [[0.5, 0.0]] * n


def first_contradiction(server: Server, records: Sequence[Record]) -> str | None:
    """Return what somebody finds who replays records and trusts no server."""
    state = RunState.begun(server.terms)
    for record in records:
        problem = contradiction(state, record)
        if problem is not None:
            return problem
        state = apply(state, worked_out(state, record))
    return None


# What is withdrawn --------------------------------------------------------------------------------


def test_what_harms_is_withdrawn_before_its_phase_is_decided() -> None:
    """It would have won: the phase is decided without it."""
    server = after((0.2, 0.02, 0.02), (0.9, 0.5, 0.5))
    reason = "guardrail adverse: 80 of 400 (20 %), limit 5 %"
    assert dict(server.withdrawn) == {0: reason}
    kinds = [type(record) for record in records_of(server)][-2:]
    assert kinds == [ArmWithdrawn, PhaseClosed]
    assert server.run_state.active.tolist() == [False, True, True]
    assert f"red was withdrawn ({reason})" in answer_of(server).words()
    assert server.recall.arms == (0,)
    # The same data without a guardrail end the run with it.
    plain = a_server(())
    plain.open("ab")
    for client in "ab":
        said = replace(reported(server, client, (0,) * 3, (0.9, 0.5, 0.5)), phase=1, guardrails=())
        said = replace(said, counts=(200,) * 3, means=(0.9, 0.5, 0.5))
        assert plain.receive(said) is None
    assert plain.close().winner == 0


def test_little_harm_and_little_data_withdraw_nothing() -> None:
    assert not after((0.05, 0.06, 0.04), phases=3).withdrawn
    assert not after((0.08, 0.0, 0.0)).withdrawn
    assert after((0.08, 0.0, 0.0), phases=8).withdrawn


def test_several_guardrails_and_goals_are_watched_at_once() -> None:
    sleep = Guardrail(name="sleep", goal="max", limit=6, range=(0, 24))
    server = a_server((ADVERSE, sleep))
    server.open("ab")
    for client in "ab":
        said = reported(server, client, (0.2, 0.01, 0.01), (0.5,) * 3)
        hours = (200 * 3.0, 200 * 8.0, 200 * 3.0)
        assert server.receive(replace(said, guardrails=(*said.guardrails, hours))) is None
    server.close()
    assert dict(server.withdrawn) == {
        0: "guardrail adverse: 80 of 400 (20 %), limit 5 %; sleep: mean 3 of 400, limit 6",
        2: "guardrail sleep: mean 3 of 400, limit 6",
    }
    assert server.decision is not None
    assert server.decision.winner == 1


def test_an_option_that_only_a_harmful_one_has_beaten_comes_back() -> None:
    """With few units the harm is found only after the option has beaten another one."""
    server = after((0.085, 0.02, 0.02), (0.64, 0.5, 0.56))
    assert server.run_state.active.tolist() == [True, False, True]
    while not server.withdrawn:
        after((0.085, 0.02, 0.02), (0.58, 0.5, 0.56), server=server)
    assert server.run_state.left.tolist() == [False, True, True]
    assert first_contradiction(server, records_of(server)) is None


def test_if_all_harm_the_run_ends_without_an_answer_and_says_why() -> None:
    for phases, rates in ((1, (0.2, 0.2, 0.2)), (3, (0.08, 0.08, 0.08))):
        server = a_server()
        while not server.finished:
            after(rates, server=server)
        assert server.phase == phases
        last = server.run_state.last_word
        assert last is not None
        assert (last.reason, last.winner, any(last.active), last.known) == (
            Reason.HARM,
            None,
            False,
            False,
        )
        said = conclusion_of(server).words
        assert "every option was withdrawn" in said
        assert "red" in said
        assert "guardrail adverse" in said
        client = Client("a", steady(0.5, 0.5, 0.5))
        client.conclude(last)
        assert client.best is None
        assert first_contradiction(server, records_of(server)) is None
    assert answer_of(server).winner is None
    assert "No option is left" in answer_of(server).words()


def test_harm_is_seen_in_a_phase_that_is_abandoned_and_in_a_run_that_is_stopped() -> None:
    for how in ("abandon", "stop"):
        server = a_server(quorum=Quorum(fraction=1.0))
        server.open("ab")
        assert server.receive(reported(server, "a", (0.3, 0.0, 0.0), (0.5,) * 3)) is None
        getattr(server, how)()
        assert dict(server.withdrawn) == {0: "guardrail adverse: 60 of 200 (30 %), limit 5 %"}
        assert first_contradiction(server, records_of(server)) is None
        # All of them harm.
        server = a_server(quorum=Quorum(fraction=1.0))
        server.open("ab")
        assert server.receive(reported(server, "a", (0.3, 0.3, 0.3), (0.5,) * 3)) is None
        getattr(server, how)()
        assert server.state is ServerState.FINISHED
        assert server.run_state.last_word is not None
        assert server.run_state.last_word.reason is Reason.HARM
        assert first_contradiction(server, records_of(server)) is None


def test_a_server_that_is_killed_anywhere_withdraws_the_same() -> None:
    whole = after((0.09, 0.08, 0.02), phases=3)
    assert set(whole.withdrawn) == {0, 1}
    records = records_of(whole)
    for cut in range(len(records)):
        server = Server.replay(whole.rule, records[:cut], arms=ARMS, guardrails=(ADVERSE,))
        again = RunState.restored(server.run_state.kept(), server.terms)
        assert np.array_equal(again.guarded.sums, server.run_state.guarded.sums)
        server.run_state = again
        server.end()
        while not server.finished and server.phase <= whole.phase:
            if server.state is ServerState.READY:
                if server.phase == whole.phase:
                    break
                server.open("ab" if server.phase == 0 else "")
            for client in server.missing:
                said = reported(server, client, (0.09, 0.08, 0.02), (0.55, 0.5, 0.5))
                assert server.receive(said) is None
            server.close()
        assert server.snapshot() == whole.snapshot()
        assert server.run_state.comebacks == whole.run_state.comebacks


# What others can verify ---------------------------------------------------------------------------


def test_a_withdrawal_for_harm_must_follow_from_the_updates() -> None:
    server = after((0.2, 0.02, 0.02), phases=2)
    records = records_of(server)
    assert first_contradiction(server, records) is None
    place = next(n for n, one in enumerate(records) if isinstance(one, ArmWithdrawn))
    said = records[place]
    assert isinstance(said, ArmWithdrawn)
    forged = [
        # Another option, another number, another time, another reason.
        replace(said, arm=1),
        replace(said, reason="guardrail adverse: 90 of 400 (22.5 %), limit 5 %"),
        replace(said, reason="guardrail adverse"),
    ]
    for other in forged:
        found = first_contradiction(server, [*records[:place], other, *records[place + 1 :]])
        assert found == "no withdrawal by a guardrail follows from the records before it"
    early = [records[0], said, *records[1:]]
    assert first_contradiction(server, early) is not None
    # If a person had withdrawn it, the decision would have been another one.
    by_hand = [*records[:place], replace(said, reason="rash"), *records[place + 1 :]]
    found = first_contradiction(server, by_hand)
    assert found == "another decision follows from the records before it, or none"


@pytest.mark.parametrize("kind", [PhaseClosed, PhaseAbandoned, RunEnded])
def test_a_withdrawal_for_harm_that_is_left_out_is_found(kind: type[Record]) -> None:
    server = a_server(quorum=Quorum(fraction=0.9))
    server.open("ab")
    for client in "ab" if kind is PhaseClosed else "a":
        assert server.receive(reported(server, client, (0.3, 0.0, 0.0), (0.5,) * 3)) is None
    {PhaseClosed: server.close, PhaseAbandoned: server.abandon, RunEnded: server.stop}[kind]()
    records = records_of(server)
    suppressed = [record for record in records if not isinstance(record, ArmWithdrawn)]
    assert isinstance(suppressed[-1], kind)
    found = first_contradiction(server, suppressed)
    assert found is not None
    assert found.startswith("red must be withdrawn before it (guardrail adverse: ")


def test_sums_that_were_made_smaller_do_not_count() -> None:
    """A log in which an update lacks its guardrails, or has those of nobody."""
    server = after((0.2, 0.02, 0.02))
    records = records_of(server)
    for sums in ((), ((0.0,) * 3,) * 2, ((500.0,) * 3,)):
        changed = [
            UpdateAccepted(replace(one.update, guardrails=sums))
            if isinstance(one, UpdateAccepted)
            else one
            for one in records
        ]
        found = first_contradiction(server, changed)
        assert found is not None
        assert Rejection.GUARDRAILS.value in found


def test_people_use_other_words() -> None:
    server = a_server()
    with pytest.raises(ProtocolError, match="is for guardrails; use other words"):
        server.withdraw(0, "guardrail adverse: 1 of 2")
    server.withdraw(0, "rash")
    plain = a_server(())
    plain.withdraw(0, "guardrail adverse: 1 of 2")  # there is none that it could be taken for


# What is proven -----------------------------------------------------------------------------------


def test_what_is_proven_needs_no_word_about_why_an_option_was_withdrawn() -> None:
    server = after((0.2, 0.02, 0.02))
    found = server.run_state.guarantee
    assert found.error == DELTA
    assert found.condition(Assumption.WITHDRAWN_ANYWAY) is None
    # 3 ways at first for three options; phase 1 has one way, and could have been any phase.
    assert server.run_state.comebacks == 3 * 1 * 2
    after((0.2, 0.2, 0.02), server=server)
    assert set(server.withdrawn) == {0, 1}
    assert server.run_state.comebacks == 3 * 1 * 2 * 2 * 3
    assert server.run_state.guarantee.error == DELTA
    person = after((0.01, 0.01, 0.01))
    person.withdraw(0, "rash")
    assert person.run_state.guarantee.condition(Assumption.WITHDRAWN_ANYWAY) is not None
    assert person.run_state.comebacks == 3 * 2


@pytest.mark.parametrize(
    "algorithm",
    [
        fb.FedIndex(commit="certified", delta=DELTA, first_pulls=200),
        fb.Fed1Ucb(pulls=200, clients=2, radius=fb.PairwiseRadius()),
    ],
)
def test_a_rule_that_does_not_allow_for_it_proves_nothing_afterwards(algorithm: Any) -> None:
    server = a_server(algorithm=algorithm)
    assert server.run_state.guarantee.claim
    after((0.2, 0.02, 0.02), server=server)
    assert server.withdrawn
    found = server.run_state.guarantee
    assert (found.claim, found.error) == ("", None)
    assert "a guardrail has withdrawn an option because of what was observed" in found.reason


Harm = Callable[[IntArray, IntArray], IntArray]
"""From the outcomes of a phase, and the numbers of units, to how many are harmed."""


def one_minus(outcomes: IntArray, counts: IntArray) -> IntArray:
    return counts - outcomes


def the_same(outcomes: IntArray, counts: IntArray) -> IntArray:
    return outcomes


@dataclass(frozen=True, kw_only=True)
class Dependent:
    """Coins of which the harm follows from the outcome: what is withdrawn depends on it.

    Parameters
    ----------
    means : tuple of float
        Of the options.
    harm : callable
        What guardrails see.
    limit : float
        Their limit.
    pulls : int
        Of each option and phase.
    """

    means: tuple[float, ...]
    harm: Harm
    limit: float
    pulls: int = 400

    def lost(self, seed: int) -> bool | None:
        """Return whether a best one of the options that are not withdrawn is lost; None if none.

        If several are, any of them counts: that is the least favourable.
        """
        told = fb.Beliefs(n_arms=len(self.means), horizon=None, noise=0.5, spread=0.0, population=1)
        radius = fb.CertifiedRadius(delta=DELTA)
        rule = fb.Fed1Ucb(pulls=self.pulls, clients=1, radius=radius).rule(told)
        rail = Guardrail(name="adverse", limit=self.limit, level=0.3)
        server, rng = Server(rule, guardrails=(rail,)), np.random.default_rng(seed)
        while not server.finished and server.phase < 8:
            pulls = np.array(server.open(["a"] if server.phase == 0 else []).pulls)
            outcomes = rng.binomial(pulls, self.means)
            said = Update(
                header=server.header,
                phase=server.phase,
                client="a",
                counts=tuple(pulls.tolist()),
                means=tuple((outcomes / np.maximum(pulls, 1)).tolist()),
                guardrails=(tuple(self.harm(outcomes, pulls).astype(float).tolist()),),
            )
            assert server.receive(said) is None
            server.close()
        rest = [k for k in range(len(self.means)) if k not in server.withdrawn]
        best = max((self.means[k] for k in rest), default=None)
        left = server.run_state.left
        return any(not left[k] for k in rest if self.means[k] == best) if rest else None

    def games(self, games: int) -> list[bool]:
        return [lost for lost in map(self.lost, range(games)) if lost is not None]


DEPENDENT = {
    "1 - outcome, all at the limit": Dependent(means=(0.5,) * 4, harm=one_minus, limit=0.5),
    "1 - outcome, all beyond it": Dependent(means=(0.5,) * 3, harm=one_minus, limit=0.46),
    "outcome, the best harms": Dependent(
        means=(0.6, 0.5, 0.5), harm=the_same, limit=0.55, pulls=200
    ),
    "outcome, a ladder": Dependent(means=(0.6, 0.55, 0.5, 0.5), harm=the_same, limit=0.52),
}


@pytest.mark.parametrize("game", DEPENDENT.values(), ids=DEPENDENT)
def test_the_best_of_the_rest_is_lost_as_seldom_as_promised(game: Dependent) -> None:
    found = game.games(400)
    assert len(found) > 300
    assert is_kept(sum(found), len(found))


def test_without_comebacks_it_is_lost_far_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(state: RunState) -> BoolArray:
        return np.zeros(state.active.size, dtype=np.bool_)

    monkeypatch.setattr(fold, "reinstated", nobody)
    found = DEPENDENT["outcome, the best harms"].games(150)
    assert not is_kept(sum(found), len(found))


def test_comparisons_hold_for_all_options_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the first looks ten options are lost about ten times as often as with them."""
    game = Dependent(means=(0.5,) * 10, harm=one_minus, limit=0.5)
    kept = sum(game.games(250))
    monkeypatch.setattr(state_module, "looks_at_first", lambda _: 1)
    assert sum(game.games(250)) > 3 * kept + 3


# What is reported ---------------------------------------------------------------------------------


def test_what_is_known_is_shown_for_every_option() -> None:
    server = after((0.2, 0.05, 0.0))
    red, green, blue = guarded(server.run_state)
    assert (red.arm, red.guardrail, red.units, red.mean) == ("red", "adverse", 400, 0.2)
    assert [one.state for one in (red, green, blue)] == ["harmful", "open", "within the limit"]
    for one in (red, green, blue):
        assert one.low is not None
        assert one.high is not None
        assert one.mean is not None
        assert one.low <= one.mean <= one.high
    assert red.low is not None
    assert red.low > 0.05
    assert guarded(a_server().run_state)[0].mean is None
    assert guarded(a_server(()).run_state) == ()


def test_guardrails_are_refused_with_protected_means_and_with_liars() -> None:
    for privacy in (
        Privacy(range=(0, 1), noise="gaussian", epsilon=1.0, delta=1e-6),
        Privacy(range=(0, 1), quantize=Quantize(bits=8)),
    ):
        with pytest.raises(ProtocolError, match="sums of guardrails are not protected"):
            a_server(privacy=privacy)
    liars = fb.Fed1Ucb(pulls=200, clients=9, radius=fb.CertifiedRadius(delta=DELTA), liars=1)
    told = fb.Beliefs(n_arms=3, horizon=20_000, noise=0.5, spread=0.1, population=9)
    with pytest.raises(ProtocolError, match="a single liar could have an option withdrawn"):
        Server(liars.rule(told), guardrails=(ADVERSE,))


def test_a_client_with_other_guardrails_refuses() -> None:
    server = a_server()
    assignment = server.open("ab")
    others: list[tuple[Guardrail, ...]] = [(), (ADVERSE, Guardrail(name="rash", limit=0.1))]
    others.append((replace(server.terms.guardrails[0], limit=0.5),))
    for own in others:
        client = Client("a", unharmed, guardrails=own)
        with pytest.raises(RefusalError) as refused:
            client.play(assignment)
        assert refused.value.refusal.why is Refused.POLICY
        assert "need the same in fedbandits.toml" in refused.value.refusal.detail
    client = Client("a", unharmed, guardrails=server.terms.guardrails)
    assert server.receive(client.play(assignment)) is None


RETURNED: list[tuple[Any, str]] = [
    ([0.5, 0.5], r"returned\[0\] is 0.5; return 2 rows \(outcome, adverse\), or a mapping"),
    ([(0.5, 0.0)], "returned 1 rows; return 2 rows"),
    ([(0.5, 0.0), (0.5, 0.0, 1.0)], r"returned\[1\] is \(0.5, 0.0, 1.0\)"),
    ([(0.5, 0.0), "ab"], r"returned\[1\] is 'ab'"),
    (np.zeros((2, 3)), r"an array of shape \(2, 3\)"),
    (np.zeros(2), r"an array of shape \(2,\)"),
    ("ab", "returned 'ab', a str"),
    (None, "returned None, a NoneType"),
    ([(0.5, 0.0), (0.5, None)], r"adverse: returned\[1\] is None"),
    ([(0.5, 0.0), (0.5, True)], r"adverse: returned\[1\] is True"),
    ([(0.5, 0.0), (0.5, 1.5)], r"adverse: returned\[1\] is 1.5, outside the guardrail's range"),
    ([(0.5, 0.0), (0.5, float("nan"))], r"adverse: returned\[1\] is nan"),
    ([("0.5", 0.0), (0.5, 0.0)], r"outcome: returned\[0\] is '0.5'"),
    ({"outcome": [0.5, 0.5]}, 'without "adverse"'),
    ({"adverse": [0.5, 0.5]}, 'without "outcome"'),
    (
        {"outcome": [0.5, 0.5], "adverse": [0, 1], "rash": [0, 1]},
        "'rash', which the trial does not have",
    ),
    ({"outcome": [0.5, 0.5], "adverse": [0]}, r"adverse: returned \[0\], 1 values"),
    ({"outcome": [0.5, 0.5], "adverse": 0.1}, "adverse: returned 0.1, a float"),
]


@pytest.mark.parametrize(("returned", "problem"), RETURNED)
def test_what_a_pull_returns_is_checked(returned: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parted(returned, 2, [ADVERSE], covariate=False)


@pytest.mark.parametrize(
    "returned",
    [
        [(0.5, 0), (0.25, 1)],
        ([0.5, 0.0], [0.25, 1.0]),
        np.array([[0.5, 0.0], [0.25, 1.0]]),
        [np.array([0.5, 0.0]), np.array([0.25, 1.0])],
        {"outcome": [0.5, 0.25], "adverse": (0, 1)},
        {"adverse": np.array([0, 1]), "outcome": np.array([0.5, 0.25])},
    ],
)
def test_rows_arrays_and_mappings_say_the_same(returned: Any) -> None:
    server = a_server()
    outcomes, values, _ = parted(returned, 2, [ADVERSE], covariate=False)
    assert outcomes.tolist() == [0.5, 0.25]
    assert values.tolist() == [[0.0, 1.0]]

    def pull(arm: int, n: int) -> Any:
        if isinstance(returned, dict):
            return {name: [*values] * (n // 2) for name, values in returned.items()}
        return [*returned] * (n // 2)

    client = Client("a", pull, guardrails=server.terms.guardrails)
    assert client.play(server.open("ab")).guardrails == ((100.0, 100.0, 100.0),)


NUMBERS = st.floats(allow_nan=False) | st.integers(-(10**6), 10**6)


@given(st.lists(st.lists(NUMBERS, max_size=4).map(tuple), max_size=3).map(tuple))
def test_any_sums_are_carried_as_they_are_and_count_only_if_they_can_be(
    sums: tuple[tuple[float, ...], ...],
) -> None:
    server = a_server()
    server.open("ab")
    said = replace(reported(server, "a", (0, 0, 0), (0.5,) * 3), guardrails=sums)
    again = decode(Update, encode(said))
    assert again == said
    possible = len(sums) == 1 and len(sums[0]) == 3 and all(0 <= one <= 200 for one in sums[0])
    rejection = server.receive(again)
    near = any(-1e-3 <= one <= 200.001 and not 0 <= one <= 200 for row in sums for one in row)
    assert near or rejection is (None if possible else Rejection.GUARDRAILS)


@pytest.mark.parametrize("sums", [[[0.0]], ((0.0, "1"),), ((0.0, True),), (1.0,), "ab", None])
def test_what_is_no_row_of_numbers_has_no_form(sums: Any) -> None:
    server = a_server()
    server.open("ab")
    said = replace(reported(server, "a", (0, 0, 0), (0.5,) * 3), guardrails=sums)
    assert server.receive(said) is Rejection.FORM


def test_sums_of_no_pulls_are_nothing() -> None:
    server = after((0.2, 0.02, 0.02))
    server.open("")
    said = reported(server, "a", (0, 0.0, 0.0), (0.5,) * 3)
    assert said.counts[0] == 0
    assert server.receive(replace(said, guardrails=((1.0, 0.0, 0.0),))) is Rejection.GUARDRAILS
    assert server.receive(said) is None


def test_a_run_without_guardrails_says_nothing_of_them() -> None:
    server = a_server(())
    assignment = server.open("ab")
    client = Client("a", steady(0.5, 0.5, 0.5))
    assert "guardrails" not in encode(client.play(assignment))
    assert "guardrails" not in encode(assignment)["release"]


def test_the_state_is_that_of_the_records() -> None:
    server = after((0.2, 0.02, 0.02), phases=3)
    again = reduce(apply, records_of(server), RunState.begun(server.terms))
    total: FloatArray = again.guarded.sums
    assert np.array_equal(total, server.run_state.guarded.sums)
    assert again.guarded.counts.tolist() == [400.0, 1200.0, 1200.0]


def test_nobody_reports_after_a_guardrail_has_withdrawn_an_option_in_the_open_phase() -> None:
    """Whoever chose the order of reports could have any option withdrawn by the first of them."""
    server = a_server()
    server.open("ab")
    assert server.receive(reported(server, "a", (0.2, 0.0, 0.0), (0.5,) * 3)) is None
    early = next(iter(harms(server.run_state).items()))
    withdrawn = ArmWithdrawn(arm=early[0], reason=early[1])
    late = UpdateAccepted(reported(server, "b", (0.0, 0.0, 0.0), (0.5,) * 3))
    state = apply(server.run_state, withdrawn)
    assert "must not count" in str(contradiction(state, late))
    assert contradiction(server.run_state, late) is None
