"""Lists of exact calls that the library makes give what the calls give; small arrays have NumPy's own functions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.compiled.ufuncs import CallList
from gradcore.backends.portable.elementwise import RENAMED
from gradcore.backends.registry import CPU
from gradcore.compiler.function import CompiledFunction
from gradcore.compiler.program.effects import Effects
from gradcore.compiler.program.passes import optimize, takes_scalars, use_small_kernels
from gradcore.compiler.program.program import ArrayType, Call, Program, Value
from gradcore.compiler.targets.python.call_lists import list_calls
from tests.compiler.test_passes import program_of, run

SHAPES: list[tuple[int, ...]] = [(), (1,), (7,), (5, 13)]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3e38, 1.0, -2.5, 1e-300]


@pytest.fixture(autouse=True)
def _library(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CPU.backend, "library", compiled.library, raising=False)


def drawn(seed: int, dtype: Any) -> tuple[Callable[..., Any], list[gc.Tensor]]:
    """Draw a function of four tensors, two of them scalars, in exact arithmetic, and its arguments."""
    random = np.random.default_rng(seed)
    shape = SHAPES[seed % len(SHAPES)]
    choices = random.integers(0, 1 << 20, (120, 3)).tolist()
    numbers = random.choice([2, -1, 0.5, 1.1, 1e-3, 3], 120).tolist()

    def function(*given: gc.Tensor) -> Any:
        values = list(given)
        for (kind, i, j), number in zip(choices, numbers, strict=True):
            recent = values[-12:]
            a, b = recent[i % len(recent)], values[j % len(values)]
            if kind % 4 == 0:
                found = [a.abs, a.neg, a.square, a.sqrt][kind // 4 % 4]()
            elif kind % 4 == 1:
                found = [a + number, number - a, a * number, a / number][kind // 4 % 4]
            else:
                found = [a + b, a - b, a * b, a / b, b * a][kind // 4 % 5]
            values.append(found)
        total = values[0]
        for each in values[1:]:
            total = total + each
        return values[-1], values[40], values[-2], total

    def array(shape: tuple[int, ...]) -> gc.Tensor:
        plain = random.standard_normal(shape).astype(dtype)
        flat = np.where(random.random(shape) < 0.1, random.choice(np.array(SPECIAL, dtype), shape), plain)
        return gc.tensor(np.asarray(flat, dtype))

    return function, [array(shape), array(()), array(shape), array(())]


@pytest.mark.parametrize("seed", range(24))
def test_lists_give_what_their_calls_give(seed: int) -> None:
    function, given = drawn(seed, ["f4", "f8"][seed // 4 % 2])
    program = optimize(program_of(function, *given))
    whole = list_calls(program)
    assert [call.name for call in whole.calls].count("listed") == 1
    assert len(whole.calls) < len(program.calls) / 4
    arrays = [t.numpy() for t in given]
    with np.errstate(all="ignore"):
        expected = run(program, arrays)
        for _ in range(2):
            for found, other in zip(run(whole, arrays), expected, strict=True):
                assert (found.shape, found.dtype) == (other.shape, other.dtype)
                np.testing.assert_array_equal(found, other)
                np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(other[other == 0]))


def chain(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
    for i in range(60):
        x = x * y + i / 8
    return x


def lists(function: Callable[..., Any], *args: gc.Tensor) -> int:
    """How many lists a program has; its results have to be those of the function."""
    compiled = CompiledFunction(function, fullgraph=True, cpp="0")
    for _ in range(4):
        expected = function(*[t.clone() for t in args])
        found = compiled(*[t.clone() for t in args])
        for a, b in zip(expected, found, strict=True) if type(expected) is tuple else [(expected, found)]:
            assert gc.equal(a, b)
    return [call.name for call in list_calls(optimize(compiled._specializations[0].programs[0])).calls].count("listed")


x, y = gc.linspace(0.5, 1.0, 9), gc.tensor(0.75)


def test_a_list_ends_at_what_reads_it_and_where_its_memory_is_written_to() -> None:
    assert lists(chain, x, y) == 1
    assert lists(lambda x, y: chain(chain(x, y).exp(), y), x, y) == 2
    assert lists(lambda x, y: (chain(x, y), chain(x.exp(), y)), x, y) == 1

    def writing(x: gc.Tensor, y: gc.Tensor) -> tuple[gc.Tensor, ...]:
        first = chain(x, y)
        x.exp_()
        return first, chain(x, y), x

    assert lists(writing, x, y) == 2


def test_what_is_short_large_broadcast_or_no_float_is_no_list() -> None:
    assert lists(lambda x, y: x * y + 1, x, y) == 0
    assert lists(chain, gc.ones(5000), y) == 0
    assert lists(chain, gc.ones(3, 1), gc.ones(3)) == 0
    assert lists(lambda x, y: sum((x + i for i in range(60)), x), gc.arange(3), gc.arange(3)) == 0


def test_arrays_that_are_no_rows_in_memory_go_in() -> None:
    assert lists(chain, gc.ones(4, 6).t() * 0.5, y) == 1
    assert lists(lambda x, y: chain(x.expand(7), y.expand(7)), x[:1], y) == 1
    assert lists(lambda x, y: chain(x[::2], y), x, y) == 1


def test_gradients_go_through_lists() -> None:
    grads = []
    for function in (chain, CompiledFunction(chain, cpp="0")):
        for _ in range(3):
            leaves = [t.clone().requires_grad_() for t in (x, y)]
            function(*leaves).sum().backward()
        grads.append([t.grad for t in leaves])
    assert all(gc.equal(a, b) for a, b in zip(*grads, strict=True))


def test_each_run_has_results_and_memory_of_its_own() -> None:
    compiled = CompiledFunction(lambda x, y: (chain(x, y), chain(y, y)), cpp="0")
    wanted = [[chain(x * i, y).tolist(), chain(y, y).tolist()] for i in range(4)]
    for i in range(3):
        compiled(x * i, y)
    kept = [compiled(x * i, y) for i in range(4)]
    assert [[t.tolist() for t in each] for each in kept] == wanted
    wrong: list[int] = []

    def work(i: int) -> None:
        wrong.extend(i for _ in range(200) if compiled(x * i, y)[0].tolist() != wanted[i][0])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_explain_and_the_profiler_show_lists() -> None:
    compiled = gc.compile(chain)
    assert "group 0 of the program (120 calls by the library, in " in compiled.explain(x, y)
    with gc.autograd.profiler.profile() as prof:
        compiled(x, y)
    assert "listed 120 calls" in [event.name for event in prof.function_events]


def test_functions_without_a_loop_are_not_taken() -> None:
    assert CallList.takes(np.add, np.dtype("f4"))
    assert not CallList.takes(np.add, np.dtype("O"))
    assert not CallList.takes(np.matmul, np.dtype("f4"))
    assert not CallList.takes(len, np.dtype("f4"))


@pytest.mark.parametrize("kernels", ["numpy", "compiled"])
def test_kernels_on_small_arrays_are_functions_of_numpy(kernels: str, compiled: Any, monkeypatch: Any) -> None:
    if kernels == "compiled":
        monkeypatch.setattr(CPU, "kernels", compiled.kernels)
    plain: set[str] = set()
    for name, own in RENAMED.items():
        for size in (1, 1 << 20):
            program = Program()
            known = ArrayType((size,), np.dtype("f4"), (4,), 0)
            program.types |= {n: known._replace(memory=n) for n in range(3)}
            args = tuple(map(Value, range(getattr(np, own).nin if isinstance(getattr(np, own), np.ufunc) else 1)))
            call = Call(f"kernels.{name}", CPU.kernels[name], args, {}, Value(2))
            program.calls = [call]
            (found,) = use_small_kernels(program, Effects(program)).calls
            if size > 1:
                assert found is call
            elif takes_scalars(found):
                plain.add(name)
    assert plain >= {"add", "sub", "mul", "div", "neg", "exp", "tanh", "sqrt", "square", "maximum", "lt", "ge", "cos"}
    assert len(plain) > 50
