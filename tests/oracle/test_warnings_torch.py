"""What PyTorch warns of, gradcore warns of, in the same words; and of nothing else."""

import warnings

import numpy as np
import pytest

import gradcore as gc

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

READ_ONLY = np.ones(3)
READ_ONLY.flags.writeable = False
DTYPES = ["bool", "uint8", "int64", "float16", "float32", "complex64", "complex128"]
CALLS = [
    *(f"xp.{f}(xp.ones{s}, correction={c})" for f in ("std", "var_mean") for s in ("(1)", "(3)") for c in (0, 3)),
    *(f"xp.ones(2, dtype=xp.{a}).to(xp.{b})" for a in DTYPES for b in DTYPES),
    *(f"xp.ones(2, dtype=xp.{a}).copy_(xp.ones(2, dtype=xp.{b}))" for a in DTYPES for b in DTYPES),
    *(f"xp.ones({s}).{name}" for s in ("()", "(3,)", "(2, 3)", "(2, 3, 4)") for name in ("T", "mT", "H", "mH")),
    *(f"xp.meshgrid(xp.ones(2), xp.ones(3){named})" for named in ("", ", indexing='ij'", ", indexing='xy'")),
    *(f"xp.ones(3)[xp.ones(3, dtype=xp.{d})]" for d in ("uint8", "bool", "int64")),
    *(f"xp.where(xp.tensor([2, 0]).to(xp.{d}), xp.ones(2), 3.0)" for d in ("uint8", "bool", "int64", "float32")),
    *(f"xp.ones(2, 3).{name}(xp.ones(2, 3){dim})" for name in ("cross",) for dim in ("", ", dim=1", ", 1")),
    *(f"xp.{name}(READ_ONLY)" for name in ("from_numpy", "as_tensor", "asarray", "tensor")),
    *(f"xp.cov(xp.ones{s}, correction={c})" for s in ("(1)", "(3)", "(2, 3)", "(2, 1)") for c in (0, 1, 3)),
    "xp.linalg.cross(xp.ones(3), xp.ones(3))",
    "xp.nn.functional.upsample(xp.ones(1, 1, 4), scale_factor=2)",
    "xp.nn.functional.upsample_nearest(xp.ones(1, 1, 4, 4), scale_factor=2)",
    "xp.nn.functional.upsample_bilinear(xp.ones(1, 1, 4, 4), scale_factor=2)",
    "xp.nn.functional.interpolate(xp.ones(1, 1, 4), scale_factor=2)",
    "xp.no_grad()(type('Net', (), {}))",
    "xp.no_grad()(lambda: 0)",
    "xp.ones(3, dtype=xp.complex64).mean(dtype=xp.float32)",
    "xp.ones(3, dtype=xp.complex64).sum(dtype=xp.float64)",
]  # fmt: skip


def _said(call: str, xp) -> set[tuple[str, str]]:
    xp.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                eval(call, {"xp": xp, "READ_ONLY": READ_ONLY})
            except (RuntimeError, IndexError, TypeError):
                return {("error", "")}
    finally:
        xp.set_warn_always(False)
    return {(w.category.__name__, str(w.message)[:38]) for w in heard}


@pytest.mark.parametrize("call", CALLS)
def test_warnings(call):
    assert _said(call, gc) == _said(call, torch)
