"""Gradient scaling: growth and backoff, steps that are left out, errors, checkpoints."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest

import gradcore as gc
from gradcore.amp import GradScaler


class Descent:
    """The least that a scaler needs of an optimizer."""

    def __init__(self, *parameters: Any) -> None:
        self.param_groups = [{"params": list(parameters)}]
        self.steps = 0

    @gc.no_grad()
    def step(self) -> str:
        self.steps += 1
        for p in self.param_groups[0]["params"]:
            if p.grad is not None:
                p -= 0.5 * p.grad
        return "stepped"


@pytest.fixture
def weight() -> Any:
    return gc.ones(2, requires_grad=True)


def run(scaler: Any, optimizer: Any, weight: Any, factor: float) -> Any:
    weight.grad = None
    scaler.scale((weight * factor).sum()).backward()
    result = scaler.step(optimizer)
    scaler.update()
    return result


def test_gradients_are_unscaled_for_the_step(weight: Any) -> None:
    scaler, optimizer = GradScaler("cpu", init_scale=1024.0), Descent(weight)
    assert run(scaler, optimizer, weight, 2.0) == "stepped"
    assert weight.tolist() == [0.0, 0.0]
    assert weight.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_steps_with_bad_gradients_are_left_out(bad: float, weight: Any) -> None:
    scaler, optimizer = GradScaler("cpu", init_scale=8.0, backoff_factor=0.25), Descent(weight)
    assert run(scaler, optimizer, weight, bad) is None
    assert (optimizer.steps, weight.tolist(), scaler.get_scale()) == (0, [1.0, 1.0], 2.0)


def test_the_factor_grows_after_a_while(weight: Any) -> None:
    scaler, optimizer = GradScaler("cpu", init_scale=4.0, growth_factor=3.0, growth_interval=2), Descent(weight)
    scales = []
    for factor in (1.0, 1.0, 1.0, math.inf, 1.0, 1.0):
        run(scaler, optimizer, weight, factor)
        scales.append(scaler.get_scale())
    assert scales == [4.0, 12.0, 12.0, 6.0, 6.0, 18.0]


def test_the_factor_does_not_become_infinite(weight: Any) -> None:
    scaler = GradScaler("cpu", init_scale=3e38, growth_interval=1)
    scaler.scale(gc.zeros(()))
    run(scaler, Descent(weight), weight, 0.0)
    assert scaler.get_scale() == pytest.approx(3e38)


def test_nested_outputs_are_scaled(weight: Any) -> None:
    scaler = GradScaler("cpu", init_scale=2.0)
    one = gc.ones(())
    scaled = scaler.scale([one, (one, one)])
    assert (scaled[0].item(), type(scaled[1]), scaled[1][1].item()) == (2.0, tuple, 2.0)
    assert [t.item() for t in scaler.scale(iter([one]))] == [2.0]
    with pytest.raises(ValueError, match="outputs must be a Tensor or an iterable of Tensors"):
        scaler.scale(3)


def test_unscaling_by_hand(weight: Any) -> None:
    scaler, optimizer = GradScaler("cpu", init_scale=16.0), Descent(weight)
    scaler.scale(weight.sum()).backward()
    assert weight.grad.tolist() == [16.0, 16.0]
    scaler.unscale_(optimizer)
    assert weight.grad.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match=r"unscale_\(\) has already been called on this optimizer"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called since the last update"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) is being called after step"):
        scaler.unscale_(optimizer)
    scaler.update()
    assert weight.tolist() == [0.5, 0.5]


def test_several_optimizers_share_the_factor(weight: Any) -> None:
    other = gc.ones(1, requires_grad=True)
    scaler, first, second = GradScaler("cpu", init_scale=4.0), Descent(weight), Descent(other)
    scaler.scale(weight.sum() + (other * math.inf).sum()).backward()
    scaler.step(first)
    scaler.step(second)
    scaler.update()
    assert (first.steps, second.steps, scaler.get_scale()) == (1, 0, 2.0)


def test_an_optimizer_that_unscales_itself(weight: Any) -> None:
    class Fused(Descent):
        _step_supports_amp_scaling = True

        def step(self) -> str:
            self.seen = (None if self.grad_scale is None else self.grad_scale.item(), self.found_inf.item())
            return "fused"

    scaler, optimizer = GradScaler("cpu", init_scale=4.0), Fused(weight)
    assert run(scaler, optimizer, weight, 1.0) == "fused"
    assert optimizer.seen == (4.0, 0.0)
    assert weight.grad.tolist() == [4.0, 4.0]
    run(scaler, optimizer, weight, math.nan)
    assert optimizer.seen == (4.0, 1.0)
    assert not hasattr(optimizer, "found_inf")
    assert scaler.get_scale() == 2.0


@pytest.mark.parametrize("call", [lambda s, o: s.unscale_(o), lambda s, o: s.step(o), lambda s, o: s.update()])
def test_before_anything_is_scaled(call: Any, weight: Any) -> None:
    with pytest.raises(AssertionError, match="but _scale is None"):
        call(GradScaler("cpu"), Descent(weight))


def test_wrong_use(weight: Any) -> None:
    with pytest.raises(AssertionError, match="growth factor must be > 1"):
        GradScaler("cpu", growth_factor=1.0)
    with pytest.raises(AssertionError, match="backoff factor must be < 1"):
        GradScaler("cpu", backoff_factor=1.0)
    scaler = GradScaler("cpu")
    scaler.scale(weight.sum()).backward()
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update"):
        scaler.update()
    with pytest.raises(RuntimeError, match="Closure use is not currently supported"):
        scaler.step(Descent(weight), closure=lambda: None)
    low = gc.ones(2, dtype=gc.float16, requires_grad=True)
    scaler.scale(low.sum()).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.unscale_(Descent(low))


def test_setting_the_factor(weight: Any) -> None:
    scaler = GradScaler("cpu")
    scaler.scale(weight.sum())
    scaler.update(8.0)
    assert scaler.get_scale() == 8.0
    scaler.update(gc.tensor(4.0))
    assert scaler.get_scale() == 4.0
    with pytest.raises(AssertionError, match="new_scale should be a float"):
        scaler.update(gc.ones(2))


def test_settings() -> None:
    scaler = GradScaler("cpu")
    scaler.set_growth_factor(4.0)
    scaler.set_backoff_factor(0.125)
    scaler.set_growth_interval(7)
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()) == (4.0, 0.125, 7)
    assert scaler.is_enabled()


def test_switched_off(weight: Any) -> None:
    scaler, optimizer = GradScaler("cpu", enabled=False), Descent(weight)
    loss = weight.sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.unscale_(optimizer)
    assert scaler.step(optimizer) == "stepped"
    scaler.update()
    assert (scaler.get_scale(), scaler.state_dict(), scaler.is_enabled()) == (1.0, {}, False)


@pytest.mark.skipif(gc.cuda.is_available(), reason="says what happens without CUDA")
def test_without_cuda() -> None:
    with pytest.warns(UserWarning, match="GradScaler is enabled, but CUDA is not available"):
        assert not GradScaler().is_enabled()


def test_checkpoints(weight: Any) -> None:
    scaler, optimizer = GradScaler("cpu", init_scale=4.0, growth_interval=2), Descent(weight)
    run(scaler, optimizer, weight, 1.0)
    state = scaler.state_dict()
    assert state == {
        "scale": 4.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2, "_growth_tracker": 1,
    }  # fmt: skip
    for other in (GradScaler("cpu"), scaler):
        other.load_state_dict(state)
        run(other, optimizer, weight, 1.0)
        assert other.get_scale() == 8.0
    with pytest.raises(RuntimeError, match="The source state dict is empty"):
        scaler.load_state_dict({})
    again = pickle.loads(pickle.dumps(scaler))
    run(again, optimizer, weight, 1.0)
    assert (again.get_scale(), again.state_dict()["_growth_tracker"]) == (8.0, 1)


def test_on_a_device(strict: str) -> None:
    from tests.strict.device import COUNTS

    weight = gc.ones(2, device=strict, requires_grad=True)
    scaler, optimizer = GradScaler("strict", init_scale=4.0, growth_interval=1), Descent(weight)
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    before = dict(COUNTS)
    scaler.update()
    assert dict(COUNTS) == before, "update waits for the device"
    assert (scaler.get_scale(), weight.cpu().tolist()) == (8.0, [0.5, 0.5])


def test_gradients_that_overflow_give_no_warnings(weight: Any) -> None:
    """Infinite gradients are what the scaler looks for: warnings, which are errors here, would be noise."""
    low = weight.half()
    (low.float().sum() * 1e6).backward()
    assert weight.grad.tolist() == [math.inf, math.inf]
    half = gc.ones(2, dtype=gc.float16, requires_grad=True)
    (half.float() * gc.tensor([1e6, 1.0])).sum().backward()
    (half.sum() * 1e6).backward()
    assert half.grad.tolist() == [math.inf, math.inf]
