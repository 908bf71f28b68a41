"""Tables as figures: regret curves for print and for the page, and the map of a radio problem.

What is drawn was computed in `fedbandits.experiments.tables`; nothing is computed from results
here. Figures are made with Matplotlib's objects alone: no global state is read or changed.
"""

from fedbandits.experiments.figures.availability import availability_figure, map_names
from fedbandits.experiments.figures.curves import LOG_RATIO, NORMAL_95, shown_in_parts
from fedbandits.experiments.figures.encode import image
from fedbandits.experiments.figures.labels import spread_out
from fedbandits.experiments.figures.palette import PALETTE, ColourOf, colours
from fedbandits.experiments.figures.regret import regret_figure
from fedbandits.experiments.figures.regret_page import regret_page_figure

__all__ = [
    "LOG_RATIO",
    "NORMAL_95",
    "PALETTE",
    "ColourOf",
    "availability_figure",
    "colours",
    "image",
    "map_names",
    "regret_figure",
    "regret_page_figure",
    "shown_in_parts",
    "spread_out",
]
