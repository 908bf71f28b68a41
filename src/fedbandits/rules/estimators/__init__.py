"""Estimators: how the means of clients become one value per arm, one file each."""

from __future__ import annotations

from fedbandits.registry import Registry
from fedbandits.rules.estimators.estimator import Average, Estimator, LeftOut
from fedbandits.rules.estimators.given_shares import GivenShares
from fedbandits.rules.estimators.inverse_variance import InverseVariance
from fedbandits.rules.estimators.median import Median
from fedbandits.rules.estimators.plain import Plain
from fedbandits.rules.estimators.trimmed import Trimmed

ESTIMATORS: Registry[Estimator] = Registry(
    "an estimator",
    group="fedbandits.estimators",
    key="name",
    roles=(Estimator,),
    parent="Estimator of fedbandits.rules.estimators",
    required=("estimate", "needs_each_client"),
    built_in=(Plain, InverseVariance, Trimmed, Median),
)
"""The estimators by their names in experiment files; weights of clients belong to a problem."""

__all__ = [
    "ESTIMATORS",
    "Average",
    "Estimator",
    "GivenShares",
    "InverseVariance",
    "LeftOut",
    "Median",
    "Plain",
    "Trimmed",
]
