"""The page: results that someone who has not read the paper can read, in one file, offline."""

from fedbandits.experiments.report.opening import CLEARLY
from fedbandits.experiments.report.page import report_html

__all__ = ["CLEARLY", "report_html"]
