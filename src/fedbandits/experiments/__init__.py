"""Experiments: file, variants, run, tables, figures, report."""
