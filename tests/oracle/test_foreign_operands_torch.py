"""Operators of a tensor and a number of Python's or NumPy's, on both sides, against PyTorch."""

import operator
import warnings

import numpy as np
import pytest

import gradcore as gc

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

OPERATORS = {
    name: getattr(operator, name)
    for name in [
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "matmul",
        "and_",
        "or_",
        "xor",
        "lshift",
        "rshift",
        "lt",
        "le",
        "gt",
        "ge",
        "eq",
        "ne",
    ]
}
DTYPES = ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int64", "bool", "complex64"]
SCALARS = {name: np.dtype(name).type(2) for name in ["float64", "float32", "int64", "int8", "uint16", "complex128"]} | {
    "bool of Python": True,
    "int": 2,
    "float": 2.0,
    "complex": 2 + 0j,
}
#: Where gradcore has a result and PyTorch an error: bools are subtracted from, and raised to powers.
ACCEPTED = {("bool of Python", "sub"), ("bool of Python", "pow")}


def outcome(function, left, right):
    """Return the dtype, shape and (rounded) values of a result, or None for an error."""
    try:
        result = function(left, right)
    except Exception:
        return None
    dtype = str(result.dtype).removeprefix("torch.").replace("complex32", "complex64")
    return dtype, tuple(result.shape), np.round(np.array(result.tolist(), "c16"), 6).tolist()


def rows(shape):
    for name in DTYPES:
        yield name, torch.full(shape, 3).to(getattr(torch, name)), gc.full(shape, 3).to(getattr(gc, name))


@pytest.mark.parametrize("on_left", [True, False], ids=["left", "right"])
@pytest.mark.parametrize("shape", [(2,), ()], ids=["dims", "no dims"])
def test_scalars_are_weak(on_left, shape):
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of float16 that overflows, and of ComplexHalf
        for dtype, theirs, ours in rows(shape):
            for (kind, scalar), (name, function) in ((s, f) for s in SCALARS.items() for f in OPERATORS.items()):
                if (kind.startswith("complex"), dtype, name) in {
                    (True, "float16", "pow"),
                    (True, "float16", "truediv"),
                }:
                    continue  # complex32, in which PyTorch has few operations, and gradcore computes in complex64
                expected, found = (
                    outcome(function, *((scalar, t) if on_left else (t, scalar))) for t in (theirs, ours)
                )
                if expected != found and not (expected is None and (kind, name) in ACCEPTED):
                    wrong.append((kind, name, dtype, expected, found))
    assert not wrong
