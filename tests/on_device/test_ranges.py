"""Elementwise operations over the whole range of arguments: huge, tiny, infinite, no numbers, zeros with a sign."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.ops.declare.table import OPS, Op
from gradcore.ops.special.polynomials import HIGHEST
from tests.on_device.comparing import outcome

FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.1, 0.5, -0.5, 2.0, -2.0, 3.0, 7.0, -7.0, 10.0, 20.0, -20.0, 50.0, 88.0, -88.0, 89.0, 100.0,
    -100.0, 255.0, 700.0, -700.0, 1e4, -1e4, 65504.0, 1e6, 1e8, -1e8, 1e15, 1e30, 1e-3, 1e-6, -1e-10, 1e-30,
    np.inf, -np.inf, np.nan,
]  # fmt: skip
INTS = [
    0, 1, 2, 3, 5, 7, 31, 32, 63, 64, 100, 127, -1, -2, -3, -7, -128, 255, 1000, -1000, 2**31 - 1, -(2**31), 2**62,
    -(2**63),
]  # fmt: skip

#: Relative bounds: functions of CUDA, and SciPy's, are not all exact to the last digit.
BOUNDS = {
    gc.float16: 2e-3,
    gc.bfloat16: 1.6e-2,
    gc.float32: 2e-5,
    gc.float64: 1e-9,
    gc.complex64: 1e-3,
    gc.complex128: 1e-8,
}
DTYPES = [*BOUNDS, gc.int64, gc.int32, gc.int8, gc.uint8, gc.bool]

#: Where zeros may have either sign: where two are equal, and where SciPy's functions, or NumPy's of halves, lose it.
EITHER_ZERO = {
    "celu", "clamp_max_number", "clamp_max_tensor", "clamp_min_number", "clamp_min_tensor", "elu", "erfinv", "fmax",
    "fmin", "hinge", "i1", "i1e", "maximum", "minimum", "modified_bessel_i1", "ndtri", "relu", "selu",
}  # fmt: skip

#: Up to which size arguments are compared: beyond it SciPy's numbers are worse than CUDA's.
UP_TO = dict.fromkeys(("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"), 1e6)

#: Whose complex arguments are compared over the whole range, infinities and NaN in either part included.
EVERY_COMPLEX = {"div", "exp", "exp2", "log", "log10", "log2", "reciprocal", "sqrt", "tanh"}

#: The largest degree that is compared: a product of a larger one with an angle has no digit left.
LARGEST_DEGREE = 9e14  # below bfloat16's neighbour of 1e15
#: Degrees of polynomials from here to `HIGHEST` are left out: each is some launches more of the same kernels.
MANY_STEPS = 2000


def _is_plain(op: Op) -> bool:
    required = [p for p in op.parameters if p.default is p.empty]
    return op.kind == "elementwise" and len(required) == len(op.tensors) < 3


OPERATIONS = sorted(name for name, op in OPS.items() if _is_plain(op))


def arguments(op: Op, dtype: Any) -> list[Any]:
    """Values for all operands of an operation, each with each."""
    limit = UP_TO.get(op.name, np.inf)
    with np.errstate(all="ignore"):
        if dtype.is_complex:
            every = [x for x in FLOATS if not 0 < abs(x) < 1e-6]  # ratios are normal numbers
            parts = every if op.name in EVERY_COMPLEX else [x for x in FLOATS[::2] if abs(x) < 1e3]
            x = gc.tensor([complex(a, b) for a in parts for b in parts], dtype=gc.complex128, device="cpu").to(dtype)
            x = x[:: 23 if op.name in EVERY_COMPLEX else 7] if len(op.tensors) == 2 else x
        elif dtype.is_floating_point:
            found = gc.tensor([v for v in FLOATS if not abs(v) > limit], dtype=gc.float64, device="cpu").to(dtype)
            x = found[~(found.double().abs() > limit)]
        else:
            x = gc.tensor([v for v in INTS if abs(v) <= limit], dtype=gc.int64, device="cpu").to(dtype)
    n = len(x)
    if len(op.tensors) == 1:
        return [x]
    first, second = x.repeat_interleave(n), x.repeat(n)
    if "polynomial" in op.name:
        size = second.double().abs()
        keep = ((size < LARGEST_DEGREE) | ~size.isfinite()) & ((size < MANY_STEPS) | (size > HIGHEST))
        first, second = first[keep], second[keep]
    return [first, second]


def apart(op: Op, given: list[Any], there: Any, here: Any) -> Any:
    """Where two results are not the same."""
    if not (here.dtype.is_floating_point or here.dtype.is_complex):
        return (there != here).numpy()
    bound = BOUNDS[here.dtype]
    if here.dtype.is_complex and op.name in EVERY_COMPLEX:
        parts = ((there.real + 0.0, here.real + 0.0), (there.imag + 0.0, here.imag + 0.0))
        return np.logical_or(*(apart(op, given, *part) for part in parts))
    if here.dtype.is_complex:
        a, b = there.to(gc.complex128).numpy(), here.to(gc.complex128).numpy()
        with np.errstate(all="ignore"):
            return ~((np.abs(a - b) <= bound * np.abs(b) + 1e-30) | (a == b) | ~np.isfinite(b))
    tiny: Any = 4 * float(gc.finfo(here.dtype).smallest_normal)
    if "polynomial" in op.name:  # of high degrees, near a zero: what is left of a multiple of an angle
        tiny = tiny + 4 * np.finfo(np.float64).eps * np.nan_to_num(given[1].double().numpy(), posinf=0, neginf=0).clip(
            0
        )
    if op.name == "ndtri":  # at 0.5, where it is zero
        tiny = max(tiny, 1e-16)
    a, b = there.double().numpy(), here.double().numpy()
    with np.errstate(all="ignore"):
        other = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= bound * np.abs(b) + tiny))
    if op.name not in EITHER_ZERO:
        other |= (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
    return other


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.filterwarnings("ignore")
def test_numbers_are_those_of_the_cpu(name: str, fused: bool) -> None:
    op = OPS[name]
    for dtype in DTYPES if fused else DTYPES[:4]:
        given = arguments(op, dtype)
        here = outcome(lambda *x: [op.call(*x)], *given)
        if (
            isinstance(here, Exception) and len(given) == 2 and not dtype.is_complex
        ):  # a divisor that is zero, or an exponent below it
            keep = given[1] > 0
            given = [x[keep] for x in given]
            here = outcome(lambda *x: [op.call(*x)], *given)
        there = outcome(lambda *x: [op.call(*(t.to("cuda") for t in x))], *given)
        if isinstance(here, Exception):
            assert isinstance(there, Exception), f"{name}, {dtype}: only the CPU raises {here!r}"
            continue
        assert not isinstance(there, Exception), f"{name}, {dtype}: {there!r}"
        pairs = zip(*(r[0] if isinstance(r[0], tuple) else r for r in (there, here)), strict=True)
        for a, b in pairs:
            assert a.dtype is b.dtype
            a = a.cpu()
            places = np.flatnonzero(apart(op, given, a, b))[:5].tolist()
            found = [([x[i].item() for x in given], a[i].item(), b[i].item()) for i in places]
            assert not found, f"{name}, {dtype}: {found} (arguments, on the device, on the CPU)"


# -- gradients ---------------------------------------------------------------------------------------------------------

#: Where products of complex numbers overflow, a CPU that contracts products and sums has infinities instead of NaN.
OVERFLOWING = {"ldexp", "mul", "pow_tensor", "reciprocal", "square", "tanh_backward"}
#: Whose formulas take nearly equal numbers from each other far from zero: they have no digits there, only a size.
CANCELLING = {
    "erfcx", "i0e", "i1e", "log_ndtr", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "tan", "tanh",
}  # fmt: skip
#: Outside whose domain SciPy's and C's logarithms of gamma have infinities of other signs.
NOT_COMPARED = {"igamma", "igammac"}


def gradients(op: Op, given: list[Any], device: str) -> list[Any]:
    """Those of all outputs by all operands."""
    xs = [x.to(device).requires_grad_() for x in given]
    found = op.call(*xs)
    outs = [out for out in (found if isinstance(found, tuple) else [found]) if out.requires_grad]
    weights = [gc.full_like(out, 1 + 0.5j) if out.dtype.is_complex else gc.ones_like(out) for out in outs]
    return list(gc.autograd.grad(outs, xs, weights, allow_unused=True)) if outs else []


def unlike(op: Op, there: Any, here: Any) -> Any:
    """Where a gradient is a number on one side only, or both are others."""
    kind = gc.complex128 if here.dtype.is_complex else gc.float64
    a, b = there.cpu().to(kind).numpy(), here.to(kind).numpy()
    tiny: Any = 4 * float(gc.finfo(here.dtype).smallest_normal)
    with np.errstate(all="ignore"):
        other = np.isfinite(a) & np.isfinite(b) & ~(np.abs(a - b) <= 4 * BOUNDS[here.dtype] * np.abs(b) + tiny)
    if op.name in CANCELLING:
        other = np.zeros(a.shape, bool)
    if here.dtype.is_complex and op.name in OVERFLOWING:
        return other
    return other | (np.isfinite(a) != np.isfinite(b))


COMPARED = [n for n in OPERATIONS if OPS[n].differentials and "polynomial" not in n and n not in NOT_COMPARED]


@pytest.mark.parametrize("name", COMPARED)
@pytest.mark.filterwarnings("ignore")
def test_gradients_are_those_of_the_cpu(name: str, fused: bool) -> None:
    op = OPS[name]
    for dtype in BOUNDS:
        given = arguments(op, dtype)
        here, there = (outcome(gradients, op, given, device) for device in ("cpu", "cuda"))
        if isinstance(here, Exception):
            assert isinstance(there, Exception), f"{name}, {dtype}: only the CPU raises {here!r}"
            continue
        assert not isinstance(there, Exception), f"{name}, {dtype}: {there!r}"
        for i, (a, b) in enumerate(zip(there, here, strict=True)):
            assert (a is None) == (b is None)
            if a is not None:
                places = np.flatnonzero(unlike(op, a, b))[:5].tolist()
                found = [([x[k].item() for x in given], a[k].item(), b[k].item()) for k in places]
                assert not found, f"{name}, {dtype}: {found} (arguments, gradient {i} on the device, on the CPU)"
