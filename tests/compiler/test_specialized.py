"""Kernels that come down to functions of NumPy are replaced by these, and give the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.numpy.matmul import NumpyProducts
from gradcore.backends.registry import CPU
from gradcore.compiler.function import CompiledFunction
from gradcore.compiler.program.passes import optimize
from gradcore.compiler.program.program import ArrayType, Call, Program, Value
from gradcore.compiler.targets.python.numpy_calls import use_numpy

pytestmark = pytest.mark.skipif(
    type(CPU.backend).matmul is not NumpyProducts.matmul, reason="the CPU has kernels of another backend"
)


def names(function: Callable[..., Any], *args: gc.Tensor) -> list[str]:
    """Return the calls in the programs of a function and of its gradients, after comparing results with eager mode."""
    compiled = CompiledFunction(function, fullgraph=True, cpp="0")
    for run in (function, compiled, compiled, compiled):
        leaves = [t.detach().requires_grad_(t.is_floating_point()) for t in args]
        result = run(*leaves)
        upstream = gc.ones_like(result) * 0.7
        if result.requires_grad:
            result.backward(upstream)
        found = [result.detach(), *(t.grad for t in leaves if t.grad is not None)]
        if run is function:
            expected = found
        assert [t.numpy().tobytes() for t in found] == [t.numpy().tobytes() for t in expected]
    programs = [use_numpy(optimize(program)) for program in compiled._specializations[0].programs]
    return [call.name.partition(".")[2] for program in programs for call in program.calls]


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    gc.manual_seed(0)


SHAPES = [
    ((3, 5), (5, 4)),
    ((8, 32), (32, 32)),
    ((1, 7), (7, 1)),
    ((60, 30), (30, 20)),
    ((5, 0), (0, 3)),
    ((0, 4), (4, 2)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("dtype", [gc.float32, gc.float64])
def test_products_of_matrices_are_dots(left: Any, right: Any, dtype: Any) -> None:
    a, b = gc.randn(*left, dtype=dtype), gc.randn(*right, dtype=dtype)
    found = names(lambda a, b: a @ b, a, b)
    assert "mm" not in found
    if left[0] < 48 and min(*left, *right) > 1:
        assert found.count("dot") == 3
        assert not {"times_adjoint", "adjoint_times", "matmul"} & {*found}
    turned = names(lambda a, b: a.t() @ b.t(), b, a)
    assert ("dot" in turned) == (left[1] != 1)


def test_a_transposed_matrix_is_made_once() -> None:
    def function(w: gc.Tensor, x: gc.Tensor) -> gc.Tensor:
        for _ in range(4):
            x = (x @ w).tanh()
        return x

    found = names(function, gc.randn(6, 6), gc.randn(3, 6))
    assert found.count("dot") == 12
    assert found.count("transpose") <= 5


def test_sums_of_rows_are_products() -> None:
    found = names(lambda x, w, b: (x @ w + b).tanh(), gc.randn(4, 5), gc.randn(5, 6), gc.randn(6))
    assert "sum_to_size" not in found
    assert names(lambda x, b: (x + b).sum(), gc.randn(200, 50), gc.randn(50)).count("dot") == 0
    for shape in ((), (7,), (2, 3, 4)):
        names(lambda x: x.tanh(), gc.randn(*shape))
    names(lambda x: x.t().tanh(), gc.randn(3, 4))


@pytest.mark.parametrize("rows", [1, 5, 200, 900])
@pytest.mark.parametrize("dtype", [gc.float32, gc.float64])
def test_linear_layers_are_dots_and_additions(rows: int, dtype: Any) -> None:
    x, w, b = gc.randn(rows, 6, dtype=dtype), gc.randn(4, 6, dtype=dtype), gc.randn(4, dtype=dtype)
    linear = gc.nn.functional.linear
    found = names(lambda x, w, b: linear(x, w, b), x, w, b)
    assert {"dot", "iadd"} <= {*found}
    assert not {"linear", "sum_rows"} & {*found}
    assert "iadd" not in names(lambda x, w: linear(x, w), x, w)
    names(lambda x, w, b: (linear(x, w, b).mul_(2), linear(x, w, b).t())[0] + linear(x, w, b), x, w, b)
    for other in (gc.randn(1, dtype=dtype), gc.randn(rows, 4, dtype=dtype), gc.randn((), dtype=dtype)):
        names(lambda x, w, b: linear(x, w, b), x, w, other)
    for lead in ((), (2, 3), (0,)):
        names(lambda x, w, b: linear(x, w, b), gc.randn(*lead, 6, dtype=dtype), w, b)


def test_dims_are_swapped_by_numpy() -> None:
    x = gc.randn(2, 3, 4)
    assert "swapaxes" in names(lambda x: x.transpose(-1, 0) * 2, x)
    assert "swapaxes" not in names(lambda x: x.transpose(0, -1) * 2, gc.randn(()))


@pytest.mark.parametrize(
    "args",
    [
        (gc.randn(70, 30), gc.randn(70, 30).t()),
        (gc.randn(4, 1), gc.randn(1, 4)),
        (gc.randn(2, 3, 4), gc.randn(4, 5)),
        (gc.randn(4), gc.randn(4)),
        (gc.arange(6).reshape(2, 3), gc.arange(6).reshape(3, 2)),
        (gc.randn(3, 3, dtype=gc.complex64), gc.randn(3, 3, dtype=gc.complex64)),
        (gc.randn(700, 30), gc.randn(30, 700)),
    ],
)
def test_what_kernels_treat_otherwise_stays(args: Any) -> None:
    compiled = CompiledFunction(gc.matmul, fullgraph=True, cpp="0")
    for _ in range(3):
        assert gc.equal(compiled(*args), gc.matmul(*args))
    program = use_numpy(optimize(compiled._specializations[0].programs[0]))
    assert all(call.name != "method.dot" for call in program.calls)


def test_kernels_of_other_classes_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(type(CPU.backend)):  # type: ignore[misc]
        def linear(self, x: Any, weight: Any, bias: Any = None) -> Any:
            return super().linear(x, weight, bias)

    x, w = gc.randn(3, 4), gc.randn(5, 4)
    assert "linear" not in names(gc.nn.functional.linear, x, w)
    monkeypatch.setattr(CPU.backend, "__class__", Other)
    assert "linear" in names(gc.nn.functional.linear, x, w)


def test_expanded_arrays_are_views_that_are_made_at_once() -> None:
    def function(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
        turned = (x * 2).t()[1:]
        return turned.expand(3, -1, -1).tanh() + (y * 3)[1:].expand(3, 2, 4) + y[:1].expand(2, 4)

    args = gc.randn(4, 3), gc.randn(5)[1:]
    assert names(function, gc.randn(4, 3), gc.randn(5)).count("ndarray") >= 2
    compiled = CompiledFunction(lambda x, y: (x.expand(3, 4, 3) * 2, y.expand(2, 4) * 2), cpp="0")
    for _ in range(3):
        assert all(map(gc.equal, compiled(*args), (args[0].expand(3, 4, 3) * 2, args[1].expand(2, 4) * 2)))


@pytest.mark.parametrize("memory", [0, 1])
def test_arguments_that_lie_in_each_others_memory_may_lie_elsewhere_in_the_next_call(memory: int) -> None:
    program = Program()
    program.inputs, program.outputs = [0, 1], [3]
    known = ArrayType((4,), np.dtype("f4"), (4,), 0, 1024)
    expanded = known._replace(shape=(2, 4), strides=(0, 4), memory=memory, address=1040)
    inputs = known, known._replace(memory=memory, address=1040)
    program.types = {**dict(enumerate(inputs)), 2: expanded, 3: expanded._replace(memory=3)}
    program.calls = [
        Call("xp.broadcast_to", np.broadcast_to, (Value(1), (2, 4)), {}, Value(2)),
        Call("kernels.exp", np.exp, (Value(2),), {}, Value(3)),
    ]
    first = use_numpy(program).calls[0]
    assert first.name == ("xp.broadcast_to", "xp.ndarray")[memory]


@pytest.mark.parametrize("dtype", [gc.float32, gc.float64])
@pytest.mark.parametrize("width", [2, 3, 8, 9])
def test_narrow_rows_that_are_repeated_are_taken_by_columns(width: int, dtype: Any) -> None:
    x, y = gc.randn(60, 1, width, dtype=dtype), gc.randn(60, width, dtype=dtype)
    compiled = CompiledFunction(lambda x, y: ((x - y).exp(), y / x, (x * 2)[:3] - y), fullgraph=True, cpp="0")
    for _ in range(3):
        assert all(map(gc.equal, compiled(x, y), ((x - y).exp(), y / x, (x * 2)[:3] - y)))
    program = use_numpy(optimize(compiled._specializations[0].programs[0]))
    found = sum(type(call.function).__name__ == "_ByColumns" for call in program.calls)
    assert found == (2 if 60 * 60 * width > 2048 and width <= 8 else 0)
