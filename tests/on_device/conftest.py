"""What compares a device with the CPU, and so needs one: ``pytest --device cuda``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import gradcore as gc


@pytest.fixture(autouse=True)
def _needs_a_device(device: str) -> None:
    if device == "cpu":
        pytest.skip("compares a device with the CPU: pytest --device cuda")


@pytest.fixture(params=[True, False], ids=["generated", "CuPy's"])
def fused(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether elementwise formulas are generated kernels, or CuPy's functions one after the other."""
    gc.cuda.set_fusion(request.param)
    yield request.param
    gc.cuda.set_fusion(True)
