"""Whole programs on the strict device with generated kernels: results, launches, dtypes, layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.codegen.layout import layout_of
from tests.cuda.conftest import Fused
from tests.cuda.test_fused_kernels import HostBackend
from tests.strict.device import COUNTS

F = gc.nn.functional

ONE_LAUNCH = {
    "tanh": (gc.tanh, 0),  # the function itself is CuPy's
    "sigmoid": (gc.sigmoid, 1),
    "gelu": (F.gelu, 1),
    "gelu of tanh": (lambda x: F.gelu(x, approximate="tanh"), 1),
    "silu": (F.silu, 1),
    "mish": (F.mish, 1),
    "softplus": (F.softplus, 1),
    "elu": (lambda x: F.elu(x, 0.7), 1),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), 1),
    "hardswish": (F.hardswish, 1),
    "logsigmoid": (F.logsigmoid, 1),
    "pow": (lambda x: x**3.5, 0),
    "sinc": (gc.sinc, 1),
    "asin": (lambda x: gc.asin(x / 4), 0),
}


@pytest.mark.parametrize("name", ONE_LAUNCH)
def test_forward_and_backward_are_one_launch_each(fused: Fused, name: str) -> None:
    function, forward = ONE_LAUNCH[name]
    data = np.linspace(0.1, 3, 12).reshape(3, 4)
    launches = []

    def run(device: str) -> tuple[Any, Any]:
        x = gc.tensor(data, device=device, requires_grad=True)
        y = function(x)
        launches.append(fused.counts["launched"])
        (slope,) = gc.autograd.grad(y, x, gc.ones_like(y) * 2)
        launches.append(fused.counts["launched"])
        return y.detach().cpu(), slope.cpu()

    expected = run("cpu")
    for here, there in zip(expected, fused(lambda: run("strict:0")), strict=True):
        np.testing.assert_allclose(there.numpy(), here.numpy(), rtol=1e-13)
    assert launches[-2:] == [forward, forward + 1]


@pytest.mark.parametrize("call", [gc.atan2, gc.div, gc.hypot, gc.pow, gc.maximum, lambda x, y: gc.lerp(x, y, 0.3)])
def test_all_gradients_of_an_operation_are_one_launch(fused: Fused, call: Callable[..., Any]) -> None:
    a, b = np.linspace(0.2, 2, 12).reshape(3, 4), np.linspace(1.5, 0.5, 4)

    def run(device: str) -> list[Any]:
        x, y = (gc.tensor(v, device=device, requires_grad=True) for v in (a, b))
        z = call(x, y)
        before = fused.counts["launched"]
        grads = gc.autograd.grad(z.sum(), (x, y))
        run.launched = fused.counts["launched"] - before  # type: ignore[attr-defined]
        return [g.detach().cpu().numpy() for g in (z, *grads)]

    expected = run("cpu")
    found = fused(lambda: run("strict:0"))
    assert run.launched == 1  # type: ignore[attr-defined]
    for here, there in zip(expected, found, strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-13)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64", "int32"])
def test_dtypes_are_converted_inside(fused: Fused, dtype: str) -> None:
    """No kernel of its own converts float16 to float32 and back, or integers to floats."""
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    kind = getattr(gc, dtype)
    function = F.silu if dtype != "int32" else gc.sigmoid

    def run(device: str) -> list[Any]:
        x = gc.tensor([-2, -1, 0, 1, 3], dtype=kind, device=device)
        if dtype == "int32":
            return [function(x)]
        x.requires_grad_()
        y = function(x)
        return [y.detach(), gc.autograd.grad(y, x, gc.ones_like(y))[0]]

    there = fused(lambda: run("strict:0"))
    assert fused.counts["launched"] == len(there)
    for a, b in zip(run("cpu"), there, strict=True):
        assert b.dtype is a.dtype
        tolerance = 1e-2 if kind.is_reduced else 1e-6
        np.testing.assert_allclose(b.cpu().to(gc.complex128).numpy(), a.to(gc.complex128).numpy(), rtol=tolerance)


def test_another_setting_needs_no_other_kernel(fused: Fused) -> None:
    def run() -> list[float]:
        x = gc.tensor([-1.0, 2.0], device="strict:0")
        return [F.leaky_relu(x, slope)[0].item() for slope in (0.1, 0.2, 0.3)]

    assert fused(run) == pytest.approx([-0.1, -0.2, -0.3])
    assert len(fused.batch.sources) == 1
    assert fused.counts["traced"] == 0  # the second time nothing is traced


def test_higher_derivatives_and_forward_mode(fused: Fused) -> None:
    def run(device: str) -> Any:
        x = gc.tensor([0.3, -1.2], dtype=gc.float64, device=device, requires_grad=True)
        (slope,) = gc.autograd.grad(F.gelu(x).sum(), x, create_graph=True)
        (curvature,) = gc.autograd.grad(slope.sum(), x)
        t = gc.func.jvp(F.gelu, (x.detach(),), (gc.ones_like(x),))[1]
        return curvature.cpu().numpy(), t.cpu().numpy()

    np.testing.assert_allclose(fused(lambda: run("strict:0")), run("cpu"), rtol=1e-13)


def test_layouts(fused: Fused) -> None:
    """Results lie in memory as on the CPU; broadcast, reversed and transposed operands are read where they are."""
    data = np.arange(24.0).reshape(2, 3, 4) / 7 - 1

    def run(device: str) -> list[Any]:
        x = gc.tensor(data, device=device)
        operands = [x, x.permute(2, 0, 1), x[:, ::2], x.transpose(0, 1)[..., :1], x[0], x.flip(0), x[0, 0, 0], x[:0]]
        return [F.silu(t) for t in operands] + [gc.lerp(x, x[:1], x[:, :1]), F.silu(x.expand(5, 2, 3, 4))]

    for there, here in zip(fused(lambda: run("strict:0")), run("cpu"), strict=True):
        assert there.shape == here.shape
        np.testing.assert_allclose(there.cpu().numpy(), here.numpy(), rtol=1e-13)
        if here.numel() > 1 and here.shape[0] != 5:
            wide = [d for d, n in enumerate(here.shape) if n > 1]
            assert [there.stride(d) for d in wide] == [here.stride(d) for d in wide]


def test_a_training_step(fused: Fused) -> None:
    """A network with fused activations, half precision included, neither waits nor copies."""
    generator = gc.Generator().manual_seed(0)
    weights = [gc.randn(*shape, generator=generator) * 0.3 for shape in ((8, 5), (8,), (3, 8), (3,))]
    data, labels = gc.randn(6, 5, generator=generator), gc.tensor([0, 1, 2, 0, 1, 2])

    def run(device: str) -> list[Any]:
        w1, b1, w2, b2 = parameters = [w.to(device).requires_grad_() for w in weights]
        x, target = data.to(device), labels.to(device)
        losses = []
        for _ in range(3):
            COUNTS.clear()
            hidden = F.gelu(F.linear(x, w1, b1)) * gc.sigmoid(F.linear(x, w1.half().float(), b1))
            loss = F.cross_entropy(F.linear(F.softplus(hidden), w2, b2), target)
            grads = gc.autograd.grad(loss, parameters)
            with gc.no_grad():
                for p, g in zip(parameters, grads, strict=True):
                    p.sub_(g, alpha=0.3)
            losses.append(loss.detach())
        run.transfers = dict(COUNTS)  # type: ignore[attr-defined]
        return [loss.item() for loss in losses]

    there = fused(lambda: run("strict:0"))
    assert not run.transfers  # type: ignore[attr-defined]
    np.testing.assert_allclose(there, run("cpu"), rtol=1e-5)
    assert there[2] < there[0]


def test_fusion_can_be_turned_off() -> None:
    backend = HostBackend()
    backend.xp.exp, backend.xp.divide = np.exp, np.divide
    assert gc.cuda.fusion()
    try:
        gc.cuda.set_fusion(False)
        assert not backend.supports_fusion
        np.testing.assert_allclose(backend.kernels["sigmoid"](np.zeros(3)), 0.5)
        assert not backend.batch.sources
    finally:
        gc.cuda.set_fusion(True)
    assert backend.supports_fusion
    backend.kernels["sigmoid"](np.zeros(3))
    assert len(backend.batch.sources) == 1


@pytest.mark.parametrize(
    ("shapes", "dims"),
    [([(4, 5), (4, 5)], 0), ([(4, 5), (5,)], 2), ([(4, 5), ()], 1), ([(2, 3, 4), (2, 1, 1)], 2),
     ([(2, 3, 4), (3, 1)], 3), ([(1, 4), (4,)], 0), ([(), ()], 0), ([(1, 1), (1,)], 0)],
)  # fmt: skip
def test_dims_that_a_kernel_runs_over(shapes: list[tuple[int, ...]], dims: int) -> None:
    assert len(layout_of([np.zeros(s) for s in shapes]).extents) == dims


def test_neighbouring_dims_are_joined() -> None:
    x = np.zeros((2, 3, 4, 5))
    found = layout_of([x.transpose(2, 3, 0, 1), np.zeros((5, 1, 1))])
    assert found.extents == (24, 5)
    assert found.order == (2, 3, 0, 1)
    assert found.strides == ((5, 1), (0, 1))
