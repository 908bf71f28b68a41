"""Results show, draw and tabulate themselves, all in the same way."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import fedbandits as fb
from fedbandits.experiments.parquet import write_parquet
from fedbandits.notebook.viewed import Viewed
from fedbandits.protocol import Answer
from viewed_values import SWEEP, answer, every, experiment, plan, simulation

KINDS = [fb.Simulation, fb.Results, fb.Plan, fb.SweepResults, Answer]


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> dict[type, Viewed]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedbandits.planning.search._effort", lambda _: (3, 5, 64))
        return {type(value): value for value in every(tmp_path_factory.mktemp("sweep"))}


@pytest.fixture
def pyplot(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    import matplotlib as mpl
    from matplotlib import pyplot

    before = mpl.get_backend()
    pyplot.switch_backend("agg")
    yield pyplot
    pyplot.close("all")
    pyplot.switch_backend(before)


@pytest.mark.parametrize("kind", KINDS)
def test_tables_have_one_shape(values: dict[type, Viewed], kind: type, tmp_path: Path) -> None:
    value = values[kind]
    for name in value.tables:
        columns = value.columns(name)
        assert columns == getattr(value, name)()
        assert len({len(column) for column in columns.values()}) == 1
        assert all(type(column) is list for column in columns.values())
        frame = value.to_polars(name)
        assert frame.to_dict(as_series=False) == columns
        # A frame has the types of the file that other programs read.
        write_parquet(columns, tmp_path / "table.parquet")
        assert frame.schema == pl.read_parquet(tmp_path / "table.parquet").schema
        pandas = value.to_pandas(name)
        assert list(pandas.columns) == list(columns)
        assert len(pandas) == frame.height
    assert value.columns() == value.columns(value.tables[0])
    with pytest.raises(fb.InputError, match=r"table: 'curve' is not known; .*known: "):
        value.columns("curve")


@pytest.mark.parametrize("kind", KINDS)
def test_a_notebook_shows_a_table_and_no_markup_of_others(
    values: dict[type, Viewed], kind: type
) -> None:
    value = values[kind]
    html = value._repr_html_()
    assert html.count("<table") == html.count("</table>") == 1
    assert "<b>blue" not in html
    assert value.shown().rows[0][0] in value.table()
    assert len(repr(value)) < 120
    assert re.fullmatch(rf"<{kind.__name__}: [^\n]+>", repr(value))


@pytest.mark.parametrize("kind", KINDS)
def test_a_chart_is_drawn_into_new_axes_or_given_ones(
    values: dict[type, Viewed], kind: type, pyplot: object
) -> None:
    from matplotlib import pyplot as plt

    value = values[kind]
    before = plt.get_fignums()
    own = value.plot()
    assert len(plt.get_fignums()) == len(before) + 1
    assert own.figure is plt.gcf()  # so that notebooks show it
    figure, given = plt.subplots()
    assert value.plot(ax=given) is given
    assert given.get_xlabel() == own.get_xlabel()
    assert len(given.lines) + len(given.images) == len(own.lines) + len(own.images) > 0
    figure.canvas.draw()
    with pytest.raises(fb.InputError, match="name: 'no' is not known"):
        value.plot("no")


@pytest.mark.parametrize("kind", KINDS)
def test_a_plot_leaves_the_style_of_others_alone(
    values: dict[type, Viewed], kind: type, pyplot: object
) -> None:
    import matplotlib as mpl

    before = mpl.rcParams.copy()
    values[kind].plot()
    assert mpl.rcParams == before


def test_all_parts_of_regret_are_drawn(values: dict[type, Viewed], pyplot: object) -> None:
    for kind in (fb.Simulation, fb.Results):
        labels = {name: values[kind].plot(name).get_ylabel() for name in values[kind].charts}
        assert set(labels) == {"total", "exploration", "communication"}
        assert "exploration" in labels["exploration"]


def test_charts_that_there_are_not_say_why(
    values: dict[type, Viewed], tmp_path: Path, pyplot: object
) -> None:
    made = values[fb.Plan]
    assert made.plot("smallest_gap").get_ylabel().startswith("smallest detectable gap")
    with pytest.raises(fb.InputError, match=r"no chart 'honesty' of this plan: plan with liars="):
        made.plot("honesty")
    four: dict[str, list[int]] = {
        "variants.pulls": [10, 30],
        "communication_cost": [0, 10],
        "horizon": [1000, 2000],
        "seed": [1, 2],
    }
    sweep = fb.run_sweep(fb.read_sweep({**SWEEP, "sweep": four}), tmp_path, workers=1)
    with pytest.raises(fb.InputError, match=r"4 keys, and no more than 3 fit .*replications\(\)"):
        sweep.plot()


def test_panels_do_not_share_one_pair_of_axes(tmp_path: Path, pyplot: object) -> None:
    from matplotlib import pyplot as plt

    three = {"variants.pulls": [10, 30], "communication_cost": [0, 10], "horizon": [1000, 2000]}
    sweep = fb.run_sweep(fb.read_sweep({**SWEEP, "sweep": three}), tmp_path, workers=1)
    own = sweep.plot()
    assert len([axes for axes in plt.gcf().axes if axes.images]) == 2
    assert own in plt.gcf().axes
    _, given = plt.subplots()
    with pytest.raises(fb.InputError, match=r"ax: the chart has 2 panels"):
        sweep.plot(ax=given)
    assert not given.images


def test_a_plan_that_suggests_nothing_shows_itself(pyplot: object) -> None:
    made = fb.plan(n_arms=5, gap=0.1, noise=0.5, spread=0.1, horizon=4)
    assert not made.feasible
    assert "nothing suggested" in repr(made)
    assert "<table" in made._repr_html_()
    assert set(made.schedules()["schedule"]) <= {"index rule"}
    assert made.plot().get_ylabel().startswith("smallest detectable gap")
    with pytest.raises(fb.InputError, match="no chart 'regret_map' of this plan: no schedule"):
        made.plot("regret_map")


@pytest.mark.parametrize("make", [simulation, lambda n: experiment(n).run(workers=1)])
def test_one_replication_has_no_interval(make: object) -> None:
    assert callable(make)
    value = make(1)
    assert "one replication" in repr(value)
    assert "±" not in value.table()


def test_what_decides_in_every_slot_has_no_winner() -> None:
    game = simulation().variant.problem
    run = fb.simulate(game, fb.LocalUcb(clients=2), horizon=200, replications=2)
    assert "best arm found" not in run.table()
    assert "total regret" in run.table()


def test_an_answer_says_what_became_of_each_arm() -> None:
    found = answer()
    assert found.arms()["state"] == ["out", "left", "left"]
    assert found.words() in found.shown().note
    assert repr(found) == "<Answer: 2 of 3 arms are left, phase 1, 1 client, open>"


def test_the_numbers_of_a_plan_are_columns(quick: None) -> None:
    made = plan()
    found = made.schedules()
    assert made.suggested is not None
    row = found["schedule"].index("suggested")
    assert found["regret_mean"][row] == made.suggested.regret.mean
    assert found["pulls"][row] == made.suggested.pulls
    # An index rule has no schedules, and no numbers that follow from them.
    index = found["schedule"].index("index rule")
    assert found["pulls"][index] is found["reports_mean"][index] is None


CALLS = {
    "to_polars()": ("polars", "pip install polars"),
    "to_pandas()": ("pandas", "pip install pandas"),
    "plot()": ("matplotlib", 'pip install "fedbandits[report]"'),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_is_not_installed_is_named(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package, install = CALLS[call]
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(fb.InputError) as error:
        getattr(answer(), call.removesuffix("()"))()
    assert str(error.value) == f"{call} needs {package}, which is not installed: {install}"


def test_simulating_and_tabulating_loads_no_package_that_shows() -> None:
    code = (
        "import sys, fedbandits as fb\n"
        "game = fb.Approximate(means=[0.2, 0.9], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.1))\n"
        "rule = fb.Fed2Ucb(pulls=10, admissions=2)\n"
        "run = fb.simulate(game, rule, horizon=900, replications=2)\n"
        "run.replications(), repr(run)\n"
        "print([n for n in ('rich', 'matplotlib', 'polars', 'pandas') if n in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == "[]\n"
