"""Privacy: rounded and noised updates, what they cost in width, and the budget they spend.

Pure functions: what a scheme adds to the variance of a client's mean, how much of a privacy budget
a release spends, and how the two are traded.
"""
