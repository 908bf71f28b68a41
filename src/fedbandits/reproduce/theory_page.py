"""The section on theory: what the theorems promise, in words and tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any

from fedbandits.experiments.report import markup
from fedbandits.reproduce.catalogue import THEORY
from fedbandits.reproduce.part import Part
from fedbandits.reproduce.theory_tables import HORIZON, Rows, theory_batches, theory_tables

_SYMBOLS = (
    (
        "K, T, C",
        "How many arms there are; how many slots a game lasts; what a round of communication costs"
        " each client.",
    ),
    (
        "Δ<sub>k</sub>, Δ",
        "The gap of arm k: how much lower its mean is than the best arm's; the smallest gap, that"
        " of the arm which is the hardest to tell from the best.",
    ),
    (
        "σ, σ<sub>c</sub>",
        "The spread of one observation around a client's mean; the spread of clients' means around"
        " the global mean.",
    ),
    (
        "f(p), g(p), M(p)",
        "In phase p each client pulls each arm still in question f(p) times; g(p) clients join at"
        " its start; M(p) are in then. κ and λ are the constants of a schedule.",
    ),
    (
        "p<sub>k</sub>",
        "By the end of this phase arm k is dropped, with high probability: the first phase at which"
        " four times the radius is no more than Δ<sub>k</sub>.",
    ),
    ("log", "The natural logarithm; log T is 13.8 for a million slots."),
)
_TERMS = {
    "exploration": "exploration",
    "communication": "communication",
    "failure": "failure",
    "bound": "total",
}
"""The terms of a bound, and what their columns are called."""


def theory_section(tables: Mapping[str, Rows]) -> str:
    """Return the section as HTML.

    Parameters
    ----------
    tables : mapping
        From `fedbandits.reproduce.theory_tables.theory_tables`.
    """
    parts = [
        "<p>The theorems hold for the constants 6 and for their own model, and a bound is about the"
        " expected regret. What is computed here has the slips of the text corrected; what stands"
        " beside it was simulated.</p>",
        markup.definitions(_SYMBOLS),
        "<h3>Theorems 2 and 3: bounds on regret</h3>",
        bounds_html(tables["bounds"]),
        "<h3>Table 2, computed: Fed2-UCB on figure 4's game</h3>",
        schedules_html(tables["schedules"], 2),
        "<h3>Table 3, computed: Fed1-UCB on figure 3's game with 5 clients</h3>",
        schedules_html(tables["schedules"], 3),
        "<h3>Theorem 1: how many clients are enough</h3>",
        clients_html(tables["clients"]),
        "<h3>Corollaries 1 and 2, and the Lai-Robbins slope</h3>",
        orders_html(tables["orders"]),
    ]
    return "\n".join(parts)


def bounds_html(rows: Rows) -> str:
    """Return every variant with its bound, or the reason why it has none."""
    if not rows:
        return (
            "<p>No figure was reproduced along with this page, so there is no variant to compare."
            " <code>fedbandits reproduce</code> makes all of them.</p>"
        )
    covered = [row for row in rows if row["bound"] is not None]
    said = f"Of {len(rows)} variants {len(covered)} meet the conditions of a theorem"
    if covered:
        nearest = max(row["mean"] / row["bound"] for row in covered)
        said += (
            ", and the simulated mean of each lies below its bound, with its whole 95&nbsp;%"
            f" interval: the nearest is at {_percent(nearest)} of it. A mean above would have"
            " stopped the reproduction as a mistake of ours"
        )
    groups = {
        f"{escape(made[0]['title'])} <small>{made[0]['replications']:,} replications</small>": [
            _bounds_row(row) for row in made
        ]
        for made in (list(group) for _, group in groupby(rows, key=lambda row: row["experiment"]))
    }
    return _table(
        "Bounds and simulated regret",
        (
            *("variant", "by", *_TERMS.values()),
            "mean <small>95 % interval</small>",
            "of the bound",
        ),
        groups,
        intro=f"<p>{said}. The others have no bound, for the reason given.</p>",
        groups=(("", 1), ("bound on expected regret", 5), ("simulated regret", 2)),
        caption=(
            "Regret at the horizon, in units of reward, added up over all clients. Exploration: the"
            " gaps of the arms, paid until phase p<sub>k</sub>. Communication: C for every client"
            " in every phase until then. Failure: what the improbable case adds. In Theorem 2 it is"
            " 4β(1+C)K with β the most clients that can be in, divided by T; with g(p) = 2^p that"
            " number is only limited by the simulator's cap of a billion clients, which makes this"
            " term large, and at T = 10,000 the largest. In Theorem 3 it is 2(1+C)MK/T, as the"
            " proof ends; the statement has no 1/T."
        ),
    )


def _bounds_row(row: Mapping[str, Any]) -> str:
    if row["bound"] is None:
        cells = f'<td colspan="5" class="words">none: {escape(row["reason"])}</td>'
        part = "–"
    else:
        cells = markup.cells(
            (f"Theorem {row['theorem']}", *(_number(row[term]) for term in _TERMS))
        )
        part = _percent(row["mean"] / row["bound"])
    simulated = markup.cells((_interval(row), part))
    return f'<tr><th scope="row">{escape(row["variant"])}</th>{cells}{simulated}</tr>'


def schedules_html(rows: Rows, number: int) -> str:
    """Return Table 2 or 3: phases, orders, the bound and the simulated regret of its schedules."""
    chosen = [row for row in rows if row["table"] == number]
    return _table(
        f"Table {number}",
        (
            "schedule",
            *(f"{by} <small>easiest arm</small>" for by in ("theorem", "table")),
            *("exploration", "communication", *_TERMS.values()),
            *("regret <small>95 % interval</small>", "phases"),
        ),
        [
            markup.row(
                escape(row["schedule"]),
                *(_phases(row[key]) for key in ("phases", "phases_table")),
                *(_number(row[key]) for key in ("order_exploration", "order_communication")),
                *(_number(row[term]) for term in _TERMS),
                _interval(row),
                f"{row['phases_played']:,.0f}",
            )
            for row in chosen
        ],
        intro=f"<p>{_SCHEDULES_INTRO[number]}</p>",
        groups=(
            *(("", 1), ("phases p<sub>k</sub> needed", 2), ("inside the O(·)", 2)),
            *((f"bound of Theorem {number}", 4), ("simulated", 2)),
        ),
        caption=(
            f"T = {HORIZON:,} slots, C = 1, constants 6,"
            f" {chosen[0]['replications']:,} replications. p<sub>k</sub> is that of the hardest"
            " arm, and below it that of the easiest one: as the theorem defines it, and by the"
            " closed form of the table, which is an upper bound of it. What stands inside the O(·)"
            " has no constant before it (the proofs have 96), so it is compared between schedules,"
            " never with a regret."
        ),
    )


_SCHEDULES_INTRO = {
    2: (
        "How the admissions schedule g(p) changes the regret of Fed2-UCB, for f(p) = κ pulls. The"
        " logarithm in the table's p<sub>k</sub> of the doubling schedules is base 2, and the"
        " second row has the 1/λ in its communication term that the printed one lacks. Where g(p)"
        " does not grow, the table's p<sub>k</sub> is far above the theorem's, because it counts"
        " every client with the pulls of its first phase alone. The row with f = 100 is figure 4's"
        " own schedule."
    ),
    3: (
        "How the pulls schedule f(p) changes the regret of Fed1-UCB. Exploration is the same for"
        " all in the table, and communication is what they differ in; doubling pays for its few"
        " rounds with pulls beyond what was needed, which the O(·) does not show. The logarithm in"
        " p<sub>k</sub> of the doubling schedules is base 2. Simulated regret is about a quarter of"
        " the bound: the proof waits until four radii fit into the gap, and a game drops the arm as"
        " soon as two do, on average, for which a quarter of the pulls is enough."
    ),
}


def clients_html(rows: Rows) -> str:
    """Return the client numbers of Theorem 1, corrected, exact and as printed."""
    shown = [
        markup.row(
            f"{escape(row['game'])}, Δ = {row['gap']:g}, σ<sub>c</sub> = {row['spread']:g}",
            _probability(row["error"]),
            *(
                cell
                for way in ("corrected", "exact", "printed")
                for cell in (f"{row[way]:,}", _probability(row[f"{way}_error"]))
            ),
            f"{row['printed_error'] / row['error']:,.0f} ε",
        )
        for row in rows
    ]
    return _table(
        "Theorem 1",
        ("game", "error ε allowed", *("clients", "true error") * 3, "that is"),
        shown,
        intro=(
            "<p>M clients misrank the arms when the best arm is not the best on average over them,"
            " however often they pull. Theorem 1 bounds that probability by a sum of"
            " exp(−MΔ<sub>k</sub>²/σ<sub>c</sub>²); its proof has an 8 in the denominator which"
            " the O(·) swallows, and without it the form is no bound. Valid for independent arms is"
            " the sum of exp(−MΔ<sub>k</sub>²/(4σ<sub>c</sub>²)), so that"
            " M = 4σ<sub>c</sub>²Δ⁻² log(K/ε) clients keep the error below ε. What is printed in"
            " Eqn. (5), taken without a constant, is a quarter of that, and too few.</p>"
        ),
        groups=(
            *(("", 1), ("", 1), ("by the corrected bound", 2)),
            *(("by the exact integral", 2), ("as printed", 3)),
        ),
        caption=(
            "Figure 7's game has figure 4's arms, with the best one Δ above the second, and its"
            " σ<sub>c</sub> = 0.1; 0.000001 is 1/T. The true error is the exact integral for"
            " Gaussian spread; the exact number is the fewest clients that keep it below ε."
        ),
    )


def orders_html(rows: Rows) -> str:
    """Return the corollaries and the Lai-Robbins slope, labelled as what they are."""
    return _table(
        "Orders",
        (
            *("statement", markup.Words("formula"), "value"),
            *("simulated regret <small>95 % interval</small>", "simulated ÷ value"),
        ),
        [
            markup.row(
                _STATEMENTS[row["statement"]][0],
                markup.Words(_STATEMENTS[row["statement"]][1]),
                _number(row["value"]),
                _interval(row),
                f"{row['mean'] / row['value']:,.1f}",
            )
            for row in rows
        ],
        intro=(
            "<p><b>Asymptotic: no bound at a finite horizon.</b> A corollary says how regret grows,"
            " up to a constant that it does not give. The Lai-Robbins slope is a lower bound in the"
            " limit: the regret of a consistent single player, divided by log T, cannot stay below"
            " it as T grows, and most such players stay above it for good. A regret below it at"
            " some T would contradict nothing.</p>"
        ),
        caption=(
            f"T = {HORIZON:,} slots, C = 1; simulated with the constants 6. The Lai-Robbins slope"
            " is that of the arms of figures 3 and 4 (they are the same), for Gaussian rewards,"
            " where kl(μ<sub>k</sub>, μ<sub>*</sub>) = Δ<sub>k</sub>²/(2σ²)."
        ),
    )


_STATEMENTS = {
    "Corollary 1": (
        "Corollary 1 <small>Fed2-UCB, f = κ = 100, g = 2^p; figure 4's game</small>",
        "Σ κ(σ/√κ + σ<sub>c</sub>)² log T / Δ<sub>k</sub> + C (σ/√κ + σ<sub>c</sub>)² log T / Δ²",
    ),
    "Corollary 2": (
        "Corollary 2 <small>Fed1-UCB, f = ⌈10 log T⌉; figure 3's game, 5 clients</small>",
        "Σ σ² log T / Δ<sub>k</sub>",
    ),
    "Lai-Robbins": (
        "Lai-Robbins slope × log T <small>Eqn. (2), a single player; beside it Fed1-UCB as"
        " above</small>",
        "log T Σ Δ<sub>k</sub> / kl(μ<sub>k</sub>, μ<sub>*</sub>)",
    ),
}


def _table(
    name: str,
    headings: Sequence[str],
    rows: Iterable[str] | Mapping[str, Iterable[str]],
    *,
    intro: str,
    caption: str,
    groups: Sequence[tuple[str, int]] = (),
) -> str:
    """Return a table with what is said before and below it."""
    shown = markup.table(name, headings, rows, groups=groups)
    return f"{intro}\n<figure>\n{shown}\n<figcaption>{caption}</figcaption>\n</figure>"


def _number(value: float) -> str:
    """Return a quantity of regret with separators; what is below 10 with two digits.

    Examples
    --------
    >>> _number(4_068_536.2), _number(5.6), _number(0.00002), _number(0.0)
    ('4,068,536', '5.6', '0.00002', '0')
    """
    return f"{value:,.0f}" if value >= 10 or value == 0 else _two_digits(value)


def _probability(value: float) -> str:
    """Return a probability as a decimal, or as a power of ten where that is unreadable.

    Examples
    --------
    >>> _probability(0.01), _probability(0.0402242), _probability(1e-6), _probability(6.8e-9)
    ('0.01', '0.04', '0.000001', '7 × 10⁻⁹')
    """
    if value >= 0.95e-6:
        return _two_digits(value)
    mantissa, exponent = f"{value:.0e}".split("e")
    return f"{mantissa} × 10{str(int(exponent)).translate(_SUPERSCRIPTS)}"


def _two_digits(value: float) -> str:
    """Return a positive number below 10 to two significant digits, without trailing zeros."""
    return f"{value:.{1 - math.floor(math.log10(value))}f}".rstrip("0").rstrip(".")


_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _percent(part: float) -> str:
    return f"{100 * part:.0f}&nbsp;%" if part >= 0.095 else f"{100 * part:.1f}&nbsp;%"


def _phases(least_and_most: Sequence[int]) -> str:
    least, most = least_and_most
    return f"{most:,} <small>{least:,}</small>"


def _interval(row: Mapping[str, Any]) -> str:
    return f"{row['mean']:,.0f} <small>{row['low']:,.0f} to {row['high']:,.0f}</small>"


PART = Part(
    key=THEORY,
    heading="Theory: what the theorems promise for these games",
    batches=theory_batches,
    table=theory_tables,
    section=lambda tables, _: theory_section(tables),
)
