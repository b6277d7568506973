"""Kernels that native segments compute by the calls in their bodies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore import nn
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.compiler.function import CompiledFunction
from gradcore.compiler.program.program import Literal, Value
from gradcore.compiler.targets.native.bodies import (
    _METHODS,
    _align_shapes,
    _Allocation,
    _recompute_loops,
    _remove_dead_loops,
)
from gradcore.compiler.targets.native.lowering import Lowering as NativeLowering
from gradcore.compiler.targets.native.segments import NativeProgram
from gradcore.compiler.targets.native.steps import Loop, Reduction, Step, View
from tests.compiler.test_native import check, pytestmark, writer  # noqa: F401
from tests.compiler.test_native import libraries as libraries
from tests.compiler.test_native_kernels import by_python

F = nn.functional
F8 = np.dtype("f8")


def view(memory: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> View:
    return View(memory, 0, shape, strides, F8)


def whole(memory: int, *shape: int) -> View:
    return view(memory, shape, tuple(8 * int(np.prod(shape[i + 1 :])) for i in range(len(shape))))


@pytest.mark.parametrize("sizes", [(2, 3, 5, 7), (6, 5, 7), (6, 35)])
def test_split_dims_of_a_view(sizes: tuple[int, ...]) -> None:
    """Splitting dims is a reshape that copies nothing, also of broadcast dims."""
    for array in (
        np.zeros((6, 1, 35)),
        np.zeros((12, 1, 70))[::2, :, ::2],
        np.broadcast_to(np.zeros((1, 35)), (6, 1, 35)),
    ):
        found = view(0, array.shape, array.strides).split_dims(sizes)
        assert (found.shape, found.strides) == (sizes, array.reshape(sizes).strides)


def test_loops_over_the_same_elements_get_one_shape() -> None:
    rows = Reduction("sum", whole(1, 2), whole(0, 2, 15), (1,))
    channels = Loop([whole(3, 2, 3, 5)], [whole(2, 3, 1)], lambda F, x: [x])
    points = Reduction("sum", whole(5, 3), whole(4, 2, 3, 5), (0, 2))
    other = Loop([whole(6, 7)], [], lambda F: [])
    _align_shapes([rows, channels, points, other], (2, 3, 5))
    assert [each.shape for each in (rows, channels, points, other)] == [(2, 3, 5)] * 3 + [(7,)]
    assert (rows.dims, rows.writes, rows.reads) == ((1, 2), [whole(1, 2)], [whole(0, 2, 3, 5)])
    assert (points.dims, points.writes) == ((0, 2), [whole(5, 3)])
    assert channels.reads == [view(2, (2, 3, 5), (0, 8, 0))]


def test_shapes_without_common_dims_stay() -> None:
    loops = [Loop([whole(i, *shape)], [], lambda F: []) for i, shape in enumerate([(4, 6), (6, 4)])]
    _align_shapes([*loops], (4, 6))
    assert [each.shape for each in loops] == [(4, 6), (6, 4)]


def reads_after(*between: Step) -> list[View]:
    """Return what a loop reads that uses ``x - mean``, with other steps between the loop and the difference."""
    x, mean, difference = whole(0, 4, 6), view(1, (4, 6), (8, 0)), whole(2, 4, 6)
    use = Loop([whole(3, 4, 6)], [difference], lambda F, d: [d * d])
    _recompute_loops([Loop([difference], [x, mean], lambda F, a, m: [a - m]), *between, use])
    assert use.formula(None, *(5.0, 3.0)[: len(use.reads)]) == [4.0 if len(use.reads) == 2 else 25.0]
    return use.reads


def test_cheap_loops_are_computed_again() -> None:
    assert reads_after() == [whole(0, 4, 6), view(1, (4, 6), (8, 0))]
    elsewhere = Loop([whole(9, 4, 6)], [whole(0, 4, 6)], lambda F, x: [x])
    assert len(reads_after(elsewhere)) == 2


@pytest.mark.parametrize("memory", [0, 1, 2], ids=["operand", "statistic", "difference"])
def test_loops_are_not_computed_again_after_a_write(memory: int) -> None:
    """Neither to their operands nor to their result, by a loop or by a reduction."""
    written = whole(memory, 4, 6)
    assert reads_after(Loop([written], [whole(8, 4, 6), whole(9, 4, 6)], lambda F, x, y: [x])) == [whole(2, 4, 6)]
    assert reads_after(Reduction("sum", whole(memory, 4), whole(8, 4, 6), (1,))) == [whole(2, 4, 6)]


def test_loops_that_are_overwritten_before_they_are_read_are_left_out() -> None:
    x, out, other = whole(0, 4, 6), whole(2, 4, 6), whole(3, 4, 6)
    first, again = (Loop([out], [x], lambda F, a: [a]) for _ in range(2))
    assert _remove_dead_loops([first, Reduction("sum", whole(4, 4), x, (1,)), again])[0].writes == [whole(4, 4)]
    part = view(2, (4,), (48,))
    for between in (
        Loop([other], [out], lambda F, a: [a]),
        Reduction("sum", whole(4, 4), out, (1,)),
        Loop([whole(5, 4)], [part], lambda F, a: [a]),
    ):
        assert _remove_dead_loops([first, between, again]) == [first, between, again]
    in_place = Loop([out], [out], lambda F, a: [a])
    assert _remove_dead_loops([first, in_place]) == [first, in_place]
    assert _remove_dead_loops([first, Loop([part], [], lambda F: [])])[0] is first


def test_batch_norm_stores_its_result_once() -> None:
    """Its body subtracts the mean, for the variance, in the memory of the result."""
    x = gc.randn(8, 4, 5, 5)
    compiled = CompiledFunction(lambda x: F.batch_norm(x, None, None, None, None, True), cpp="0")
    for _ in range(3):
        compiled(x)
    (part,) = NativeProgram(compiled._specializations[0].programs[0], True).parts
    (result,) = {v.memory for step in part.steps for v in step.writes if v.size == x.numel()} - {
        v.memory for step in part.steps for v in step.reads
    }
    assert len([step for step in part.steps if step.writes[0].memory == result]) == 1


def test_calls_that_differ_by_their_memories_are_lowered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def norms(x: gc.Tensor, y: gc.Tensor, w: gc.Tensor) -> Any:
        a, b = F.batch_norm(x, None, None, w, w, True), F.batch_norm(y, None, None, w, w, True)
        c = F.batch_norm(x, None, None, w, w + 1, True), F.batch_norm(b, None, None, w, w, True, eps=1e-3)
        d = F.batch_norm(b * 0.5, None, None, w, w, True)
        return a + b, *c, d, F.linear(x[0], y), F.linear(y[0], x), F.linear(x[0], x), F.linear(y[1], y)

    given = gc.randn(4, 6), gc.randn(4, 6), gc.randn(6)
    assert by_python(check(norms, *given)) == []
    lowered: list[str] = []
    lower = NativeLowering._steps_of_body

    def count(self: Any, body: Any, call: Any, results: Any) -> Any:
        lowered.append(call.name)
        return lower(self, body, call, results)

    monkeypatch.setattr(NativeLowering, "_steps_of_body", count)
    compiled = CompiledFunction(norms, cpp="0")
    for _ in range(3):
        compiled(*given)
    NativeProgram(compiled._specializations[0].programs[0], True)
    # Two parameters that are one array, other parameters, and another epsilon.
    assert [name for name in lowered if "batch_norm" in name] == ["kernels.native_batch_norm"] * 3
    # Two arrays, the first row of one array and the array, and its second row.
    assert [name for name in lowered if "linear" in name] == ["kernels.linear"] * 3


def test_a_loop_that_reads_two_arrays_is_not_computed_again() -> None:
    product = Loop([whole(2, 8)], [whole(0, 8), whole(1, 8)], lambda F, a, b: [a * b])
    use = Loop([whole(3, 8)], [whole(2, 8)], lambda F, p: [p + p])
    _recompute_loops([product, use])
    assert use.reads == [whole(2, 8)]


def test_declared_bodies_take_what_the_kernels_take() -> None:
    """Bodies are portable: the NumPy backend has the kernel itself, which may be another one."""
    assert len(_METHODS) >= 7
    for name, body in _METHODS.items():
        assert (body.__name__, callable(getattr(NumpyBackend, name))) == (name, True)
        assert body.__module__.startswith("gradcore.backends.portable")


def test_products_with_factors_and_transposes() -> None:
    def products(b: gc.Tensor, x: gc.Tensor, w: gc.Tensor, v: gc.Tensor) -> Any:
        batches = gc.bmm(gc.stack([x, x]), gc.stack([w, w]))
        vectors = gc.mv(x, v) + 1, gc.dot(v, v) * 2, gc.outer(v, v) + 1, F.linear(v, w.T, b)
        return gc.addmm(b, x, w, beta=0.5, alpha=2), gc.addmm(b, x, w, beta=0), batches + 1, x @ w - 1, *vectors

    given = gc.randn(3), gc.randn(5, 4), gc.randn(4, 3), gc.randn(4)
    assert by_python(check(products, *given)) == []


def test_products_are_not_computed_while_they_are_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large ones would take long."""
    shapes = [((4,), (4,)), ((5, 4), (4,)), ((4,), (4, 3)), ((2, 1, 5, 4), (3, 4, 6)), ((7, 5, 4), (4, 3))]
    for first, second in shapes:
        a, b = np.ones(first), np.ones(second)
        assert _Allocation().matmul(a, b).shape == np.matmul(a, b).shape
    x, w = gc.randn(5, 4), gc.randn(3, 4)
    compiled = CompiledFunction(lambda x: F.linear(x, w) * 2, cpp="0")
    for _ in range(3):
        compiled(x)
    program = compiled._specializations[0].programs[0]
    monkeypatch.setattr(NumpyBackend, "matmul", lambda *args: pytest.fail("a product is computed"))
    assert NativeProgram(program, True).refused == []


@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 1), (4, 6, 5, 1), (1, 6, 2, 3)], ids=str)
def test_norms_of_images_with_dims_of_size_one(shape: tuple[int, ...]) -> None:
    """Sums over one element are copies."""

    def gradients(x: gc.Tensor, w: gc.Tensor, b: gc.Tensor, t: gc.Tensor) -> Any:
        outs = [F.group_norm(x, 2, w, b), F.batch_norm(x, b.detach(), w.detach() ** 2, w, b, False)]
        outs += [F.batch_norm(x, None, None, w, b, True)] * (shape[0] > 1)
        return *outs, *gc.autograd.grad(sum((out * t).sum() for out in outs), (x, w, b))

    x, w, b = (gc.randn(s, dtype=gc.float64, requires_grad=True) for s in (shape, (6,), (6,)))
    assert by_python(check(gradients, x, w, b, gc.randn(shape, dtype=gc.float64))) == []


def test_a_constant_and_a_value_of_one_number_are_two_operands() -> None:
    """Each product has one of the same constants, and one of several values, whose numbers pass those of constants."""

    def products(*matrices: gc.Tensor) -> list[gc.Tensor]:
        constants = [gc.tensor([[1.0, 2.0], [3.0, 4.0]]), gc.tensor([[5.0, 6.0], [7.0, 8.0]])]
        return [p for m in matrices for c in constants for p in (c @ m, m @ c, c.t() @ m, gc.addmm(c, m, c))]

    check(products, *(gc.randn(2, 2) for _ in range(4)))


def test_constants_and_values_differ() -> None:
    assert Literal(3) != Value(3)
    assert len({Literal(3), Value(3)}) == 2
