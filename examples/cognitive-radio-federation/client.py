"""A base station that senses channels where it stands.

Licensed transmitters share the area with the stations; each is on the air for a share of the time,
its duty cycle. A sensing finds a channel free (1), or hears one of its transmitters (0).

What is heard follows from three standard models (T. S. Rappaport, Wireless Communications, 2nd
edition 2002, sections 4.9 and 5.6): path loss grows with the logarithm of the distance, shadowing
is log-normal and fixed for each station and transmitter, and every sensing has new Rayleigh fading.
Places and powers are made up. On a real station `pull` asks the radio instead.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from fedbandits.federation import ClientInfo, client_app

SIDE = 20.0  # km, length of one side of the area
NEAR = 0.1  # km: at this distance the path loss is that of free space
LOSS_NEAR = 68.0  # dB, 20 log10(4π d/λ) at 100 m and 600 MHz
EXPONENT = 3.5  # of the path loss: 2 in free space, 2.7 to 5 in cities
SHADOWING = 8.0  # dB, standard deviation
THRESHOLD = -100.0  # dBm: a weaker signal is not heard


@dataclass(frozen=True)
class Transmitter:
    """A licensed user of a channel: where it stands in km, its power in dBm, its duty cycle."""

    channel: str
    at: tuple[float, float]
    power: float
    duty: float


# On every channel all transmitters are silent for at least 40 % of the time.
TRANSMITTERS = (
    Transmitter("ch21", (5.0, 14.5), 37.0, 0.35),
    Transmitter("ch21", (15.5, 6.0), 37.0, 0.35),
    Transmitter("ch27", (3.0, 3.5), 42.0, 0.60),
    Transmitter("ch34", (10.5, 10.0), 27.0, 0.60),  # downtown
    Transmitter("ch40", (16.5, 16.0), 42.0, 0.60),
    Transmitter("ch48", (4.0, 9.0), 36.0, 0.25),
    Transmitter("ch48", (15.0, 12.5), 36.0, 0.25),
    Transmitter("ch48", (9.0, 2.0), 36.0, 0.25),
)


def place_of(station: str) -> tuple[float, float]:
    """Return where a station stands: a random place in the area, given by its name."""
    rng = random.Random(station)
    return rng.uniform(0.0, SIDE), rng.uniform(0.0, SIDE)


@cache  # stations and transmitters do not move
def margin(transmitter: Transmitter, station: str) -> float:
    """Return how many dB above the threshold a station hears a transmitter, without fading."""
    distance = max(math.dist(transmitter.at, place_of(station)), NEAR)
    # The seed is the link, so that its shadowing never changes.
    shadowing = random.Random(f"{station} {transmitter.channel} {transmitter.at}").gauss(
        0.0, SHADOWING
    )
    loss = LOSS_NEAR + 10.0 * EXPONENT * math.log10(distance / NEAR) + shadowing
    return transmitter.power - loss - THRESHOLD


def heard(transmitter: Transmitter, station: str) -> bool:
    """Return whether a transmitter is on the air now, and strong enough despite fading."""
    fading = random.expovariate(1.0)  # of the power, if amplitudes are Rayleigh
    strength = fading * 10.0 ** (margin(transmitter, station) / 10.0)
    return random.random() < transmitter.duty and strength > 1.0


@client_app
def pull(arm: str, n: int, client: ClientInfo) -> Sequence[float]:
    """Sense a channel n times; return 1 for each time that it was free, and 0 otherwise."""
    own = [transmitter for transmitter in TRANSMITTERS if transmitter.channel == arm]
    if not own:
        raise LookupError(f'"{arm}" is not a channel of the map; add it to TRANSMITTERS')
    return [float(not any(heard(each, client.name) for each in own)) for _ in range(n)]
