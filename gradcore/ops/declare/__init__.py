"""How operations are declared: the table, signatures, dtypes, shapes, checks, samples, docstrings."""
