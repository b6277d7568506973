"""What runs below the tests is no test."""

collect_ignore = ["cupy_host.py"]
