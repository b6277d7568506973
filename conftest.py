"""Examples in docstrings say `gc` for gradcore, as the documentation does; the CPU is NumPy."""

import os
from typing import Any

import pytest

# Also where there are compiled kernels: tests/compiled has the tests of these.
os.environ["GRADCORE_COMPILED"] = "0"

import gradcore
from gradcore import errors


@pytest.fixture(autouse=True)
def _gc_in_examples(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace["gc"] = gradcore


@pytest.fixture(autouse=True)
def _warned_of_nothing() -> None:
    """Warnings that are said once in a process are said once in each test."""
    errors.SAID.clear()
