"""What compares a device with the CPU, and so needs one: ``pytest --device cuda``."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _needs_a_device(device: str) -> None:
    if device == "cpu":
        pytest.skip("compares a device with the CPU: pytest --device cuda")
