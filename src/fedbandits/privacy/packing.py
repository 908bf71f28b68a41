"""Points on a grid as bits: what is really sent."""

from __future__ import annotations

from collections.abc import Sequence

from fedbandits.errors import InputError
from fedbandits.privacy.mechanisms import UNPROTECTED_BITS

_HALF = 1 << (UNPROTECTED_BITS - 1)


def pack(places: Sequence[int], bits: int) -> bytes:
    """Return grid points one after the other, b bits each; zeros fill up the last byte.

    Places of 64 bits have a sign, others are not negative.

    Examples
    --------
    >>> pack([5, 0, 7], 3).hex()
    'a380'
    """
    shift = _HALF if bits == UNPROTECTED_BITS else 0
    total = 0
    for place in places:
        shifted = place + shift
        if not 0 <= shifted < 1 << bits:
            raise InputError("places", f"{place} does not fit into {bits} bits")
        total = (total << bits) | shifted
    length = payload_bits(len(places), bits) // 8
    return (total << (8 * length - bits * len(places))).to_bytes(length, "big")


def unpack(packed: bytes, bits: int, n: int) -> list[int]:
    """Return the n grid points that were packed.

    Examples
    --------
    >>> unpack(bytes.fromhex("a380"), 3, 3)
    [5, 0, 7]
    """
    if 8 * len(packed) != payload_bits(n, bits):
        raise InputError("packed", f"{len(packed)} bytes for {n} places of {bits} bits")
    padding = 8 * len(packed) - bits * n
    total = int.from_bytes(packed, "big")
    if total & ((1 << padding) - 1):
        raise InputError("packed", f"its last {padding} bits are not zeros, and mean nothing")
    total >>= padding
    shift = _HALF if bits == UNPROTECTED_BITS else 0
    return [((total >> (bits * at)) & ((1 << bits) - 1)) - shift for at in reversed(range(n))]


def payload_bits(n: int, bits: int) -> int:
    """Return the bits of the whole bytes that n grid points take.

    Examples
    --------
    >>> payload_bits(10, 3), payload_bits(10, 64)
    (32, 640)
    """
    return -(-n * bits // 8) * 8
