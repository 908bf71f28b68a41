"""The laboratory at ``/lab``: a form, and answers that come as a stream while games are played."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from html import escape

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from fedbandits.errors import InputError
from fedbandits.laboratory.pool import Pool
from fedbandits.laboratory.presets import presets
from fedbandits.laboratory.setting import (
    FIELDS,
    GAME,
    GROUPS,
    MOST_LETTERS,
    Field,
    Setting,
    refusal,
    shown,
)
from fedbandits.report.markup import json_in_script
from fedbandits.web.shell import served_page

_LONGEST_VIEWER = 64


def routes(workers: Pool) -> list[BaseRoute]:
    """Return where the laboratory answers.

    Parameters
    ----------
    workers : Pool
        The processes that work for everybody who uses it.
    """
    warming: set[asyncio.Task[None]] = set()

    async def page(_: Request) -> Response:
        if not warming:
            # The first viewer need not wait for imports as well.
            warming.add(asyncio.create_task(workers.warm()))
        return served_page(
            title="Laboratory",
            byline="What will a comparison cost, and which design costs least? Change a field: the"
            ' answer is simulated while you look. <a href="/">All runs</a>',
            sections=_sections(),
            styles=["laboratory.css"],
            scripts=["laboratory.js", "playback.js"],
        )

    async def answer(request: Request) -> Response:
        said = dict(request.query_params)
        viewer = said.pop("viewer", "")[:_LONGEST_VIEWER]
        try:
            _check(said)
        except InputError as error:
            return JSONResponse({"kind": "refused", "errors": refusal(error)})

        async def lines() -> AsyncIterator[str]:
            async for message in workers.answers(said, viewer or f"{id(request)}"):
                yield json.dumps(message) + "\n"

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    return [Route("/lab", page), Route("/lab/answer", answer)]


def _check(said: dict[str, str]) -> None:
    """Refuse fields that cannot be, before a process is started for them."""
    others = {name: text for name, text in said.items() if name not in ("game", "left")}
    Setting.read(others)
    if "game" in said:
        GAME.read(said["game"])


def _sections() -> list[tuple[str, str]]:
    made = [
        {"key": one.key, "label": one.label, "words": one.words, "fields": one.setting.as_text()}
        for one in presets()
    ]
    told = {"presets": made, "usual": Setting().as_text()}
    begin = f'<script type="application/json" id="lab-data">{json_in_script(told)}</script>'
    return [
        ("The setting", _form() + begin),
        ("What it takes", _RESULT),
        ("Regret over time", _CHART),
        ("A game, step by step", _GAME),
    ]


def _form() -> str:
    """Return the form: presets, and fields in groups."""
    buttons = "".join(
        f'<button type="button" data-preset="{escape(one.key)}">{escape(one.label)}</button>'
        for one in presets()
    )
    groups = "\n".join(
        f"<fieldset><legend>{escape(group)}</legend>\n"
        + "\n".join(_field(one) for one in FIELDS if one.group == group)
        + "\n</fieldset>"
        for group in GROUPS
    )
    return f"""<form id="lab" autocomplete="off" novalidate>
<div class="presets" role="group" aria-label="Begin with">{buttons}</div>
<p id="preset-words" class="hint"></p>
<p id="lab-mistake" class="mistake" role="alert"></p>
{groups}
</form>"""


def _field(one: Field) -> str:
    """Return a field: its name, its value, a slider, what it means and room for a mistake."""
    usual = shown(getattr(Setting(), one.name))
    key = f"lab-{one.name}"
    told = f'aria-describedby="{key}-hint {key}-mistake"'
    slider = ""
    if one.choices is not None:
        control = "".join(
            f'<option value="{escape(value)}"{" selected" if value == usual else ""}>'
            f"{escape(words)}</option>"
            for value, words in one.choices.items()
        )
        control = f'<select id="{key}" name="{one.name}" {told}>{control}</select>'
    elif one.text and one.name == "means":
        control = (
            f'<textarea id="{key}" name="{one.name}" rows="3" maxlength="{MOST_LETTERS}" {told}>'
            "</textarea>"
        )
    else:
        mode = "text" if one.text else "numeric" if one.whole else "decimal"
        none = ' placeholder="unlimited"' if one.optional else ""
        control = (
            f'<input id="{key}" name="{one.name}" value="{escape(usual)}" inputmode="{mode}"'
            f' maxlength="{MOST_LETTERS}"{none} {told}>'
        )
    if one.slider is not None:
        low, high = one.slider
        flags = "".join(
            f" data-{name}"
            for name, on in {"log": one.log, "whole": one.whole, "scaled": one.scaled}.items()
            if on
        )
        slider = (
            f'\n<input type="range" min="0" max="1000" data-for="{one.name}" data-low="{low:g}"'
            f' data-high="{high:g}" data-ends="{one.ends}"{flags}'
            f' aria-label="{escape(one.label)}, slider">'
        )
    when = escape(json.dumps(one.when))
    unit = f'<span class="unit">{escape(one.unit)}</span>'
    return f"""<div class="field" data-field="{one.name}" data-when="{when}">
<label for="{key}">{escape(one.label)}</label>
<span class="value">{control}{unit}</span>{slider}
<p id="{key}-hint" class="hint">{escape(one.words)}</p>
<p id="{key}-mistake" class="mistake"></p>
</div>"""


_RESULT = """<div id="verdict" class="feasible" role="status"></div>
<div class="progress"><progress id="lab-progress" max="1" value="0"></progress>
<span id="lab-status" role="status">Starting…</span>
<button type="button" id="lab-cancel" hidden>Cancel</button></div>
<div id="designs" class="designs"></div>
<p id="bound" class="hint"></p>
<div class="copies tools">
<button type="button" id="copy-file" disabled>Copy as file</button>
<button type="button" id="copy-command" disabled>Copy as command</button>
<button type="button" id="copy-link">Copy link</button>
<span id="copied" role="status"></span>
</div>
<details><summary>The experiment file with these numbers</summary>
<p class="hint"><code>fedbandits run</code> with this file plays the same games and prints the same
numbers.</p>
<pre id="lab-file"></pre></details>
<noscript><p class="mistake">The laboratory needs scripts; <code>fedbandits plan</code> answers the
same questions in a terminal.</p></noscript>"""

_CHART = """<figure id="regret" class="chart-frame">
<div class="chart" data-alt="Mean regret of the designs against slots."></div>
<figcaption>Mean regret over the simulated games, with the 95 % interval of the mean. Lower is
better.</figcaption>
<script type="application/json" data-later="regret"></script>
</figure>"""

_GAME = """<div id="playback" class="playback" tabindex="0" role="group"
aria-label="A game, step by step. Space plays and pauses, arrow keys step, plus and minus change the
speed.">
<p class="hint">The same game by two rules, as the simulator plays it. In each phase clients join,
everybody pulls, and the server decides. Dots are estimates, bars how far they may be off, and
open marks the true means, which no rule knows.</p>
<div class="tools" id="play-tools">
<button type="button" data-play="first" title="To the start (Home)">|◀<span>Start</span></button>
<button type="button" data-play="back" title="One step back (←)">◀<span>Back</span></button>
<button type="button" data-play="play" title="Play or pause (Space)">▶<span>Play</span></button>
<button type="button" data-play="step" title="One step (→)">▶|<span>Step</span></button>
<label>Speed <select id="play-speed"><option value="0.5">½ ×</option>
<option value="1" selected>1 ×</option><option value="2">2 ×</option><option value="4">4 ×</option>
<option value="16">16 ×</option></select></label>
<label>Beside the index rule <select id="play-left">
<option value="your design">your design</option>
<option value="certified elimination">certified elimination</option></select></label>
<button type="button" data-play="another">Another game</button>
</div>
<input type="range" id="play-at" min="0" max="0" value="0" aria-label="Step of the game">
<p id="play-words" role="status">Loading…</p>
<div id="play-sides" class="sides"></div>
<p id="play-mistake" class="mistake" role="alert"></p>
<p id="play-moral"></p>
</div>"""
