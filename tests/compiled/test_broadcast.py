"""Functions of two operands that are broadcast along rows give NumPy's results, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.compiled import ufuncs
from gradcore.backends.compiled.library import builtin
from gradcore.backends.vmap import calls as vmap_calls
from tests.backends.test_tiles import same_bits

Shape = tuple[int, ...]
#: Operands that are broadcast in each combination of dims, with rows of one to many registers.
SHAPES: list[tuple[Shape, Shape]] = [
    ((40, 40, 3), (40, 40, 1)), ((40, 1, 3), (1, 40, 3)), ((1, 40, 1), (40, 40, 3)), ((50, 1, 4), (8, 4)),
    ((2, 9, 7, 5), (9, 1, 5)), ((300, 1), (1, 2)), ((700, 16), (16,)), ((700, 11), (700, 1)), ((3, 1500, 2), (3, 1, 2)),
    ((3, 1500, 2), (1500, 1)), ((1030, 1), (1,)), ((5, 600), (5, 1)), ((1, 1, 3), (5, 1, 3)), ((2, 3), (7, 1, 1, 3)),
    ((2, 1, 3, 1, 2, 1, 3), (1, 2, 1, 3, 1, 2, 1)), ((70, 130), (130,)), ((9, 1500), (1500,)),
    ((4, 30, 70), (4, 1, 70)),
]  # fmt: skip


def draw(shape: Shape, dtype: str, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def run_kernel(compiled: Any, function: np.ufunc, x: Any, y: Any, out: Any, threads: int = 1) -> bool:
    """Call the library's function; return whether it computed the result."""
    run = builtin(compiled.library, "gradcore_run_broadcast")
    return bool(run(ufuncs._inner_loops(function)[x.dtype.char * 2].address, threads, x, y, out))


@pytest.fixture
def _few_rows_are_many(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(ufuncs, "_ROWS", (1, 1, 1))
    monkeypatch.setattr(ufuncs, "_LEAST", 1)
    monkeypatch.setattr(ufuncs, "_MANY", 1)
    ufuncs._plans.clear()
    yield
    ufuncs._plans.clear()


@pytest.mark.parametrize("function", [np.add, np.subtract, np.divide, np.less], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_kernel(compiled: Any, shapes: tuple[Shape, Shape], dtype: str, function: np.ufunc) -> None:
    x, y = (draw(shape, dtype, i) for i, shape in enumerate(shapes))
    for first, second in [(x, y), (y, x)]:
        expected = function(first, second)
        out = np.full_like(expected, True)
        assert run_kernel(compiled, function, first, second, out)
        assert same_bits(out, expected)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: np.broadcast_to(x[:, :1], x.shape),
        lambda x: np.broadcast_to(x[:, :, :1], x.shape),
        lambda x: np.broadcast_to(x[:1], x.shape),
        lambda x: np.broadcast_to(x[:1, :1, :1], x.shape),
        lambda x: np.repeat(x, 2, 2)[:, :, :5],
        lambda x: np.repeat(x, 2, 1)[:, ::2],
    ],
    ids=["repeated rows", "repeated columns", "repeated matrices", "repeated number", "parts of rows", "some rows"],
)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_views(compiled: Any, change: Any, dtype: str) -> None:
    x, y = draw((30, 20, 5), dtype), change(draw((30, 20, 5), dtype, 1))
    assert y.shape == x.shape
    for first, second in [(x, y), (y, x), (y, y)]:
        out = np.empty_like(x)
        assert run_kernel(compiled, np.divide, first, second, out)
        assert same_bits(out, np.divide(first, second))


def test_threads(compiled: Any) -> None:
    x, y = draw((40_000, 1, 3), "f4"), draw((5, 3), "f4", 1)
    out = np.empty((40_000, 5, 3), "f4")
    assert run_kernel(compiled, np.add, x, y, out, threads=2)
    assert same_bits(out, x + y)


def test_result_in_place_of_an_operand(compiled: Any) -> None:
    x, y = draw((600, 3), "f4"), draw((3,), "f4", 1)
    expected = y / x
    assert run_kernel(compiled, np.divide, y, x, x)
    assert same_bits(x, expected)


def test_unsupported_arrays_are_left_as_they_are(compiled: Any) -> None:
    x, row, memory = draw((600, 3), "f4"), draw((3,), "f4", 1), np.full(4000, 7, "f4")
    out = memory[:1800].reshape(600, 3)
    read_only = out.view()
    read_only.flags.writeable = False
    unaligned = np.frombuffer(b"\0" + x.tobytes(), "f4", 1800, 1).reshape(600, 3)
    unsupported = [
        (x, row[:2], out), (x[:599], row, out), (row, row, out), (x[:0], row, out[:0]), (x, row[None, None], out),
        (np.asfortranarray(x), row, out), (x[::-1], row, out), (x, row[::-1], out), (unaligned, row, out),
        (x, row, read_only), (x, row, memory[:3600].reshape(600, 6)[:, :3]), (x, memory[3:6], out),
        (memory[3:1803].reshape(600, 3), row, out), (x, memory[1797:1800], out),
    ]  # fmt: skip
    for first, second, result in unsupported:
        assert not run_kernel(compiled, np.add, first, second, result)
    assert (memory == 7).all()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    ("of_result", "of_operand"),
    [
        (slice(1, None), slice(0, -1)), (slice(0, -1), slice(1, None)), (slice(0, 90_000), slice(60_000, 150_000)),
        (slice(None), 0), (slice(None), 1), (slice(None), 80_000), (slice(None), -1), (slice(1, None), 0),
        (slice(None), slice(None)), (slice(None), slice(None, None, -1)),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.usefixtures("two_threads")
def test_results_share_memory_with_operands(compiled: Any, of_result: Any, of_operand: Any, dtype: str) -> None:
    """As in NumPy, an operand is read before the result is written to its memory."""
    memory = draw((180_000,), dtype)
    for call in (
        lambda x, y: compiled.mul(x, y, x),
        lambda x, y: compiled.sub(y, x, x),
        lambda x, y: compiled.sqrt(np.broadcast_to(np.square(y), x.shape), x),
    ):
        found, expected = memory.copy(), memory.copy()
        call(found[of_result], _view(found, of_operand))
        call(expected[of_result], _view(memory, of_operand))
        assert same_bits(found, expected)


def _view(x: Any, index: Any) -> Any:
    """Return a view of an array, also for a single element."""
    return x[index] if isinstance(index, slice) else x[index : index + 1 or None].reshape(())


@pytest.mark.usefixtures("compiled", "two_threads")
@pytest.mark.parametrize("settings", [{}, {"alpha": 0.5}], ids=str)
def test_tensors_in_place_share_memory_with_operands(settings: dict[str, float]) -> None:
    def run(device: str) -> list[Any]:
        results = []
        for part in (slice(0, -1), slice(1, 2), 0, 1, 90_000):
            x = gc.tensor(draw((180_000,), "f4"), device=device)
            x[1:].add_(x[part], **settings)
            results.append(x.cpu().numpy())
        return results

    for a, b in zip(run("compiled"), run("cpu"), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.usefixtures("two_threads")
def test_large_read_only_results_are_errors(compiled: Any) -> None:
    x = np.ones(180_000, "f4")
    read_only = x.view()
    read_only.flags.writeable = False
    for call in (lambda: compiled.add(x, x, read_only), lambda: compiled.sqrt(x + x, read_only)):
        with pytest.raises(ValueError, match="read-only"):
            call()
    assert (x == 1).all()


@pytest.mark.usefixtures("_few_rows_are_many")
class TestUse:
    @pytest.mark.parametrize("dtype", ["f4", "f8", ">f4", "f2", "c8", "i8"])
    def test_functions(self, compiled: Any, dtype: str) -> None:
        for shape, other in SHAPES:
            x, y = draw(shape, "f4").astype(dtype), draw(other, "f4", 1).astype(dtype)
            for first, second in [(x, y), (y, x)]:
                found, expected = compiled.mul(first, second), np.multiply(first, second)
                assert (found.dtype, found.strides) == (expected.dtype, expected.strides)
                np.testing.assert_array_equal(found, expected)

    def test_other_orders_of_dims(self, compiled: Any) -> None:
        x, y = draw((30, 20, 5), "f4"), draw((30, 1, 1), "f4", 1)
        for each in (x.T, x.transpose(1, 0, 2), np.asfortranarray(x), x[:, ::-1]):
            other = y.T if each.shape == (5, 20, 30) else y[: len(each)] if len(each) == 20 else y
            assert same_bits(compiled.mul(each, other), each * other)

    def test_errors_are_those_of_numpy(self, compiled: Any) -> None:
        with pytest.raises(ValueError, match="could not be broadcast together"):
            compiled.mul(np.ones((6, 3), "f4"), np.ones((5, 3), "f4"))
        assert compiled.mul(np.ones((0, 3), "f4"), np.ones((1, 3), "f4")).shape == (0, 3)

    def test_results_that_are_given(self, compiled: Any) -> None:
        x, y = draw((600, 3), "f4"), draw((3,), "f4", 1)
        out, expected, of_own_row = np.empty_like(x), x * y, x * x[5].copy()
        assert compiled.mul(x, y, out) is out
        assert same_bits(out, expected)
        assert compiled.mul(x, x[5], x) is x
        assert same_bits(x, of_own_row)


@pytest.mark.parametrize(
    ("shape", "other", "is_planned"),
    [
        ((40, 1, 3), (1, 40, 3), True), ((15, 1, 3), (1, 15, 3), False), ((800, 4), (4,), True),
        ((700, 4), (4,), False), ((1600, 4), (1600, 1), True), ((1500, 4), (1500, 1), False),
        ((64, 256), (256,), True), ((32, 256), (256,), False), ((64, 256), (64, 1), False),
        ((64, 1000), (1000,), False), ((800, 4), (3,), False), ((800, 4), (), False), ((800, 0), (1,), False),
        ((0, 4), (4,), False),
    ],
)  # fmt: skip
def test_plans(shape: Shape, other: Shape, is_planned: bool) -> None:
    for x, y in [(np.empty(shape), np.empty(other)), (np.empty(other), np.empty(shape))]:
        expected = np.broadcast_shapes(shape, other) if is_planned else None
        assert ufuncs.plan_broadcast(x, y) == expected


@pytest.mark.parametrize("needs", [(True, True), (True, False), (False, True)])
def test_operations_use_the_kernel(compiled: Any, monkeypatch: pytest.MonkeyPatch, needs: tuple[bool, bool]) -> None:
    """In both directions: the difference of all pairs of points, and its product with a weight of each pair."""
    plans: list[Any] = []
    plan_broadcast = ufuncs.plan_broadcast

    def note(x: Any, y: Any) -> Any:
        plans.append(plan_broadcast(x, y))
        return plans[-1]

    def run(device: str) -> list[Any]:
        x = gc.tensor(draw((40, 3), "f4"), device=device, requires_grad=needs[0])
        w = gc.tensor(draw((40, 40), "f4", 1), device=device, requires_grad=needs[1])
        loss = ((x[:, None] - x[None]) * w[..., None]).sum(1)
        loss.backward(gc.tensor(draw((40, 3), "f4", 2), device=device))
        return [loss.detach().cpu().numpy(), *[t.grad.cpu().numpy() for t in (x, w) if t.requires_grad]]

    monkeypatch.setattr(ufuncs, "plan_broadcast", note)
    run("compiled")  # first calls take the general path, whose product for a gradient is known to be broadcast
    plans.clear()
    found = run("compiled")
    # Without a gradient of the weights, the product for the other gradient is not known to be broadcast.
    assert plans.count((40, 40, 3)) == 2 + (sum(needs) if needs[1] else 0)
    for a, b in zip(found, run("cpu"), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("shapes", [((300, 1), (1, 400)), ((300, 1), (400,)), ((7, 100, 1), (1, 1, 150))], ids=str)
def test_threads_share_outer_products(compiled: Any, monkeypatch: pytest.MonkeyPatch, shapes: Any) -> None:
    x, y = (draw(shape, "f4", i) for i, shape in enumerate(shapes))
    by_loop, results = compiled.compute_by_loop, []

    def noting(*arguments: Any) -> Any:
        results.append(by_loop(*arguments))
        return results[-1]

    monkeypatch.setattr(compiled, "compute_by_loop", noting)
    for name, function in (("mul", np.multiply), ("add", np.add)):
        assert same_bits(getattr(compiled, name)(x, y), function(x, y))
        assert results.pop() is not None
    out = np.empty((2, *np.broadcast_shapes(*shapes)), "f4")
    assert same_bits(compiled.mul(x, y, out), np.broadcast_to(np.multiply(x, y), out.shape))
    with pytest.raises(ValueError, match="could not be broadcast"):
        compiled.mul(x[:, :1].repeat(3, 1), y.reshape(-1)[:150].repeat(2).reshape(2, 150).T[:, :2])
    assert not results


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("exponent", [2, 3, 4, 0.5, -0.5, -2])
def test_threads_share_powers(compiled: Any, monkeypatch: pytest.MonkeyPatch, exponent: float) -> None:
    x, calls = abs(draw((400, 300), "f4")), []
    run = ufuncs.threads.available
    monkeypatch.setattr(ufuncs.threads, "available", lambda: calls.append(1) or run())
    result = compiled.pow(x, exponent)
    assert calls
    monkeypatch.undo()
    gc.set_num_threads(1)
    assert same_bits(result, compiled.pow(x, exponent))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_vmap_leaves_rows_to_the_kernel(compiled: Any, monkeypatch: pytest.MonkeyPatch, name: str, dtype: str) -> None:
    def refuse(x: Any, count: int) -> Any:
        raise AssertionError(f"{count} rows of {x.shape} were written out")

    monkeypatch.setattr(vmap_calls, "_repeat_row", refuse)
    points, function = draw((60, 3), dtype), getattr(gc, name)
    t = gc.tensor(points, device="compiled")
    pairs = gc.func.vmap(lambda a: gc.func.vmap(lambda b: function(a, b))(t))(t)
    expected = getattr(np, {"sub": "subtract", "mul": "multiply", "div": "divide"}.get(name, name))
    assert same_bits(pairs.cpu().numpy(), expected(points[:, None], points))


@pytest.mark.parametrize(
    ("dtype", "is_written_out"), [("bool", True), ("uint8", True), ("int32", True), ("int64", False)]
)
def test_vmap_writes_out_rows_of_small_integers(
    compiled: Any, monkeypatch: pytest.MonkeyPatch, dtype: str, is_written_out: bool
) -> None:
    """NumPy's call for each short row takes longer than a copy of such numbers."""
    rows: list[int] = []
    repeat_row = vmap_calls._repeat_row
    monkeypatch.setattr(vmap_calls, "_repeat_row", lambda x, count: rows.append(count) or repeat_row(x, count))
    x, y = (np.random.default_rng(i).integers(0, 2, s).astype(dtype) for i, s in enumerate([(300, 40, 3), (300, 3)]))
    found = gc.func.vmap(gc.mul)(gc.tensor(x, device="compiled"), gc.tensor(y, device="compiled"))
    np.testing.assert_array_equal(found.cpu().numpy(), x * y[:, None])
    assert rows == [40] * is_written_out


@pytest.mark.parametrize(
    ("shape", "other", "is_small"),
    [((40, 1, 3), (40, 3), False), ((40, 3), (40, 3), True), ((100, 1), (1, 100), False), ((4, 1, 3), (4, 3), True)],
)
def test_small_operands_may_have_many_rows(
    monkeypatch: pytest.MonkeyPatch, shape: Shape, other: Shape, is_small: bool
) -> None:
    """The kernel for small arrays, which is NumPy's function, gets no operands that many rows are computed of."""
    x, y = (gc.tensor(draw(s, "f4")) for s in (shape, other))
    expected = [gc.mul(x, y) for _ in range(2)][1]  # the second call looks up the kernels
    scope, used = gc.mul.__globals__, list[str]()
    for name in ("kernel_of_small", "kernel_of_all"):
        kernel = scope[name]
        monkeypatch.setitem(scope, name, lambda *a, kernel=kernel, name=name: used.append(name) or kernel(*a))
    assert gc.equal(gc.mul(x, y), expected)
    assert used == ["kernel_of_small" if is_small else "kernel_of_all"]
