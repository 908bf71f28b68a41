"""The problems: what is played, by whom, and what is true of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from fedbandits.experiments.figures import availability_figure, image, map_names
from fedbandits.experiments.report.games import Game
from fedbandits.experiments.report.markup import bold_label, data_uri, definitions
from fedbandits.experiments.wording import listed
from fedbandits.problems.approximate import Approximate
from fedbandits.problems.cognitive_radio import CognitiveRadio
from fedbandits.problems.exact import Exact
from fedbandits.problems.laws import Law
from fedbandits.problems.problem import Problem, best_arm, gap, gaps
from fedbandits.rules.arrays import FloatArray

_MODELS = {
    Approximate.model: "approximate: clients are drawn at random around the global means",
    Exact.model: "exact: the clients are given, and the global means are their averages",
    CognitiveRadio.model: "cognitive radio: arms are channels, clients are users who stand"
    " somewhere in the area, and a mean is how often a channel is free",
}


def problem_sections(games: Sequence[Game], drawn: Mapping[str, bytes]) -> str:
    """Return what is true of each problem; maps that were not drawn already are drawn now."""
    parts: list[str] = []
    map_of = map_names(game.problem for game in games)
    shown: dict[str, Game] = {}
    for game in games:
        problem = game.problem
        if len(games) > 1:
            played = listed(map(bold_label, game.simulations))
            parts.append(f"<h3>{escape(game.key)}</h3>\n<p>Played by {played}.</p>")
        parts += [definitions(_facts(problem)), _means_list(problem)]
        if isinstance(problem, CognitiveRadio):
            name = map_of[problem]
            first = shown.setdefault(name, game)
            parts.append(
                _map(problem, drawn.get(name))
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
    facts = [
        ("model", escape(_MODELS.get(problem.model, problem.model))),
        ("arms", f"{problem.means.size:,}, counted from 0"),
        ("best arm", f"arm {best} with mean {problem.means[best]:.4g}"),
        ("goal", "the highest mean" if problem.goal == "max" else "the lowest mean"),
        ("gap", f"{above:.4g}: {ahead}"),
        ("noise", f"{_law(problem.noise)}: one observation around the client's own mean"),
        ("spread", _spread(problem)),
        ("population", population),
        (
            "what rules are told",
            f"noise σ = {problem.noise_proxy:.4g}, spread σ<sub>c</sub> ="
            f" {problem.spread_proxy:.4g}, unless a variant says otherwise",
        ),
    ]
    if isinstance(problem, CognitiveRadio):
        (width, height), (east, north) = problem.area, problem.base_station
        everywhere = "users, who stand anywhere in the area"
        facts += [
            ("area", f"{width:g} km × {height:g} km, base station at ({east:g}, {north:g})"),
            (
                "who listens",
                everywhere if problem.listener == "users" else "the base station alone",
            ),
        ]
    return facts


def _law(law: Law, symbol: str = "σ") -> str:
    sigma = getattr(law, "sigma", None)
    return escape(law.law) + (f", {symbol} = {sigma:.4g}" if sigma is not None else "")


def _spread(problem: Problem) -> str:
    """Return how the clients' means scatter around the global ones."""
    match problem:
        case Approximate():
            shared = (
                f", and an offset of the client that all its arms share, σ = {problem.offset:.4g}"
                if problem.offset
                else ""
            )
            law = _law(problem.spread, "σ<sub>c</sub>")
            return f"{law}: clients' means around the global ones{shared}"
        case Exact():
            return f"as given; {_deviations(problem.table.std(axis=0))} over the clients"
        case CognitiveRadio():
            return f"by place; {_deviations(problem.spread_deviation())} over the area"
    return "clients' means around the global ones"


def _deviations(values: FloatArray) -> str:
    """Return the standard deviations of all arms in a few words."""
    low, high = f"{values.min():.3g}", f"{values.max():.3g}"
    return f"standard deviation {low if low == high else f'{low} to {high}, depending on the arm,'}"


def _means_list(problem: Problem) -> str:
    worse = gaps(problem)
    items = "".join(
        f"<li{'' if worse[arm] else ' class=best'}><span>arm {arm}</span> {mean:.4g}</li>"
        for arm, mean in enumerate(problem.means)
    )
    return f'<p>True means over all clients, the best in bold:</p>\n<ul class="arms">{items}</ul>'


def _map(problem: CognitiveRadio, png: bytes | None) -> str:
    at_station = problem.availability([problem.base_station])[:, 0]
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
