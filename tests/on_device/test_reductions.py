"""Reductions of rows that are long enough for CUB, which CuPy takes by default, against the CPU."""

from __future__ import annotations

import pytest

import gradcore as gc
from tests.on_device.comparing import agree

#: One result only, as CUB reduces to one: of whole arrays, which it does in two passes, and of contiguous rows.
NAMES = ("argmax", "argmin", "sum", "nansum", "mean", "prod", "amax", "amin")
DTYPES = (gc.float32, gc.float64, gc.float16, gc.bfloat16)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_long_rows(name: str, dtype: gc.dtype) -> None:
    x = gc.linspace(-1, 1, 3 * 200, device="cpu").sin().reshape(3, 200).to(dtype)
    x[0, 150], x[1, 7] = 1.5, -1.5
    if name == "prod":
        x = x / 8 + 1
    if name in ("argmax", "argmin", "nansum"):
        x[2, 171] = float("nan")
    for dims in ((-1,), ()):
        found, expected = (getattr(x.to(device), name)(*dims) for device in ("cuda", "cpu"))
        agree([found], [expected], f"{name} of {dtype} over {dims or 'all dims'}")
