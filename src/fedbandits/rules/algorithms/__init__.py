"""The algorithms, one file each, and the table of their names."""

from fedbandits.registry import Registry
from fedbandits.rules.algorithms.algorithm import Algorithm as Algorithm
from fedbandits.rules.algorithms.authors_baseline import AuthorsBaseline as AuthorsBaseline
from fedbandits.rules.algorithms.centralized import Centralized as Centralized
from fedbandits.rules.algorithms.fed1_ucb import Fed1Ucb as Fed1Ucb
from fedbandits.rules.algorithms.fed2_ucb import Fed2Ucb as Fed2Ucb
from fedbandits.rules.algorithms.fed_index import FedIndex as FedIndex
from fedbandits.rules.algorithms.fed_mom_ucb import FedMomUcb as FedMomUcb
from fedbandits.rules.algorithms.fed_ts import FedTs as FedTs
from fedbandits.rules.algorithms.improved_ucb import ImprovedUcb as ImprovedUcb
from fedbandits.rules.algorithms.kl_ucb import KlUcb as KlUcb
from fedbandits.rules.algorithms.local_ucb import LocalUcb as LocalUcb
from fedbandits.rules.algorithms.thompson import Thompson as Thompson
from fedbandits.rules.algorithms.ucb1 import Ucb1 as Ucb1

ALGORITHMS: Registry[Algorithm] = Registry(
    "an algorithm",
    group="fedbandits.algorithms",
    key="name",
    roles=(Algorithm,),
    required=("rule",),
    built_in=(
        Fed2Ucb,
        Fed1Ucb,
        FedIndex,
        FedTs,
        Centralized,
        ImprovedUcb,
        AuthorsBaseline,
        FedMomUcb,
        Ucb1,
        KlUcb,
        Thompson,
        LocalUcb,
    ),
)
"""The algorithms by their names in experiment files."""
