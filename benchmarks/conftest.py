"""Options of the benchmarks; the threads are limited before NumPy is imported."""

import pytest

from benchmarks.threads import limit_threads


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--threads``."""
    parser.addoption("--threads", type=int, default=1, help="CPU threads of every library (default: 1)")


def pytest_configure(config: pytest.Config) -> None:
    """Limit the threads of what is imported from here on."""
    limit_threads(config.getoption("threads"))
