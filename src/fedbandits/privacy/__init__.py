"""Privacy: updates that are rounded or get noise, what that costs in width, and the budget.

Pure functions: what a scheme adds to the variance of a client's mean, how much of a privacy budget
a release spends, and how the two are traded.
"""
