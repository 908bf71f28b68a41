"""What interactive figures share: plain values that Plotly draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedbandits.experiments.figures.palette import FAINT, INK, RULE

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

# Powers are drawn a quarter larger than what is asked for.
POWERS: dict[str, Any] = {
    "type": "log",
    "dtick": 1,
    "exponentformat": "power",
    "tickfont": {"size": 11},
}
"""An axis whose ticks are powers of ten."""


def across(title: str, **settings: Any) -> dict[str, Any]:
    """Return a horizontal axis.

    Examples
    --------
    >>> across("slot t", nticks=6)["nticks"]
    6
    """
    return {
        "showgrid": False,
        "zeroline": False,
        "linecolor": FAINT,
        "ticks": "outside",
        "title": {"text": title, "font": {"size": 13}},
        **settings,
    }


def up(title: str, **settings: Any) -> dict[str, Any]:
    """Return a vertical axis."""
    return {
        "gridcolor": RULE,
        "zeroline": False,
        "automargin": True,
        "title": {"text": title, "standoff": 12, "font": {"size": 13}},
        **settings,
    }


def legend_below(y: float, **settings: Any) -> dict[str, Any]:
    """Return a legend below the axes, where long labels take nothing from them."""
    return {"x": 0, "xanchor": "left", "y": y, "yanchor": "top", **settings}


def layout(
    height: int, *, top: int = 60, bottom: int = 60, left: int = 60, right: int = 45, **parts: Any
) -> dict[str, Any]:
    """Return a layout of so many pixels, with these margins.

    Examples
    --------
    >>> layout(400, bottom=90, hovermode="closest")["margin"]
    {'l': 60, 'r': 45, 't': 60, 'b': 90}
    """
    return {
        "autosize": True,
        "height": height,
        "margin": {"l": left, "r": right, "t": top, "b": bottom},
        "font": {"family": _FONT, "size": 13, "color": INK},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "hoverlabel": {"namelength": -1, "font": {"size": 12}, "bordercolor": RULE},
        "modebar": {"orientation": "v", "bgcolor": "rgba(255,255,255,0)"},
        **parts,
    }


def drawn(
    filename: str,
    data: list[dict[str, Any]],
    layout: Mapping[str, Any],
    by_width: Mapping[str, tuple[Any, Any]] | None = None,
) -> dict[str, Any]:
    """Return a figure, with what the reader can do with it.

    Parameters
    ----------
    filename : str
        What its image is called when saved.
    data, layout
        As Plotly has them.
    by_width : mapping, optional
        What of the layout differs with the width of the screen: by path, on a narrow one and on a
        wide one.

    Returns
    -------
    dict
        ``data``, ``layout`` and ``config``, ready for JSON; ``narrow`` and ``wide``, what of the
        layout differs with the width of the screen, if anything does.
    """
    config = {
        "responsive": True,
        "displaylogo": False,
        # By name, because what Plotly shows on its own sends the chart to its makers' servers.
        "modeBarButtons": [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
        "showSendToCloud": False,
        "plotlyServerURL": "",
        "toImageButtonOptions": {"format": "svg", "filename": filename},
    }
    figure = {"data": data, "layout": layout, "config": config}
    if by_width is None:
        return figure
    narrow = {path: value for path, (value, _) in by_width.items()}
    return {
        **figure,
        "narrow": narrow,
        "wide": {path: wide for path, (_, wide) in by_width.items()},
    }
