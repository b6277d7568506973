"""How many kernels a call launches, and what these kernels compute."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from tests.on_device.comparing import agree

F = gc.nn.functional
DTYPES = (gc.float64, gc.float32, gc.float16, gc.bfloat16)


def launches(call: Callable[[], Any]) -> int:
    """How many kernels a call launches, when all are compiled."""
    rig = sys.modules.get("cupy_host")
    if rig is None:
        pytest.skip("launches are counted by the rig")
    call()
    before = rig.launches()
    call()
    return int(rig.launches() - before)


def drawn(rng: np.random.Generator, dtype: Any, *shape: int, device: str = "cpu") -> Any:
    return gc.tensor(rng.uniform(-2, 2, shape)).to(dtype).to(device)


def with_gradients(run: Callable[..., Any], *inputs: Any, second: bool = False) -> list[Any]:
    """The result, the gradients, and if wanted those of the sum of the gradients' squares."""
    inputs = tuple(t.detach().requires_grad_() for t in inputs)
    out = run(*inputs)
    weights = gc.arange(out.numel(), dtype=gc.float64, device=out.device).reshape(out.shape).cos().to(out.dtype)
    found = gc.autograd.grad(out, inputs, weights, create_graph=second)
    if not second:
        return [out, *found]
    return [out, *found, *gc.autograd.grad(sum((g * g).sum() for g in found), inputs)]


# -- images at points ---------------------------------------------------------------------------------------------

GRIDS = [
    (sizes, mode, padding, align)
    for sizes, mode, padding, align in itertools.product(
        ((5, 4), (3, 1, 4)),
        ("bilinear", "nearest", "bicubic"),
        ("zeros", "border", "reflection"),
        (False, True),
    )
    if len(sizes) == 2 or mode != "bicubic"
]


@pytest.mark.parametrize(("sizes", "mode", "padding", "align"), GRIDS)
def test_images_at_points(device: str, sizes: tuple[int, ...], mode: str, padding: str, align: bool) -> None:
    rng = np.random.default_rng(0)
    for dtype in DTYPES:
        image = drawn(rng, dtype, 2, 3, *sizes[::-1]).permute(0, 1, *range(len(sizes) + 1, 1, -1))
        points = drawn(rng, dtype, 2, *((3, 7) if len(sizes) == 2 else (2, 3, 4)), len(sizes))
        points.view(-1)[:10] = gc.tensor([1, -1, 0, np.nan, np.inf, -np.inf, 1e4, 3, 1, -1]).to(dtype)

        def run(where: str, image: Any = image, points: Any = points) -> list[Any]:
            return with_gradients(
                lambda x, g: F.grid_sample(x, g, mode, padding, align), image.to(where), points.to(where)
            )

        agree([t.nan_to_num(0, 0, 0) for t in run(device)], [t.nan_to_num(0, 0, 0) for t in run("cpu")], str(dtype))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_second_derivatives_of_images_at_points(device: str, mode: str) -> None:
    rng = np.random.default_rng(0)
    image, points = drawn(rng, gc.float64, 1, 2, 4, 5), drawn(rng, gc.float64, 1, 3, 4, 2) / 2

    def run(where: str) -> list[Any]:
        sample = lambda x, g: F.grid_sample(x, g, mode, "reflection", False)  # noqa: E731
        many = gc.vmap(gc.func.grad(lambda x, g: sample(x[None], g[None]).square().sum(), (0, 1)))
        x, g = image.to(where), points.to(where)
        return [*with_gradients(sample, x, g, second=True), *many(x.repeat(3, 1, 1, 1), g.repeat(3, 1, 1, 1))]

    agree(run(device), run("cpu"))


@pytest.mark.parametrize(("dtype", "backward"), [(gc.float32, 1), (gc.float64, 1), (gc.bfloat16, 2)])
def test_launches_of_images_at_points(device: str, dtype: Any, backward: int) -> None:
    x = gc.ones(2, 3, 5, 4, dtype=dtype, device=device, requires_grad=True)
    grid = gc.zeros(2, 6, 7, 2, dtype=dtype, device=device, requires_grad=True)
    sample: Callable[[], Any] = lambda: F.grid_sample(x, grid, align_corners=False)  # noqa: E731
    assert launches(sample) == 1
    out = sample()
    ones = gc.ones_like(out)
    assert launches(lambda: gc.autograd.grad(out, (x, grid), ones, retain_graph=True)) == backward


# -- channels -----------------------------------------------------------------------------------------------------

CHANNELS = [
    (2, 3, 4), (9, 33), (5, 1), (3000, 2), (2, 3, 70, 71), (17, 2, 300, 3), (1, 1, 9000), (64, 3, 8, 8),
    (2, 5, 2, 3, 4),
]  # fmt: skip


@pytest.mark.parametrize("shape", CHANNELS, ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_channels(device: str, shape: tuple[int, ...], training: bool) -> None:
    rng = np.random.default_rng(0)
    for dtype in DTYPES:
        inputs = [drawn(rng, dtype, *shape).movedim(0, -1).contiguous().movedim(-1, 0) + 3]
        inputs += [drawn(rng, dtype, shape[1]) for _ in range(2)]

        def run(where: str, dtype: Any = dtype, inputs: Any = inputs) -> list[Any]:
            kept = gc.zeros(shape[1], dtype=dtype, device=where), gc.ones(shape[1], dtype=dtype, device=where)
            norm = lambda x, *rest: F.batch_norm(x, *kept, *rest, training)  # noqa: E731
            second = training and dtype is gc.float64
            return [*with_gradients(norm, *[t.to(where) for t in inputs], second=second), *kept]

        agree(run(device), run("cpu"), str(dtype))


def test_equal_calls_of_channels_give_equal_bits(device: str) -> None:
    x = drawn(np.random.default_rng(0), gc.float32, 40, 3, 31, 33, device=device)
    first, second = (with_gradients(lambda x: F.batch_norm(x, None, None, training=True), x) for _ in range(2))
    assert all((a == b).all().item() for a, b in zip(first, second, strict=True))


def test_launches_of_channels(device: str) -> None:
    x = gc.ones(16, 8, 32, 32, device=device, requires_grad=True)
    weight, bias = (gc.ones(8, device=device, requires_grad=True) for _ in range(2))
    kept = gc.zeros(8, device=device), gc.ones(8, device=device)
    norm: Callable[[], Any] = lambda: F.batch_norm(x, None, None, weight, bias, True)  # noqa: E731
    assert launches(norm) == 3
    assert launches(lambda: F.batch_norm(x, *kept, weight, bias, True)) == 7
    assert launches(lambda: F.batch_norm(x, *kept, weight, bias)) == 2
    out = norm()
    ones = gc.ones_like(out)
    assert launches(lambda: gc.autograd.grad(out, (x, weight, bias), ones, retain_graph=True)) == 3
