"""Changes of shape and of the order of dims: views where memory allows, else copies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gradcore.core.dtypes import dtype
from gradcore.ops.declare.annotations import Dims, Ints, Sizes
from gradcore.ops.declare.geometry import (
    distinct,
    each,
    expand_shape,
    inverse_of_distinct,
    permutation_of_movedim,
    reshape_error,
    unflatten_shape,
)
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.shapes import wrap_dim
from gradcore.ops.declare.table import composite, linear, same

# -- shapes -----------------------------------------------------------------------------------------------------------


def _reshape(x, shape):
    try:
        out = x.reshape(shape)
    except (ValueError, TypeError):
        raise reshape_error(x.shape, shape) from None
    if out.shape != shape and min(shape, default=0) < -1:  # NumPy takes any negative number for -1
        raise reshape_error(x.shape, shape)
    return out


@linear(
    lambda F, grad, self_shape: F.reshape(grad, self_shape),
    view=True,
    node="ViewBackward0",
    copy_node="UnsafeViewBackward0",
    samples=lambda: [
        case(floats(2, 6), (3, -1)),
        case(floats(), (1, 1)),
        case(floats(0, 2), (2, 0)),
        case(floats(4), (4,)),
    ],
    saved={"shape": None},
)
def reshape(K, self, shape: Sizes):
    """Return the elements in another shape, one size of which may be -1: a view if possible, else a copy.

    Examples
    --------
    >>> gc.reshape(gc.arange(4), (2, -1))
    tensor([[0, 1],
            [2, 3]])
    """
    return _reshape(self, shape)


@linear(
    lambda F, grad, self_shape: F.reshape(grad, self_shape),
    view=True,
    node="ViewBackward0",
    function=False,
    method=False,
    layout_dependent=True,
    samples=lambda: [case(floats(2, 6), (3, -1)), case(floats(), (1,)), case(floats(0, 2), (2, 0))],
    saved={"shape": None},
)
def view_shape(K, self, shape: Sizes):
    """Return a view of another shape."""
    out = _reshape(self, shape)
    if not K.shares_memory(out, self):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    return out


@linear(view=True, function=False, method=False, samples=list)
def view_dtype(K, self, dtype: Any):
    """Return a view of the memory as elements of another dtype."""
    return K.view_dtype_kernel(self, dtype)


@composite(
    function=False,
    layout_dependent=True,
    samples=lambda: [case(floats(2, 6), (3, 4)), case(floats(2, 6), (-1,))],
    also={"dtype": "size"},
)
def view(F, self, size: Sizes | dtype):
    """Return a view of another shape, one size of which may be -1, or of another dtype."""
    return F.view_shape(self, size) if hasattr(size, "__iter__") else F.view_dtype(self, size)


@composite(function=False, layout_dependent=True, samples=lambda: [case(floats(2, 6), floats(3, 4))])
def view_as(F, self, other):
    """Return a view in the shape of another tensor."""
    return F.view_shape(self, other.shape)


@composite(function=False, samples=lambda: [case(floats(2, 6), floats(3, 4))])
def reshape_as(F, self, other):
    """Return the same elements in the shape of another tensor."""
    return F.reshape(self, other.shape)


@composite(
    samples=lambda: [case(floats(2, 3, 4)), case(floats(2, 3, 4), 1, 2), case(floats(2, 3, 4), 0, -2), case(floats())]
)
def flatten(F, self, start_dim: int = 0, end_dim: int = -1):
    """Flatten the dims from `start_dim` to `end_dim` into one.

    Examples
    --------
    >>> gc.flatten(gc.tensor([[1, 2], [3, 4]]))
    tensor([1, 2, 3, 4])
    """
    start, end = wrap_dim(start_dim, self.ndim), wrap_dim(end_dim, self.ndim)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if self.ndim and start == end:
        return self
    shape = tuple(self.shape)
    return F.reshape(self, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


@linear(same, view=True, function=False, method=False, samples=lambda: [case(floats(2, 3)), case(floats())])
def alias(K, self):
    """Return a view of the whole tensor."""
    return self[...]


@composite(samples=lambda: [case(floats(2, 6), 1, (2, -1)), case(floats(4), 0, (2, 2))])
def unflatten(F, self, dim: int, sizes: Sequence[int]):
    """Split a dim into `sizes`, one of which may be -1.

    Examples
    --------
    >>> gc.unflatten(gc.arange(6), 0, (2, 3))
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    return F.view_shape(self, unflatten_shape(self.shape, dim, sizes))


@composite(samples=lambda: [case(floats(2, 3)), case(floats())])
def ravel(F, self):
    """Flatten all dims into one.

    Examples
    --------
    >>> gc.ravel(gc.tensor([[1, 2], [3, 4]]))
    tensor([1, 2, 3, 4])
    """
    return F.reshape(F.contiguous(self), (-1,))


def _squeezed_node(dim):
    return f"SqueezeBackward{0 if dim is None else 1 if hasattr(dim, '__index__') else 2}"


def _saved_by_squeeze(node):
    """Return how a node of `squeeze` shows `dim`: not at all, as given, or counted from the front."""
    return {"SqueezeBackward0": {"dim": None}, "SqueezeBackward1": {"dim": lambda dim: dim}}.get(node, {})


@linear(
    lambda F, grad, self_shape: F.reshape(grad, self_shape),
    view=True,
    node=_squeezed_node,
    samples=lambda: [
        case(floats(1, 3, 1)),
        case(floats(1, 3, 1), dim=0),
        case(floats(1, 3, 1), dim=(0, 1, -1)),
        case(floats()),
    ],
    saved=_saved_by_squeeze,
)
def squeeze(K, self, dim: Dims = None):
    """Remove the dims of size 1: all of them, or those among `dim`.

    Examples
    --------
    >>> gc.squeeze(gc.zeros(1, 3, 1)).shape
    torch.Size([3])
    """
    dims = range(self.ndim) if dim is None else distinct(dim, self.ndim)
    single = tuple(d for d in dims if self.ndim and self.shape[d] == 1)
    return self.squeeze(single) if single else self[...]


@linear(
    lambda F, grad, self_shape: F.reshape(grad, self_shape),
    view=True,
    samples=lambda: [case(floats(2, 3), dim=0), case(floats(2, 3), dim=-1), case(floats(), dim=0)],
    saved={"self_sym_sizes": None},
)
def unsqueeze(K, self, dim: int):
    """Insert a dim of size 1 at the position `dim`.

    Examples
    --------
    >>> gc.unsqueeze(gc.tensor([1, 2]), 1)
    tensor([[1],
            [2]])
    """
    dim = wrap_dim(dim, self.ndim + 1)
    return self.reshape((*self.shape[:dim], 1, *self.shape[dim:]))


# -- broadcasting -----------------------------------------------------------------------------------------------------


@linear(
    lambda F, grad, self_shape: F.sum_to_size(grad, self_shape),
    view=True,
    samples=lambda: [
        case(floats(3, 1), (2, -1, 4)),
        case(floats(), (2,)),
        case(floats(1, 3), (0, 3)),
        case(floats(2), (2,)),
    ],
    saved={"size": None},
)
def expand(K, self, size: Sizes):
    """Return a view with dims of size 1 repeated to `size`, in which -1 keeps a dim.

    Examples
    --------
    >>> gc.tensor([[1], [2]]).expand(-1, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    return K.broadcast_view(self, expand_shape(self.shape, size))


@composite(function=False, samples=lambda: [case(floats(3, 1), floats(2, 3, 4))])
def expand_as(F, self, other):
    """Return a view expanded to the shape of another tensor."""
    return F.expand(self, other.shape)


@composite(samples=lambda: [case(floats(3, 1), (3, 4))])
def broadcast_to(F, self, size: Sequence[int]):
    """Return a view expanded to `size`.

    Returns
    -------
    Tensor
        Result of shape `size`: a view.

    Examples
    --------
    >>> gc.broadcast_to(gc.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return F.expand(self, size)


@linear(
    lambda F, grad, self_shape: F.expand(grad, self_shape),
    function=False,
    node="SumBackward1",
    samples=lambda: [case(floats(2, 3, 4), (3, 1)), case(floats(2), ()), case(floats(3), (3,))],
)
def sum_to_size(self, size: Sizes):
    """Return the sum over the dims along which a tensor of `size` must be expanded to the shape of `self`."""


@linear(
    lambda F, grad, self_shape, repeats: _sum_repeats(F, grad, self_shape, repeats),
    samples=lambda: [case(floats(2, 3), (2, 1, 2)), case(floats(2), (0,)), case(floats(), (3,))],
)
def repeat(K, self, repeats: Sizes):
    """Repeat the tensor `repeats` times along each dim; more dims may be added in front.

    Examples
    --------
    >>> gc.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    repeats = each(repeats)
    lead = len(repeats) - self.ndim
    if lead < 0:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    shape = (1,) * lead + self.shape
    sizes = [n * r for n, r in zip(shape, repeats, strict=True)]
    if min(repeats, default=0) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(sizes)}: {sizes}")
    return K.tile_array(self, repeats)


def _sum_repeats(F, grad, shape, repeats):
    """Return the gradient of `repeat`: the sum over the copies."""
    repeats = each(repeats)
    padded = (1,) * (len(repeats) - len(shape)) + tuple(shape)
    pairs = [n for r, size in zip(repeats, padded, strict=True) for n in (r, size)]
    if not pairs:
        return grad
    return F.reshape(F.sum(F.reshape(grad, pairs), tuple(range(0, len(pairs), 2))), shape)


@composite(samples=lambda: [case(floats(2, 3), (2,)), case(floats(2), (2, 2))])
def tile(F, self, dims: Sizes):
    """Repeat the tensor `dims` times along each dim; missing numbers in front count as 1.

    Examples
    --------
    >>> gc.tile(gc.tensor([1, 2]), (2,))
    tensor([1, 2, 1, 2])
    """
    dims = each(dims)
    return F.repeat(self, (1,) * (self.ndim - len(dims)) + dims)


# -- orders -----------------------------------------------------------------------------------------------------------


@linear(
    lambda F, grad, dim0, dim1: F.transpose(grad, dim0, dim1),
    view=True,
    samples=lambda: [case(floats(2, 3, 4), 0, -1), case(floats(), 0, 0)],
)
def transpose(K, self, dim0: int, dim1: int):
    """Return a view with two dims exchanged.

    Examples
    --------
    >>> gc.transpose(gc.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([[1, 3],
            [2, 4]])
    """
    ndim = self.ndim
    if not (-ndim <= dim0 < ndim and -ndim <= dim1 < ndim):  # dims of an array without dims, and errors
        dim0, dim1 = wrap_dim(dim0, ndim), wrap_dim(dim1, ndim)
    return self.swapaxes(dim0, dim1) if ndim else self[...]


@composite(samples=lambda: [case(floats(2, 3, 4), 0, 2)])
def swapaxes(F, self, axis0: int, axis1: int):
    """Return a view with two dims exchanged.

    Examples
    --------
    >>> gc.swapaxes(gc.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([[1, 3],
            [2, 4]])
    """
    return F.transpose(self, axis0, axis1)


@composite(samples=lambda: [case(floats(2, 3, 4), 0, 2)])
def swapdims(F, self, dim0: int, dim1: int):
    """Return a view with two dims exchanged.

    Examples
    --------
    >>> gc.swapdims(gc.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([[1, 3],
            [2, 4]])
    """
    return F.transpose(self, dim0, dim1)


@linear(lambda F, grad: F.t(grad), view=True, samples=lambda: [case(floats(2, 3)), case(floats(3)), case(floats())])
def t(K, self):
    """Return the transpose of a matrix; vectors and 0-dim tensors are returned as they are.

    Examples
    --------
    >>> gc.t(gc.tensor([[1, 2], [3, 4]]))
    tensor([[1, 3],
            [2, 4]])
    """
    if self.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {self.ndim}D")
    return self.transpose() if self.ndim == 2 else self[...]


@linear(
    lambda F, grad, dims: F.permute(grad, inverse_of_distinct(tuple(dims), grad.ndim)),
    view=True,
    samples=lambda: [case(floats(2, 3, 4), (2, 0, -2)), case(floats(), ())],
)
def permute(K, self, dims: Sizes):
    """Return a view with the dims in another order.

    Examples
    --------
    >>> gc.permute(gc.zeros(2, 3, 4), (2, 0, 1)).shape
    torch.Size([4, 2, 3])
    """
    try:
        if dims and not -64 <= min(dims) <= max(dims) < 64:  # NumPy reads 32 bits of each
            raise IndexError
        return self.transpose(dims)
    except (IndexError, TypeError, ValueError):
        raise _permute_error(self.ndim, each(dims)) from None


def _permute_error(ndim, dims):
    if len(dims) != ndim:
        return RuntimeError(
            "permute(): number of dimensions in the tensor input does not match the length of the desired ordering of "
            f"dimensions i.e. input.dim() = {ndim} is not equal to len(dims) = {len(dims)}"
        )
    distinct(dims, ndim, "permute(): duplicate dims are not allowed.")
    return RuntimeError(f"permute(): {list(dims)} is no order of {ndim} dims")


@composite(aliases=("moveaxis",), samples=lambda: [case(floats(2, 3, 4), 0, 2), case(floats(2, 3, 4), (0, 1), (-1, 0))])
def movedim(F, self, source: Ints, destination: Ints):
    """Return a view with the dims `source` moved to the positions `destination`.

    Examples
    --------
    >>> gc.movedim(gc.zeros(2, 3, 4), 0, -1).shape
    torch.Size([3, 4, 2])
    """
    return F.permute(self, permutation_of_movedim(self.ndim, source, destination))


@composite(samples=lambda: [case(floats(2, 3, 4)), case(floats())])
def adjoint(F, self):
    """Return the conjugate transpose of the last two dims.

    Examples
    --------
    >>> gc.adjoint(gc.tensor([[1 + 1j, 2 + 0j]]))
    tensor([[1.-1.j],
            [2.-0.j]])
    """
    if self.ndim == 1:
        raise RuntimeError("tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.")
    flipped = F.transpose(self, -2, -1) if self.ndim else self
    return F.conj(flipped) if self.is_complex() else flipped


@linear(
    lambda F, grad, dims: F.flip(grad, dims),
    computes_half_in_float=False,
    samples=lambda: [case(floats(2, 3), (0, -1)), case(floats(), (0,)), case(floats(2, 3), (1,))],
)
def flip(K, self, dims: Sizes):
    """Return a copy with the elements in reverse order along `dims`.

    Examples
    --------
    >>> gc.flip(gc.tensor([1, 2, 3]), (0,))
    tensor([3, 2, 1])
    """
    return K.reverse_dims(self, distinct(dims, self.ndim))


@composite(samples=lambda: [case(floats(2, 3))])
def fliplr(F, self):
    """Return a copy with the columns in reversed order.

    Examples
    --------
    >>> gc.fliplr(gc.tensor([[1, 2], [3, 4]]))
    tensor([[2, 1],
            [4, 3]])
    """
    if self.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return F.flip(self, (1,))


@composite(samples=lambda: [case(floats(2, 3))])
def flipud(F, self):
    """Return a copy with the rows in reversed order.

    Examples
    --------
    >>> gc.flipud(gc.tensor([[1, 2], [3, 4]]))
    tensor([[3, 4],
            [1, 2]])
    """
    if self.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return F.flip(self, (0,))


@linear(
    lambda F, grad, shifts, dims: F.roll(grad, tuple(-s for s in each(shifts)), dims),
    computes_half_in_float=False,
    samples=lambda: [
        case(floats(2, 3), 2),
        case(floats(2, 3), (1, -1), (0, 1)),
        case(floats(), 1),
        case(floats(0, 2), 1, 0),
    ],
)
def roll(K, self, shifts: Ints, dims: Ints | None = ()):
    """Shift the elements cyclically along `dims`, or in the flattened tensor.

    Examples
    --------
    >>> gc.roll(gc.tensor([1, 2, 3]), 1)
    tensor([3, 1, 2])
    """
    shifts, dims = each(shifts), () if dims is None else each(dims)
    if len(shifts) != len(dims) and (dims or len(shifts) != 1):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    if dims and not self.ndim:
        raise IndexError(f"Dimension specified as {dims[0]} but tensor has no dimensions")
    if not dims:
        return K.xp.roll(self, shifts[0])
    return K.xp.roll(self, shifts, tuple(wrap_dim(d, self.ndim) for d in dims))


@linear(
    lambda F, grad, k, dims: F.rot90(grad, -k, dims),
    node="Rot90Backward0",
    computes_half_in_float=False,
    samples=lambda: [
        case(floats(2, 3)),
        case(floats(2, 3, 4), 2, (1, 2)),
        case(floats(2, 3, 4), -1, (2, 0)),
        case(floats(2, 3), 4),
    ],
)
def rot90(K, self, k: int = 1, dims: Ints = (0, 1)):
    """Rotate the plane of two dims by 90 degrees `k` times, from the first dim towards the second.

    Examples
    --------
    >>> gc.rot90(gc.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    dims = each(dims)
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if self.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {self.ndim}")
    if wrap_dim(dims[0], self.ndim) == wrap_dim(dims[1], self.ndim):
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    return K.xp.rot90(self, k, dims).copy()


# -- copies -----------------------------------------------------------------------------------------------------------


@linear(same, contiguous=False, computes_half_in_float=False, samples=lambda: [case(floats(2, 3)), case(floats())])
def clone(K, self, *, memory_format: Any = None):
    """Return a copy with the same order of elements in memory, or with the given `memory_format`.

    Examples
    --------
    >>> x = gc.tensor([1.0, 2.0], requires_grad=True)
    >>> gc.clone(x)
    tensor([1., 2.], grad_fn=<CloneBackward0>)
    """
    return K.copy_elements(self, "K" if memory_format is None or "preserve" in str(memory_format) else "C")


@composite(function=False, samples=lambda: [case(floats(2, 3))])
def contiguous(F, self, memory_format: Any = None):
    """Return the tensor itself if it is contiguous in memory, else a contiguous copy."""
    return self if self.is_contiguous() else F.clone(self, memory_format="contiguous")


@linear(
    lambda F, grad, self_shape: F.reshape(grad, self_shape), contiguous=False, function=False, method=False,
    node="UnsafeViewBackward0", samples=lambda: [case(floats(2, 3), (3, 2)), case(floats(2, 3)), case(floats(0, 3))],
)  # fmt: skip
def unsafe_view(K, self, shape: Any = None):
    """Return `self`, which nothing else refers to, in another shape.

    It is no view for autograd, so that it may be detached in place.
    """
    return self.reshape(self.shape if shape is None else tuple(shape))


@composite(function=False, samples=lambda: [case(floats(2, 3), floats(2, 3))])
def type_as(F, self, other):
    """Return the tensor in the dtype and on the device of `other`."""
    return F.to(self, other)
