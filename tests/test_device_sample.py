"""The sample of tests on a device: which cases `pytest --device cuda --sample n` runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.devices import is_drawn


class Function:
    """A function of tests, as far as `is_drawn` reads it."""

    def __init__(self, share: int | None, **options: int) -> None:
        self._share, self._options, self.config = share, options, self

    def getoption(self, name: str) -> int:
        return self._options[name]

    def get_closest_marker(self, name: str) -> Any:
        return None if self._share is None or name != "sampled" else pytest.mark.sampled(self._share).mark


def drawn(folder: str, share: int | None, sample: int, seed: int = 0) -> set[int]:
    """Return the numbers of the cases of a function that are in a sample."""
    function: Any = Function(share, sample=sample, seed=seed)
    return {n for n in range(1000) if is_drawn(function, f"tests/{folder}/test_x.py::test_x[{n}]")}


def test_one_case_in_so_many() -> None:
    first, second = (drawn("nn", None, 50, seed) for seed in (0, 1))
    assert 5 < len(first) < 50
    assert first.isdisjoint(second)


def test_tests_that_alone_run_a_kernel_are_in_every_sample() -> None:
    assert len(drawn("on_device", 1, 150)) == 1000
    assert drawn("on_device", None, 150) < drawn("on_device", 5, 150)
    assert 100 < len(drawn("on_device", 5, 150)) < 400
    assert drawn("on_device", 5, 2) == drawn("on_device", None, 2)
    assert drawn("nn", 5, 150) == drawn("nn", None, 150)
