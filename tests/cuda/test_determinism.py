"""`use_deterministic_algorithms`: on a device nothing is added atomically, and of several writes the last one stays."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.backends.portable.indexing import Indexing
from tests.cuda.host import needs_compiler
from tests.ops.cases import ALL
from tests.strict.device import StrictArray, _Function


@pytest.fixture(autouse=True)
def _off() -> Iterator[None]:
    yield
    gc.use_deterministic_algorithms(False)


@pytest.fixture
def ordered(strict: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a device whose atomic additions fail, and whose writes to one position arrive in a random order."""
    needs_compiler()
    add_rows, write_at = Indexing.add_rows, Indexing.write_at

    def add(self: Any, out: Any, index: Any, rows: Any) -> Any:
        assert isinstance(self, NumpyBackend) or out.dtype.kind in "biu", "an atomic addition"
        return add_rows(self, out, index, rows)

    def write(self: Any, out: Any, places: Any, values: Any) -> None:
        if not isinstance(self, NumpyBackend) and getattr(values, "ndim", 0):
            places, values = places.reshape(-1)[::-1], values.reshape(-1)[::-1]
        write_at(self, out, places, values)

    monkeypatch.setattr(Indexing, "add_rows", add)
    monkeypatch.setattr(Indexing, "write_at", write)
    gc.use_deterministic_algorithms(True)
    return strict


INDEX = [[0, 2, 2], [1, 2, 2], [0, 0, 2], [1, 1, 1]]
CALLS: dict[str, Callable[..., Any]] = {
    "scatter_add": lambda x, i, src: x.scatter_add(0, i, src),
    "scatter": lambda x, i, src: x.scatter(0, i, src),
    "scatter_reduce": lambda x, i, src: x.scatter_reduce(0, i, src, "mean"),
    "scatter_reduce, largest": lambda x, i, src: x.scatter_reduce(1, i, src, "amax", include_self=False),
    "index_add": lambda x, i, src: x.index_add(1, i[0], src[:, :3]),
    "index_put": lambda x, i, src: x.index_put((i[:, 0],), src, accumulate=True),
    "index_put of few": lambda x, i, src: x.repeat(20, 1).index_put((i[:, 0],), src, accumulate=True),
    "gather": lambda x, i, src: (x * src).gather(0, i),
    "max_unpool": lambda x, i, src: gc.nn.functional.max_unpool1d(src[None], i[None], 2),
}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("name", CALLS)
def test_equal_to_the_cpu(ordered: str, name: str, dtype: str) -> None:
    if dtype == "complex64" and name in ("scatter_reduce, largest", "scatter_reduce", "max_unpool"):
        pytest.skip("not for complex numbers")
    rng = np.random.default_rng(0)
    data = [gc.tensor(rng.standard_normal((4, 3))).to(getattr(gc, dtype)) for _ in range(3)]
    results = []
    for device in ("cpu", ordered):
        x, src = (t.to(device).requires_grad_() for t in data[:2])
        y = CALLS[name](x, gc.tensor(INDEX, device=device), src)
        grads = gc.autograd.grad(y.abs().sum(), (x, src), allow_unused=True)
        results.append([t.detach().cpu().to(gc.complex128).numpy() for t in (y, *grads) if t is not None])
    tolerance = {"float16": 4e-3, "float64": 1e-12}.get(dtype, 1e-5)
    for here, there in zip(*results, strict=True):
        np.testing.assert_allclose(there, here, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("shape", "indices"),
    [((5,), ([0, 3, -5, 3],)), ((4, 3), (None, [1, -2, 1])), ((3, 2, 4), ([2, 0, -1], None, [1, 3, 1]))],
)
def test_of_several_values_for_a_place_the_last_one_stays(ordered: str, shape: Any, indices: Any) -> None:
    key = tuple(slice(None) if i is None else i for i in indices)
    x = np.zeros(shape)
    values = np.random.default_rng(0).standard_normal(x[key].shape)
    x[key] = values
    backend = gc.zeros(1, device=ordered).device.backend
    given = [None if i is None else backend.from_host(np.array(i)) for i in indices]
    last = backend._last_values(shape, backend.from_host(values), given)
    np.testing.assert_array_equal(last._a, x[key])
    t = gc.zeros(shape, dtype=gc.float64, device=ordered)
    t[tuple(slice(None) if i is None else gc.tensor(i, device=ordered) for i in indices)] = gc.tensor(
        values, device=ordered
    )
    np.testing.assert_array_equal(t.cpu().numpy(), x)


#: CuPy's functions that put floating-point numbers together in no fixed order.
UNORDERED = ("add.at", "subtract.at", "multiply.at", "bincount", "histogram", "cumsum", "cumprod")


@pytest.mark.sampled(32)
@pytest.mark.parametrize("name", sorted({case.op.name for case in ALL}))
@pytest.mark.filterwarnings("ignore")
def test_no_operation_uses_what_has_no_order(strict: str, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Forward, backward, and the backward of that; unless it says so."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    call = _Function.__call__

    def watched(self: Any, *args: Any, **named: Any) -> Any:
        arrays = [a for a in (*args, *named.values()) if isinstance(a, StrictArray)]
        if self.name in UNORDERED and any(a.dtype.kind not in "biu" and a.size for a in arrays):
            raise AssertionError(f"{self.name} of floating-point numbers")
        return call(self, *args, **named)

    monkeypatch.setattr(_Function, "__call__", watched)
    gc.use_deterministic_algorithms(True)
    for case in (case for case in ALL if case.op.name == name):
        inputs = [gc.tensor(np.asarray(a), device=strict) for a in case.arrays()]
        wanted = [inputs[i].requires_grad_() for i in case.differentiable()]
        with np.errstate(all="ignore"), _may_say_so(name):
            outs = [o for o in case.outputs(inputs) if o.requires_grad]
            if outs:
                upstream = [gc.ones_like(o).requires_grad_() for o in outs]
                slopes = gc.autograd.grad(outs, wanted, upstream, create_graph=True, allow_unused=True)
                slopes = tuple(s for s in slopes if s is not None and s.requires_grad)
                if slopes:
                    gc.autograd.grad(slopes, [*wanted, *upstream], [gc.ones_like(s) for s in slopes], allow_unused=True)


def _may_say_so(name: str) -> Any:
    if name == "bincount":
        return contextlib.suppress(RuntimeError)
    return contextlib.nullcontext()


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32"])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 8, 33])
def test_cumulative_sums_and_products(strict: str, n: int, dtype: str) -> None:
    gc.use_deterministic_algorithms(True)
    x = gc.tensor(np.random.default_rng(0).uniform(0.5, 2.0, (2, n, 3))).to(getattr(gc, dtype))
    for call in (lambda t: t.cumsum(1), lambda t: t.cumprod(1), lambda t: t.flip(1).cumsum(1).flip(1)):
        assert gc.allclose(call(x.to(strict)).cpu(), call(x), rtol=1e-5)


def alerts(strict: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], Any]]:
    """Return calls that cannot guarantee equal bits, by their error messages."""
    backend = gc.zeros(1, device=strict).device.backend
    monkeypatch.setattr(type(backend), "own_kernels", False)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    x, i = gc.ones(3, 3, device=strict), gc.tensor([0, 1, 1], device=strict)
    return {
        "index_add_cuda_ does not have a deterministic implementation": lambda: x.index_add(0, i, x),
        "_bincount_cuda does not have a deterministic implementation": lambda: gc.bincount(i, x[0]),
        "it uses CuBLAS and you have CUDA >= 10.2": lambda: x @ x,
    }


def test_what_is_not_deterministic_raises_or_warns(strict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for message, call in alerts(strict, monkeypatch).items():
        gc.use_deterministic_algorithms(True)
        with pytest.raises(RuntimeError, match=message):
            call()
        gc.use_deterministic_algorithms(True, warn_only=True)
        with pytest.warns(UserWarning, match=message):
            found = call()
        gc.use_deterministic_algorithms(False)
        assert gc.equal(call(), found)


def test_products_with_a_fixed_workspace(strict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    gc.use_deterministic_algorithms(True)
    x = gc.ones(3, 3, device=strict)
    assert (x @ x).sum().item() == 27


def test_modes() -> None:
    assert not gc.are_deterministic_algorithms_enabled()
    for number, word in enumerate(("default", "warn", "error")):
        for mode in (number, word):
            gc.set_deterministic_debug_mode(mode)
            assert gc.get_deterministic_debug_mode() == number
            assert gc.are_deterministic_algorithms_enabled() == (number > 0)
            assert gc.is_deterministic_algorithms_warn_only_enabled() == (number == 1)
    for mode, error, message in (
        (3, RuntimeError, "expected 0, 1, or 2, but got 3"),
        ("loud", RuntimeError, "expected one of `default`, `warn`, `error`, but got loud"),
        (None, TypeError, "debug_mode must be str or int, but got"),
    ):
        with pytest.raises(error, match=message):
            gc.set_deterministic_debug_mode(mode)
