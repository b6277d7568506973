"""Programs that become C++, against eager execution: values, gradients, in-place effects, errors; and when they do."""

from __future__ import annotations

import marshal
import os
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import gradcore as gc
from gradcore import compiled as kernels
from gradcore import nn
from gradcore.backends.compiled.library import HERE
from gradcore.backends.numpy.openblas import NUMPY
from gradcore.backends.registry import CPU
from gradcore.compiler.function import CompiledFunction
from gradcore.compiler.targets import native
from gradcore.compiler.targets.native import building, files, plans, segments
from gradcore.compiler.targets.native.files import read_whole, write_whole
from gradcore.core import config
from tests.compiler import test_operations as samples
from tests.compiler.conftest import has_compiler
from tests.compiler.test_passes import sums_of_sums
from tests.compiler.test_programs import PURE, leaves

F = nn.functional
#: Largest differences from eager execution, in the largest element: other orders of sums, other functions.
BOUND = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-11, "complex64": 2e-5, "complex128": 1e-11}
#: Operations of which small differences make other results: bases of spaces, where numbers are equal or zero.
ILL_CONDITIONED = frozenset(["pca_lowrank", "svd_lowrank"])


pytestmark = pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("libraries")


@pytest.fixture(autouse=True)
def writer(libraries: Path, quick_builds: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADCORE_CACHE", str(libraries))
    monkeypatch.setattr(config, "COMPILE_CPP", "wait")
    monkeypatch.setattr(plans, "LEAST_CALLS", 1)


def close(found: Any, expected: Any) -> bool:
    """Whether results are the same, but for the rounding of floats."""
    if isinstance(found, np.ndarray) and isinstance(expected, np.ndarray):
        if (found.dtype, found.shape) != (expected.dtype, expected.shape):
            return False
        if found.dtype.name not in BOUND:
            return found.tobytes() == expected.tobytes()
        finite = np.isfinite(expected)
        if not np.array_equal(np.where(finite, 0, found), np.where(finite, 0, expected), equal_nan=True):
            return False
        size = np.abs(expected[finite]).max() if finite.any() else 0
        return bool((np.abs(found[finite] - expected[finite]) <= BOUND[found.dtype.name] * (size + 1e-3)).all())
    if isinstance(found, (list, tuple)) and isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(map(close, found, expected))
    return type(found) is type(expected) and bool(found == expected)


def arrays_of(value: Any) -> list[np.ndarray[Any, Any]]:
    return [t.detach().numpy() for t in leaves(value)]


def check(function: Any, *arguments: Any, calls: int = 4) -> CompiledFunction:
    """Compile a function, and compare some calls with eager ones."""
    compiled = CompiledFunction(function, fullgraph=True)
    for seed in range(calls):
        gc.manual_seed(seed)
        found = compiled(*arguments)
        gc.manual_seed(seed)
        assert close(arrays_of(found), arrays_of(function(*arguments)))
    return compiled


def states(compiled: CompiledFunction) -> list[str]:
    return [native.describe(run)[0] for entry in compiled._specializations for run in entry.functions]


# -- operations ------------------------------------------------------------------------------------------------------


class Waiting:
    """Programs that are built together, as one library."""

    def __init__(self) -> None:
        self.pairs: list[tuple[Any, Any]] = []

    def runnable(self, program: Any, cpp: str | None = None) -> Any:
        run = native.hot_swap.emitter.function_of(program)  # type: ignore[attr-defined]
        run.state = "waits"
        self.pairs.append((run, program))
        return run


@pytest.mark.slow
@pytest.mark.parametrize("part", range(12))
def test_samples_of_operations(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting()
    monkeypatch.setattr(native, "runnable", waiting.runnable)
    chosen = [case for case in samples.CHOSEN[part::48] if case.op.name not in ILL_CONDITIONED]
    compiled = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in chosen:
            function = lambda args, settings, call=case.op.call: call(*args, **settings)  # noqa: E731
            compiled.append((case, function, CompiledFunction(function)))
            for _ in range(4):
                samples.outcome(compiled[-1][2], case, case.arrays())
        native.swap(waiting.pairs)
        for case, function, made in compiled:
            for arrays in (case.arrays(), samples.others(case)):
                expected, found = samples.outcome(function, case, arrays), samples.outcome(made, case, arrays)
                assert close(found, expected), f"{case.label}: {found} instead of {expected}"
    done = [run.state for run, _ in waiting.pairs]
    assert sum("functions" in state for state in done) >= len(done) / 4
    assert all("functions" in state or state == "there is nothing for it" for state in done), done


# -- programs --------------------------------------------------------------------------------------------------------


def test_sums_of_gradients_that_are_sums() -> None:
    check(gc.func.grad(sums_of_sums), gc.linspace(-1, 1, 5))


@pytest.mark.slow
def test_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting()
    monkeypatch.setattr(native, "runnable", waiting.runnable)
    made = [(function, make(), CompiledFunction(function, fullgraph=True)) for function, make in PURE.values()]
    for _ in range(4):
        for function, arguments, compiled in made:
            gc.manual_seed(1)
            found = compiled(*arguments)
            gc.manual_seed(1)
            assert close(arrays_of(found), arrays_of(function(*arguments)))
        native.swap(waiting.pairs)
    assert all("functions" in run.state for run, _ in waiting.pairs)


@pytest.mark.slow
def test_a_chain_of_rows_columns_and_numbers() -> None:
    def function(x: gc.Tensor, y: gc.Tensor) -> Any:
        rows = x - x.mean(1, keepdim=True)
        columns = (rows.t() * y).t().contiguous()
        return columns.sum(0), (columns / columns.square().sum().sqrt())[::2, 1:], x.amax(1), x[:, 1:].exp().sum(1)

    check(function, gc.randn(6, 5), gc.randn(5, 6))
    check(function, gc.randn(5, 6).t(), gc.randn(6, 5).t()[:5])


@pytest.mark.slow
def test_integers_bools_and_broadcasts() -> None:
    def function(x: gc.Tensor, n: gc.Tensor) -> Any:
        mask = (x > 0) & (n < 3)
        return gc.where(mask, x * n, -x), mask.sum(), (n * n - 1).sum(0), mask | (n == 2), n.max()

    check(function, gc.randn(4, 5), gc.arange(5))


def test_gradients_of_a_model_and_its_loss() -> None:
    model = nn.Sequential(nn.Linear(6, 9), nn.LayerNorm(9), nn.GELU(), nn.Linear(9, 4)).double()

    def step(x: gc.Tensor, y: gc.Tensor) -> Any:
        loss = F.cross_entropy(model(x), y)
        return loss.detach(), *gc.autograd.grad(loss, list(model.parameters()))

    compiled = check(step, gc.randn(7, 6, dtype=gc.float64), gc.randint(0, 4, (7,)))
    (entry,) = compiled._specializations
    assert native.describe(entry.functions[0])[1:] == []


@pytest.mark.slow
def test_tangents_of_copies_with_another_dtype() -> None:
    def function(x: gc.Tensor) -> gc.Tensor:
        y = x.tanh()
        y.copy_(x.double().exp())
        return y * 2

    done = check(lambda x: gc.func.jvp(function, (x,), (x.cos(),))[1], gc.randn(6))
    assert "functions" in states(done)[0]


def test_large_arrays_in_threads() -> None:
    before = gc.get_num_threads()
    try:
        for threads in (1, 2):
            gc.set_num_threads(threads)
            compiled = check(lambda x: ((x * x + 1).sqrt(), (x * 3).sum(), x.mean(0)), gc.randn(700, 500))
            assert "functions" in states(compiled)[0]
    finally:
        gc.set_num_threads(before)


@pytest.mark.slow
def test_bools_that_are_constants_select() -> None:
    def function(x: gc.Tensor) -> Any:
        ones, zeros = gc.ones(()), gc.zeros(())
        return gc.where(ones > zeros, x, -x) * 2, gc.where(gc.tensor(False), x + 1, x).sum()

    check(function, gc.randn(4))


@pytest.mark.slow
def test_errors_of_the_writer_are_only_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments.NativeProgram, "plan", lambda *args: 1 / 0)
    compiled = check(lambda x: (x * 17).sum() + 1, gc.randn(4))
    assert "ZeroDivisionError" in states(compiled)[0]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_large_rows(threads: int) -> None:
    """Softmax, cross entropy and layer norm of arrays that threads share, with their gradients."""
    layer, plain = nn.LayerNorm(300), nn.LayerNorm((3, 100), elementwise_affine=False)
    target = gc.randint(0, 300, (130,))

    def function(x: gc.Tensor, weight: gc.Tensor) -> Any:
        y = layer(x) * weight
        z = plain(y.reshape(130, 3, 100)).reshape(130, 300)
        loss = F.cross_entropy(z, target) + (F.softmax(x, 1) * y).sum() + F.log_softmax(y, -1)[0].sum()
        return loss.detach(), *gc.autograd.grad(loss, [x, weight, *layer.parameters()])

    before = gc.get_num_threads()
    gc.set_num_threads(threads)
    try:
        compiled = check(function, gc.randn(130, 300, requires_grad=True), gc.randn(300, requires_grad=True))
    finally:
        gc.set_num_threads(before)
    assert native.describe(compiled._specializations[0].functions[0])[1:] == []


@pytest.mark.slow
def test_rows_without_numbers() -> None:
    """Of minus infinity and of NaN."""
    x = gc.randn(5, 8)
    x[0], x[1, 2], x[2, 3], x[3, 1] = -float("inf"), float("nan"), float("inf"), -float("inf")
    check(lambda x: (F.softmax(x, 1) * 2, F.log_softmax(x, 1) + 1), x)
    hidden = gc.zeros(4, 5, 5)
    hidden[1, 2] = -float("inf")
    q = gc.randn(4, 5, 8)
    check(lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m) + 1, q, hidden)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool) -> None:
    def function(q: gc.Tensor, k: gc.Tensor, v: gc.Tensor, mask: Any = None) -> Any:
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return out.detach(), *gc.autograd.grad((out * out).sum(), [q, k, v])

    q, k, v = (gc.randn(2, 3, n, 8, requires_grad=True) for n in (7, 9, 9))
    mask = () if causal else (gc.randn(7, 9),)
    compiled = check(function, q, k, v, *mask)
    assert not [line for line in native.describe(compiled._specializations[0].functions[0]) if "attention" in line]
    heads = gc.randn(2, 7, 3, 8, requires_grad=True)
    check(lambda t: function(t.transpose(1, 2), *(t.transpose(1, 2),) * 2)[0] * 2, heads)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [(2,), (3, 2, 1), (2, 1, 1, 2), (3, 3, 0, 1, True), ((3, 2), (2, 1), (1, 0))])
def test_pooling(settings: Any) -> None:
    def function(x: gc.Tensor) -> Any:
        out = F.max_pool2d(x, *settings)
        return out.detach(), *gc.autograd.grad((out * out).sum(), x)

    x = gc.randn(2, 3, 9, 8)
    x[0, 0, 2, 3] = x[0, 0, 2, 4] = float("nan")
    x[0, 1] = 1.5
    compiled = check(function, x.requires_grad_())
    assert not [line for line in native.describe(compiled._specializations[0].functions[0]) if "pool" in line]


@pytest.mark.slow
def test_tables_and_their_gradients() -> None:
    table = gc.randn(6, 4, requires_grad=True)

    def function(index: gc.Tensor) -> Any:
        rows = F.embedding(index, table, padding_idx=2)
        return rows.detach(), *gc.autograd.grad((rows * rows).sum(), table)

    check(function, gc.tensor([[0, 2, 5], [5, 1, 5]]))


@pytest.mark.slow
def test_functions_of_vectors() -> None:
    """Those of the C library, in loops, at all sizes of arguments."""
    x = gc.cat([gc.randn(5000), gc.randn(500) * 1e6, gc.tensor([0.0, -0.0, 1e30, float("inf"), float("nan")])])

    def function(x: gc.Tensor) -> Any:
        unit = x.clamp(-1, 1)
        return (
            x.sin() + 1, x.cos() + 1, unit.asin() + 1, unit.acos() + 1, x.atan() + 1, unit.sinh() + 1, unit.cosh() + 1,
            x.asinh() + 1, (x.abs() + 1).acosh() + 1, (unit * 0.9).atanh() + 1, (unit * 9).exp2() + 1,
            x.abs().log2() + 1, x.abs().log10() + 1, x.abs() ** 0.3 + 1, gc.atan2(x, unit) + 1, unit.tan() + 1,
        )  # fmt: skip

    check(function, x)
    check(function, x.double())


@pytest.mark.slow
def test_sums_of_products_with_named_dims() -> None:
    def function(a: gc.Tensor, b: gc.Tensor) -> Any:
        return (
            gc.einsum("bij,bjk->bik", a, b), gc.einsum("bij,bjk->bki", a, b), gc.einsum("bij,bjk->ik", a, b),
            gc.einsum("bij,bkj->bik", a, b.transpose(1, 2)), gc.einsum("bij,bjk->ki", a, b),
        )  # fmt: skip

    check(function, gc.randn(3, 4, 5), gc.randn(3, 5, 6))


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"padding": 1}, {"padding": 2, "dilation": 2}, {"stride": 2}, {"groups": 2}])
def test_convolutions(settings: dict[str, Any]) -> None:
    """By the compiled kernels, where these are used; else by Python."""
    w, b = gc.randn(8, 4 // settings.get("groups", 1), 3, 3, requires_grad=True), gc.randn(8, requires_grad=True)

    def function(x: gc.Tensor) -> Any:
        out = F.conv2d(x, w, b, **settings).relu()
        return out.detach(), *gc.autograd.grad((out * out).sum(), [x, w, b])

    compiled = check(function, gc.randn(2, 4, 13, 12, requires_grad=True))
    by_python = [line for line in native.describe(compiled._specializations[0].functions[0]) if "conv" in line]
    assert not by_python or settings.get("stride") or not kernels.is_used()


def test_programs_call_c_functions_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The addresses of built-in functions of Python are no C functions with these arguments."""
    names: list[str] = []

    class Library:
        def __getattr__(self, name: str) -> Any:
            names.append(name)
            raise AttributeError(name)

    monkeypatch.setattr(CPU.backend, "library", Library(), raising=False)
    building._tools.__wrapped__()
    sources = "".join(path.read_text() for path in Path(HERE).glob("*.cpp"))
    assert "gradcore_share" in names
    assert "BUILTIN(gradcore_correlate_f," in sources
    assert not [name for name in names if f"BUILTIN({name}," in sources]


@pytest.mark.slow
def test_products_of_all_layouts() -> None:
    def function(a: gc.Tensor, b: gc.Tensor) -> Any:
        return a @ b, a @ b.t().contiguous().t(), a.t().contiguous().t() @ b, b.t() @ a.t(), a[1] @ b, a @ b[:, 0]

    for m, k, n in ((3, 5, 2), (17, 16, 41)):
        check(function, gc.randn(m + 1, k)[1:] if m > 1 else gc.randn(2, k), gc.randn(k, n))


# -- effects and errors ----------------------------------------------------------------------------------------------


def test_writes_land_in_the_tensors_that_are_given() -> None:
    def function(x: gc.Tensor, state: gc.Tensor) -> gc.Tensor:
        state.mul_(0.5).add_(x)
        state[1:] -= state[:1]
        return state * 2

    compiled, eager, made = CompiledFunction(function, fullgraph=True), gc.zeros(4, 3), gc.zeros(4, 3)
    for _ in range(5):
        x = gc.randn(4, 3)
        assert close(arrays_of(compiled(x, made)), arrays_of(function(x, eager)))
        assert close(arrays_of(made), arrays_of(eager))
    assert made._version == eager._version


def test_two_views_of_one_storage() -> None:
    """What is written to one is read from the other, as eagerly."""

    def function(a: gc.Tensor, b: gc.Tensor) -> gc.Tensor:
        a.add_(1)
        c = b * 2
        a.mul_(3)
        return c + b

    compiled = CompiledFunction(function, fullgraph=True)
    for _ in range(4):
        stores = [gc.arange(6.0), gc.arange(6.0)]
        found, expected = compiled(stores[0][:4], stores[0][2:]), function(stores[1][:4], stores[1][2:])
        assert gc.equal(found, expected)
        assert gc.equal(*stores)


def test_what_is_recorded_apart_may_be_given_as_views_of_one_storage() -> None:
    """One loop writes to several tensors; where they share elements, the calls follow each other as eagerly."""

    def function(a: gc.Tensor, b: gc.Tensor, c: gc.Tensor) -> None:
        a.add_(b, alpha=0.5)
        b.mul_(2).add_(a)
        c.sub_(a / (b + 1))

    size = 50_000
    compiled = CompiledFunction(function, fullgraph=True)
    for start in (size, size, size, 1, 0, size - 1, size):
        stores = [gc.arange(4.0 * size), gc.arange(4.0 * size)]
        for run, store in zip((compiled, function), stores, strict=True):
            run(*(store[i * start : i * start + size] for i in range(3)))
        assert close(*(store.numpy() for store in stores))
    assert [part.scratch for run in compiled._specializations[0].functions for part in run.native.parts] == [0]


def test_a_call_that_may_raise_is_in_the_part_of_the_calls_before_it() -> None:
    """What these have made, statistics in the rows of one array too, may be made again."""

    def function(x: gc.Tensor, w: gc.Tensor, labels: gc.Tensor) -> gc.Tensor:
        (found,) = gc.autograd.grad(F.cross_entropy(F.layer_norm(x @ w, (8,)), labels), [w])
        return found

    compiled = check(function, gc.randn(6, 4), gc.randn(4, 8, requires_grad=True), gc.tensor([1, 0, 7, 3, 3, 2]))
    assert [len(run.native.parts) for entry in compiled._specializations for run in entry.functions] == [1]


def test_errors_are_those_of_eager_execution() -> None:
    def function(table: gc.Tensor, index: gc.Tensor, x: gc.Tensor) -> Any:
        return F.embedding(index, table) * 2 + x, F.cross_entropy(x * 3, index)

    table, x = gc.randn(5, 3), gc.randn(2, 3)
    compiled = check(function, table, gc.tensor([0, 2]), x)
    assert "functions" in states(compiled)[0]
    for bad in ([0, 7], [-9, 1], [3, 1]):
        index = gc.tensor(bad)
        with pytest.raises((IndexError, RuntimeError)) as expected:
            function(table, index, x)
        with pytest.raises(type(expected.value)) as found:
            compiled(table, index, x)
        assert str(found.value) == str(expected.value)


def test_threads_share_nothing() -> None:
    compiled = check(lambda x: (x @ x).tanh() @ x, gc.randn(20, 20))
    wrong: list[Any] = []

    def work(seed: int) -> None:
        x = gc.full((20, 20), seed / 100)
        expected = (x @ x).tanh() @ x
        wrong.extend(seed for _ in range(200) if not close(arrays_of(compiled(x)), arrays_of(expected)))

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert wrong == []


# -- when -------------------------------------------------------------------------------------------------------------


def test_in_the_background_after_some_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = gc.compile(lambda x: (x * 5 + 1).tanh().sum(), options={"cpp": True})
    x = gc.randn(9)
    for _ in range(3):
        expected = compiled(x)
    assert "not built" in compiled.explain(x)
    for _ in range(40):
        compiled(x)
    for thread in threading.enumerate():
        if thread.name == "gradcore-compile":
            thread.join(600)
    assert states(compiled) == ["4 calls in 1 functions"]
    assert close(arrays_of(compiled(x)), arrays_of(expected))


def test_python_makes_all_calls_if_no_thread_can_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process with too many threads, or in one that exits."""
    compiled, x = gc.compile(lambda x: (x * 19 + 1).tanh().sum(), options={"cpp": True}), gc.randn(9)
    expected = compiled(x)
    monkeypatch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
    for _ in range(40):
        assert close(arrays_of(compiled(x)), arrays_of(expected))
    assert states(compiled) == ["can't start new thread"]


def test_a_later_process_begins_with_the_library(libraries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    function = lambda x: (x * 7 + 2).tanh().sum()  # noqa: E731
    first = check(function, gc.randn(9))
    monkeypatch.setattr(building, "_compile", lambda *args: pytest.fail("it is compiled again"))
    second = check(function, gc.randn(9))
    assert states(second) == states(first)


def test_a_later_process_lowers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan of a program with parts, calls of Python between them, literals and errors is found by its name."""

    def function(table: gc.Tensor, index: gc.Tensor, q: gc.Tensor) -> Any:
        rows = F.embedding(index, table) * 2 + 1
        sorted_ = (rows * rows).sort(1).values
        return F.scaled_dot_product_attention(q, q, q, is_causal=True), (sorted_ @ rows.T).tanh() - 1

    given = gc.randn(5, 3, requires_grad=True), gc.tensor([0, 2]), gc.randn(1, 2, 6, 4)
    first = check(function, *given)
    monkeypatch.setattr(segments.NativeProgram, "__init__", lambda *args: pytest.fail("it is lowered again"))
    second = check(function, *given)
    assert states(second) == states(first)
    assert "functions" in states(second)[0]
    for bad in (gc.tensor([0, 7]), gc.tensor([-9, 1])):
        with pytest.raises(IndexError) as expected:
            function(given[0], bad, given[2])
        with pytest.raises(IndexError) as found:
            second(given[0], bad, given[2])
        assert str(found.value) == str(expected.value)


def test_a_later_process_lowers_nothing_where_nothing_is_native(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program whose calls Python makes is stored as a plan without a library; a program without calls has no plan."""

    def function(x: gc.Tensor) -> Any:
        return x.sort(1).values.sort(0).values

    first = check(function, gc.rand(5, 3))
    assert states(first) == ["there is nothing for it"]
    monkeypatch.setattr(segments.NativeProgram, "__init__", lambda *args: pytest.fail("it is lowered again"))
    second = check(function, gc.rand(5, 3))
    assert native.describe(second._specializations[0].functions[0]) == native.describe(
        first._specializations[0].functions[0]
    )
    model = gc.nn.Linear(2, 1)
    optimizer = gc.optim.SGD(model.parameters(), lr=0.1)
    compiled = CompiledFunction(optimizer.zero_grad, fullgraph=True)
    for _ in range(4):
        compiled()
    assert compiled._specializations[0].functions == []


def test_names_of_plans() -> None:
    """They are equal for equal programs, and others for other settings, numbers, shapes, dtypes and sources."""

    def name(function: Any, x: gc.Tensor) -> str | None:
        compiled = CompiledFunction(function, fullgraph=True, cpp="0")
        for _ in range(3):
            compiled(x)
        return plans.name_of(compiled._specializations[0].programs[0])

    x = gc.arange(6.0).reshape(2, 3)
    names = [name(lambda x, k=k: (x * k).softmax(1).sum(0), x) for k in (2.0, 3.0, -0.0, 0.0)]
    names += [name(lambda x, d=d: (x * 2).softmax(d).sum(0), x) for d in (0, 1)]
    names += [name(lambda x: (x * 2).softmax(1).sum(0), y) for y in (x.double(), x[:, :2], x.T)]
    names.append(name(lambda x: (x * gc.tensor([1.0, 2.0, 3.0])).softmax(1).sum(0), x))
    names.append(name(lambda x: (x * gc.tensor([1.0, 2.0, 4.0])).softmax(1).sum(0), x))
    assert None not in names
    assert names[5] == names[0]
    del names[5]
    assert len(set(names)) == len(names)


def test_threads_may_write_a_file_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, replace = tmp_path / "plan-0", os.replace

    def replace_after_another_thread(source: Any, target: Any) -> None:
        monkeypatch.setattr(os, "replace", replace)
        thread = threading.Thread(target=write_whole, args=(path, b"the same"))
        thread.start()
        thread.join()
        replace(source, target)

    monkeypatch.setattr(os, "replace", replace_after_another_thread)
    write_whole(path, b"the same")
    assert read_whole(path) == b"the same"
    assert [*tmp_path.iterdir()] == [path]


def test_plans_without_a_library_are_deleted_as_others(libraries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MOST_FILES", 3)
    check(lambda x: (x * 17 + 2).tanh().sum(), gc.randn(9))  # the folder exists from the first library on
    for n in range(2, 7):
        check(lambda x: x.sort(1).values.sort(0).values, gc.rand(5, n))
    assert len([*(libraries / "programs").glob("plan-*")]) == 3


def test_names_of_plans_change_with_what_libraries_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources of the package, the CPU, the compiler, its options, NumPy, Python, and its folder."""
    compiled = check(lambda x: (x * 13 + 2).tanh().sum(), gc.randn(9))
    (whole,) = compiled._specializations[0].programs
    names = [plans.name_of(whole)]
    changes: dict[str, tuple[Any, str, Any]] = {
        "sources": (plans, "_stamp", lambda: "others"), "processor": (building, "_processor", lambda: "another"),
        "compiler": (building, "find_compiler", lambda: sys.executable), "options": (building, "_OPTIONS", ("-O0",)),
        "flags": (building, "FLAGS", ("-g",)), "numpy": (np, "__version__", "0.1"), "python": (sys, "version", "0.1"),
        "folder": (sys, "prefix", "/another"), "instructions": (building, "NATIVE", ("-mtune=native",)),
        "calls": (plans, "LEAST_CALLS", 7),
    }  # fmt: skip
    for change in changes.values():
        with monkeypatch.context() as patch:
            patch.setattr(*change)
            names.append(plans.name_of(whole))
    assert None not in names
    assert len(set(names)) == len(names)


def test_a_plan_that_cannot_be_read_is_none(libraries: Path) -> None:
    function = lambda x: (x * 11 + 2).tanh().sum()  # noqa: E731
    first = check(function, gc.randn(9))
    for path in (libraries / "programs").glob("plan-*"):
        path.write_bytes(b"no plan")
    assert states(check(function, gc.randn(9))) == states(first)


def _bits_flipped(data: bytes) -> bytes:
    return bytes(byte ^ (0xFF if i % 97 == 5 else 0) for i, byte in enumerate(data))


#: What may become of a file of the cache.
DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 3]),
    "one byte less": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + bytes(4096)),
    "flipped bits": lambda path: path.write_bytes(_bits_flipped(path.read_bytes())),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "a text": lambda path: path.write_text("no such thing"),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a link to nothing": lambda path: (path.unlink(), path.symlink_to(path.parent / "nothing")),
    "gone": lambda path: path.unlink(),
}
#: For each folder that is named, a child process that uses it as its cache, and writes its result and its exit status.
_WITH_FOLDERS = """
import os, sys
import gradcore as gc
from gradcore.compiler.targets.native import building, plans
plans.LEAST_CALLS, building._OPTIONS = 1, tuple(each.replace("-O2", "-O0") for each in building._OPTIONS)
for folder in sys.argv[1:]:
    sys.stdout.flush()
    child = os.fork()
    if not child:
        os.environ["GRADCORE_CACHE"] = folder
        f = gc.compile(lambda x: (x * 3 + 2).tanh().sum(), options={"cpp": "wait"})
        for _ in range(4):
            value = f(gc.ones(9))
        print(f"{value.item():.4f}", f._specializations[0].functions[0].state, end=" ", flush=True)
        os._exit(0)
    print(os.waitpid(child, 0)[1])
"""


def _results_with(*folders: Path) -> list[str]:
    """Return the result and exit status of processes that use these folders as their caches."""
    root = str(Path(gc.__file__).parents[1])
    variables = {**os.environ, "PYTHONPATH": root, "GRADCORE_COMPILE_CPP": "wait"}
    done = subprocess.run(
        [sys.executable, "-c", _WITH_FOLDERS, *map(str, folders)],
        env=variables, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("file", ["program-*.so", "plan-*"])
def test_a_damaged_file_is_built_again(file: str, libraries: Path, tmp_path: Path) -> None:
    """In processes of their own, as what is not noticed ends them."""
    first = libraries / "whole"
    (expected,) = _results_with(first)
    assert "functions" in expected
    assert expected.endswith(" 0")
    for damage, apply in DAMAGES.items():
        shutil.copytree(first, tmp_path / damage)
        paths = list((tmp_path / damage / "programs").glob(file))
        assert paths
        for path in paths:
            apply(path)
    assert _results_with(*(tmp_path / damage for damage in DAMAGES)) == [expected] * len(DAMAGES)


def test_the_library_of_a_plan_lies_beside_it(libraries: Path, tmp_path: Path) -> None:
    function = lambda x: (x * 17 + 2).tanh().sum()  # noqa: E731
    first = check(function, gc.randn(9))
    (whole,) = first._specializations[0].programs
    name = plans.name_of(whole)
    plan = libraries / "programs" / str(name)
    content = read_whole(plan)
    assert content is not None
    library, *rest = marshal.loads(content)
    foreign = tmp_path / library
    foreign.write_bytes((libraries / "programs" / library).read_bytes())
    for other in (str(foreign), f"../programs/{library}", f"{library}\0", library.upper(), "", 7, None, b"x"):
        write_whole(plan, marshal.dumps((other, *rest)))
        assert plans.find_plan(whole, name) is None
    write_whole(plan, marshal.dumps((library, *rest)))
    assert plans.find_plan(whole, name) is not None


def test_switched_off() -> None:
    compiled = gc.compile(lambda x: (x * 5 + 1).sum(), options={"cpp": False})
    for _ in range(3):
        compiled(gc.randn(4))
    assert states(compiled) == ["switched off"]
    with pytest.raises(RuntimeError, match="option cpp must be True, False or 'wait', not 'later'"):
        gc.compile(options={"cpp": "later"})(lambda x: x)


def test_a_compiler_that_fails_is_only_told(libraries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "c++"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    building._compiler.cache_clear()
    monkeypatch.setenv("CXX", str(broken))
    try:
        compiled = check(lambda x: (x * 11).sum() + 1, gc.randn(4))
        assert "The compiler failed" in states(compiled)[0]
    finally:
        building._compiler.cache_clear()


def test_a_folder_that_others_may_write_to_is_not_used(libraries: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("GRADCORE_CACHE", str(tmp_path))
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs").chmod(0o777)
    compiled = check(lambda x: (x * 13).sum() + 1, gc.randn(4))
    assert "others may write" in states(compiled)[0]


@pytest.mark.parametrize("sizes", [(700, 40, 33), (33, 40, 700), (130, 300, 130), (129, 200, 257)])
@pytest.mark.parametrize("turned", [0, 1, 2, 3])
def test_large_products_in_threads(sizes: tuple[int, int, int], turned: int) -> None:
    height, inner, width = sizes
    a = gc.randn(inner, height).mT if turned & 1 else gc.randn(height, inner)
    b = gc.randn(width, inner).mT if turned & 2 else gc.randn(inner, width)
    number = gc.get_num_threads()
    try:
        for threads in (1, 2, 3):
            gc.set_num_threads(threads)
            before = NUMPY.library and NUMPY.library.read()
            compiled = gc.compile(lambda a, b: (a + 1) @ b * 2, options={"cpp": "wait"})
            for _ in range(3):
                found = compiled(a, b)
            assert gc.allclose(found, (a + 1) @ b * 2, rtol=1e-4, atol=1e-3)
            assert NUMPY.library is None or NUMPY.library.read() == before
    finally:
        gc.set_num_threads(number)


def copied(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
    x.copy_(y)
    return x + y


def placed(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
    x[gc.arange(6)] = y
    return x + y


def placed_in_itself(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
    x[gc.arange(1, 6)] = x[:-1]
    return x * 2


@pytest.mark.slow
@pytest.mark.parametrize("function", [copied, placed, placed_in_itself], ids=lambda f: f.__name__)
@pytest.mark.parametrize("recorded", [0, 10])
def test_what_is_written_may_lie_in_what_is_read(function: Any, recorded: int) -> None:
    """Recorded with arguments that share memory, or that do not, and called with others."""
    compiled = gc.compile(function, options={"cpp": "wait"})
    for start, other in ((1, 1 + recorded), (1, 1 + recorded), (1, 0), (1, 0), (1, 0), (0, 1), (3, 0), (0, 10), (0, 0)):
        mine, wanted = gc.arange(20.0), gc.arange(20.0)
        found = compiled(mine[start : start + 6], mine[other : other + 6])
        assert gc.equal(found, function(wanted[start : start + 6], wanted[other : other + 6]))
        assert gc.equal(mine, wanted)
