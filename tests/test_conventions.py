"""Derivatives at corners, ties, bounds and zeros are what docs/conventions.md says."""

import pytest

import gradcore as gc
from tests.conventions import CONVENTIONS, TEXT, Convention, evaluate


@pytest.mark.parametrize("line", CONVENTIONS, ids=lambda line: f"{line.expression} at {line.point}")
def test_gradient_is_as_documented(line: Convention) -> None:
    assert evaluate(gc, line) == line.ours


def test_every_line_is_read() -> None:
    assert len(CONVENTIONS) == TEXT.count("\n| `") > 50
