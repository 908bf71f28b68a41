"""The cognitive-radio system that motivates the approximate model: channels, places and users."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from fedbandits.errors import InputError, as_pair, check_count, check_word
from fedbandits.problems.laws import Bernoulli, NoiseLaw
from fedbandits.problems.population import Recentred
from fedbandits.problems.problem import LocalModels, PlainProblem, Sources, deviations, set_fields
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.beliefs import Goal

Place: TypeAlias = tuple[float, float]
"""Kilometres to the east and to the north of the area's south-west corner."""

Listener: TypeAlias = Literal["users", "base-station"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transmitter:
    """A primary user: when active, it occupies its channel around its place.

    Parameters
    ----------
    at : pair of float
        Where it stands, in km; it may be outside the coverage area.
    reach : float
        Distance in km at which its signal is noticed with :math:`e^{-1/2}` ≈ 61 % of the
        probability next to it.
    activity : float
        Probability that it transmits.

    Examples
    --------
    >>> mast = Transmitter(at=(1.0, 1.0), reach=2.0, activity=0.5)
    >>> float(mast.noticed(np.array(1.0), np.array(3.0)).round(3))
    0.303
    """

    at: Place
    reach: float
    activity: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", as_pair(self.at, "at"))
        if not (math.isfinite(self.reach) and self.reach > 0):
            raise InputError("reach", f"{self.reach} km; it must be a finite number above 0")
        if not 0 <= self.activity <= 1:
            raise InputError("activity", f"{self.activity} is not a probability; give 0 to 1")

    def noticed(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Return the probability that it is active and noticed at (x, y); both are broadcast."""
        # Very far away the square overflows to inf, and exp(-inf) = 0 is what is meant.
        with np.errstate(over="ignore"):
            squares = ((x - self.at[0]) / self.reach) ** 2 + ((y - self.at[1]) / self.reach) ** 2
        return np.asarray(self.activity * np.exp(-0.5 * squares))


@dataclass(frozen=True, slots=True)
class Channel:
    r"""An arm: a frequency band and the primary users that occupy it.

    It is available at x unless a primary user who is noticed there is active; they are independent:

    .. math:: p_k(x) = \prod_j \Bigl(1 - a_j \exp\bigl(-|x - x_j|^2 / (2 r_j^2)\bigr)\Bigr)

    with activity :math:`a_j` and reach :math:`r_j` of the transmitter at :math:`x_j`.

    Parameters
    ----------
    transmitters : sequence of Transmitter
        None at all leaves the channel free everywhere.
    """

    transmitters: Sequence[Transmitter] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "transmitters", tuple(self.transmitters))

    def availability(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Return the probability that it is free at (x, y); both are broadcast."""
        free = np.ones(np.broadcast_shapes(x.shape, y.shape))
        for transmitter in self.transmitters:
            free *= 1.0 - transmitter.noticed(x, y)
        return free

    def range_within(self, area: Place) -> tuple[float, float]:
        """Return a lower and an upper bound of its availability in an area.

        A factor is lowest at the area's point nearest to its transmitter and highest at the
        farthest. These points differ between transmitters, so the bounds hold but need not be met.
        """
        low, high, sides = 1.0, 1.0, np.array(area)
        for each in self.transmitters:
            low *= 1.0 - float(each.noticed(*np.clip(each.at, 0.0, sides)))
            high *= 1.0 - float(each.noticed(*np.where(each.at < sides / 2, sides, 0.0)))
        return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class City:
    """The numbers that a city is drawn from; see `CognitiveRadio.example`."""

    channels: int = 10
    seed: int = 2021

    def __post_init__(self) -> None:
        check_count(self.channels, "channels", 2)
        check_count(self.seed, "seed", 0)


@dataclass(frozen=True, slots=True, eq=False, init=False)
class CognitiveRadio(PlainProblem):
    r"""The cognitive-radio system of the paper: find the channel that is free most often.

    Users stand uniformly at random in the coverage area D. A user at x who senses channel k finds
    it free with probability :math:`p_k(x)` (see `Channel`), which is the user's local mean. All
    arms of a user are seen from one place, so they are dependent. The global mean is the
    availability over the whole area (Shi and Shen 2021, "Motivation Example"),

    .. math:: p_k = \mathbb{E}_{x \sim u(D)}[p_k(x)] = \iint_D \tfrac{1}{|D|}\, p_k(x)\, dx,

    integrated by a composite Gauss-Legendre rule whose panels are no wider than the reach of any
    transmitter nearby.

    Parameters
    ----------
    area : pair of float
        Width and height of the coverage area in km.
    channels : sequence of Channel
        The arms.
    population : int, optional
        N users whose places are drawn again in every replication; their local means are recentred
        so that they average to the global means exactly. Unlimited by default.
    base_station : pair of float, optional
        Where the base station stands, in km; the centre of the area by default.
    listener : {"users", "base-station"}
        Who senses. With "base-station" every client stands where the base station does: it learns
        :math:`p_k(x_{BS})` however many there are, while ``means`` stays what matters. This is the
        caution of the paper's footnote; such clients are never recentred.
    name : str
        What the random streams are keyed by.

    Examples
    --------
    >>> from fedbandits.problems import best_arm, gap
    >>> downtown = Transmitter(at=(5.0, 5.0), reach=1.0, activity=0.9)
    >>> suburb = Transmitter(at=(2.0, 8.0), reach=2.0, activity=0.6)
    >>> radio = CognitiveRadio(area=(10.0, 10.0), channels=[Channel([downtown]), Channel([suburb])])
    >>> radio.means.round(4), best_arm(radio), round(gap(radio), 4)
    (array([0.9435, 0.8933]), 0, 0.0502)

    The base station in the centre, alone, would choose the other one.

    >>> radio.availability([radio.base_station]).T.round(4)
    array([[0.1   , 0.9368]])
    """

    model: ClassVar[str] = "cognitive-radio"
    # The best channel is the one that is free most often.
    goal: ClassVar[Goal] = "max"
    noise: ClassVar[NoiseLaw] = Bernoulli()
    # All arms of a user are seen from the same place.
    arms_are_independent: ClassVar[bool] = False
    clients_are_like_draws: ClassVar[bool] = True

    area: Place
    channels: tuple[Channel, ...]
    population: int | None
    base_station: Place
    listener: Listener
    name: str
    means: FloatArray = field(init=False, repr=False)

    # Written out because it takes any sequence, or no base station, and stores a tuple and a place.
    def __init__(
        self,
        *,
        area: Place,
        channels: Sequence[Channel],
        population: int | None = None,
        base_station: Place | None = None,
        listener: Listener = "users",
        name: str = "problem",
    ) -> None:
        width, height = as_pair(area, "area")
        if min(width, height) <= 0:
            raise InputError("area", f"{area} km; width and height must be above 0")
        station = (width / 2, height / 2) if base_station is None else base_station
        set_fields(self, area=(width, height), channels=tuple(channels), population=population)
        set_fields(self, base_station=as_pair(station, "base_station"), listener=listener)
        set_fields(self, name=name)
        if len(self.channels) < 2:
            raise InputError("channels", f"{len(self.channels)}; a game needs at least two")
        check_count(population, "population", optional=True)
        east, north = self.base_station
        if not (0 <= east <= width and 0 <= north <= height):
            outside = f"{self.base_station} lies outside the area"
            raise InputError("base_station", f"{outside}: {width:g} km by {height:g} km")
        check_word(listener, Listener, "listener")
        # Computed once, because rules and regret read the means often.
        means = np.array([_area_mean(channel, self.area) for channel in self.channels])
        means.setflags(write=False)
        set_fields(self, means=means)

    @classmethod
    def example(cls, n_channels: int = 10, seed: int = 2021) -> CognitiveRadio:
        """Return a made-up city in which the base station alone settles on the wrong channel.

        Every channel has a distant broadcasting tower and primary users in the suburbs; the best
        one also has a primary user downtown, next to the base station. The global availabilities
        are those of a game as hard as the paper's: 0.79, then 0.77 down to 0.70.

        Parameters
        ----------
        n_channels : int
            How many channels.
        seed : int
            Where everything stands, and which channel is the best.

        Examples
        --------
        >>> from fedbandits.problems import best_arm, gap
        >>> city = CognitiveRadio.example()
        >>> round(gap(city), 4)
        0.02
        >>> best_arm(city) == city.availability([city.base_station])[:, 0].argmax()
        np.False_
        """
        check_count(n_channels, "n_channels", 2)
        rng = np.random.default_rng(seed)
        targets = np.append(np.linspace(0.77, 0.70, n_channels - 1), 0.79)
        area, order = (12.0, 9.0), rng.permutation(targets).tolist()
        channels = [_city_channel(rng, area, target, downtown=target == 0.79) for target in order]
        return cls(area=area, channels=channels)

    @classmethod
    def reader(cls) -> Callable[..., CognitiveRadio]:
        """Return what makes a problem from the keys of its table; see `PlainProblem`."""
        return cls._read

    @classmethod
    def _read(
        cls,
        *,
        area: Place | None = None,
        channels: list[list[Transmitter]] | None = None,
        city: City | None = None,
        base_station: Place | None = None,
        listener: Listener = "users",
        population: int | None = None,
        name: str = "problem",
    ) -> CognitiveRadio:
        if (channels is None) == (city is None):
            raise InputError("channels", "give either channels or a city, not both")
        if city is not None:
            for key, value in (("area", area), ("base_station", base_station)):
                if value is not None:
                    raise InputError(key, "a city has its own; leave it out, or give channels")
            made = cls.example(city.channels, city.seed)
            return replace(made, population=population, listener=listener, name=name)
        if area is None:
            raise InputError("area", "is missing; give its width and height in km")
        return cls(
            area=area,
            channels=[Channel(channel) for channel in channels or ()],
            population=population,
            base_station=base_station,
            listener=listener,
            name=name,
        )

    @property
    def spread_proxy(self) -> float:
        """Half of the widest range of a channel's availability: valid, as availability is bounded.

        Taken from bounds on the range (`Channel.range_within`), so it errs on the safe side;
        `spread_deviation` is what the spread is really like.
        """
        bounds = (channel.range_within(self.area) for channel in self.channels)
        return max(high - low for low, high in bounds) / 2

    def spread_deviation(self) -> FloatArray:
        """Return the standard deviation of each channel's availability over the area."""
        variances = [
            _area_moment(channel, self.area, about=float(mean), power=2)
            for channel, mean in zip(self.channels, self.means, strict=True)
        ]
        return np.sqrt(variances)

    def availability(self, places: FloatArray | Sequence[Place]) -> FloatArray:
        """Return p_k(x), shape (arms, places), at places given as rows (x, y)."""
        table = np.asarray(places, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != 2:
            raise InputError("places", f"has shape {table.shape}; give one row (x, y) per place")
        return np.stack([channel.availability(*table.T) for channel in self.channels])

    def availability_map(self, resolution: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return x, y and the availability there, shape (arms, y, x), to draw it.

        Parameters
        ----------
        resolution : int
            Into how many cells each side of the area is cut; x and y are their middles.
        """
        check_count(resolution, "resolution")
        x, y = (side * (np.arange(resolution) + 0.5) / resolution for side in self.area)
        values = [channel.availability(x, y[:, np.newaxis]) for channel in self.channels]
        return x, y, np.stack(values)

    def sampler(self, sources: Sources) -> _Listeners | Recentred:
        """Return a sampler of clients."""
        listeners = _Listeners(self, sources(0))
        if self.population is None or self.listener == "base-station":
            return listeners
        return Recentred(listeners, self.means, self.population, *self.noise.mean_range)

    @property
    def map(self) -> CognitiveRadio:
        """Itself."""
        return self

    @property
    def place(self) -> Hashable:
        """What its map shows, whatever the listener is."""
        return self.area, self.channels, self.base_station

    def described(self) -> dict[str, Any]:
        """Return the table of an experiment file."""
        channels = [
            [asdict(mast) | {"at": list(mast.at)} for mast in channel.transmitters]
            for channel in self.channels
        ]
        return PlainProblem.described(self) | {"channels": channels}

    def facts(self) -> dict[str, str]:
        """Return what the model is, how its clients are spread, and where they listen."""
        (width, height), (east, north) = self.area, self.base_station
        everywhere = "users, who stand anywhere in the area"
        return {
            "model": "cognitive radio: arms are channels, and a mean is how often one is free",
            "spread": f"by place; {deviations(self.spread_deviation())} over the area",
            "area": f"{width:g} km × {height:g} km, base station at ({east:g}, {north:g})",
            "who listens": everywhere if self.listener == "users" else "the base station alone",
        }


@dataclass(frozen=True, slots=True)
class _Listeners:
    """Places users independently of each other, or every client at the base station."""

    problem: CognitiveRadio
    rng: np.random.Generator

    def draw(self, n_clients: int, arms: Sequence[int] | None = None) -> LocalModels:
        radio = self.problem
        if radio.listener == "base-station":
            there = radio.availability([radio.base_station])
            return LocalModels(np.repeat(there, n_clients, axis=1))
        return LocalModels(radio.availability(self.rng.random((n_clients, 2)) * radio.area))


# The integral over the area ---------------------------------------------------------------------

# Ten nodes in a panel at most one reach wide: exact to rounding for a Gaussian, with room for
# several transmitters in one place, whose product is narrower than each of them.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
# At nine times its reach a transmitter is noticed with probability 3e-18.
_SIGHT = 9.0
_MOST_AT_ONCE = 1_000_000


def _area_mean(channel: Channel, area: Place) -> float:
    """Return p_k."""
    # The complement, so that a channel that is free everywhere gets exactly 1, not 1 + 2e-16.
    return 1.0 - _area_moment(channel, area, about=1.0, power=1)


def _area_moment(channel: Channel, area: Place, *, about: float, power: int) -> float:
    """Return the average of (about − availability)^power over the area."""
    x, x_weights = _axis_rule(channel, area, 0)
    y, y_weights = _axis_rule(channel, area, 1)
    total = 0.0
    rows = max(1, _MOST_AT_ONCE // y.size)
    for start in range(0, x.size, rows):
        part = slice(start, start + rows)
        values = (about - channel.availability(x[part, np.newaxis], y)) ** power
        total += float(x_weights[part] @ values @ y_weights)
    return total


def _axis_rule(channel: Channel, area: Place, axis: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes along one side of the area, and weights that sum to 1."""
    side = area[axis]
    edges = _panels(side, [(each.at[axis], each.reach) for each in channel.transmitters])
    widths = np.diff(edges)[:, np.newaxis]
    nodes = edges[:-1, np.newaxis] + widths * (_NODES + 1.0) / 2.0
    weights = (widths / side) * _WEIGHTS / 2.0
    return nodes.ravel(), weights.ravel()


def _panels(side: float, transmitters: Sequence[tuple[float, float]]) -> FloatArray:
    """Return the edges of panels along one side, halved until every transmitter is resolved."""
    # What a transmitter narrower than this adds to the average is below rounding.
    narrowest = 1e-9 * side
    lows: list[float] = []
    pending = [(0.0, side)]
    while pending:
        low, high = pending.pop()
        width = high - low
        if width > narrowest and any(
            width > reach and low - _SIGHT * reach < at < high + _SIGHT * reach
            for at, reach in transmitters
        ):
            middle = (low + high) / 2
            pending += [(middle, high), (low, middle)]
        else:
            lows.append(low)
    return np.array([*lows, side])


# The example city -------------------------------------------------------------------------------


def _city_channel(
    rng: np.random.Generator, area: Place, target: float, *, downtown: bool
) -> Channel:
    """Return a channel of the example, with primary users added until its availability is met."""
    centre = np.array(area) / 2
    angle = rng.uniform(0.0, 2 * math.pi)
    # The tower keeps availability below 1 everywhere: without that, recentring a finite population
    # would leave many users at exactly 1.
    tower = as_pair(centre + 10.0 * np.array([math.cos(angle), math.sin(angle)]), "at")
    licensed = [Transmitter(at=tower, reach=20.0, activity=0.15)]
    before = _area_mean(Channel(licensed), area)
    while True:
        place = _downtown if downtown and len(licensed) == 1 else _in_the_suburbs
        added = place(rng, centre)
        after = _area_mean(Channel([*licensed, added]), area)
        if after <= target:
            # Availability is linear in the activity of any one transmitter.
            share = (before - target) / (before - after)
            return Channel([*licensed, replace(added, activity=added.activity * share)])
        licensed.append(added)
        before = after


def _downtown(rng: np.random.Generator, centre: FloatArray) -> Transmitter:
    """Return a primary user next to the centre."""
    at, reach = centre + rng.normal(scale=0.2, size=2), rng.uniform(1.5, 2.0)
    return Transmitter(at=as_pair(at, "at"), reach=reach, activity=rng.uniform(0.6, 0.9))


def _in_the_suburbs(rng: np.random.Generator, centre: FloatArray) -> Transmitter:
    """Return a primary user that is hardly noticed at the centre."""
    reach = rng.uniform(0.8, 1.6)
    while True:
        at = rng.random(2) * (2 * centre)
        if np.hypot(*(at - centre)) > 2.5 * reach:
            return Transmitter(at=as_pair(at, "at"), reach=reach, activity=rng.uniform(0.4, 0.8))
