"""A fair contest: every algorithm with the same parameters on all of many games."""
