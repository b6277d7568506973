"""Steps of optimisers as one kernel for all parameters, executed on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.cupy.multi_tensor import _PARTS, CHUNK, MOST_ARRAYS, launches
from tests.cuda.conftest import Fused
from tests.strict.device import COUNTS

OPTIMIZERS: dict[str, Any] = {
    "SGD": lambda p: gc.optim.SGD(p, lr=0.1),
    "SGD with momentum": lambda p: gc.optim.SGD(p, lr=0.1, momentum=0.9),
    "SGD with everything": lambda p: gc.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "SGD upwards": lambda p: gc.optim.SGD(p, lr=0.1, momentum=0.5, dampening=0.3, maximize=True),
    "Adam": lambda p: gc.optim.Adam(p, lr=0.01),
    "Adam with everything": lambda p: gc.optim.Adam(p, lr=0.01, weight_decay=0.1, amsgrad=True, maximize=True),
    "AdamW": lambda p: gc.optim.AdamW(p, lr=0.01),
    "Adamax": lambda p: gc.optim.Adamax(p, lr=0.01, weight_decay=0.1),
    "NAdam": lambda p: gc.optim.NAdam(p, lr=0.01),
    "RAdam": lambda p: gc.optim.RAdam(p, lr=0.01),
    "ASGD": lambda p: gc.optim.ASGD(p, lr=0.1, t0=2),
    "Rprop": lambda p: gc.optim.Rprop(p, lr=0.01),
    "Adagrad": lambda p: gc.optim.Adagrad(p, lr=0.1),
    "Adadelta": lambda p: gc.optim.Adadelta(p, lr=1.0),
    "RMSprop": lambda p: gc.optim.RMSprop(p, lr=0.01, momentum=0.9, centered=True),
}
SHAPES = [(3, 4), (5,), (), (2, CHUNK // 2 + 3), (1, 1)]


def trained(device: str, optimizer: str, dtype: Any, steps: int = 7) -> list[Any]:
    rng = np.random.default_rng(0)
    start = [rng.standard_normal(shape) for shape in SHAPES]
    params = [gc.tensor(a, dtype=dtype, device=device, requires_grad=True) for a in start]
    made = OPTIMIZERS[optimizer](params)
    for step in range(steps):
        for i, (p, a) in enumerate(zip(params, start, strict=True)):
            p.grad = gc.tensor(np.cos((step + 1) * a + i), dtype=dtype, device=device)
        made.step()
    states = [made.state[p] for p in params]
    kept = [v for state in states for v in state.values() if isinstance(v, gc.Tensor) and v.ndim]
    return [t.detach().cpu().double().numpy() for t in (*params, *kept)]


@pytest.mark.parametrize(
    ("optimizer", "dtype"),
    [
        *((name, "float32") for name in OPTIMIZERS),
        *(("Adam with everything", dtype) for dtype in ("float64", "float16", "bfloat16")),
        *(("SGD with everything", dtype) for dtype in ("float64", "float16", "bfloat16")),
    ],
)
def test_steps_are_those_of_the_cpu(fused: Fused, optimizer: str, dtype: str) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    kind = getattr(gc, dtype)
    tolerance = {"float16": 1e-2, "bfloat16": 5e-2, "float32": 2e-5, "float64": 1e-12}[dtype]
    there = fused(lambda: trained("strict:0", optimizer, kind))
    for a, b in zip(trained("cpu", optimizer, kind), there, strict=True):
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)
    assert fused.batch.sources
    assert all("_steps" in name for name in fused.batch.sources)


def test_all_parameters_are_one_launch(fused: Fused) -> None:
    launched: list[str] = []

    def run() -> None:
        params = [gc.ones(3, device="strict:0", requires_grad=True) for _ in range(20)]
        optimizer = gc.optim.Adam(params)
        for p in params:
            p.grad = gc.ones_like(p)
        optimizer.step()
        launched.clear()
        kernel = fused.batch.library.get("fused_adam_steps_0")
        if kernel is not None:
            fused.batch.library["fused_adam_steps_0"] = lambda *a: (launched.append("adam"), kernel(*a))[1]
        optimizer.step()

    fused(run)
    assert launched == ["adam"]
    assert list(fused.batch.sources) == ["fused_adam_steps_0"]  # other step sizes need no other kernel


def test_parameters_that_are_not_contiguous(fused: Fused) -> None:
    def run(device: str) -> Any:
        p = gc.ones(3, 4, device=device).t().requires_grad_()
        p.grad = gc.ones(4, 3, device=device)
        gc.optim.SGD([p], lr=0.5).step()
        return p.detach().cpu().numpy()

    np.testing.assert_array_equal(fused(lambda: run("strict:0")), np.full((4, 3), 0.5))
    assert not fused.batch.sources


def test_lists_of_any_length_in_launches() -> None:
    (launch,) = launches([CHUNK + 2, 0, 3], [1000, 1500, 2000], [50_000, 60_000, 70_000])
    assert launch.blocks == 3
    (parts,) = launch.parts.view(_PARTS)
    assert parts["addresses"][:, :3].tolist() == [[1000, 1500, 2000], [50_000, 60_000, 70_000]]
    assert parts["start"][:4].tolist() == [0, CHUNK + 2, CHUNK + 2, CHUNK + 5]
    assert parts["block"][:4].tolist() == [0, 2, 2, 3]
    first, second = launches([1] * (MOST_ARRAYS + 1), range(MOST_ARRAYS + 1))
    assert (first.blocks, second.blocks) == (MOST_ARRAYS, 1)
    (parts,) = second.parts.view(_PARTS)
    assert parts["first"] == parts["start"][0] == MOST_ARRAYS
    assert list(launches([], [])) == list(launches([0], [8])) == []


def test_more_parameters_than_fit_into_a_launch(fused: Fused) -> None:
    def run(device: str) -> list[float]:
        params = [gc.full((1 + i % 3,), float(i), device=device, requires_grad=True) for i in range(MOST_ARRAYS + 5)]
        for p in params:
            p.grad = p.detach().cos()
        optimizer = gc.optim.SGD(params, lr=0.5, momentum=0.9)
        for _ in range(2):
            optimizer.step()
        return [p.sum().item() for p in params]

    assert fused(lambda: run("strict:0")) == pytest.approx(run("cpu"))


CAPTURABLE: dict[str, Any] = {
    "Adam": lambda p, lr: gc.optim.Adam(p, lr=lr, capturable=True),
    "Adam with everything": lambda p, lr: gc.optim.Adam(
        p, lr=lr, weight_decay=0.1, amsgrad=True, maximize=True, capturable=True
    ),
    "AdamW": lambda p, lr: gc.optim.AdamW(p, lr=lr, capturable=True),
    "Adamax": lambda p, lr: gc.optim.Adamax(p, lr=lr, weight_decay=0.1, capturable=True),
    "RMSprop": lambda p, lr: gc.optim.RMSprop(p, lr=lr, momentum=0.9, capturable=True),
    "Adadelta": lambda p, lr: gc.optim.Adadelta(p, lr=lr, capturable=True),
    "Rprop": lambda p, lr: gc.optim.Rprop(p, lr=lr, capturable=True),
    "NAdam": lambda p, lr: gc.optim.NAdam(p, lr=lr, capturable=True),
    "NAdam that decays": lambda p, lr: gc.optim.NAdam(
        p, lr=lr, weight_decay=0.1, decoupled_weight_decay=True, capturable=True
    ),
    "RAdam": lambda p, lr: gc.optim.RAdam(p, lr=lr, weight_decay=0.1, betas=(0.9, 0.95), capturable=True),
    "RAdam that decays": lambda p, lr: gc.optim.RAdam(
        p, lr=lr, weight_decay=0.1, decoupled_weight_decay=True, capturable=True
    ),
    "RAdam that never adapts": lambda p, lr: gc.optim.RAdam(p, lr=lr, betas=(0.9, 0.6), capturable=True),
    "ASGD": lambda p, lr: gc.optim.ASGD(p, lr=lr, t0=2, weight_decay=0.1, capturable=True),
    "Adagrad": lambda p, lr: gc.optim.Adagrad(p, lr=lr, lr_decay=0.1, fused=True),
}


def trained_with_counts(device: str, name: str, dtype: Any, tensor_lr: bool) -> list[Any]:
    """Parameters that join in at different steps, and what the host waited meanwhile."""
    rng, lr = np.random.default_rng(0), 0.02
    start = [rng.standard_normal(shape) for shape in SHAPES]
    params = [gc.tensor(a, dtype=dtype, device=device, requires_grad=True) for a in start]
    grads = [[gc.tensor(np.cos((step + 1) * a), dtype=dtype, device=device) for a in start] for step in range(8)]
    optimizer = CAPTURABLE[name](params, gc.tensor(lr, device=device) if tensor_lr else lr)
    before = COUNTS.total()
    for step, each in enumerate(grads):
        for i, (p, g) in enumerate(zip(params, each, strict=True)):
            p.grad = g if step >= i % 3 else None
        optimizer.step()
    assert COUNTS.total() == before
    steps = [optimizer.state[p]["step"] for p in params]
    if device != "cpu":
        assert {s.device for s in steps} == {params[0].device}
    states = [optimizer.state[p][k] for p in params for k in optimizer.state[p] if k != "step"]
    return [t.detach().cpu().double().numpy() for t in (*params, *steps, *states)]


@pytest.mark.parametrize("fused_kernels", [False, True], ids=["formulas", "kernels"])
@pytest.mark.parametrize(
    ("name", "dtype", "tensor_lr"),
    [
        *((name, "float32", tensor_lr) for name in CAPTURABLE for tensor_lr in (False, True)),
        *(("AdamW", dtype, True) for dtype in ("float16", "float64")),
        ("Adam with everything", "float64", True),
    ],
)
def test_devices_that_count_the_steps(
    request: Any, strict: str, name: str, dtype: str, tensor_lr: bool, fused_kernels: bool
) -> None:
    tolerance = {"float16": 1e-2, "float32": 2e-5, "float64": 1e-6 if tensor_lr else 1e-12}[dtype]
    kind = getattr(gc, dtype)

    def run() -> list[Any]:
        return trained_with_counts("strict:0", name, kind, tensor_lr)

    there = request.getfixturevalue("fused")(run) if fused_kernels else run()
    for a, b in zip(trained_with_counts("cpu", name, kind, tensor_lr), there, strict=True):
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)


def test_settings_that_are_numbers_of_before(fused: Fused) -> None:
    """A step of ASGD takes the rate and the share that the last step left, which the same launch replaces."""
    gc.set_default_dtype(gc.float64)  # so that numbers are kept as they are computed
    try:
        there = fused(lambda: trained_with_counts("strict:0", "ASGD", gc.float64, tensor_lr=True))
        here = trained_with_counts("cpu", "ASGD", gc.float64, tensor_lr=True)
    finally:
        gc.set_default_dtype(gc.float32)
    for a, b in zip(here, there, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12)


FUSED: dict[str, Any] = {
    "SGD": lambda p: gc.optim.SGD(p, lr=0.1, fused=True),
    "SGD with everything": lambda p: gc.optim.SGD(
        p, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.1, maximize=True, fused=True
    ),
    "SGD with a rate in memory": lambda p: gc.optim.SGD(p, lr=gc.tensor(0.1).to(p[0].device), fused=True),
    "Adam": lambda p: gc.optim.Adam(p, lr=0.1, amsgrad=True, fused=True),
    "AdamW": lambda p: gc.optim.AdamW(p, lr=0.1, fused=True, capturable=True),
    "Adagrad": lambda p: gc.optim.Adagrad(p, lr=0.1, lr_decay=0.2, fused=True),
}


def trained_with_scaler(device: str, name: str) -> list[Any]:
    """Train with a gradient scaler that skips the first step and a later one, with gradients unscaled in some steps."""
    rng = np.random.default_rng(0)
    params = [gc.tensor(rng.standard_normal(s), device=device, requires_grad=True) for s in SHAPES]
    scaler, optimizer = (
        gc.amp.GradScaler(device.partition(":")[0], init_scale=64.0, growth_interval=2),
        FUSED[name](params),
    )
    scaler.scale(gc.ones((), device=device))
    grads = [[p.detach().sin() * (64 + step) for p in params] for step in range(7)]
    grads[0][0][0], grads[3][1].reshape(-1)[0] = float("nan"), float("inf")
    before = COUNTS.total()
    for step, each in enumerate(grads):
        for p, g in zip(params, each, strict=True):
            p.grad = g
        if step % 2:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    assert COUNTS.total() == before
    states = [t for p in params for t in optimizer.state[p].values()]
    return [t.detach().cpu().double().numpy() for t in (*params, *states, *(p.grad for p in params), scaler._scale)]


@pytest.mark.parametrize("kernels", [False, True], ids=["formulas", "kernels"])
@pytest.mark.parametrize("name", FUSED)
def test_steps_that_unscale_and_are_left_out_on_the_device(request: Any, strict: str, name: str, kernels: bool) -> None:
    def run() -> list[Any]:
        with np.errstate(invalid="ignore"):
            return trained_with_scaler("strict:0", name)

    there = request.getfixturevalue("fused")(run) if kernels else run()
    for a, b in zip(trained_with_scaler("cpu", name), there, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-5, atol=2e-5)


def test_a_learning_rate_that_changes_needs_no_other_kernel(fused: Fused) -> None:
    def run() -> Any:
        p = gc.ones(3, device="strict:0", requires_grad=True)
        p.grad = gc.ones_like(p)
        optimizer = gc.optim.AdamW([p], weight_decay=0.07, capturable=True)
        for lr in (0.1, 0.2, 0.3):
            optimizer.param_groups[0]["lr"] = lr
            optimizer.step()
        return p.detach().cpu()

    expected = gc.ones(3, requires_grad=True)
    expected.grad = gc.ones(3)
    optimizer = gc.optim.AdamW([expected], weight_decay=0.07)
    for lr in (0.1, 0.2, 0.3):
        optimizer.param_groups[0]["lr"] = lr
        optimizer.step()
    assert gc.allclose(fused(run), expected.detach())
    assert sorted(fused.batch.sources) == ["fused_adam_steps_1", "fused_step_settings_0"]


def test_checkpoints_between_host_and_device_counts(strict: str) -> None:
    def state(capturable: bool, given: Any = None) -> Any:
        p = gc.ones(3, device=strict, requires_grad=True)
        optimizer = gc.optim.Adam([p], capturable=capturable)
        if given is not None:
            optimizer.load_state_dict(given)
            optimizer.param_groups[0]["capturable"] = capturable
        p.grad = gc.ones_like(p)
        optimizer.step()
        return optimizer.state_dict()

    for first in (False, True):
        for second in (False, True):
            step = state(second, state(first))["state"][0]["step"]
            assert step.item() == 2
            assert step.device == (strict if second else "cpu")
