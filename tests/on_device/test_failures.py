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


def _with(call: Callable[..., Any], *others: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda a: call(a, *(other(a) for other in others))


def _gradient(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run(a: Any) -> Any:
        a = a.clone().requires_grad_()
        slope = gc.autograd.grad(call(a).abs().sum(), a)[0]
        return slope.where(slope.isfinite(), float("inf"))  # of a matrix that has none, NaN and infinities are alike

    return run


#: Functions of matrices without an inverse. Numbers that belong to a matrix that failed are not compared.
OF_SINGULAR: dict[str, Callable[[Any], Any]] = {
    "cholesky": gc.linalg.cholesky,
    "cholesky_ex": lambda a: gc.linalg.cholesky_ex(a).info,
    "cond": lambda a: gc.linalg.cond(a, 1),
    "det": gc.linalg.det,
    "det, gradient": _gradient(gc.linalg.det),
    "inv": gc.linalg.inv,
    "inv_ex": lambda a: gc.linalg.inv_ex(a).info,
    "inv_ex, checked": lambda a: gc.linalg.inv_ex(a, check_errors=True).inverse,
    "ldl_factor": lambda a: gc.linalg.ldl_factor(a + a.mT),
    "ldl_factor_ex": lambda a: gc.linalg.ldl_factor_ex(a + a.mT).info,
    "logdet, gradient": _gradient(lambda a: gc.linalg.slogdet(a).logabsdet),
    "lstsq": lambda a: gc.linalg.lstsq(a, gc.ones_like(a)).rank,
    "lu": lambda a: gc.linalg.lu(a).U,
    "lu_factor": gc.linalg.lu_factor,
    "lu_factor, wide": lambda a: gc.linalg.lu_factor(a[..., :-1, :]).LU,
    "lu_factor, tall": lambda a: gc.linalg.lu_factor(a[..., :-1]).LU,
    "lu_factor_ex": lambda a: gc.linalg.lu_factor_ex(a).info,
    "matrix_power": lambda a: gc.linalg.matrix_power(a, -2),
    "matrix_rank": gc.linalg.matrix_rank,
    "pinv": gc.linalg.pinv,
    "slogdet": gc.linalg.slogdet,
    "solve": _with(gc.linalg.solve, gc.ones_like),
    "solve of a batch": lambda a: gc.linalg.solve(a, gc.ones(2, *a.shape, dtype=a.dtype, device=a.device)),
    "solve, from the right": lambda a: gc.linalg.solve(a, gc.ones_like(a), left=False),
    "solve_ex": lambda a: gc.linalg.solve_ex(a, gc.ones_like(a)).info,
    "tensorinv": lambda a: gc.linalg.tensorinv(a, ind=1) if a.ndim == 2 else gc.linalg.inv(a),
}


@pytest.mark.parametrize("kind", ["a row", "a column", "the diagonal", "nothing"])
@pytest.mark.parametrize("shape", [(3, 3), (40, 40), (5, 4, 4), (2, 1, 3, 3)], ids=str)
@pytest.mark.parametrize("name", OF_SINGULAR)
def test_matrices_without_an_inverse(name: str, shape: tuple[int, ...], kind: str) -> None:
    """Raise the CPU's error, or return its results, for a batch whose last matrix has zeros (`kind`: where)."""
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.complex128):
        a = rng.integers(-3, 4, shape).astype(dtype) + shape[-1] * np.eye(shape[-1], dtype=dtype)
        spoilt = a[-1] if a.ndim > 2 else a
        if kind == "the diagonal":
            a[...] = np.triu(a)
        if kind != "nothing":
            place = {"a row": np.s_[..., 1, :], "a column": np.s_[..., 1], "the diagonal": np.s_[..., 1, 1]}[kind]
            spoilt[place] = 0
        here, there = (outcome(_results, OF_SINGULAR[name], gc.tensor(a, device=d)) for d in ("cpu", "cuda"))
        assert isinstance(here, Exception) == isinstance(there, Exception), f"{there} for {here}"
        if isinstance(here, Exception):
            assert (type(there), str(there)) == (type(here), str(here))
        else:
            agree(there, here, f"{name} of {dtype.__name__}")


def test_large_matrices_are_factored_one_by_one() -> None:
    """Solve two large systems, and two right-hand sides with one matrix: cuBLAS's batched routines are slow there."""

    def run(device: str) -> list[Any]:
        rng = np.random.default_rng(0)
        a = gc.tensor(rng.standard_normal((2, 300, 300)) + 40 * np.eye(300), device=device, requires_grad=True)
        b = gc.tensor(rng.standard_normal((2, 300, 3)), device=device, requires_grad=True)
        x, y = gc.linalg.solve(a, b), gc.linalg.solve(a[0], b)
        return [x, y, gc.linalg.inv(a[1]), *gc.autograd.grad((x * y).sum(), [a, b])]

    agree(outcome(run, "cuda"), outcome(run, "cpu"))


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


def test_joins_of_tensors_without_dims() -> None:
    here, there = (outcome(gc.cat, [gc.tensor(1.0, device=d), gc.tensor(2.0, device=d)]) for d in ("cpu", "cuda"))
    assert (type(there), str(there)) == (type(here), str(here))
