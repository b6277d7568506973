"""Writes that read the memory they write to: NumPy copies first, CuPy does not, and the strict device refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends import registry
from tests.strict.device import StrictError


def places(x: Any, *rows: int) -> Any:
    return gc.tensor(rows, device=x.device)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "copy, shifted": lambda x: x[1:].copy_(x[:-1]),
    "copy, transposed": lambda x: x.copy_(x.t()),
    "copy, upside down": lambda x: x.copy_(x.flip(0)),
    "assignment, shifted": lambda x: x.__setitem__(slice(1, None), x[:-1]),
    "assignment by index": lambda x: x.__setitem__(places(x, 0, 1, 2), x[1:]),
    "assignment that swaps": lambda x: x.__setitem__(places(x, 0, 1), x[[1, 0]]),
    "fill with an element": lambda x: x.fill_(x[1, 1]),
    "add, shifted": lambda x: x[1:].add_(x[:-1]),
    "add, transposed": lambda x: x.add_(x.t()),
    "multiply by a row": lambda x: x.mul_(x[0]),
    "subtract an element": lambda x: x.sub_(x[0, 0]),
    "scatter": lambda x: x.scatter_(0, places(x, 1, 2, 3, 0)[None], x[:1]),
    "index_add": lambda x: x.index_add_(0, places(x, 1, 2), x[:2]),
    "out": lambda x: gc.mul(x, x.t(), out=x),
    "out of a product": lambda x: gc.matmul(x, x, out=x),
    "lerp": lambda x: x.lerp_(x.t(), 0.5),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_a_copy(strict: str, name: str) -> None:
    found = []
    for device in ("cpu", strict):
        x = gc.arange(16.0).reshape(4, 4).to(device)
        PROGRAMS[name](x)
        found.append(x.cpu().numpy())
    np.testing.assert_array_equal(*found)


def test_the_device_refuses(strict: str) -> None:
    x = registry.find("strict").from_host(np.arange(4.0))
    xp = registry.find("strict").xp
    for write in (
        lambda: x.__setitem__(slice(1, None), x[:-1]),
        lambda: x[1:].__iadd__(x[:-1]),
        lambda: xp.add(x[1:], x[:-1], out=x[1:]),
        lambda: xp.copyto(x, x[::-1]),
    ):
        with pytest.raises(StrictError, match="reads memory that it writes in another order"):
            write()
    x[...] = x[::1]
    x[2:] += x[:2]
