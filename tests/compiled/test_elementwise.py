"""Loops of elementwise formulas give what NumPy gives, within the bounds of docs/compiled-kernels.md."""

from __future__ import annotations

import inspect
import math
import platform
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special

import gradcore as gc
from gradcore.backends.codegen.emit_cpp import emit, trace_loop
from gradcore.backends.compiled import building, elementwise, library
from gradcore.backends.compiled.elementwise import _MOST_LOOPS, Choice, CompiledElementwise, Forward
from gradcore.backends.compiled.variants import VARIANTS
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.backends.portable.elementwise import RENAMED
from gradcore.ops.declare.table import OPS, Op
from tests.backends.test_tiles import ELEMENTWISE, Array, derivative, formulas, numbers, same_bits

F = NumpyBackend()
SIZE = 20_000
#: Units in the last place of the result, or of one where that is larger.
BOUND, BOUNDS = 4, {"entr": 8, "gelu": 8, "mish": 32, "tanh_gelu_slope": 8, "zeta": 64}
#: Operations, and how many of their formulas have to be loops.
LOOPS = {
    "gelu": 2, "silu": 2, "mish": 2, "softplus": 2, "elu": 2, "hardswish": 2, "leaky_relu": 2, "relu": 1, "tanh": 1,
    "sigmoid": 2, "div": 1, "clamp_numbers": 1, "hardtanh": 2, "logaddexp": 2, "xlogy": 2, "addcdiv": 3,
}  # fmt: skip


def kernels(op: Op) -> Iterator[tuple[Any, list[Any]]]:
    """Yield the forward computation of an operation without a body, with its arguments."""
    defaults = [p.default for p in op.parameters]
    values = [Array(i) if i in op.tensors else default for i, default in enumerate(defaults)]
    if op.body is None and not any(v is inspect.Parameter.empty for v in values):
        yield Forward(op.kernel), values


def assert_close(found: Any, expected: Any, bound: float) -> None:
    assert (found.shape, found.dtype, found.strides) == (expected.shape, expected.dtype, expected.strides)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(found[np.isinf(expected)], expected[np.isinf(expected)])
    zero = (found == 0) & (expected == 0)
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))
    finite = np.isfinite(expected)
    error = np.abs(found[finite] - expected[finite]) / np.maximum(np.abs(expected[finite]), 1)
    assert error.max(initial=0) <= bound * np.finfo(expected.dtype).eps


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_every_formula(compiled: Any, name: str, dtype: str) -> None:
    """On random numbers, and on all pairs of special ones: zeros, infinities, NaN, subnormal and huge numbers."""
    op, found = OPS[name], 0
    for formula, reads in [*formulas(op), *kernels(op)]:
        operands = tuple(numbers(each, dtype, SIZE) if isinstance(each, Array) else each for each in reads)
        try:
            expected = formula(F, *operands)
        except (TypeError, ValueError, NotImplementedError):  # what is left out
            continue
        except RuntimeError:
            if "polynomial" not in name:  # which the huge numbers give too many steps
                raise
            continue
        result = compiled.compute_by_loop(formula, operands)
        if result is not None:
            found += 1
            assert_close(result, expected, BOUNDS.get(name, BOUND))
    assert found >= LOOPS.get(name, 0)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", sorted(RENAMED))
def test_results_in_given_arrays_have_the_same_bits(
    compiled: Any, choose_as_usual: Callable[[], None], new_kernels: None, name: str, dtype: str
) -> None:
    """Compiled functions write results to arrays for which eager mode allocates memory."""
    choose_as_usual()
    kernel = compiled.kernel_of(name)
    if getattr(kernel, "nout", 0) != 1:
        return
    for size in (100, elementwise.CompiledElementwise.LARGE, elementwise._SINGLE + 3):
        memory = np.random.default_rng(0).standard_normal((kernel.nin, size + 1)).astype(dtype)
        operands = tuple(memory[:, 1:])
        try:
            expected = kernel(*operands)
        except TypeError:  # The function is one of integers.
            return
        result = np.empty_like(expected)
        assert kernel(*operands, out=result) is result
        assert same_bits(result, expected)
        if expected.dtype == dtype:
            in_place = memory.copy()[:, 1:]
            assert same_bits(kernel(*in_place, out=in_place[0]), expected)
            shifted = memory.copy()  # NumPy's functions compute other bits where arrays overlap.
            np.testing.assert_allclose(kernel(*shifted[:, 1:], out=shifted[0, :-1]), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_exponentials_that_are_almost_subnormal(compiled: Any, dtype: str) -> None:
    if dtype == "f8" and np.finfo(np.longdouble).eps > 1e-18:
        pytest.skip("there is no more exact function here")
    lowest = math.log(np.finfo(dtype).smallest_normal)
    x = np.linspace(lowest, lowest + 1, 20_001).astype(dtype)[1:]
    exact = np.exp(x.astype("f8" if dtype == "f4" else np.longdouble))
    found = compiled.compute_by_loop(lambda F, x: F.exp(x), (x,))
    errors = np.abs(found - exact) / np.spacing(exact.astype(dtype))
    assert errors.max() < 1.25  # 1.1 where products and sums are rounded separately


FUNCTIONS = {"erf": 4, "exp": 2, "expm1": 3, "log": 2, "log1p": 3, "tanh": 5}


def twice(name: str) -> Any:
    """Return a formula of several steps, so that a loop is compiled, that is as accurate as the function itself."""
    return lambda F, x: getattr(F, name)(x) * 2


TWICE = {name: twice(name) for name in FUNCTIONS}


BASELINE = next(variant for variant in VARIANTS if variant.name == "baseline")
#: Options of the compiler, and larger errors where there is no fused multiply-add.
TARGETS = {"this machine": (library.NATIVE, {}), "baseline": (BASELINE.flags, {"tanh": 6})}


@pytest.fixture(scope="module", params=TARGETS)
def target(request: pytest.FixtureRequest) -> str:
    if request.param == "baseline" and platform.machine() not in BASELINE.machines:
        pytest.skip("another architecture")
    return str(request.param)


@pytest.fixture(scope="module")
def functions(compiled: Any, target: str, tmp_path_factory: pytest.TempPathFactory) -> CompiledElementwise:
    """Build a library of these formulas alone."""
    folder: Path = tmp_path_factory.mktemp("functions")
    gelu, slope = OPS["gelu"].body, OPS["tanh_gelu_slope"].body
    found = [
        trace_loop(formula, [np.dtype(dtype), *settings], F.bodies)
        for formula, *settings in (*((f,) for f in TWICE.values()), (gelu, "none"), (gelu, "tanh"), (slope,))
        for dtype in ("f4", "f8")
    ]
    sources = [emit(each) for each in found if each is not None]
    (folder / "loops.cpp").write_text("\n".join(['#include "elements.h"', "namespace gradcore {", *sources, "}", ""]))
    files = [
        *(f"{library.HERE}/{name}" for name in ("elementwise.cpp", "pool.cpp", "memory.cpp")),
        str(folder / "loops.cpp"),
    ]
    flags = (*library.FLAGS, *TARGETS[target][0])
    try:
        compiler = building.find_compiler()
    except building.BuildError as error:
        pytest.skip(str(error))
    command = [compiler, *flags, f"-I{library.HERE}", "-shared", *files]
    subprocess.run([*command, "-o", str(folder / "library.so")], check=True, capture_output=True)
    return CompiledElementwise(library.open_library(folder / "library.so"))


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_errors_of_functions(functions: CompiledElementwise, target: str, name: str, dtype: str) -> None:
    """In units in the last place, against longer floating-point numbers."""
    if dtype == "f8" and (np.finfo(np.longdouble).eps > 1e-18 or name == "erf"):
        pytest.skip("there is no more exact function here")
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-80, 80, 100_000), rng.uniform(-1, 1, 100_000), 10 ** rng.uniform(-30, 0, 100_000)])
    x = np.append(x, np.linspace(-12, 12, 1_000_001)).astype(dtype)  # tanh is least precise close to 6 and 8
    x = x[x > 0] if name.startswith("log") else x
    result = functions.compute_by_loop(TWICE[name], (x,))
    function = scipy.special.erf if name == "erf" else getattr(np, name)
    exact = function(x.astype("f8" if dtype == "f4" else np.longdouble)) * 2
    bound = TARGETS[target][1].get(name, FUNCTIONS[name])
    assert (np.abs(result - exact) / np.spacing(np.abs(exact).astype(dtype))).max() <= bound


@pytest.mark.slow
@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_error_of_gelu(functions: CompiledElementwise, approximate: str, dtype: str) -> None:
    """In units in the last place of the result, or of one where that is larger, against the exact function."""
    x = np.linspace(-9, 9, 200_001).astype(dtype)
    result, y = functions.compute_by_loop(OPS["gelu"].body, (x, approximate)), x.astype("f8")
    share = scipy.special.ndtr(y)
    if approximate == "tanh":
        share = scipy.special.expit(math.sqrt(8 / math.pi) * y * (1 + 0.044715 * y * y))
    assert (np.abs(result - y * share) / np.maximum(np.abs(y * share), 1)).max() <= 3 * np.finfo(dtype).eps


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_error_of_slope_of_tanh_gelu(functions: CompiledElementwise, dtype: str) -> None:
    x = np.concatenate([np.linspace(-12, 12, 200_001), [20, -20, 1e5, -1e5, 1e30, -1e30]]).astype(dtype)
    result, y = functions.compute_by_loop(OPS["tanh_gelu_slope"].body, (x,)), np.clip(x.astype("f8"), -30, 30)
    scale, cube = math.sqrt(8 / math.pi), 0.044715
    z, rise = scale * y * (1 + cube * y * y), scale * (1 + 3 * cube * y * y)
    exact = scipy.special.expit(z) + y * rise * scipy.special.expit(z) * scipy.special.expit(-z)
    assert (np.abs(result - exact) / np.maximum(np.abs(exact), 1)).max() <= 4 * np.finfo(dtype).eps


class TestLayouts:
    """Whatever the layout: the same bits as of contiguous operands, in memory as NumPy would lay it out."""

    formula = staticmethod(derivative("gelu"))

    def check(self, compiled: Any, *operands: Any) -> None:
        found = compiled.compute_by_loop(self.formula, (*operands, "tanh"))
        plain = [np.ascontiguousarray(o) for o in np.broadcast_arrays(*operands)]
        if operands[0].strides == operands[1].strides:
            assert found.strides == (operands[0] + operands[1]).strides
        assert same_bits(np.ascontiguousarray(found), compiled.compute_by_loop(self.formula, (*plain, "tanh")))

    @pytest.mark.parametrize(
        "change",
        [
            lambda x: x[::2],
            lambda x: x.reshape(20, -1)[:, ::-1],
            lambda x: x.reshape(20, -1)[::3, 5:-5],
            lambda x: x.reshape(20, -1).T,
            lambda x: x.reshape(4, 5, -1).transpose(1, 0, 2),
            lambda x: np.broadcast_to(x[:100], (200, 100)),
            lambda x: np.broadcast_to(x[:200, None], (200, 100)),
        ],
        ids=["strided", "reversed", "part", "transposed", "permuted", "repeated rows", "repeated columns"],
    )
    @pytest.mark.parametrize("dtype", ["f4", "f8"])
    def test_strided(self, compiled: Any, change: Any, dtype: str) -> None:
        t, x = change(numbers(0, dtype, SIZE)), change(numbers(1, dtype, SIZE))
        plain = np.ascontiguousarray(t)
        for first, second in [(t, x), (plain, x), (x, plain)]:
            self.check(compiled, first, second)

    @pytest.mark.parametrize("shape", [(), (1,), (1, 1), (300,), (400, 1), (2, 1, 300), (2, 400, 1)], ids=str)
    def test_broadcast(self, compiled: Any, shape: tuple[int, ...]) -> None:
        x, y = numbers(1, size=120_000).reshape(400, 300), numbers(2, size=math.prod(shape) + 225)[225:].reshape(shape)
        self.check(compiled, y, x)
        self.check(compiled, x, y)

    @pytest.mark.parametrize("shape", [(0,), (0, 5), (3, 0)], ids=str)
    def test_empty(self, compiled: Any, shape: tuple[int, ...]) -> None:
        x = np.empty(shape, "f4")
        assert compiled.compute_by_loop(self.formula, (x, x, "tanh")).shape == shape
        assert compiled.kernels["gelu"](x, "tanh").shape == shape

    def test_broadcast_with_empty(self, compiled: Any) -> None:
        x, y = np.ones((20_000, 1), "f4"), np.empty((1, 0), "f4")
        assert compiled.kernels["logaddexp"](x, y).shape == (20_000, 0)

    def test_narrow_rows_are_left_to_numpy(self, compiled: Any) -> None:
        x = numbers(1, size=60_000).reshape(-1, 6)[:, :3]
        assert compiled.compute_by_loop(self.formula, (x, x, "tanh")) is None
        np.testing.assert_array_equal(
            compiled.evaluate_tiled(self.formula, x, x, "tanh"), self.formula(F, x, x, "tanh")
        )

    def test_memory_without_alignment_is_left_to_numpy(self, compiled: Any) -> None:
        x = np.frombuffer(b"\0" + numbers(1, size=SIZE).tobytes(), "f4", SIZE, 1)
        assert not x.flags.aligned
        assert compiled.compute_by_loop(self.formula, (x, x, "tanh")) is None
        assert same_bits(compiled.evaluate_tiled(self.formula, x, x, "tanh"), self.formula(F, x, x, "tanh"))

    def test_operands_stay_as_they_are(self, compiled: Any) -> None:
        t, x = numbers(0), numbers(1)
        before = t.copy(), x.copy()
        compiled.compute_by_loop(self.formula, (t, x, "tanh"))
        assert same_bits(t, before[0])
        assert same_bits(x, before[1])


@pytest.mark.parametrize("dtype", ["f2", "c8", "i4", "i8", ">f4"])
def test_other_dtypes_are_left_to_numpy(compiled: Any, dtype: str) -> None:
    x = np.arange(1, 20_000).astype(dtype)
    formula = derivative("reciprocal")
    assert compiled.compute_by_loop(formula, (x, x)) is None
    np.testing.assert_array_equal(compiled.evaluate_tiled(formula, x, x), formula(F, x, x))


def test_settings(compiled: Any) -> None:
    """Numbers are parameters of one loop; flags choose among loops, and errors are the formula's own."""
    x = numbers(1, size=SIZE)
    for slope in (0.01, 0.2, -0.3, 0.01):
        formula = OPS["leaky_relu"].differentials["self"].function
        assert same_bits(compiled.compute_by_loop(formula, (x, x, slope)), formula(F, x, x, slope))
    with pytest.raises(RuntimeError, match="approximate argument must be either none or tanh"):
        compiled.evaluate_tiled(OPS["gelu"].body, x, "nothing")


@pytest.mark.parametrize(("count", "size", "shared"), [(1, 100_000, 0), (2, 100_000, 4), (2, 10_000, 0)])
def test_single_steps_are_loops_where_threads_share_them(
    compiled: Any, choose_as_usual: Callable[[], None], count: int, size: int, shared: int
) -> None:
    """Where NumPy's function is as fast, and gives the same bits."""
    x, y = numbers(1, size=size + 225)[225:], numbers(2, size=size + 225)[225:]
    formula, before = OPS["mul"].differentials["self"].function, gc.get_num_threads()
    calls = [lambda b: b.kernels["mul"](x, y), lambda b: b.evaluate_tiled(formula, x, y)] * 2
    expected = [call(F) for call in calls]
    for call in calls:  # what they are is known from the first call on
        call(compiled)
    choose_as_usual()
    ran = []
    with pytest.MonkeyPatch.context() as patch:
        run = elementwise.Loop.__call__
        patch.setattr(elementwise.Loop, "__call__", lambda *given: ran.append(1) or run(*given))
        gc.set_num_threads(count)
        found = [call(compiled) for call in calls]
        gc.set_num_threads(before)
    assert all(map(same_bits, found, expected))
    assert len(ran) == shared


@pytest.mark.parametrize(
    ("size", "number", "is_loop"), [(5_000, 1, False), (20_000, 0, False), (20_000, 1, True), (100_000, 0, True)]
)
def test_inexact_single_steps_do_not_depend_on_threads(
    compiled: Any,
    choose_as_usual: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    number: int,
    is_loop: bool,
) -> None:
    """Check from which size loops are used: 8,192 elements without AVX-512, 65,536 with it (variant 0)."""
    monkeypatch.setattr(elementwise, "choose_variant", lambda: VARIANTS[number])
    monkeypatch.setattr(elementwise, "_least_of_single_step", elementwise._least_of_single_step.__wrapped__)
    choose_as_usual()
    x, before = numbers(1, size=size + 225)[225:], gc.get_num_threads()
    exp, found = CompiledElementwise(compiled.library).kernel_of("exp"), []
    for count in (2, 1):
        gc.set_num_threads(count)
        found.append(exp(x))
    gc.set_num_threads(before)
    assert same_bits(*found)
    assert same_bits(found[0], F.exp(x)) is not is_loop


def test_a_setting_that_changes_in_each_call_is_not_looked_up(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_choices", {})
    elu, x, calls = compiled.small_kernel_of("elu"), np.linspace(-1, 1, 9, dtype=np.float32), []
    find = compiled._loop_of
    monkeypatch.setattr(compiled, "_loop_of", lambda *arguments: (calls.append(arguments), find(*arguments))[1])
    for i in range(200):
        np.testing.assert_allclose(elu(x, 1 + i / 8, 1, 1), np.where(x > 0, x, (1 + i / 8) * np.expm1(x)), 1e-6)
    assert len(calls) == _MOST_LOOPS


def test_small_arrays_have_one_kernel_in_both_paths(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("gelu", "sigmoid", "elu"):
        choice = compiled._choose_kernels(name)
        assert compiled.small_kernel_of(name) is choice.small is choice.medium
    monkeypatch.setitem(compiled._choices, "gelu", Choice(lambda *_: "small", lambda *_: "medium", False))
    monkeypatch.setattr(compiled, "LARGE", 4)
    general, x = compiled.kernel_of("gelu"), np.zeros(3, np.float32)
    assert (compiled.small_kernel_of("gelu")(x, "none"), general(x, "none")) == ("small", "medium")
    assert general(np.zeros(4, np.float32), "none").tolist() == [0.0] * 4


@pytest.mark.parametrize("size", [300, 100_000])
def test_settings_may_be_left_out(compiled: Any, size: int) -> None:
    x = numbers(1, size=size)
    assert same_bits(CompiledElementwise(compiled.library).kernel_of("round")(x), np.round(x))


@pytest.mark.parametrize("size", [100, 200_003])
def test_operations_use_loops(compiled: Any, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Through tensors: large ones by loops, forward and backward; small ones by NumPy."""
    calls: list[Any] = []
    compute_by_loop = type(compiled).compute_by_loop

    def counting(backend: Any, formula: Any, operands: Any, *exact: bool) -> Any:
        result = compute_by_loop(backend, formula, operands, *exact)
        calls.append((result is not None, formula, [np.shape(each) for each in operands], threading.current_thread()))
        return result

    monkeypatch.setattr(type(compiled), "compute_by_loop", counting)
    gradients = []
    for device in ("cpu", "compiled"):
        x = gc.tensor(numbers(1, size=size + 225)[225:], device=device, requires_grad=True)
        y = gc.nn.functional.silu(gc.nn.functional.gelu(x)) * gc.nn.functional.leaky_relu(x)
        y[y.isfinite()].sum().backward()
        gradients.append(x.grad.cpu().numpy())
    own = [call for call in calls if call[-1] is threading.current_thread()]  # not of threads of earlier tests
    if size > 1000:
        assert sum(is_computed for is_computed, *_ in own) >= 6
    else:
        assert own == []
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-5, atol=1e-6)


def test_threads_share_the_work(compiled: Any) -> None:
    formula, x = derivative("gelu"), numbers(1, size=3_000_000)
    before, results = gc.get_num_threads(), []
    for count in (1, 2, 3):
        gc.set_num_threads(count)
        results += [compiled.compute_by_loop(formula, (x, x[::-1], "none"))]
    gc.set_num_threads(before)
    assert all(same_bits(r, results[0]) for r in results)
