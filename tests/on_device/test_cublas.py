"""cuBLAS and cuBLASLt through ctypes: products with epilogues, and products in CUDA graphs."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends import registry
from gradcore.backends.cupy import epilogues
from gradcore.backends.cupy.capture import workspace_size
from tests.on_device.comparing import agree
from tests.on_device.test_launches import drawn, launches, with_gradients

F = gc.nn.functional
DTYPES = (gc.float64, gc.float32, gc.float16, gc.bfloat16)

#: How a matrix can lie in memory; the last one is none that cuBLAS reads.
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda t: t,
    "columns": lambda t: t.mT.contiguous().mT,
    "part": lambda t: gc.cat([t, t], 1)[:, : t.shape[1]],
    "repeated": lambda t: t[:1].expand(t.shape),
}

PROGRAMS: dict[str, Callable[..., Any]] = {
    "linear": lambda c, a, b: F.linear(a, b.mT, c),
    "addmm": lambda c, a, b: gc.addmm(c, a, b, alpha=0.5),
    "relu": lambda c, a, b: gc._addmm_activation(c, a, b),
    "gelu": lambda c, a, b: gc._addmm_activation(c, a, b, use_gelu=True),
}


@pytest.fixture
def plans(device: str) -> dict[Any, Any]:
    backend: Any = registry.find("cuda")
    if backend.cublas_library is None:
        pytest.skip("CuPy's libraries are not found")
    known: dict[Any, Any] = backend._plans.by_key
    known.clear()
    return known


def operands(dtype: Any, m: int = 24, k: int = 40, n: int = 32) -> list[Any]:
    rng = np.random.default_rng(0)
    return [drawn(rng, dtype, *shape) for shape in ((n,), (m, k), (k, n))]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_epilogues(device: str, plans: dict[Any, Any], name: str, dtype: Any) -> None:
    """As on the CPU, with gradients, whatever lies where; and what nothing is kept of is planned once."""
    for first in LAYOUTS:
        for second in LAYOUTS:
            c, a, b = operands(dtype)

            def run(where: str, inputs: Any = (c, a, b), kinds: Any = (first, second)) -> list[Any]:
                c, *matrices = (t.to(where) for t in inputs)
                laid = [LAYOUTS[kind](t) for kind, t in zip(kinds, matrices, strict=True)]
                return with_gradients(PROGRAMS[name], c, *laid)

            agree(run(device), run("cpu"), f"{dtype} {first} {second}")
    assert len([plan for plan in plans.values() if plan is not None]) >= 4


def test_what_does_not_fit_takes_the_other_way(device: str, plans: dict[Any, Any]) -> None:
    """Odd sizes, which leave rows unaligned, biases at odd addresses, and vectors."""
    for sizes, offset in (((5, 3, 7), 0), ((24, 40, 32), 1), ((1, 40, 32), 0), ((24, 1, 32), 0), ((24, 40, 1), 0)):
        c, a, b = operands(gc.float32, *sizes)

        def run(where: str, inputs: Any = (c, a, b), offset: int = offset) -> list[Any]:
            c, a, b = (t.to(where) for t in inputs)
            c = gc.cat([c[:1], c])[1:] if offset else c
            return with_gradients(PROGRAMS["linear"], c, a, b)

        agree(run(device), run("cpu"), f"{sizes} {offset}")
    empty = [t.to(device) for t in operands(gc.float32, 0, 40, 32)]
    assert PROGRAMS["linear"](*empty).shape == (0, 32)


def test_what_has_no_algorithm_takes_the_other_way(
    device: str, plans: dict[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An epilogue that no version of cuBLASLt has."""
    monkeypatch.setitem(epilogues.EPILOGUES, "BIAS", 1 << 20)
    inputs = operands(gc.float32)
    for _ in range(2):
        agree([PROGRAMS["linear"](*(t.to(device) for t in inputs))], [PROGRAMS["linear"](*inputs)])
    assert list(plans.values()) == [None]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_layer_with_a_bias_launches_no_kernel(device: str, plans: dict[Any, Any], dtype: Any) -> None:
    """The product adds the bias, and applies the activation."""
    c, a, b = (t.to(device) for t in operands(dtype))
    weight = b.mT.contiguous()
    assert launches(lambda: F.linear(a, weight, c)) == 0
    assert launches(lambda: F.linear(a.reshape(2, 12, 40), weight, c)) == 0
    assert launches(lambda: gc._addmm_activation(c, a, b)) == 0
    assert launches(lambda: gc._addmm_activation(c, a, b, use_gelu=True)) == 0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_plan_takes_other_biases_and_factors(device: str, plans: dict[Any, Any], dtype: Any) -> None:
    c, a, b = operands(dtype)
    biases = [(bias, bias.to(device)) for bias in (c, -2 * c)]
    for (bias, there), alpha in [(bias, alpha) for alpha in (1, 0.5, 1) for bias in (biases[0], *biases)]:
        found = gc.addmm(there, a.to(device), b.to(device), alpha=alpha)
        agree([found], [gc.addmm(bias, a, b, alpha=alpha)], f"{alpha}")
    assert len(plans) == 1


def test_plans_are_few(device: str, plans: dict[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest is freed, with what describes it."""
    monkeypatch.setattr(epilogues, "_KEPT", 2)
    for m in (2, 3, 2, 4, 2, 3):
        c, a, b = operands(gc.float32, m)
        agree([PROGRAMS["linear"](*(t.to(device) for t in (c, a, b)))], [PROGRAMS["linear"](c, a, b)])
    assert len(plans) == 2
    plan = next(iter(plans.values()))
    plan.free()
    plan.free()
    assert not plan._made
    plans.clear()


# -- graphs -------------------------------------------------------------------------------------------------------

IN_GRAPHS: dict[str, Callable[..., Any]] = {
    **PROGRAMS,
    "product": lambda c, a, b: a @ b,
    "batches": lambda c, a, b: gc.stack([a, 2 * a]) @ gc.stack([b, b + 1]),
    "transposed": lambda c, a, b: (b.mT @ a.mT).mT + c,
    "convolution": lambda c, a, b: F.conv1d(a[None], gc.ones(8, 24, 3, dtype=a.dtype, device=a.device)),
    "chain": lambda c, a, b: F.linear(F.linear(a, b.mT, c).relu(), b[:32], None) @ b[:32],
}


@pytest.mark.parametrize("name", IN_GRAPHS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_products_in_graphs_are_those_outside(device: str, plans: dict[Any, Any], name: str, dtype: Any) -> None:
    """To the bit, with gradients, by cuBLAS and by no kernel of the package."""
    c, a, b = (t.to(device).requires_grad_() for t in operands(dtype))

    def step(a: Any) -> Any:
        a = a.detach().requires_grad_()
        out = IN_GRAPHS[name](c, a, b)
        return [out, *(g for g in gc.autograd.grad(out.sin().sum(), (c, a, b), allow_unused=True) if g is not None)]

    graphed = gc.cuda.graph(step)
    backend: Any = registry.find("cuda")
    for factor in (1, 2, -1):
        x = a.detach() * factor
        found = [t.clone() for t in graphed(x)]
        assert all(gc.equal(t, e) for t, e in zip(found, step(x), strict=True))
    assert not backend.capture.differs


def test_graphs_work_side_by_side(device: str, plans: dict[Any, Any]) -> None:
    """Each has a workspace of its own, which its products write to."""
    a, b = (t.to(device) for t in operands(gc.float32)[1:])
    graphs = [gc.cuda.graph(lambda x, b=b * i: F.linear(x @ b, b, None) @ b) for i in (1, 2)]
    expected = [F.linear(a @ (b * i), b * i, None) @ (b * i) for i in (1, 2)]
    streams = [gc.cuda.Stream() for _ in graphs]
    for _ in range(3):
        found = []
        for graph, stream in zip(graphs, streams, strict=True):
            with gc.cuda.stream(stream):
                found.append(graph(a))
        gc.cuda.synchronize()
        assert all(gc.equal(t, e) for t, e in zip(found, expected, strict=True))


# -- failures -----------------------------------------------------------------------------------------------------


def test_calls_that_fail(device: str, plans: dict[Any, Any]) -> None:
    """Handles, plans and products: the error is CuPy's, and the next call works."""
    process = ctypes.CDLL(None)
    if not hasattr(process, "cupyhost_fail_at"):
        pytest.skip("a GPU's calls do not fail on demand; the rig's do")
    c, a, b = (t.to(device) for t in operands(gc.float32))
    expected = F.linear(a, b.mT, c)
    failed = 0
    for n in range(1, 10):
        plans.clear()
        process.cupyhost_fail_at(2, n)
        try:
            found = F.linear(a, b.mT, c)
        except RuntimeError as error:
            assert "CUBLAS_STATUS" in str(error)  # noqa: PT017
            failed += 1
            continue
        finally:
            process.cupyhost_fail_at(2, 0)
        assert gc.equal(found, expected)
        break
    assert failed == 2  # the choice of an algorithm, and the product
    assert gc.equal(F.linear(a, b.mT, c), expected)


@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16], ids=str)
def test_products_of_halves_are_summed_in_float32(device: str, dtype: Any) -> None:
    """CuPy's handle has the math mode CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION after a product."""
    cublas, handle = pytest.importorskip("cupy_backends.cuda.libs.cublas"), pytest.importorskip("cupy.cuda.device")
    a = gc.ones(40, 40, dtype=dtype, device=device)
    assert (a @ a).eq(40).all()
    assert cublas.getMathMode(handle.get_cublas_handle()) & 16


@pytest.mark.parametrize(("capability", "size"), [("75", 4), ("80", 4), ("90", 32), ("100", 32), ("121", 32)])
def test_workspaces_of_newer_devices_are_larger(capability: str, size: int) -> None:
    """Capabilities are compared as numbers: "100" is after "90"."""
    xp: Any = SimpleNamespace(cuda=SimpleNamespace(Device=lambda: SimpleNamespace(compute_capability=capability)))
    assert workspace_size(xp) == size << 20


def test_a_library_without_a_function_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an older one: products then go the other way."""
    from gradcore.backends.cupy.cublas_library import CublasLibrary

    with pytest.raises(AttributeError, match="no loaded library has cublasCreate_v2"):
        CublasLibrary(RuntimeError, ctypes.CDLL(None if sys.platform != "linux" else "libc.so.6"))
