"""Operations in each dtype that they have on the CPU: the strict device gives the same, the meta device the shape."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.ops.declare.table import Op
from tests.ops.cases import ALL, Drawn

#: Tolerances of values: both devices compute alike, but not always in the same order.
TOLERANCES = {
    gc.float16: 2e-3, gc.bfloat16: 2e-2, gc.float32: 2e-4, gc.complex64: 2e-4, gc.float64: 1e-7, gc.complex128: 1e-7,
}  # fmt: skip


def is_numeric(op: Op) -> bool:
    """Whether an operation is for real or complex numbers alone: what networks are made of, and factorisations."""
    return op.path.startswith(("nn.", "linalg.")) or op.name in (
        "geqrf", "local_response_norm", "lu", "matrix_log", "matrix_sqrt", "rnn_sequence", "sylvester_solved",
    )  # fmt: skip


def converted(a: np.ndarray[Any, Any], dtype: gc.dtype) -> gc.Tensor:
    """Convert a floating-point sample to another dtype, and return other samples (indices, masks) unchanged."""
    if a.dtype.kind not in "fc" or (dtype in (gc.float16, gc.bfloat16) and a.dtype.kind == "c"):
        return gc.tensor(a)
    if dtype.is_complex and a.dtype.kind != "c":
        a = a + 0.5j * a[..., ::-1] if a.ndim else a + 0.25j
    if dtype in (gc.uint8, gc.int64, gc.bool):
        a = np.nan_to_num(a.real)
    return gc.tensor(abs(a) if dtype is gc.uint8 else a).to(dtype)


def values(t: gc.Tensor) -> Any:
    t = t.detach().cpu()
    return np.asarray((t.float() if t.dtype is gc.bfloat16 else t).numpy())


DTYPES = [gc.float32, gc.float16, gc.bfloat16, gc.complex64, gc.int64, gc.uint8, gc.bool]


def chosen_cases(dtype: gc.dtype) -> list[Drawn]:
    """Return all cases for float32; for other dtypes the first of each operation, and every second other one."""
    whole = not (dtype.is_floating_point or dtype.is_complex)
    cases = [case for case in ALL if not case.op.random and not (whole and is_numeric(case.op))]
    chosen, place = [], dict.fromkeys((case.op for case in cases), 0)
    for case in cases:
        if dtype is gc.float32 or not place[case.op] or (place[case.op] + DTYPES.index(dtype)) % 2:
            chosen.append(case)
        place[case.op] += 1
    return chosen


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_devices_agree(strict: str, dtype: gc.dtype) -> None:
    if dtype is gc.bfloat16:
        pytest.importorskip("ml_dtypes")
    failures, compared = [], 0
    for case in chosen_cases(dtype):
        inputs = [converted(a, dtype) for a in case.arrays()]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                expected = case.outputs(inputs)
            except (RuntimeError, TypeError, ValueError, IndexError, OverflowError):
                continue  # not in this dtype
            try:
                found = case.outputs([t.to(strict) for t in inputs])
                traced = expected if case.op.data_dependent else case.outputs([t.to("meta") for t in inputs])
            except Exception as error:
                failures.append(f"{case.label}: {type(error).__name__}: {error}")
                continue
        compared += 1
        for e, f, t in zip(expected, found, traced, strict=True):
            tolerance = TOLERANCES.get(e.dtype, 0)
            if not e.dtype is f.dtype is t.dtype:
                failures.append(f"{case.label}: dtypes {e.dtype}, {f.dtype} and {t.dtype}")
            elif not e.shape == f.shape == t.shape:
                failures.append(f"{case.label}: shapes {e.shape}, {f.shape} and {t.shape}")
            elif not np.allclose(values(f), values(e), tolerance, tolerance, equal_nan=True):
                failures.append(f"{case.label}: values")
    assert not failures, "\n".join(failures)
    assert compared > 300
