"""Matrices on which routines fail: the same errors on the device as on the CPU, wherever the matrix is spoilt.

Not of `eigh`, where LAPACK, as in PyTorch, sometimes fails and sometimes gives NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from tests.on_device.comparing import agree, outcome

CALLS: dict[str, Callable[[Any], Any]] = {
    "cholesky": gc.linalg.cholesky,
    "cholesky_ex": lambda a: gc.linalg.cholesky_ex(a).info,
    "cond": gc.linalg.cond,
    "eig": gc.linalg.eig,
    "eigvals": gc.linalg.eigvals,
    "matrix_norm": lambda a: gc.linalg.matrix_norm(a, 2),
    "matrix_rank": gc.linalg.matrix_rank,
    "nuclear": lambda a: gc.linalg.matrix_norm(a, "nuc"),
    "pinv": gc.linalg.pinv,
    "svd": gc.linalg.svd,
    "svdvals": gc.linalg.svdvals,
}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("shape", [(3, 3), (40, 40), (2, 3, 3)], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_matrices_that_are_not_finite(name: str, shape: tuple[int, ...], value: float) -> None:
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.complex128):
        a = rng.standard_normal(shape).astype(dtype)
        a = a @ a.swapaxes(-1, -2) + 2 * np.eye(shape[-1], dtype=dtype)
        for place in ((0, 0), (shape[-1] - 1, 0), (1, 1)):
            spoilt = a.copy()
            spoilt[..., place[0], place[1]] = spoilt[..., place[1], place[0]] = value
            here, there = (outcome(_results, CALLS[name], gc.tensor(spoilt, device=d)) for d in ("cpu", "cuda"))
            assert isinstance(here, Exception) == isinstance(there, Exception), f"{place}: {there} for {here}"
            if isinstance(here, Exception):
                assert (type(there), str(there)) == (type(here), str(here))
            else:
                agree(there, here, f"{place}")


WRITES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a row": lambda x, i, v: x.__setitem__(0, v[0]),
    "rows": lambda x, i, v: x.__setitem__(i, v[0]),
    "a mask": lambda x, i, v: x.__setitem__(x == 0, v[0]),
    "index_put_": lambda x, i, v: x.index_put_((i,), v[0]),
    "index_add_": lambda x, i, v: x.index_add_(0, i, v[:1]),
    "index_copy_": lambda x, i, v: x.index_copy_(0, i, v[:1]),
    "index_fill_": lambda x, i, v: x.index_fill_(0, i, v[0]),
    "masked_fill_": lambda x, i, v: x.masked_fill_(x == 0, v[0]),
    "masked_scatter_": lambda x, i, v: x.masked_scatter_(x == 0, v),
    "put_": lambda x, i, v: x.put_(i, v[:1]),
    "scatter_": lambda x, i, v: x.scatter_(0, i, v[:1]),
    "copy_": lambda x, i, v: x.copy_(v[0]),
}


@pytest.mark.parametrize("name", WRITES)
def test_batches_are_not_written_to_tensors_without_them(name: str) -> None:
    def write(v: Any) -> Any:
        x = gc.zeros(2, device="cuda")
        WRITES[name](x, gc.tensor([1], device="cuda"), v)
        return x

    with pytest.raises(RuntimeError, match="inplace arithmetic"):
        gc.func.vmap(write)(gc.ones(3, 2, device="cuda"))


def _results(call: Callable[[Any], Any], a: Any) -> list[Any]:
    found = call(a)
    return [found] if isinstance(found, gc.Tensor) else list(found)
