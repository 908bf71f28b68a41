"""The problems: what is played, by whom, and what is true of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from fedbandits.experiments.availability import availability_figure, map_names
from fedbandits.experiments.results import Results
from fedbandits.problems.problem import Map, Problem, best_arm, gap, gaps
from fedbandits.report.markup import bold, definitions, picture
from fedbandits.report.style import image
from fedbandits.report.wording import listed
from fedbandits.simulation import Simulation


@dataclass(frozen=True, slots=True)
class ProblemGroup:
    """A problem, and the simulations of the variants that play it.

    Totals of different problems do not compare.
    """

    key: str
    problem: Problem
    simulations: list[Simulation]


def problem_groups(results: Results, spec: Mapping[str, Any]) -> list[ProblemGroup]:
    """Return the different problems under their keys in the spec."""
    groups: dict[str, ProblemGroup] = {}
    for simulation, described in zip(results.simulations, spec["variants"], strict=True):
        key = described.get("problem", "problem")
        group = groups.setdefault(key, ProblemGroup(key, simulation.variant.problem, []))
        group.simulations.append(simulation)
    return list(groups.values())


def problem_sections(games: Sequence[ProblemGroup], drawn: Mapping[str, bytes]) -> str:
    """Return what is true of each problem; maps that were not drawn already are drawn now."""
    parts: list[str] = []
    map_of = map_names(game.problem for game in games)
    shown: dict[str, ProblemGroup] = {}
    for game in games:
        problem = game.problem
        if len(games) > 1:
            played = listed(bold(one.variant.label) for one in game.simulations)
            parts.append(f"<h3>{escape(game.key)}</h3>\n<p>Played by {played}.</p>")
        parts += [definitions(_facts(problem)), _means_list(problem)]
        if problem.map is not None:
            name = map_of[problem.map.place]
            first = shown.setdefault(name, game)
            parts.append(
                _map(problem, problem.map, drawn.get(name))
                if first is game
                else f"<p>The map is that of “{escape(first.key)}”, above.</p>"
            )
    return "\n".join(parts)


def _facts(problem: Problem) -> list[tuple[str, str]]:
    """Return what is true of a problem, as words and their meaning."""
    best, above = best_arm(problem), gap(problem)
    ahead = "from the best mean to the next" if above > 0 else "several arms are the best"
    population = (
        "unlimited" if problem.population is None else f"{problem.population:,} clients exist"
    )
    facts = {
        "model": problem.model,
        "arms": f"{problem.means.size:,}, counted from 0",
        "best arm": f"arm {best} with mean {problem.means[best]:.4g}",
        "goal": "the highest mean" if problem.goal == "max" else "the lowest mean",
        "gap": f"{above:.4g}: {ahead}",
        "noise": f"{problem.noise.in_words()}: one observation around the client's own mean",
        "spread": "clients' means around the global ones",
        "population": population,
        "what rules are told": f"noise σ = {problem.noise_proxy:.4g}, spread σ_c ="
        f" {problem.spread_proxy:.4g}, unless a variant says otherwise",
        **problem.facts(),
    }
    return [
        (escape(word), escape(meaning, quote=False).replace("σ_c", "σ<sub>c</sub>"))
        for word, meaning in facts.items()
    ]


def _means_list(problem: Problem) -> str:
    worse = gaps(problem)
    items = "".join(
        f"<li{'' if worse[arm] else ' class=best'}><span>arm {arm}</span> {mean:.4g}</li>"
        for arm, mean in enumerate(problem.means)
    )
    return f'<p>True means over all clients, the best in bold:</p>\n<ul class="arms">{items}</ul>'


def _map(problem: Problem, shown: Map, png: bytes | None) -> str:
    at_station = shown.availability([shown.base_station])[:, 0]
    best, heard = best_arm(problem), int(at_station.argmax())
    caption = (
        "How likely each channel is to be free, from place to place. "
        f"Over the whole area channel {best} is free most often"
    )
    caption += (
        ", and at the base station as well."
        if best == heard
        else f"; at the base station it is channel {heard}, so listening there alone misleads."
    )
    alt = f"Maps of the availability of {len(at_station)} channels."
    return picture(png or image(availability_figure(problem)), alt=alt, caption=caption)
