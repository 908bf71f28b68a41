"""The in-process message loop: a server and its clients in one thread, in memory."""

from fedbandits.loopback.loop import RejectionError, play

__all__ = ["RejectionError", "play"]
