"""Memory plans: arenas are reused, never handed out, and never shared by runs."""

from __future__ import annotations

import linecache
import threading
import tracemalloc
import weakref
from contextlib import suppress
from gc import collect, disable, enable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.backends.registry import CPU
from gradcore.compiler.autograd.optimizer_steps import PlannedStep
from gradcore.compiler.function import CompiledFunction
from gradcore.compiler.program.arena import Host, Pool, arrange
from gradcore.compiler.program.memory import MemoryPlan, memory_plan
from gradcore.compiler.program.passes import optimize
from gradcore.compiler.targets.python.tiles import fuse_calls

N = 50_000
of_numpy = pytest.mark.skipif(CPU.backend.__class__ is not NumpyBackend, reason="functions of the compiled library")


def function(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
    first = (x * y + x) * 2 - y
    second = first.cumsum(0)
    return (second * first - y) * second + first


def program_of(call: Any, *args: gc.Tensor) -> tuple[CompiledFunction, MemoryPlan]:
    compiled = CompiledFunction(call, fullgraph=True)
    for _ in range(3):
        compiled(*args)
    return compiled, memory_plan(fuse_calls(optimize(compiled._specializations[0].programs[0])))


def arguments() -> tuple[gc.Tensor, gc.Tensor]:
    return gc.randn(N), gc.randn(N)


@of_numpy
def test_the_values_of_a_chain_share_memory() -> None:
    _, plan = program_of(lambda x, y: (x * y + x) * 2 - y, *arguments())
    assert N * 4 <= plan.size < N * 4 + 64
    assert [*plan.offsets.values()] == [0, 0, 0]


def test_a_write_to_a_value_in_the_arena_stays_in_place() -> None:
    """The sum of three gradients is written in place, and the gradient of a transposition is a view of it."""

    def turned(x: gc.Tensor) -> gc.Tensor:
        y = x.sin().t()
        return (y.flip(0) + y.flip(1) + y.cumsum(0)).sum()

    compiled, gradients = gc.compile(turned, options={"cpp": False}), []
    for call in (turned, *[compiled] * 3):
        x = gc.ones(250, 260, requires_grad=True)
        call(x).backward()
        gradients.append(x.grad)
    assert compiled._specializations
    for gradient in gradients[1:]:
        gc.testing.assert_close(gradient, gradients[0])


@of_numpy
def test_values_that_live_at_a_time_have_memory_of_their_own() -> None:
    _, plan = program_of(function, *arguments())
    for n, (first, last) in plan.lifetimes.items():
        for m, (start, end) in plan.lifetimes.items():
            if n != m and plan.offsets[n] == plan.offsets[m]:
                assert last <= start or end <= first
    assert plan.size < 4 * N * len(plan.offsets)


@of_numpy
def test_a_view_keeps_the_memory() -> None:
    def call(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
        view = (x * y).view(500, 100).t()
        other = x + y
        return (view.reshape(-1) - other) * y

    compiled, _ = program_of(call, *arguments())
    x, y = arguments()
    assert gc.equal(compiled(x, y), call(x, y))


@pytest.mark.parametrize("seed", range(20))
def test_values_overlap_only_if_they_are_not_alive_at_a_time(seed: int) -> None:
    """Draw lifetimes, sizes, hosts, and pairs of values of which one may be written over the other."""
    random = np.random.default_rng(seed)
    starts, lengths = random.integers(0, 50, 60).tolist(), random.integers(0, 20, 60).tolist()
    sizes = random.choice([0, 4, 8, 100, 5000, 40_000, 70_000], 60).tolist()
    lifetimes = {n: (start, start + length) for n, (start, length) in enumerate(zip(starts, lengths, strict=True))}
    pairs = [(a, b) for a in lifetimes for b in lifetimes if starts[a] < starts[b] and random.random() < 0.5]
    hosts = [Host("first", 90_000, 30), Host("second", 150_000, 45)]
    size, slots = arrange(lifetimes, sizes.__getitem__, pairs, hosts)
    assert slots.keys() == lifetimes.keys()
    limits = {"arena": (size, 99), **{name: limits for name, *limits in hosts}}
    for a, (name, start) in slots.items():
        assert start % (8 if sizes[a] <= 8 else 64) == 0
        assert 0 <= start <= start + sizes[a] <= limits[name][0]
        assert lifetimes[a][1] < limits[name][1]
        for b, (other, begin) in slots.items():
            if b > a and name == other and start < begin + sizes[b] and begin < start + sizes[a]:
                early, late = sorted((a, b), key=lifetimes.__getitem__)
                assert lifetimes[early][1] <= lifetimes[late][0]
                if lifetimes[early][1] == lifetimes[late][0]:
                    assert (early, late) in pairs
                    assert sizes[a] == sizes[b]
                    assert start == begin


def test_results_keep_their_elements() -> None:
    compiled, _ = program_of(function, *arguments())
    given = [arguments() for _ in range(4)]
    results = [compiled(*args) for args in given]
    for args, result in zip(given, results, strict=True):
        assert gc.equal(result, function(*args))


def test_views_of_intermediate_values_as_results_keep_their_elements() -> None:
    call = lambda x, y: (x * y + x)[10:-10]  # noqa: E731
    compiled, _ = program_of(call, *arguments())
    given = [arguments() for _ in range(3)]
    results = [compiled(*args) for args in given]
    assert all(gc.equal(result, call(*args)) for args, result in zip(given, results, strict=True))


def test_values_that_are_saved_for_backward_keep_their_elements() -> None:
    compiled, _ = program_of(lambda x, y: function(x, y).sum(), *(t.requires_grad_() for t in arguments()))
    pairs = [tuple(t.requires_grad_() for t in arguments()) for _ in range(3)]
    losses = [compiled(*args) for args in pairs]
    for args, loss in zip(pairs, losses, strict=True):
        found = gc.autograd.grad(loss, args)
        expected = gc.autograd.grad(function(*args).sum(), args)
        assert all(np.array_equal(a.numpy(), b.numpy()) for a, b in zip(found, expected, strict=True))


def test_threads_have_arenas_of_their_own() -> None:
    compiled, _ = program_of(function, *arguments())
    wrong: list[int] = []

    def work() -> None:
        for i in range(10):
            args = arguments()
            if not gc.equal(compiled(*args), function(*args)):
                wrong.append(i)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


def test_calls_within_calls_have_arenas_of_their_own() -> None:
    _, plan = program_of(function, *arguments())
    arenas = Pool(plan.allocate)
    first, second = arenas.take(), arenas.take()
    assert not any(np.may_share_memory(a, b) for a in first for b in second)
    arenas.give(first)
    assert arenas.take() is first


def test_an_error_gives_the_arena_back() -> None:
    def call(x: gc.Tensor, y: gc.Tensor, index: gc.Tensor) -> gc.Tensor:
        z = x * y + x
        return (z[index].sum() + z * 2) * y

    compiled, _ = program_of(call, *arguments(), gc.tensor([1]))
    x, y = arguments()
    for _ in range(5):
        with pytest.raises(IndexError):
            compiled(x, y, gc.tensor([N]))
        assert gc.equal(compiled(x, y, gc.tensor([3])), call(x, y, gc.tensor([3])))


@of_numpy
@pytest.mark.unverified("eager execution needs memory")
def test_large_values_are_not_allocated_anew() -> None:
    compiled, plan = program_of(function, *arguments())
    args = arguments()
    result = compiled(*args)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        result = compiled(*args)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.numel() == N
    assert len(plan.offsets) >= 5
    assert peak - before < 3 * N * 4  # the sums, and the result


def test_memory_does_not_grow() -> None:
    compiled, _ = program_of(lambda x, y: function(x[:10], y[:10]), *arguments())
    args = arguments()
    for _ in range(100):
        compiled(*args)
    tracemalloc.start()
    try:
        for _ in range(100):
            compiled(*args)
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(10_000):
            compiled(*args)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 100_000


@pytest.mark.unverified("eager execution needs memory")
@pytest.mark.parametrize("views", [False, True])
def test_a_capture_keeps_what_eager_execution_keeps(views: bool) -> None:
    def steps(x: gc.Tensor) -> gc.Tensor:
        for _ in range(20):
            x = x.tanh() * 1.01
            if views:
                x = x.view(2, -1).view(-1)
        return x.sum()

    def peak_of(function: Any) -> int:
        tracemalloc.start()
        try:
            function(x)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    x, compiled = gc.randn(N), CompiledFunction(steps, cpp="0")
    with gc.no_grad():
        eager, *calls = peak_of(steps), *(peak_of(compiled) for _ in range(2))
    assert compiled._specializations
    assert max(calls) < 1.3 * eager + 10 * N  # some kB of Python objects for each call, and the arena of the program


def test_planning_a_step_takes_memory_for_one_parameter_at_a_time() -> None:
    parameters = [gc.nn.Parameter(gc.ones(1000, 100)) for _ in range(8)]
    optimizer = gc.optim.SGD(parameters, lr=0.1)
    for each in parameters:
        each.grad = gc.ones_like(each)
    optimizer.step()
    PlannedStep(optimizer, None)  # what is loaded by the first one
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        PlannedStep(optimizer, None)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < 5 * parameters[0].nbytes


def test_source_text_is_freed_with_the_generated_code() -> None:
    def compile_and_call() -> set[str]:
        before = set(linecache.cache)
        compiled = gc.compile(lambda x: (x * 2).tanh().sum(), options={"cpp": False})
        for _ in range(3):
            compiled(gc.ones(3, requires_grad=True)).backward()
        return set(linecache.cache) - before

    compile_and_call()  # operations that are used for the first time keep the text of their code
    made = compile_and_call()
    collect()
    assert made
    assert made.isdisjoint(linecache.cache)


def _decides(x: gc.Tensor, w: gc.Tensor) -> gc.Tensor:
    return (x * w).sum() if x.square().sum() > 0 else x.sum()


def _splits(x: gc.Tensor, w: gc.Tensor) -> gc.Tensor:
    y = x * w
    _noted.append(float(y.detach().sum()))
    return y.sum()


def _is_refused(x: gc.Tensor, w: gc.Tensor) -> gc.Tensor:
    return (x * w * float(x.sum())).sum()


def _fails(x: gc.Tensor, w: gc.Tensor) -> gc.Tensor:
    return ((x * w).reshape(4) if w.grad is not None else x * w).sum()


_noted: list[float] = []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("call", [lambda x, w: (x * w).sum(), _decides, _splits, _is_refused, _fails])
def test_no_call_leaves_its_arguments_to_the_collector_of_cycles(call: Any, dynamic: bool | None) -> None:
    """A captured call keeps nothing alive, as its large arguments would stay until cycles are collected."""
    compiled, w, references = gc.compile(call, dynamic=dynamic), gc.ones(1, requires_grad=True), []
    collect()
    disable()
    try:
        for size in (3, 3, 3, 5, 6, 6, 7):
            x = gc.ones(size)
            references += [weakref.ref(x), weakref.ref(x.numpy())]
            with suppress(RuntimeError):
                compiled(x, w).backward()
            del x
            assert [reference() for reference in references] == [None] * len(references)
    finally:
        enable()


def test_a_captured_step_leaves_no_gradient_to_the_collector_of_cycles() -> None:
    model = gc.nn.Linear(3, 2)
    optimizer = gc.optim.Adam(model.parameters())
    references: list[Any] = []

    @gc.compile
    def step(x: gc.Tensor) -> gc.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    collect()
    disable()
    try:
        for _ in range(4):
            x = gc.ones(5, 3)
            references += [weakref.ref(x), weakref.ref(step(x))]
            del x
            assert [reference() for reference in references] == [None] * len(references)
    finally:
        enable()
