"""Views by strides: arbitrary elements of a tensor's memory."""

from __future__ import annotations

from typing import Any

from gradcore.core.size import contiguous_strides
from gradcore.ops.declare.annotations import Ints
from gradcore.ops.declare.geometry import each
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import composite, linear
from gradcore.ops.shape.triangular import check_part


@composite(
    layout_dependent=True,
    samples=lambda: [
        case(floats(3, 4), (2, 3), (1, 2), 1),
        case(floats(2, 2), (2, 2, 2), (1, 0, 1)),
        case(floats(3), (), ()),
    ],
)
def as_strided(F, self, size: Ints, stride: Ints, storage_offset: int | None = None):
    """Return a view of arbitrary elements of the tensor's memory, by strides and offset in elements.

    Returns
    -------
    Tensor
        Result of shape `size`: a view.

    Examples
    --------
    >>> gc.as_strided(gc.arange(5), (3, 2), (1, 1))
    tensor([[0, 1],
            [1, 2],
            [2, 3]])
    """
    size, stride = each(size), each(stride)
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if min(stride, default=0) < 0:
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    if storage_offset is not None and storage_offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {storage_offset}")
    own_offset = self.storage_offset()
    offset = 0 if storage_offset is None else storage_offset - own_offset
    return F.strided_view(self, size, stride, offset, self.stride())


@linear(
    lambda F, grad, self_shape, size, stride, offset, own: F.strided_back(grad, self_shape, own, size, stride, offset),
    view=True,
    node="AsStridedBackward0",
    function=False,
    method=False,
    saved={"storage_offset": "offset", "own": None, "self_sym_sizes": None},
)
def strided_view(K, self, size: Any, stride: Any, offset: int, own: Any):
    """Return a view by `stride`.

    `offset` counts from the first element, and `own` are the strides of the tensor itself.
    """
    if any(n > 1 and s != k for n, s, k in zip(self.shape, K.geometry_of(self)[0], own, strict=True)):
        raise RuntimeError(
            "as_strided(): the gradient of a tensor with gaps in its memory cannot be written through a view"
        )
    return K.view_memory(self, size, stride, offset)


@strided_view.jvp("self")
def _(F, t, self_shape, size, stride, offset, own):
    if t.storage_offset() + offset >= 0:
        try:
            return F.strided_view(t, size, stride, offset, own)
        except RuntimeError:  # the tangent does not lie in memory as its tensor does
            pass
    return F.strided_copy(t, self_shape, own, size, stride, offset)


def _positions(K, shape, own, size, stride, offset):
    """Return the memory offsets of a tensor's elements and of a strided view's, and the memory's size."""
    start = max(0, -offset)
    own_positions, view_positions = K.locations(shape, own, start), K.locations(size, stride, start + offset)
    ends = [
        begin + sum((n - 1) * s for n, s in zip(dims, steps, strict=True)) + 1
        for dims, steps, begin in ((shape, own, start), (size, stride, start + offset))
    ]
    return own_positions, view_positions, max(*ends, 1)


@linear(
    lambda F, grad, shape, own, size, stride, offset: F.strided_copy(grad, shape, own, size, stride, offset),
    function=False,
    method=False,
)
def strided_back(K, self, shape: Any, own: Any, size: Any, stride: Any, offset: int):
    """Return the adjoint of `strided_view`: elements of a view, added at the elements of the tensor."""
    own_positions, view_positions, length = _positions(K, shape, own, size, stride, offset)
    memory = K.sum_into_rows(length, view_positions, self.reshape(-1, 1))
    counts = K.sum_into_rows(length, own_positions, K.xp.ones((own_positions.size, 1), self.dtype))
    return K.div(memory[own_positions], counts[own_positions]).reshape(shape)


@linear(
    lambda F, grad, shape, own, size, stride, offset: F.strided_back(grad, shape, own, size, stride, offset),
    function=False,
    method=False,
)
def strided_copy(K, self, shape: Any, own: Any, size: Any, stride: Any, offset: int):
    """Return a copy of the elements that `strided_view` reads; zeros where the tensor has no element."""
    own_positions, view_positions, length = _positions(K, shape, own, size, stride, offset)
    memory = K.sum_into_rows(length, own_positions, self.reshape(-1, 1))
    counts = K.sum_into_rows(length, own_positions, K.xp.ones((own_positions.size, 1), self.dtype))
    return K.div(memory, K.xp.maximum(counts.real, 1))[view_positions].reshape(size)


@composite(samples=lambda: [case(floats(3, 4), floats(2, 3), (2, 3), (1, 4), 1)])
def as_strided_scatter(F, self, src, size: Ints, stride: Ints, storage_offset: int | None = None):
    """Return a copy in which `src` replaces a strided view.

    Returns
    -------
    Tensor
        Result of the shape of the input.

    Examples
    --------
    >>> gc.as_strided_scatter(gc.zeros(4), gc.ones(2), (2,), (2,))
    tensor([1., 0., 1., 0.])
    """
    return F.strided_write(self, src, each(size), each(stride), storage_offset or 0)


@linear(
    self=lambda F, grad, src_shape, size, stride, offset: F.strided_write(
        grad, F.new_zeros(grad, src_shape), size, stride, offset
    ),
    src=lambda F, grad, size, stride, offset: F.strided_copy(
        grad, grad.shape, contiguous_strides(grad.shape), size, stride, offset
    ),
    node="AsStridedScatterBackward0",
    computes_half_in_float=False,
    function=False,
    method=False,
    saved={"storage_offset": "offset", "src_sym_sizes": None},
)
def strided_write(K, self, src, size: Any, stride: Any, offset: int):
    """Return a contiguous copy in which `src` replaces a strided view."""
    out = self.copy()
    part = K.view_memory(out, size, stride, offset)
    check_part(src, part)
    part[...] = src
    return out
