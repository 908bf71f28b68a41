"""What the theorems promise for the paper's games, in numbers, beside what was simulated.

Theorem 1 becomes client numbers, Theorems 2 and 3 bounds that every simulated mean is checked
against, Tables 2 and 3 one row per schedule; the corollaries and the Lai-Robbins slope are orders.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Any, TypeAlias

import numpy as np

from fedbandits.experiments.bounds import VariantBound, bounds_of
from fedbandits.experiments.experiment import Experiment
from fedbandits.problems.problem import Problem, gaps
from fedbandits.report.chart import NORMAL_95
from fedbandits.reproduce.catalogue import paper_experiment
from fedbandits.reproduce.misranking import GAPS, SPREAD, misranking_gaps
from fedbandits.reproduce.part import Batch, Made, Part, Runs
from fedbandits.reproduce.regret_curves import FIGURES
from fedbandits.reproduce.scaling import REPLICATIONS, TABLED, TabledSchedule, game_of
from fedbandits.reproduce.texts import Row, fill, section_text, table_html, texts
from fedbandits.rules.arrays import FloatArray, IntArray
from fedbandits.rules.radii import PaperRadius
from fedbandits.simulation.tables import quantity
from fedbandits.theory import sampling
from fedbandits.theory.orders import ScheduleOrder, fed1_orders, fed2_orders, lai_robbins_slope

Rows: TypeAlias = list[dict[str, Any]]
"""A table as a list of rows, ready for JSON."""

FIGURE_4 = "f = 100, g = 2^p"
FIGURE_3 = "f = ⌈10 log T⌉"
"""The schedules of Corollaries 1 and 2, as figures 4 and 3 have them."""

HORIZON = 1_000_000
_COST = 1.0
_SEED = 2021
# Of fewer games a 95 % interval is too unsure to be held against a bound.
_FEWEST = 20
# Errors that M clients may make: one in so many.
_ONE_IN = (100, HORIZON)


def theory_batches() -> list[Batch]:
    """Return the schedules of Tables 2 and 3, with the constants 6."""
    variants = {(one.table, one.label): one.variant(PaperRadius()) for one in TABLED}
    return [Batch(variants, HORIZON, REPLICATIONS, _SEED, fewest=_FEWEST)]


def theory_tables(runs: Runs) -> dict[str, Rows]:
    """Return every table of the section on theory but `bounds_table`, which is about figures."""
    schedules = schedules_table(runs)
    orders = orders_table(schedules)
    return {"schedules": schedules, "clients": clients_table(), "orders": orders}


# Theorems 2 and 3 ---------------------------------------------------------------------------------


def bounds_table(made: Made) -> Rows:
    """Return a row for every variant: its bound by Theorem 2 or 3, and its simulated regret.

    Parameters
    ----------
    made : mapping
        What was reproduced, by the names of experiments; what else it has is left out.

    Raises
    ------
    RuntimeError
        If a simulated mean is not below its bound: the one or the other is wrong.
    """
    rows = []
    experiments = [part.key for parts in FIGURES.values() for part in parts if part.key in made]
    for name in experiments:
        promised = {found.variant.label: found for found in bounds_of(paper_experiment(name))}
        summary = made[name].table["summary"]
        for variant in summary["variants"]:
            row = {
                "experiment": name,
                "title": summary["title"],
                "replications": summary["spec"]["replications"],
                "variant": variant["label"],
                **_bound_columns(promised[variant["label"]]),
                **_simulated_columns(variant["regret"]["total"]),
            }
            check_below(row, f"{name}, {variant['label']}")
            rows.append(row)
    return rows


def _bound_columns(found: VariantBound) -> dict[str, Any]:
    """Return the terms of a bound, or the reason why there is none."""
    names = {name: name for name in ("theorem", "exploration", "communication", "failure")}
    terms = {**names, "bound": "total"}
    bound = {column: getattr(found.bound, name, None) for column, name in terms.items()}
    return {**bound, "reason": found.reason}


def _simulated_columns(regret: Mapping[str, float | None]) -> dict[str, Any]:
    """Return a mean with its 95 % interval; a single replication has none."""
    mean, stderr = regret["mean"], regret["stderr"]
    if mean is None:
        raise ValueError("no replication was simulated")
    reach = 0.0 if stderr is None else NORMAL_95 * stderr
    return {"mean": mean, "low": mean - reach, "high": mean + reach}


def check_below(row: Mapping[str, Any], name: str) -> None:
    """Refuse a simulated mean whose 95 % interval reaches above its bound.

    Theorems 2 and 3 bound the expected regret, so this would be a mistake of ours.

    Parameters
    ----------
    row : mapping
        With ``bound`` (None if no theorem holds), ``theorem``, ``mean`` and ``high``.
    name : str
        What the error calls it.

    Raises
    ------
    RuntimeError
        Naming the variant and the numbers.

    Examples
    --------
    >>> check_below({"bound": 10.0, "theorem": 2, "mean": 8.0, "high": 9.0}, "fig4, ours")
    >>> check_below({"bound": 10.0, "theorem": 2, "mean": 9.5, "high": 12.0}, "fig4, ours")
    Traceback (most recent call last):
        ...
    RuntimeError: fig4, ours: a simulated mean regret of 9.5 (95 % interval up to 12.0) is not below
    10.0, the bound of Theorem 2; the simulation or the bound is wrong
    """
    if row["bound"] is not None and not row["high"] <= row["bound"]:
        raise RuntimeError(
            f"{name}: a simulated mean regret of {row['mean']:,.1f} (95 % interval up to "
            f"{row['high']:,.1f}) is not below {row['bound']:,.1f}, the bound of Theorem "
            f"{row['theorem']}; the simulation or the bound is wrong"
        )


# Tables 2 and 3 -----------------------------------------------------------------------------------


def schedules_table(runs: Runs) -> Rows:
    r"""Return Tables 2 and 3, computed and simulated with the constants 6.

    A row has :math:`p_k` as Theorems 2 and 3 define it and as the table bounds it (of the arm with
    the smallest gap, and the least over all arms), what stands inside the table's O(·), the bound
    of the theorem, and the simulated regret.

    Raises
    ------
    RuntimeError
        As in `bounds_table`.
    """
    variants = [run.variant for run in runs.values()]
    bounds = bounds_of(Experiment(title="Tables 2 and 3", variants=variants, horizon=HORIZON))
    rows = []
    for schedule, found, run in zip(TABLED, bounds, runs.values(), strict=True):
        if found.bound is None:
            raise RuntimeError(f"Table {schedule.table}, {schedule.label}: {found.reason}")
        order = schedule_order(schedule)
        row = {
            "table": schedule.table,
            "schedule": schedule.label,
            "phases": _least_and_most(found.bound.phases),
            "phases_table": _least_and_most(order.phases),
            "order_exploration": order.exploration,
            "order_communication": order.communication,
            **_bound_columns(found),
            **_simulated_columns(quantity(run.games.total)),
            "phases_played": float(run.games.phases.mean()),
            "replications": int(run.games.winner.size),
        }
        check_below(row, f"Table {schedule.table}, {schedule.label}")
        rows.append(row)
    return rows


def _least_and_most(phases: IntArray) -> list[int]:
    return [int(phases.min()), int(phases.max())]


def schedule_order(schedule: TabledSchedule) -> ScheduleOrder:
    """Return the row of Table 2 or 3 for a schedule, on the game of its table.

    Examples
    --------
    >>> order = schedule_order(TABLED[0])
    >>> order.schedule, order.phases.max()
    ('2', np.int64(52595))
    """
    problem = game_of(schedule.table)
    if schedule.row is None:
        raise ValueError(f"Table {schedule.table} has no row for {schedule.label}")
    game: Any = {"noise": problem.noise_proxy, "horizon": HORIZON, "cost": _COST}
    game |= {"gaps": _gaps(problem), "pulls": schedule.kappa}
    if schedule.table == 2:
        rows = fed2_orders(spread=problem.spread_proxy, admissions=schedule.lam, **game)
    else:
        rows = fed1_orders(clients=problem.population or 1, **game)
    return rows[schedule.row]


def _gaps(problem: Problem) -> FloatArray:
    """Return Δ_k of the arms other than the best."""
    found = gaps(problem)
    return np.asarray(found[found > 0])


# Theorem 1 ----------------------------------------------------------------------------------------


def clients_table() -> Rows:
    r"""Return how many clients rank the arms correctly, by three ways of counting.

    By the corrected bound, :math:`M = \lceil 4\sigma_c^2\Delta^{-2}\log(K/\varepsilon)\rceil`; by
    the exact integral, the fewest with :math:`P_z \le \varepsilon`; and by Eqn. (5) as printed,
    with :math:`P_z` at that number.

    Examples
    --------
    >>> [row["corrected"] for row in clients_table()]
    [691, 1612, 2764, 6448, 28, 65]
    """
    games = [("figure 7", gap, SPREAD, misranking_gaps(gap)) for gap in GAPS]
    figure_4 = game_of(2)
    own = _gaps(figure_4)
    games.append(("figure 4", float(own.min()), figure_4.spread_proxy, own))
    rows: Rows = []
    for game, gap, spread, worse in games:
        for one_in in _ONE_IN:
            asked: Any = {"gap": gap, "spread": spread, "n_arms": worse.size + 1, "horizon": one_in}
            row: dict[str, Any] = {"game": game, "gap": gap, "spread": spread, "error": 1 / one_in}
            for way, clients in (
                ("corrected", sampling.clients_needed(**asked)),
                ("exact", sampling.clients_for_error(worse, spread, error=1 / one_in)),
                ("printed", sampling.clients_as_printed(**asked)),
            ):
                row[way] = clients
                row[f"{way}_error"] = float(sampling.misranking_probability(worse, spread, clients))
            rows.append({**row, "printed_times": row["printed_error"] * one_in})
    return rows


# Orders -------------------------------------------------------------------------------------------


def orders_table(schedules: Rows) -> Rows:
    """Return Corollaries 1 and 2 and the Lai-Robbins slope times log T, beside simulated regret.

    They are orders and limits: no bounds at a finite horizon.

    Parameters
    ----------
    schedules : list
        From `schedules_table`.
    """
    simulated = {(row["table"], row["schedule"]): row for row in schedules}
    figure_4, figure_3 = game_of(2), game_of(3)
    slope = lai_robbins_slope(figure_3.means, noise="gaussian", sigma=figure_3.noise_proxy)
    first, second = simulated[2, FIGURE_4], simulated[3, FIGURE_3]
    rows = [
        ("Corollary 1", first, first["order_exploration"] + first["order_communication"]),
        ("Corollary 2", second, second["order_exploration"]),
        ("Lai-Robbins", second, slope * math.log(HORIZON)),
    ]
    if not np.allclose(figure_4.means, figure_3.means):
        raise RuntimeError("figures 3 and 4 have the same global means, and these differ")
    return [
        {
            "statement": statement,
            "value": value,
            **{key: row[key] for key in ("table", "schedule", "mean", "low", "high")},
            "times": row["mean"] / value,
        }
        for statement, row, value in rows
    ]


# On the page --------------------------------------------------------------------------------------


def theory_values(tables: Mapping[str, Rows]) -> dict[str, object]:
    """Return what the text of the section has in braces.

    Parameters
    ----------
    tables : mapping
        From `theory_tables`, with its bounds.
    """
    played = {"horizon": HORIZON, "replications": tables["schedules"][0]["replications"]}
    schedules = {
        f"table_{number}": [row for row in tables["schedules"] if row["table"] == number]
        for number in (2, 3)
    }
    orders = [
        {**row, "said": texts("tables")["statements"][row["statement"]]} for row in tables["orders"]
    ]
    return {
        **played,
        "bounds": bounds_html(tables["bounds"]),
        **{name: table_html("schedules", rows) for name, rows in schedules.items()},
        "schedules_caption": fill(section_text("theory-schedules"), played),
        "clients": table_html("theorem-1", tables["clients"]),
        "orders": table_html("orders", orders),
    }


def bounds_html(rows: Rows) -> str:
    """Return every variant with its bound, or the reason why it has none."""
    if not rows:
        return section_text("theory-no-bounds")
    groups: dict[str, list[Row]] = {}
    covered = []
    for row in rows:
        title = f"{escape(row['title'])} <small>{row['replications']:,} replications</small>"
        said = {"by": None, "why": f"none: {row['reason']}", "part": None}
        if row["bound"] is not None:
            covered.append(row["mean"] / row["bound"])
            said = {"by": f"Theorem {row['theorem']}", "why": "", "part": covered[-1]}
        groups.setdefault(title, []).append({**row, **said})
    nearest = max(covered, default=None)
    values = {
        "variants": len(rows),
        "covered": len(covered),
        "table": table_html("bounds", groups),
        "nearest": fill(section_text("theory-nearest"), {"nearest": nearest}) if covered else "",
    }
    return fill(section_text("theory-bounds"), values)


PART = Part(
    key="theory",
    heading="Theory: what the theorems promise for these games",
    cost=(3.0, 8.0),
    batches=theory_batches,
    table=theory_tables,
    beside=lambda made: {"bounds": bounds_table(made)},
    show=theory_values,
)
