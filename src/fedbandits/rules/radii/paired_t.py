"""The paired t-test over clients, which needs neither σ nor σ_c."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedbandits.errors import InputError, check_count
from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.rules.guarantees import (
    Assumption,
    Condition,
    Guarantee,
    ProofContext,
    Status,
    keeps_best,
)
from fedbandits.rules.levels import LevelLike, as_level
from fedbandits.rules.radii.known import PhaseStatistics, shared_log
from fedbandits.rules.radii.pairs import Pairs, WidthsTo
from fedbandits.rules.reports import Reports

FEWEST_TO_TEST = 30
"""With fewer clients the t-test decides nothing by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTRadius(Pairs):
    r"""The difference of two arms within each client, and its standard error over clients.

    With :math:`D_m = X_{l,m} - X_{k,m}` for client m of M, k goes when the mean of D is at least
    :math:`t_{M-1}(1 - 6\delta / (\pi^2 p^2 (K-1))) \cdot \mathrm{sd}(D) / \sqrt{M}` for an
    active l.

    Derivation: for normal clients with equal counts the :math:`D_m` are independent and normal with
    one variance, so that their mean over its standard error has Student's t-distribution around
    the true difference.

    Guarantee: **no finite-sample guarantee in general.** Each comparison is exact for Gaussian
    clients with equal counts; δ is then shared out over rivals and phases as in `CertifiedRadius`.
    What a client adds to all of its arms alike cancels, and arms may depend on each other. It is
    *not safe* for skewed client effects and few clients: an arm that wins big in one client of ten
    looks worse than it is in the samples that miss them. With cohorts of unequal counts it is
    approximate.

    Parameters
    ----------
    delta : number or expression in T
        δ; "1/T" by default.
    min_clients : int
        Decide nothing with fewer clients; 30 by default.
    """

    rule: ClassVar[str] = "paired-t"
    uses_noise: ClassVar[bool] = False
    uses_spread: ClassVar[bool] = False
    needs_each_client: ClassVar[bool] = True
    equal_weights_only: ClassVar[bool] = True
    options: ClassVar[tuple[str, ...]] = ("delta",)

    delta: LevelLike = "1/T"
    min_clients: int = FEWEST_TO_TEST

    def __post_init__(self) -> None:
        Pairs.__post_init__(self)
        check_count(self.min_clients, "min_clients", 2)

    @property
    def fewest_clients(self) -> int:
        """The fewest clients with which it decides anything."""
        return self.min_clients

    def guarantee(self, context: ProofContext) -> Guarantee:
        """Return what is proven; see `Radius`."""
        normal = Condition(
            Assumption.NORMAL_CLIENTS,
            status=Status.BROKEN,
            why="paired-t has no finite-sample guarantee: it takes the clients' differences for"
            " normal and their pulls for equal in number",
        )
        if_normal = f"{keeps_best(self.delta, context).claim} if {normal.words}"
        return Guarantee.nothing(f"{if_normal}, and nothing in general", normal)

    def half_widths(self, known: PhaseStatistics) -> FloatArray:
        """Return half the width between each arm and the best."""
        return self.margins(known) / 2

    def _widths_to(self, known: PhaseStatistics) -> WidthsTo:
        widths = self._widths(known)
        return lambda arm: widths[..., arm]

    def interval_widths(self, level: float, known: PhaseStatistics, reports: Reports) -> FloatArray:
        """Return half-widths of intervals to show, by Student's t; see `Radius`."""
        inside = np.asarray(reports.counts) > 0
        means = reports.each_mean(absent=0.0)
        widths = t_interval_widths(means, inside, level=level, phase=int(known.phase))
        return np.asarray(widths + reports.distortion.averaged(inside.astype(np.float64)).bias)

    def interval_conditions(self, context: ProofContext) -> tuple[Condition, ...]:
        """Return what intervals assume: normal clients; see `Radius`."""
        words = f"{Assumption.NORMAL_CLIENTS.value} (else nothing is proven)"
        return (Condition(Assumption.NORMAL_CLIENTS, words),)

    def _widths(self, known: PhaseStatistics) -> FloatArray:
        """Return the widths between all pairs, shape (..., arms, arms)."""
        variances, clients = paired_variances(known, self.rule)
        if clients < self.min_clients:
            return np.full(variances.shape, np.inf)
        tail = np.exp(-shared_log(known, as_level(self.delta).value(known.horizon)))
        quantile = np.asarray(_t_quantile(tail, clients - 1))
        if quantile.ndim:  # phases: (..., 1, 1) beside replications and arms
            quantile = quantile[..., np.newaxis]
        bias = 2.0 * np.asarray(known.of_active(known.estimate.distortion.bias))
        if bias.ndim:
            bias = bias[..., np.newaxis]
        # Whatever is random in what protects the means is in the clients' differences already.
        widths = quantile * np.sqrt(variances / clients) + bias
        # Differences that are all alike say nothing about how far the next one may be off.
        return np.where(variances > 0, widths, np.inf)


def paired_variances(known: PhaseStatistics, rule: str) -> tuple[FloatArray, int]:
    """Return the sample variances of clients' differences, shape (..., arms, arms), and M.

    The divisor is M − 1.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from fedbandits.rules.radii.known import example_statistics
    >>> known = example_statistics()
    >>> means = np.array([[0.1, 0.2, 0.6], [0.2, 0.4, 0.6]])
    >>> variances, clients = paired_variances(
    ...     replace(known, estimate=replace(known.estimate, client_means=means)), "paired-t"
    ... )
    >>> variances.round(4), clients
    (array([[0.  , 0.01],
           [0.01, 0.  ]]), 3)
    """
    means = known.estimate.client_means
    if means is None:
        raise InputError(
            "radius.rule",
            f'"{rule}" needs the mean of every client, but only averages are known here',
        )
    clients = means.shape[-1]
    if clients < 2:
        n_arms = means.shape[-2]
        return np.full((*means.shape[:-1], n_arms), np.inf), clients
    # Contiguous, as in `aggregate`: every driver gets the same last bit from the same means.
    means = np.ascontiguousarray(means)
    centred = means - means.mean(axis=-1, keepdims=True)
    products = centred @ np.swapaxes(centred, -1, -2) / (clients - 1)
    own = np.diagonal(products, axis1=-2, axis2=-1)
    both = own[..., :, np.newaxis] + own[..., np.newaxis, :]
    variances = both - 2.0 * products
    # What is left of a cancellation is no variance.
    return np.where(variances > 1e-12 * both, variances, 0.0), clients


def t_interval_widths(
    client_means: FloatArray, inside: BoolArray, *, level: float, phase: int
) -> FloatArray:
    r"""Return half-widths of intervals around plain averages over clients, by Student's t.

    Simultaneous over arms and phases: :math:`t_{M-1}(1 - 6\delta_i / (2 K \pi^2 p^2)) \cdot
    \mathrm{sd} / \sqrt{M}`. Exact for normal clients with equal counts, and nothing in general.

    Parameters
    ----------
    client_means : array, shape (arms, clients)
        The mean of every client.
    inside : array of bool, shape (arms, clients)
        Which of them have pulled the arm.
    level : float
        :math:`\delta_i`.
    phase : int
        p.

    Examples
    --------
    >>> means = np.array([[0.1, 0.2, 0.3], [0.4, 0.4, 0.7]])
    >>> t_interval_widths(means, means > 0, level=0.1, phase=1).round(2)
    array([0.32, 0.56])
    """
    tail = 6.0 * level / (2.0 * client_means.shape[0] * math.pi**2 * phase**2)
    widths = np.full(client_means.shape[0], np.inf)
    for arm, (means, own) in enumerate(zip(client_means, inside, strict=True)):
        clients = int(own.sum())
        if clients > 1:
            error = float(means[own].std(ddof=1)) / math.sqrt(clients)
            # Means that are all alike, but for rounding, say nothing of how far they may be off.
            if error > 1e-12 * float(np.abs(means[own]).max()):
                widths[arm] = float(_t_quantile(tail, clients - 1)) * error
    return widths


def _t_quantile(tail: FloatArray | float, degrees: int) -> FloatArray | float:
    """Return the value that Student's t exceeds with a probability."""
    # A live client that is asked for one phase is a process of its own: half a second is long.
    from scipy import stats  # noqa: PLC0415 - see above

    quantile: FloatArray | float = stats.t.isf(tail, degrees)
    return quantile
