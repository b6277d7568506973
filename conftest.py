"""Examples in docstrings say `gc` for gradcore, as the documentation does."""

from typing import Any

import pytest

import gradcore


@pytest.fixture(autouse=True)
def _gc_in_examples(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace["gc"] = gradcore
