"""Whole training steps as CUDA graphs, on a runtime that runs captured work only when it is launched.

While work is captured, nothing of it happens, and whatever makes the host wait or copies between host and device is an
error, as are factorisations of matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends import registry
from tests.cuda.fake_runtime import LOG, Runtime
from tests.cuda.host import HostLibrary, needs_compiler

F = gc.nn.functional

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda p: gc.optim.SGD(p, lr=0.1),
    "SGD with momentum": lambda p: gc.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "Adam": lambda p: gc.optim.Adam(p, lr=0.05, amsgrad=True, capturable=True),
    "AdamW": lambda p: gc.optim.AdamW(p, lr=0.05, capturable=True),
    "Adamax": lambda p: gc.optim.Adamax(p, lr=0.05, capturable=True),
    "RMSprop": lambda p: gc.optim.RMSprop(p, lr=0.05, capturable=True),
    "Adadelta": lambda p: gc.optim.Adadelta(p, lr=0.5, capturable=True),
    "Rprop": lambda p: gc.optim.Rprop(p, lr=0.01, capturable=True),
    "NAdam": lambda p: gc.optim.NAdam(p, lr=0.05, capturable=True),
    "RAdam": lambda p: gc.optim.RAdam(p, lr=0.05, capturable=True),
    "ASGD": lambda p: gc.optim.ASGD(p, lr=0.05, t0=3, capturable=True),
    "Adagrad": lambda p: gc.optim.Adagrad(p, lr=0.05, fused=True),
}


class Training:
    """A model, its optimizer, and a step of training."""

    def __init__(self, device: str, optimizer: Callable[[Any], Any], clip: bool) -> None:
        gc.manual_seed(0)
        shapes = [(6,), (6,), (6,), (4, 6), (8, 6), (6, 8)]
        self.params = [gc.randn(shape).to(device).requires_grad_() for shape in shapes]
        self.optimizer, self.clip = optimizer(self.params), clip
        self.device, self.classes = device, gc.tensor([0, 3, 5, 1, 2]).to(device)

    def loss(self, x: Any) -> Any:
        scale, shift, weight, table, into, out = self.params
        h = F.rms_norm((x * scale + shift).tanh(), (6,), weight)
        h = F.layer_norm(h + F.embedding(self.classes % 4, table), (6,))
        return F.cross_entropy(F.linear(F.linear(h, into).relu(), out), self.classes)

    def step(self, x: Any) -> Any:
        self.optimizer.zero_grad()
        loss = self.loss(x)
        loss.backward()
        if self.clip:
            gc.nn.utils.clip_grad_norm_(self.params, 0.5)
        self.optimizer.step()
        return loss

    def state(self) -> list[Any]:
        """Parameters, counts of steps."""
        steps = [self.optimizer.state[p]["step"] for p in self.params if "step" in self.optimizer.state[p]]
        return [t.detach().cpu() for t in (*self.params, *steps)]


def inputs(count: int) -> list[Any]:
    gc.manual_seed(1)
    return [gc.randn(5, 6) for _ in range(count)]


def agree(there: Training, here: Training, batches: list[Any], captured: Callable[[Any], Any]) -> None:
    """Check that captured steps on one device agree with eager steps on the CPU."""
    for x in (batches[0], batches[0]):
        here.step(x)
    for x in batches:
        found, expected = captured(x.to("cuda")), here.step(x)
        assert gc.allclose(found.detach().cpu(), expected.detach(), rtol=1e-4, atol=1e-5)
        for a, b in zip(there.state(), here.state(), strict=True):
            assert gc.allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_replayed_steps_are_steps(cuda: Runtime, name: str) -> None:
    there, here = (Training(device, OPTIMIZERS[name], clip=True) for device in ("cuda", "cpu"))
    calls: list[int] = []

    def step(x: Any) -> Any:
        calls.append(1)
        return there.step(x)

    with gc.cuda.transfers() as counts:
        captured = gc.cuda.graph(step)
        captured(inputs(1)[0].to("cuda"))
    assert counts == {"to device": 1}  # the batch
    assert len(calls) == 3  # twice for warming up, once to be captured
    for x in (inputs(1)[0],) * 3:
        here.step(x)
    for a, b in zip(there.state(), here.state(), strict=True):
        assert gc.allclose(a, b, rtol=1e-4, atol=1e-5)
    for x in inputs(5)[1:]:
        captured(x.to("cuda"))
        here.step(x)
    assert len(calls) == 3
    assert [entry for entry in LOG if entry[0] == "launch"] == [("launch", 0)] * 5
    for a, b in zip(there.state(), here.state(), strict=True):
        assert gc.allclose(a, b, rtol=1e-4, atol=1e-5)


def test_nothing_happens_while_work_is_captured(cuda: Runtime) -> None:
    training = Training("cuda", OPTIMIZERS["AdamW"], clip=False)
    x = inputs(1)[0].to("cuda")
    training.step(x)
    before, made = training.state(), gc.cuda.CUDAGraph()
    assert not gc.cuda.is_current_stream_capturing()
    made.capture(lambda: (training.step(x), calls.append(gc.cuda.is_current_stream_capturing())) if not calls else None)
    assert calls == [True]
    assert all(map(gc.equal, before, training.state()))
    made.replay()
    assert not any(map(gc.equal, before, training.state()))


calls: list[bool] = []


class ScaledTraining(Training):
    """The same with gradients that are scaled, unscaled and clipped."""

    def __init__(self, device: str) -> None:
        super().__init__(device, lambda p: gc.optim.AdamW(p, lr=0.05, fused=True, capturable=True), clip=True)
        self.scaler = gc.amp.GradScaler(device, init_scale=2.0**20, growth_interval=2)

    def step(self, x: Any) -> Any:
        self.optimizer.zero_grad()
        with gc.autocast(self.device, dtype=gc.float16):
            loss = self.loss(x)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        norm = gc.nn.utils.clip_grad_norm_(self.params, 0.5)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss, norm

    def state(self) -> list[Any]:
        return [*super().state(), self.scaler._scale.detach().cpu(), self.scaler._growth_tracker.detach().cpu()]


@np.errstate(invalid="ignore")
def _check_scaled(there: ScaledTraining, here: ScaledTraining) -> None:
    """Check that replays skip the steps of batches with infinite gradients, as the CPU does."""
    batches = inputs(7)
    for place in (2, 5):
        batches[place][0, 0] = float("inf")
    scales = []
    with gc.cuda.transfers() as counts:
        captured = gc.cuda.graph(there.step)
        for x in batches:
            captured(x.to("cuda"))
    assert counts == {"to device": len(batches)}
    for x in (batches[0], batches[0], *batches):  # twice for warming up
        here.step(x)
        scales.append(here.scaler.get_scale())
    assert sorted(scales) != scales != sorted(scales, reverse=True)
    for a, b in zip(there.state(), here.state(), strict=True):
        assert gc.allclose(a, b, rtol=1e-3, atol=1e-4)


def test_scaled_steps_are_captured(cuda: Runtime) -> None:
    _check_scaled(ScaledTraining("cuda"), ScaledTraining("cpu"))


@pytest.mark.slow
def test_replayed_steps_with_generated_kernels(cuda: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_compiler()
    backend: Any = registry.find("cuda")
    for name in ("supports_fusion", "has_fused_gradients"):
        monkeypatch.setattr(type(backend), name, True)
    monkeypatch.setattr(backend, "compile_kernel", lambda source, name: HostLibrary([source], ("-O0",))[name])
    there, here = (Training(device, OPTIMIZERS["AdamW"], clip=True) for device in ("cuda", "cpu"))
    agree(there, here, inputs(4), gc.cuda.graph(there.step))
    _check_scaled(ScaledTraining("cuda"), ScaledTraining("cpu"))


def test_a_learning_rate_in_memory_changes_replays(cuda: Runtime) -> None:
    rate = gc.tensor(0.1).to("cuda")
    there = Training("cuda", lambda p: gc.optim.Adam(p, lr=rate, capturable=True), clip=False)
    here = Training("cpu", lambda p: gc.optim.Adam(p, lr=0.1), clip=False)
    (x,) = inputs(1)
    captured = gc.cuda.graph(there.step)
    for lr in (0.1, 0.05, 0.01):
        rate.fill_(lr)
        here.optimizer.param_groups[0]["lr"] = lr
        captured(x.to("cuda"))
        for _ in range(3 if lr == 0.1 else 1):
            here.step(x)
    for a, b in zip(there.state(), here.state(), strict=True):
        assert gc.allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (lambda p: gc.optim.Adam(p), "Attempting CUDA graph capture of step.* capturable is False"),
        (lambda p: gc.optim.RAdam(p), "Attempting CUDA graph capture of step.* of RAdam but .* capturable is False"),
        (lambda p: gc.optim.Adagrad(p), r"step\(\) of Adagrad cannot be captured"),
    ],
)
def test_steps_that_the_host_counts_are_not_captured(cuda: Runtime, optimizer: Any, message: str) -> None:
    training = Training("cuda", optimizer, clip=False)
    with pytest.raises(RuntimeError, match=message):
        gc.cuda.graph(training.step)(inputs(1)[0].to("cuda"))
    assert not gc.cuda.is_current_stream_capturing()


@pytest.mark.parametrize(
    "work",
    [
        lambda x: x.sum().item(),
        lambda x: x[x > 0],
        lambda x: gc.ones(3).to("cuda"),
        lambda x: gc.linalg.inv(x),
        lambda x: gc.nn.utils.clip_grad_norm_([x], 1.0, error_if_nonfinite=True),
    ],
)
def test_what_waits_or_copies_is_not_captured(cuda: Runtime, work: Callable[[Any], Any]) -> None:
    x = gc.ones(3, 3).to("cuda").requires_grad_()
    x.grad = gc.ones_like(x)
    with pytest.raises(
        RuntimeError, match="a CUDA graph cannot capture this function: cudaErrorStreamCaptureUnsupported"
    ):
        gc.cuda.CUDAGraph().capture(lambda: work(x))


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_captured(cuda: Runtime, causal: bool) -> None:
    """Forward and backward in blocks, with masks of heads and keys that are shared, replayed with other queries."""
    needs_compiler()
    gc.manual_seed(0)
    key, value = (gc.randn(1, 7, 4).to("cuda") for _ in range(2))
    mask = None if causal else gc.randn(3, 5, 7).to("cuda")

    def gradient(query: Any, key: Any = key, value: Any = value, mask: Any = mask) -> Any:
        query = query.detach().requires_grad_()
        out = F.scaled_dot_product_attention(query, key, value, mask, is_causal=causal)
        return out, *gc.autograd.grad(out.square().sum(), query)

    captured = gc.cuda.graph(gradient, warmup=1)
    for _ in range(3):
        query = gc.randn(2, 3, 5, 4)
        found = [t.detach().cpu() for t in captured(query.to("cuda"))]
        expected = gradient(query, key.cpu(), value.cpu(), None if mask is None else mask.cpu())
        for one, other in zip(found, expected, strict=True):
            assert gc.allclose(one, other.detach(), rtol=1e-4, atol=1e-5)
