"""Settings to begin with: three trials, and the games of the paper's figures."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from fedbandits.laboratory.setting import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A setting with a name, and a sentence about it."""

    key: str
    label: str
    words: str
    setting: Setting


@cache
def presets() -> tuple[Preset, ...]:
    """Return the presets, in the order of their buttons.

    Examples
    --------
    >>> [preset.label for preset in presets()]
    ['Hospitals', 'Base stations', 'Shops', 'Figure 3', 'Figure 4', 'Figure 6']
    """
    return (
        Preset(
            key="hospital",
            label="Hospitals",
            words="40 hospitals compare 3 treatments. A slot is a patient in each of them; the"
            " outcome is whether the patient recovers.",
            setting=Setting(
                outcome="rate",
                options=3,
                gap=0.05,
                best=0.65,
                spread=0.04,
                clients=40,
                cost=5.0,
                horizon=5000,
                pulls="50",
                admissions="5",
                rule="certified",
            ),
        ),
        Preset(
            key="stations",
            label="Base stations",
            words="Base stations look for the best of 8 channels, in Mbit/s. As many take part as"
            " it takes, and a report costs as much as 20 Mbit/s in one slot.",
            setting=Setting(
                options=8,
                gap=2.0,
                best=40.0,
                noise=15.0,
                spread=4.0,
                cost=20.0,
                horizon=100_000,
                pulls="20",
                admissions="50*p",
                rule="certified",
            ),
        ),
        Preset(
            key="shops",
            label="Shops",
            words="500 shops compare 4 pages by the share of visitors who buy, and send means that"
            " are rounded to 8 bits.",
            setting=Setting(
                outcome="rate",
                options=4,
                gap=0.01,
                best=0.06,
                spread=0.01,
                clients=500,
                cost=0.1,
                horizon=20_000,
                privacy="bits",
                design="fed1-ucb",
                pulls="200",
                rule="chernoff",
            ),
        ),
        _figure_3(),
        _figure(
            4,
            "fig4",
            "Fed2-UCB on the approximate model, with f(p) = 100, g(p) = 2^p and the constants of"
            " the authors' script.",
        ),
        _figure(
            6,
            "fig6",
            "MovieLens as the authors released it: 100 groups of films, local means drawn around"
            " theirs.",
        ),
    )


def _figure_3() -> Preset:
    """Return figure 3, whose 5 clients are given; here clients are drawn that average to them."""
    tables = _file("fig3")
    local = np.array(tables["problems"]["five"]["local_means"])
    variant = tables["variants"][0]
    means = local.mean(axis=0).round(6).tolist()
    setting = _setting(
        tables,
        variant,
        means=means,
        noise=tables["problems"]["five"]["noise"]["sigma"],
        spread=round(float(local.std(axis=0).mean()), 3),
        clients=len(local),
        design="fed1-ucb",
    )
    words = (
        "Fed1-UCB with 5 clients. The figure gives each client's means; here they are drawn, with"
        " the same averages and the same spread. Fed1-UCB sees averages over all clients alone."
    )
    return Preset(key="figure3", label="Figure 3", words=words, setting=setting)


def _figure(number: int, file: str, words: str) -> Preset:
    tables = _file(file)
    problems = tables.get("problems") or {"": tables["problem"]}
    problem = next(iter(problems.values()))
    setting = _setting(
        tables,
        tables["variants"][0],
        means=problem["means"],
        noise=problem["noise"]["sigma"],
        spread=problem["spread"]["sigma"],
        admissions=tables["variants"][0]["admissions"],
    )
    return Preset(key=f"figure{number}", label=f"Figure {number}", words=words, setting=setting)


def _setting(
    tables: dict[str, Any], variant: dict[str, Any], *, means: list[float], **others: Any
) -> Setting:
    radius = variant.get("radius", {})
    usual = Setting()
    return Setting(
        given="means",
        means=", ".join(f"{mean:g}" for mean in means),
        cost=tables["communication_cost"],
        horizon=tables["horizon"],
        seed=tables["seed"],
        pulls=variant["pulls"],
        arm_constant=radius.get("arm", usual.arm_constant),
        client_constant=radius.get("client", usual.client_constant),
        **others,
    )


def _file(name: str) -> dict[str, Any]:
    """Return the experiment file of a figure, as the reproduction plays it."""
    found = files("fedbandits.reproduce") / "files" / f"{name}.toml"
    return tomllib.loads(found.read_text(encoding="utf-8"))
