"""Slices of tensors: views by ints, slices and windows."""

from __future__ import annotations

from typing import Any

from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.shapes import wrap_dim
from gradcore.ops.declare.table import composite, linear
from gradcore.ops.shape.triangular import check_part

# -- ints, slices and None: views -------------------------------------------------------------------------------------


@linear(
    lambda F, grad, self_shape, key: F.getitem_backward(grad, self_shape, key),
    view=True,
    view_key=lambda shape, key, name: key,
    function=False,
    method=False,
    node=lambda name: name,
)
def getitem(self, key: Any, name: str = "SliceBackward0"):
    """Compute ``self[key]`` for a key of ints, slices, None and Ellipsis; `name` is that of the node."""


@linear(lambda F, grad, key: F.getitem(grad, key), computes_half_in_float=False, function=False, method=False)
def getitem_backward(self, shape: tuple[int, ...], key: Any):
    """Return zeros of `shape` with `self` at `key`."""


def _index_dim(dim, *index):
    return ((slice(None),) * dim) + index


def _select_key(x, dim, index):
    """Return the key that selects one slice of a dim."""
    if not x.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, x.ndim)
    if not -x.shape[dim] <= index < x.shape[dim]:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(x.shape)} at dimension {dim}")
    return _index_dim(dim, index, ...)


def _slice_key(shape, dim, index):
    return _index_dim(wrap_dim(dim, len(shape)), index, ...)


@linear(
    lambda F, grad, self_shape, dim, index: F.getitem_backward(grad, self_shape, _slice_key(self_shape, dim, index)),
    view=True,
    view_key=_slice_key,
    samples=lambda: [case(floats(2, 3), 0, 1), case(floats(2, 3, 4), -1, -2), case(floats(3), 0, 0)],
)
def select(K, self, dim: int, index: int):
    """Return a view of one slice of a dim, without that dim.

    Examples
    --------
    >>> gc.select(gc.tensor([[1, 2], [3, 4]]), 1, 0)
    tensor([1, 3])
    """
    return self[_select_key(self, dim, index)]


def _part_key(shape, dim, start, end, step):
    return _index_dim(wrap_dim(dim, len(shape)), slice(start, end, step))


@linear(
    lambda F, grad, self_shape, dim, start, end, step: F.getitem_backward(
        grad, self_shape, _part_key(self_shape, dim, start, end, step)
    ),
    view=True,
    view_key=_part_key,
    node="SliceBackward0",
    function=False,
    method=False,
    samples=lambda: [case(floats(5, 2), 0, 1, 4, 2), case(floats(2, 5), -1, None, None, -2), case(floats(3), 0, 5, 7)],
)
def slice_of(K, self, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1):
    """Return a view of a slice of a dim."""
    if not self.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    return self[_index_dim(wrap_dim(dim, self.ndim), slice(start, end, step))]


@composite(samples=lambda: [case(floats(5, 2), 0, 1, 3), case(floats(2, 5), -1, -2, 2), case(floats(3), 0, 3, 0)])
def narrow(F, input, dim: int, start: int, length: int):
    """Return a view of `length` elements of a dim from `start` on.

    Examples
    --------
    >>> gc.narrow(gc.arange(5), 0, 1, 3)
    tensor([1, 2, 3])
    """
    if not input.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    size = input.shape[wrap_dim(dim, input.ndim)]
    if not -size <= start <= size:
        raise IndexError(f"start out of range (expected to be in range of [{-size}, {size}], but got {start})")
    start = start + size if start < 0 else start
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return F.slice_of(input, dim, start, start + length)


@linear(
    self=lambda F, grad, src_shape, dim, index: F.select_scatter(grad, F.new_zeros(grad, src_shape), dim, index),
    src=lambda F, grad, dim, index: F.select(grad, dim, index),
    computes_half_in_float=False,
    samples=lambda: [case(floats(2, 3), floats(2), 1, -1), case(floats(3), floats(), 0, 1)],
    saved={"src_sym_sizes": None},
)
def select_scatter(K, self, src, dim: int, index: int):
    """Return a copy with `src` in the place of one slice of a dim.

    Returns
    -------
    Tensor
        Result of the shape of the input.

    Examples
    --------
    >>> gc.select_scatter(gc.zeros(2, 2), gc.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    out = self.copy()
    part = out[_select_key(self, dim, index)]
    check_part(src, part)
    part[...] = src
    return out


@linear(
    self=lambda F, grad, src_shape, dim, start, end, step: F.slice_scatter(
        grad, F.new_zeros(grad, src_shape), dim, start, end, step
    ),
    src=lambda F, grad, dim, start, end, step: F.slice_of(grad, dim, start, end, step),
    computes_half_in_float=False,
    samples=lambda: [case(floats(5, 2), floats(2, 2), 0, 1, 4, 2), case(floats(2, 3), floats(2, 3), -1)],
    saved={"src_sym_sizes": None},
)
def slice_scatter(K, self, src, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1):
    """Return a copy with `src` in the place of part of a dim.

    Returns
    -------
    Tensor
        Result of the shape of the input.

    Examples
    --------
    >>> gc.slice_scatter(gc.zeros(4), gc.ones(2), 0, 1, 3)
    tensor([0., 1., 1., 0.])
    """
    out = self.copy()
    part = out[_index_dim(wrap_dim(dim, self.ndim), slice(start, end, step))]
    check_part(src, part)
    part[...] = src
    return out


@linear(
    lambda F, grad, self_shape, dimension, size, step: F.unfold_dim_backward(
        grad, self_shape, wrap_dim(dimension, len(self_shape)), size, step
    ),
    view=True,
    function=False,
    method="unfold",
    node="UnfoldBackward0",
    samples=lambda: [
        case(floats(5, 2), 0, 3, 1),
        case(floats(2, 5), -1, 2, 2),
        case(floats(4), 0, 1, 3),
        case(floats(), 0, 1, 1),
        case(floats(3), 0, 0, 1),
    ],
)
def unfold_dim(K, self, dimension: int, size: int, step: int):
    """Return a view of the windows along a dim: `size` elements each, `step` apart, in a new last dim."""
    dim = wrap_dim(dimension, self.ndim)
    length = self.shape[dim] if self.ndim else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > length:
        raise RuntimeError(f"maximum size for tensor at dimension {dim} is {length} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    return K.windows_of(self, dim, size, step) if self.ndim else self.reshape(1)[:size]


@linear(lambda F, grad, dim, size, step: F.unfold_dim(grad, dim, size, step), function=False, method=False)
def unfold_dim_backward(self, shape: tuple[int, ...], dim: int, size: int, step: int):
    """Return the sum of overlapping windows: the adjoint of `unfold_dim`."""


@composite(samples=lambda: [case(floats(3, 4), 1, 1, 2)])
def narrow_copy(F, self, dim: int, start: int, length: int):
    """Return a copy of a part of a dim, as `narrow` gives a view of it.

    Examples
    --------
    >>> gc.narrow_copy(gc.arange(5), 0, 1, 3)
    tensor([1, 2, 3])
    """
    return F.clone(F.narrow(self, dim, start, length))
