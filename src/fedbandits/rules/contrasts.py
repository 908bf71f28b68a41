"""Contrasts: two arms compared within every client, by an estimator that stands liars."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.eliminations import best_active


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Crowd:
    """The clients whose values are compared, and how far a value may be from what it estimates.

    Parameters
    ----------
    units : int
        n: values that are compared, one per client or per group of clients.
    liars : int
        f: how many of the values may be anything, at most.
    noise : array
        Variance proxy of what too few pulls leave open in a value, of any honest client.
    spread : array
        Variance proxy of what honest clients differ by, in a value.
    sampled : bool
        Whether the clients are drawn from those whom the answer is for. If not, they are all of
        them, and ``range`` bounds by how much they differ.
    range : array
        Between the values of which any two honest clients lie, without noise; infinite if nothing
        is known.
    """

    units: int
    liars: int
    noise: FloatArray
    spread: FloatArray
    sampled: bool
    range: FloatArray

    @property
    def honest(self) -> int:
        """How many values are honest, at least: h = n − f."""
        return self.units - self.liars

    @property
    def kept(self) -> int:
        """How many values are left between the f lowest and the f highest: m = n − 2f."""
        return self.units - 2 * self.liars

    @property
    def variance(self) -> FloatArray:
        """v, the variance proxy of an honest value."""
        return np.asarray(self.noise + self.spread)


class StandsLiars(Protocol):
    """How the values of clients of whom some lie become one, and how far it may be off."""

    def middle(self, values: FloatArray, liars: int) -> FloatArray:
        """Return one value of those along the last axis, f of which may be anything."""
        ...

    def excess(self, crowd: Crowd, log: FloatArray) -> FloatArray:
        """Return what the middle exceeds the truth by with probability at most exp(-log)."""
        ...

    def lower(self, values: FloatArray, crowd: Crowd, log: FloatArray) -> FloatArray:
        """Return what the truth is below with probability at most exp(-log)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contrasts:
    """What two arms are compared by if some clients may lie: `StandsLiars` says how.

    Parameters
    ----------
    clients : int
        How many are compared.
    groups : int
        How many of them are averaged before they are compared.
    liars : int
        How many of them may lie.
    noise, spread : array, shape (..., arms) or less
        Variance proxies of what one client's mean of an arm leaves open.
    sampled : bool
        As in `Crowd`.
    half_range : float
        Half of the range in which all local means of an arm lie; infinite if nothing is known.
    bias : array, shape (..., arms) or less
        By how much the protection of means shifts one client's mean of an arm, at most.
    """

    clients: int
    groups: int
    liars: int
    noise: FloatArray
    spread: FloatArray
    sampled: bool
    half_range: float
    bias: FloatArray

    def changed(self, change: Callable[[FloatArray], FloatArray]) -> Contrasts:
        """Return the same of other rows or arms."""
        return replace(
            self, noise=change(self.noise), spread=change(self.spread), bias=change(self.bias)
        )

    def of_one(self) -> Crowd:
        """Return what is known of the means of single arms."""
        size = self.groups
        return Crowd(
            units=self.clients // size,
            liars=self.liars,
            noise=self.noise / size,
            spread=self.spread / size,
            sampled=self.sampled,
            range=np.asarray(2.0 * self.half_range),
        )

    def of_pairs(self, *, independent: bool, leader: BoolArray | None = None) -> Crowd:
        """Return what is known of differences between every arm and one of them.

        Parameters
        ----------
        independent : bool
            Whether the arms of a client are independent of each other.
        leader : array of bool, shape (..., arms), optional
            Which arm every arm is compared with; one with its own proxies by default.
        """
        one = self.of_one()

        def both(own: FloatArray) -> FloatArray:
            if independent:
                return _with(own, leader)
            return np.asarray(_with(np.sqrt(own), leader) ** 2)

        # What holds for the arms of a client holds for their noise and for all of it.
        noise = both(one.noise)
        total = both(one.variance)
        return replace(one, noise=noise, spread=total - noise, range=2.0 * one.range)

    def widths(self, way: StandsLiars, log: FloatArray, *, independent: bool) -> FloatArray:
        """Return how far two arms must be apart, as far as is known before anything is observed."""
        return _excess(way, self.of_pairs(independent=independent), log) + 2.0 * self.bias

    def leads(
        self,
        way: StandsLiars,
        means: FloatArray,
        values: FloatArray,
        active: BoolArray,
        log: FloatArray,
        *,
        independent: bool,
    ) -> FloatArray:
        """Return by how much the arm with the highest value is better than every arm, at least.

        Each with probability at least 1 − exp(−log).

        Parameters
        ----------
        way : StandsLiars
            The estimator.
        means : array, shape (..., arms, clients)
            Of the clients that are compared.
        values : array, shape (..., arms)
            Estimates, of which the highest leads.
        active : array of bool, shape (..., arms)
            Among which.
        log : array
            How rarely a comparison errs.
        independent : bool
            Whether the arms of a client are independent of each other.
        """
        best = np.asarray(best_active(values, np.broadcast_to(active, values.shape)))
        arms = np.arange(values.shape[-1])
        leader = arms == best[..., np.newaxis]
        crowd = self.of_pairs(independent=independent, leader=leader)
        if crowd.kept < 1:
            return np.full(values.shape, -math.inf)
        ahead = np.take_along_axis(means, best[..., np.newaxis, np.newaxis], axis=-2) - means
        limits = way.lower(grouped(ahead, self.groups), crowd, log)
        return np.asarray(limits - _with(self.bias, leader))

    def interval_widths(self, way: StandsLiars, log: FloatArray) -> FloatArray:
        """Return half-widths of intervals around the middle of single arms, for either side."""
        return _excess(way, self.of_one(), log) + self.bias


def _with(own: FloatArray, leader: BoolArray | None) -> FloatArray:
    """Return the sum of what every arm has and what the leader has: its own if there is none."""
    if leader is None or not own.ndim or own.shape[-1] == 1:
        return np.asarray(2.0 * own)
    return np.asarray(own + np.where(leader, own, 0.0).max(axis=-1, keepdims=True))


def _excess(way: StandsLiars, crowd: Crowd, log: FloatArray) -> FloatArray:
    """Return what the middle may exceed the truth by: anything if all values may be lies."""
    if crowd.kept < 1:
        return np.full(np.broadcast_shapes(np.shape(log), crowd.variance.shape), math.inf)
    return np.asarray(way.excess(crowd, log))


def share_of(share: float, clients: npt.ArrayLike) -> IntArray:
    """Return how many clients a share of them is, rounded down.

    Examples
    --------
    >>> share_of(0.1, [9, 10, 30])
    array([0, 1, 3])
    """
    # A tenth of 30 clients is 3 of them, whatever the last bit of 0.1 makes of it.
    return np.floor(share * np.asarray(clients) * (1 + 1e-12)).astype(np.int64)


def grouped(values: FloatArray, size: int) -> FloatArray:
    """Return averages over groups of clients, in their order; the last clients may be in none.

    Examples
    --------
    >>> grouped(np.array([1.0, 3.0, 5.0, 7.0, 100.0]), 2)
    array([2., 6.])
    """
    if size == 1:
        return values
    groups = values.shape[-1] // size
    return np.asarray(
        values[..., : groups * size].reshape(*values.shape[:-1], groups, size).mean(axis=-1)
    )
