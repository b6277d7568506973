"""Fused groups of elementwise calls on large arrays: the same bits, and what ends a group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gradcore as gc
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.backends.numpy.elementwise import NumpyElementwise
from gradcore.backends.registry import CPU
from gradcore.compiler.function import CompiledFunction
from gradcore.compiler.program.passes import optimize
from gradcore.compiler.targets.python.tiles import FusedKernel, fuse_calls

pytestmark = pytest.mark.skipif(
    CPU.backend.__class__ is not NumpyBackend, reason="the compiled library has loops of its own"
)

N = 40_000


def large(*shape: int) -> gc.Tensor:
    return gc.randn(*(shape or (N,)))


def chain(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
    for _ in range(3):
        x = ((x * y + x).tanh() * 0.5 - y).sigmoid() + x.abs().sqrt()
    return x


def groups_of(function: Callable[..., Any], *args: gc.Tensor) -> tuple[list[FusedKernel], list[str]]:
    """Return the groups of a function's program and the reasons against others, after comparing with eager mode."""
    compiled = CompiledFunction(function, fullgraph=True)
    for seed in range(4):
        gc.manual_seed(seed)
        given = [gc.randn_like(t) for t in args]
        expected, found = function(*[t.clone() for t in given]), compiled(*given)
        pairs = zip(expected, found, strict=True) if isinstance(expected, tuple) else [(expected, found)]
        assert all(a.numpy().tobytes() == b.numpy().tobytes() for a, b in pairs)
    refused: list[str] = []
    program = fuse_calls(optimize(compiled._specializations[0].programs[0]), refused)
    return [call.function for call in program.calls if call.name == "fused"], refused


def test_a_chain_is_one_group() -> None:
    (group,), refused = groups_of(chain, large(), large())
    assert len(group.outputs) == 1
    assert group.function.calls >= 20
    assert not refused


def test_a_chain_and_its_derivative_are_one_group() -> None:
    def derivative(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
        return gc.func.grad(lambda x: chain(x, y).sum())(x)

    (group,), _ = groups_of(derivative, large(), large())
    assert len(group.outputs) == 1
    assert group.function.calls >= 40


def test_several_values_of_a_group_can_be_results() -> None:
    def function(x: gc.Tensor, y: gc.Tensor) -> tuple[gc.Tensor, ...]:
        z = chain(x, y)
        return z, z.exp(), (z.exp() * z).sum()

    (group,), _ = groups_of(function, large(200, 200), large(200, 200))
    assert len(group.outputs) == 3


def test_a_write_to_what_a_group_reads_ends_it() -> None:
    def function(x: gc.Tensor, y: gc.Tensor) -> tuple[gc.Tensor, ...]:
        first = chain(x, y)
        x.add_(1)
        return first, chain(x, y)

    groups, _ = groups_of(function, large(), large())
    assert len(groups) == 2


def test_what_reads_a_group_ends_it_and_other_calls_do_not() -> None:
    def function(x: gc.Tensor, y: gc.Tensor) -> tuple[gc.Tensor, ...]:
        first = chain(x, y)
        other = y.sum()
        second = chain(first, y)
        return chain(second - second.max(), y), other

    groups, _ = groups_of(function, large(), large())
    assert [len(group.outputs) for group in groups] == [1, 1]


@pytest.mark.parametrize(
    ("function", "shape", "reason"),
    [
        (lambda x, y: chain(x, y[:1]), (200, 200), "broadcast"),
        (lambda x, y: chain(x.t(), y.t()), (200, 200), "not contiguous"),
        (lambda x, y: x * y + 1, (N,), "as fast by themselves"),
        (lambda x, y: chain((x.cumsum(0) > y).sum(), y[0]), (N,), "not elementwise"),
    ],
)
def test_what_is_not_fused_says_why(function: Any, shape: tuple[int, ...], reason: str) -> None:
    groups, refused = groups_of(function, large(*shape), large(*shape))
    assert not groups
    assert any(reason in each for each in refused)


def test_small_arrays_are_left_alone() -> None:
    assert groups_of(chain, large(10), large(10)) == ([], [])


def test_groups_in_threads() -> None:
    before = gc.get_num_threads()
    try:
        gc.set_num_threads(3)
        groups, _ = groups_of(chain, large(1_000_000), large(1_000_000))
        assert len(groups) == 1
    finally:
        gc.set_num_threads(before)


_STEPS: list[Callable[[gc.Tensor, gc.Tensor], gc.Tensor]] = [
    gc.add, gc.sub, gc.mul, gc.maximum, lambda a, b: a.tanh(), lambda a, b: a.sigmoid(), lambda a, b: a.relu() + b,
    lambda a, b: (a * a + 1).sqrt(), lambda a, b: gc.where(a > b, a, b * 0.5), lambda a, b: a.clamp(-1, 1),
    lambda a, b: a.erf() * b, lambda a, b: -a.abs(), lambda a, b: (a * 0.1).exp(), lambda a, b: a**2, lambda a, b: a**3,
    lambda a, b: gc.nn.functional.gelu(a), lambda a, b: gc.nn.functional.silu(b), lambda a, b: a.add_(b),
    lambda a, b: a.mul_(0.5), lambda a, b: a.mean() + b, lambda a, b: a / (b.abs() + 1),
]  # fmt: skip


@given(
    st.lists(st.tuples(st.integers(0, len(_STEPS) - 1), st.integers(0, 9), st.integers(0, 9)), min_size=6, max_size=14)
)
@settings(max_examples=15, deadline=None)
def test_random_chains_are_those_of_eager_execution(steps: list[tuple[int, int, int]]) -> None:
    def function(x: gc.Tensor, y: gc.Tensor) -> tuple[gc.Tensor, ...]:
        values = [x * 1.5, y.exp(), x, y]
        for step, a, b in steps:
            first, second = values[a % len(values)], values[b % len(values)]
            writes = step in (17, 18)
            values.append(_STEPS[step](first.clone() if writes and (first is x or first is y) else first, second))
        return values[-1].clone(), values[-2].clone(), x.clone()

    groups_of(function, large(), large())


#: Calls of the kernels that replace NumPy's own functions.
REPLACED: dict[str, Callable[[gc.Tensor, gc.Tensor], gc.Tensor]] = {
    "clamp": lambda x, y: x.clamp(-0.5, 0.5),
    "copysign": gc.copysign,
    "floor_divide": gc.floor_divide,
    "fmod": gc.fmod,
    "hypot": gc.hypot,
    "power": lambda x, y: x**3.0,
    "reciprocal": lambda x, y: x.reciprocal(),
    "relu": lambda x, y: x.relu(),
    "remainder": gc.remainder,
    "special_function": lambda x, y: x.erf(),
    "tanh_backward": lambda x, y: gc.func.grad(lambda x: x.tanh().sum())(x),
    "where": lambda x, y: gc.where(x > y, x, y),
}


@pytest.mark.parametrize("name", REPLACED)
def test_kernels_that_replace_functions_of_numpy(name: str) -> None:
    """A group that contains such a call has the bits of the kernel, not those of NumPy's function."""
    groups_of(lambda x, y: REPLACED[name](x, y) + (y + y * x) * (x * x).log().tanh(), large(), large())


def test_each_kernel_that_replaces_a_function_of_numpy_has_a_call() -> None:
    assert {*REPLACED} == {name for name, each in vars(NumpyElementwise).items() if callable(each)}


def test_errors_in_the_middle_leave_what_eager_execution_leaves() -> None:
    def function(x: gc.Tensor, target: gc.Tensor, index: gc.Tensor) -> gc.Tensor:
        z = chain(x, x)
        target.add_(z)
        return chain(z[index].sum() + z, z)

    compiled = gc.compile(function)
    x, target, index = large(), gc.zeros(N), gc.tensor([0, 1])
    for _ in range(3):
        compiled(x, target, index)
    before = target.clone()
    with pytest.raises(IndexError):
        compiled(x, target, gc.tensor([0, N]))
    assert np.array_equal(target.numpy(), (before + chain(x, x)).numpy())
