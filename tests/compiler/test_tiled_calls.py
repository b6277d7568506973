"""Groups of calls on large arrays, tile by tile with their own kernels: the same bits, and what waits for their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gradcore as gc
from gradcore.compiler.function import CompiledFunction
from gradcore.compiler.program.memory import peak_of
from gradcore.compiler.program.passes import optimize
from gradcore.compiler.program.program import Program
from gradcore.compiler.targets.python import tiles
from gradcore.compiler.targets.python.tiles import TiledCalls, fuse_calls

#: No multiple of the tiles' size.
N = 3 * tiles._TILE + 7


@pytest.fixture(autouse=True)
def kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "FusedKernel", TiledCalls)  # with NumPy's kernels too


def chain(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
    for _ in range(2):
        x = ((x * y + x).tanh() * 0.5 - y).sigmoid() + x.abs().sqrt() + gc.nn.functional.gelu(x)
    return x


def tanhs(x: gc.Tensor) -> gc.Tensor:
    for _ in range(8):
        x = x.tanh()
    return x


def compiled_as_eager(function: Callable[..., Any], *args: gc.Tensor) -> tuple[Program, Program]:
    """Return the program before and after fusion, after comparing the bits of each call with eager mode."""
    compiled = CompiledFunction(function, fullgraph=True, cpp="0")
    for seed in range(4):
        gc.manual_seed(seed)
        given = [gc.randn_like(t) for t in args]
        other = [t.clone() for t in given]
        expected, found = [*function(*other), *other], [*compiled(*given), *given]
        assert all(
            a.detach().numpy().tobytes() == b.detach().numpy().tobytes() for a, b in zip(expected, found, strict=True)
        )
    program = optimize(compiled._specializations[0].programs[0])
    return program, fuse_calls(program)


def groups_in(program: Program) -> list[TiledCalls]:
    return [call.function for call in program.calls if call.name == "fused"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [gc.float32, gc.float64])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_chain_is_one_group(dtype: Any, threads: int) -> None:
    before = gc.get_num_threads()
    try:
        gc.set_num_threads(threads)
        x = gc.zeros(N, dtype=dtype)
        _, program = compiled_as_eager(lambda x, y, z: (chain(x, y), chain(x, y) * z), x, x, gc.zeros((), dtype=dtype))
    finally:
        gc.set_num_threads(before)
    (group,) = groups_in(program)
    assert len(group.outputs) == 2
    assert "calls on each tile" in group.summary


def test_saved_values_are_tiles_where_the_loss_waits_for_the_gradient() -> None:
    def function(x: gc.Tensor) -> tuple[gc.Tensor, ...]:
        with gc.enable_grad():
            leaf = x.detach().requires_grad_()
            loss = tanhs(leaf).sum()
        return loss.detach() * 2, *gc.autograd.grad(loss, leaf)

    plain, program = compiled_as_eager(function, gc.zeros(N))
    assert len(groups_in(program)) == 1
    assert [call.name.rpartition(".")[2] for call in program.calls[:2]] == ["fused", "sum"]
    assert peak_of(plain) >= 8 * 4 * N
    assert peak_of(program) == 2 * 4 * N


def test_nothing_waits_where_that_takes_more_memory() -> None:
    _, program = compiled_as_eager(lambda x: (tanhs(x).sum(), tanhs(x * 2).mean()), gc.zeros(N))
    assert len(groups_in(program)) == 2
    assert peak_of(program) == 4 * N


def test_what_waits_is_made_before_writes() -> None:
    def function(x: gc.Tensor, y: gc.Tensor) -> tuple[gc.Tensor, ...]:
        first = tanhs(x)
        total = first.sum()
        y.mul_(2)
        second = tanhs(first)
        return total, second, (second + y).sum(), tanhs(second) * 2 + total

    compiled_as_eager(function, gc.zeros(N), gc.zeros(N))


def test_errors_of_what_waits_leave_what_eager_execution_leaves() -> None:
    def function(x: gc.Tensor, target: gc.Tensor, index: gc.Tensor) -> gc.Tensor:
        first = tanhs(x)
        chosen = first[index].sum()
        target.add_(1)
        return tanhs(first) + chosen

    compiled = CompiledFunction(function, fullgraph=True, cpp="0")
    x, target = gc.randn(N), gc.zeros(5)
    for _ in range(4):
        compiled(x, target, gc.tensor([0, 1]))
    with pytest.raises(IndexError):
        compiled(x, target, gc.tensor([0, N]))
    assert target.tolist() == [4.0] * 5


def test_what_reads_nothing_is_a_group_as_well() -> None:
    def function(x: gc.Tensor) -> tuple[gc.Tensor, ...]:
        with gc.enable_grad():
            leaf = y = x.detach().requires_grad_()
            for _ in range(8):
                y = (y + 1) * 0.5
            loss = y.sum()
        return loss.detach() * 2, *gc.autograd.grad(loss, leaf)

    _, program = compiled_as_eager(function, gc.zeros(N))
    assert [len(group.inputs) for group in groups_in(program)] == [1, 0]


def test_few_calls_and_small_arrays_are_left_alone() -> None:
    assert not groups_in(compiled_as_eager(lambda x: (x * 2 + 1,), gc.zeros(N))[1])
    assert not groups_in(compiled_as_eager(lambda x: (chain(x, x),), gc.zeros(tiles._TILE))[1])
