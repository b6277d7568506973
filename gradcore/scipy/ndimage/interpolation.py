"""Spline interpolation of images, differentiable with respect to the image and the coordinates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor
from gradcore.numpy.conversion import axis_of, tensor_of
from gradcore.ops.signal.windowed import pad_with_zeros
from gradcore.scipy.conversion import on_device, write_output
from gradcore.scipy.ndimage.arguments import filterable, sequence
from gradcore.tensor import Tensor

__all__ = ["affine_transform", "map_coordinates", "rotate", "shift", "spline_filter", "spline_filter1d", "zoom"]

_MODES = ("reflect", "grid-mirror", "constant", "grid-constant", "nearest", "mirror", "grid-wrap", "wrap")
#: Mode by which the spline filter extends the samples beyond the edges, by mode of the interpolation.
_FILTER_MODES = {"reflect": "reflect", "nearest": "reflect", "grid-wrap": "grid-wrap"}
#: Padding in elements for modes whose spline filter has no exact form at the edges.
_AROUND = 12


def _mode(mode: str) -> str:
    if mode not in _MODES:
        raise RuntimeError("boundary mode not supported")
    return "reflect" if mode == "grid-mirror" else mode


def _check_order(order: int, least: int = 0) -> None:
    if not least <= order <= 5:
        raise RuntimeError("spline order not supported")


def _double(x: AnyTensor) -> AnyTensor:
    """Convert `x` to double precision, in which SciPy computes."""
    return F.to(x, dtypes.complex128 if x._dtype.is_complex else dtypes.float64)


def spline_filter1d(
    input: Any, order: int = 3, axis: int = -1, output: Any = np.float64, mode: str = "mirror"
) -> AnyTensor:
    """Compute the coefficients of the interpolating spline along an axis, as `scipy.ndimage.spline_filter1d`.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> ndimage.spline_filter1d(gc.tensor([0.0, 1.0, 0.0]))
    tensor([-1.,  2., -1.], dtype=torch.float64)
    """
    return _coefficients(input, order, [axis], output, mode)


def spline_filter(input: Any, order: int = 3, output: Any = np.float64, mode: str = "mirror") -> AnyTensor:
    """Compute the coefficients of the interpolating spline along all axes, as `scipy.ndimage.spline_filter`.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> ndimage.spline_filter(gc.eye(2))
    tensor([[ 5.0000, -4.0000],
            [-4.0000,  5.0000]], dtype=torch.float64)
    """
    _check_order(order, 2)
    return _coefficients(input, order, range(filterable(input)[0].ndim), output, mode)


def _coefficients(input: Any, order: int, axes: Sequence[int], output: Any, mode: str) -> AnyTensor:
    _check_order(order)
    x = _double(filterable(input)[1])
    return write_output(_prefilter(x, order, axes, _mode(mode)), output, x._dtype)


def _prefilter(x: AnyTensor, order: int, axes: Sequence[int], mode: str) -> AnyTensor:
    if order > 1:
        for axis in axes:
            x = F.spline_coefficients(x, axis_of(axis, x.ndim), order, _FILTER_MODES.get(mode, "mirror"))
    return x


class _Grid:
    """The interpolating spline of an array along some of its axes, which are moved last."""

    def __init__(self, input: Any, axes: Sequence[int], order: int, mode: str, cval: Any, prefilter: bool) -> None:
        _check_order(order)
        self.given, x = filterable(input)
        if self.given.ndim < 1:
            raise RuntimeError("input and output rank must be > 0")
        self.order, self.mode, self.cval, self.around = order, _mode(mode), cval, 0
        x = F.movedim(_double(x), tuple(axes), tuple(range(-len(axes), 0)))
        self.sizes = tuple(x.shape[x.ndim - len(axes) :])
        if self.mode == "grid-constant" and cval != 0:
            if np.iscomplexobj(cval) and not x._dtype.is_complex:
                cval = self.cval = complex(cval).real
            x = x - cval
        if prefilter and order > 1:
            last_axes = range(x.ndim - len(axes), x.ndim)
            if self.mode in ("nearest", "grid-constant"):
                self.around = _AROUND
                x = self._widen(x, last_axes)
            x = _prefilter(x, order, last_axes, self.mode)
        self.coefficients = x

    def _widen(self, x: AnyTensor, axes: Sequence[int]) -> AnyTensor:
        widths = [_AROUND] * len(axes)
        if self.mode == "grid-constant":
            return pad_with_zeros(F, x, axes, widths, widths)
        for axis in axes:
            x = F.extend_borders(x, axis, _AROUND, _AROUND, "nearest")
        return x

    def at(self, coordinates: AnyTensor) -> AnyTensor:
        """Return the values at the points with the coordinates ``coordinates[d]``; the other axes come first."""
        result = F.spline_sample(
            self.coefficients, coordinates + self.around if self.around else coordinates, self.order, self.mode,
            (0,) * len(self.sizes),
        )  # fmt: skip
        return self._with_constant(result, [coordinates[d] for d in range(len(self.sizes))])

    def evaluate_grid(self, positions: Sequence[AnyTensor]) -> AnyTensor:
        """Return the values on the grid of all combinations of the positions along each axis."""
        result = self.coefficients
        lead = result.ndim - len(positions)
        for d, position in enumerate(positions):
            result = F.movedim(result, lead + d, -1)
            shifted = position + self.around if self.around else position
            result = F.spline_sample(result, F.unsqueeze(shifted, 0), self.order, self.mode, (0,))
            result = F.movedim(result, -1, lead + d)
        spread = [F.reshape(p, (-1,) + (1,) * (len(positions) - d - 1)) for d, p in enumerate(positions)]
        return self._with_constant(result, spread)

    def _with_constant(self, values: AnyTensor, coordinates: Sequence[AnyTensor]) -> AnyTensor:
        if self.cval == 0:
            return values
        if self.mode == "grid-constant":
            return values + self.cval
        if self.mode != "constant":
            return values
        outside: Any = False
        for x, n in zip(coordinates, self.sizes, strict=True):
            out = (x < 0) | (x > n - 1)
            outside = out if outside is False else outside | out
        return F.where(outside, self.cval, values)

    def result(self, values: AnyTensor, axes: Sequence[int], output: Any) -> AnyTensor:
        """Move the axes back to where they were, and convert to the dtype of the result; integers are rounded."""
        values = F.movedim(values, tuple(range(-len(axes), 0)), tuple(axes))
        dtype = self.given._dtype
        if output is not None:
            dtype = output.dtype if isinstance(output, (Tensor, np.ndarray)) else output
            dtype = dtype if isinstance(dtype, dtypes.dtype) else dtypes.from_numpy(np.dtype(dtype))
        if not dtype.is_differentiable:
            values = F.trunc(values + F.sign(values) * 0.5)
            if dtype.name != "bool":
                limits = np.iinfo(dtype.numpy)
                values = F.clamp(values, limits.min, limits.max)
        return write_output(values, output, self.given._dtype)


def _positions(n: int, x: Tensor) -> AnyTensor:
    return on_device(np.arange(n, dtype=np.float64), x)


def map_coordinates(
    input: Any, coordinates: Any, output: Any = None, order: int = 3, mode: str = "constant", cval: Any = 0.0,
    prefilter: bool = True,
) -> AnyTensor:  # fmt: skip
    """Interpolate an array at given coordinates, as `scipy.ndimage.map_coordinates`.

    It is differentiable with respect to `input` and `coordinates`.

    Examples
    --------
    The derivative with respect to the coordinates is that of the spline:

    >>> from gradcore.scipy import ndimage
    >>> squares = gc.arange(6.0, dtype=gc.float64) ** 2
    >>> x = gc.tensor([[2.0, 2.5]], dtype=gc.float64, requires_grad=True)
    >>> ndimage.map_coordinates(squares, x, mode="nearest").sum().backward()
    >>> x.grad
    tensor([[4.1225, 5.0657]], dtype=torch.float64)
    """
    _check_order(order)
    x = tensor_of(input)
    coordinates = tensor_of(coordinates)
    if coordinates._dtype.is_complex:
        raise TypeError("Complex type not supported")
    if x.ndim < 1 or coordinates.ndim < 2:
        raise RuntimeError("input and output rank must be > 0")
    if coordinates.shape[0] != x.ndim:
        raise RuntimeError("invalid shape for coordinate array")
    grid = _Grid(x, range(x.ndim), order, mode, cval, prefilter)
    return grid.result(grid.at(F.to(coordinates, dtypes.float64)), (), output)


def _parameters(value: Any, x: Tensor) -> AnyTensor:
    """Convert the parameters of a transformation to double precision, on the device of `x`."""
    if isinstance(value, (list, tuple)):
        value = tensor_of(value)
    return F.to(value, dtypes.float64) if isinstance(value, Tensor) else on_device(np.asarray(value, float), x)


def _split_by_axis(value: Any, count: int) -> list[Any]:
    """Return `value` as a list with an entry per axis; the elements of a tensor stay tensors."""
    if isinstance(value, Tensor) and value.ndim:
        if value.shape != (count,):
            raise RuntimeError("sequence argument must have length equal to input rank")
        return [value[d] for d in range(count)]
    return sequence(value, count)


def affine_transform(
    input: Any, matrix: Any, offset: Any = 0.0, output_shape: Any = None, output: Any = None, order: int = 3,
    mode: str = "constant", cval: Any = 0.0, prefilter: bool = True,
) -> AnyTensor:  # fmt: skip
    """Interpolate an array at ``matrix @ i + offset`` for every index i, as `scipy.ndimage.affine_transform`.

    It is differentiable with respect to `input`, `matrix` and `offset`.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> offset = gc.tensor([0.5, 0.0], dtype=gc.float64, requires_grad=True)
    >>> moved = ndimage.affine_transform(gc.eye(3, dtype=gc.float64), gc.eye(2), offset, order=1)
    >>> moved[:2].sum().backward()
    >>> offset.grad
    tensor([0.0000, 0.5000], dtype=torch.float64)
    """
    _check_order(order)
    x = tensor_of(input)
    ndim = x.ndim
    if output_shape is None:
        output_shape = tuple(output.shape) if isinstance(output, (Tensor, np.ndarray)) else tuple(x.shape)
    if ndim < 1 or len(output_shape) < 1:
        raise RuntimeError("input and output rank must be > 0")
    matrix = _parameters(matrix, x)
    if matrix.ndim not in (1, 2) or matrix.shape[0] < 1:
        raise RuntimeError("no proper affine matrix provided")
    if matrix.ndim == 2 and matrix.shape[1] == ndim + 1 and matrix.shape[0] in (ndim, ndim + 1):
        if matrix.shape[0] == ndim + 1:
            expected = [0] * ndim + [1]
            last = matrix.detach()[ndim].cpu().numpy()
            if not np.array_equal(last, expected):
                raise ValueError(
                    f"Expected homogeneous transformation matrix with shape {tuple(matrix.shape)} for image shape "
                    f"{tuple(x.shape)}, but bottom row was not equal to {expected}"
                )
        offset = matrix[:ndim, ndim]
        matrix = matrix[:ndim, :ndim]
    if matrix.shape[0] != ndim:
        raise RuntimeError("affine matrix has wrong number of rows")
    if matrix.ndim == 2 and matrix.shape[1] != len(output_shape):
        raise RuntimeError("affine matrix has wrong number of columns")
    offsets = _split_by_axis(offset, ndim)
    axes = tuple(range(ndim))
    grid = _Grid(x, axes, order, mode, cval, prefilter)
    if matrix.ndim == 1:
        along = [_positions(n, x) * matrix[d] + offsets[d] for d, n in enumerate(output_shape)]
        return grid.result(grid.evaluate_grid(along), axes, output)
    return grid.result(grid.at(_affine(matrix, offsets, output_shape, x)), (), output)


def _affine(matrix: AnyTensor, offsets: Sequence[Any], shape: Sequence[int], x: Tensor) -> AnyTensor:
    """Return the coordinates ``matrix @ i + offsets`` of every index i of a result of shape `shape`."""
    rows = []
    for d in range(matrix.shape[0]):
        total: Any = offsets[d]
        for k, n in enumerate(shape):
            step = F.reshape(_positions(n, x), (1,) * k + (n,) + (1,) * (len(shape) - k - 1))
            total = step * matrix[d, k] + total
        rows.append(total)
    return F.stack(rows, 0)


def shift(
    input: Any, shift: Any, output: Any = None, order: int = 3, mode: str = "constant", cval: Any = 0.0,
    prefilter: bool = True,
) -> AnyTensor:  # fmt: skip
    """Shift an array, as `scipy.ndimage.shift`; differentiable with respect to `input` and `shift`.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> by = gc.tensor(0.5, dtype=gc.float64, requires_grad=True)
    >>> moved = ndimage.shift(gc.tensor([0.0, 0.0, 1.0, 0.0], dtype=gc.float64), by, order=1)
    >>> moved[2].backward()
    >>> moved.detach(), by.grad
    (tensor([0.0000, 0.0000, 0.5000, 0.5000], dtype=torch.float64), tensor(-1., dtype=torch.float64))
    """
    x = tensor_of(input)
    axes = tuple(range(x.ndim))
    grid = _Grid(x, axes, order, mode, cval, prefilter)
    by = _split_by_axis(shift, x.ndim)
    by = [F.to(s, dtypes.float64) if isinstance(s, Tensor) else float(s) for s in by]
    along = [_positions(n, x) - s for n, s in zip(x.shape, by, strict=True)]
    return grid.result(grid.evaluate_grid(along), axes, output)


def zoom(
    input: Any, zoom: Any, output: Any = None, order: int = 3, mode: str = "constant", cval: Any = 0.0,
    prefilter: bool = True, *, grid_mode: bool = False,
) -> AnyTensor:  # fmt: skip
    """Resize an array, as `scipy.ndimage.zoom`; differentiable with respect to `input`, not to the factor.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> ndimage.zoom(gc.tensor([0.0, 2.0, 4.0]), 2, order=1)
    tensor([0.0000, 0.8000, 1.6000, 2.4000, 3.2000, 4.0000])
    """
    x = tensor_of(input)
    axes = tuple(range(x.ndim))
    grid = _Grid(x, axes, order, mode, cval, prefilter)
    factors = [float(f) for f in sequence(zoom.detach() if isinstance(zoom, Tensor) else zoom, x.ndim)]
    shape = [round(n * f) for n, f in zip(x.shape, factors, strict=True)]
    along = []
    for n, m in zip(x.shape, shape, strict=True):
        if grid_mode:
            along.append((_positions(m, x) + 0.5) * (n / m if m else 1.0) - 0.5)
        else:
            along.append(_positions(m, x) * ((n - 1) / (m - 1) if m > 1 else 1.0))
    return grid.result(grid.evaluate_grid(along), axes, output)


def rotate(
    input: Any, angle: Any, axes: Sequence[int] = (1, 0), reshape: bool = True, output: Any = None, order: int = 3,
    mode: str = "constant", cval: Any = 0.0, prefilter: bool = True,
) -> AnyTensor:  # fmt: skip
    """Rotate an array by an angle in degrees, as `scipy.ndimage.rotate`.

    It is differentiable with respect to `input` and `angle`.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> ndimage.rotate(gc.tensor([[1.0, 2.0], [3.0, 4.0]]), 90)
    tensor([[2., 4.],
            [1., 3.]])
    """
    x = tensor_of(input)
    if x.ndim < 2:
        raise ValueError("input array should be at least 2D")
    axes = list(axes)
    if len(axes) != 2:
        raise ValueError("axes should contain exactly two values")
    if not all(float(a).is_integer() for a in axes):
        raise ValueError("axes should contain only integer values")
    if not all(-x.ndim <= a < x.ndim for a in axes):
        raise ValueError("invalid rotation plane specified")
    axes = sorted(int(a) % x.ndim for a in axes)
    cosine, sine = _cosine_and_sine(angle)
    values = [float(v.detach()) if isinstance(v, Tensor) else v for v in (cosine, sine)]
    plane = [x.shape[d] for d in axes]
    shape = plane
    if reshape:
        turn = np.array([[values[0], values[1]], [-values[1], values[0]]])
        corners = turn @ [[0, 0, plane[0], plane[0]], [0, plane[1], 0, plane[1]]]
        shape = [int(n) for n in np.ptp(corners, axis=1) + 0.5]
    rows = [[cosine, sine], [-sine, cosine]]
    middle = [(n - 1) / 2 for n in shape]
    offsets = [(n - 1) / 2 - (row[0] * middle[0] + row[1] * middle[1]) for n, row in zip(plane, rows, strict=True)]
    grid = _Grid(x, axes, order, mode, cval, prefilter)
    steps = [F.reshape(_positions(n, x), s) for n, s in zip(shape, ((-1, 1), (1, -1)), strict=True)]
    coordinates = F.stack([steps[0] * row[0] + steps[1] * row[1] + o for row, o in zip(rows, offsets, strict=True)], 0)
    return grid.result(grid.at(coordinates), axes, output)


def _cosine_and_sine(angle: Any) -> tuple[Any, Any]:
    """Return the cosine and sine of an angle in degrees; they are exact for multiples of 90 that are numbers."""
    if isinstance(angle, Tensor):
        angle = F.to(angle, dtypes.float64) * (math.pi / 180)
        return F.cos(angle), F.sin(angle)
    import scipy.special

    return float(scipy.special.cosdg(angle)), float(scipy.special.sindg(angle))
