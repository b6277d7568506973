"""Channels, indices, extrema and random numbers as C++, against eager execution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore import functional, nn
from gradcore.compiler.function import CompiledFunction
from gradcore.compiler.program.passes import optimize
from gradcore.compiler.targets import native
from gradcore.compiler.targets.native.indexing import EXTREMUM_CALLS, INDEX_CALLS
from gradcore.compiler.targets.native.rows import ARRAY_KERNELS, ROW_OPERATIONS
from gradcore.compiler.targets.native.segments import NativeProgram
from tests.compiler.test_native import arrays_of, check, libraries, pytestmark, writer
from tests.ops.test_signs_of_zeros import EXTREMA, NUMBERS, PAIRS, bounded, calls, either_zero, extremum, shown

__all__ = ["libraries", "pytestmark", "writer"]

F = nn.functional


def by_python(compiled: CompiledFunction) -> list[str]:
    lines = [line for entry in compiled._specializations for run in entry.functions for line in native.describe(run)]
    return [line for line in lines if line.startswith("by Python")]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [gc.float32, gc.float64])
def test_normalization_of_channels(dtype: Any) -> None:
    def results(x: gc.Tensor, w: gc.Tensor, b: gc.Tensor) -> Any:
        rows = x[:, :, 0, 0]
        return [
            F.batch_norm(x, None, None, w, b, True), F.batch_norm(x, None, None, None, b, True),
            F.batch_norm(x, b, w * w, w, None, False), F.batch_norm(x, b, w * w, None, None, False, eps=0.1),
            F.batch_norm(rows, None, None, w, None, True), F.instance_norm(x, weight=w, bias=b),
            F.group_norm(x, 2, w, b), F.group_norm(x, 3), F.group_norm(rows, 2, w),
            F.batch_norm(x.transpose(2, 3), None, None, training=True),
        ]  # fmt: skip

    def step(x: gc.Tensor, w: gc.Tensor, b: gc.Tensor, t: gc.Tensor) -> Any:
        found = results(x, w, b)
        weights = [t[..., : each.shape[-1]] if each.dim() == 4 else t[:, :, 0, 0] for each in found]
        total = sum((each * weight).sum() for each, weight in zip(found, weights, strict=True))
        alone = gc.autograd.grad(F.group_norm(x.detach(), 2, w, b)[0].sum(), w)
        return *found, *gc.autograd.grad(total, (x, w, b)), *alone

    given = [gc.randn(5, 6, 3, 3, dtype=dtype), *(gc.rand(6, dtype=dtype) + 0.5 for _ in range(2))]
    compiled = check(step, *(t.requires_grad_() for t in given), gc.randn(5, 6, 3, 3, dtype=dtype))
    assert by_python(compiled) == []


@pytest.mark.slow
def test_batch_norm_in_training_moves_its_statistics() -> None:
    models = [nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))]
    models.append(nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)))
    models[1].load_state_dict(models[0].state_dict())

    def step(model: Any, x: gc.Tensor) -> Any:
        loss = model(x).square().sum()
        return loss.detach(), *gc.autograd.grad(loss, list(model.parameters()))

    compiled = CompiledFunction(lambda x: step(models[0], x), fullgraph=True)
    for _ in range(5):
        x = gc.randn(3, 2, 6, 6)
        for found, expected in zip(arrays_of(compiled(x)), arrays_of(step(models[1], x)), strict=True):
            assert np.allclose(found, expected, rtol=1e-4, atol=1e-4)
    for found, expected in zip(models[0].buffers(), models[1].buffers(), strict=True):
        assert np.allclose(found.numpy(), expected.numpy(), rtol=1e-5)


@pytest.mark.slow
def test_tensors_of_indices() -> None:
    def function(x: gc.Tensor, t: gc.Tensor, rows: gc.Tensor, columns: gc.Tensor, each: gc.Tensor) -> Any:
        found = [
            x[rows], x[:, columns], x[rows, columns], x[rows[:, None], columns], x.t()[columns], t[:, rows],
            t[rows, :, columns % 3], t[..., columns % 3], x.gather(1, each), x.t().gather(0, each.t()),
            x.gather(0, each % 4), x.index_select(0, rows % 4), x.index_select(1, columns),
            t.index_select(-1, rows % 3),
            F.embedding(each, x.t()), x[rows].sum(), gc.take_along_dim(x, each, 1), x[1:].gather(1, each[1:, :2]),
        ]  # fmt: skip
        total = sum((each * each).sum() for each in found)
        return *found, *gc.autograd.grad(total, (x, t)), x.max(1)[0], x.scatter(1, each, x.t().t() * 2)

    def written(x: gc.Tensor, rows: gc.Tensor, columns: gc.Tensor, few: gc.Tensor) -> Any:
        return (
            x.index_put((rows, columns), x[0, :5]), x.index_put((few,), x[:1] * 2, accumulate=True),
            x.index_put((rows, columns), x[0, :5], accumulate=True),
        )  # fmt: skip

    x, t = gc.randn(4, 6), gc.randn(4, 5, 3)
    rows, columns, each = gc.tensor([3, -1, 0, 3, 2]), gc.tensor([0, 5, 2, 2, 1]), gc.randint(0, 6, (4, 3))
    compiled = check(function, x.requires_grad_(), t.requires_grad_(), rows, columns, each)
    assert not [line for line in by_python(compiled) if "index" in line or "gather" in line or "embedding" in line]
    assert by_python(check(written, x.detach(), rows, columns, rows % 4)) == []
    check(lambda x, i: (x[i], x.gather(0, i)), gc.arange(7), gc.tensor([6, 0, 3], dtype=gc.int32))


@pytest.mark.slow
@pytest.mark.parametrize("index", [4, -5, -1])
def test_indices_out_of_bounds_are_errors_of_eager_execution(index: int) -> None:
    functions = [
        lambda x, i: x[i] * 2, lambda x, i: x.index_select(0, i) * 2, lambda x, i: F.embedding(i, x) * 2,
        lambda x, i: x.gather(0, i[:, None]) * 2, lambda x, i: x.index_put((i,), x[:2]) * 2,
    ]  # fmt: skip
    x, good, bad = gc.randn(4, 3), gc.tensor([1, 3]), gc.tensor([0, index])
    for function in functions:
        compiled = check(function, x, good)
        outcomes = []
        for call in (function, compiled):
            try:
                outcomes.append(arrays_of(call(x, bad))[0].tolist())
            except Exception as error:
                outcomes.append((type(error), str(error)))
        assert outcomes[0] == outcomes[1]


@pytest.mark.slow
def test_places_of_extrema() -> None:
    def function(x: gc.Tensor, n: gc.Tensor) -> Any:
        of = [x, x.t(), n]
        found = [e for t in of for e in (t.argmax(), t.argmin(), t.argmax(1), t.argmin(0, keepdim=True))]
        return *found, *(e for t in of for d in (0, 1) for pair in (t.max(d), t.min(d, keepdim=True)) for e in pair)

    x = gc.randn(5, 700).round()
    x[2, 300], x[2, 301], x[4, 699], x[0, 0] = float("nan"), float("nan"), float("inf"), float("-inf")
    assert by_python(check(function, x, gc.randint(-9, 9, (4, 5)))) == []
    x[:, 0] = float("nan")
    check(function, x.double(), gc.randint(0, 2, (300, 3), dtype=gc.int8))


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [gc.float32, gc.float64])
def test_random_numbers_are_the_same_bits(dtype: Any, threads: int) -> None:
    def function(x: gc.Tensor) -> Any:
        with_parameters = [gc.empty(9, dtype=dtype).uniform_(-2, 0.3), gc.empty(70_001, dtype=dtype).normal_(3, 0.1)]
        drawn = [gc.rand(5, 3, dtype=dtype), gc.randn(4003, dtype=dtype), F.dropout(x, 0.3), F.dropout(x[0], 0.5)]
        others = [gc.empty(13, dtype=dtype).exponential_(rate) for rate in (1.0, 0.7)]
        return *with_parameters, *drawn, *others, gc.empty(31, dtype=dtype).bernoulli_(0.2)

    before = gc.get_num_threads()
    gc.set_num_threads(threads)
    try:
        compiled = CompiledFunction(function, fullgraph=True)
        x = gc.ones(7, 33, dtype=dtype)
        for seed in range(4):
            gc.manual_seed(seed)
            found, after = arrays_of(compiled(x)), gc.rand(3)
            gc.manual_seed(seed)
            expected, then = arrays_of(function(x)), gc.rand(3)
            assert [a.tobytes() for a in found] == [a.tobytes() for a in expected]
            assert gc.equal(after, then)
        assert by_python(compiled) == []
    finally:
        gc.set_num_threads(before)


def test_indices_that_only_a_part_sees_are_narrow() -> None:
    def step(x: gc.Tensor) -> Any:
        return gc.autograd.grad(F.max_pool2d(x * 2, 2).square().sum(), x)

    check(step, gc.randn(2, 3, 8, 6).requires_grad_())
    compiled = CompiledFunction(step, fullgraph=True, cpp="0")
    for _ in range(3):
        compiled(gc.randn(2, 3, 8, 6).requires_grad_())
    program = NativeProgram(optimize(compiled._specializations[0].programs[0]), blas=True)
    assert {program.owner(memory).dtype for memory in program.private} == {np.dtype(np.float32), np.dtype(np.int32)}
    found = check(lambda x: F.max_pool2d(x * 2, 2, return_indices=True), gc.randn(2, 3, 8, 6))(gc.randn(2, 3, 8, 6))
    assert found[1].dtype is gc.int64


def test_masked_numbers() -> None:
    def function(x: gc.Tensor, n: gc.Tensor) -> Any:
        filled = x.masked_fill(x > 0, -1.5), x.masked_fill(n[:, None] > 1, float("-inf")), n.masked_fill(n > 2, 7)
        return *filled, *gc.autograd.grad(filled[0].sum(), x), x.half().masked_fill(x > 0, 0.1)

    assert by_python(check(function, gc.randn(4, 5).requires_grad_(), gc.arange(4))) == []


def test_an_error_before_a_draw_leaves_the_generator() -> None:
    def function(x: gc.Tensor, i: gc.Tensor) -> gc.Tensor:
        first = gc.rand(4)
        return (x[i] * first).sum() * gc.rand(4)

    compiled = check(function, gc.randn(4), gc.tensor([1, 0, 2, 3]))
    drawn = []
    for call in (function, compiled):
        gc.manual_seed(3)
        with pytest.raises(IndexError):
            call(gc.randn(4), gc.tensor([1, 0, 2, 4]))
        drawn.append(gc.rand(3).tolist())
    assert drawn[0] == drawn[1]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16])
def test_floats_of_two_bytes(dtype: Any) -> None:
    def function(x: gc.Tensor, y: gc.Tensor, wide: gc.Tensor) -> Any:
        mask = x > y
        moved = (
            x.t().contiguous(),
            gc.cat([x, y], 1),
            x[1:] + y[:-1],
            x.detach()[mask.sum(1).clamp(max=3)],
            x.detach().gather(0, mask.long()),
        )
        found = x * y + x, (x - y) / (y * y + 2), (x * 3).tanh(), x.where(mask, y), -x, mask.to(dtype), x @ y.t()
        loss = F.softmax(x * y, 1).sum() + (x @ y.t()).exp().mean()
        return *moved, *found, x.float(), x.detach().double(), wide.to(dtype), x.sum(), gc.autograd.grad(loss, x)[0]

    x, y = (gc.randn(4, 6).to(dtype) for _ in range(2))
    compiled = check(function, x.requires_grad_(), y, gc.randn(4, 6))
    assert by_python(compiled) == []


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16])
def test_conversions_of_all_floats_of_two_bytes(dtype: Any) -> None:
    every = gc.from_numpy(np.arange(1 << 16, dtype=np.uint16).view(np.int16)).view(dtype)
    bits = np.random.default_rng(0).integers(0, 1 << 32, 200_000, dtype=np.uint32)
    numbers = gc.from_numpy(np.concatenate([bits, np.arange(1 << 16, dtype=np.uint32) << 16]).view(np.float32))
    numbers = numbers[~numbers.isnan()]
    compiled = check(lambda x, y: (x.float() * 1, y.to(dtype).float(), y.to(dtype)), every, numbers)
    for found, expected in zip(compiled(every, numbers), (every.float(), numbers.to(dtype).float()), strict=False):
        assert gc.equal(found.isnan(), expected.isnan())
        assert gc.equal(found.nan_to_num(0), expected.nan_to_num(0))


@pytest.mark.slow
def test_autocast_and_its_gradients() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))

    def step(x: gc.Tensor) -> Any:
        with gc.autocast("cpu", dtype=gc.bfloat16):
            loss = model(x).float().square().mean()
        return loss.detach(), *gc.autograd.grad(loss, list(model.parameters()))

    compiled = CompiledFunction(step, fullgraph=True)
    x = gc.randn(5, 6)
    for _ in range(4):
        for found, expected in zip(arrays_of(compiled(x)), arrays_of(step(x)), strict=True):
            assert np.allclose(found, expected, rtol=0.02, atol=0.02)
    assert by_python(compiled) == []


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [gc.float32, gc.float64])
def test_small_products_of_any_width(dtype: Any) -> None:
    def function(x: gc.Tensor, y: gc.Tensor, many: gc.Tensor) -> Any:
        narrow = [x @ y[:, :n] for n in (1, 2, 3, 6, 13, 29, 31)]
        return (
            *narrow,
            gc.dot(x[0], y[:, 1]),
            x[:1] @ y[:, :7],
            many @ y[:, :12].t(),
            many[..., :9] @ y[:, :5],
            many.mT @ x[:, :3],
        )

    x, y, many = gc.randn(5, 9, dtype=dtype), gc.randn(9, 31, dtype=dtype), gc.randn(6, 5, 12, dtype=dtype)
    assert by_python(check(function, x, y, many)) == []


def test_an_index_out_of_bounds_writes_nothing() -> None:
    def function(x: gc.Tensor, y: gc.Tensor, i: gc.Tensor) -> gc.Tensor:
        y[0] = 1
        x[i] = y
        return y * 2

    check(function, gc.randn(4, 3), gc.randn(2, 3), gc.tensor([1, -1]))
    compiled = CompiledFunction(function, fullgraph=True)
    for call in [compiled] * 4 + [function]:
        x, y = gc.zeros(4, 3), gc.zeros(2, 3)
        call(x, y, gc.tensor([1, 3]))
        with pytest.raises(IndexError):
            call(x, y - 1, gc.tensor([0, 4]))
        assert x.tolist() == [[0, 0, 0], [1, 1, 1], [0, 0, 0], [0, 0, 0]]


def test_an_index_out_of_bounds_adds_nothing_twice() -> None:
    """Make the calls again only if no element was written, also of blocks before the one with the index."""

    def function(x: gc.Tensor, y: gc.Tensor, i: gc.Tensor) -> gc.Tensor:
        x.index_put_((i,), y.exp(), accumulate=True)
        return y * 2

    compiled, results = check(function, gc.zeros(4), gc.randn(2000), gc.arange(2000) % 4), []
    assert by_python(compiled) == []
    for call in (function, compiled):
        x = gc.zeros(4)
        with pytest.raises(IndexError):
            call(x, gc.zeros(2000), gc.where(gc.arange(2000) == 1500, 4, 0))
        results.append(x.tolist())
    assert results[0] == results[1]


def test_results_that_are_written_to_an_array_are_native() -> None:
    def function(x: gc.Tensor) -> gc.Tensor:
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    compiled = check(lambda x: gc.autograd.functional.hessian(function, x), gc.randn(7, dtype=gc.float64))
    program = compiled._specializations[0].programs[0]
    assert any("out" in call.named for call in program.calls)
    assert NativeProgram(optimize(program), blas=True).refused == []


def test_a_write_stays_behind_an_index_that_may_be_out_of_bounds() -> None:
    def function(x: gc.Tensor, w: gc.Tensor, i: gc.Tensor) -> Any:
        doubled = w * 2
        rows = (x * 1)[i]
        w.add_(doubled)
        return rows * 2

    compiled = CompiledFunction(function, fullgraph=True)
    x, w = gc.randn(4, 3), gc.ones(5)
    for _ in range(4):
        compiled(x, w, gc.tensor([1, 3]))
    assert w.tolist() == [81.0] * 5
    with pytest.raises(IndexError):
        compiled(x, w, gc.tensor([0, 4]))
    assert w.tolist() == [81.0] * 5


def test_arguments_that_share_memory() -> None:
    def function(a: gc.Tensor, b: gc.Tensor, c: gc.Tensor) -> Any:
        a.mul_(c)
        b.add_(a)
        a.sub_(b * c)
        return a * b

    c = gc.tensor(3.0, dtype=gc.float64)
    compiled = CompiledFunction(function, fullgraph=True)
    for _ in range(4):
        compiled(*(gc.randn(8, dtype=gc.float64) for _ in range(2)), c)
    for starts in ((0, 1), (1, 0), (0, 0), (0, 8)):
        outcomes = []
        for call in (function, compiled):
            array = np.random.default_rng(0).normal(size=16)
            found = call(*(gc.from_numpy(array[start : start + 8]) for start in starts), c)
            outcomes.append((found.numpy().tobytes(), array.tobytes()))
        assert outcomes[0] == outcomes[1]
    assert len(compiled._specializations) == 1
    program = NativeProgram(optimize(compiled._specializations[0].programs[0]), blas=True)
    assert len(program.loops) == 1


def test_numbers_and_rows_are_written_to_indices() -> None:
    def function(x: gc.Tensor, i: gc.Tensor, j: gc.Tensor) -> Any:
        y, z = x * 2, gc.zeros(4, 6)
        y[i, j] = 1.5
        z[i] = x[0]
        z[j % 4, i] = x[i, 0]
        return y, z, gc.func.hessian(lambda row: (row * row * row).sum())(x[0])

    compiled = check(function, gc.randn(4, 6), gc.tensor([0, 3, -1]), gc.tensor([5, -6, 2]))
    assert not [line for line in by_python(compiled) if "setitem" in line or "index" in line]


@pytest.mark.parametrize("dtype", [gc.float32, gc.float64])
def test_sums_of_long_contiguous_rows(dtype: Any) -> None:
    # These add up to integers, without rounding errors.
    x = (gc.arange(3 * 20_001).reshape(3, 20_001) % 65 - 32).to(dtype)

    def is_of_rows(function: Any) -> bool:
        """Return whether the C++ calls the function that sums rows; check the results."""
        compiled = CompiledFunction(lambda x: function(x) * 2, fullgraph=True)
        for _ in range(4):
            assert compiled(x).tolist() == (function(x) * 2).tolist()
        program = NativeProgram(optimize(compiled._specializations[0].programs[0]), blas=True)
        return any("sum_of(" in text for text in program.loops.values())

    assert is_of_rows(gc.sum)
    assert is_of_rows(lambda x: x.sum(-1))
    assert is_of_rows(lambda x: x[:, 1:66].sum(-1))
    assert not is_of_rows(lambda x: x[:, :63].sum(-1))
    assert not is_of_rows(lambda x: x[:, ::2].sum(-1))
    assert not is_of_rows(lambda x: (x * x).sum(-1))


#: Arguments behind the arrays of operations that are declared kernels of rows; of the others, the last dim.
ROW_ARGUMENTS: dict[str, tuple[Any, ...]] = {"native_layer_norm": (2, 1e-3), "softmax_or_zero": ()}


@pytest.mark.parametrize("dtype", [gc.float32, gc.float64])
@pytest.mark.parametrize("name", ROW_OPERATIONS)
def test_declared_kernels_of_rows(name: str, dtype: Any) -> None:
    kernel, _ = ROW_OPERATIONS[name]
    operation = getattr(functional, name)
    x = gc.randn(24, 4, 64, dtype=dtype)  # large enough for results in the order of their dims
    given = {"rows": x, "row": gc.randn(96, dtype=dtype)}
    arrays = [given.get(word, gc.randn(4, 64, dtype=dtype)) for word in kernel.reads]
    rest = ROW_ARGUMENTS.get(name, (-1,))

    def along_rows(*tensors: gc.Tensor) -> Any:
        return operation(*tensors, *rest)

    def of_gap(first: gc.Tensor, *tensors: gc.Tensor) -> Any:  # rows that do not follow each other
        return operation(first[::2], *(t[::2] if t.shape == first.shape else t for t in tensors), *rest)

    left = by_python(check(along_rows, *arrays))
    assert left == [] or name == "cumsum_backward"  # NumPy makes a view with negative strides of it
    check(of_gap, *arrays)
    if any("=" in word for word in kernel.reads):
        missing = [None if "=" in word else array for word, array in zip(kernel.reads, arrays, strict=True)]
        assert by_python(check(lambda t: operation(t, *missing[1:], *rest), x)) == []
    if rest == (-1,):
        check(lambda *tensors: operation(*tensors, 0), *arrays)


@pytest.mark.parametrize("dtype", [gc.float16, gc.float32, gc.int64], ids=str)
def test_declared_kernels_by_index(dtype: Any) -> None:
    """Every operation with a declared kernel by index is native, and equal to eager execution."""
    names = [name for name in INDEX_CALLS if hasattr(functional, name)]
    assert len(names) >= 9
    x, each = gc.randint(-9, 9, (5, 6, 4)).to(dtype), gc.stack([gc.randperm(6)[:3] for _ in range(20)])
    indices = {"each": each.reshape(5, 4, 3).mT, "dim": gc.tensor([4, 0, 4]), "tuple": gc.tensor([[1, -5], [0, 3]])}
    shapes = {"each": (5, 3, 4), "dim": (5, 3, 4), "tuple": (5, 2, 2, 4)}
    values = {by: gc.randint(-9, 9, shape).to(dtype) for by, shape in shapes.items()}

    def call_all(x: gc.Tensor, values: dict[str, gc.Tensor], indices: dict[str, gc.Tensor]) -> list[gc.Tensor]:
        results = []
        for name in names:
            kernel = INDEX_CALLS[name]
            index: Any = (None, indices["tuple"]) if kernel.by == "tuple" else indices[kernel.by]
            contents = {"x": x, "values": values[kernel.by], "index": index, "dim": 1, "shape": (5, 6, 4)}
            words = [word for word in kernel.calls[name] if word != "-"]
            for accumulate in (False, True)[: 1 + ("accumulate" in words)]:
                if dtype != gc.float16 or not (accumulate or kernel.action == "add"):  # 16-bit floats are not added
                    arguments = contents | {"accumulate": accumulate}
                    results.append(getattr(functional, name)(*(arguments[word] for word in words)))
        return results

    assert by_python(check(call_all, x, values, indices)) == []


@pytest.mark.parametrize("dtype", [gc.float32, gc.float64, gc.int64], ids=str)
def test_declared_kernels_of_extrema(dtype: Any) -> None:
    """Every operation whose kernel finds an extremum is native, and equal to eager execution, at ties and NaN, too."""
    assert len(EXTREMUM_CALLS) >= 4
    x = gc.randint(-2, 3, (5, 6, 70)).to(dtype)
    if dtype.is_floating_point:
        x[1, 2, 3:9:5] = float("nan")

    def call_all(x: gc.Tensor) -> list[gc.Tensor]:
        calls = [(name, dim, keepdim) for name in EXTREMUM_CALLS for dim in (0, 1, -1) for keepdim in (False, True)]
        results = [getattr(functional, name)(x, dim, keepdim) for name, dim, keepdim in calls]
        return [each for result in results for each in (result if isinstance(result, tuple) else [result])]

    assert by_python(check(call_all, x)) == []


@pytest.mark.parametrize("dtype", [gc.float32, gc.float64], ids=str)
def test_signs_of_zeros(dtype: Any) -> None:
    """Elements that equal a bound keep the sign of a zero in loops of programs, too, which quotients are there for."""
    known = calls()

    def bounds(x: gc.Tensor) -> list[gc.Tensor]:
        return [each for function, _ in known.values() for each in _with_quotient(function(x))]

    def extrema(x: gc.Tensor, y: gc.Tensor) -> list[gc.Tensor]:
        return [each for name in EXTREMA for each in _with_quotient(getattr(gc, name)(x, y))]

    first, second = (list(each) for each in zip(*PAIRS, strict=True))
    compiled = CompiledFunction(bounds, fullgraph=True), CompiledFunction(extrema, fullgraph=True)
    for _ in range(3):
        found = compiled[0](gc.tensor(NUMBERS, dtype=dtype))
        for (name, (_, limits)), values, quotient in zip(known.items(), found[::2], found[1::2], strict=True):
            assert shown(values.tolist()) == shown(bounded(x, *limits) for x in NUMBERS), name
            assert shown(quotient.tolist()) == shown((1 / values).tolist()), name
        found = compiled[1](gc.tensor(first, dtype=dtype), gc.tensor(second, dtype=dtype))
        for name, values, quotient in zip(EXTREMA, found[::2], found[1::2], strict=True):
            expected = either_zero([extremum(name, *pair) for pair in PAIRS], first, second)
            assert either_zero(values.tolist(), first, second) == expected, name
            assert shown(quotient.tolist()) == shown((1 / values).tolist()), name
    assert not any(map(by_python, compiled))


def _with_quotient(x: gc.Tensor) -> tuple[gc.Tensor, gc.Tensor]:
    return x, 1 / x


def gradients(function: Any, *inputs: gc.Tensor) -> Any:
    result = function(*inputs)
    return result.detach(), *gc.autograd.grad((result * result * result).sum(), inputs)


#: Calls that declared C++ functions of arrays compute, by the kernels that they need, then calls that they leave.
ARRAY_CALLS: dict[str, tuple[list[Any], list[Any]]] = {
    "max_pool max_pool_spread": (
        [
            lambda x, t: gradients(lambda x: F.max_pool2d(x * 2, 2), x),
            lambda x, t: gradients(lambda x: F.max_pool2d(x, (3, 2), (2, 1), (1, 0), (1, 2)), x),
            lambda x, t: gradients(lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), x),
            lambda x, t: gradients(lambda x: F.max_pool1d(x[0] * 2, 4, 3, 1, ceil_mode=True), x),
            lambda x, t: F.max_pool2d(x.detach() * 2, 3, return_indices=True),
        ],
        [
            lambda x, t: gradients(lambda x: F.max_pool3d(x * 2, 2), x),
            lambda x, t: gradients(lambda x: F.max_pool2d(x.transpose(2, 3), 2), x),
            lambda x, t: F.max_pool2d((x.detach() * 9).half(), 2),
        ],
    ),
    "softmax_nll softmax_nll_backward": (
        [
            lambda x, t: gradients(lambda x: F.cross_entropy(x[0, 0] * 2, t), x),
            lambda x, t: gradients(lambda x: F.cross_entropy(x[0, 0], t, reduction="sum"), x),
        ],
        [
            lambda x, t: gradients(lambda x: F.cross_entropy(x[0, 0], t, reduction="none"), x),
            lambda x, t: gradients(lambda x: F.cross_entropy(x[0, 0], t, ignore_index=3), x),
            lambda x, t: gradients(lambda x: F.cross_entropy(x[0, 0], t, x.detach()[0, 0, 0] ** 2), x),
            lambda x, t: gradients(lambda x: F.cross_entropy(x[0, 0].t(), gc.cat([t, t[:1]])), x),
            lambda x, t: gradients(lambda x: F.cross_entropy(x[0], t[None, :1].expand(2, 7)), x),
        ],
    ),
    "layer_norm_backward": (
        [
            lambda x, t: gradients(lambda x: F.layer_norm(x, (6, 7)), x),
            lambda x, t: gradients(lambda x, w, b: F.layer_norm(x * 2, (7,), w, b), x, parts_of(x), parts_of(x) + 1),
            lambda x, t: gradients(lambda w: F.layer_norm(x.detach(), (7,), w), parts_of(x)),
            lambda x, t: gradients(lambda b: F.layer_norm(x.detach(), (7,), None, b), parts_of(x)),
        ],
        [lambda x, t: gradients(lambda x: F.layer_norm(x.transpose(2, 3), (6,)), x)],
    ),
    "embedding_sum": (
        [
            lambda x, t: gradients(lambda x: F.embedding(t[:, None], x[0, 0]), x),
            lambda x, t: gradients(lambda x: F.embedding(t, x[0, 0] * 2, padding_idx=2), x),
        ],
        [lambda x, t: gradients(lambda x: F.embedding(t.int(), x[0, 0]), x)],
    ),
}


def parts_of(x: gc.Tensor) -> gc.Tensor:
    return (x.detach()[0, 0, 0] + 2).requires_grad_()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [gc.float32, gc.float64], ids=str)
@pytest.mark.parametrize("names", ARRAY_CALLS)
def test_declared_kernels_of_arrays(names: str, dtype: Any) -> None:
    """The kernels that declare a C++ function are native where it supports the call, and equal to eager execution."""
    assert {*ARRAY_KERNELS} == {name for each in ARRAY_CALLS for name in each.split()}
    x, target = gc.randn(2, 2, 6, 7, dtype=dtype).requires_grad_(), gc.tensor([0, 5, 1, 1, 4, 3])
    supported, others = ARRAY_CALLS[names]
    assert by_python(check(lambda x, t: [call(x, t) for call in supported], x, target)) == []
    called = {call.name.rpartition(".")[2] for call in calls_of(check(supported[0], x, target))}
    assert called >= {*names.split()}
    for call in others:
        check(call, x, target)


def test_strides_that_depend_on_values() -> None:
    """Whether a target is ignored decides about the strides of exponentials, which a native function reads."""
    classes = [[1, 2, 4], [-100, 1, 1], [3, 2, 0], [0, -100, 2], [4, 4, 1]]
    for start in range(2):
        function = lambda x, t: gradients(lambda x: F.cross_entropy(x.t(), t), x)  # noqa: E731
        compiled = CompiledFunction(function, fullgraph=True)
        for target in classes[start:]:
            x = gc.randn(5, 3).requires_grad_()
            expected = function(x, gc.tensor(target))
            assert all(map(gc.allclose, compiled(x, gc.tensor(target)), expected))
        assert compiled._specializations


def calls_of(compiled: CompiledFunction) -> list[Any]:
    return [call for entry in compiled._specializations for program in entry.programs for call in program.calls]
