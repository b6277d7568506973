"""Modules that every other may import and that import nothing: dtypes, devices, sizes, errors, settings."""
