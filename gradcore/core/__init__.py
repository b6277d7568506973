"""What every module may import, and what imports nothing: dtypes, devices, sizes, errors, settings."""
