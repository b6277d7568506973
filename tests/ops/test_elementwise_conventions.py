"""Elementwise operations where derivatives are not unique, at infinities and NaN: the conventions are PyTorch's.

Values and gradients stand here as PyTorch 2.13 gives them. Every line is checked for a few elements and for many, as
large arrays have kernels of their own, with the formula on arrays and with the formula on tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
import gradcore.nn.functional as F

inf, nan = math.inf, math.nan
Points = dict[float, tuple[float, float]]

#: Expression: points, each with the value there and the gradient.
UNARY: list[tuple[str, Callable[[Any], Any], Points]] = [
    ("abs", gc.abs, {-0.0: (0, 0), nan: (nan, 0), -inf: (inf, -1)}),
    ("sign", gc.sign, {0.0: (0, 0), -2.0: (-1, 0), nan: (0, 0)}),
    ("sgn", gc.sgn, {0.0: (0, 0), -2.0: (-1, 0)}),
    ("sqrt", gc.sqrt, {0.0: (0, inf), -1.0: (nan, nan)}),
    ("rsqrt", gc.rsqrt, {0.0: (inf, -inf)}),
    ("reciprocal", gc.reciprocal, {0.0: (inf, -inf)}),
    ("log", gc.log, {0.0: (-inf, inf), -1.0: (nan, -1)}),
    ("log1p", gc.log1p, {-1.0: (-inf, inf)}),
    ("asin", gc.asin, {-1.0: (-math.pi / 2, inf), 1.0: (math.pi / 2, inf)}),
    ("acos", gc.acos, {-1.0: (math.pi, -inf), 1.0: (0, -inf)}),
    ("acosh", gc.acosh, {1.0: (0, inf)}),
    ("atanh", gc.atanh, {-1.0: (-inf, inf), 1.0: (inf, inf)}),
    ("sinc", gc.sinc, {0.0: (1, 0)}),
    ("floor", gc.floor, {1.0: (1, 0), 1.5: (1, 0)}),
    ("round", gc.round, {0.5: (0, 0), 1.5: (2, 0), 2.5: (2, 0)}),
    ("frac", gc.frac, {1.0: (0, 1), -1.5: (-0.5, 1)}),
    ("nan_to_num", lambda x: gc.nan_to_num(x, 1, 2, 3), {nan: (1, 0), inf: (2, 0), -inf: (3, 0), 4.0: (4, 1)}),
    (
        "nan_to_num by infinities",
        lambda x: gc.nan_to_num(x, inf, -inf, nan),
        {nan: (inf, 0), inf: (-inf, 0), -inf: (nan, 0)},
    ),
    ("angle", gc.angle, {0.0: (0, 0), -1.0: (math.pi, 0), nan: (nan, 0)}),
    ("copysign(-1)", lambda x: gc.copysign(x, -1), {0.0: (0, 0), 2.0: (-2, -1), -2.0: (-2, 1)}),
    ("sigmoid", gc.sigmoid, {-1000.0: (0, 0), 1000.0: (1, 0), nan: (nan, nan)}),
    ("logit", gc.logit, {0.0: (-inf, inf), 1.0: (inf, inf), 2.0: (nan, nan)}),
    ("logit(eps)", lambda x: gc.logit(x, 0.25), {0.25: (-math.log(3), 16 / 3), 0.2: (-math.log(3), 0)}),
    ("erfinv", gc.erfinv, {1.0: (inf, inf), -1.0: (-inf, inf)}),
    ("lgamma", gc.lgamma, {0.0: (inf, -inf), -1.0: (inf, nan), inf: (inf, inf)}),
    ("i1", gc.special.i1, {0.0: (0, 0.5)}),
    ("i0e", gc.special.i0e, {0.0: (1, 0)}),
    ("i1e", gc.special.i1e, {0.0: (0, 0.5)}),
    ("entr", gc.special.entr, {0.0: (0, inf), -1.0: (-inf, nan)}),
    ("xlogy(0, x)", lambda x: gc.xlogy(0, x), {0.0: (0, nan), 2.0: (0, 0), nan: (nan, nan)}),
    # powers
    ("x ** 0", lambda x: x**0, {0.0: (1, 0), 2.0: (1, 0), nan: (1, 0)}),
    ("x ** 1", lambda x: x**1, {0.0: (0, 1)}),
    ("x ** 2", lambda x: x**2, {0.0: (0, 0), -3.0: (9, -6)}),
    ("x ** 5", lambda x: x**5, {0.0: (0, 0), -2.0: (-32, 80)}),
    ("x ** 0.5", lambda x: x**0.5, {0.0: (0, inf), -1.0: (nan, nan)}),
    ("x ** -1", lambda x: x**-1, {0.0: (inf, -inf), -2.0: (-0.5, -0.25)}),
    ("x ** 2.5", lambda x: x**2.5, {0.0: (0, 0), 4.0: (32, 20), -1.0: (nan, nan)}),
    ("0 ** x", lambda x: 0.0**x, {0.0: (1, 0), 1.0: (0, 0), -1.0: (inf, -inf)}),
    # bounds
    ("clamp", lambda x: x.clamp(-1, 1), {-1.0: (-1, 1), 1.0: (1, 1), 2.0: (1, 0), nan: (nan, 0)}),
    ("clamp, min > max", lambda x: x.clamp(1, -1), {-1.0: (-1, 0), 0.0: (-1, 0), 1.0: (-1, 0)}),
    ("clamp(min=0)", lambda x: x.clamp(min=0), {0.0: (0, 1), -1.0: (0, 0), nan: (nan, 0)}),
    ("clamp(max=0)", lambda x: x.clamp(max=0), {0.0: (0, 1), 1.0: (0, 0)}),
    ("clamp_min(0)", lambda x: x.clamp_min(0), {0.0: (0, 1), -1.0: (0, 0)}),
    ("clamp_max(0)", lambda x: x.clamp_max(0), {0.0: (0, 1), 1.0: (0, 0)}),
    # activations
    ("relu", F.relu, {0.0: (0, 0), nan: (nan, 1), -inf: (0, 0), inf: (inf, 1)}),
    ("relu6", F.relu6, {0.0: (0, 0), 6.0: (6, 0), 3.0: (3, 1)}),
    ("hardtanh", F.hardtanh, {-1.0: (-1, 0), 1.0: (1, 0), 0.0: (0, 1)}),
    ("leaky_relu", F.leaky_relu, {0.0: (0, 0.01), -1.0: (-0.01, 0.01), nan: (nan, 0.01)}),
    ("leaky_relu(2)", lambda x: F.leaky_relu(x, 2.0), {0.0: (0, 2), -1.0: (-2, 2), 1.0: (1, 1)}),
    ("elu", F.elu, {0.0: (0, 1), nan: (nan, 1), -inf: (-1, 0)}),
    ("elu(2)", lambda x: F.elu(x, 2.0), {0.0: (0, 2), 1.0: (1, 1)}),
    ("selu", F.selu, {0.0: (0, 1.7580993408473766), nan: (nan, 1.0507009873554805)}),
    ("celu", F.celu, {0.0: (0, 1), nan: (nan, 1)}),
    ("hardsigmoid", F.hardsigmoid, {-3.0: (0, 0), 0.0: (0.5, 1 / 6), 3.0: (1, 0)}),
    ("hardswish", F.hardswish, {-3.0: (0, 0), 0.0: (0, 0.5), 3.0: (3, 1)}),
    ("hardshrink", F.hardshrink, {-0.5: (0, 0), 0.5: (0, 0), 0.75: (0.75, 1), nan: (nan, 1)}),
    ("softshrink", F.softshrink, {-0.5: (0, 0), 0.5: (0, 0), 0.75: (0.25, 1)}),
    ("threshold", lambda x: F.threshold(x, 1, 9), {1.0: (9, 0), 1.5: (1.5, 1), nan: (nan, 1)}),
    ("softplus", F.softplus, {0.0: (math.log(2), 0.5), -1000.0: (0, 0), 1000.0: (1000, 1)}),
    ("softplus(1, 2)", lambda x: F.softplus(x, 1, 2), {2.0: (2.1269280110429727, 0.8807970779778824), 2.5: (2.5, 1)}),
    ("logsigmoid", F.logsigmoid, {0.0: (-math.log(2), 0.5), -1000.0: (-1000, 1), 1000.0: (0, 0)}),
    ("silu", F.silu, {0.0: (0, 0.5), -1000.0: (0, 0)}),
    ("gelu", F.gelu, {0.0: (0, 0.5), -100.0: (0, 0), 100.0: (100, 1)}),
    ("rrelu", F.rrelu, {0.0: (0, 11 / 48), -48.0: (-11, 11 / 48)}),
]

#: Expression: points, each with the value there and the gradients.
BINARY: list[tuple[str, Callable[[Any, Any], Any], dict[tuple[float, float], tuple[float, float, float]]]] = [
    ("maximum", gc.maximum, {(1, 1): (1, 0.5, 0.5), (1, 2): (2, 0, 1), (nan, 1): (nan, 1, 1), (1, nan): (nan, 1, 1)}),
    ("minimum", gc.minimum, {(1, 1): (1, 0.5, 0.5), (1, 2): (1, 1, 0), (nan, 1): (nan, 1, 1), (1, nan): (nan, 1, 1)}),
    ("fmax", gc.fmax, {(1, 1): (1, 1, 0), (1, 2): (2, 0, 1), (nan, 1): (1, 0, 1), (1, nan): (1, 1, 0)}),
    ("fmin", gc.fmin, {(1, 1): (1, 1, 0), (2, 1): (1, 0, 1), (nan, 1): (1, 0, 1), (1, nan): (1, 1, 0)}),
    ("clamp(min=y)", lambda x, y: x.clamp(min=y), {(1, 1): (1, 1, 0), (1, 2): (2, 0, 1), (nan, 1): (nan, 0, 0)}),
    ("clamp(max=y)", lambda x, y: x.clamp(max=y), {(1, 1): (1, 1, 0), (2, 1): (1, 0, 1), (1, nan): (nan, 0, 0)}),
    ("pow", gc.pow, {(0, 0): (1, 0, 0), (0, 1): (0, 1, 0), (0, -1): (inf, -inf, -inf), (-1, 2): (1, -2, nan)}),
    ("atan2", gc.atan2, {(0, -1): (math.pi, -1, 0), (1, 0): (math.pi / 2, 0, -1), (0, 0): (0, 0, 0)}),
    ("hypot", gc.hypot, {(3, 4): (5, 0.6, 0.8), (0, 4): (4, 0, 1)}),
    ("xlogy", gc.xlogy, {(0, 2): (0, math.log(2), 0), (1, 0): (-inf, -inf, inf), (0, -1): (0, 0, 0)}),
    ("fmod", gc.fmod, {(5, 3): (2, 1, -1), (-5, 3): (-2, 1, 1)}),
    ("remainder", gc.remainder, {(5, 3): (2, 1, -1), (-5, 3): (1, 1, 2)}),
    ("div, floor", lambda x, y: gc.div(x, y, rounding_mode="floor"), {(5, 3): (1, 0, 0), (-5, 3): (-2, 0, 0)}),
    ("div, trunc", lambda x, y: gc.div(x, y, rounding_mode="trunc"), {(5, 3): (1, 0, 0), (-5, 3): (-1, 0, 0)}),
    ("div", gc.div, {(1, 0): (inf, inf, -inf), (0, 0): (nan, inf, nan)}),
    ("copysign", gc.copysign, {(0, -1): (0, 0, 0), (2, -1): (-2, -1, 0), (-2, 0): (2, -1, 0)}),
    ("nextafter", gc.nextafter, {(1, 1): (1, 0, 0)}),
    ("logaddexp", gc.logaddexp, {(0, 0): (math.log(2), 0.5, 0.5), (inf, 0): (inf, 1, 0), (-inf, 0): (0, 0, 1)}),
    ("logaddexp2", gc.logaddexp2, {(0, 0): (1, 0.5, 0.5), (-inf, 0): (0, 0, 1)}),
    ("where", lambda x, y: gc.where(x > 1, x, y), {(1, nan): (nan, 0, 1), (inf, nan): (inf, 1, 0)}),
]


def sizes(test: Any) -> Any:
    test = pytest.mark.parametrize("copies", [1, 2000], ids=["few", "many"])(test)
    return pytest.mark.parametrize("dtype", [gc.float64, gc.float32], ids=["double", "single"])(test)


def repeated(values: Any, copies: int, dtype: Any) -> Any:
    return gc.tensor(np.tile(np.array(list(values), float), copies), dtype=dtype, requires_grad=True)


def check(out: Any, inputs: list[Any], value: Any, gradients: list[Any], copies: int) -> None:
    tolerance = {"rtol": 1e-12 if out.dtype is gc.float64 else 2e-6, "atol": 1e-12 if out.dtype is gc.float64 else 1e-7}
    np.testing.assert_allclose(out.detach().numpy(), np.tile(np.array(value, float), copies), **tolerance)
    for create_graph in (True, False):
        found = gc.autograd.grad(
            out.sum(), inputs, create_graph=create_graph, retain_graph=True, materialize_grads=True
        )
        for grad, expected in zip(found, gradients, strict=True):
            np.testing.assert_allclose(grad.detach().numpy(), np.tile(np.array(expected, float), copies), **tolerance)


@sizes
@pytest.mark.parametrize(("function", "points"), [pytest.param(f, p, id=name) for name, f, p in UNARY])
def test_unary(function: Any, points: Points, copies: int, dtype: Any) -> None:
    x = repeated(points, copies, dtype)
    values, gradients = zip(*points.values(), strict=True)
    check(function(x), [x], values, [gradients], copies)


@sizes
@pytest.mark.parametrize(("function", "points"), [pytest.param(f, p, id=name) for name, f, p in BINARY])
def test_binary(function: Any, points: Any, copies: int, dtype: Any) -> None:
    x, y = (repeated(column, copies, dtype) for column in zip(*points, strict=True))
    values, *gradients = zip(*points.values(), strict=True)
    check(function(x, y), [x, y], values, gradients, copies)


def test_bounds_that_are_tensors() -> None:
    """The lower bound is the result where it is below the upper one, else the upper one is."""
    x, low, high = (gc.tensor(v, requires_grad=True) for v in ([-1.0, 1.0, 2.0], [0.0, 2.0, 0.0], [1.0, 0.0, 2.0]))
    out = x.clamp(low, high)
    assert out.tolist() == [0, 0, 2]
    grads = gc.autograd.grad(out.sum(), (x, low, high))
    assert [g.tolist() for g in grads] == [[0, 0, 1], [1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize(
    ("function", "expected"),
    [(gc.abs, [0, 0.6 + 0.8j]), (gc.angle, [0, -0.16 + 0.12j]), (lambda z: gc.sgn(z).real, [0, 0.128 - 0.096j])],
    ids=["abs", "angle", "sgn"],
)
def test_complex_numbers(function: Any, expected: list[complex]) -> None:
    """The gradient points in the direction of steepest ascent; at zero there is none."""
    z = gc.tensor([0, 3 + 4j], dtype=gc.complex128, requires_grad=True)
    (grad,) = gc.autograd.grad(function(z).sum(), z)
    np.testing.assert_allclose(grad.numpy(), expected, atol=1e-15)


@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16])
def test_neighbours_of_numbers_of_16_bits(dtype: Any) -> None:
    each = np.arange(2**16, dtype=np.uint16).view(dtype.numpy)
    with np.errstate(invalid="ignore"):
        values = np.unique(each.astype(np.float64))  # in ascending order, with one zero, and NaN at the end
    values = values[values == values]
    x = gc.tensor(values, dtype=dtype)
    for function in (gc.nextafter, gc.compile(lambda a, b: gc.nextafter(a, b) * 1)):
        for _ in range(2):
            assert function(x, gc.full_like(x, inf)).tolist() == [*values[1:], inf]
            assert function(x, gc.full_like(x, -inf)).tolist() == [-inf, *values[:-1]]
    zeros = gc.tensor([0.0, -0.0], dtype=dtype)
    assert str(gc.nextafter(zeros, zeros.flip(0)).tolist()) == "[-0.0, 0.0]"
    assert gc.nextafter(x[:2], gc.tensor(nan, dtype=dtype)).isnan().all()
    assert gc.nextafter(gc.tensor([nan], dtype=dtype), x[:2]).isnan().all()


@pytest.mark.parametrize("function", [gc.log1p, gc.compile(lambda z: gc.log1p(z * 1))])
def test_logarithms_of_complex_numbers_next_to_one(function: Any) -> None:
    z = np.array(
        [1e-6 + 1e-3j, 1e-4j, 1e-8 + 1e-8j, 1e-30, -1e-3 + 1e-3j, -0.5 + 0.5j, -2 + 1e-3j, 3 + 4j, 1e20 + 1e20j]
    )
    exact = [math.log1p(v.real * (2 + v.real) + v.imag**2) / 2 if abs(v) < 1e10 else math.log(abs(v)) for v in z]
    for dtype, tolerance in ((gc.complex64, 2e-7), (gc.complex128, 4e-16)):
        for _ in range(2):
            np.testing.assert_allclose(function(gc.tensor(z, dtype=dtype)).real.numpy(), exact, rtol=tolerance)


def test_values_and_gradients_far_from_zero() -> None:
    """Bessel and Airy functions vanish there; SciPy's Airy functions are NaN."""
    x = gc.tensor([inf, -inf, 1e300, 1e16], dtype=gc.float64, requires_grad=True)
    for name in ("i0e", "i1e", "spherical_bessel_j0"):
        y = getattr(gc.special, name)(x)
        np.testing.assert_allclose(y.detach().numpy(), 0, atol=1e-7)
        np.testing.assert_allclose(gc.autograd.grad(y.sum(), x)[0].numpy(), 0, atol=1e-15)
    for function in (gc.special.airy_ai, gc.compile(lambda x: gc.special.airy_ai(x * 1))):
        y = function(x)
        assert y[[0, 2, 3]].tolist() == [0.0, 0.0, 0.0]
        assert gc.autograd.grad(y[[0, 2, 3]].sum(), x)[0][2:].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16, gc.float32, gc.float64])
def test_log_gamma_of_infinities(dtype: Any) -> None:
    for function in (gc.lgamma, gc.compile(lambda x: gc.lgamma(x * 1))):
        for _ in range(2):
            assert function(gc.tensor([inf, -inf, 1.0], dtype=dtype)).tolist() == [inf, inf, 0.0]


def test_second_derivatives_through_conversions() -> None:
    """A real operand of a complex operation has real gradients, in second derivatives too."""
    x = gc.tensor([3.0], dtype=gc.float64, requires_grad=True)
    z = gc.tensor([1 + 2j], dtype=gc.complex128, requires_grad=True)
    (first,) = gc.autograd.grad((z / (x * x)).real.sum(), x, create_graph=True)  # 1 / x**2
    (second,) = gc.autograd.grad(first.sum(), x)
    np.testing.assert_allclose([first.item(), second.item()], [-2 / 27, 6 / 81])


def test_second_derivatives_at_removable_points() -> None:
    x = gc.tensor([0.0], dtype=gc.float64, requires_grad=True)
    for function, expected in ((gc.sinc, -(math.pi**2) / 3), (gc.special.i1, 0.0), (gc.i0, 0.5)):
        (first,) = gc.autograd.grad(function(x).sum(), x, create_graph=True)
        (second,) = gc.autograd.grad(first.sum(), x)
        np.testing.assert_allclose(second.item(), expected, atol=1e-12)


INTEGERS = [
    ("true division", lambda i: i / 2, [1.5, -2.0], gc.float32),
    ("floor division", lambda i: i // 2, [1, -2], gc.int64),
    ("truncated division", lambda i: gc.div(i, 2, rounding_mode="trunc"), [1, -2], gc.int64),
    ("remainder", lambda i: i % 3, [0, 2], gc.int64),
    ("fmod", lambda i: i.fmod(3), [0, -1], gc.int64),
    ("power", lambda i: i**2, [9, 16], gc.int64),
    ("negative power", lambda i: i ** gc.tensor(-1), [0, 0], gc.int64),
    ("powers of units", lambda i: gc.tensor([1, -1]) ** gc.tensor(-3), [1, -1], gc.int64),
    ("number to a power", lambda i: 2**i, [8, 0], gc.int64),
    ("times a float", lambda i: i * 0.5, [1.5, -2.0], gc.float32),
    ("sine", lambda i: gc.sin(i * 0), [0.0, 0.0], gc.float32),
    ("comparison", lambda i: i > 2.5, [True, False], gc.bool),
    ("clamp with a float", lambda i: i.clamp(min=0.5), [3.0, 0.5], gc.float32),
    ("where", lambda i: gc.where(i > 0, i, 0.5), [3.0, 0.5], gc.float32),
    ("floor", lambda i: i.floor(), [3, -4], gc.int64),
    ("abs", lambda i: abs(i), [3, 4], gc.int64),
    ("relu", lambda i: i.relu(), [3, 0], gc.int64),
    ("shifts", lambda i: (i << 1) >> 2, [1, -2], gc.int64),
    ("shifted away", lambda i: i >> 70, [0, -1], gc.int64),
    ("square of bools", lambda i: gc.tensor([True, False]).square(), [1, 0], gc.int64),
    ("sum of bools", lambda i: gc.tensor([True, True]) + gc.tensor([True, False]), [True, True], gc.bool),
    ("bytes wrap", lambda i: gc.tensor([1, 2], dtype=gc.uint8) - 3, [254, 255], gc.uint8),
]


@pytest.mark.parametrize(("function", "values", "dtype"), [pytest.param(*row[1:], id=row[0]) for row in INTEGERS])
def test_integers(function: Any, values: list[Any], dtype: Any) -> None:
    out = function(gc.tensor([3, -4]))
    assert out.dtype is dtype
    assert out.tolist() == values


REFUSED = [
    (lambda: gc.tensor([1, 2]) // 0, RuntimeError, "ZeroDivisionError"),
    (lambda: gc.tensor([1, 2]) % gc.tensor([1, 0]), RuntimeError, "ZeroDivisionError"),
    (lambda: gc.tensor([1, 2]) ** -1, RuntimeError, "Integers to negative integer powers are not allowed."),
    (lambda: -gc.tensor([True]), RuntimeError, "Negation, the `-` operator, on a bool tensor is not supported."),
    (lambda: gc.tensor([True]) - gc.tensor([True]), RuntimeError, "with two bool tensors is not supported"),
    (lambda: 1 - gc.tensor([True]), RuntimeError, "with a bool tensor is not supported"),
    (lambda: gc.add(gc.tensor([1]), 1, alpha=0.5), RuntimeError, "argument alpha must not be a floating point number"),
    (lambda: gc.tensor([1j]) < 0, NotImplementedError, "\"lt_cpu\" not implemented for 'ComplexFloat'"),
    (lambda: gc.tensor([1j]).floor(), NotImplementedError, "not implemented for 'ComplexFloat'"),
    (lambda: gc.tensor([1.0]) & 1, NotImplementedError, "\"bitwise_and_cpu\" not implemented for 'Float'"),
    (lambda: F.gelu(gc.tensor([1])), NotImplementedError, "not implemented for 'Long'"),
    (lambda: gc.maximum(gc.tensor([1.0]), "2"), TypeError, "argument 'other' (position 2) must be Tensor, not str"),
    (lambda: gc.maximum(1.0, 2), TypeError, "argument 'input' (position 1) must be Tensor, not float"),
    (lambda: gc.clamp(gc.tensor([1.0])), RuntimeError, "At least one of 'min' or 'max' must not be None"),
    (lambda: gc.where(gc.tensor([1.0]), 1, 2), RuntimeError, "expected condition to be a boolean tensor"),
    (lambda: gc.tensor([1.0]).imag, RuntimeError, "imag is not implemented for tensors with non-complex dtypes."),
    (lambda: gc.div(gc.tensor([1.0]), 2, rounding_mode="up"), RuntimeError, "None, 'trunc', or 'floor' but found 'up'"),
    (lambda: gc.zeros(3) + gc.zeros(2), RuntimeError, "The size of tensor a (3) must match the size of tensor b (2)"),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED, ids=[row[2] for row in REFUSED])
def test_refusals(call: Callable[[], Any], error: type, message: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)


NAMES = [
    (lambda x: x**2, "PowBackward0", {"exponent": 2}),
    (lambda x: x**x, "PowBackward1", {}),
    (lambda x: 2**x, "PowBackward2", {}),
    (lambda x: 2 / x, "MulBackward0", {}),
    (lambda x: 2 - x, "RsubBackward1", {"alpha": 1}),
    (lambda x: x % 2, "RemainderBackward0", {}),
    (lambda x: x % x, "RemainderBackward1", {}),
    (lambda x: gc.div(x, 2, rounding_mode="floor"), "DivBackward2", {"rounding_mode": "floor"}),
    (lambda x: x.clamp(0, 1), "ClampBackward1", {"min": 0, "max": 1}),
    (lambda x: x.clamp(x, x), "ClampBackward0", {}),
    (lambda x: x.clamp_min(0), "ClampMinBackward0", {"min": 0}),
    (lambda x: x.lerp(x, 0.5), "LerpBackward0", {}),
    (lambda x: x.lerp(x, x), "LerpBackward1", {}),
    (lambda x: x.copysign(-1), "CopysignBackward1", {}),
    (lambda x: gc.xlogy(2, x), "XlogyBackward1", {}),
    (lambda x: x.log1p(), "Log1PBackward0", {}),
    (lambda x: x.deg2rad(), "Deg2RadBackward0", {}),
    (lambda x: x.round(decimals=1), "RoundBackward1", {}),
    (lambda x: gc.where(x > 0, x, 0), "WhereBackward0", {}),
    (F.relu6, "HardtanhBackward0", {"min_val": 0, "max_val": 6}),
    (F.selu, "EluBackward0", {"input_scale": 1}),
    (F.softsign, "DivBackward0", {}),
    (F.tanhshrink, "SubBackward0", {}),
    (F.leaky_relu, "LeakyReluBackward0", {"negative_slope": 0.01}),
    (F.logsigmoid, "LogSigmoidBackward0", {}),
    (gc.special.i0e, "SpecialI0EBackward0", {}),
    (lambda x: gc.complex(x, x).conj(), "ConjBackward0", {}),
    (lambda x: gc.complex(x, x).real, "SelectBackward0", {}),
]


@pytest.mark.parametrize(("function", "name", "settings"), NAMES, ids=[f"{i}-{row[1]}" for i, row in enumerate(NAMES)])
def test_names_of_nodes(function: Any, name: str, settings: dict[str, Any]) -> None:
    node = function(gc.tensor([0.5, 2.0], requires_grad=True)).grad_fn
    assert node.name() == name
    assert {key: getattr(node, f"_saved_{key}") for key in settings} == settings


def test_inputs_that_are_overwritten_are_kept_for_backward() -> None:
    """An in-place operation whose formula reads its input keeps a copy of it."""
    x = gc.tensor([0.5, 2.0], dtype=gc.float64, requires_grad=True)
    y = x * 1
    y.sin_()
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos([0.5, 2.0]))  # type: ignore[union-attr]


def test_parts_of_complex_numbers_are_views() -> None:
    z = gc.tensor([1 + 2j, 3 + 4j])
    z.real.mul_(10)
    z.imag = gc.tensor([0.0, 5.0])
    assert z.tolist() == [10, 30 + 5j]
    assert gc.view_as_real(z).tolist() == [[10, 0], [30, 5]]
    assert gc.view_as_complex(gc.view_as_real(z)).data_ptr() == z.data_ptr()


@pytest.mark.parametrize("exponent", [2, 3, 4.0])
def test_derivatives_of_a_power_end_in_zeros(exponent: float) -> None:
    """One derivative more than the degree is 0, not an error."""
    x = gc.tensor(2.0, dtype=gc.float64, requires_grad=True)
    y = x**exponent
    for _ in range(int(exponent) + 1):
        (y,) = gc.autograd.grad(y, x, create_graph=True)
    assert y.item() == 0.0


def test_the_recorded_gradient_of_tanh_is_one_node():
    x = gc.tensor([0.5], requires_grad=True)
    (slope,) = gc.autograd.grad(x.tanh(), x, gc.ones(1), create_graph=True)
    assert slope.grad_fn.name() == "TanhBackwardBackward0"
    (curvature,) = gc.autograd.grad(slope, x)
    value = math.tanh(0.5)
    assert curvature.item() == pytest.approx(-2 * value * (1 - value**2), rel=1e-5)
