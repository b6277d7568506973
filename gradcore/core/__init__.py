"""The lowest layer, which imports nothing else of gradcore: dtypes, devices, sizes, errors, settings."""
