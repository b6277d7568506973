"""Kernels over windows against PyTorch: values, indices and gradients of random configurations."""

import random

import numpy as np
import pytest

import gradcore as gc
from tests.backends.portable_kernels import portable

torch = pytest.importorskip("torch")
F = torch.nn.functional

pytestmark = pytest.mark.oracle

TOLERANCE = {
    torch.float32: {"atol": 1e-4, "rtol": 1e-4},
    torch.float64: {"atol": 1e-11, "rtol": 1e-11},
    torch.complex128: {"atol": 1e-11, "rtol": 1e-11},
}


@pytest.fixture(params=range(80))
def draw(request):
    torch.manual_seed(request.param)
    return random.Random(request.param)


def _tuple(draw, dims, low, high):
    return tuple(draw.randint(low, high) for _ in range(dims))


def _of(dims, name):
    return getattr(F, f"{name}{dims}d")


def _same(ours, theirs):
    assert ours.shape == tuple(theirs.shape)
    assert ours.dtype == theirs.detach().numpy().dtype
    np.testing.assert_allclose(ours, theirs.detach().numpy(), **TOLERANCE[theirs.dtype])


def _backward(out):
    """Run backward with a random upstream gradient, and return that gradient as an array."""
    grad = torch.randn_like(out)
    out.backward(grad)
    return grad.numpy()


def test_convolution(draw):
    dims = draw.choice([1, 2, 2, 3])
    groups, channels, outputs = draw.choice([1, 1, 2, 3]), draw.choice([1, 2, 9]), draw.choice([1, 2, 5])
    kernel, stride = _tuple(draw, dims, 1, 4), _tuple(draw, dims, 1, 4)
    padding, dilation = _tuple(draw, dims, 0, 3), _tuple(draw, dims, 1, 3)
    least = [max(1, d * (k - 1) + 1 - 2 * p) for k, p, d in zip(kernel, padding, dilation, strict=True)]
    sizes = [n + draw.randint(0, 12 if dims < 3 else 5) for n in least]
    dtype = draw.choice([torch.float32, torch.float64, torch.complex128])
    x = torch.randn(draw.choice([0, 1, 2, 7]), groups * channels, *sizes, dtype=dtype, requires_grad=True)
    w = torch.randn(groups * outputs, channels, *kernel, dtype=dtype, requires_grad=True)
    settings = stride, padding, dilation, groups
    out = _of(dims, "conv")(x, w, None, *settings)
    a, b = x.detach().numpy(), w.detach().numpy()
    _same(portable(np).conv(a, b, *settings), out)
    grad = _backward(out)
    _same(portable(np).conv_input(grad, b.conj(), sizes, *settings), x.grad)
    _same(portable(np).conv_weight(a.conj(), grad, kernel, *settings), w.grad)


@pytest.mark.parametrize(
    ("x", "w", "stride", "groups"),
    [
        ((4, 64, 14, 14), (64, 64, 3, 3), 1, 1),
        ((4, 64, 14, 14), (8, 64, 3, 3), 2, 1),  # multiplied first
        ((4, 48, 14, 14), (48, 1, 3, 3), 1, 48),  # depthwise
        ((2, 24, 16, 16), (48, 24, 1, 1), 2, 1),
        ((1, 16, 64, 64), (300, 16, 3, 3), 1, 1),
    ],
)
def test_large_convolutions(x, w, stride, groups):
    torch.manual_seed(0)
    x, w = torch.randn(x, requires_grad=True), torch.randn(w, requires_grad=True)
    padding = w.shape[2] // 2
    out = F.conv2d(x, w, None, stride, padding, 1, groups)
    a, b, settings = x.detach().numpy(), w.detach().numpy(), ((stride,) * 2, (padding,) * 2, (1, 1), groups)
    grad = _backward(out)
    for ours, theirs in [
        (portable(np).conv(a, b, *settings), out.detach()),
        (portable(np).conv_input(grad, b, x.shape[2:], *settings), x.grad),
        (portable(np).conv_weight(a, grad, w.shape[2:], *settings), w.grad),
    ]:
        np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-5 * float(theirs.abs().max()))


def _input(draw, sizes):
    """Distinct values, or many equal ones, NaNs or infinities."""
    x = torch.randn(2, 3, *sizes, dtype=draw.choice([torch.float32, torch.float64]))
    kind = draw.choice(["distinct", "ties", "nan", "inf"])
    if kind == "ties":
        x = x.round()
    elif kind != "distinct":
        x[torch.rand(x.shape) < 0.5] = float("nan") if kind == "nan" else -float("inf")
    return x.requires_grad_()


def test_max_pool(draw):
    dims = draw.choice([1, 2, 2, 3])
    kernel, stride, dilation = _tuple(draw, dims, 1, 4), _tuple(draw, dims, 1, 5), _tuple(draw, dims, 1, 3)
    padding = tuple(draw.randint(0, k // 2) for k in kernel)
    sizes = [d * (k - 1) + 1 + draw.randint(0, 7) for k, d in zip(kernel, dilation, strict=True)]
    settings = kernel, stride, padding, dilation, draw.random() < 0.5
    x = _input(draw, sizes)
    values, indices = _of(dims, "max_pool")(x, *settings, return_indices=True)
    ours, where = portable(np).max_pool(x.detach().numpy(), *settings)
    np.testing.assert_array_equal(ours, values.detach().numpy())
    np.testing.assert_array_equal(where, indices.numpy())
    _same(portable(np).max_pool_spread(_backward(values), where, sizes), x.grad)
    np.testing.assert_array_equal(portable(np).max_pool_gather(x.detach().numpy(), where, len(sizes)), ours)


def test_avg_pool(draw):
    dims = draw.choice([1, 2, 2, 3])
    kernel, stride = _tuple(draw, dims, 1, 4), _tuple(draw, dims, 1, 5)
    padding = tuple(draw.randint(0, k // 2) for k in kernel)
    sizes = [k + draw.randint(0, 9) for k in kernel]
    settings = kernel, stride, padding, draw.random() < 0.5, draw.random() < 0.5
    divisor = draw.choice([None, 3]) if dims > 1 else None
    x = torch.randn(2, 3, *sizes, dtype=draw.choice([torch.float32, torch.float64]), requires_grad=True)
    out = _of(dims, "avg_pool")(x, *settings, *([divisor] if dims > 1 else []))
    _same(portable(np).avg_pool(x.detach().numpy(), *settings, divisor), out)
    _same(portable(np).avg_pool_spread(_backward(out), sizes, *settings, divisor), x.grad)


def test_adaptive_pooling(draw):
    dims = draw.choice([1, 2, 2, 3])
    sizes = _tuple(draw, dims, 2, 12)
    size = tuple(draw.choice([n // 2, n, draw.randint(1, 14)]) for n in sizes)
    x = _input(draw, sizes)
    values, indices = _of(dims, "adaptive_max_pool")(x, size, return_indices=True)
    ours, where = portable(np).adaptive_max_pool(x.detach().numpy(), size)
    np.testing.assert_array_equal(ours, values.detach().numpy())
    np.testing.assert_array_equal(where, indices.numpy())
    _same(portable(np).max_pool_spread(_backward(values), where, sizes), x.grad)
    x.grad = None
    out = _of(dims, "adaptive_avg_pool")(x, size)
    _same(portable(np).adaptive_avg_pool(x.detach().numpy(), size), out)
    _same(portable(np).adaptive_avg_pool_spread(_backward(out), sizes), x.grad)


@pytest.mark.parametrize("antialias", [False, True])
def test_interpolate(draw, antialias):
    dims = 2 if antialias else draw.choice([1, 2, 2, 3])
    plain = {1: ["linear"], 2: ["bilinear", "bicubic"], 3: ["trilinear"]}[dims]
    modes = ["bilinear", "bicubic", "lanczos"] if antialias else ["nearest", "nearest-exact", *plain]
    mode = draw.choice(modes)
    align_corners = draw.random() < 0.5 if "linear" in mode or "cubic" in mode else None
    sizes = _tuple(draw, dims, 1, 13)
    if draw.random() < 0.5:
        size, scales = _tuple(draw, dims, 1, 20), (None,) * dims
        named = {"size": size}
    else:
        factors = [draw.choice([2, 3, 0.5, 1.7, 1 / 3, 2.5, draw.uniform(0.3, 4)]) for _ in sizes]
        factors = [f if int(n * f) else 1.5 for f, n in zip(factors, sizes, strict=True)]
        size = tuple(int(n * factor) for n, factor in zip(sizes, factors, strict=True))
        recompute = draw.random() < 0.4
        scales = (None,) * dims if recompute else factors
        named = {"scale_factor": factors, "recompute_scale_factor": recompute}
    if antialias and size[1] == 1:
        size = (size[0], 2)  # PyTorch 2.13 repeats one row in images that become one column
        named, scales = {"size": size}, (None, None)
    x = torch.randn(2, 3, *sizes, dtype=draw.choice([torch.float32, torch.float64]), requires_grad=True)
    out = F.interpolate(x, mode=mode, align_corners=align_corners, antialias=antialias, **named)
    settings = scales, mode, bool(align_corners), antialias
    _same(portable(np).resample(x.detach().numpy(), size, *settings), out)
    grad = _backward(out)
    if mode == "nearest" and any(n == m for n, m in zip(sizes, size, strict=True)):
        return  # PyTorch's backward ignores the scale factor there, its forward does not
    _same(portable(np).resample_backward(grad, sizes, *settings), x.grad)


def test_nearest_indices():
    """Positions are rounded in the precision of the data, sizes and scale factors of all kinds."""
    draw = random.Random(0)
    for _ in range(400):
        size = draw.randint(1, 400)
        factor = draw.choice([draw.uniform(0.05, 6), draw.randint(1, 40) / draw.randint(1, 40)])
        out = int(size * factor)
        if not out:
            continue
        x = torch.arange(size, dtype=draw.choice([torch.float32, torch.float64])).reshape(1, 1, size)
        for mode in ("nearest", "nearest-exact"):
            for scale, named in [(None, {"size": out}), (factor, {"scale_factor": factor})]:
                ours = portable(np).resample(x.numpy(), (out,), (scale,), mode)
                np.testing.assert_array_equal(ours, F.interpolate(x, mode=mode, **named).numpy())


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("size", [(33, 40), (7, 9), (5, 40), (20, 34), (1, 2)])
def test_interpolate_bytes(mode, antialias, align_corners, size):
    """Weights are integers, so results are equal."""
    x = np.random.default_rng(0).integers(0, 256, (2, 3, 20, 17)).astype(np.uint8)
    settings = {"size": size, "mode": mode, "align_corners": align_corners, "antialias": antialias}
    found = gc.nn.functional.interpolate(gc.tensor(x), **settings)
    np.testing.assert_array_equal(found.numpy(), F.interpolate(torch.from_numpy(x), **settings).numpy())
