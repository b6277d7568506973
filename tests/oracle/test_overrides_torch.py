"""Programs with subclasses of tensors, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gradcore as gc
from tests.overrides.programs import PROGRAMS

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs_give_what_pytorch_gives(program: Callable[[Any], Any]) -> None:
    assert program(gc) == program(torch)
