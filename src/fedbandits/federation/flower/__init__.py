"""The federation on Flower, which carries the messages; server and clients are the same machines.

Flower's own processes are in charge here: a SuperLink runs `server`, SuperNodes run `client`.
"""
