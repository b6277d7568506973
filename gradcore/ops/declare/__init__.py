"""Declarations of operations: the table, signatures, dtypes, shapes, checks, samples, docstrings."""
