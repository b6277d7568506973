"""Results on a device against those on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import gradcore as gc

__all__ = ["TOLERANCES", "agree", "outcome"]

#: How far apart results may be, of the size of the numbers, by dtype: sums are in another order.
TOLERANCES = {
    gc.float64: 1e-8, gc.complex128: 1e-8, gc.float32: 3e-4, gc.complex64: 3e-4, gc.float16: 2e-2, gc.bfloat16: 8e-2,
}  # fmt: skip


def outcome(run: Callable[..., Sequence[Any]], *args: Any) -> list[Any] | Exception:
    """Return the tensors that a function returns, or its error."""
    try:
        with np.errstate(all="ignore"):
            return list(run(*args))
    except Exception as error:
        return error


def agree(there: Any, here: Any, label: str = "", exact: Iterable[Any] = ()) -> None:
    """Check that outcomes on the device and on the CPU are the same: dtypes, shapes, numbers, or the kind of error."""
    if isinstance(here, Exception) or isinstance(there, Exception):
        if isinstance(there, Exception) and not isinstance(here, type(there)):
            raise AssertionError(f"{label}: on the device {there!r}; on the CPU {here!r}") from there
        return
    assert len(there) == len(here), label
    for i, (a, b) in enumerate(zip(there, here, strict=True)):
        assert (a is None) == (b is None), f"{label}, result {i}: {a} for {b}"
        if a is not None:
            _alike(a, b, f"{label}, result {i}")


def _alike(there: Any, here: Any, label: str) -> None:
    assert there.dtype is here.dtype, f"{label}: {there.dtype} for {here.dtype}"
    assert there._array.dtype == there.dtype.numpy, f"{label}: a tensor of {there.dtype} holds {there._array.dtype}"
    assert there.shape == here.shape, f"{label}: {there.shape} for {here.shape}"
    a, b = (t.detach().resolve_conj().cpu() for t in (there, here))
    if there.dtype not in TOLERANCES:
        np.testing.assert_array_equal(a.numpy(), b.numpy(), label)
        return
    wide = gc.complex128 if there.dtype.is_complex else gc.float64
    bound = TOLERANCES[there.dtype]
    np.testing.assert_allclose(a.to(wide).numpy(), b.to(wide).numpy(), bound, bound, err_msg=label)
