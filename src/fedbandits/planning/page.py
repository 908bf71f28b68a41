"""The page of a plan, and the folder it is in."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

from fedbandits.experiments.protection import protection_words
from fedbandits.experiments.report.glossary import glossary
from fedbandits.planning.charts import (
    enough_clients,
    gap_chart,
    honesty_chart,
    map_chart,
    planned_pulls,
)
from fedbandits.planning.detection import POWER
from fedbandits.planning.honesty import honesty_words, shown_prices
from fedbandits.planning.plan import Plan
from fedbandits.planning.text import (
    assumptions,
    columns,
    guarantee,
    in_short,
    shown_plan,
    trial_keys,
)
from fedbandits.report.markup import definitions, items
from fedbandits.report.page import html_page, live_chart
from fedbandits.report.still import still

_MAP_CAPTION = """Expected regret for values of f and g around the best (star). Brighter is less.
Grey: undecided, or too many phases."""

_HONESTY_CAPTION = """The fewest clients, and the regret of the best schedule, by the share that may
lie; nobody does. Bars are 95&nbsp;% intervals. Right of the vertical line no number of clients
is sure to be enough."""

_WORDS = ("arms, clients, slots", "phase", "regret", "exploration, communication")


def write_plan(plan: Plan, folder: Path) -> None:
    """Write plan.json, the pictures and report.html."""
    text = json.dumps(plan.as_dict(), indent=2, allow_nan=False, ensure_ascii=False)
    (folder / "plan.json").write_text(text + "\n", encoding="utf-8")
    charts = (map_chart(plan), gap_chart(plan), honesty_chart(plan))
    images = {chart.name: still(chart) for chart in charts if chart}
    for name, content in images.items():
        (folder / f"{name}.png").write_bytes(content)
    (folder / "report.html").write_text(plan_html(plan, images), encoding="utf-8")


def plan_html(plan: Plan, images: dict[str, bytes]) -> str:
    """Return the plan as one page that needs no network.

    Parameters
    ----------
    plan : Plan
        What to show.
    images : dict
        The still pictures by the names of their charts.
    """
    sections = [("In short", f"<p>{escape(in_short(plan))}</p>")]
    if plan.suggested is not None:
        said = "<p>This variant of an experiment file gives the numbers below.</p>"
        code = f"<pre><code>{escape(plan.toml())}</code></pre>"
        sections.append(("To run it", f"{said}\n{code}{_for_a_trial(plan)}"))
    if columns(plan):
        sections.append(("What to expect", _expected(plan)))
    sections.append(("In detail", "\n".join(f"<p>{escape(line)}</p>" for line in plan.answer())))
    if plan.honesty:
        sections.append(("What honesty is worth", _honesty(plan, images)))
    found, best = map_chart(plan), plan.searched.best_on_map
    if found is not None and best is not None:
        least = f"{best.pulls:,} pulls and {best.admissions:,} new clients"
        alt = f"Map of expected regret over pulls and admissions; the least is at {least}."
        image = images[found.name]
        shown = live_chart("map", found, alt=alt, caption=_MAP_CAPTION, image=image)
        sections.append(("Regret over f and g", shown))
    gaps, caption = gap_chart(plan), _gap_caption(plan)
    shown = live_chart("gap", gaps, alt=_gap_alt(plan), caption=caption, image=images[gaps.name])
    sections += [
        ("The smallest gap you can detect", shown),
        (
            "What this rests on",
            f"<p>The suggested rule {escape(guarantee(plan).claim)}, if</p>\n"
            f"{items(map(escape, assumptions(plan)))}\n"
            "<p>The numbers of this page come from simulated games with normal noise and "
            f"spread; the suggested schedule was simulated again after it was chosen from "
            f"{len(plan.searched.tried):,}. Seed {plan.seed}.</p>",
        ),
        ("The question", definitions(_asked(plan))),
        ("How to read this", definitions(glossary(*_WORDS))),
    ]
    return html_page(
        title=f"A plan for {plan.question.n_arms} arms and a gap of {plan.question.gap:.4g}",
        byline="Planned with fedbandits, before anything is run",
        sections=sections,
    )


def _for_a_trial(plan: Plan) -> str:
    """Return the keys of a trial that adjusts outcomes; nothing if there is no covariate."""
    if plan.correlation is None:
        return ""
    said = "<p>A trial, which adjusts outcomes by the covariate, has these keys besides.</p>"
    return f"\n{said}\n<pre><code>{escape(trial_keys(plan))}</code></pre>"


def _expected(plan: Plan) -> str:
    shown = shown_plan(plan)
    # So many columns fit beside each other only if what is in brackets stands below.
    gap = "<br>(" if len(shown.headings) > 4 else " ("
    said = "<p>Means, and in brackets where nine of ten games end.</p>"
    return f"{said}\n{shown.html().replace(' (', gap)}"


def _honesty(plan: Plan, images: dict[str, bytes]) -> str:
    parts = [f"<p>{escape(line)}</p>" for line in honesty_words(plan.question)]
    parts.append(shown_prices(plan.honesty).html())
    chart = honesty_chart(plan)
    if chart is not None:
        alt = "Fewest clients by who may lie: " + "; ".join(
            f"{one.words}, {one.clients:,}" for one in plan.honesty if one.clients is not None
        )
        image = images[chart.name]
        caption = _HONESTY_CAPTION
        parts.append(live_chart("honesty", chart, alt=alt, caption=caption, image=image))
    return "\n".join(parts)


def _gap_caption(plan: Plan) -> str:
    dot = "The dot is where the solid curve for an unlimited population meets the wanted gap."
    meets = "No curve meets the wanted gap." if enough_clients(plan) is None else dot
    others = "" if plan.question.least_favourable else " The other gaps are in proportion to it."
    return (
        f"The smallest gap that is found with a probability of {100 * POWER:.0f}&nbsp;% in one"
        " look, by number of clients. Solid: each client pulls each arm"
        f" {planned_pulls(plan):,.0f} times. Dotted: any number of times. {meets} For an unlimited"
        " population only more clients help in the end; in a finite one nothing is left open once"
        f" all take part.{others}"
    )


def _gap_alt(plan: Plan) -> str:
    found, n = plan.feasibility, plan.question.population
    said = "Curves of the smallest detectable gap against clients"
    if found.clients_unlimited is not None:
        clients = f"{found.clients_unlimited:,} clients of an unlimited population"
        said += f"; a gap of {plan.question.gap:.4g} takes about {clients}"
    if n is None or found.clients_finite is None:
        return f"{said}."
    return f"{said}, or {found.clients_finite:,} of {n:,}."


def _asked(plan: Plan) -> list[tuple[str, str]]:
    """Return what was asked; what the pilot data say stands above."""
    facts = plan.question.as_dict() | {"least_favourable": None}
    facts["covariate_correlation"] = plan.correlation
    if plan.question.least_favourable:
        facts["means"] = "the best, and all others exactly one gap below it"
    if plan.question.privacy is not None:
        facts["privacy"] = protection_words(plan.question.privacy)
    return [
        (escape(word.replace("_", " ")), escape(_fact(value)))
        for word, value in facts.items()
        if value is not None
    ]


def _fact(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_fact, value))
    return value if isinstance(value, str) else f"{value:,}" if value > 999 else f"{value:.4g}"
