"""Kernels of lists of gradients, executed on the host: they agree with the formulas, and the host never waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.cupy.kernels import C_NAMES
from gradcore.backends.cupy.multi_tensor import CHUNK, MOST_ARRAYS
from tests.cuda.host import launched, needs_compiler
from tests.strict.device import COUNTS

DTYPES = [*C_NAMES, "complex64"]
TOLERANCES = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "float64": 1e-12, "complex64": 2e-5}
SHAPES = [(3, 5), (), (0, 2), (CHUNK + 3,), (2, 7, 3), (1,)]


@pytest.fixture(autouse=True)
def _compiler() -> None:
    needs_compiler()


def gradients(device: str, dtype: str, shapes: Any = SHAPES, size: float = 3.0) -> list[Any]:
    """Parameters with gradients: dense ones, one in the order of columns, and one in steps."""
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    rng, kind, params = np.random.default_rng(0), getattr(gc, dtype), []
    for shape in [*shapes, "columns", "steps"]:
        data = rng.uniform(-size, size, (4, 6) if isinstance(shape, str) else shape)
        if dtype == "complex64":
            data = data + 1j * rng.uniform(-size, size, data.shape)
        grad = gc.tensor(data).to(kind).to(device)
        grad = {"columns": lambda g: g.t(), "steps": lambda g: g[:, ::2]}.get(shape, lambda g: g)(grad)
        params.append(gc.zeros(grad.shape, dtype=kind, device=device, requires_grad=True))
        params[-1].grad = grad
    return params


def agree(call: Callable[[list[Any]], Any], dtype: str, **settings: Any) -> dict[str, int]:
    """`call` changes gradients there as here, without a wait; returns what was launched."""
    results = []
    for device in ("cpu", "strict:0"):
        params = gradients(device, dtype, **settings)
        versions = [p.grad._version for p in params]
        before = COUNTS.total()
        with np.errstate(all="ignore"), launched() as names:
            found = call(params)
        assert COUNTS.total() == before
        assert all(p.grad._version > v for p, v in zip(params, versions, strict=True))
        results.append([t.detach().cpu().to(gc.complex128).numpy() for t in (*(p.grad for p in params), *found)])
    for here, there in zip(*results, strict=True):
        np.testing.assert_allclose(there, here, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])
    return names


def scaler(device: Any, **settings: Any) -> Any:
    made = gc.amp.GradScaler(str(device).partition(":")[0], init_scale=8.0, **settings)
    made.scale(gc.ones((), device=device))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "float16"])
def test_gradients_are_unscaled_by_one_launch(strict: str, dtype: str) -> None:
    def unscale(params: list[Any]) -> list[Any]:
        made, optimizer = scaler(params[0].device), gc.optim.SGD(params, lr=0.1)
        made.unscale_(optimizer)
        return list(made._progress_of(optimizer).found_inf.values())

    assert agree(unscale, dtype) == {"unscale": 1}
    assert agree(unscale, dtype, shapes=[(1 + i % 3,) for i in range(MOST_ARRAYS)]) == {"unscale": 2}


@pytest.mark.parametrize("bad", [float("inf"), -float("inf"), float("nan")])
@pytest.mark.parametrize("place", [0, CHUNK + 2])
def test_what_is_not_finite_is_found(strict: str, bad: float, place: int) -> None:
    for dtype in C_NAMES:
        params = gradients(strict, dtype, [(5,), (CHUNK + 3,)])
        params[1].grad[place] = bad
        made, optimizer = scaler(strict), gc.optim.SGD(params, lr=0.1)
        (found,) = made._divide_gradients(optimizer, None, True).values()
        assert found.item() == 1
        assert not np.isfinite(params[1].grad[place].item())
        params[1].grad[place] = 0.0
        (found,) = made._divide_gradients(optimizer, None, True).values()
        assert found.item() == 0


def test_the_scale_is_adapted_as_on_the_cpu(strict: str) -> None:
    """Without a wait: smaller after a bad step, larger after three good ones, never infinite."""
    found = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, *[0.0] * 200, 2.0]
    scales = {}
    for device in ("cpu", "strict:0"):
        made = scaler(device, growth_interval=3, growth_factor=17.0, backoff_factor=0.25)
        bad, seen = [gc.tensor(f, device=device) for f in found], []
        before = COUNTS.total()
        with np.errstate(over="ignore"), launched() as names:
            for each in bad:
                made._adapt(each)
                seen.append((made._scale.clone(), made._growth_tracker.clone()))
        assert COUNTS.total() == before
        scales[device] = [(scale.item(), steps.item()) for scale, steps in seen]
    assert scales["cpu"] == scales["strict:0"]
    assert names == {"adapt_scale": len(found)}
    assert max(scale for scale, _ in scales["cpu"]) > 1e37


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", [1, 2, float("inf"), 3])
def test_clipping_by_the_norm(strict: str, dtype: str, order: float) -> None:
    shapes = [shape for shape in SHAPES if 0 not in shape or order != float("inf")]  # empty ones have no maximum
    for most in (1.0, 1e6):
        names = agree(
            lambda params, most=most: [gc.nn.utils.clip_grad_norm_(params, most, order)], dtype, shapes=shapes, size=0.1
        )
        together = order != 3 and (dtype != "complex64" or order == 2)
        assert names == {**({"partial_norms": 1, "total_norm": 1} if together else {}), "clip_norm": 1}


@pytest.mark.parametrize("dtype", DTYPES)
def test_norms(strict: str, dtype: str) -> None:
    for order in (1, 2, float("inf")) if dtype != "complex64" else (2,):
        results = []
        for device in ("cpu", strict):
            grads = [p.grad for p in gradients(device, dtype, [(3, 5), (CHUNK + 3,)], 0.1)]
            results.append(gc.nn.utils.get_total_norm(grads, order).cpu().double().item())
        assert results[1] == pytest.approx(results[0], rel=TOLERANCES[dtype])


def test_clipping_gradients_of_several_dtypes(strict: str) -> None:
    def run(device: str) -> list[Any]:
        params = [p for dtype in ("float16", "float32", "float64") for p in gradients(device, dtype, [(3, 4)])]
        total = gc.nn.utils.clip_grad_norm_(params, 0.5)
        assert total.dtype is gc.float64
        return [t.detach().cpu().double().numpy() for t in (total, *(p.grad for p in params))]

    for here, there in zip(run("cpu"), run(strict), strict=True):
        np.testing.assert_allclose(there, here, rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_a_norm_that_is_not_finite(strict: str, bad: float) -> None:
    results = []
    for device in ("cpu", "strict:0"):
        params = gradients(device, "float32", [(3,), (4,)])
        params[0].grad[1] = bad
        with np.errstate(all="ignore"):
            total = gc.nn.utils.clip_grad_norm_(params, 1.0)
        results.append([total.cpu().numpy(), *(p.grad.cpu().numpy() for p in params)])
        with pytest.raises(RuntimeError, match=r"The total norm of order 2.0 for gradients .* is non-finite"):
            gc.nn.utils.clip_grad_norm_(params, 1.0, error_if_nonfinite=True)
    for here, there in zip(*results, strict=True):
        np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize("dtype", list(C_NAMES))
def test_clipping_values(strict: str, dtype: str) -> None:
    def clip(params: list[Any]) -> list[Any]:
        params[0].grad[0, 0] = float("nan")
        gc.nn.utils.clip_grad_value_(params, 0.7)
        return []

    assert agree(clip, dtype) == {"clip_values": 1}


@pytest.mark.slow
def test_many_gradients_have_one_norm(strict: str) -> None:
    shapes = [(1 + i % 5,) for i in range(2 * MOST_ARRAYS + 9)]
    names = agree(lambda params: [gc.nn.utils.clip_grad_norm_(params, 1.0)], "float32", shapes=shapes)
    assert names == {"partial_norms": 3, "total_norm": 1, "clip_norm": 3}


def test_subclasses_are_clipped_by_their_own_operations(strict: str) -> None:
    class Loud(gc.Tensor):
        pass

    p = gc.zeros(3, requires_grad=True)
    p.grad = gc.ones(3).as_subclass(Loud)
    gc.nn.utils.clip_grad_value_(p, 0.5)
    assert p.grad.tolist() == [0.5] * 3
