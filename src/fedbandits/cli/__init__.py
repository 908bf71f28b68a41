"""The command ``fedbandits``."""

from fedbandits.cli.main import main

__all__ = ["main"]
