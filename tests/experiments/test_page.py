"""The page of an experiment: complete, safe, the same every time."""

from __future__ import annotations

import json
import math
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

from drawn_runs import GAME, NASTY, Page, run
from fedbandits.experiments.experiment import Experiment
from fedbandits.experiments.report.page import report_html
from fedbandits.experiments.results import Results
from fedbandits.problems import CognitiveRadio, Exact, Gaussian
from fedbandits.rules.algorithms import Fed1Ucb, Fed2Ucb, Ucb1
from fedbandits.simulation import Variant


def opening_of(page: str) -> str:
    """Return the text of the first section."""
    _, opening, _ = Page(page).shown().split("Regret over time")  # contents, heading
    return opening


def test_page_is_complete_html(page: str) -> None:
    assert page.startswith("<!DOCTYPE html>")
    parsed = Page(page)
    assert ("html", {"lang": "en"}) in parsed.elements
    assert any(tag == "meta" and attrs.get("name") == "viewport" for tag, attrs in parsed.elements)
    assert "".join(parsed.of("title")) == f"Title of {NASTY}"
    identifiers = [attrs["id"] for _, attrs in parsed.elements if "id" in attrs]
    assert len(identifiers) == len(set(identifiers))


def test_page_loads_nothing_from_elsewhere(page: str) -> None:
    parsed = Page(page)
    for tag, attrs in parsed.elements:
        if attrs == {"rel": "icon", "href": "data:,"}:  # none, so that no browser asks for one
            continue
        assert tag not in ("link", "iframe", "object", "base")
        assert (attrs.get("href") or "#").startswith("#")
        assert (attrs.get("src") or "data:image/png;base64,").startswith("data:image/png;base64,")
    for style in parsed.of("style"):
        assert "url(" not in style
        assert "@import" not in style
    policies = [attrs["content"] for tag, attrs in parsed.elements if "http-equiv" in attrs]
    assert policies
    assert (policies[0] or "").startswith("default-src 'none'")


def test_page_shows_labels_as_they_are(results: Results, page: str) -> None:
    parsed = Page(page)
    scripts = [text for text in parsed.of("script") if text.strip()]
    # The library, the chart, and what puts the two together: no script came from a label.
    assert len(scripts) == 3
    assert "<script>alert" not in page
    shown = parsed.shown()
    for simulation in results.simulations:
        assert simulation.variant.label in shown


def test_json_on_the_page_can_be_read(results: Results, page: str) -> None:
    parsed = Page(page)
    (figure,) = parsed.of("script", type="application/json")
    series = json.loads(figure)["views"]["total"]["panels"][0]["series"]
    assert [one["label"] for one in series] == [
        part
        for name in (NASTY, "f = 40 $x^{$")
        for part in (name, f"{name}, without communication")
    ] + ["_alone", "lower bound, as a yardstick: 8.045\u00a0·\u00a0log\u00a0t"]
    spec = json.loads("".join(parsed.of("pre")))
    assert spec == json.loads(json.dumps(results.summary()["spec"]))


def test_page_has_the_numbers_of_the_summary(results: Results, page: str) -> None:
    shown = Page(page).shown()
    for variant in results.summary()["variants"]:
        assert f"{variant['regret']['total']['mean']:,.0f}" in shown
    for word in ("fidelity", "phase", "exploration, communication", "decision slot", "capped"):
        assert word in shown
    assert f"Seed {results.experiment.seed};" in shown


def test_page_falls_back_to_an_image(page: str) -> None:
    parsed = Page(page)
    (picture,) = (attrs for tag, attrs in parsed.elements if tag == "img")
    assert (picture["alt"] or "").startswith("Curves of total regret against slot")
    assert any(tag == "noscript" for tag, _ in parsed.elements)


def test_page_takes_images_that_were_drawn_already(results: Results) -> None:
    assert "data:image/png;base64,cmVhZHk=" in report_html(results, images={"regret.png": b"ready"})


def test_page_of_the_same_results_is_the_same(results: Results, page: str) -> None:
    assert report_html(results) == page


def test_page_of_one_replication_claims_nothing() -> None:
    page = report_html(run(replications=1))
    shown = Page(page).shown()
    assert "how much of it is chance cannot be said" in shown
    assert "clearly" not in opening_of(page)
    assert "±" not in shown


def test_page_says_when_a_difference_is_not_clear() -> None:
    # One pull a phase more makes hardly a difference, ten times as many do, and c is a.
    variants = [
        Variant(label=label, problem=GAME, algorithm=Fed2Ucb(pulls=pulls, admissions="2^p"))
        for label, pulls in (("a", 40), ("b", 41), ("c", 40), ("d", 400))
    ]
    results = Experiment(title="close", variants=variants, horizon=5_000, replications=20).run()
    totals = {s.variant.label: s.games.total for s in results.simulations}
    opening = opening_of(report_html(results))
    difference = totals["b"] - totals["a"]
    error = float(difference.std(ddof=1)) / math.sqrt(20)
    assert abs(float(difference.mean())) <= 1.96 * error, "pick two that are closer"
    assert (
        "Not clearly different from it, because the interval of the difference contains 0"
        in opening
    )
    assert "had exactly as much" in opening
    assert "clearly had" in opening


def test_page_tells_problems_apart() -> None:
    city = CognitiveRadio.example(3)
    given_clients = Exact(
        local_means=[[0.2, 0.9], [0.7, 0.4]], noise=Gaussian(0.5), name="two & two"
    )
    results = Experiment(
        title="several problems",
        variants=[
            Variant(label="radio", problem=city, algorithm=Fed1Ucb(pulls=20, clients=5)),
            Variant(label="given", problem=given_clients, algorithm=Fed1Ucb(pulls=20)),
            Variant(label="slots", problem=given_clients, algorithm=Ucb1()),
        ],
        horizon=500,
        replications=2,
    ).run()
    parsed = Page(report_html(results))
    shown = parsed.shown()
    assert "Problem “two & two”." in shown
    assert "never settled on an arm, by design" in shown
    assert "12 km × 9 km, base station at (6, 4.5)" in shown
    pictures = [attrs["alt"] for tag, attrs in parsed.elements if tag == "img"]
    assert pictures[1:] == ["Maps of the availability of 3 channels."]


def test_radio_problems_of_one_place_share_a_map(tmp_path: Path) -> None:
    city = CognitiveRadio.example(2)
    problems = {
        "users": city,
        "station": replace(city, listener="base-station", name="station"),
        "elsewhere": replace(city, base_station=(0.0, 0.0), name="elsewhere"),
    }
    rule = Fed1Ucb(pulls=5, clients=2)
    results = Experiment(
        title="one place, and another",
        variants=[Variant(label=k, problem=p, algorithm=rule) for k, p in problems.items()],
        horizon=50,
        replications=2,
    ).run()
    results.write(tmp_path)
    assert sorted(file.name for file in tmp_path.glob("map*")) == ["map-2.png", "map.png"]
    parsed = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    pictures = [attrs["src"] for tag, attrs in parsed.elements if tag == "img"]
    drawn_maps = [(tmp_path / name).read_bytes() for name in ("map.png", "map-2.png")]
    assert drawn_maps[0] != drawn_maps[1]
    assert [b64decode((source or "").partition(",")[2]) for source in pictures[1:]] == drawn_maps
    assert "The map is that of “problem”, above." in parsed.shown()
