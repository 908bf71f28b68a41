"""The page: results that someone who has not read the paper can read, in one file, offline."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from plotly.offline import get_plotlyjs

from fedbandits.experiments.figures import (
    ColourOf,
    availability_figure,
    colours,
    image,
    regret_figure,
    regret_page_figure,
)
from fedbandits.experiments.results import Results
from fedbandits.experiments.tables import chose_best, quantity
from fedbandits.problems.approximate import Approximate
from fedbandits.problems.cognitive_radio import CognitiveRadio
from fedbandits.problems.exact import Exact
from fedbandits.problems.laws import Law
from fedbandits.problems.problem import Problem, best_arm, gap
from fedbandits.rules.arrays import FloatArray
from fedbandits.simulation.fidelities import Fidelity
from fedbandits.simulation.simulator import Simulation

CLEARLY = 2.0
"""Standard errors by which two variants differ before the page says that they do."""

_FEW = 10
# Sums that are equal on paper differ by less than this part of them in a computer.
_ROUNDING = 1e-9


def report_html(results: Results, *, images: Mapping[str, bytes] | None = None) -> str:
    """Return the results as one page that needs no network.

    Parameters
    ----------
    results : Results
        What to show.
    images : mapping of str to bytes, optional
        PNG files that were drawn already and need not be drawn again: ``regret.png``, and
        ``map.png``, ``map-2.png``, … for the different cognitive-radio problems.

    Examples
    --------
    >>> from fedbandits import Approximate, Experiment, Fed2Ucb, Gaussian, Variant
    >>> game = Approximate(means=[0.5, 0.9], noise=Gaussian(0.5), spread=Gaussian(0.1))
    >>> variant = Variant(label="ours", problem=game, algorithm=Fed2Ucb(pulls=9, admissions="2^p"))
    >>> demo = Experiment(title="demo", variants=[variant], horizon=10_000, replications=5)
    >>> page = report_html(demo.run())
    >>> page[:15], "<h1>demo</h1>" in page
    ('<!DOCTYPE html>', True)
    """
    drawn = {} if images is None else images
    summary, curves = results.summary(), results.curves()
    title, variants = summary["title"], summary["variants"]
    colour_of = colours([v["label"] for v in variants], [v["algorithm"] for v in variants])
    static = drawn.get("regret.png") or image(regret_figure(curves, title, colour_of=colour_of))
    interactive = regret_page_figure(curves, colour_of=colour_of)
    games = _games(results, summary["spec"])
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
<p class="byline">{_byline(results)}</p>
</header>
<main>
<section>
<h2>In short</h2>
{_opening(games, results.experiment.replications)}
</section>
<section>
<h2>Regret over time</h2>
<figure id="regret">
<div id="regret-live"></div>
<img src="{_data_uri(static)}" alt="{escape(_regret_alt(variants))}">
<figcaption>{_REGRET_CAPTION}
<noscript>Scripts are off, so this is a still image.</noscript></figcaption>
</figure>
</section>
<section>
<h2>Results</h2>
{_results_table(variants, colour_of)}
</section>
<section>
<h2>How to read this</h2>
{_definitions(_WORDS)}
</section>
<section>
<h2>{"The problem" if len(games) == 1 else "The problems"}</h2>
{_problem_sections(games, drawn)}
</section>
<section>
<h2>To run it again</h2>
<p>Seed {summary["seed"]}; {_versions(summary["versions"])}. The same seed and versions give the
same numbers.</p>
<details>
<summary>The whole experiment, as JSON</summary>
<pre id="spec">{escape(_spec_text(summary["spec"]))}</pre>
</details>
</section>
</main>
<script>{get_plotlyjs()}</script>
<script type="application/json" id="regret-data">{_json_in_script(interactive)}</script>
<script>{_SCRIPT}</script>
</body>
</html>
"""


def _byline(results: Results) -> str:
    experiment = results.experiment
    n_variants = len(results.simulations)
    return (
        f"{n_variants} {'variant' if n_variants == 1 else 'variants'}, simulated with fedbandits:"
        f" {_replications(experiment.replications)} of {experiment.horizon:,} slots each"
    )


def _replications(n: int) -> str:
    return "one replication" if n == 1 else f"{n:,} replications"


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{escape(name)} {escape(version)}" for name, version in versions.items())


def _data_uri(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"


def _json_in_script(value: Any) -> str:
    r"""Return JSON that cannot end the script element it stands in.

    Examples
    --------
    >>> print(_json_in_script("</script>"))
    "\u003c/script>"
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _spec_text(value: Any, indent: str = "") -> str:
    """Return JSON in lines: what is short, and numbers, in one line.

    Examples
    --------
    >>> print(_spec_text({"means": [0.5] * 3, "noise": {"law": "gaussian", "sigma": 0.5}}))
    {"means": [0.5, 0.5, 0.5], "noise": {"law": "gaussian", "sigma": 0.5}}
    """
    text = json.dumps(value, ensure_ascii=False)
    nested = isinstance(value, dict | list) and any(
        isinstance(part, dict | list | str)
        for part in (value.values() if isinstance(value, dict) else value)
    )
    if not nested or len(indent) + len(text) <= 88:
        return text
    deeper = indent + "  "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_spec_text(part, deeper)}" for key, part in value.items()]
        opening, closing = "{}"
    else:
        parts = [_spec_text(part, deeper) for part in value]
        opening, closing = "[]"
    lines = ",\n".join(deeper + part for part in parts)
    return f"{opening}\n{lines}\n{indent}{closing}"


# Numbers ----------------------------------------------------------------------------------------


def _number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"


def _measured(measured: Mapping[str, float | None] | None) -> tuple[str, str]:
    """Return a mean and its standard error, to the digits that the error leaves meaningful.

    Examples
    --------
    >>> _measured({"mean": 15089.31, "stderr": 52.1}), _measured({"mean": 7.3246, "stderr": 0.047})
    (('15,089', '52'), ('7.325', '0.047'))
    >>> _measured({"mean": 6.0, "stderr": 0.0}), _measured({"mean": 0.81234, "stderr": None})
    (('6', '0'), ('0.8123', ''))
    """
    if measured is None or measured["mean"] is None:
        return "–", ""
    mean, stderr = measured["mean"], measured["stderr"]
    if stderr is not None and stderr <= _ROUNDING * abs(mean):
        stderr = 0.0
    if stderr:
        digits = 1 - math.floor(math.log10(stderr))
    elif math.isclose(mean, round(mean), rel_tol=_ROUNDING):
        digits = 0
    else:
        digits = 3 - math.floor(math.log10(abs(mean)))
    digits = min(max(digits, 0), 6)
    if stderr is None:
        return _number(mean, digits), ""
    return _number(mean, digits), _number(stderr, digits) if stderr else "0"


def _in_words(measured: Mapping[str, float | None]) -> str:
    mean, error = _measured(measured)
    # The two stay in one line.
    return f"{mean}\u00a0±\u00a0{error}" if error else mean


def _share(rate: float) -> str:
    """Return a rate in per cent; only what is all or nothing is said to be.

    Examples
    --------
    >>> _share(0.97), _share(1.0), _share(0.99999), _share(0.00001)
    ('97 %', '100 %', '> 99.9 %', '< 0.1 %')
    """
    text = f"{100 * rate:.1f}"
    if text == "100.0" and rate < 1:
        return "> 99.9 %"
    if text == "0.0" and rate > 0:
        return "< 0.1 %"
    return f"{text.removesuffix('.0')} %"


# In short ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Game:
    """A problem, and the simulations of the variants that play it."""

    key: str
    problem: Problem
    simulations: list[Simulation]


def _games(results: Results, spec: Mapping[str, Any]) -> list[_Game]:
    """Return the different problems under their keys in the spec."""
    games: dict[str, _Game] = {}
    for simulation, described in zip(results.simulations, spec["variants"], strict=True):
        key = described.get("problem", "problem")
        games.setdefault(key, _Game(key, simulation.variant.problem, [])).simulations.append(
            simulation
        )
    return list(games.values())


def _opening(games: Sequence[_Game], replications: int) -> str:
    """Return what came out, in plain words."""
    parts = []
    for game in games:
        # Totals of different problems do not compare.
        named = f"<b>Problem “{escape(game.key)}”.</b> " if len(games) > 1 else ""
        sentences = " ".join(_comparison(game.simulations))
        parts.append(f"<p>{named}{sentences}</p>\n{_endings(game.simulations)}")
    if replications == 1:
        parts.append(
            "<p>This is one replication: how much of it is chance cannot be said. Run more of them"
            " before drawing conclusions.</p>"
        )
    else:
        few = f" With {replications} replications it is itself a rough estimate."
        parts.append(
            "<p>A number after ± is one standard error: the mean of very many replications would"
            " most likely lie within 2 standard errors of the one shown."
            f"{few if replications < _FEW else ''}</p>"
        )
    return "\n".join(parts)


def _label(simulation: Simulation) -> str:
    return f"<b>{escape(simulation.variant.label)}</b>"


def _comparison(simulations: Sequence[Simulation]) -> list[str]:
    """Return sentences on which variant had the least total regret, and by how much."""
    least, *others = sorted(simulations, key=lambda s: float(s.outcome.total.mean()))
    total = _in_words(quantity(least.outcome.total))
    if not others:
        return [f"{_label(least)} had a total regret of {total}."]
    # Replication by replication: what both variants met alike then cancels out.
    more = [(s, quantity(s.outcome.total - least.outcome.total)) for s in others]
    same = [s for s, d in more if _is_nothing(d, beside=float(least.outcome.total.mean()))]
    unclear = [(s, d) for s, d in more if s not in same and _is_unclear(d)]
    clear = [(s, d) for s, d in more if s not in same and not _is_unclear(d)]
    said = [f"{_label(least)} had the least total regret: {total}."]
    if same:
        said.append(f"{_listed(map(_label, same))} had exactly as much.")
    if unclear:
        listed = _listed(f"{_label(s)} ({_in_words(d)} more)" for s, d in unclear)
        said.append(
            f"Not clearly different from it, within {CLEARLY:g} standard errors of the"
            f" difference: {listed}."
        )
    if clear:
        (after, difference), *rest = clear
        verb = "had" if difference["stderr"] is None else "clearly had"
        said.append(f"The next, {_label(after)}, {verb} {_in_words(difference)} more.")
        if rest:
            last, difference = rest[-1]
            said.append(f"{_label(last)} had the most: {_in_words(difference)} more.")
    clients = [float(s.outcome.clients.mean()) for s in simulations]
    if max(clients) > 1.01 * min(clients):
        said.append(
            "Regret adds up over clients, and these variants played with different numbers of them"
            f" (from {min(clients):,.0f} to {max(clients):,.0f} on average): a small total can"
            " come from few clients."
        )
    return said


def _is_nothing(difference: Mapping[str, float | None], *, beside: float) -> bool:
    return all(abs(part or 0.0) <= _ROUNDING * beside for part in difference.values())


def _is_unclear(difference: Mapping[str, float | None]) -> bool:
    mean, stderr = difference["mean"], difference["stderr"]
    return mean is not None and stderr is not None and mean <= CLEARLY * stderr


def _listed(parts: Iterable[str]) -> str:
    """Return parts as a sentence lists them.

    Examples
    --------
    >>> _listed(["a"]), _listed(["a", "b"]), _listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def _endings(simulations: Sequence[Simulation]) -> str:
    """Return how often each variant found the best arm, and how it ended otherwise."""
    groups: dict[str, list[Simulation]] = {}
    for simulation in simulations:
        groups.setdefault(_ending(simulation), []).append(simulation)
    if len(groups) == 1 and len(simulations) > 2:
        return f"<p>All {len(simulations)} variants {next(iter(groups))}.</p>"
    sentences = [f"{_listed(map(_label, who))} {ending}." for ending, who in groups.items()]
    if len(sentences) == 1:
        return f"<p>{sentences[0]}</p>"
    items = "\n".join(f"<li>{sentence}</li>" for sentence in sentences)
    return f"<ul>\n{items}\n</ul>"


def _ending(simulation: Simulation) -> str:
    if simulation.fidelity is Fidelity.SLOTS:
        return "chose anew in every slot and never settled on an arm, by design"
    outcome = simulation.outcome
    n = outcome.winner.size
    decided, best = outcome.winner >= 0, chose_best(simulation)
    otherwise = [
        f"{words}: {count:,}"
        for words, count in (
            ("a wrong arm", int((decided & ~best).sum())),
            ("undecided at the end", int((~decided).sum())),
            ("a cap on clients or phases was hit", int(outcome.capped.sum())),
        )
        if count
    ]
    said = f"settled on the best arm {_times(int(best.sum()), n)}"
    return f"{said} ({'; '.join(otherwise)})" if otherwise else said


def _times(count: int, n: int) -> str:
    """Return how often something happened.

    Examples
    --------
    >>> _times(97, 100), _times(100, 100), _times(1, 1)
    ('in 97 of 100 replications', 'in all 100 replications', 'in the one replication')
    """
    if n == 1:
        return "in the one replication" if count else "in none of 1 replication"
    if count == n:
        return f"in all {n:,} replications"
    return f"in {f'{count:,}' if count else 'none'} of {n:,} replications"


# The figure and the table -----------------------------------------------------------------------

_REGRET_CAPTION = """Mean regret of each variant from the start to the horizon, added up over its
clients; bands are 95&nbsp;% confidence intervals of the mean. <span class="screen">Point at a
curve to read its value and standard error; click a label to hide or show its curve, double-click it
to see it alone.</span>"""

_HEADINGS = (
    "total",
    "exploration",
    "communication",
    "clients",
    "phases",
    "decision slot",
    "best arm",
    "wrong arm",
    "undecided",
    "capped",
)


def _regret_alt(variants: Sequence[Mapping[str, Any]]) -> str:
    ends = ", ".join(f"{v['label']}: {_in_words(v['regret']['total'])}" for v in variants)
    return f"Curves of total regret against slot; at the horizon, {ends}."


def _results_table(variants: Sequence[Mapping[str, Any]], colour_of: ColourOf) -> str:
    headings = "".join(f'<th scope="col">{heading}</th>' for heading in _HEADINGS)
    rows = "\n".join(_results_row(variant, colour_of[variant["label"]]) for variant in variants)
    return f"""<div class="scroll" role="region" aria-label="Results" tabindex="0">
<table>
<thead>
<tr><td></td><th colspan="3" scope="colgroup">regret at the horizon</th>
<td colspan="3"></td><th colspan="4" scope="colgroup">share of replications</th></tr>
<tr><th scope="col">variant <small>algorithm, fidelity</small></th>
{headings}</tr>
</thead>
<tbody>
{rows}
</tbody>
</table>
</div>"""


def _results_row(variant: Mapping[str, Any], colour: str) -> str:
    regret = variant["regret"]
    measured = [regret["total"], regret["exploration"], regret["communication"], variant["clients"]]
    rates = ["best_arm_rate", "wrong_arm_rate", "undecided_rate", "capped_rate"]
    if variant["fidelity"] == Fidelity.SLOTS.value:
        cells = [*map(_cell, measured), *["<td>–</td>"] * (2 + len(rates))]
    else:
        measured += [variant["phases"], variant["decision_slot"]]
        cells = [*map(_cell, measured), *(f"<td>{_share(variant[rate])}</td>" for rate in rates)]
    return (
        f'<tr><th scope="row"><span class="swatch" style="background:{colour}"></span>'
        f"{escape(variant['label'])} <small>{escape(variant['algorithm'])},"
        f" {escape(variant['fidelity'])}</small></th>{''.join(cells)}</tr>"
    )


def _cell(measured: Mapping[str, float | None] | None) -> str:
    mean, error = _measured(measured)
    return f"<td>{mean}{f' <small>± {error}</small>' if error else ''}</td>"


def _definitions(pairs: Iterable[tuple[str, str]]) -> str:
    rows = "\n".join(f"<div><dt>{word}</dt><dd>{meaning}</dd></div>" for word, meaning in pairs)
    return f"<dl>\n{rows}\n</dl>"


_WORDS = (
    (
        "arms, clients, slots",
        "There are several options, the arms. In every slot, a step of time, each client tries one"
        " arm and observes a number. The best arm is the one with the highest mean over all"
        " clients; a single client's own best arm may be another.",
    ),
    (
        "phase",
        "Clients try the arms that are still in question, send averages to the server, and the"
        " server drops the arms that are clearly worse. Such a round is a phase; clients may be"
        " admitted at its start.",
    ),
    (
        "regret",
        "What is lost in comparison with playing the best arm from the start, added up over all"
        " admitted clients and all slots. Less is better; a curve that has become flat loses"
        " nothing any more.",
    ),
    (
        "exploration, communication",
        "The two parts of total regret. Exploration: trying an arm costs how much lower its mean"
        " is than the best one's. Communication: every admitted client pays the communication"
        " cost at the end of a phase (some algorithms pay in every slot, some never).",
    ),
    (
        "clients, phases",
        "How many clients were admitted, and how many phases were completed, on average over the"
        " replications.",
    ),
    (
        "decision slot",
        "The slot after which one arm was left, over the replications that came so far.",
    ),
    (
        "best arm, wrong arm, undecided",
        "In which share of the replications the last arm left was the best one, another one, or"
        " more than one arm was left at the horizon.",
    ),
    (
        "capped",
        "In which share a limit on the number of clients or phases was reached, so that the rule"
        " could not go on as it wanted.",
    ),
    (
        "fidelity",
        "What the simulation draws at random: <i>cohorts</i>, the sum of what the clients of"
        " a cohort (admitted together) observe of an arm in a phase; <i>clients</i>, the sum of"
        " each client; <i>pulls</i>, every single observation, through the real messages;"
        " <i>slots</i>, every observation of an algorithm that chooses anew in every slot. All"
        " follow the same law; the first is the fastest.",
    ),
    ("–", "Does not apply: the algorithm never decides, or it did not in any replication."),
)


# Problems ---------------------------------------------------------------------------------------


def _problem_sections(games: Sequence[_Game], drawn: Mapping[str, bytes]) -> str:
    parts: list[str] = []
    maps: list[_Game] = []
    for game in games:
        problem = game.problem
        if len(games) > 1:
            played = _listed(map(_label, game.simulations))
            parts.append(f"<h3>{escape(game.key)}</h3>\n<p>Played by {played}.</p>")
        parts += [_definitions(_facts(problem)), _means_list(problem)]
        if isinstance(problem, CognitiveRadio):
            shown = next((other for other in maps if _same_place(other.problem, problem)), None)
            maps.append(game)
            name = "map.png" if len(maps) == 1 else f"map-{len(maps)}.png"
            parts.append(
                _map(problem, drawn.get(name))
                if shown is None
                else f"<p>The map is that of “{escape(shown.key)}”, above.</p>"
            )
    return "\n".join(parts)


def _same_place(one: Problem, other: Problem) -> bool:
    """Return whether two radio problems have one map; who listens makes no difference to it."""
    return (
        isinstance(one, CognitiveRadio)
        and isinstance(other, CognitiveRadio)
        and (one.area, one.channels, one.base_station)
        == (other.area, other.channels, other.base_station)
    )


_MODELS = {
    Approximate.model: "approximate: clients are drawn at random around the global means",
    Exact.model: "exact: the clients are given, and the global means are their averages",
    CognitiveRadio.model: "cognitive radio: arms are channels, clients are users who stand"
    " somewhere in the area, and a mean is how often a channel is free",
}


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
    best = problem.means.max()
    items = "".join(
        f"<li{' class=best' if mean == best else ''}><span>arm {arm}</span> {mean:.4g}</li>"
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
<img src="{_data_uri(png)}" alt="Maps of the availability of {len(at_station)} channels.">
<figcaption>{caption}</figcaption>
</figure>"""


# Style and script -------------------------------------------------------------------------------

# The browser itself refuses whatever would come from elsewhere.
_POLICY = (
    "default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)

_STYLE = """
:root { color-scheme: only light; --ink: #222; --faint: #5f6368; --rule: #dadce0; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem clamp(1rem, 4vw, 3rem) 3rem;
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial,
  sans-serif; color: var(--ink); background: #fff; overflow-wrap: break-word; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem; padding-top: 1rem;
  border-top: 1px solid var(--rule); }
h3 { font-size: 1.05rem; margin: 1.75rem 0 .5rem; }
.byline, figcaption, small { color: var(--faint); }
.byline { margin: .4rem 0 0; }
p, ul, dl { max-width: 60rem; }
ul { padding-left: 1.25rem; }
figure { margin: 1rem 0; }
figure img { display: block; width: auto; max-width: min(100%, 64rem); height: auto; }
figcaption { max-width: 60rem; margin-top: .5rem; font-size: .9rem; }
#regret.live img, #regret:not(.live) .screen { display: none; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .84rem; line-height: 1.35;
  font-variant-numeric: tabular-nums; }
table small { display: block; font-weight: 400; }
table th, table td { padding: .45rem .42rem; text-align: right; vertical-align: top; }
thead th { font-weight: 600; vertical-align: bottom; }
thead th[scope=colgroup] { text-align: center; border-bottom: 1px solid var(--rule); }
thead tr:last-child th { border-bottom: 2px solid var(--faint); }
tbody th, tbody td { border-bottom: 1px solid var(--rule); }
tbody td { white-space: nowrap; }
table tr > th:first-child { text-align: left; padding-left: 1.25rem; }
tbody th { font-weight: 600; min-width: 10rem; overflow-wrap: anywhere; text-indent: -1.25rem; }
tbody th small { text-indent: 0; }
.swatch { display: inline-block; width: .8rem; height: .8rem; margin-right: .45rem;
  border-radius: 2px; vertical-align: -.08rem; print-color-adjust: exact;
  -webkit-print-color-adjust: exact; }
dl { margin: 0; }
dl > div { display: grid; grid-template-columns: 13rem 1fr; gap: .25rem 1rem; padding: .35rem 0;
  border-bottom: 1px solid var(--rule); }
dt { font-weight: 600; }
dd { margin: 0; }
ul.arms { list-style: none; padding: 0; margin: 0; max-width: none; display: flex;
  flex-wrap: wrap; gap: .4rem; font-variant-numeric: tabular-nums; font-size: .9rem; }
ul.arms li { border: 1px solid var(--rule); border-radius: 4px; padding: .1rem .5rem; }
ul.arms li span { color: var(--faint); }
ul.arms li.best { font-weight: 700; border-color: var(--ink); }
summary { cursor: pointer; }
pre { font: .8rem/1.45 ui-monospace, Menlo, Consolas, monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; background: #f6f7f8; padding: 1rem; border-radius: 4px; }
@media (max-width: 40rem) {
  dl > div { grid-template-columns: 1fr; gap: 0; }
  .modebar-container { display: none !important; }
}
@media print {
  @page { size: A4 landscape; margin: 12mm; }
  html { font-size: 9.5pt; }
  body { max-width: none; padding: 0; }
  h2 { margin-top: 1.25rem; padding-top: .5rem; }
  h1, h2, h3 { break-after: avoid; }
  p, ul, dl, figcaption { max-width: none; }
  figure, tr, dl > div, ul.arms li { break-inside: avoid; }
  thead { display: table-header-group; }
  .scroll { overflow: visible; }
  table { font-size: 7.5pt; width: 100%; }
  table th, table td { padding: .25rem .3rem; }
  tbody th { min-width: 0; }
  #regret-live, .screen { display: none; }
  #regret img, #regret.live img { display: block; }
  figure img { max-width: 100%; max-height: 100mm; }
}
"""

# The still image stays where the interactive figure cannot be drawn, and in print.
_SCRIPT = """
(function () {
  const frame = document.getElementById("regret");
  const made = JSON.parse(document.getElementById("regret-data").textContent);
  frame.classList.add("live");
  Plotly.newPlot("regret-live", made.data, made.layout, made.config).catch(function () {
    frame.classList.remove("live");
  });
})();
"""
