"""The problems: what is played, by whom, and what is true of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from fedbandits.experiments.figures import availability_figure, image, map_names
from fedbandits.experiments.report.markup import bold_label, data_uri, definitions
from fedbandits.experiments.report.problem_groups import ProblemGroup
from fedbandits.experiments.wording import listed
from fedbandits.problems.problem import Map, Problem, best_arm, gap, gaps


def problem_sections(games: Sequence[ProblemGroup], drawn: Mapping[str, bytes]) -> str:
    """Return what is true of each problem; maps that were not drawn already are drawn now."""
    parts: list[str] = []
    map_of = map_names(game.problem for game in games)
    shown: dict[str, ProblemGroup] = {}
    for game in games:
        problem = game.problem
        if len(games) > 1:
            played = listed(map(bold_label, game.simulations))
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
    png = png or image(availability_figure(problem))
    return f"""<figure>
<img src="{data_uri(png)}" alt="Maps of the availability of {len(at_station)} channels.">
<figcaption>{caption}</figcaption>
</figure>"""
