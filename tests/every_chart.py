"""A chart of every kind, for the tests of what is drawn in print and in a browser."""

from __future__ import annotations

import math
from dataclasses import replace

from fedbandits.report.chart import (
    Axis,
    Chart,
    Guide,
    Heat,
    Note,
    Plot,
    Row,
    Rows,
    Series,
    named_axis,
)

LINE = Series(label="line", x=[1, 10, 100], y=[0.1, math.nan, 0.3], colour="#0072B2")
KINDS: dict[str, Chart] = {
    "plot": Chart(
        name="plot",
        panels=[
            Plot(
                x=Axis(label="clients", log=True),
                y=Axis(label="chance", form="percent", low=0.0),
                series=[
                    LINE,
                    replace(LINE, label="dots", y=[0.2, 0.1, 0.2], half=[0.1] * 3, mark="dot"),
                    replace(LINE, label="band", y=[0.3] * 3, half=[0.1] * 3, band=True),
                    replace(LINE, label="steps", y=[0.4, 0.3, 0.2], step=True, dash=(4.0, 2.0)),
                    replace(
                        LINE, label="", group="dots", y=[0.5] * 3, low=[0.4] * 3, high=[0.9] * 3,
                        mark="cross", width=0.0, beside=5.0, hollow=True,
                    ),
                ],
                guides=[Guide(x=10.0, label="here"), Guide(y=0.25, label="there")],
                notes=[Note(x=10.0, y=0.25, text="both", colour="#D55E00")],
                title="of its own",
            )
        ],
        legend="shared",
    ),
    "rows": Chart(
        name="rows",
        panels=[
            Rows(
                x=Axis(label="mean"),
                rows=[
                    Row(label=f"arm {n}", below="left", value=n, low=n - 1.0, high=n + 2.0,
                        colour="#0072B2")
                    for n in range(3)
                ],
            ),
            Rows(
                x=Axis(),
                rows=[Row(label="$", value=5, low=4, high=6, colour="#000000")],
                bars=True,
            ),
        ],
        key="two kinds",
    ),
    "heat": Chart(
        name="heat",
        panels=[
            Heat(
                x=named_axis("across", ["a", "b", "c"]),
                y=named_axis("up", ["1", "2"]),
                values=[[1.0, 2.0, math.nan], [4.0, 30.0, 3.0]],
                label="regret",
                limits=(1.0, 10.0),
                best=[(0, 0)],
                note="here",
                numbers=True,
            )
        ],
        title="A map",
    ),
}  # fmt: skip
