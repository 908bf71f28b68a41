"""Sweeps: one experiment file under many settings of its keys, as a map of the design space."""
