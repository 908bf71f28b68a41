"""The plan command, and the means of the game of figure 4."""

from __future__ import annotations

import subprocess
from pathlib import Path

import commands

MEANS = (0.70, 0.71, 0.72, 0.73, 0.74, 0.75, 0.76, 0.765, 0.77, 0.79)


def command(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return commands.command("plan", *words)
