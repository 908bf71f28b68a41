"""What is written as Parquet is what another program reads."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedbandits.experiments.parquet import write_parquet
from fedbandits.simulation.tables import Table

VALUES = {
    pl.Boolean: st.booleans(),
    pl.Int64: st.integers(-(2**63), 2**63 - 1),
    pl.Float64: st.floats(allow_nan=False),
    pl.String: st.text(),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[Table, list[type[pl.DataType]]]:
    rows = draw(st.integers(0, 40))
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES, key=str)), min_size=1, max_size=20))
    table = {}
    for number, kind in enumerate(kinds):
        values = VALUES[kind] | st.none() if draw(st.booleans()) else VALUES[kind]
        name = f"{number} {draw(st.text(max_size=3))}"
        table[name] = draw(st.lists(values, min_size=rows, max_size=rows))
    return table, kinds


@given(tables())
@settings(
    deadline=None,
    derandomize=True,
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_table_is_read_as_it_was_written(
    tmp_path: Path, drawn: tuple[Table, list[type[pl.DataType]]]
) -> None:
    table, kinds = drawn
    write_parquet(table, tmp_path / "table.parquet")
    frame = pl.read_parquet(tmp_path / "table.parquet")
    assert frame.to_dict(as_series=False) == table
    for kind, column, found in zip(kinds, table.values(), frame.dtypes, strict=True):
        assert found == kind or all(value is None for value in column)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ([1, 2.5, None], pl.Float64),
        ([None, None, None], pl.Float64),
        (np.arange(3), pl.Int64),
        (np.arange(3, dtype=np.int32), pl.Int64),
        (np.array([0.5, math.nan, math.inf]), pl.Float64),
        (np.array([True, False, True]), pl.Boolean),
    ],
)
def test_columns_have_the_type_that_holds_their_values(
    tmp_path: Path, column: list[float], kind: type[pl.DataType]
) -> None:
    write_parquet({"a": column}, tmp_path / "table.parquet")
    found = pl.read_parquet(tmp_path / "table.parquet")["a"]
    assert found.dtype == kind
    assert found.equals(pl.Series("a", list(column), dtype=kind, strict=False), null_equal=True)


def test_many_rows_and_columns(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    table: Table = {f"column {n}": rng.normal(size=70_001).tolist() for n in range(3)}
    table |= {f"label {n}": [f"variant {i % 3}" for i in range(70_001)] for n in range(15)}
    write_parquet(table, tmp_path / "table.parquet")
    assert pl.read_parquet(tmp_path / "table.parquet").to_dict(as_series=False) == table


def test_the_same_table_is_the_same_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_parquet({"x": [1, None], "y": ["ü", ""]}, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
