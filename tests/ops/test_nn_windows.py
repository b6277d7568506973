"""Convolution, pooling, padding, resampling and folding: values worked out by hand, identities, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradcore as gc
import gradcore.nn.functional as F
from gradcore.ops.declare.table import OPS
from tests.ops.directions import check_derivatives, inner, random


def tensor(values: Any, grad: bool = False) -> gc.Tensor:
    return gc.tensor(values, dtype=gc.float64, requires_grad=grad)


def draw(*shape: int, dtype: str = "float64", seed: int = 0) -> Any:
    return random(np.random.default_rng(seed), shape, dtype)


def close(found: Any, expected: Any, **tolerance: float) -> None:
    value = found.detach().numpy() if isinstance(found, gc.Tensor) else found
    np.testing.assert_allclose(value, expected, **({"rtol": 1e-12, "atol": 1e-12} | tolerance))


# -- convolution ---------------------------------------------------------------------------------------------


def test_convolution_by_hand() -> None:
    x, w = tensor([[[1.0, 2.0, 3.0, 4.0]]]), tensor([[[1.0, 0.0, -2.0]]])
    close(F.conv1d(x, w), [[[1 - 6, 2 - 8]]])
    close(F.conv1d(x, w, tensor([10.0]), stride=2, padding=1), [[[10 + 0 - 4, 10 + 2 - 8]]])
    close(F.conv1d(x, w, dilation=2, padding=2), [[[-6.0, -8.0, 1.0, 2.0]]])
    close(F.conv1d(x[0], w), [[-5.0, -6.0]])
    close(F.conv_transpose1d(x, w), [[[1.0, 2.0, 1.0, 0.0, -6.0, -8.0]]])
    close(F.conv_transpose1d(x, w, stride=2, output_padding=1)[0, 0], [1, 0, 0, 0, -1, 0, -2, 0, -8, 0])


def test_same_and_valid_padding() -> None:
    x, w = tensor([[[1.0, 2.0, 3.0]]]), tensor([[[1.0, 1.0]]])
    close(F.conv1d(x, w, padding="same"), [[[3.0, 5.0, 3.0]]])  # what is odd is padded behind
    close(F.conv1d(x, w, padding="valid"), [[[3.0, 5.0]]])
    assert F.conv2d(gc.ones(1, 1, 5, 6), gc.ones(1, 1, 3, 4), padding="same", dilation=2).shape == (1, 1, 5, 6)


@st.composite
def _forms(drawn: Any) -> tuple[Any, ...]:
    """Arguments of the trilinear form: shapes of input, weight and output, and the settings."""
    n = drawn(st.integers(1, 3))

    def numbers(low: int, high: int) -> tuple[int, ...]:
        return tuple(drawn(st.integers(low, high)) for _ in range(n))

    kernel, stride, padding, dilation = numbers(1, 3), numbers(1, 3), numbers(0, 2), numbers(1, 2)
    reach = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True))
    sizes = tuple(max(r - 2 * p, 1) + e for r, p, e in zip(reach, padding, numbers(0, 3), strict=True))
    outputs = tuple((s + 2 * p - r) // t + 1 for s, p, r, t in zip(sizes, padding, reach, stride, strict=True))
    groups, batch = drawn(st.integers(1, 2)), drawn(st.integers(1, 2))
    channels, features = drawn(st.integers(1, 2)), drawn(st.integers(1, 2)) * groups
    shapes = (
        (batch, channels * groups, *sizes),
        (features, channels, *kernel),
        (batch, features, *outputs),
    )
    return (*shapes, (stride, padding, dilation, groups))


@given(_forms(), st.sampled_from(["float64", "complex128"]))
def test_three_maps_of_one_form(form: tuple[Any, ...], dtype: str) -> None:
    """The maps are adjoint to each other, and so are their derivatives of any order."""
    *shapes, settings = form
    x, w, y = (gc.tensor(draw(*shape, dtype=dtype, seed=i)) for i, shape in enumerate(shapes))
    output, input, weight = (OPS[f"conv_{name}"].call for name in ("output", "input", "weight"))
    value = inner(y.numpy(), output(x, w, y.shape[2:], *settings).numpy())
    conjugate = x.conj(), w.conj()
    np.testing.assert_allclose(inner(input(y, conjugate[1], x.shape[2:], *settings).numpy(), x.numpy()), value)
    np.testing.assert_allclose(inner(weight(conjugate[0], y, w.shape[2:], *settings).numpy(), w.numpy()), value)


@pytest.mark.parametrize("name", ["output", "input", "weight"])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_derivatives_of_the_form(name: str, dtype: str) -> None:
    shapes = {"input": (2, 4, 6), "weight": (6, 2, 3), "output": (2, 6, 3)}
    size = shapes.pop(name)[2:]
    first, second = (draw(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes.values()))
    if name == "input":
        first, second = second, first
    call = OPS[f"conv_{name}"].call
    check_derivatives(lambda a, b: call(a, b, size, (2,), (1,), (1,), 2), first, second)


def test_output_padding_beyond_the_stride() -> None:
    """Then the transposed convolution's output has room for more windows than its input has elements."""
    x, w = draw(1, 2, 3), draw(2, 1, 2)
    check_derivatives(lambda a, b: F.conv_transpose1d(a, b, dilation=3, output_padding=2), x, w)


def test_empty_batches_and_channels() -> None:
    x = gc.ones(0, 3, 5, 5, requires_grad=True)
    w = gc.ones(4, 3, 3, 3, requires_grad=True)
    out = F.conv2d(x, w, gc.ones(4))
    assert out.shape == (0, 4, 3, 3)
    out.sum().backward()
    assert x.grad.shape == x.shape
    assert (w.grad == 0).all()


X, W = (2, 3, 8, 8), (4, 3, 3, 3)


@pytest.mark.parametrize(
    ("x", "w", "options", "message"),
    [
        ((2, 5, 8, 8), W, {}, r"Given groups=1, weight of size \[4, 3, 3, 3\], expected input\[2, 5, 8, 8\] to have 3 "
         "channels, but got 5 channels instead"),
        ((5,), W, {}, r"Expected 3D \(unbatched\) or 4D \(batched\) input to conv2d, but got input of size: \[5\]"),
        ((2, 3, 2, 2), W, {}, r"Calculated padded input size per channel: \(2 x 2\). Kernel size: \(3 x 3\). "
         "Kernel size can't be greater than actual input size"),
        (X, W, {"bias": gc.ones(3)}, "expected bias to be 1-dimensional with 4 elements, but got bias of size"),
        (X, W, {"bias": gc.ones(4).to(gc.float64)}, r"Input type \(float\) and bias type \(double\) should be"),
        (X, W, {"stride": 0}, "non-positive stride is not supported"),
        (X, W, {"padding": -1}, "negative padding is not supported"),
        (X, W, {"dilation": 0}, "dilation should be greater than zero"),
        (X, W, {"groups": 0}, "non-positive groups is not supported"),
        (X, W, {"stride": (1, 1, 1)}, r"expected stride to be a single integer value or a list of 2 values to match"),
        (X, W, {"groups": 5}, "Given groups=5, expected weight to be at least 5 at dimension 0"),
        (X, (4, 1, 3, 3), {"groups": 3}, "Given groups=3, expected weight to be divisible by 3 at dimension 0"),
        (X, W, {"padding": "same", "stride": 2}, "padding='same' is not supported for strided convolutions"),
        (X, W, {"padding": "full"}, "Invalid padding string: 'full'"),
    ],
)  # fmt: skip
def test_convolutions_that_do_not_fit(x: Any, w: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        F.conv2d(gc.ones(x), gc.ones(w), **options)


@pytest.mark.parametrize("transposed", [False, True])
def test_settings_of_the_general_convolution_are_checked(transposed: bool) -> None:
    """Kernels trust them: NumPy would read memory before an array for a negative dilation."""
    refused = {
        "stride": "non-positive stride is not supported",
        "dilation": "dilation should be greater than zero",
        "padding": "negative padding is not supported",
        "output_padding": "negative output_padding is not supported",
    }
    for n in (1, 2, 3):
        x, w = gc.ones(1, 2, *[5] * n), gc.ones(2, 2, *[3] * n)
        for name, message in refused.items():
            for number in (-1, -(2**31), -(2**62)):
                for value in ((number,), (*[1] * (n - 1), number)):
                    with pytest.raises(RuntimeError, match=message):
                        gc.convolution(x, w, transposed=transposed, **{name: value})
            with pytest.raises(RuntimeError, match=f"expected {name} to be a single integer value or a list of {n}"):
                gc.convolution(x, w, transposed=transposed, **{name: (1,) * (n + 1)})
        for groups in (0, -1):
            with pytest.raises(RuntimeError, match="non-positive groups is not supported"):
                gc.convolution(x, w, transposed=transposed, groups=groups)
        with pytest.raises(RuntimeError, match="to have 3 channels, but got 2 channels"):
            gc.convolution(x, gc.ones(3, 3, *[3] * n), transposed=transposed)
        with pytest.raises(RuntimeError, match="at least three dimensions"):
            gc.convolution(x, gc.ones(2, 2), transposed=transposed)
    with pytest.raises(RuntimeError, match="Kernel size can't be greater"):
        gc.convolution(gc.ones(1, 2, 2), gc.ones(2, 2, 3))
    with pytest.raises(RuntimeError, match="output padding must be smaller"):
        gc.convolution(gc.ones(1, 2, 2), gc.ones(2, 2, 3), transposed=True, output_padding=(1,))


@pytest.mark.parametrize("transposed", [False, True])
def test_one_number_serves_all_dims_of_a_convolution(transposed: bool) -> None:
    x, w = gc.ones(1, 2, 5, 6, requires_grad=True), gc.ones(2, 2, 3, 2, requires_grad=True)
    settings = {"stride": 2, "padding": 1, "dilation": 2}
    once = gc.convolution(x, w, transposed=transposed, **{k: (v,) for k, v in settings.items()}).square().sum()
    each = gc.convolution(
        x, w, transposed=transposed, output_padding=(0, 0), **{k: (v, v) for k, v in settings.items()}
    )
    expected = gc.autograd.grad(each.square().sum(), (x, w))
    for found, grad in zip(gc.autograd.grad(once, (x, w)), expected, strict=True):
        assert gc.equal(found, grad)


def test_transposed_convolutions_that_do_not_fit() -> None:
    x, w = gc.ones(2, 5, 8), gc.ones(4, 3, 3)
    with pytest.raises(
        RuntimeError, match=r"Given transposed=1, weight of size \[4, 3, 3\], expected input\[2, 5, 8\]"
    ):
        F.conv_transpose1d(x, w)
    with pytest.raises(RuntimeError, match="output padding must be smaller than either stride or dilation"):
        F.conv_transpose1d(x[:, :4], w, output_padding=1)


# -- pooling -------------------------------------------------------------------------------------------------


def test_pooling_by_hand() -> None:
    x = tensor([[[1.0, 4.0, 2.0, 3.0, 0.0]]])
    close(F.max_pool1d(x, 2), [[[4.0, 3.0]]])
    close(F.max_pool1d(x, 2, ceil_mode=True), [[[4.0, 3.0, 0.0]]])
    close(F.max_pool1d(x, 2, stride=1, dilation=2), [[[2.0, 4.0, 2.0]]])
    close(F.avg_pool1d(x, 2, padding=1), [[[0.5, 3.0, 1.5]]])
    close(F.avg_pool1d(x, 2, padding=1, count_include_pad=False), [[[1.0, 3.0, 1.5]]])
    close(F.avg_pool1d(x, 2, ceil_mode=True), [[[2.5, 2.5, 0.0]]])
    close(F.avg_pool2d(x[None], (1, 2), divisor_override=1), [[[[5.0, 5.0]]]])
    close(F.adaptive_avg_pool1d(x, 2), [[[7 / 3, 5 / 3]]])
    close(F.adaptive_max_pool1d(x, 3), [[[4.0, 4.0, 3.0]]])
    close(F.lp_pool1d(tensor([[3.0, 4.0]]), 2, 2), [[5.0]])


def test_adaptive_sizes() -> None:
    x = gc.randn(2, 3, 6, 8, dtype=gc.float64)
    assert F.adaptive_avg_pool2d(x, (None, 4)).shape == (2, 3, 6, 4)
    close(F.adaptive_avg_pool2d(x, 1), x.numpy().mean((2, 3), keepdims=True))
    close(F.adaptive_max_pool2d(x, 1), x.numpy().max((2, 3), keepdims=True))


def test_the_first_of_equal_maxima_has_the_gradient() -> None:
    x = gc.zeros(1, 1, 2, 3, requires_grad=True)
    out, indices = F.max_pool2d(x, 2, 1, return_indices=True)
    assert indices.tolist() == [[[[0, 1]]]]
    out.sum().backward()
    assert x.grad.tolist() == [[[[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]]]


def test_maxima_of_undefined_numbers() -> None:
    out, indices = F.max_pool1d(gc.tensor([[1.0, math.nan, 2.0, math.inf]]), 2, return_indices=True)
    assert math.isnan(out[0, 0].item())
    assert out[0, 1] == math.inf
    assert indices.tolist() == [[1, 3]]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling_puts_maxima_back(n: int) -> None:
    size = 2 * 6**n
    x = tensor(np.random.default_rng(0).permutation(size).reshape(1, 2, *(6,) * n) + 1.0)
    out, indices = getattr(F, f"max_pool{n}d")(x, 2, return_indices=True)
    back = getattr(F, f"max_unpool{n}d")(out, indices, 2)
    assert ((back == x) | (back == 0)).all()
    assert sorted(back[back != 0].tolist()) == sorted(out.flatten().tolist())


def test_unpooling_checks_its_arguments() -> None:
    x, indices = gc.ones(1, 1, 2, 2), gc.zeros(1, 1, 2, 2, dtype=gc.int64)
    with pytest.raises(RuntimeError, match=r"Found an invalid max index: 100 \(output volumes are of size 4x4\)"):
        F.max_unpool2d(x, indices + 100, 2)
    with pytest.raises(RuntimeError, match="elements in indices should be type int64 but got: Float"):
        F.max_unpool2d(x, x, 2)
    with pytest.raises(ValueError, match=r'invalid output_size "\(9, 4\)" \(dim 0 must be between 2 and 6\)'):
        F.max_unpool2d(x, indices, 2, output_size=(9, 4))
    assert F.max_unpool2d(x, indices, 2, output_size=(1, 1, 5, 3)).shape == (1, 1, 5, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((2, 2, 2),), "max_pool2d: kernel_size must either be a single int, or a tuple of two ints"),
        ((2, (1, 1, 1)), "max_pool2d: stride must either be omitted, a single int, or a tuple of 2 ints"),
        ((2, 1, 2), "pad should be at most half of effective kernel size, but got pad=2, kernel_size=2 and dilation=1"),
        ((2, 0), "stride should not be zero"),
        ((2, 1, 0, 0), "dilation should be greater than zero"),
        ((0,), "kernel size should be greater than zero"),
        ((20,), r"Given input size: \(3x8x8\). Calculated output size: \(3x0x0\). Output size is too small"),
    ],
)
def test_pools_that_do_not_fit(arguments: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        F.max_pool2d(gc.ones(2, 3, 8, 8), *arguments)


def test_fractional_windows() -> None:
    """The last dim of an image comes first in the samples."""
    x = gc.arange(60.0).reshape(1, 1, 6, 10)
    samples = gc.tensor([[[0.1, 0.7]]])
    out, indices = F.fractional_max_pool2d(x, 1, (4, 5), return_indices=True, _random_samples=samples)
    assert indices[0, 0].tolist() == [[r * 10 + c for c in (0, 2, 4, 6, 9)] for r in (0, 1, 3, 5)]
    assert (out == indices).all()
    assert F.fractional_max_pool2d(x, 2, output_ratio=0.5).shape == (1, 1, 3, 5)


# -- padding -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "pads", "expected"),
    [
        ("constant", (1, 2), [0, 1, 2, 3, 4, 0, 0]),
        ("constant", (-1, 1), [2, 3, 4, 0]),
        ("constant", (-1, -3), []),
        ("reflect", (3, 2), [4, 3, 2, 1, 2, 3, 4, 3, 2]),
        ("replicate", (2, 1), [1, 1, 1, 2, 3, 4, 4]),
        ("replicate", (-2, 3), [3, 4, 4, 4, 4]),
        ("circular", (2, 1), [3, 4, 1, 2, 3, 4, 1]),
        ("circular", (-1, 1), [2, 3, 4, 2]),
    ],
)
def test_padding_by_hand(mode: str, pads: tuple[int, int], expected: list[int]) -> None:
    x = gc.arange(1.0, 5.0).reshape(1, 4).requires_grad_()
    out = F.pad(x, pads, mode=mode)
    assert out.tolist() == [expected]
    out.sum().backward()
    assert x.grad.tolist() == [[float(expected.count(k)) for k in range(1, 5)]]


def test_padding_is_a_copy() -> None:
    x = gc.ones(2, 3)
    for pads in ((0, 0), (-1, 0)):
        F.pad(x, pads).zero_()
    assert (x == 1).all()
    assert F.pad(x, (1, 0), value=2.5)[0].tolist() == [2.5, 1, 1, 1]


@pytest.mark.parametrize(
    ("mode", "pads", "error", "message"),
    [
        ("constant", (1,), RuntimeError, "Padding length must be divisible by 2"),
        ("constant", (1,) * 8, RuntimeError, "Padding length should be less than or equal to two times the input dim"),
        ("constant", (-3, -3), RuntimeError, "resulted in a negative output size"),
        (
            "reflect",
            (5, 1),
            RuntimeError,
            r"Argument #4: .* but got: padding \(5, 1\) at dimension 2 of input \[2, 3, 5\]",
        ),
        ("replicate", (1, 1, 1, 1, 1, 1), NotImplementedError, "Padding size 6 is not supported for 3D input tensor"),
        ("circular", (6, 0), RuntimeError, "Padding value causes wrapping around more than once"),
        ("circular", (-3, -3), RuntimeError, "Negative padding value is resulting in an empty dimension"),
        ("mirror", (1, 1), NotImplementedError, "Unrecognised padding mode mirror"),
    ],
)
def test_pads_that_do_not_fit(mode: str, pads: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        F.pad(gc.ones(2, 3, 5), pads, mode=mode)
    with pytest.raises(RuntimeError, match="doesn't take in value argument"):
        F.pad(gc.ones(2, 3, 5), (1, 1), mode="circular", value=1.0)


# -- resampling ----------------------------------------------------------------------------------------------


def test_resampling_by_hand() -> None:
    x = tensor([[[0.0, 4.0, 8.0]]])
    close(F.interpolate(x, 6)[0, 0], [0, 0, 4, 4, 8, 8])
    close(F.interpolate(x, 5, mode="linear", align_corners=True)[0, 0], [0, 2, 4, 6, 8])
    close(F.interpolate(x, scale_factor=2, mode="linear")[0, 0], [0, 1, 3, 5, 7, 8])
    close(F.interpolate(x, 2, mode="nearest")[0, 0], [0, 4])
    close(F.interpolate(x, 2, mode="nearest-exact")[0, 0], [0, 8])
    close(F.interpolate(x, 2, mode="area")[0, 0], [2, 6])


def test_resampling_of_bytes_has_the_weights_of_pytorch() -> None:
    x = gc.arange(0, 204, 17, dtype=gc.int32).to(gc.uint8).reshape(1, 1, 3, 4)
    expected = [[0, 19, 42], [23, 47, 70], [70, 94, 117], [117, 141, 164], [145, 169, 192]]
    for function in (F.interpolate, gc.compile(F.interpolate)):
        assert function(x, (5, 3), mode="bicubic").tolist() == [[expected]]
    x = gc.tensor([[[[38, 118], [61, 1]]]], dtype=gc.uint8)
    assert F.interpolate(x, (2, 20), mode="bilinear")[0, 0, 0].tolist() == [
        38,
        38,
        38,
        38,
        38,
        42,
        50,
        58,
        66,
        74,
        82,
        90,
        98,
        106,
        114,
        118,
        118,
        118,
        118,
        118,
    ]


@pytest.mark.parametrize("mode", ["linear", "bilinear", "bicubic", "trilinear"])
def test_what_is_constant_stays_constant(mode: str) -> None:
    n = {"linear": 1, "trilinear": 3}.get(mode, 2)
    x = gc.full((1, 1, *(3,) * n), 2.5, dtype=gc.float64)
    for size in (2, 5):
        for align in (False, True):
            close(F.interpolate(x, size, mode=mode, align_corners=align), np.full((1, 1, *(size,) * n), 2.5))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, ValueError, "either size or scale_factor should be defined"),
        ({"size": 2, "scale_factor": 2}, ValueError, "only one of size or scale_factor should be defined"),
        ({"size": (2,)}, ValueError, "Input and output must have the same number of spatial dimensions"),
        ({"size": 2, "align_corners": True}, ValueError, "align_corners option can only be set"),
        ({"size": 2, "mode": "linear"}, NotImplementedError, "Got 4D input, but linear mode needs 3D input"),
        ({"size": 2, "mode": "cubic"}, NotImplementedError, r"for the modes: nearest \| linear .* \(got cubic\)"),
        ({"size": 0}, RuntimeError, r"Input and output sizes should be greater than 0, but got input \(H: 4, W: 5\)"),
        (
            {"size": 2, "mode": "bilinear", "recompute_scale_factor": True},
            ValueError,
            "not meaningful with an explicit",
        ),
        (
            {"size": 2, "antialias": True},
            ValueError,
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos",
        ),
    ],
)
def test_sizes_that_do_not_fit(options: dict[str, Any], error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        F.interpolate(gc.ones(2, 3, 4, 5), **options)


# -- grids ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize(("mode", "shape"), [("bilinear", (2, 3, 4, 5)), ("bicubic", (2, 3, 4, 5)),
                                             ("nearest", (1, 2, 3, 4, 2)), ("bilinear", (1, 2, 3, 4, 2))])  # fmt: skip
def test_the_identity_reads_the_image(mode: str, shape: tuple[int, ...], align: bool) -> None:
    n = len(shape) - 2
    x = gc.randn(*shape, dtype=gc.float64)
    theta = gc.eye(n, n + 1, dtype=gc.float64).expand(shape[0], n, n + 1)
    grid = F.affine_grid(theta, shape, align)
    close(F.grid_sample(x, grid, mode, "border", align), x.numpy(), atol=1e-10)


@pytest.mark.parametrize(("padding", "expected"), [("zeros", 0.0), ("border", 4.0), ("reflection", 2.0)])
def test_points_outside(padding: str, expected: float) -> None:
    x = tensor([[[[1.0, 2.0, 3.0, 4.0]]]])
    point = tensor([[[[1 + 4 / 3, 0.0]]]])  # two elements behind the last
    found = F.grid_sample(x.expand(1, 1, 3, 4), point, padding_mode=padding, align_corners=True)
    close(found, [[[[expected]]]])


def test_points_that_are_no_numbers() -> None:
    x = gc.ones(1, 1, 3, 3)
    grid = gc.tensor([math.nan, math.inf, -math.inf, 1e30]).reshape(1, 1, 2, 2)
    for mode in ("bilinear", "nearest"):
        found = F.grid_sample(x, grid, mode, "border", False)
        assert found.shape == (1, 1, 1, 2)


def test_grid_errors() -> None:
    x = gc.ones(2, 3, 4, 5)
    for grid, message in (
        (gc.ones(2, 6, 7, 3), "expected grid to have size 2 in last dimension"),
        (gc.ones(1, 6, 7, 2), "expected grid and input to have same batch size"),
        (gc.ones(2, 6, 7, 2, dtype=gc.float64), "expected scalar type Float but found Double"),
    ):
        with pytest.raises(RuntimeError, match=message):
            F.grid_sample(x, grid, align_corners=False)
    with pytest.warns(UserWarning, match="align_corners=False"):
        F.grid_sample(x, gc.ones(2, 1, 1, 2))


# -- folding -------------------------------------------------------------------------------------------------


def test_columns_by_hand() -> None:
    x = gc.arange(9.0).reshape(1, 3, 3)
    assert F.unfold(x, 2).tolist() == [[0, 1, 3, 4], [1, 2, 4, 5], [3, 4, 6, 7], [4, 5, 7, 8]]
    assert F.fold(F.unfold(gc.ones(1, 3, 3), 2), (3, 3), 2)[0].tolist() == [[1, 2, 1], [2, 4, 2], [1, 2, 1]]


def test_unfolded_convolution() -> None:
    x, w = gc.randn(2, 3, 6, 5, dtype=gc.float64), gc.randn(4, 3, 2, 3, dtype=gc.float64)
    columns = F.unfold(x, (2, 3), stride=2, padding=1)
    expected = F.conv2d(x, w, stride=2, padding=1)
    close((w.reshape(4, -1) @ columns).reshape(expected.shape), expected.numpy())


def test_pixels_and_channels() -> None:
    x = gc.arange(16.0).reshape(1, 4, 2, 2)
    assert F.pixel_shuffle(x, 2)[0, 0, 0].tolist() == [0, 4, 1, 5]
    assert (F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2) == x).all()
    assert F.channel_shuffle(x, 2)[0, :, 0, 0].tolist() == [0, 8, 4, 12]
    for same in (F.pixel_shuffle(x, 1), F.pixel_unshuffle(x, 1), F.channel_shuffle(x, 1)):
        same.zero_()
    assert x.sum() == 120


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: F.unfold(x, 9), r"calculated shape of the array of sliding blocks as \(-4, -3\)"),
        (lambda x: F.unfold(x, 0), "kernel size should be greater than zero"),
        (lambda x: F.fold(gc.ones(1, 7, 12), (4, 5), 2), "Expected size of input's dimension 1 to be divisible"),
        (lambda x: F.fold(gc.ones(1, 8, 11), (4, 5), 2), r"sliding blocks 3 \* 4 = 12, but got input.size\(2\)=11"),
        (lambda x: F.pixel_shuffle(x, 2), r"input.size\(-3\)=3 is not divisible by 4"),
        (lambda x: F.pixel_unshuffle(x, 2), r"width to be divisible by downscale_factor, but input.size\(-1\)=5"),
        (
            lambda x: F.channel_shuffle(x, 2),
            "Number of channels must be divisible by groups. Got 3 channels and 2 groups",
        ),
    ],
)
def test_images_that_do_not_fit(call: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call(gc.ones(2, 3, 4, 5))


# -- nodes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("ConvolutionBackward0", lambda x: F.conv2d(x, gc.ones(4, 2, 3, 3))),
        ("ConvolutionBackward0", lambda x: F.conv_transpose2d(x, gc.ones(2, 4, 3, 3))),
        ("MaxPool2DWithIndicesBackward0", lambda x: F.max_pool2d(x, 2)),
        ("AvgPool2DBackward0", lambda x: F.avg_pool2d(x, 2)),
        ("AdaptiveAvgPool2DBackward0", lambda x: F.adaptive_avg_pool2d(x, 2)),
        ("AdaptiveMaxPool2DBackward0", lambda x: F.adaptive_max_pool2d(x, 2)),
        ("MeanBackward1", lambda x: F.adaptive_avg_pool2d(x, 1)),
        ("MaxUnpool2DBackward0", lambda x: F.max_unpool2d(x, gc.zeros(1, 2, 4, 4, dtype=gc.int64), 2)),
        ("ConstantPadNdBackward0", lambda x: F.pad(x, (1, 1))),
        ("ReflectionPad2DBackward0", lambda x: F.pad(x, (1, 1, 1, 1), "reflect")),
        ("ReplicationPad2DBackward0", lambda x: F.pad(x, (1, 1, 1, 1), "replicate")),
        ("UpsampleNearest2DBackward0", lambda x: F.interpolate(x, 2)),
        ("UpsampleBilinear2DBackward0", lambda x: F.interpolate(x, 2, mode="bilinear")),
        ("UpsampleBicubic2DBackward0", lambda x: F.interpolate(x, 2, mode="bicubic")),
        ("Im2ColBackward0", lambda x: F.unfold(x, 2)),
        ("PixelUnshuffleBackward0", lambda x: F.pixel_unshuffle(x, 2)),
        ("ChannelShuffleBackward0", lambda x: F.channel_shuffle(x, 2)),
    ],
)
def test_names_of_nodes(name: str, call: Any) -> None:
    assert call(gc.ones(1, 2, 4, 4, requires_grad=True)).grad_fn.name() == name


def test_a_node_keeps_only_what_it_needs() -> None:
    x, w = gc.ones(1, 2, 4, 4, requires_grad=True), gc.ones(3, 2, 2, 2)
    node = F.conv2d(x, w).grad_fn
    assert node._saved_weight is w
    assert node.next_functions[1] == (None, 0)
    assert node.saved[node.number_of["self_shape"]] == (1, 2, 4, 4)  # the input's shape, not the input
    assert node.saved[node.number_of["self"]] is None


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("kind", ["avg", "max"])
def test_adaptive_pooling_of_no_elements(kind: str, n: int) -> None:
    pool = getattr(F, f"adaptive_{kind}_pool{n}d")
    with pytest.raises(
        RuntimeError, match=r"non-zero size for non-batch dimensions, but input has sizes .* being empty"
    ):
        pool(gc.zeros(1, 3, *[4] * (n - 1), 0), 2)
    assert pool(gc.zeros(0, 3, *[4] * n), 2).shape == (0, 3, *[2] * n)


@pytest.mark.parametrize(
    ("convolve", "sizes", "found"),
    [
        (F.conv_transpose1d, (1,), r"\(1 x 1\). Calculated output size per channel: \(1 x -4\)"),
        (F.conv_transpose2d, (1, 5), r"\(1 x 5\). Calculated output size per channel: \(-4 x 0\)"),
    ],
)
def test_transposed_convolutions_of_negative_size(convolve: Any, sizes: tuple[int, ...], found: str) -> None:
    with pytest.raises(RuntimeError, match=f"Given input size per channel: {found}. Output size is too small"):
        convolve(gc.ones(1, 1, *sizes), gc.ones(1, 1, *(2 for _ in sizes)), padding=3)
