"""The in-process message loop: a server and its clients in one thread, in memory."""

from fedbandits.loopback.loop import play

__all__ = ["play"]
