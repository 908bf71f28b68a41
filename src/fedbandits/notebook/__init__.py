"""Notebooks: values that show, draw, tabulate and save themselves, and bars of progress."""
