"""What protects clients' means: what leaves them, what is kept, refused and spent, and its cost."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import pickle
import signal
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.cli import main
from fedbandits.errors import InputError, ProtocolError
from fedbandits.experiments.describe import describe_experiment, describe_privacy
from fedbandits.experiments.files import read_experiment
from fedbandits.federation.audit_file import AuditFile, read_audit
from fedbandits.loopback import play
from fedbandits.privacy.accounting import Spending
from fedbandits.privacy.mechanisms import Mechanism, Noised, Rounded
from fedbandits.privacy.packing import pack, payload_bits, unpack
from fedbandits.privacy.policy import Privacy, Quantize
from fedbandits.privacy.rounding import MOST_BITS
from fedbandits.privacy.sampling import Law, Noise, discrete_noise, seeded_noise
from fedbandits.problems import Problem
from fedbandits.problems.clipping import clipping
from fedbandits.protocol import (
    AnswerRefused,
    Assignment,
    Client,
    ClientState,
    Decision,
    Header,
    Reason,
    Refusal,
    RefusalError,
    Refused,
    Rejection,
    Release,
    Server,
    Update,
    arms_hash,
)
from fedbandits.rules.algorithms import Fed1Ucb, Fed2Ucb
from fedbandits.rules.arrays import FloatArray, IntArray
from fedbandits.rules.distortion import UNDISTORTED, Distortion, DistortionSums, ReleaseError
from fedbandits.rules.estimators import InverseVariance, Plain
from fedbandits.rules.phased import Beliefs, PhasedRule
from fedbandits.rules.radii import Radius
from fedbandits.rules.radii.paired_t import t_interval_widths
from fedbandits.simulation.assumptions import doubts
from fedbandits.simulation.streams import Purpose, Streams
from games import APPROXIMATE
from rule_calls import decided, width_of

# The same examples in every run; one that fails is printed with how to repeat it.
repeatable = settings(deadline=None, derandomize=True, print_blob=True, max_examples=100)

SEED = 11
HEADER = Header(run="run", epoch=1, arms=arms_hash(["0", "1", "2"]))

NEAREST = Privacy(range=(0, 1), quantize=Quantize(bits=8, rounding="nearest"))
STOCHASTIC = Privacy(range=(0, 1), quantize=Quantize(bits=8))
RADIUS = Privacy(range=(0, 1), quantize=Quantize(bits="radius"))
GAUSSIAN = Privacy(range=(0, 1), noise="gaussian", epsilon=2.0, delta=1e-6)
LAPLACE = Privacy(range=(0, 1), noise="laplace", epsilon=1.0)


def policy(**keys: Any) -> Privacy:
    """Return a policy with Laplace noise, but for these keys."""
    return Privacy(**{"range": (0, 1), "noise": "laplace", **keys})


def mechanism_of(privacy: Privacy | None, pulls: int, arms: int) -> Mechanism | None:
    return None if privacy is None else privacy.mechanism(pulls, arms)


def assigned(
    privacy: Privacy | None,
    pulls: tuple[int, ...] = (20, 20, 20),
    *,
    phase: int = 1,
    **release: Any,
) -> Assignment:
    """Return an assignment that asks for the protection of a policy, but for these changes."""
    active = [n for n in pulls if n]
    asked = Release(**{"mechanism": mechanism_of(privacy, min(active), len(active)), **release})
    return Assignment(header=HEADER, phase=phase, pulls=pulls, release=asked)


def seeded(seed: int = SEED) -> Noise:
    return seeded_noise(np.random.default_rng(seed))


class CountingNoise:
    """Noise that counts how often it was drawn."""

    def __init__(self) -> None:
        self.calls = 0
        self._drawn = seeded()

    def __call__(self, kind: Law, scale: float, size: int) -> IntArray:
        self.calls += 1
        return self._drawn(kind, scale, size)


class CountingPull:
    """Observations that are all 0.3, and count how often they were asked for."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, arm: int, n: int) -> list[float]:
        self.calls += 1
        return [0.3] * n


# Places as bits ----------------------------------------------------------------------------------

widths = st.one_of(st.integers(1, MOST_BITS), st.just(64))


@st.composite
def packings(draw: st.DrawFn) -> tuple[list[int], int]:
    bits = draw(widths)
    shift = 2**63 if bits == 64 else 0
    return draw(st.lists(st.integers(-shift, 2**bits - 1 - shift), max_size=40)), bits


@repeatable
@given(packings())
def test_what_is_packed_comes_back_from_the_fewest_whole_bytes(
    packing: tuple[list[int], int],
) -> None:
    places, bits = packing
    packed = pack(places, bits)
    assert len(packed) == math.ceil(len(places) * bits / 8)
    assert payload_bits(len(places), bits) == 8 * len(packed)
    assert unpack(packed, bits, len(places)) == places


@pytest.mark.parametrize("bits", [*range(1, MOST_BITS + 1), 64])
def test_the_ends_of_every_width_come_back(bits: int) -> None:
    shift = 2**63 if bits == 64 else 0
    ends = [-shift, 2**bits - 1 - shift]
    assert unpack(pack(ends * 3, bits), bits, 6) == ends * 3


@repeatable
@given(widths, st.integers(1, 2**70), st.booleans(), st.integers(0, 5))
def test_a_place_that_does_not_fit_is_refused(
    bits: int, beyond: int, below: bool, before: int
) -> None:
    shift = 2**63 if bits == 64 else 0
    place = -shift - beyond if below else 2**bits - 1 - shift + beyond
    with pytest.raises(InputError, match=f"{place} does not fit into {bits} bits"):
        pack([0] * before + [place], bits)


@repeatable
@given(packings(), st.integers(-3, 3).filter(bool))
def test_bytes_of_another_length_are_refused(packing: tuple[list[int], int], off: int) -> None:
    places, bits = packing
    packed = pack(places, bits)
    changed = packed[:off] if off < 0 else packed + bytes(off)
    if changed != packed:
        with pytest.raises(InputError, match=f"bytes for {len(places)} places of {bits} bits"):
            unpack(changed, bits, len(places))


# What leaves a client ----------------------------------------------------------------------------

# Doubles that nothing computes by chance: in [0, 1], and outside.
INSIDE = [0.7320508075688772, 0.14142135623730951, 0.31415926535897931, 0.57721566490153287]
OUTSIDE = [-7.6180339887498949, 123456.78901234567, 1.0000000317811, -0.00271828182845904]
MARKERS = [*INSIDE, *OUTSIDE]


def secret(arm: int, n: int) -> list[float]:
    """Return markers, other ones for every arm."""
    return [MARKERS[(arm + i) % len(MARKERS)] for i in range(n)]


def leaves(value: object) -> Iterator[object]:
    """Return every plain value in a message."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from leaves(getattr(value, field.name))
    elif isinstance(value, tuple):
        for part in value:
            yield from leaves(part)
    else:
        assert value is None or isinstance(value, str | bytes | int | float | Enum), value
        yield value


def spellings(marker: float) -> list[bytes]:
    """Return what a marker looks like in bytes: as a double, and in digits."""
    words = [repr(marker), repr(abs(marker)), f"{marker:.9g}", f"{marker:.12f}"]
    words += [str(dataclasses.replace(NOBODY, detail=str(marker)).detail), marker.hex()]
    return [struct.pack("<d", marker), struct.pack(">d", marker), *(w.encode() for w in words)]


NOBODY = Refusal(header=HEADER, phase=1, client="a", why=Refused.BUDGET)


def shows_a_marker(message: object, *more: bytes) -> bool:
    """Return whether a message holds a marker in any field or in its bytes."""
    values = [value for value in leaves(message) if isinstance(value, float)]
    texts = [value.encode() for value in leaves(message) if isinstance(value, str)]
    packed = [value for value in leaves(message) if isinstance(value, bytes)]
    for value in packed:
        for size in (4, 8):
            whole = value[: len(value) // size * size]
            for order in "<>":
                kind = "d" if size == 8 else "f"
                values += struct.unpack(f"{order}{len(whole) // size}{kind}", whole)
    if any(value == marker for value in values for marker in MARKERS):
        return True
    blobs = [pickle.dumps(message), repr(message).encode(), *texts, *packed, *more]
    return any(word in blob for blob in blobs for marker in MARKERS for word in spellings(marker))


def means_of(update: Update, mechanism: Mechanism | None) -> FloatArray:
    if mechanism is None:
        return np.array(update.means)
    arms = sum(n > 0 for n in update.counts)
    return mechanism.values(np.array(unpack(update.packed, mechanism.bits, arms), dtype=np.int64))


@pytest.mark.parametrize(
    "message",
    [
        Update(header=HEADER, phase=1, client="a", counts=(1,), means=(INSIDE[0],)),
        Update(header=HEADER, phase=1, client="a", counts=(1,), squares=(OUTSIDE[0],)),
        Update(
            header=HEADER, phase=1, client="a", counts=(1,), packed=struct.pack(">d", INSIDE[1])
        ),
        dataclasses.replace(NOBODY, detail=f"a mean of {INSIDE[2]}"),
        dataclasses.replace(NOBODY, client=str(OUTSIDE[1])),
    ],
)
def test_a_marker_in_a_message_would_be_seen(message: Update | Refusal) -> None:
    assert shows_a_marker(message)


POLICIES: dict[str, Privacy | None] = {
    "none": None,
    "nearest": NEAREST,
    "stochastic": STOCHASTIC,
    "52 bits": Privacy(range=(0, 1), quantize=Quantize(bits=52, rounding="nearest")),
    "1 bit": Privacy(range=(0, 1), quantize=Quantize(bits=1)),
    "gaussian": GAUSSIAN,
    "laplace": LAPLACE,
    "another range": Privacy(range=(-10, 10), quantize=Quantize(bits=16)),
}


@pytest.mark.parametrize("noise", [seeded(), discrete_noise], ids=["seeded", "discrete"])
@pytest.mark.parametrize("name", POLICIES)
def test_no_observation_is_in_any_message(name: str, noise: Noise, tmp_path: Path) -> None:
    privacy = POLICIES[name]
    file = AuditFile(tmp_path / "a.jsonl")
    rng = np.random.default_rng(SEED)
    client = Client("a", secret, privacy=privacy, outbox=file, noise=noise, rng=rng)
    sent = [client.play(assigned(privacy, (20, 0, 33), phase=p)) for p in (1, 2)]
    for update in sent:
        assert not shows_a_marker(update)
        mechanism = mechanism_of(privacy, 20, 2)
        assert not set(means_of(update, mechanism).tolist()) & set(MARKERS)
        assert (update.means == ()) == (privacy is not None)
        assert (update.packed == b"") == (privacy is None)
        assert update.squares is None
    # The file stays with the client, and needs no observation either.
    assert not shows_a_marker(None, file.path.read_bytes())
    clipped = client.clipped
    if privacy is None:
        assert clipped == 0
    elif privacy.noise is None:
        assert sum(update.clipped for update in sent) == clipped > 0
    else:  # a count of observations is about them, and would need noise of its own
        assert [update.clipped for update in sent] == [0, 0]
        inside = [-1e-9 < x < 1 for arm, n in ((0, 20), (2, 33)) for x in secret(arm, n)]
        assert clipped == 2 * inside.count(False)


@pytest.mark.parametrize("squares", [False, True])
def test_no_observation_is_in_messages_of_means_and_squares(squares: bool) -> None:
    client = Client("a", secret)
    update = client.play(assigned(None, (20, 0, 33), squares=squares))
    assert not shows_a_marker(update)
    assert (update.squares is not None) == squares


@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
@pytest.mark.parametrize("widening", ["exact", "paper"])
def test_no_observation_is_in_messages_whose_bits_the_server_chooses(
    rounding: Any, widening: Any
) -> None:
    privacy = Privacy(
        range=(-10, 200_000),
        quantize=Quantize(bits="radius", rounding=rounding, widening=widening),
    )
    server = Server(fed1(noise=1e5), privacy=privacy)
    clients = [Client(name, secret, privacy=privacy) for name in "ab"]
    bits = []
    admitted = ["a", "b"]
    for _ in range(3):
        assignment = server.open(admitted)
        admitted = []
        mechanism = assignment.release.mechanism
        assert isinstance(mechanism, Rounded)
        bits.append(mechanism.bits)
        for client in clients:
            update = client.play(assignment)
            assert not shows_a_marker(update)
            assert not set(means_of(update, mechanism).tolist()) & set(MARKERS)
            assert server.receive(update) is None
        server.close()
    assert bits == sorted(bits)


def test_no_observation_is_in_a_refusal() -> None:
    """Even one that is made after observations were."""
    privacy = policy(scale=1 / 50, epsilon=1.0)
    client = Client("a", secret, privacy=privacy, noise=seeded())
    client.play(assigned(privacy, (80, 80, 80)))
    asked = [
        assigned(privacy, (20, 20, 20), phase=2),
        assigned(privacy, (5, 20, 20), phase=2),
        assigned(None, (80, 80, 80), phase=2),
    ]
    seen = []
    for assignment in asked:
        with pytest.raises(RefusalError) as raised:
            client.play(assignment)
        refusal = raised.value.refusal
        assert not shows_a_marker(refusal, str(raised.value).encode())
        assert (refusal.header, refusal.phase, refusal.client) == (HEADER, 2, "a")
        seen.append(refusal.why)
    assert seen == [Refused.BUDGET, Refused.FEW_PULLS, Refused.POLICY]


SCHEMA: dict[type, list[str]] = {
    Header: ["run", "epoch", "arms", "version"],
    Update: ["header", "phase", "client", "counts", "means", "packed", "squares", "clipped"],
    Refusal: ["header", "phase", "client", "why", "detail"],
}


@pytest.mark.parametrize("message", SCHEMA)
def test_messages_of_a_client_have_the_documented_fields_and_no_others(message: type) -> None:
    names = [field.name for field in dataclasses.fields(message)]
    assert names == SCHEMA[message]
    assert hasattr(message, "__slots__")
    assert not hasattr(message(**dict.fromkeys(names)), "__dict__")  # nothing rides along
    for name in names:
        assert f"    {name} : " in (message.__doc__ or ""), name


# Crash and re-send -------------------------------------------------------------------------------


@pytest.mark.parametrize("privacy", [STOCHASTIC, GAUSSIAN, LAPLACE])
@pytest.mark.parametrize("epoch", [1, 2])
def test_after_a_crash_the_very_same_bytes_are_sent(
    privacy: Privacy, epoch: int, tmp_path: Path
) -> None:
    """The update was recorded, and the client died before it was sent."""
    path, assignment = tmp_path / "a.jsonl", assigned(privacy)
    first = Client("a", secret, privacy=privacy, outbox=AuditFile(path), noise=seeded())
    sent = first.play(assignment)
    recorded = path.read_bytes()
    pull, noise = CountingPull(), CountingNoise()
    again = Client("a", pull, privacy=privacy, outbox=AuditFile(path), noise=noise)
    restarted = dataclasses.replace(HEADER, epoch=epoch)
    resent = again.play(dataclasses.replace(assignment, header=restarted))
    assert resent == dataclasses.replace(sent, header=restarted)
    assert (pull.calls, noise.calls) == (0, 0)
    assert path.read_bytes() == recorded
    assert again.spent == first.spent
    assert again.clipped == first.clipped > 0
    assert again.play(dataclasses.replace(assignment, header=restarted)) == resent
    # And the run goes on from there.
    following = dataclasses.replace(assigned(privacy, phase=2), header=restarted)
    assert again.play(following).phase == 2
    assert pull.calls == 3
    assert [entry.update.phase for entry in read_audit(path)] == [1, 2]


def test_another_question_about_a_phase_that_was_answered_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    Client("a", secret, privacy=LAPLACE, outbox=AuditFile(path), noise=seeded()).play(
        assigned(LAPLACE)
    )
    noise = CountingNoise()
    again = Client("a", secret, privacy=LAPLACE, outbox=AuditFile(path), noise=noise)
    louder = policy(epsilon=0.5).mechanism(20, 3)
    for asked in (assigned(LAPLACE, (30, 30, 30)), assigned(LAPLACE, mechanism=louder)):
        with pytest.raises(ProtocolError, match="phase 1 after phase 1"):
            again.play(asked)
    assert noise.calls == 0


@pytest.mark.parametrize("left", [0.0, 0.5, 0.99])
def test_a_torn_last_line_is_dropped_and_its_phase_played_again(
    left: float, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    client = Client("a", secret, privacy=LAPLACE, outbox=AuditFile(path), noise=seeded())
    client.play(assigned(LAPLACE))
    kept = path.read_bytes()
    client.play(assigned(LAPLACE, phase=2))
    last = path.read_bytes()[len(kept) :]
    path.write_bytes(kept + last[: int(left * len(last))])
    noise = CountingNoise()
    again = Client("a", secret, privacy=LAPLACE, outbox=AuditFile(path), noise=noise)
    again.play(assigned(LAPLACE, phase=2))
    assert noise.calls == 1
    lines = path.read_bytes().splitlines(keepends=True)
    assert lines[0] == kept
    assert [json.loads(line)["phase"] for line in lines] == [1, 2]
    assert lines[-1].endswith(b"\n")
    assert [entry.update.phase for entry in read_audit(path)] == [1, 2]


def test_a_line_that_is_written_in_another_way_is_left_as_it_is(tmp_path: Path) -> None:
    """What follows it is added behind it, wherever it ends."""
    path = tmp_path / "a.jsonl"
    Client("a", secret, privacy=LAPLACE, outbox=AuditFile(path), noise=seeded()).play(
        assigned(LAPLACE)
    )
    spaced = json.dumps(json.loads(path.read_bytes()), indent=None, separators=(" ,  ", " : "))
    path.write_text(spaced + "\n", encoding="utf-8")
    again = Client("a", secret, privacy=LAPLACE, outbox=AuditFile(path), noise=seeded())
    again.play(assigned(LAPLACE, phase=2))
    assert path.read_text(encoding="utf-8").startswith(spaced + "\n")
    assert [entry.update.phase for entry in read_audit(path)] == [1, 2]


def without(text: str, key: str) -> str:
    said = json.loads(text)
    del said[key]
    return json.dumps(said)


DAMAGES: dict[str, Callable[[str], str]] = {
    "cut short": lambda line: line[: len(line) // 2],
    "empty": lambda _: "",
    "not a table": lambda _: "[1, 2]",
    "a key is missing": lambda line: without(line, "spent"),
    "another format": lambda line: line.replace('"format": 1', '"format": 99'),
    "no such mechanism": lambda line: line.replace('"noised"', '"nothing"'),
    "not a number": lambda line: line.replace('"gaussian_rho": 0.0', '"gaussian_rho": "x"'),
    "not hexadecimal": lambda line: line.replace('"sent_packed": "', '"sent_packed": "zz'),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_line_in_the_middle_is_named(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    client = Client("a", secret, privacy=LAPLACE, outbox=AuditFile(path), noise=seeded())
    for phase in (1, 2, 3):
        client.play(assigned(LAPLACE, phase=phase))
    lines = path.read_text(encoding="utf-8").split("\n")
    damaged = DAMAGES[damage](lines[1])
    assert damaged != lines[1]
    path.write_text("\n".join([lines[0], damaged, *lines[2:]]), encoding="utf-8")
    with pytest.raises(InputError, match=r"line 2: is not an entry of an audit file .*; restore"):
        AuditFile(path)


def test_the_outbox_of_another_client_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    Client("alice", secret, outbox=AuditFile(path)).play(assigned(None))
    with pytest.raises(InputError, match=r'^outbox: is that of client "alice", and this is "bob"'):
        Client("bob", secret, outbox=AuditFile(path))


def test_what_cannot_be_recorded_is_not_sent(tmp_path: Path) -> None:
    outbox = AuditFile(tmp_path / "missing" / "a.jsonl")
    client = Client("a", secret, privacy=LAPLACE, outbox=outbox, noise=seeded())
    with pytest.raises(InputError, match=r"cannot be written: .*; nothing was sent"):
        client.play(assigned(LAPLACE))
    assert client.spent == Spending()
    assert client.clipped == 0
    assert client.state is ClientState.WAITING
    assert list(outbox) == []
    # Once it can be recorded the phase is played, for the first time.
    outbox.path.parent.mkdir()
    assert client.play(assigned(LAPLACE)).phase == 1
    assert [entry.update.phase for entry in read_audit(outbox.path)] == [1]


def test_a_folder_is_no_audit_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        AuditFile(tmp_path)


@pytest.mark.parametrize("how", ["removed", "cut off", "written to"])
def test_a_file_that_somebody_else_changes_is_not_written_over(how: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    client = Client("a", secret, privacy=LAPLACE, outbox=AuditFile(path), noise=seeded())
    client.play(assigned(LAPLACE))
    before = path.read_bytes()
    if how == "removed":
        path.unlink()
    else:
        path.write_bytes(before[:10] if how == "cut off" else before + before)
    left = path.read_bytes() if path.exists() else None
    with pytest.raises(InputError, match="nothing was sent"):
        client.play(assigned(LAPLACE, phase=2))
    assert (path.read_bytes() if path.exists() else None) == left
    assert client.state is ClientState.REPORTED
    path.write_bytes(before)
    assert client.play(assigned(LAPLACE, phase=2)).phase == 2


USER = policy(epsilon=3.0, level="user", releases=3)


def test_what_was_spent_is_recalled_after_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    spent = []
    for phase in (1, 2, 3):  # a crash after every phase
        client = Client("a", secret, privacy=USER, outbox=AuditFile(path), noise=seeded())
        client.play(assigned(USER, phase=phase))
        spent.append(client.spent)
        assert read_audit(path)[-1].total == client.spent
    assert [total.pure_epsilon for total in spent] == pytest.approx([1.0, 2.0, 3.0], rel=1e-9)
    pull = CountingPull()
    client = Client("a", pull, privacy=USER, outbox=AuditFile(path), noise=seeded())
    assert client.spent == spent[-1]
    # In another run, too: it is the same client.
    other = dataclasses.replace(
        assigned(USER, phase=1), header=dataclasses.replace(HEADER, run="another")
    )
    with pytest.raises(RefusalError) as raised:
        client.play(other)
    assert raised.value.refusal.why is Refused.BUDGET
    assert pull.calls == 0


# The budget --------------------------------------------------------------------------------------


def fed1(*, clients: int = 2, pulls: str = "20", n_arms: int = 3, **beliefs: Any) -> PhasedRule:
    """Return Fed1-UCB that is told of so much noise that it decides nothing."""
    told: dict[str, Any] = {"horizon": 100_000, "noise": 10.0, "spread": 0.0, **beliefs}
    radius = told.pop("radius", fb.PaperRadius())
    return Fed1Ucb(pulls=pulls, clients=clients, radius=radius).rule(Beliefs(n_arms=n_arms, **told))


FALLING = "max(10, 100 - 20*p)"  # 80, 60, 40, 20, 10 pulls
# One observation of n spends 50/n: phase 2 is the last that 1 allows.
GENEROUS, STRICT = policy(scale=1 / 50, epsilon=10.0), policy(scale=1 / 50, epsilon=1.0)


def client_of(number: int, privacy: Privacy | None) -> Client:
    rng = np.random.default_rng([SEED, number])
    return Client(
        f"client {number}",
        lambda arm, n: rng.binomial(1, 0.3 + 0.1 * arm, n).astype(np.float64),
        privacy=privacy,
        noise=seeded_noise(np.random.default_rng([SEED, 1000 + number])),
        rng=np.random.default_rng([SEED, 2000 + number]),
    )


def played(server: Server, privacy: Privacy | None) -> tuple[Decision | None, list[Client]]:
    """Play a game with clients of this policy to its end."""
    clients: list[Client] = []

    def admit(wanted: int) -> Sequence[Client]:
        new = [client_of(len(clients) + i, privacy) for i in range(wanted)]
        clients.extend(new)
        return new

    return play(server, admit), clients


def test_a_phase_of_fewer_pulls_that_exceeds_the_budget_is_refused_before_it_is_played() -> None:
    pull = CountingPull()
    client = Client("a", pull, privacy=STRICT, noise=seeded())
    client.play(assigned(STRICT, (80, 80, 80)))
    client.play(assigned(STRICT, (60, 60, 0), phase=2))
    # Of events the largest counts: 50/60, and what the grid may move.
    assert client.spent.pure_epsilon == pytest.approx(50 / 60, rel=1e-5)
    calls, spent = pull.calls, client.spent
    with pytest.raises(RefusalError, match=r"refuses phase 3: its privacy budget is spent") as stop:
        client.play(assigned(STRICT, (40, 40, 0), phase=3))
    assert stop.value.refusal.why is Refused.BUDGET
    assert "epsilon = 1.25 of 1" in stop.value.refusal.detail
    assert (pull.calls, client.spent) == (calls, spent)
    # It may go on with what it can afford.
    assert client.play(assigned(STRICT, (60, 60, 0), phase=3)).phase == 3
    assert client.spent == spent


def test_noise_grows_with_what_a_change_may_do() -> None:
    """An observation is in one mean, whatever the arms; a client is in all of them."""
    for law in ("gaussian", "laplace"):
        event = policy(noise=law, rho=0.1)
        assert event.noise_scale(20, 3) == event.noise_scale(20, 10)
        assert event.noise_scale(20, 3) == pytest.approx(2 * event.noise_scale(40, 3), rel=1e-12)
        person = policy(noise=law, rho=0.1, level="person", observations=4)
        assert person.noise_scale(20, 3) == pytest.approx(4 * event.noise_scale(20, 3), rel=1e-4)
        user = policy(noise=law, rho=0.1, level="user", releases=1)
        assert user.noise_scale(20, 4) == user.noise_scale(4000, 4)
        more = 2 if law == "gaussian" else 4  # √4 means in Euclidean distance, 4 in absolute
        assert user.noise_scale(20, 4) == pytest.approx(more * user.noise_scale(20, 1), rel=1e-4)
        # With the slack of the grid: never more than the budget.
        for held in (event, person, user):
            spent = held.spends(20, 4)
            assert 0.1 * (1 - 1e-9) <= spent.rho <= 0.1 * (1 + 1e-9)
            assert held.within_budget(spent)


def test_the_fewest_pulls_of_an_arm_count() -> None:
    client = Client("a", CountingPull(), privacy=STRICT, noise=seeded())
    with pytest.raises(RefusalError, match="budget"):
        client.play(assigned(STRICT, (80, 40, 80)))


@pytest.mark.parametrize("budget", [{"epsilon": 3.0}, {"rho": 0.3}, {"scale": 4.0}])
def test_at_user_level_releases_add_up_and_end(budget: dict[str, float]) -> None:
    """By what they spend, or where no budget was given by their number."""
    user = policy(level="user", releases=3, **budget)
    pull = CountingPull()
    client = Client("a", pull, privacy=user, noise=seeded())
    totals = []
    for phase in (1, 2, 3):
        client.play(assigned(user, phase=phase))
        totals.append(client.spent.rho)
    assert np.diff([0.0, *totals]) == pytest.approx(totals[0], rel=1e-9)
    assert pull.calls == 9
    with pytest.raises(RefusalError) as raised:
        client.play(assigned(user, phase=4))
    assert raised.value.refusal.why is Refused.BUDGET
    assert pull.calls == 9
    # The server's own rule stops there as well, and asks nobody in vain.
    server = Server(fed1(), privacy=user)
    decision, _ = played(server, user)
    assert decision is not None
    assert (decision.phase, decision.reason) == (3, Reason.BUDGET)
    assert not [record for record in server.log if isinstance(record, AnswerRefused)]


def test_a_refusal_ends_the_game_with_what_was_known() -> None:
    server = Server(fed1(pulls=FALLING), privacy=GENEROUS)
    last, clients = played(server, STRICT)
    assert last is not None
    assert (last.phase, last.reason, last.final) == (2, Reason.BUDGET, True)
    assert server.finished
    assert server.decision == last
    assert {client.state for client in clients} == {ClientState.FINISHED}
    assert {client.best for client in clients} == {last.best}
    # With the estimates of the phase before.
    closed = [record for record in server.log if isinstance(record, AnswerRefused)]
    assert [record.refusal.why for record in closed] == [Refused.BUDGET]
    assert [record.refusal.phase for record in closed] == [3]

    # A server that holds the clients' policy stops by itself, with the same.
    alone = Server(fed1(pulls=FALLING), privacy=STRICT)
    assert [alone.rule.spent_after(phase) for phase in (1, 2)] == [False, True]
    decision, _ = played(alone, STRICT)
    assert decision == last
    assert not [record for record in alone.log if isinstance(record, AnswerRefused)]
    assert last.active == (True, True, True)
    assert np.isfinite(last.widths).all()

    for stopped, privacy in ((server, GENEROUS), (alone, STRICT)):
        again = Server.replay(fed1(pulls=FALLING), stopped.log, privacy=privacy)
        assert again.snapshot() == stopped.snapshot()
        assert again.decision == stopped.decision
        assert again.uplink_bits == stopped.uplink_bits


@pytest.mark.parametrize("privacy", [NEAREST, STOCHASTIC, RADIUS, GAUSSIAN, LAPLACE, USER])
def test_replay_gives_every_state_back(privacy: Privacy) -> None:
    rule = fed1(noise=0.5, radius=fb.CertifiedRadius(delta=0.1), horizon=1000)
    server = Server(rule, privacy=privacy)
    played(server, privacy)
    again = Server.replay(rule, server.log, privacy=privacy)
    assert again.snapshot() == server.snapshot()
    assert server.snapshot().distortion.strip(b"\0")
    assert again.decision == server.decision
    assert again.uplink_bits == server.uplink_bits


def test_a_server_whose_first_phase_is_refused_knows_nothing_and_is_finished() -> None:
    server = Server(fed1(pulls="30"), privacy=GENEROUS)
    decision, clients = played(server, STRICT)
    assert decision is None
    assert server.decision is None
    assert server.finished
    assert server.uplink_bits == dict.fromkeys(("client 0", "client 1"), 0)
    assert [client.spent for client in clients] == [Spending(), Spending()]
    again = Server.replay(fed1(pulls="30"), server.log, privacy=GENEROUS)
    assert again.snapshot() == server.snapshot()
    with pytest.raises(ProtocolError, match="finished"):
        server.open([])


def test_a_server_with_a_budget_that_no_phase_fits_is_refused_at_once() -> None:
    with pytest.raises(InputError, match=r"^scale: 0.02 spends epsilon = 1.67 in the first phase"):
        Server(fed1(pulls="30"), privacy=STRICT)


def test_a_refusal_from_elsewhere_is_not_taken() -> None:
    server = Server(fed1(), privacy=LAPLACE)
    server.open(["a", "b"])
    refusal = dataclasses.replace(NOBODY, header=server.header)
    for bad in (
        dataclasses.replace(refusal, client="stranger"),
        dataclasses.replace(refusal, header=dataclasses.replace(server.header, run="x")),
    ):
        before = server.snapshot()
        with pytest.raises(ProtocolError, match="from elsewhere"):
            server.refuse(bad)
        assert server.snapshot() == before


# A client's own policy ---------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Asking:
    """A client's policy, and a release that a server asks for."""

    own: Privacy
    asked: Release


def rounded(**keys: Any) -> Release:
    eight: dict[str, Any] = {"low": 0.0, "high": 1.0, "bits": 8, "rounding": "stochastic"}
    return Release(mechanism=Rounded(**(eight | keys)))


def noised(own: Privacy, **keys: Any) -> Release:
    return Release(mechanism=dataclasses.replace(own.mechanism(20, 3), **keys))


SCALE = float(LAPLACE.noise_scale(20, 3))

LESS: dict[str, Asking] = {
    "no mechanism, rounding": Asking(STOCHASTIC, Release()),
    "no mechanism, noise": Asking(LAPLACE, Release()),
    "more bits": Asking(STOCHASTIC, rounded(bits=9)),
    "52 bits": Asking(STOCHASTIC, rounded(bits=52)),
    "another rounding": Asking(STOCHASTIC, rounded(rounding="nearest")),
    "rounding for noise": Asking(LAPLACE, rounded()),
    "noise for rounding": Asking(STOCHASTIC, noised(LAPLACE)),
    "a smaller scale": Asking(LAPLACE, noised(LAPLACE, scale=SCALE * 0.99)),
    "no scale": Asking(LAPLACE, noised(LAPLACE, scale=math.nan)),
    "another law": Asking(LAPLACE, noised(LAPLACE, kind="gaussian")),
    "squares, rounding": Asking(STOCHASTIC, dataclasses.replace(rounded(), squares=True)),
    "squares, noise": Asking(LAPLACE, dataclasses.replace(noised(LAPLACE), squares=True)),
    "another range, rounding": Asking(STOCHASTIC, rounded(high=2.0)),
    "another range, noise": Asking(LAPLACE, noised(LAPLACE, low=-1.0)),
    "another rounding, bits by the radius": Asking(RADIUS, rounded(rounding="nearest")),
    "another range, bits by the radius": Asking(RADIUS, rounded(low=-1.0)),
}


@pytest.mark.parametrize("name", LESS)
def test_a_server_that_asks_for_less_protection_is_refused(name: str, tmp_path: Path) -> None:
    asking, pull = LESS[name], CountingPull()
    path = tmp_path / "a.jsonl"
    client = Client("a", pull, privacy=asking.own, outbox=AuditFile(path), noise=seeded())
    assignment = Assignment(header=HEADER, phase=1, pulls=(20, 20, 20), release=asking.asked)
    with pytest.raises(RefusalError) as raised:
        client.play(assignment)
    assert raised.value.refusal.why is Refused.POLICY
    assert pull.calls == 0
    assert not path.exists()
    assert client.spent == Spending()
    _raises_at_the_server(raised.value.refusal)


ENOUGH: dict[str, Asking] = {
    "the same rounding": Asking(STOCHASTIC, rounded()),
    "bits by the radius": Asking(RADIUS, rounded(bits=5)),
    "the same noise": Asking(LAPLACE, noised(LAPLACE)),
    "a larger scale": Asking(LAPLACE, noised(LAPLACE, scale=SCALE * 2)),
    "a scale off by its last digits": Asking(LAPLACE, noised(LAPLACE, scale=SCALE * (1 - 1e-14))),
}


@pytest.mark.parametrize("name", ENOUGH)
def test_a_server_that_asks_for_as_much_is_answered(name: str) -> None:
    asking = ENOUGH[name]
    client = Client("a", CountingPull(), privacy=asking.own, noise=seeded())
    assignment = Assignment(header=HEADER, phase=1, pulls=(20, 20, 20), release=asking.asked)
    assert client.play(assignment).packed


@pytest.mark.parametrize("privacy", [STOCHASTIC, LAPLACE])
@pytest.mark.parametrize("pulls", [(9, 20, 20), (9, 0, 0), (1, 1, 1)])
def test_a_mean_of_fewer_pulls_than_the_policy_allows_is_refused(
    privacy: Privacy, pulls: tuple[int, ...]
) -> None:
    pull = CountingPull()
    client = Client("a", pull, privacy=privacy, noise=seeded())
    with pytest.raises(RefusalError, match=r"too few pulls .*\d pulls, and min_pulls is 10") as few:
        client.play(assigned(privacy, pulls))
    assert few.value.refusal.why is Refused.FEW_PULLS
    assert pull.calls == 0
    _raises_at_the_server(few.value.refusal)
    # Ten are enough.
    assert client.play(assigned(privacy, (10, 0, 20))).phase == 1


def _raises_at_the_server(refusal: Refusal) -> None:
    """Such a refusal is a mistake of whoever set the server up: it does not end the run."""
    server = Server(fed1(), privacy=LAPLACE)
    server.open(["a", "b"])
    before = server.snapshot()
    with pytest.raises(ProtocolError, match=rf"client a refuses phase 1: {refusal.why.value}"):
        server.refuse(dataclasses.replace(refusal, header=server.header))
    assert server.snapshot() == before


def test_in_the_loopback_such_a_refusal_is_an_error() -> None:
    server = Server(fed1(), privacy=STOCHASTIC)
    with pytest.raises(ProtocolError, match="less protection than its own policy"):
        played(server, LAPLACE)


# The server --------------------------------------------------------------------------------------

THREE_BITS = Privacy(range=(0, 1), quantize=Quantize(bits=3))


def collecting(privacy: Privacy | None) -> Server:
    """Return a server whose first phase is open, with clients a and b."""
    server = Server(fed1(), privacy=privacy)
    server.open(["a", "b"])
    return server


def report(server: Server, **changes: Any) -> Update:
    """Return what client a sends of 20 pulls of 3 arms, but for these changes."""
    honest: dict[str, Any] = {
        "header": server.header,
        "phase": 1,
        "client": "a",
        "counts": (20, 20, 20),
    }
    return Update(**(honest | changes))


def far_out(scales: float, arm: int = 1) -> bytes:
    """Return places of which one is so many scales of noise above or below the range."""
    mechanism = LAPLACE.mechanism(20, 3)
    assert isinstance(mechanism, Noised)
    at = mechanism.high + scales * mechanism.scale if scales > 0 else scales * mechanism.scale
    places = [1000, 1000, 1000]
    places[arm] = round((at - mechanism.low) / mechanism.step)
    return pack(places, 64)


GARBLED: dict[str, tuple[Privacy | None, dict[str, Any], Rejection]] = {
    "a byte too few": (THREE_BITS, {"packed": bytes(1)}, Rejection.PACKED),
    "a byte too many": (THREE_BITS, {"packed": bytes(3)}, Rejection.PACKED),
    "nothing": (THREE_BITS, {}, Rejection.PACKED),
    "packed in 64 bits": (THREE_BITS, {"packed": bytes(24)}, Rejection.PACKED),
    "noise of too few bytes": (LAPLACE, {"packed": bytes(23)}, Rejection.PACKED),
    "noise of too many bytes": (LAPLACE, {"packed": bytes(25)}, Rejection.PACKED),
    "far above": (LAPLACE, {"packed": far_out(61.0)}, Rejection.PACKED),
    "far below": (LAPLACE, {"packed": far_out(-61.0, arm=2)}, Rejection.PACKED),
    "zero bytes, which are -2^63": (LAPLACE, {"packed": bytes(24)}, Rejection.PACKED),
    "the highest place": (LAPLACE, {"packed": b"\xff" * 24}, Rejection.PACKED),
    "packed where means are wanted": (
        None,
        {"means": (0.1, 0.2, 0.3), "packed": bytes(2)},
        Rejection.PACKED,
    ),
    "means where packed are wanted": (THREE_BITS, {"means": (0.1, 0.2, 0.3)}, Rejection.SHAPE),
    "means beside packed": (
        THREE_BITS,
        {"means": (0.1, 0.2, 0.3), "packed": bytes(2)},
        Rejection.SHAPE,
    ),
    "squares that nobody asked for": (
        THREE_BITS,
        {"packed": bytes(2), "squares": (0.1, 0.1, 0.1)},
        Rejection.SHAPE,
    ),
    "a list of numbers for bytes": (THREE_BITS, {"packed": [1, 2]}, Rejection.FORM),
    "a negative count of the clipped": (
        THREE_BITS,
        {"packed": bytes(2), "clipped": -1},
        Rejection.FORM,
    ),
}


@pytest.mark.parametrize("name", GARBLED)
def test_an_update_that_is_not_packed_as_assigned_changes_nothing(name: str) -> None:
    privacy, changes, rejection = GARBLED[name]
    server = collecting(privacy)
    before = server.snapshot()
    assert server.receive(report(server, **changes)) is rejection
    assert server.snapshot() == before
    assert server.uplink_bits == {"a": 0, "b": 0}


@pytest.mark.parametrize("scales", [-59.0, -8.0, 8.0, 59.0])
def test_noise_that_may_be_noise_is_taken(scales: float) -> None:
    server = collecting(LAPLACE)
    assert server.receive(report(server, packed=far_out(scales))) is None


def test_places_are_read_as_they_were_packed() -> None:
    server = collecting(THREE_BITS)
    for client in "ab":
        update = report(server, client=client, packed=pack([0, 3, 7], 3))
        assert server.receive(update) is None
    decision = server.close()
    assert decision.estimates == pytest.approx((0.0, 3 / 7, 1.0), abs=1e-15)


@pytest.mark.parametrize("privacy", [None, THREE_BITS, STOCHASTIC, RADIUS, GAUSSIAN, USER])
def test_uplink_bits_are_those_of_the_bytes_that_were_sent(privacy: Privacy | None) -> None:
    rule = Fed2Ucb(pulls=50, admissions="p", radius=fb.CertifiedRadius(delta=0.1)).rule(
        Beliefs(n_arms=3, horizon=2000, noise=0.5, spread=0.02)
    )
    server = Server(rule, privacy=privacy)
    clients: list[Client] = []
    sent: dict[str, int] = {}
    while not server.finished:
        new = [client_of(len(clients) + i, privacy) for i in range(server.wanted())]
        clients.extend(new)
        sent.update((client.name, 0) for client in new)
        assignment = server.open([client.name for client in new])
        if server.finished:
            break
        for client in clients:
            update = client.play(assignment)
            assert server.receive(update) is None
            pulled = sum(n > 0 for n in update.counts)
            sent[client.name] += 64 * pulled if privacy is None else 8 * len(update.packed)
        server.close()
    assert server.uplink_bits == sent
    assert len(set(sent.values())) > 2  # clients of later phases have sent less


# Simulation --------------------------------------------------------------------------------------

BERNOULLI = fb.Approximate(means=[0.3, 0.7], noise=fb.Bernoulli(), spread=fb.Beta(0.05))
GAME = fb.Fed2Ucb(pulls=30, admissions="p", radius=fb.CertifiedRadius(delta=0.1))


@pytest.mark.parametrize("privacy", [None, NEAREST, STOCHASTIC, RADIUS, GAUSSIAN, LAPLACE, USER])
def test_fidelity_pulls_is_what_the_machines_do(privacy: Privacy | None) -> None:
    """Drive the machines by hand, without the loopback."""
    run = fb.simulate(
        BERNOULLI,
        GAME,
        horizon=5000,
        privacy=privacy,
        fidelity="pulls",
        replications=3,
        seed=SEED,
        workers=1,
    )
    beliefs = Beliefs(
        n_arms=2, horizon=5000, noise=BERNOULLI.noise_proxy, spread=BERNOULLI.spread_proxy
    )
    streams = Streams(SEED, BERNOULLI.name)
    for replication in range(3):
        server = Server(GAME.rule(beliefs), run=f"replication {replication}", privacy=privacy)
        clients: list[Client] = []
        while not server.finished:
            new = [
                _simulated(streams, replication, len(clients) + i, privacy)
                for i in range(server.wanted())
            ]
            clients.extend(new)
            assignment = server.open([client.name for client in new])
            if server.finished:
                break
            assert [server.receive(client.play(assignment)) for client in clients] == [None] * len(
                clients
            )
            server.close()
        decision = server.decision
        assert decision is not None
        outcome = run.outcome
        assert outcome.winner[replication] == (-1 if decision.winner is None else decision.winner)
        assert outcome.phases[replication] == decision.phase
        assert outcome.clients[replication] == len(clients)
        assert outcome.uplink_bits[replication] == sum(server.uplink_bits.values())
        assert outcome.clipped[replication] == sum(client.clipped for client in clients) == 0
        assert outcome.spent[replication] == (decision.reason is Reason.BUDGET)


def _simulated(streams: Streams, replication: int, number: int, privacy: Privacy | None) -> Client:
    """Return a client with the streams that the simulator gives it."""
    rng = streams.open(Purpose.CLIENT, replication=replication, arm=number)
    releases = streams.open(Purpose.CLIENT_RELEASES, replication=replication, arm=number)
    means = BERNOULLI.sampler(lambda _: rng).draw(1).means[:, 0].tolist()

    def pull(arm: int, n: int) -> FloatArray:
        return BERNOULLI.noise.observe(BERNOULLI.noise.variates(rng, n), means[arm], None)

    return Client(str(number), pull, privacy=privacy, noise=seeded_noise(releases), rng=releases)


@pytest.mark.parametrize("privacy", [None, THREE_BITS, NEAREST, GAUSSIAN, USER])
def test_both_fidelities_count_the_same_bits(privacy: Privacy | None) -> None:
    """Of two arms both are sent in every phase up to the decision."""
    bits = 64 if privacy is None or privacy.quantize is None else privacy.quantize.bits
    assert isinstance(bits, int)
    for fidelity in ("clients", "pulls"):
        run = fb.simulate(
            BERNOULLI,
            GAME,
            horizon=5000,
            privacy=privacy,
            fidelity=fidelity,
            replications=6,
            seed=SEED,
            workers=1,
        )
        assert run.fidelity.value == fidelity
        phases = run.outcome.phases
        assert phases.min() >= 1
        # p new clients in phase p: p (p + 1) / 2 report in it.
        reports = [sum(p * (p + 1) // 2 for p in range(1, last + 1)) for last in phases.tolist()]
        assert run.outcome.uplink_bits.tolist() == [n * payload_bits(2, bits) for n in reports]


def test_bits_by_the_radius_are_the_same_in_both_fidelities() -> None:
    """They are known before anything is observed."""
    runs = [
        fb.simulate(
            fb.Approximate(means=[0.5, 0.5], noise=fb.Bernoulli(), spread=fb.Beta(0.05)),
            GAME,
            horizon=5000,
            privacy=RADIUS,
            fidelity=fidelity,
            replications=3,
            seed=SEED,
            workers=1,
            max_phases=4,
        )
        for fidelity in ("clients", "pulls")
    ]
    assert [run.outcome.phases.tolist() for run in runs] == [[4, 4, 4]] * 2
    assert runs[0].outcome.uplink_bits.tolist() == runs[1].outcome.uplink_bits.tolist()


@pytest.mark.parametrize(
    ("privacy", "phases"),
    [(STRICT, 2), (USER, 3), (policy(scale=4.0, level="user", releases=3), 3)],
)
def test_a_budget_ends_the_game_in_the_same_phase_in_both_fidelities(
    privacy: Privacy, phases: int
) -> None:
    game = fb.Fed2Ucb(pulls=FALLING, admissions=2, radius=fb.PaperRadius(arm=1e4))
    runs = [
        fb.simulate(
            BERNOULLI,
            game,
            horizon=10**4,
            privacy=privacy,
            fidelity=fidelity,
            replications=3,
            seed=SEED,
            workers=1,
        )
        for fidelity in ("clients", "pulls")
    ]
    for run in runs:
        assert run.outcome.spent.tolist() == [True] * 3
        assert run.outcome.phases.tolist() == [phases] * 3
        assert run.outcome.winner.tolist() == [-1] * 3
    assert runs[0].outcome.uplink_bits.tolist() == runs[1].outcome.uplink_bits.tolist()


WIDE = fb.Approximate(means=[0.5, 0.9], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.05))


@pytest.mark.parametrize("privacy", [STOCHASTIC, GAUSSIAN])
def test_clipped_observations_are_counted(privacy: Privacy) -> None:
    for fidelity in ("cohorts", "clients"):
        with pytest.raises(InputError, match=r"clipped to \[0, 1\], one by one \(valid: pulls\)"):
            fb.simulate(WIDE, GAME, horizon=10**4, privacy=privacy, fidelity=fidelity)
    replications = 60
    run = fb.simulate(
        WIDE,
        fb.Fed2Ucb(pulls=50, admissions="max(0, 16 - 8*p)", radius=fb.PaperRadius(arm=1e4)),
        horizon=10**4,
        privacy=privacy,
        max_phases=2,
        replications=replications,
        seed=SEED,
        workers=1,
    )
    assert run.fidelity.value == "pulls"
    assert run.outcome.phases.tolist() == [2] * replications
    share = run.outcome.clipped / (2 * 8 * 50 * 2)  # phases, clients, pulls, arms
    expected = clipping(WIDE, 0.0, 1.0).shares.mean()
    error = share.std(ddof=1) / math.sqrt(replications)
    assert abs(share.mean() - expected) < 5 * error
    assert error < 0.01  # an error of a tenth of the share would be seen


def test_nothing_is_clipped_where_everything_is_inside() -> None:
    assert clipping(BERNOULLI, 0.0, 1.0).negligible
    assert clipping(BERNOULLI, -1.0, 2.0).shares.tolist() == [0.0, 0.0]
    assert clipping(BERNOULLI, 0.0, 1.0).means == pytest.approx(BERNOULLI.means, abs=0.002)


CLIPPED: dict[str, tuple[Problem, float, float]] = {
    "gaussian": (WIDE, 0.0, 1.0),
    "gaussian, one side": (WIDE, -10.0, 0.8),
    "gaussian with an offset": (
        fb.Approximate(
            means=[0.5, 0.9], noise=fb.Gaussian(0.3), spread=fb.Gaussian(0.2), offset=0.4
        ),
        0.0,
        1.0,
    ),
    "gaussian noise, beta spread": (
        fb.Approximate(means=[0.5, 0.9], noise=fb.Gaussian(0.3), spread=fb.Beta(0.1)),
        0.0,
        1.0,
    ),
    "figure 4": (APPROXIMATE, 0.0, 1.0),
    "bernoulli, beta spread": (
        fb.Approximate(means=[0.4, 0.8], noise=fb.Bernoulli(), spread=fb.Beta(0.1)),
        0.2,
        0.7,
    ),
    "uniform": (
        fb.Approximate(means=[0.5, 0.9, 2.0], noise=fb.Uniform(0.3), spread=fb.Uniform(0.1)),
        0.2,
        1.0,
    ),
    "uniform, wider than the range": (
        fb.Approximate(means=[0.5, 0.9], noise=fb.Uniform(1.0), spread=fb.Gaussian(0.1)),
        0.2,
        1.0,
    ),
    "no noise": (
        fb.Approximate(means=[0.5, 0.9], noise=fb.Gaussian(0.0), spread=fb.Uniform(0.2)),
        0.4,
        1.0,
    ),
    "given clients": (
        fb.Exact(local_means=[[0.2, 0.9], [0.7, 0.4], [1.4, -0.3]], noise=fb.Gaussian(0.2)),
        0.0,
        1.0,
    ),
    "given clients with weights": (
        fb.Exact(
            local_means=[[0.2, 0.9], [0.7, 0.4], [1.4, -0.3]],
            noise=fb.Uniform(0.2),
            weights=[1.0, 2.0, 5.0],
        ),
        0.0,
        1.0,
    ),
    "empirical": (
        fb.Exact.from_observations([[[0.1, 0.5, 2.0], [0.3, -1.0]], [[0.9], [0.2, 0.4, 0.6, 7.0]]]),
        0.0,
        1.0,
    ),
}


@pytest.mark.parametrize("name", CLIPPED)
def test_what_clipping_does_agrees_with_drawn_observations(name: str) -> None:
    problem, low, high = CLIPPED[name]
    found = clipping(problem, low, high)
    outside, inside, error_of = _drawn(problem, low, high)
    for values, said in ((outside, found.shares), (inside, found.means)):
        mean, error = error_of(values)
        assert (np.abs(mean - said) <= 5 * error + 1e-12).all()
        assert error.max() < 0.02
    assert not found.negligible


def _drawn(
    problem: Problem, low: float, high: float
) -> tuple[FloatArray, FloatArray, Callable[[FloatArray], tuple[FloatArray, FloatArray]]]:
    """Draw observations; return which are outside, what is left, and how they are averaged.

    The average over the population that `clipping` takes has an error of its own, of 20,000
    clients at most.
    """
    clients, each = (problem.population, 20_000) if problem.population else (100_000, 1)
    rng = np.random.default_rng(SEED)
    drawn = problem.sampler(lambda _: rng).draw(clients)
    means = np.repeat(drawn.means, each, axis=1)
    cells = None if drawn.cells is None else np.repeat(drawn.cells, each, axis=1)
    observed = problem.noise.observe(problem.noise.variates(rng, means.shape), means, cells)
    left = np.clip(observed, low, high)
    weights = np.full(clients, 1.0 / clients)
    if isinstance(problem, fb.Exact) and problem.shares is not None and drawn.rows is not None:
        weights = problem.shares[drawn.rows] / problem.shares[drawn.rows].sum()

    def averaged(values: FloatArray) -> tuple[FloatArray, FloatArray]:
        by_client = values.reshape(values.shape[0], clients, each)
        if each == 1:
            spread = by_client.std(axis=(1, 2))
            return by_client.mean(axis=(1, 2)), spread * math.sqrt(1 / clients + 1 / 20_000)
        variance = by_client.var(axis=2) / each
        return by_client.mean(axis=2) @ weights, np.sqrt(variance @ weights**2)

    return (left != observed).astype(np.float64), left, averaged


def test_clipping_shrinks_the_gap_of_figure_4() -> None:
    means = np.sort(clipping(APPROXIMATE, 0.0, 1.0).means)
    assert fb.gap(APPROXIMATE) == pytest.approx(0.020)
    assert means[-1] - means[-2] == pytest.approx(0.012, abs=0.0005)


# Experiment files --------------------------------------------------------------------------------

FILE = """
title = "demo"
horizon = 100_000
replications = 2

[problem]
model = "approximate"
means = [0.5, 0.6, 0.9]
noise = {{ law = "bernoulli" }}
spread = {{ law = "beta", sigma = 0.02 }}

[[variants]]
{variant}
privacy = {privacy}
"""
VARIANT = 'algorithm = "fed2-ucb"\npulls = "100"\nadmissions = "2^p"'
QUANTIZE = '{ quantize = { bits = 8, rounding = "stochastic" }, range = [0, 1] }'
NOISE = '{ noise = "gaussian", epsilon = 2.0, delta = 1e-6, level = "event", range = [0, 1] }'


@dataclasses.dataclass(frozen=True)
class Done:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """Return the command, run in this process."""

    def run(*words: str | Path) -> Done:
        monkeypatch.setattr(sys, "argv", ["fedbandits", *map(str, words)])
        before = signal.getsignal(signal.SIGTERM)
        try:
            main()
        except SystemExit as end:
            code = end.code
        else:
            code = 0
        finally:
            signal.signal(signal.SIGTERM, before)
        printed = capsys.readouterr()
        assert code is None or isinstance(code, int)
        return Done(code or 0, printed.out, printed.err)

    return run


@pytest.mark.parametrize(
    ("table", "privacy"),
    [(QUANTIZE, STOCHASTIC), (NOISE, GAUSSIAN)],
    ids=["quantize", "noise"],
)
def test_both_forms_of_a_policy_are_read(
    table: str, privacy: Privacy, tmp_path: Path, command: Callable[..., Done]
) -> None:
    file = tmp_path / "demo.toml"
    file.write_text(FILE.format(variant=VARIANT, privacy=table), encoding="utf-8")
    assert fb.load_experiment(file).variants[0].privacy == privacy
    done = command("check", file)
    assert (done.code, done.err) == (0, "")
    assert "fed2-ucb: fed2-ucb, fidelity clients" in done.out


DESCRIBED = [
    NEAREST,
    STOCHASTIC,
    RADIUS,
    GAUSSIAN,
    LAPLACE,
    USER,
    STRICT,
    Privacy(
        range=(-1, 2.5), quantize=Quantize(bits="radius", rounding="nearest", widening="paper")
    ),
    policy(rho=0.25, level="person", observations=4, min_pulls=25),
    policy(scale=0.5, level="user", releases=7, delta=1e-9),
]


@pytest.mark.parametrize("privacy", DESCRIBED)
def test_a_policy_that_is_described_and_read_again_is_the_same(privacy: Privacy) -> None:
    variant = fb.Variant(label="a", problem=BERNOULLI, algorithm=GAME, privacy=privacy)
    tables = describe_experiment(fb.Experiment(title="t", variants=[variant], horizon=10**4))
    assert tables["variants"][0]["privacy"] == describe_privacy(privacy)
    assert ("level" in tables["variants"][0]["privacy"]) == (privacy.noise is not None)
    read = read_experiment(json.loads(json.dumps(tables)))
    assert read.variants[0].privacy == privacy
    assert describe_experiment(read) == tables


def table(text: str, **changes: str | None) -> str:
    """Return a table of TOML, but for these keys; None leaves one out."""
    import tomllib

    keys = {key: _toml(value) for key, value in tomllib.loads(f"x = {text}")["x"].items()}
    for key, value in changes.items():
        keys.pop(key, None)
        if value is not None:
            keys[key] = value
    return "{ " + ", ".join(f"{key} = {value}" for key, value in keys.items()) + " }"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(part)}" for key, part in value.items()) + " }"
    return json.dumps(value)


BY_RADIUS = table(QUANTIZE, quantize='{ bits = "radius" }')

# The policy, what else the variant says, the key, and words of the rule and of the way out.
BAD: dict[str, tuple[str, str, str, str]] = {
    "epsilon 0": (
        table(NOISE, epsilon="0"),
        "",
        "privacy.epsilon",
        "0 is not a positive number; give one such as 2",
    ),
    "negative epsilon": (
        table(NOISE, epsilon="-1.5"),
        "",
        "privacy.epsilon",
        "-1.5 is not a positive number; give one",
    ),
    "epsilon nan": (table(NOISE, epsilon="nan"), "", "privacy.epsilon", "nan is not a positive"),
    "epsilon inf": (table(NOISE, epsilon="inf"), "", "privacy.epsilon", "inf is not a positive"),
    "delta 0": (
        table(NOISE, delta="0.0"),
        "",
        "privacy.delta",
        "0 is not between 0 and 1; give a small one such as 1e-6",
    ),
    "delta 1": (table(NOISE, delta="1.0"), "", "privacy.delta", "1 is not between 0 and 1; give"),
    "delta above": (table(NOISE, delta="2.5"), "", "privacy.delta", "2.5 is not between 0 and 1;"),
    "delta below": (table(NOISE, delta="-0.1"), "", "privacy.delta", "-0.1 is not between 0 and"),
    "empty range": (
        table(NOISE, range="[1, 1]"),
        "",
        "privacy.range",
        "[1, 1] is empty; give the lower end first",
    ),
    "reversed range": (
        table(QUANTIZE, range="[1, 0]"),
        "",
        "privacy.range",
        "[1, 0] is empty; give the lower end first",
    ),
    "range of nothing": (
        table(QUANTIZE, range="[]"),
        "",
        "privacy.range",
        "[] is not a list of two numbers such as [0, 1]",
    ),
    "no range": (table(QUANTIZE, range=None), "", "privacy.range", "is missing"),
    "endless range": (
        table(QUANTIZE, range="[0, inf]"),
        "",
        "privacy.range",
        "is not a range such as [0, 1]",
    ),
    "53 bits": (
        table(QUANTIZE, quantize="{ bits = 53 }"),
        "",
        "privacy.quantize.bits",
        "53 bits; a mean takes at least 1, and a double has 52 at most: give",
    ),
    "0 bits": (
        table(QUANTIZE, quantize="{ bits = 0 }"),
        "",
        "privacy.quantize.bits",
        "0 bits; a mean takes at least 1",
    ),
    "many bits": (
        table(QUANTIZE, quantize='{ bits = "many" }'),
        "",
        "privacy.quantize.bits",
        "'many' is not a whole number such as 8, or \"radius\"",
    ),
    "half a bit": (
        table(QUANTIZE, quantize="{ bits = 0.5 }"),
        "",
        "privacy.quantize.bits",
        "0.5 is not a whole number such as 8",
    ),
    "user level without releases": (
        table(NOISE, level='"user"'),
        "",
        "privacy.releases",
        'is missing; at level "user" all releases of a client add up, so say how many',
    ),
    "0 releases": (
        table(NOISE, level='"user"', releases="0"),
        "",
        "privacy.releases",
        "0 is not from 1 to 10^15; give how many",
    ),
    "person level without observations": (
        table(NOISE, level='"person"'),
        "",
        "privacy.observations",
        'is missing; at level "person" all observations of a person are protected together, so say',
    ),
    "releases at event level": (
        table(NOISE, releases="5"),
        "",
        "privacy.releases",
        'goes with level = "user", and it is "event"; leave it out',
    ),
    "observations at user level": (
        table(NOISE, level='"user"', releases="5", observations="2"),
        "",
        "privacy.observations",
        'goes with level = "person", and it is "user"; leave it out',
    ),
    "noise and rounding": (
        table(NOISE, quantize="{ bits = 8 }"),
        "",
        "privacy.noise",
        "or quantize must be given, and not both",
    ),
    "neither": ("{ range = [0, 1] }", "", "privacy.noise", "or quantize must be given"),
    "epsilon with rounding": (
        table(QUANTIZE, epsilon="1.0"),
        "",
        "privacy.epsilon",
        "goes with noise; rounding alone is no differential privacy and has no budget: leave it",
    ),
    "level with rounding": (
        table(QUANTIZE, level='"user"'),
        "",
        "privacy.level",
        "goes with noise; rounding alone protects at none: leave it out",
    ),
    "epsilon and rho": (
        table(NOISE, rho="0.1"),
        "",
        "privacy.rho",
        "and epsilon are two budgets; give one of them",
    ),
    "rho 0": (
        table(NOISE, epsilon=None, rho="0.0"),
        "",
        "privacy.rho",
        "0.0 is not a positive number such as 0.1",
    ),
    "no budget": (
        table(NOISE, epsilon=None),
        "",
        "privacy.epsilon",
        "is missing; give epsilon and delta, or rho, or the scale",
    ),
    "gaussian epsilon without delta": (
        table(NOISE, delta=None),
        "",
        "privacy.delta",
        "is missing; gaussian noise gives no ε without one, such as 1e-6",
    ),
    "unknown level": (
        table(NOISE, level='"evnt"'),
        "",
        "privacy.level",
        "'evnt' is not 'event', 'person' or 'user'",
    ),
    "unknown noise": (
        table(NOISE, noise='"gausian"'),
        "",
        "privacy.noise",
        "'gausian' is not 'gaussian' or 'laplace'",
    ),
    "unknown rounding": (
        table(QUANTIZE, quantize='{ rounding = "up" }'),
        "",
        "privacy.quantize.rounding",
        "'up' is not 'nearest' or 'stochastic'",
    ),
    "the paper's widening with fixed bits": (
        table(QUANTIZE, quantize='{ bits = 8, widening = "paper" }'),
        "",
        "privacy.quantize.widening",
        'which is enough only if rounding errs by no more; give bits = "radius"',
    ),
    "rounding that is no table": (
        table(QUANTIZE, quantize="8"),
        "",
        "privacy.quantize",
        "8 is not a table such as { bits = 8 }",
    ),
    **{
        f"bits by the radius {rule}": (
            BY_RADIUS,
            f'radius = {{ rule = "{rule}"{more} }}',
            "privacy.quantize.bits",
            '"radius" needs a width that is known before anything is observed: use a radius of',
        )
        for rule, more in (
            ("bernstein", ", range = [0, 1]"),
            ("chernoff", ", range = [0, 1]"),
            ("paired-t", ""),
        )
    },
    "bits by the radius, spread estimated": (
        BY_RADIUS,
        'assume = { spread = "estimate" }',
        "privacy",
        "would count it twice; give a number",
    ),
    "too few pulls": (
        QUANTIZE,
        'pulls = "5"',
        "pulls",
        "5 in phase 1, and privacy.min_pulls is 10: a mean of so few gives observations away; pull",
    ),
    "too few pulls later": (
        NOISE,
        'pulls = "max(5, 20 - p)"',
        "pulls",
        "9 in phase 11, and privacy.min_pulls is 10",
    ),
    "min_pulls above pulls": (
        table(NOISE, min_pulls="200"),
        "",
        "pulls",
        "100 in phase 1, and privacy.min_pulls is 200",
    ),
    "min_pulls 0": (table(NOISE, min_pulls="0"), "", "privacy.min_pulls", "0 is below 1; give"),
    "noise that is to be estimated": (
        QUANTIZE,
        'assume = { noise = "estimate" }',
        "privacy",
        'assume.noise = "estimate" takes sums of squares as well; give a number',
    ),
    "ucb1": (
        NOISE,
        'algorithm = "ucb1"',
        "privacy",
        "protects what clients send, and here nobody sends anything; leave it out",
    ),
    "improved-ucb": (
        NOISE,
        'algorithm = "improved-ucb"',
        "privacy",
        "this algorithm has no such messages: use fed2-ucb or fed1-ucb",
    ),
    "centralized, slot by slot": (
        NOISE,
        'algorithm = "centralized"\nclients = 3\ncommunicate = "slot"',
        "privacy",
        "this algorithm has no such messages: use fed2-ucb or fed1-ucb",
    ),
    "centralized": (
        NOISE,
        'algorithm = "centralized"\nclients = 3',
        "pulls",
        "1 in phase 1, and privacy.min_pulls is 10",
    ),
    "a scale that exceeds the budget": (
        table(NOISE, scale="1e-4"),
        "",
        "privacy.scale",
        "in the first phase of 100 pulls, which exceeds the budget; raise either, or leave",
    ),
    "a scale that exceeds the budget of a user": (
        table(NOISE, scale="0.1", level='"user"', releases="4"),
        "",
        "privacy.scale",
        "in 4 releases of 3 means, which exceeds the budget; raise either",
    ),
    "negative scale": (
        table(NOISE, scale="-1.0"),
        "",
        "privacy.scale",
        "-1.0 is not a positive number such as 0.1",
    ),
    "a budget too small for the grid": (
        table(NOISE, epsilon="1e-8"),
        "",
        "privacy.epsilon",
        "is too small for any noise on this grid; give more",
    ),
    "unknown key": (
        table(NOISE, epsilon=None, epsilom="2.0"),
        "",
        "privacy.epsilom",
        'is not a key here; did you mean "epsilon"?',
    ),
    "unknown key of rounding": (
        table(QUANTIZE, quantize="{ bit = 8 }"),
        "",
        "privacy.quantize.bit",
        'is not a key here; did you mean "bits"?',
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_names_the_key_the_rule_and_the_way_out(
    name: str, tmp_path: Path, command: Callable[..., Done]
) -> None:
    privacy, more, where, words = BAD[name]
    said = [line.split(" = ")[0] for line in more.splitlines()]
    if "algorithm" in said:
        variant = more
    else:
        kept = [line for line in VARIANT.splitlines() if line.split(" = ")[0] not in said]
        variant = "\n".join([*kept, more])
    file = tmp_path / "demo.toml"
    file.write_text(FILE.format(variant=variant, privacy=privacy), encoding="utf-8")
    done = command("check", file)
    assert done.code == 2, done
    assert done.out == ""
    assert done.err.startswith(f"error: variants[0].{where}: ")
    assert words in done.err
    assert done.err.count("\n") == 1


# The command audit -------------------------------------------------------------------------------


@pytest.fixture
def audited(tmp_path: Path) -> Path:
    """Return the file of a client that has sent two updates with noise, and clipped much."""
    path = tmp_path / "alice.jsonl"
    client = Client("alice", secret, privacy=STRICT, outbox=AuditFile(path), noise=seeded())
    client.play(assigned(STRICT, (80, 80, 80)))
    client.play(assigned(STRICT, (60, 0, 60), phase=2))
    return path


def test_audit_shows_what_was_sent_and_spent(audited: Path, command: Callable[..., Done]) -> None:
    done = command("audit", audited)
    assert (done.code, done.err) == (0, "")
    entries = read_audit(audited)
    assert "client alice" in done.out
    for entry in entries:
        for mean, n in zip(entry.means, entry.update.counts, strict=True):
            assert n == 0 or f"{mean:.4g}" in done.out
    clipped = sum(entry.clipped for entry in entries)
    assert clipped > 0
    assert f"{clipped:,} observations lay outside the declared range" in done.out
    # 3 and 2 means of 64 bits.
    assert "2 updates about 360 observations, 320 bits of means" in done.out
    assert "Privacy: rho = 0.3472, epsilon = 0.8333 of 1, for one observation." in done.out


def test_audit_prints_json_and_nothing_else(audited: Path, command: Callable[..., Done]) -> None:
    done = command("audit", audited, "--json")
    assert (done.code, done.err) == (0, "")
    said = json.loads(done.out)
    entries = read_audit(audited)
    assert [one["update"]["phase"] for one in said] == [1, 2]
    assert [bytes.fromhex(one["update"]["packed"]) for one in said] == [
        entry.update.packed for entry in entries
    ]
    assert [one["means"] for one in said] == [list(entry.means) for entry in entries]
    assert [one["clipped"] for one in said] == [entry.clipped for entry in entries]
    assert [one["update"]["clipped"] for one in said] == [0, 0]


def test_audit_of_a_client_without_a_policy_says_so(
    tmp_path: Path, command: Callable[..., Done]
) -> None:
    path = tmp_path / "bob.jsonl"
    many = Client("bob", secret, outbox=AuditFile(path))
    many.play(assigned(None, (20,) * 9))
    done = command("audit", path)
    assert done.code == 0
    assert "3 more" in done.out
    assert "no observation left the client" in done.out
    assert "576 bits of means" in done.out  # 9 of 64
    assert "the client has no policy; means were sent as the server asked" in done.out
    assert "outside the declared range" not in done.out


def test_audit_says_where_a_mean_was_the_observation(
    tmp_path: Path, command: Callable[..., Done]
) -> None:
    path = tmp_path / "bob.jsonl"
    Client("bob", secret, outbox=AuditFile(path)).play(assigned(None, (20, 1, 0)))
    done = command("audit", path)
    assert "1 of the means is of a single pull, and so an observation." in done.out
    assert "no observation left" not in done.out


def test_audit_of_rounded_means_says_that_they_are_not_private(
    tmp_path: Path, command: Callable[..., Done]
) -> None:
    path = tmp_path / "bob.jsonl"
    Client("bob", secret, privacy=THREE_BITS, outbox=AuditFile(path)).play(assigned(THREE_BITS))
    done = command("audit", path)
    assert done.code == 0
    assert "16 bits of means" in done.out
    assert "Privacy: rounded; no differential privacy, and no budget." in done.out


def test_audit_of_an_empty_file(tmp_path: Path, command: Callable[..., Done]) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"")
    done = command("audit", path)
    assert (done.code, done.out, done.err) == (0, f"{path}: nothing was sent\n", "")
    done = command("audit", path, "--json")
    assert (done.code, json.loads(done.out)) == (0, [])


def test_audit_of_no_file_and_of_another_kind_of_file(
    tmp_path: Path, command: Callable[..., Done]
) -> None:
    path = tmp_path / "a.toml"
    done = command("audit", path)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"error: {path}: cannot be read: No such file or directory\n"
    for content in (b'title = "demo"\n', b"{}\n", b"\xff\xfe\n", b"\n", b"3\n"):
        path.write_bytes(content)
        done = command("audit", path)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"error: {path}, line 1: is not an entry of an audit file")
        assert done.err.count("\n") == 1


# The algebra of errors ---------------------------------------------------------------------------

amounts = st.floats(0.0, 10.0)
releases = st.lists(st.tuples(st.integers(0, 1000), amounts, amounts, amounts), min_size=1)


@repeatable
@given(releases)
def test_sums_over_phases_are_the_direct_formula(phases: list[tuple[int, ...]]) -> None:
    sums = DistortionSums.nothing((1,))
    for n, variance, scale, bias in phases:
        sums = sums.released(n, ReleaseError(variance=variance, scale=scale, bias=bias))
    n, d, c, b = np.array(phases, dtype=np.float64).T
    total = max(n.sum(), 1.0)
    found = sums.over(np.array([n.sum()]))
    assert found.variance[0] == pytest.approx((n**2 * d).sum() / total**2, rel=1e-12)
    assert found.scale[0] == pytest.approx((n * c).max() / total, rel=1e-12)
    assert found.bias[0] == pytest.approx((n * b).sum() / total, rel=1e-12)


@repeatable
@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 3)), min_size=1, max_size=8))
def test_who_joins_later_has_the_errors_of_fewer_phases(phases: list[tuple[int, int]]) -> None:
    error = ReleaseError(variance=0.04, scale=0.1, bias=0.01)
    sums, joined = DistortionSums.nothing((0,)), []
    for number, (pulls, newcomers) in enumerate(phases):
        sums = sums.admitted(newcomers).released(pulls, error)
        joined += [number] * newcomers
    for client, first in enumerate(joined):
        n = np.array([pulls for pulls, _ in phases[first:]], dtype=np.float64)
        found = sums.over(np.full(len(joined), n.sum()))
        assert found.variance[client] == pytest.approx(0.04 * (n**2).sum() / n.sum() ** 2)
        assert found.scale[client] == pytest.approx(0.1 * n.max() / n.sum())
        assert found.bias[client] == pytest.approx(0.01)


groups = st.lists(
    st.tuples(st.integers(0, 6), st.floats(0.01, 10.0), amounts, amounts, amounts), min_size=1
)


@repeatable
@given(groups)
def test_groups_are_averaged_as_their_clients_are_one_by_one(
    members: list[tuple[int, float, float, float, float]],
) -> None:
    sizes, each, d, c, b = (np.array(part) for part in zip(*members, strict=True))
    by_group = Distortion(variance=d, scale=c, bias=b).averaged(each * sizes, sizes)
    d, c, b, weights = (np.repeat(part, sizes) for part in (d, c, b, each))
    if not sizes.sum():
        return
    one_by_one = Distortion(variance=d, scale=c, bias=b).averaged(weights)
    shares = weights / weights.sum()
    for found in (by_group, one_by_one):
        assert found.variance == pytest.approx((shares**2 * d).sum(), rel=1e-9)
        assert found.scale == pytest.approx((shares * c).max(), rel=1e-9)
        assert found.bias == pytest.approx((shares * b).sum(), rel=1e-9)


RADII: list[Radius] = [
    fb.PaperRadius(),
    fb.JointRadius(),
    fb.PairwiseRadius(),
    fb.CertifiedRadius(delta=0.1),
    fb.BernsteinRadius(range=(0, 1), delta=0.1),
    fb.ChernoffRadius(range=(0, 1), delta=0.1),
    fb.PairedTRadius(delta=0.1),
]


@pytest.mark.parametrize("radius", RADII, ids=lambda radius: str(radius.rule))
@pytest.mark.parametrize("weights", ["equal", "inverse-variance"])
def test_without_protection_decisions_are_the_same_to_the_last_bit(
    radius: Radius, weights: Any
) -> None:
    """Left out, nothing, and errors of nothing: one verdict."""
    if radius.needs_each_client:
        weights = "equal"  # its only ones
    rng = np.random.default_rng(SEED)
    rule = dataclasses.replace(
        Fed2Ucb(pulls=10, admissions=4, radius=radius).rule(
            Beliefs(n_arms=4, horizon=10**4, noise=0.1, spread=0.02)
        ),
        estimator=Plain() if weights == "equal" else InverseVariance(),
    )
    for _ in range(20):
        counts = rng.integers(1, 200, 40)[np.newaxis].repeat(4, axis=0)
        means = rng.normal(rng.uniform(0.2, 0.8, (4, 1)), 0.05, (4, 40))
        known: dict[str, Any] = {
            "phase": 3,
            "active": np.array([True, True, False, True]),
            "estimates": means.mean(axis=1),
            "counts": counts,
            "client_means": means if radius.needs_each_client else None,
        }
        nothing = DistortionSums.nothing((4, 40)).released(counts, ReleaseError()).over(counts)
        plain = decided(rule, **known)
        # "chernoff" has an event more wherever means are protected, however little.
        for distortion in (UNDISTORTED, nothing)[: 1 if radius.rule == "chernoff" else 2]:
            verdict = decided(rule, **known, distortion=distortion)
            assert verdict.active.tolist() == plain.active.tolist()
            assert verdict.widths.tobytes() == plain.widths.tobytes()
            assert verdict.settled == plain.settled
        # Something is seen.
        some = DistortionSums.nothing((4, 40)).released(counts, ReleaseError(bias=0.01))
        wider = decided(rule, **known, distortion=some.over(counts))
        active = known["active"]
        shapes = [np.broadcast_to(verdict.widths, 4)[active] for verdict in (plain, wider)]
        assert (shapes[1] > shapes[0]).all()


@pytest.mark.parametrize("privacy", [NEAREST, STOCHASTIC, GAUSSIAN, LAPLACE])
def test_a_server_widens_by_what_its_clients_did(privacy: Privacy) -> None:
    """And without a policy by nothing."""
    rule = fed1(noise=0.5, radius=fb.CertifiedRadius(delta=0.1), clients=4)
    widths = {}
    for held in (None, privacy):
        server = Server(rule, privacy=held)
        clients = [client_of(number, held) for number in range(4)]
        assignment = server.open([client.name for client in clients])
        for client in clients:
            assert server.receive(client.play(assignment)) is None
        widths[held] = np.array(server.close().widths)
    counts = np.full((3, 4), 20)
    bare = width_of(rule, phase=1, counts=counts)
    assert widths[None].tolist() == np.broadcast_to(bare, 3).tolist()
    error = privacy.mechanism(20, 3).error
    distortion = DistortionSums.nothing((3, 4)).released(20, error).over(counts)
    assert widths[privacy] == pytest.approx(
        width_of(rule, phase=1, counts=counts, distortion=distortion), rel=1e-12
    )
    assert (widths[privacy] > widths[None]).all()


# Policies that change, outboxes that are shared, numbers out of proportion ------------------------


def noised_assignment(policy: fb.Privacy, phase: int = 1, **header: Any) -> Assignment:
    told: dict[str, Any] = {"run": "demo", "epoch": 1, "arms": "x"} | header
    return Assignment(
        header=Header(**told),
        phase=phase,
        pulls=(100, 100),
        release=Release(mechanism=policy.mechanism(100, 2)),
    )


def halves(arm: int, n: int) -> list[float]:
    return [0.5] * n


def test_what_was_sent_under_another_policy_is_counted_by_todays(tmp_path: Path) -> None:
    events = fb.Privacy(range=(0, 1), noise="gaussian", epsilon=2.0, delta=1e-6)
    file = tmp_path / "a.jsonl"
    client = Client("a", halves, privacy=events, outbox=AuditFile(file))
    for phase in (1, 2, 3):
        client.play(noised_assignment(events, phase))
    user = fb.Privacy(range=(0, 1), noise="gaussian", rho=1.0, level="user", releases=5)
    again = Client("a", halves, privacy=user, outbox=AuditFile(file))
    scale = events.noise_scale(100, 2)
    assert again.spent.rho == pytest.approx(3 * 2 / (2 * scale**2), rel=1e-3)
    with pytest.raises(RefusalError, match="budget"):
        again.play(noised_assignment(user, 4))
    person = dataclasses.replace(events, level="person", observations=50)
    assert Client("a", halves, privacy=person, outbox=AuditFile(file)).spent.rho == pytest.approx(
        2500 * client.spent.rho, rel=1e-3
    )


def test_after_a_change_from_gaussian_to_laplace_noise_the_larger_epsilon_counts(
    tmp_path: Path,
) -> None:
    """By ρ the Laplace release is the larger one, and ε = 1.5 would be printed: it is 7.3."""
    old = fb.Privacy(range=(0, 1), noise="gaussian", rho=0.9)
    new = fb.Privacy(range=(0, 1), noise="laplace", scale=1 / 150, delta=1e-6)
    file = tmp_path / "a.jsonl"
    Client("a", halves, privacy=old, outbox=AuditFile(file)).play(noised_assignment(old, 1))
    client = Client("a", halves, privacy=new, outbox=AuditFile(file))
    client.play(noised_assignment(new, 2))
    *_, last = AuditFile(file)
    assert last.spent.rho > 0.9
    for total in (client.spent, last.total):
        assert total.epsilon(1e-6) == pytest.approx(7.3, abs=0.05)
    assert "epsilon = 7.3" in last.budget


@pytest.mark.parametrize("level", ["event", "user"])
def test_means_without_noise_spend_all_of_a_users_budget(tmp_path: Path, level: Any) -> None:
    file = tmp_path / "a.jsonl"
    bare = noised_assignment(fb.Privacy(range=(0, 1), noise="laplace", epsilon=1.0))
    Client("a", halves, outbox=AuditFile(file)).play(dataclasses.replace(bare, release=Release()))
    policy = fb.Privacy(
        range=(0, 1),
        noise="laplace",
        epsilon=1.0,
        level=level,
        releases=3 if level == "user" else None,
    )
    client = Client("a", halves, privacy=policy, outbox=AuditFile(file))
    if level == "event":
        assert client.play(noised_assignment(policy, 2)).packed
    else:
        with pytest.raises(RefusalError, match="budget"):
            client.play(noised_assignment(policy, 2))


def test_a_server_is_not_told_of_a_mechanism_without_a_policy() -> None:
    policy = fb.Privacy(range=(0, 1), noise="laplace", epsilon=1.0)
    rule = fb.Fed1Ucb(pulls=100, clients=2).rule(
        fb.Beliefs(n_arms=2, horizon=1000, noise=0.5, spread=0.0)
    )
    with pytest.raises(fb.ProtocolError, match="give privacy"):
        Server(rule, release=Release(mechanism=policy.mechanism(100, 2)))


def test_an_outbox_serves_one_client_and_two_files_do_not_race(tmp_path: Path) -> None:
    policy = fb.Privacy(range=(0, 1), noise="laplace", epsilon=1.0)
    outbox = AuditFile(tmp_path / "a.jsonl")
    Client("a", halves, privacy=policy, outbox=outbox)
    with pytest.raises(fb.InputError, match="another client's"):
        Client("a", halves, privacy=policy, outbox=outbox)
    for attempt in range(20):
        file = tmp_path / f"race-{attempt}.jsonl"
        clients = [Client("a", halves, privacy=policy, outbox=AuditFile(file)) for _ in range(2)]
        sent: list[bytes] = []

        def answer(client: Client, kept: list[bytes] = sent) -> None:
            with contextlib.suppress(fb.InputError):
                kept.append(client.play(noised_assignment(policy)).packed)

        threads = [threading.Thread(target=answer, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(sent) == len(read_audit(file)) == 1


def test_another_list_of_arms_is_another_game_after_a_restart(tmp_path: Path) -> None:
    policy = fb.Privacy(range=(0, 1), noise="laplace", epsilon=1.0)
    file = tmp_path / "a.jsonl"
    first = Client("a", halves, privacy=policy, outbox=AuditFile(file)).play(
        noised_assignment(policy)
    )
    other = Client("a", halves, privacy=policy, outbox=AuditFile(file)).play(
        noised_assignment(policy, arms="other")
    )
    assert first.packed != other.packed


def test_means_that_are_all_alike_have_no_t_interval() -> None:
    widths = t_interval_widths(
        np.array([[0.3] * 30, [0.1, 0.2] * 15]), np.ones((2, 30), dtype=bool), level=0.05, phase=1
    )
    assert np.isinf(widths[0])
    assert np.isfinite(widths[1])


def test_a_refusal_of_an_earlier_phase_ends_nothing() -> None:
    rule = fb.Fed1Ucb(pulls=100, clients=1).rule(
        fb.Beliefs(n_arms=2, horizon=10_000, noise=0.5, spread=0.0)
    )
    server = Server(rule)
    server.open(["a"])
    stale = Refusal(header=server.header, phase=0, client="a", why=Refused.BUDGET)
    with pytest.raises(fb.ProtocolError, match="a refusal of phase 0 in phase 1"):
        server.refuse(stale)
    assert not server.finished


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"means": [0.5]}, "a mean for every arm"),
        ({"means": ["a", "b"]}, "a mean for every arm"),
        ({"counts": ["a", "b"]}, "whole numbers"),
        ({"clipped": None}, "whole numbers"),
        ({"client": None}, "names are text"),
        ({"means": [0.1, 0.2]}, "not what was sent"),
    ],
)
def test_an_audit_line_that_no_client_has_written_is_refused(
    tmp_path: Path, changed: dict[str, Any], words: str
) -> None:
    policy = fb.Privacy(range=(0, 1), noise="laplace", epsilon=1.0)
    file = tmp_path / "a.jsonl"
    Client("a", halves, privacy=policy, outbox=AuditFile(file)).play(noised_assignment(policy))
    line = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(line | changed) + "\n", encoding="utf-8")
    with pytest.raises(fb.InputError, match="line 1") as caught:
        read_audit(file)
    assert words in str(caught.value)


def test_the_same_phase_twice_is_no_audit(tmp_path: Path) -> None:
    policy = fb.Privacy(range=(0, 1), noise="laplace", epsilon=1.0)
    file = tmp_path / "a.jsonl"
    Client("a", halves, privacy=policy, outbox=AuditFile(file)).play(noised_assignment(policy))
    file.write_bytes(file.read_bytes() * 2)
    with pytest.raises(fb.InputError, match="released before"):
        read_audit(file)


@pytest.mark.parametrize(
    ("keys", "where"),
    [
        ({"range": (1e12, 1e12 + 1), "noise": "laplace", "epsilon": 1.0}, "range"),
        ({"range": (-1e308, 1e308), "noise": "laplace", "epsilon": 1.0}, "range"),
        ({"range": (0, 1), "noise": "gaussian", "scale": 1e300}, "scale"),
        ({"range": (0, 1), "noise": "gaussian", "scale": 1e-15}, "scale"),
        ({"range": (0, 1), "noise": "laplace", "epsilon": 1e300}, "epsilon"),
        ({"range": (0, 1), "noise": "gaussian", "rho": 1e300}, "rho"),
        (
            {"range": (0, 1), "noise": "laplace", "epsilon": 1.0, "level": "user"}
            | {"releases": 10**30},
            "releases",
        ),
    ],
)
def test_numbers_out_of_all_proportion_are_refused(keys: dict[str, Any], where: str) -> None:
    with pytest.raises(fb.InputError) as caught:
        fb.Privacy(**keys)
    assert caught.value.where == where


def test_a_gap_below_two_steps_of_nearest_rounding_may_never_be_decided() -> None:
    game = fb.Approximate(means=[0.4, 0.65], noise=fb.Bernoulli(), spread=fb.Beta(0.01))
    (doubt,) = doubts(
        Fed1Ucb(pulls=10, clients=5, target="population").rule(
            Beliefs(n_arms=2, horizon=1000, noise=0.5, spread=0.1)
        ),
        game,
        fb.Privacy(range=(0, 1), quantize=fb.Quantize(bits=3, rounding="nearest")),
    )
    assert "may never be told apart" in doubt
