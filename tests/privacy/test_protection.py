"""What protects clients' means: what leaves them, what is kept, refused and spent, and its cost."""

from __future__ import annotations

import dataclasses
import math
import pickle
import struct
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.errors import InputError
from fedbandits.federation.audit_file import AuditFile
from fedbandits.privacy.mechanisms import MOST_BITS, Mechanism, Noised, Rounded
from fedbandits.privacy.packing import pack, payload_bits, unpack
from fedbandits.privacy.policy import Privacy, Quantize
from fedbandits.privacy.sampling import Noise, discrete_noise
from fedbandits.protocol import (
    Client,
    Header,
    Refusal,
    RefusalError,
    Refused,
    Rejection,
    Server,
    Update,
)
from fedbandits.rules.algorithms import Fed2Ucb
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.beliefs import Beliefs
from protection import (
    GAUSSIAN,
    HEADER,
    INSIDE,
    LAPLACE,
    MARKERS,
    NEAREST,
    NOBODY,
    OUTSIDE,
    RADIUS,
    SEED,
    STOCHASTIC,
    THREE_BITS,
    USER,
    assigned,
    client_of,
    fed1,
    mechanism_of,
    policy,
    repeatable,
    secret,
    seeded,
)

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
    Update: [
        *("header", "phase", "client", "counts", "means", "packed", "squares", "clipped"),
        *("halted", "halt", "uneven", "guardrails", "gain", "signature"),
    ],
    Refusal: ["header", "phase", "client", "why", "detail", "halt"],
}


@pytest.mark.parametrize("message", SCHEMA)
def test_messages_of_a_client_have_the_documented_fields_and_no_others(message: type) -> None:
    names = [field.name for field in dataclasses.fields(message)]
    assert names == SCHEMA[message]
    assert hasattr(message, "__slots__")
    assert not hasattr(message(**dict.fromkeys(names)), "__dict__")  # nothing rides along
    for name in names:
        assert f"    {name} : " in (message.__doc__ or ""), name


# The server --------------------------------------------------------------------------------------


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
