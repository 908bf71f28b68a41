"""What left the clients of a variant: how it was protected, what it spent, how much it was."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedbandits.privacy.policy import Privacy
from fedbandits.privacy.protection import spent_at_most
from fedbandits.problems.clipping import clipping
from fedbandits.simulation import Simulation
from fedbandits.simulation.tables import quantity


def uplink_of(simulation: Simulation) -> dict[str, dict[str, float | None]]:
    """Return the bits of means that clients have sent: in total, and divided by the clients."""
    played = simulation.games
    return {
        "total": quantity(played.uplink_bits),
        "per_client": quantity(played.uplink_bits / np.maximum(played.clients, 1)),
    }


def protection_of(simulation: Simulation) -> dict[str, Any] | None:
    """Return what summary.json says of a variant's privacy; None if nothing is protected."""
    privacy, played, rule = simulation.variant.privacy, simulation.games, simulation.rule
    if privacy is None or rule.decides_every_slot:
        return None
    spent = spent_at_most(rule, privacy, int(played.phases.max()))
    epsilon = spent.epsilon(privacy.delta)
    found = clipping(simulation.variant.problem, *privacy.range)
    return {
        "words": protection_words(privacy),
        "level": None if privacy.noise is None else privacy.level,
        "rho": None if privacy.noise is None else spent.rho,
        "epsilon": epsilon if privacy.noise is not None and np.isfinite(epsilon) else None,
        "delta": privacy.delta,
        "spent": privacy.in_words(spent),
        "budget_spent_rate": float(played.spent.mean()),
        "clipped": quantity(played.clipped),
        "clipped_share": 0.0 if found.negligible else float(found.shares.max()),
    }


def protection_words(privacy: Privacy) -> str:
    """Return a policy in a few words.

    Examples
    --------
    >>> protection_words(Privacy(range=(0, 1), noise="laplace", epsilon=1.0))
    'laplace noise for epsilon = 1, event level (protects one observation), means in [0, 1]'
    """
    low, high = privacy.range
    within = f"means in [{low:g}, {high:g}]"
    quantize = privacy.quantize
    if quantize is not None:
        bits = "bits by the radius" if quantize.bits == "radius" else f"{quantize.bits} bits"
        widened = ", widened as in the paper" if quantize.widening == "paper" else ""
        return f"{quantize.rounding} rounding to {bits}{widened}, {within}"
    names = ("scale", "epsilon", "delta", "rho", "observations", "releases")
    given = {name: getattr(privacy, name) for name in names}
    parts = [f"{name} = {value:g}" for name, value in given.items() if value is not None]
    return (
        f"{privacy.noise} noise for {', '.join(parts)}, {privacy.level} level"
        f" ({_PROTECTED[privacy.level]}), {within}"
    )


_PROTECTED = {
    "event": "protects one observation",
    "person": "protects a person with so many observations",
    "user": "protects all that a client has",
}
