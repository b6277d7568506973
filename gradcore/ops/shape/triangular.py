"""Diagonals and triangles of matrices."""

from __future__ import annotations

import math

from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.shapes import check_elements, wrap_dim
from gradcore.ops.declare.table import composite, linear

# -- triangles --------------------------------------------------------------------------------------------------------


def _triangle_cases():
    return [
        case(floats(3, 4)),
        case(floats(2, 3, 3), 1),
        case(floats(4, 2), -1),
        case(floats(0, 3)),
        case(floats(3, 4), -5),
    ]


def _check_matrix(name, x):
    if x.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")


def _clip_diagonal(diagonal, shape):
    """Return the number of a diagonal, clipped to one beyond the corners if it exceeds 32 bits.

    NumPy stores the number in 32 bits, and reads invalid memory for the smallest 32-bit number.
    """
    if -0x7FFFFFFF <= diagonal <= 0x7FFFFFFF:
        return diagonal
    return shape[-1] if diagonal > 0 else -shape[-2]


@linear(
    lambda F, grad, diagonal: F.tril(grad, diagonal),
    inplace=True,
    computes_half_in_float=False,
    samples=_triangle_cases,
)
def tril(K, self, diagonal: int = 0):
    """Return the matrix with zeros above a diagonal.

    Examples
    --------
    >>> gc.tril(gc.ones(3, 3))
    tensor([[1., 0., 0.],
            [1., 1., 0.],
            [1., 1., 1.]])
    """
    _check_matrix("tril", self)
    return K.xp.tril(self, _clip_diagonal(diagonal, self.shape))


@linear(
    lambda F, grad, diagonal: F.triu(grad, diagonal),
    inplace=True,
    computes_half_in_float=False,
    samples=_triangle_cases,
)
def triu(K, self, diagonal: int = 0):
    """Return the matrix with zeros below a diagonal.

    Examples
    --------
    >>> gc.triu(gc.ones(3, 3), diagonal=1)
    tensor([[0., 1., 1.],
            [0., 0., 1.],
            [0., 0., 0.]])
    """
    _check_matrix("triu", self)
    return K.xp.triu(self, _clip_diagonal(diagonal, self.shape))


# -- diagonals --------------------------------------------------------------------------------------------------------


def _dims(dim1, dim2, ndim):
    first, second = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return first, second


def _diagonal_cases():
    return [
        case(floats(3, 4)),
        case(floats(3, 4), offset=-1),
        case(floats(2, 3, 4), 1, 2, 0),
        case(floats(2, 3), offset=5),
    ]


def _diagonal(K, x, offset, dim1, dim2):
    dim1, dim2 = _dims(dim1, dim2, x.ndim)
    return K.diagonal_of(x, _clip_diagonal(offset, (x.shape[dim1], x.shape[dim2])), dim1, dim2)


@linear(
    lambda F, grad, self_shape, offset, dim1, dim2: F.diagonal_backward(grad, self_shape, offset, dim1, dim2),
    view=True,
    samples=_diagonal_cases,
)
def diagonal(K, self, offset: int = 0, dim1: int = 0, dim2: int = 1):
    """Return a view of the diagonals of the planes of two dims, along a new last dim.

    Examples
    --------
    >>> gc.diagonal(gc.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    return _diagonal(K, self, offset, dim1, dim2)


@linear(
    lambda F, grad, offset, dim1, dim2: F.diagonal(grad, offset, dim1, dim2),
    function=False,
    method=False,
    computes_half_in_float=False,
)
def diagonal_backward(K, grad, shape: tuple[int, ...], offset: int, dim1: int, dim2: int):
    """Return zeros of `shape` with `grad` on the diagonals."""
    out = K.xp.zeros(shape, grad.dtype)
    _diagonal(K, out, offset, dim1, dim2)[...] = grad
    return out


@linear(
    lambda F, grad, self_shape, offset: F.diagonal_backward(grad, self_shape, offset, 0, 1),
    node="DiagonalBackward0_copy",
    function=False,
    method=False,
    computes_half_in_float=False,
)
def diagonal_copy(K, self, offset: int = 0):
    """Return the diagonal of a matrix."""
    return _diagonal(K, self, offset, 0, 1).copy()


@linear(
    lambda F, grad, offset, dim1, dim2: F.diagonal(grad, offset, dim1, dim2),
    computes_half_in_float=False,
    samples=lambda: [case(floats(2, 3)), case(floats(3), offset=-1), case(floats(2, 3), 1, 0, 2), case(floats(0))],
)
def diag_embed(K, self, offset: int = 0, dim1: int = -2, dim2: int = -1):
    """Return matrices with the elements along the last dim on a diagonal, and zeros elsewhere.

    Examples
    --------
    >>> gc.diag_embed(gc.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    first, second = sorted(_dims(dim1, dim2, self.ndim + 1))
    size = self.shape[-1] + abs(offset)
    shape = list(self.shape[:-1])
    shape.insert(first, size)
    shape.insert(second, size)
    check_elements(shape)
    out = K.xp.zeros(shape, self.dtype)
    _diagonal(K, out, offset, dim1, dim2)[...] = self
    return out


@composite(samples=lambda: [case(floats(3)), case(floats(3, 4), 1), case(floats(2), -1)])
def diag(F, self, diagonal: int = 0):
    """Return a matrix with the vector on a diagonal, or a copy of a diagonal of a matrix.

    Examples
    --------
    >>> gc.diag(gc.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    >>> gc.diag(gc.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    if self.ndim == 1:
        return F.diag_embed(self, diagonal)
    if self.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {self.ndim}D")
    return F.diagonal_copy(self, diagonal)


@composite(samples=lambda: [case(floats(2, 2)), case(floats(), 1)])
def diagflat(F, self, offset: int = 0):
    """Return a matrix with the flattened elements on a diagonal.

    Examples
    --------
    >>> gc.diagflat(gc.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    return F.diag_embed(F.reshape(self, (math.prod(self.shape),)), offset)


def check_part(source, part):
    """Raise if `source` does not have the shape of the part that it replaces."""
    if tuple(source.shape) != tuple(part.shape):
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. "
            f"src size = {list(source.shape)}, slice size = {list(part.shape)}"
        )


@linear(
    self=lambda F, grad, src_shape, offset, dim1, dim2: F.diagonal_scatter(
        grad, F.new_zeros(grad, src_shape), offset, dim1, dim2
    ),
    src=lambda F, grad, offset, dim1, dim2: F.diagonal(grad, offset, dim1, dim2),
    computes_half_in_float=False,
    samples=lambda: [case(floats(3, 4), floats(3)), case(floats(2, 3, 4), floats(2, 3), offset=1, dim1=1, dim2=2)],
    saved={"src_sym_sizes": None},
)
def diagonal_scatter(K, self, src, offset: int = 0, dim1: int = 0, dim2: int = 1):
    """Return a copy with `src` on the diagonals of the planes of two dims.

    Returns
    -------
    Tensor
        Result of the shape of the input.

    Examples
    --------
    >>> gc.diagonal_scatter(gc.zeros(2, 2), gc.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    out = self.copy()
    part = _diagonal(K, out, offset, dim1, dim2)
    check_part(src, part)
    part[...] = src
    return out
