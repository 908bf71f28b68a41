"""What the documentation shows runs, and what it names exists.

Building the pages is the business of `make docs`; here is what Sphinx does not check.
"""

from __future__ import annotations

import doctest
import re
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import fields
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import click
import pytest
from typer.main import get_command

import fedbandits as fb
from documentation import blocks, rows, section, text_of, words
from fedbandits.cli.main import app
from fedbandits.construct import keys_of
from fedbandits.protocol import Rejection
from fedbandits.reproduce.parts import SECTIONS
from fedbandits.reproduce.regret_curves import FIGURES
from repository import DOCS, ROOT

PAGES = sorted(DOCS.glob("*.md"))
DRAWINGS = sorted((DOCS / "drawings").glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"


# Experiment files ---------------------------------------------------------------------------------

COMPLETE = {
    "title": "completed",
    "horizon": 1_000_000,
    "problem": {
        "model": "approximate",
        "means": [0.4, 0.6],
        "noise": {"law": "gaussian", "sigma": 0.5},
        "spread": {"law": "gaussian", "sigma": 0.02},
    },
    "variants": [{"algorithm": "fed2-ucb", "pulls": 100, "admissions": "2^p"}],
}
"""What an example leaves out when it is about one part of a file."""

EXAMPLES = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(blocks(page.read_text(encoding="utf-8"), "toml"))
]


@pytest.mark.parametrize("text", EXAMPLES)
def test_every_experiment_file_is_valid(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (own,) = blocks(text_of("extending.md"), "python")
    Path("my_rules.py").write_text(own, encoding="utf-8")
    assert fb.read_experiment(COMPLETE | tomllib.loads(text)).check()


def test_the_parts_of_the_example_are_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (own,) = blocks(text_of("extending.md"), "python")
    Path("my_rules.py").write_text(own, encoding="utf-8")
    (text,) = blocks(text_of("extending.md"), "toml")
    built_in, hasty = fb.read_experiment(tomllib.loads(text)).run(workers=1).simulations
    assert hasty.games.phases.max() <= 4 < built_in.games.phases.max()


def test_the_first_example_is_a_whole_file() -> None:
    first = blocks(text_of("experiment-files.md"), "toml")[0]
    experiment = fb.read_experiment(tomllib.loads(first))
    assert experiment.check() == ["cohorts", "cohorts", "cohorts", "slots"]


# What a variant of a file has if it says nothing.
FROM_THE_FILE = {
    "label": "the algorithm's name",
    "problem": "the only one",
    "communication_cost": "the file's",
}


@pytest.mark.parametrize(
    ("heading", "make", "beside"),
    [
        (
            "The file",
            fb.Experiment,
            {"communication_cost", "problem", "problems", "sweep", "trial"},
        ),
        ("Variants", fb.Variant, set()),
        ("Approximate", fb.Approximate.reader(), {"model"}),
        ("Exact", fb.Exact.reader(), {"model"}),
        ("Cognitive radio", fb.CognitiveRadio.reader(), {"model"}),
    ],
)
def test_the_reference_has_every_key_and_its_default(
    heading: str, make: Callable[..., Any], beside: set[str]
) -> None:
    described = rows(section(text_of("experiment-files.md"), heading))
    # The name is that of the table, and the offset is a key of the spread's table.
    known = {
        name: parameter.default
        for name, parameter in signature(make).parameters.items()
        if name not in ("name", "offset")
    }
    assert set(described) == {*known, *beside}
    for key, value in known.items():
        default = described[key][-1].replace("`", "")
        if make is fb.Variant and key in FROM_THE_FILE:
            assert default.startswith(FROM_THE_FILE[key])
        elif value is Parameter.empty:
            assert default.startswith("required")
        elif isinstance(value, int | float):
            assert float(default) == value


def test_the_page_on_privacy_has_every_key_and_its_default() -> None:
    described = rows(section(text_of("privacy.md"), "The keys"))
    known = {field.name: field for cls in (fb.Privacy, fb.Quantize) for field in fields(cls)}
    assert set(described) == set(known)
    for name in ("level", "min_pulls", "bits", "rounding", "widening"):
        assert described[name][-1].strip('`"') == str(known[name].default)


def test_the_reference_has_every_algorithm_with_its_keys() -> None:
    described = rows(section(text_of("experiment-files.md"), "Algorithms"))
    for name, algorithm in fb.ALGORITHMS.items():
        *_, keys = described.pop(name)
        assert words(keys) == set(keys_of(algorithm))
    assert set(described) == {key for a in fb.ALGORITHMS.values() for key in keys_of(a)}


def test_the_reference_has_every_law_with_its_parameters() -> None:
    described = rows(section(text_of("experiment-files.md"), "Laws"))
    laws: dict[str, type] = {**fb.LAWS, fb.Empirical.law: fb.Empirical}
    for name, (use, parameters, _) in described.items():
        members = dir(laws[name])
        assert use.split(", ") == [
            word for word, own in (("noise", "observe"), ("spread", "draw")) if own in members
        ]
        if name in fb.LAWS:
            assert words(parameters) == set(keys_of(laws[name]))
    assert set(described) == set(laws)


# Commands -----------------------------------------------------------------------------------------


def code_in(text: str) -> Iterator[str]:
    """Yield what stands in code: spans, and the lines of blocks without a language."""
    yield from re.findall(r"(?<!`)`([^`]+)`(?!`)", text)
    for block in blocks(text, ""):
        yield from block.splitlines()


COMMANDS = sorted(
    {
        " ".join(code.split())
        for page in PAGES
        for code in code_in(page.read_text(encoding="utf-8"))
        if re.match(r"(fedbandits|make) ", code)
    }
)


def command_of(code: str) -> tuple[click.Command, list[str]]:
    """Return the command that a line calls, and its arguments."""
    command: Any = get_command(app)
    _, *arguments = code.split()
    while arguments and hasattr(command, "commands"):
        name = arguments.pop(0)
        assert name in command.commands, f"{code}: no command {name}"
        command = command.commands[name]
    return command, arguments


def options_of(command: Any) -> set[str]:
    """Return the options of a command, also those that turn something off."""
    return {
        name
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


@pytest.mark.parametrize("code", COMMANDS)
def test_every_command_exists(code: str) -> None:
    program, first, *_ = code.split()
    if program == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert re.search(rf"^{first}:", makefile, flags=re.MULTILINE)
    elif first != "COMMAND":
        command, arguments = command_of(code)
        options = options_of(command)
        for argument in arguments:
            assert not argument.startswith("-") or argument in {"-", *options}
            assert not argument.startswith("examples/") or (ROOT / argument).is_file()


def test_options_that_are_named_alone_belong_to_a_command() -> None:
    commands = [get_command(app)]
    options = {"--help"}
    while commands:
        command: Any = commands.pop()
        commands += getattr(command, "commands", {}).values()
        options |= options_of(command)
    named = {
        code.split()[0]
        for page in PAGES
        for code in code_in(page.read_text(encoding="utf-8"))
        if code.startswith("--")
    }
    assert named
    assert named <= options


def test_every_part_of_the_reproduction_is_described() -> None:
    described = rows(section(text_of("reproduction.md"), "What is on the page"))
    assert set(described) == set(SECTIONS)
    for key, parts in FIGURES.items():
        assert words(described[key][-1]) == {part.key for part in parts}


def test_the_help_names_every_part_of_the_reproduction() -> None:
    command: Any = get_command(app)
    (argument,) = (p for p in command.commands["reproduce"].params if p.name == "figures")
    named = re.split(r"[,;] ", argument.help)
    assert [*(key for key in SECTIONS if not key.startswith("fig"))] == named[1:-1]


# Python -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_of_a_page_gives_what_is_printed(page: Path) -> None:
    code = "\n".join(blocks(page.read_text(encoding="utf-8"), "python"))
    test = doctest.DocTestParser().get_doctest(code, {}, page.name, str(page), 0)
    assert doctest.DocTestRunner().run(test).failed == 0
    assert len(test.examples) == code.count("\n>>> ") + code.startswith(">>> ")


def test_every_public_name_is_in_the_api() -> None:
    api = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
    described = re.findall(
        r"^\.\. (?:auto(?:class|exception|function)|py:data):: (\w+)$", api, re.M
    )
    assert sorted(described) == sorted(fb.__all__)


def test_modules_of_the_api_are_those_of_the_package() -> None:
    api = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
    named = re.findall(r"^##+ ([\w.]+)\n\n.*\n\.\. automodule:: fedbandits\.([\w.]+)$", api, re.M)
    assert named
    for heading, module in named:
        assert heading == module
        path = ROOT / "src" / "fedbandits" / Path(*module.split("."))
        assert path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def test_every_reason_to_refuse_an_update_is_described() -> None:
    described = rows(section(text_of("protocol.md"), "What is not counted"))
    assert list(described) == [reason.name for reason in Rejection]


# Drawings -----------------------------------------------------------------------------------------


def shown() -> dict[str, str]:
    """Return the drawings that pages show, with the text that stands for them."""
    return {
        name: alt
        for page in PAGES
        for name, alt in re.findall(
            r"^```\{image\} drawings/(\S+)\n:alt: (.+)$", page.read_text(encoding="utf-8"), re.M
        )
    }


def test_drawings_are_shown_and_what_is_shown_is_drawn() -> None:
    assert set(shown()) == {drawing.name for drawing in DRAWINGS}
    assert all(len(alt) > 40 for alt in shown().values())


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda drawing: drawing.name)
def test_a_drawing_says_what_it_is_and_needs_nothing_from_elsewhere(drawing: Path) -> None:
    root = ET.parse(drawing).getroot()
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    said = {element.get("id"): element.text for element in root if element.get("id")}
    assert root.get("aria-labelledby") == "title description"
    assert all(said[key] for key in ("title", "description"))
    assert root.find(f"{SVG}title") is not None
    # A ground of its own: dark themes do not make it unreadable.
    ground = root.find(f"{SVG}rect")
    assert ground is not None
    assert ground.get("fill") == "#ffffff"
    text = drawing.read_text(encoding="utf-8")
    assert set(re.findall(r"font-family:\s*([^;]+);", text)) == {"sans-serif"}
    assert re.findall(r"https?://[^\"\s]+", text) == ["http://www.w3.org/2000/svg"]
    assert "<image" not in text
    height = int(root.get("viewBox", "").split()[3])
    for element in root.iter(f"{SVG}text"):
        assert "".join(element.itertext()).strip()
        assert float(element.get("y", 0)) <= height


def test_pictures_exist() -> None:
    for page in (*PAGES, ROOT / "README.md"):
        for name in re.findall(r"!\[[^]]+\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / name).is_file()


def test_no_page_says_that_lies_are_survived() -> None:
    """Version 0.1.0 said so on its first page, though a lie inside the range goes unnoticed."""
    for page in (ROOT / "README.md", *PAGES):
        sentences = re.split(r"[.;:]\s", page.read_text(encoding="utf-8"))
        said = [one for one in sentences if re.search(r"\blies\b", one) and "surviv" in one]
        assert not said, page
