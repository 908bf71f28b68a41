"""The whole page: its parts, one after the other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from plotly.offline import get_plotlyjs

from fedbandits.experiments.figures import colours, image, regret_figure, regret_page_figure
from fedbandits.experiments.report.games import games_of
from fedbandits.experiments.report.glossary import WORDS
from fedbandits.experiments.report.markup import data_uri, definitions, json_in_script
from fedbandits.experiments.report.opening import opening
from fedbandits.experiments.report.problem_sections import problem_sections
from fedbandits.experiments.report.results_table import results_table
from fedbandits.experiments.report.style import STYLE
from fedbandits.experiments.results import Results
from fedbandits.experiments.wording import in_words

# The browser itself refuses whatever would come from elsewhere.
_POLICY = (
    "default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)

_REGRET_CAPTION = """Mean regret of each variant from the start to the horizon, added up over its
clients; bands are 95&nbsp;% confidence intervals of the mean. <span class="screen">Point at a
curve to read its value and standard error; click a label to hide or show its curve, double-click it
to see it alone.</span>"""

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


def report_html(results: Results, *, images: Mapping[str, bytes] | None = None) -> str:
    """Return the results as one page that needs no network.

    Parameters
    ----------
    results : Results
        What to show.
    images : mapping of str to bytes, optional
        PNG files that were drawn already and need not be drawn again: ``regret.png``, and
        ``map.png``, ``map-2.png``, … as in `fedbandits.experiments.figures.map_names`.

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
    games = games_of(results, summary["spec"])
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
<p class="byline">{_byline(results)}</p>
</header>
<main>
<section>
<h2>In short</h2>
{opening(games, results.experiment.replications)}
</section>
<section>
<h2>Regret over time</h2>
<figure id="regret">
<div id="regret-live"></div>
<img src="{data_uri(static)}" alt="{escape(_regret_alt(variants))}">
<figcaption>{_REGRET_CAPTION}
<noscript>Scripts are off, so this is a still image.</noscript></figcaption>
</figure>
</section>
<section>
<h2>Results</h2>
{results_table(variants, colour_of)}
</section>
<section>
<h2>How to read this</h2>
{definitions(WORDS)}
</section>
<section>
<h2>{"The problem" if len(games) == 1 else "The problems"}</h2>
{problem_sections(games, drawn)}
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
<script type="application/json" id="regret-data">{json_in_script(interactive)}</script>
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


def _regret_alt(variants: Sequence[Mapping[str, Any]]) -> str:
    ends = ", ".join(f"{v['label']}: {in_words(v['regret']['total'])}" for v in variants)
    return f"Curves of total regret against slot; at the horizon, {ends}."


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{escape(name)} {escape(version)}" for name, version in versions.items())


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
        first, last = "{}"
    else:
        parts = [_spec_text(part, deeper) for part in value]
        first, last = "[]"
    lines = ",\n".join(deeper + part for part in parts)
    return f"{first}\n{lines}\n{indent}{last}"
