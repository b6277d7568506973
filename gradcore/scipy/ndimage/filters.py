"""Linear filters, which are correlations with weights, and filters built from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core.typing import AnyTensor
from gradcore.numpy.conversion import axis_of, tensor_of
from gradcore.scipy.conversion import like, write_output
from gradcore.scipy.ndimage.arguments import axes_of, check_origin, extend, filterable, sequence
from gradcore.tensor import Tensor

__all__ = [
    "convolve", "convolve1d", "correlate", "correlate1d", "gaussian_filter", "gaussian_filter1d",
    "gaussian_gradient_magnitude", "gaussian_laplace", "generic_gradient_magnitude", "generic_laplace", "laplace",
    "prewitt", "sobel", "uniform_filter", "uniform_filter1d",
]  # fmt: skip

Numbers = Any  # numbers, an array or a tensor


def _correlate(
    input: Any, weights: Numbers, axes: Sequence[int], modes: Any, cval: Any, origins: Any, output: Any
) -> AnyTensor:
    """Correlate the input with `weights`, which has a dim for each of `axes`."""
    original, x = filterable(input)
    weights = like(weights, x)
    if weights._dtype.is_complex:
        weights = F.conj(weights)
    if weights._dtype.is_complex and not x._dtype.is_complex:
        x = F.to(x, weights._dtype)
    modes, origins = sequence(modes, len(axes)), sequence(origins, len(axes))
    sizes = tuple(weights.shape)
    for origin, size in zip(origins, sizes, strict=True):
        check_origin(origin, size)
    dtype = x._dtype if x._dtype.is_complex else original._dtype
    if not x.numel():
        return write_output(x, output, dtype)
    shape = [1] * x.ndim
    for axis, size in zip(axes, sizes, strict=True):
        shape[axis] = size
    weights = F.reshape(weights, shape)
    x = extend(x, axes, sizes, modes, cval, origins)
    return write_output(F.correlate_valid(x, weights, tuple(axes), "direct"), output, dtype)


def _resolve_axis(input: Any, axis: int) -> tuple[int]:
    return (axis_of(axis, np.ndim(input) if not isinstance(input, Tensor) else input.ndim),)


def _as_weights(weights: Numbers, ndim: int) -> Numbers:
    array = weights if isinstance(weights, Tensor) else np.asarray(weights)
    if ndim == 1 and (array.ndim != 1 or not array.shape[0]):
        raise RuntimeError("no filter weights given")
    if array.ndim != ndim:
        raise RuntimeError(f"weights.ndim ({array.ndim}) must match len(axes) ({ndim})")
    return array


def _reverse_weights(weights: Numbers) -> Numbers:
    """Return the weights reversed along all dims: correlating with them is the convolution with `weights`."""
    if isinstance(weights, Tensor):
        return F.conj(F.flip(weights, tuple(range(weights.ndim))))
    return weights[(slice(None, None, -1),) * weights.ndim].conj()


def _order_origins(origin: Any, axes: Sequence[int], ndim: int) -> list[int]:
    """Return the origins in the order of the axes of the array; a list for all axes is already in that order."""
    origins = sequence(origin, len(axes))
    return origins if len(axes) == ndim else [origins[axes.index(axis)] for axis in sorted(axes)]


def _one_mode(mode: Any) -> str:
    if not isinstance(mode, str):
        raise RuntimeError("A sequence of modes is not supported")
    return mode


def correlate1d(
    input: Any, weights: Numbers, axis: int = -1, output: Any = None, mode: str = "reflect", cval: Any = 0.0,
    origin: int = 0,
) -> AnyTensor:  # fmt: skip
    """Compute the one-dimensional correlation along an axis, as `scipy.ndimage.correlate1d`.

    It is differentiable with respect to `input` and `weights`.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> ndimage.correlate1d(gc.tensor([2.0, 8.0, 0.0]), [1, 3])
    tensor([ 8., 26.,  8.])
    """
    return _correlate(input, _as_weights(weights, 1), _resolve_axis(input, axis), mode, cval, origin, output)


def convolve1d(
    input: Any, weights: Numbers, axis: int = -1, output: Any = None, mode: str = "reflect", cval: Any = 0.0,
    origin: int = 0,
) -> AnyTensor:  # fmt: skip
    """Compute the one-dimensional convolution along an axis, as `scipy.ndimage.convolve1d`.

    It is differentiable with respect to `input` and `weights`.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> ndimage.convolve1d(gc.tensor([2.0, 8.0, 0.0]), [1, 3])
    tensor([14., 24.,  0.])
    """
    weights = _as_weights(weights, 1)
    origin = -origin - (weights.shape[0] % 2 == 0)
    return _correlate(input, _reverse_weights(weights), _resolve_axis(input, axis), mode, cval, origin, output)


def _ndim(input: Any) -> int:
    return input.ndim if isinstance(input, Tensor) else np.ndim(input)


def correlate(
    input: Any, weights: Numbers, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0, *,
    axes: Any = None,
) -> AnyTensor:  # fmt: skip
    """Correlate with an array of weights, as `scipy.ndimage.correlate`; differentiable with respect to these, too.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> ndimage.correlate(gc.eye(3), [[0.0, 1.0], [1.0, 0.0]])
    tensor([[2., 1., 0.],
            [1., 0., 1.],
            [0., 1., 0.]])
    """
    along = axes_of(axes, _ndim(input))
    weights, origins = _as_weights(weights, len(along)), _order_origins(origin, along, _ndim(input))
    return _correlate(input, weights, sorted(along), _one_mode(mode), cval, origins, output)


def convolve(
    input: Any, weights: Numbers, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0, *,
    axes: Any = None,
) -> AnyTensor:  # fmt: skip
    """Convolve with an array of weights, as `scipy.ndimage.convolve`; differentiable with respect to these, too.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> ndimage.convolve(gc.eye(3), gc.tensor([[0.0, 1.0, 0.0]]))
    tensor([[1., 0., 0.],
            [0., 1., 0.],
            [0., 0., 1.]])
    """
    along = axes_of(axes, _ndim(input))
    weights = _as_weights(weights, len(along))
    origins = _order_origins(origin, along, _ndim(input))
    origins = [-o - (n % 2 == 0) for o, n in zip(origins, weights.shape, strict=True)]
    return _correlate(input, _reverse_weights(weights), sorted(along), _one_mode(mode), cval, origins, output)


# -- Gaussian filters -------------------------------------------------------------------------------------------------


#: Largest order of a derivative of a Gaussian filter. Its weights overflow at lower orders already.
_MOST_DERIVATIVES = 1000


def _gaussian(sigma: Any, order: int, radius: int) -> Numbers:
    """Return the weights of a Gaussian filter, or of its derivative of order `order`; a tensor if `sigma` is one."""
    is_tensor = isinstance(sigma, Tensor)
    x: Any = np.arange(-radius, radius + 1, dtype=np.float64)
    x = like(x, F.to(sigma, F.as_tensor(x)._dtype)) if is_tensor else x
    sigma = F.to(sigma, x._dtype) if is_tensor else sigma
    scale = 1 / (sigma * sigma)
    density = (F if is_tensor else np).exp(x * x * (scale * -0.5))
    density = density / density.sum()
    polynomial: list[Any] = [1.0]  # of the derivative p * density; the next p is p' - p * x / sigma**2
    for _ in range(order):
        raised = [0.0, *(c * -scale for c in polynomial)]
        lowered = [k * c for k, c in enumerate(polynomial)][1:] + [0.0] * 2
        polynomial = [a + b for a, b in zip(raised, lowered, strict=True)]
    total = 0.0
    for c in polynomial[::-1]:
        total = total * x + c
    return total * density


def gaussian_filter1d(
    input: Any, sigma: Any, axis: int = -1, order: int = 0, output: Any = None, mode: str = "reflect",
    cval: Any = 0.0, truncate: float = 4.0, *, radius: int | None = None,
) -> AnyTensor:  # fmt: skip
    """Apply a Gaussian filter along an axis, as `scipy.ndimage.gaussian_filter1d`.

    It is differentiable with respect to `input` and `sigma`.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> sigma = gc.tensor(1.0, dtype=gc.float64, requires_grad=True)
    >>> ndimage.gaussian_filter1d(gc.eye(5, dtype=gc.float64)[2], sigma)[2].backward()
    >>> sigma.grad
    tensor(-0.3989, dtype=torch.float64)
    """
    size = int(truncate * float(sigma.detach() if isinstance(sigma, Tensor) else sigma) + 0.5)
    if radius is not None:
        size = radius
    if size != int(size) or size < 0:
        raise ValueError("Radius must be a nonnegative integer.")
    if order < 0:
        raise ValueError("order must be non-negative")
    if order > _MOST_DERIVATIVES:
        raise ValueError(f"order must be at most {_MOST_DERIVATIVES}, got {order}")
    weights = _reverse_weights(_gaussian(sigma, order, int(size)))
    return correlate1d(input, weights, axis, output, mode, cval, 0)


def _filter_axes(
    input: Any, axes: Sequence[int], output: Any, filter_axis: Callable[[Any, int, int, Any], AnyTensor]
) -> AnyTensor:
    """Apply ``filter_axis(x, i, axis, output)`` to each of `axes` in turn; each result has the final dtype."""
    original, _ = filterable(input)
    if not axes:
        return write_output(F.clone(original), output, original._dtype)
    dtype = None if isinstance(output, (Tensor, np.ndarray)) else output
    x: Any = original
    for i, axis in enumerate(axes):
        x = filter_axis(x, i, axis, output if i == len(axes) - 1 else dtype)
    return x


def gaussian_filter(
    input: Any, sigma: Any, order: Any = 0, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
    truncate: float = 4.0, *, radius: Any = None, axes: Any = None,
) -> AnyTensor:  # fmt: skip
    """Apply a Gaussian filter, as `scipy.ndimage.gaussian_filter`; differentiable with respect to `sigma`, too.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> ndimage.gaussian_filter(gc.eye(3), 1).trace()
    tensor(1.3465)
    """
    along = axes_of(axes, _ndim(input))
    orders, sigmas, modes, radii = (sequence(v, len(along)) for v in (order, sigma, mode, radius))
    filtered_axes = [i for i, s in enumerate(sigmas) if float(s.detach() if isinstance(s, Tensor) else s) > 1e-15]

    def filter_axis(x: Any, i: int, axis: int, output: Any) -> AnyTensor:
        k = filtered_axes[i]
        return gaussian_filter1d(x, sigmas[k], axis, orders[k], output, modes[k], cval, truncate, radius=radii[k])

    return _filter_axes(input, [along[i] for i in filtered_axes], output, filter_axis)


def uniform_filter1d(
    input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect", cval: Any = 0.0, origin: int = 0
) -> AnyTensor:
    """Compute the mean of a moving window along an axis, as `scipy.ndimage.uniform_filter1d`.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> ndimage.uniform_filter1d(gc.tensor([3.0, 0.0, 6.0, 0.0]), 3)
    tensor([2., 3., 2., 2.])
    """
    if size < 1:
        raise RuntimeError("incorrect filter size")
    check_origin(origin, size)
    _, x = filterable(input)
    total = _correlate(x, np.ones(size), _resolve_axis(input, axis), mode, cval, origin, None)
    return write_output(total / size, output, total._dtype if total._dtype.is_complex else tensor_of(input)._dtype)


def uniform_filter(
    input: Any, size: Any = 3, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0, *,
    axes: Any = None,
) -> AnyTensor:  # fmt: skip
    """Compute the mean of a moving window, as `scipy.ndimage.uniform_filter`.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> ndimage.uniform_filter(9 * gc.eye(3), 3)[0]
    tensor([5., 3., 1.])
    """
    along = axes_of(axes, _ndim(input))
    sizes, origins, modes = (sequence(v, len(along)) for v in (size, origin, mode))
    filtered_axes = [i for i, n in enumerate(sizes) if n > 1]

    def filter_axis(x: Any, i: int, axis: int, output: Any) -> AnyTensor:
        k = filtered_axes[i]
        return uniform_filter1d(x, int(sizes[k]), axis, output, modes[k], cval, origins[k])

    return _filter_axes(input, [along[i] for i in filtered_axes], output, filter_axis)


# -- derivatives ------------------------------------------------------------------------------------------------------


def _edges(input: Any, axis: int, output: Any, mode: Any, cval: Any, smoothing: Sequence[float]) -> AnyTensor:
    ndim = _ndim(input)
    axis, modes = axis_of(axis, ndim), sequence(mode, ndim)
    along = [axis, *(d for d in range(ndim) if d != axis)]

    def filter_axis(x: Any, i: int, d: int, output: Any) -> AnyTensor:
        return correlate1d(x, smoothing if i else [-1, 0, 1], d, output, modes[d], cval, 0)

    return _filter_axes(input, along, output, filter_axis)


def sobel(input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0) -> AnyTensor:
    """Apply a Sobel filter, as `scipy.ndimage.sobel`.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> ndimage.sobel(gc.eye(3))[0]
    tensor([-2., -3., -1.])
    """
    return _edges(input, axis, output, mode, cval, [1, 2, 1])


def prewitt(input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0) -> AnyTensor:
    """Apply a Prewitt filter, as `scipy.ndimage.prewitt`.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> ndimage.prewitt(gc.eye(3))[0]
    tensor([-1., -2., -1.])
    """
    return _edges(input, axis, output, mode, cval, [1, 1, 1])


Derivative = Callable[..., AnyTensor]


def generic_laplace(
    input: Any, derivative2: Derivative, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
    extra_arguments: Any = (), extra_keywords: Any = None, *, axes: Any = None,
) -> AnyTensor:  # fmt: skip
    """Return the sum of the second derivatives along the axes, as `scipy.ndimage.generic_laplace`.

    `derivative2` computes one of them. It is called with None for `output`, and returns a tensor.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> def second_derivative(x, axis, output, mode, cval):
    ...     return ndimage.correlate1d(x, [1.0, -2.0, 1.0], axis)
    >>> ndimage.generic_laplace(gc.eye(3), second_derivative)
    tensor([[-2.,  2.,  0.],
            [ 2., -4.,  2.],
            [ 0.,  2., -2.]])
    """
    original, _ = filterable(input)
    along = axes_of(axes, original.ndim)
    modes = sequence(mode, len(along))
    if not along:
        return write_output(F.clone(original), output, original._dtype)
    total: Any = 0
    for axis, each in zip(along, modes, strict=True):
        total = total + derivative2(original, axis, None, each, cval, *extra_arguments, **(extra_keywords or {}))
    return write_output(total, output, original._dtype)


def laplace(input: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None) -> AnyTensor:
    """Compute the Laplacian by second differences, as `scipy.ndimage.laplace`.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> ndimage.laplace(gc.tensor([0.0, 1.0, 4.0, 9.0]))
    tensor([ 1.,  2.,  2., -5.])
    """

    def second(x: Any, axis: int, output: Any, mode: str, cval: Any) -> AnyTensor:
        return correlate1d(x, [1, -2, 1], axis, output, mode, cval, 0)

    return generic_laplace(input, second, output, mode, cval, axes=axes)


def gaussian_laplace(
    input: Any, sigma: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None,
    **kwargs: Any,
) -> AnyTensor:  # fmt: skip
    """Compute the Laplacian by second derivatives of Gaussians, as `scipy.ndimage.gaussian_laplace`.

    It is differentiable with respect to `input` and `sigma`.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> ndimage.gaussian_laplace(gc.tensor([0.0, 1.0, 0.0, 0.0]), 0.7)[1]
    tensor(-1.1609)
    """
    return _combine_gaussian_derivatives(generic_laplace, 2, input, sigma, output, mode, cval, axes, kwargs)


def _combine_gaussian_derivatives(
    generic: Any, degree: int, input: Any, sigma: Any, output: Any, mode: Any, cval: Any, axes: Any, named: Any
) -> AnyTensor:
    along = axes_of(axes, _ndim(input))

    def derivative(x: Any, axis: int, output: Any, mode: str, cval: Any) -> AnyTensor:
        order = [degree if d == axis else 0 for d in along]
        return gaussian_filter(x, sigma, order, output, mode, cval, axes=along, **named)

    return generic(input, derivative, output, mode, cval, axes=axes)


def generic_gradient_magnitude(
    input: Any, derivative: Derivative, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
    extra_arguments: Any = (), extra_keywords: Any = None, *, axes: Any = None,
) -> AnyTensor:  # fmt: skip
    """Compute the norm of the gradient of an image, as `scipy.ndimage.generic_gradient_magnitude`.

    `derivative` is called with None for `output`, and returns a tensor. Where the norm is zero, its gradient is zero.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> ndimage.generic_gradient_magnitude(gc.eye(3), ndimage.sobel)
    tensor([[2.8284, 3.1623, 1.4142],
            [3.1623, 0.0000, 3.1623],
            [1.4142, 3.1623, 2.8284]])
    """
    original, _ = filterable(input)
    along = axes_of(axes, original.ndim)
    modes = sequence(mode, len(along))
    if not along:
        return write_output(F.clone(original), output, original._dtype)
    derivatives = [
        derivative(original, axis, None, each, cval, *extra_arguments, **(extra_keywords or {}))
        for axis, each in zip(along, modes, strict=True)
    ]
    stacked = F.stack(derivatives, 0)
    if not stacked._dtype.is_differentiable:
        stacked = F.to(stacked, F.as_tensor(math.pi)._dtype)
    return write_output(F.linalg_vector_norm(stacked, 2, 0), output, original._dtype)


def gaussian_gradient_magnitude(
    input: Any, sigma: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None,
    **kwargs: Any,
) -> AnyTensor:  # fmt: skip
    """Compute the norm of the gradient by derivatives of Gaussians, as `scipy.ndimage.gaussian_gradient_magnitude`.

    It is differentiable with respect to `input` and `sigma`.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> ndimage.gaussian_gradient_magnitude(gc.arange(5.0), 0.5)[2]
    tensor(0.8600)
    """
    return _combine_gaussian_derivatives(generic_gradient_magnitude, 1, input, sigma, output, mode, cval, axes, kwargs)
