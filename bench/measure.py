"""What benchmarks share: rows with a bar, medians of interleaved rounds, and the table."""

from __future__ import annotations


