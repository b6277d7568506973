"""Formulas that are computed tile by tile give, bit for bit, what they give when called with whole arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.codegen.emit_numpy import NumpyFunction, emit, trace_tile
from gradcore.backends.codegen.expr import NotFusible
from gradcore.backends.numpy import bits, tiled
from gradcore.backends.registry import CPU
from gradcore.ops.declare.table import OPS, Op

F = CPU.backend
SIZE = 200_003
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, -1e-40, 3e38, -3e38, -1.0, 1.0, 0.5, 3.0, -3.0, 20.0]
#: Settings without a default.
SETTINGS = {"exponent": 3, "threshold": 0.5, "value": 2.0, "lambd": 0.5, "p": 2, "min": -0.5, "max": 0.5}


@pytest.fixture(autouse=True)
def _silent() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


@pytest.fixture(params=[1, 2, 3], ids="{} threads".format)
def with_threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = gc.get_num_threads()
    gc.set_num_threads(request.param)
    yield request.param
    gc.set_num_threads(before)


def numbers(seed: int, dtype: str = "f4", size: int = SIZE) -> Any:
    """Random numbers, all pairs of special ones among them."""
    x = (np.random.default_rng(seed).standard_normal(size) * 3).astype(dtype)
    pairs = len(SPECIAL) ** 2
    x[:pairs] = (np.tile if seed % 2 else np.repeat)(np.array(SPECIAL).astype(dtype), len(SPECIAL))
    return x


def same_bits(a: Any, b: Any) -> bool:
    """Whether two arrays hold the same bits, any NaN being as good as another."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    a, b = (np.where(x == x, x, np.asarray(math.nan, x.dtype)).reshape(-1) for x in (a, b))
    return bool((a.view("u1") == b.view("u1")).all())


class Array(int):
    """Stands for an array among settings."""


def formulas(op: Op) -> Iterator[tuple[Any, list[Any]]]:
    """Yield the formulas of an elementwise operation with their arguments."""
    values = [
        Array(p) if p in op.tensors else SETTINGS.get(each.name) if each.default is each.empty else each.default
        for p, each in enumerate(op.parameters)
    ]
    if op.body is not None:
        yield op.body, values
    for formula in op.differentials.values():
        known = {**dict(zip(op.names, values, strict=True)), "result": Array(10)}
        yield formula.function, [Array(20), *(known.get(name) for name in formula.names)]


def compiled(formula: Any, operands: tuple[Any, ...]) -> NumpyFunction | None:
    try:
        return emit(trace_tile(formula, operands, F.bodies), bits.select)
    except NotFusible:
        return None


#: Whether NumPy's logarithm in single precision gives the same bits where it overwrites its operand: from 2.1 on.
LOG_IN_PLACE = np.lib.NumpyVersion(np.__version__) >= "2.1.0"

ELEMENTWISE = sorted(name for name, op in OPS.items() if op.kind == "elementwise" and (op.body or op.differentials))
#: Operations, and how many of their formulas are computed in tiles.
KNOWN = {
    "gelu": 2,
    "silu": 2,
    "mish": 2,
    "softplus": 2,
    "hardswish": 2,
    "elu": 2,
    "tanh": 1,
    "div": 2,
    "atan2": 2,
    "relu": 1,
}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_every_formula(name: str, dtype: str) -> None:
    found = 0
    for formula, reads in formulas(OPS[name]):
        operands = tuple(numbers(each, dtype) if isinstance(each, Array) else each for each in reads)
        try:
            expected = formula(F, *operands)
        except (TypeError, AttributeError, ValueError, NotImplementedError):  # reads shapes, masks, what is left out
            continue
        except RuntimeError:
            if "polynomial" not in name:  # which the huge numbers give too many steps
                raise
            continue
        function = compiled(formula, operands)
        if function is None:
            continue
        found += 1
        result = np.empty(SIZE, function.dtype)
        arrays = [o for o in operands if isinstance(o, np.ndarray)]
        tiled.run(function, [arrays[i] for i in function.inputs], result)
        if LOG_IN_PLACE or name != "erfinv":
            assert same_bits(result, expected)
        else:
            np.testing.assert_allclose(result, expected, 1e-5)
    assert found >= KNOWN.get(name, 0)


def derivative(name: str) -> Any:
    return OPS[name].differentials["self"].function


class TestCalls:
    """Through `evaluate`, as operations call it."""

    formula = staticmethod(derivative("gelu"))

    def test_contiguous(self, with_threads: int) -> None:
        t, x = numbers(0, size=3_000_000), numbers(1, size=3_000_000)
        assert same_bits(tiled.evaluate(self.formula, F, (t, x, "tanh")), self.formula(F, t, x, "tanh"))

    def test_one_step(self, with_threads: int) -> None:
        t, x = numbers(0, size=5_000_000), numbers(1, size=5_000_000)
        assert same_bits(tiled.evaluate(derivative("mul"), F, (t, x)), t * x)

    def test_memory_order_is_kept(self) -> None:
        t, x = numbers(0, size=210_000).reshape(-1, 7).T, numbers(1, size=210_000).reshape(-1, 7).T
        found, expected = tiled.evaluate(self.formula, F, (t, x, "tanh")), self.formula(F, t, x, "tanh")
        assert found.strides == expected.strides
        np.testing.assert_array_equal(found, expected)

    @pytest.mark.parametrize(
        "change",
        [
            lambda x: x[::2],
            lambda x: np.broadcast_to(x[:1], x.shape),
            lambda x: x.reshape(7, -1).T,
            lambda x: x.reshape(7, -1)[:, ::-1],
        ],
        ids=["strided", "repeated", "transposed", "reversed"],
    )
    def test_any_layout(self, change: Any) -> None:
        size = 7 * 30_000
        t, x = change(numbers(0, size=size)), change(numbers(1, size=size))
        plain = np.ascontiguousarray(t), np.ascontiguousarray(x)
        for first, second in [(t, x), (plain[0], x), (t, plain[1])]:
            found = tiled.evaluate(self.formula, F, (first, second, "tanh"))
            np.testing.assert_array_equal(found, self.formula(F, *plain, "tanh"))

    @pytest.mark.parametrize("shape", [(), (1,), (1, 1), (300,), (400, 1)], ids=str)
    def test_broadcast_operands(self, shape: tuple[int, ...]) -> None:
        """The formula of a quotient by its divisor, which may have fewer elements than the gradient."""
        formula = OPS["addcdiv"].differentials["tensor2"].function
        t, x = numbers(0, size=120_000).reshape(400, 300), numbers(1, size=120_000).reshape(400, 300)
        y = numbers(2, size=max(1, math.prod(shape) + 225))[-max(1, math.prod(shape)) :].reshape(shape)
        np.testing.assert_array_equal(tiled.evaluate(formula, F, (t, x, y, 0.5)), formula(F, t, x, y, 0.5))

    def test_operands_stay_as_they_are(self) -> None:
        t, x = numbers(0), numbers(1)
        before = t.copy(), x.copy()
        tiled.evaluate(self.formula, F, (t, x, "tanh"))
        assert same_bits(t, before[0])
        assert same_bits(x, before[1])

    def test_other_settings_are_other_functions(self) -> None:
        x = numbers(1)
        for slope in (0.01, 0.2, 0.01):
            formula = OPS["leaky_relu"].differentials["self"].function
            assert same_bits(tiled.evaluate(formula, F, (x, x, slope)), formula(F, x, x, slope))

    def test_signed_zeros_are_different_settings(self) -> None:
        x = numbers(1)
        formula = lambda F, x, value: F.exp(F.where(x > 0.5, x, value) * value) + value  # noqa: E731
        for value in (0.0, -0.0, 0.0):
            assert same_bits(tiled.evaluate(formula, F, (x, value)), formula(F, x, value))

    def test_errors_are_the_formulas_own(self) -> None:
        with pytest.raises(RuntimeError, match="approximate argument must be either none or tanh"):
            tiled.evaluate(OPS["gelu"].body, F, (numbers(1), "nothing"))  # type: ignore[arg-type]

    @pytest.mark.parametrize("dtype", ["f2", "c8", "i4"])
    def test_other_dtypes_are_left_alone(self, dtype: str) -> None:
        x = np.arange(1, 50_000).astype(dtype)
        formula = derivative("reciprocal")
        np.testing.assert_array_equal(tiled.evaluate(formula, F, (x, x)), formula(F, x, x))


def test_gradients_do_not_depend_on_size(with_threads: int) -> None:
    """Of parts of an array, and of the whole: the parts are too small for tiles."""
    x = gc.tensor(numbers(1, "f8", 64 * 5000))
    for function in (gc.nn.functional.gelu, gc.nn.functional.mish, gc.sigmoid, gc.nn.functional.hardswish):
        whole = x.clone().requires_grad_()
        function(whole).sum().backward()
        parts = [p.clone().requires_grad_() for p in x.split(2000)]
        for part in parts:
            function(part).sum().backward()
        np.testing.assert_allclose(
            whole.grad.numpy(), np.concatenate([p.grad.numpy() for p in parts]), rtol=1e-14, atol=1e-15
        )
