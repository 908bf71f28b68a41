"""The federation on Flower, which carries the messages between the same server and clients.

Flower's own processes are in charge here: a SuperLink runs `server`, SuperNodes run `client`.
"""
