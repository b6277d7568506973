"""Joining tensors, and splitting a tensor."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from gradcore.backends.portable.host_tables import count_combinations, list_combinations
from gradcore.core.errors import warn_once
from gradcore.ops.declare.annotations import Arrays, Ints, Tensor
from gradcore.ops.declare.geometry import broadcast_shape, each
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.shapes import check_count, check_elements, wrap_dim
from gradcore.ops.declare.table import composite, linear

# -- joins ------------------------------------------------------------------------------------------------------------


def _is_skipped(shape):
    """Return whether `shape` is that of an empty vector, which can be joined with tensors of any shape."""
    return tuple(shape) == (0,)


def _check_joinable(shapes, dim):
    for i, shape in enumerate(shapes):
        if not shape:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    rest = [(i, s) for i, s in enumerate(shapes) if not _is_skipped(s)]
    first = rest[0][1] if rest else ()
    for i, shape in rest:
        if len(shape) != len(first):
            raise RuntimeError(f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}")
        for d, (a, b) in enumerate(zip(first, shape, strict=True)):
            if d != dim and a != b:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size {a} but got size {b} for "
                    f"tensor number {i} in the list."
                )


def _pieces(F, grad, shapes, dim):
    """Return the parts of a joined gradient that belong to tensors of the given shapes."""
    joined_shapes = [s for s in shapes if not _is_skipped(s)]
    if not joined_shapes:
        return [grad] * len(shapes)
    dim = wrap_dim(dim, len(joined_shapes[0]))
    starts = itertools.accumulate((0 if _is_skipped(s) else s[dim] for s in shapes[:-1]), initial=0)
    return [
        F.new_zeros(grad, s)
        if _is_skipped(s) and len(joined_shapes[0]) > 1
        else F.slice_of(grad, dim, start, start + s[dim])
        for s, start in zip(shapes, starts, strict=True)
    ]


@linear(
    tensors=lambda F, grad, tensors_shape, dim: _pieces(F, grad, tensors_shape, dim),
    aliases=("concat", "concatenate"),
    method=False,
    computes_half_in_float=False,
    samples=lambda: [
        case([floats(2, 3), floats(1, 3)]),
        case([floats(2, 3), floats(2, 0), floats(2, 2)], dim=-1),
        case([floats(0), floats(2, 3)]),
        case([floats(4)]),
    ],
    autocast="widest:cpu",
    saved={"tensors_sym_sizes": None},
    if_empty="torch.cat(): expected a non-empty list of Tensors",
)
def cat(K, tensors: Arrays, dim: int = 0):
    """Concatenate tensors along `dim`.

    Returns
    -------
    Tensor
        Result as large along `dim` as all tensors together.

    Examples
    --------
    >>> gc.cat([gc.tensor([1, 2]), gc.tensor([3])])
    tensor([1, 2, 3])
    """
    try:
        return K.join_arrays(tensors, wrap_dim(dim, tensors[0].ndim))
    except (IndexError, TypeError, ValueError):  # CuPy raises a TypeError for 0-dim arrays
        return _joined_with_care(K, tensors, dim)


def _joined_with_care(K, tensors, dim):
    """Concatenate tensors that the array library refused: drop empty vectors, or raise."""
    joined = [x for x in K.alike(tensors) if not _is_skipped(x.shape)] or tensors
    dim = wrap_dim(dim, joined[0].ndim)
    _check_joinable([x.shape for x in tensors], dim)
    return K.join_arrays(joined, dim)


@linear(
    tensors=lambda F, grad, dim: F.unbind(grad, dim),
    method=False,
    computes_half_in_float=False,
    samples=lambda: [case([floats(2, 3), floats(2, 3)]), case([floats(2), floats(2)], dim=-1), case([floats()])],
    autocast="widest:cpu",
)
def stack(K, tensors: Arrays, dim: int = 0):
    """Stack tensors of one shape along a new dim.

    Returns
    -------
    Tensor
        Result with a new dim of size ``len(tensors)``.

    Examples
    --------
    >>> gc.stack([gc.tensor([1, 2]), gc.tensor([3, 4])], dim=1)
    tensor([[1, 3],
            [2, 4]])
    """
    first = tensors[0].shape
    dim = wrap_dim(dim, len(first) + 1)
    shape = (*first[:dim], 1, *first[dim:])
    for i, x in enumerate(tensors):
        if x.shape != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 and {list(x.shape)} at "
                f"entry {i}"
            )
    return K.join_arrays([x.reshape(shape) for x in tensors], dim)


@composite(
    method=False,
    samples=lambda: [case([floats(2), floats(3)]), case([floats(2, 1), floats(2, 3)]), case([floats(), floats()])],
)
def hstack(F, tensors: Arrays):
    """Concatenate tensors along the second dim, and vectors along their only dim.

    Examples
    --------
    >>> gc.hstack([gc.tensor([1, 2]), gc.tensor([3])])
    tensor([1, 2, 3])
    """
    tensors = F.atleast_1d(tensors)
    return F.cat(tensors, 0 if tensors and tensors[0].ndim == 1 else 1)


@composite(
    method=False,
    aliases=("row_stack",),
    samples=lambda: [case([floats(2), floats(2)]), case([floats(1, 2), floats(3, 2)])],
)
def vstack(F, tensors: Arrays):
    """Concatenate tensors along the first dim; vectors are rows.

    Examples
    --------
    >>> gc.vstack([gc.tensor([1, 2]), gc.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    return F.cat(F.atleast_2d(tensors), 0)


@composite(method=False, samples=lambda: [case([floats(2), floats(2)]), case([floats(2, 3), floats(2, 3)])])
def dstack(F, tensors: Arrays):
    """Concatenate tensors along the third dim.

    Examples
    --------
    >>> gc.dstack([gc.tensor([1, 2]), gc.tensor([3, 4])])
    tensor([[[1, 3],
             [2, 4]]])
    """
    return F.cat(F.atleast_3d(tensors), 2)


@composite(method=False, samples=lambda: [case([floats(2), floats(2, 2)]), case([floats(), floats()])])
def column_stack(F, tensors: Arrays):
    """Concatenate tensors along the second dim; vectors are columns.

    Examples
    --------
    >>> gc.column_stack([gc.tensor([1, 2]), gc.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    return F.hstack(
        [F.reshape(x, (math.prod(x.shape), 1)) if x.ndim <= 1 else x for x in _as_list_of_tensors(F, tensors)]
    )


def _blocks_of(F, grad, shapes):
    shapes = [_as_matrix(s) for s in shapes]
    rows = itertools.accumulate((s[0] for s in shapes), initial=0)
    columns = itertools.accumulate((s[1] for s in shapes), initial=0)
    return [
        F.slice_of(F.slice_of(grad, 0, i, i + m), 1, j, j + n)
        for (m, n), i, j in zip(shapes, rows, columns, strict=False)
    ]


def _as_matrix(shape):
    return (1,) * (2 - len(shape)) + tuple(shape)


@linear(
    tensors=lambda F, grad, tensors_shape: [
        F.reshape(g, s) for g, s in zip(_blocks_of(F, grad, tensors_shape), tensors_shape, strict=True)
    ],
    computes_half_in_float=False,
    method=False,
    varargs=True,
    samples=lambda: [case([floats(2, 3), floats(), floats(2), floats(0, 1)])],
)
def block_diag(K, tensors: Arrays):
    """Return a matrix with the given matrices along its diagonal, and zeros elsewhere.

    Returns
    -------
    Tensor
        Result of the summed sizes of the matrices.

    Examples
    --------
    >>> gc.block_diag(gc.tensor([[1, 2]]), gc.tensor([[3], [4]]))
    tensor([[1, 2, 0],
            [0, 0, 3],
            [0, 0, 4]])
    """
    for i, x in enumerate(tensors):
        if x.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {x.ndim} dimensions"
            )
    return K.block_diagonal([x.reshape(_as_matrix(x.shape)) for x in tensors])


# -- splits -----------------------------------------------------------------------------------------------------------


def _split_node(split_size_or_sections):
    return "SplitBackward0" if hasattr(split_size_or_sections, "__index__") else "SplitWithSizesBackward0"


def _sections(size, split, dim):
    """Return the sizes of the pieces of a dim of that size."""
    if hasattr(split, "__index__"):
        split = each(split)[0]
        if split < 0:
            raise RuntimeError(f"split expects split_size be non-negative, but got split_size={split}")
        if not split:
            if size:
                raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}")
            return (0,)
        check_count("split", -(-size // split))
        return tuple(min(split, size - start) for start in range(0, max(size, 1), split))
    split = each(split)
    if any(n < 0 for n in split):
        raise RuntimeError(
            f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={list(split)}"
        )
    if sum(split) != size:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at dimension {dim}), "
            f"but got split_sizes={list(split)}"
        )
    return split


@linear(
    lambda F, grads, dim: F.cat(grads, dim),
    view=True,
    variadic=True,
    node=_split_node,
    samples=lambda: [
        case(floats(5, 2), 2),
        case(floats(2, 5), (1, 4), dim=-1),
        case(floats(0, 2), 3),
        case(floats(3), 5),
    ],
    saved=lambda node: {"split_size" if node == "SplitBackward0" else "split_sizes": "split_size_or_sections"},
    also={"split_size": "split_size_or_sections"},
)
def split(K, tensor, split_size_or_sections: Ints, dim: int = 0):
    """Return views of the pieces of a dim: of one size (the last may be smaller), or of the sizes in a sequence.

    Examples
    --------
    >>> gc.split(gc.arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    if not tensor.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    dim = wrap_dim(dim, tensor.ndim)
    sections = _sections(tensor.shape[dim], split_size_or_sections, dim)
    lead = (slice(None),) * dim
    return [
        tensor[(*lead, slice(start, start + n))]
        for n, start in zip(sections, itertools.accumulate(sections, initial=0), strict=False)
    ]


@composite(samples=lambda: [case(floats(5, 2), (2, 3))])
def split_with_sizes(F, self, split_sizes: Sequence[int], dim: int = 0):
    """Return views of the pieces of a dim of these sizes.

    Examples
    --------
    >>> gc.split_with_sizes(gc.arange(5), [1, 4])
    (tensor([0]), tensor([1, 2, 3, 4]))
    """
    return F.split(self, tuple(split_sizes), dim)


def _chunk_sizes(x, chunks, dim):
    """Return the sizes of at most `chunks` pieces of a dim."""
    if not x.ndim:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = x.shape[wrap_dim(dim, x.ndim)]
    check_count("chunk", chunks if not size else min(chunks, size))
    return -(-size // chunks) or (0,) * chunks


@composite(samples=lambda: [case(floats(5, 2), 2), case(floats(2, 3), 5, dim=1)])
def chunk(F, self, chunks: int, dim: int = 0):
    """Return views of at most `chunks` pieces of a dim, all but the last of one size.

    Examples
    --------
    >>> gc.chunk(gc.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    return F.split(self, _chunk_sizes(self, chunks, dim), dim)


@linear(
    lambda F, grads, dim: F.cat(grads, dim),
    contiguous=False,
    variadic=True,
    node=lambda split_size: f"Unsafe{_split_node(split_size)}",
    samples=lambda: [case(floats(5, 2), 2), case(floats(2, 5), (1, 4), dim=-1)],
    saved=lambda node: {"split_sizes": "split_size"} if node == "UnsafeSplitWithSizesBackward0" else {},
)
def unsafe_split(K, tensor, split_size: Ints, dim: int = 0):
    """Split like `split`, into pieces that may be modified in place.

    The pieces share memory, but autograd treats them as results, not as views.

    Writes to a piece are not detected where backward needs the tensor itself, or another view of it.

    Examples
    --------
    >>> gc.unsafe_split(gc.arange(4), 2)
    (tensor([0, 1]), tensor([2, 3]))
    """
    return K.split(tensor, split_size, dim)


@composite(samples=lambda: [case(floats(5, 2), (2, 3))])
def unsafe_split_with_sizes(F, self, split_sizes: Sequence[int], dim: int = 0):
    """Split like `split_with_sizes`, into pieces that may be modified in place, see `unsafe_split`.

    Examples
    --------
    >>> gc.unsafe_split_with_sizes(gc.arange(4), [1, 3])
    (tensor([0]), tensor([1, 2, 3]))
    """
    return F.unsafe_split(self, tuple(split_sizes), dim)


@composite(samples=lambda: [case(floats(5, 2), 2)])
def unsafe_chunk(F, input, chunks: int, dim: int = 0):
    """Split like `chunk`, into pieces that may be modified in place, see `unsafe_split`.

    Examples
    --------
    >>> gc.unsafe_chunk(gc.arange(4), 2)
    (tensor([0, 1]), tensor([2, 3]))
    """
    return F.unsafe_split(input, _chunk_sizes(input, chunks, dim), dim)


@linear(
    lambda F, grads, dim: F.stack(grads, dim),
    view=True,
    variadic=True,
    samples=lambda: [case(floats(3, 2)), case(floats(2, 3), dim=-1), case(floats(2, 0), dim=0)],
)
def unbind(K, self, dim: int = 0):
    """Return views of the slices along a dim, without that dim.

    Examples
    --------
    >>> gc.unbind(gc.tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))
    """
    if not self.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    dim = wrap_dim(dim, self.ndim)
    check_count("unbind", self.shape[dim])
    lead = (slice(None),) * dim
    return [self[(*lead, i, ...)] for i in range(self.shape[dim])]


def _bounds(size, split):
    """Return the start and end of each piece of a dim."""
    if hasattr(split, "__index__"):
        sections = each(split)[0]
        if sections <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {sections}")
        check_count("tensor_split", sections)
        small, larger = divmod(size, sections)
        ends = list(itertools.accumulate(small + (i < larger) for i in range(sections)))
    else:
        ends = [*each(split), size]
    return list(zip([0, *ends[:-1]], ends, strict=True))


@composite(
    samples=lambda: [case(floats(5, 2), 2), case(floats(2, 5), (1, 3), dim=1), case(floats(3), (2, 5, -1))],
    also={
        "sections": "indices_or_sections",
        "indices": "indices_or_sections",
        "tensor_indices_or_sections": "indices_or_sections",
    },
)
def tensor_split(F, self, indices_or_sections: Tensor | Ints, dim: int = 0):
    """Return views of pieces of a dim: a number of nearly equal pieces, or the pieces between given indices.

    Examples
    --------
    >>> gc.tensor_split(gc.arange(5), 3)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    if not self.ndim:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    dim = wrap_dim(dim, self.ndim)
    if F.is_tensor(indices_or_sections):
        indices_or_sections = _split_points(indices_or_sections)
    return tuple(F.slice_of(self, dim, start, end) for start, end in _bounds(self.shape[dim], indices_or_sections))


def _split_points(points):
    if points.ndim > 1:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, "
            f"but got a tensor with {points.ndim} dims"
        )
    if str(points.dtype) != "torch.int64":
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to have dtype of long, but got " + str(points.dtype)
        )
    return points.tolist()


def _split_along(F, self, name, split, dim, least):
    """Return the pieces of a tensor for `hsplit`, `vsplit` and `dsplit`."""
    if self.ndim < least:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {self.ndim} "
            "dimensions!"
        )
    if hasattr(split, "__index__") and (not split or self.shape[dim] % split):
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension {self.shape[dim]} "
            f"is not divisible by the split_size {split}!"
        )
    return F.tensor_split(self, split, dim)


@composite(
    samples=lambda: [case(floats(4), 2), case(floats(2, 4), (1, 3))],
    also={"sections": "indices_or_sections", "indices": "indices_or_sections"},
)
def hsplit(F, self, indices_or_sections: Ints):
    """Return views of the pieces of the second dim, or of the only dim of a vector.

    Examples
    --------
    >>> gc.hsplit(gc.arange(4).reshape(2, 2), 2)
    (tensor([[0],
            [2]]), tensor([[1],
            [3]]))
    """
    return _split_along(F, self, "hsplit", indices_or_sections, 0 if self.ndim == 1 else 1, 1)


@composite(
    samples=lambda: [case(floats(4, 2), 2)], also={"sections": "indices_or_sections", "indices": "indices_or_sections"}
)
def vsplit(F, self, indices_or_sections: Ints):
    """Return views of the pieces of the first dim.

    Examples
    --------
    >>> gc.vsplit(gc.arange(4).reshape(2, 2), 2)
    (tensor([[0, 1]]), tensor([[2, 3]]))
    """
    return _split_along(F, self, "vsplit", indices_or_sections, 0, 2)


@composite(
    samples=lambda: [case(floats(1, 2, 4), 2)],
    also={"sections": "indices_or_sections", "indices": "indices_or_sections"},
)
def dsplit(F, self, indices_or_sections: Ints):
    """Return views of the pieces of the third dim.

    Examples
    --------
    >>> [t.shape for t in gc.dsplit(gc.zeros(2, 2, 4), 2)]
    [torch.Size([2, 2, 2]), torch.Size([2, 2, 2])]
    """
    return _split_along(F, self, "dsplit", indices_or_sections, 2, 3)


# -- several tensors to one shape -------------------------------------------------------------------------------------


def _as_list_of_tensors(F, tensors):
    """Return tensors, given singly or as one sequence, as a list."""
    if tensors.__class__ is tuple or tensors.__class__ is list:  # checks of abstract classes take longer
        result = list(tensors)
    else:
        result = [tensors] if F.is_tensor(tensors) or not isinstance(tensors, Iterable) else list(tensors)
    for i, x in enumerate(result):
        if not hasattr(x, "ndim"):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type(x).__name__}")
    return result


def _map_tensors(F, tensors, function):
    """Return `function` of one tensor, or a tuple of its results for several."""
    return function(tensors) if F.is_tensor(tensors) else tuple(map(function, _as_list_of_tensors(F, tensors)))


@composite(method=False, varargs=True, samples=lambda: [case([floats(), floats(2)]), case(floats())])
def atleast_1d(F, tensors: Arrays):
    """Return tensors with at least one dim.

    Examples
    --------
    >>> gc.atleast_1d(gc.tensor(1.0))
    tensor([1.])
    """
    return _map_tensors(F, tensors, lambda x: x if x.ndim else F.reshape(x, (1,)))


@composite(method=False, varargs=True, samples=lambda: [case([floats(), floats(2)]), case(floats(2, 3))])
def atleast_2d(F, tensors: Arrays):
    """Return tensors with at least two dims; vectors become rows.

    Examples
    --------
    >>> gc.atleast_2d(gc.tensor([1.0, 2.0]))
    tensor([[1., 2.]])
    """
    return _map_tensors(
        F, tensors, lambda x: F.reshape(x, (1, 1)) if not x.ndim else F.unsqueeze(x, 0) if x.ndim == 1 else x
    )


@composite(
    method=False, varargs=True, samples=lambda: [case([floats(), floats(2), floats(2, 3)]), case(floats(1, 2, 3))]
)
def atleast_3d(F, tensors: Arrays):
    """Return tensors with at least three dims; vectors get a dim in front and one at the end.

    Returns
    -------
    Tensor
        Result of at least three dims.

    Examples
    --------
    >>> gc.atleast_3d(gc.tensor([1.0, 2.0])).shape
    torch.Size([1, 2, 1])
    """

    def grown(x):
        if not x.ndim:
            return F.reshape(x, (1, 1, 1))
        if x.ndim == 1:
            return F.unsqueeze(F.unsqueeze(x, 0), -1)
        return F.unsqueeze(x, -1) if x.ndim == 2 else x

    return _map_tensors(F, tensors, grown)


@composite(method=False, varargs=True, samples=lambda: [case([floats(3, 1), floats(4)])])
def broadcast_tensors(F, tensors: Arrays):
    """Return views of the tensors, expanded to their common shape.

    Returns
    -------
    tuple of Tensor
        All of the shape to which they broadcast.

    Examples
    --------
    >>> gc.broadcast_tensors(gc.tensor([1, 2]), gc.tensor([[3], [4]]))
    (tensor([[1, 2],
            [1, 2]]), tensor([[3, 3],
            [4, 4]]))
    """
    tensors = _as_list_of_tensors(F, tensors)
    shape = broadcast_shape([x.shape for x in tensors])
    return tuple(F.expand(x, shape) for x in tensors)


@composite(
    method=False,
    varargs=True,
    samples=lambda: [case([floats(2), floats(3)], indexing=each) for each in ("ij", "xy")],
)
def meshgrid(F, tensors: Arrays, *, indexing: str | None = None):
    """Return the grid that vectors span: each of them expanded along the dims of the others.

    With ``indexing="xy"`` the first two dims of the grid are exchanged.

    Returns
    -------
    tuple of Tensor
        All of shape ``(len(tensors[0]), len(tensors[1]), ...)``.

    Examples
    --------
    >>> gc.meshgrid(gc.tensor([1, 2]), gc.tensor([3, 4]), indexing="ij")
    (tensor([[1, 1],
            [2, 2]]), tensor([[3, 4],
            [3, 4]]))
    """
    tensors = _as_list_of_tensors(F, tensors)
    if indexing is None:
        warn_once(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument. It is 'ij' "
            "now; NumPy's is 'xy'."
        )
        indexing = "ij"
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if len({x.dtype for x in tensors}) > 1:
        raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    for x in tensors:
        if x.ndim > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {x}")
    n, sizes = len(tensors), [math.prod(x.shape) for x in tensors]
    grids = [
        F.expand(F.view_shape(x, [size if i == k else 1 for k in range(n)]), sizes)
        for i, (x, size) in enumerate(zip(tensors, sizes, strict=True))
    ]
    return tuple(F.transpose(g, 0, 1) for g in grids) if indexing == "xy" and n > 1 else tuple(grids)


@composite(method=False, varargs=True, samples=lambda: [case([floats(2), floats(3)]), case([floats(2)])])
def cartesian_prod(F, tensors: Arrays):
    """Return all combinations of one element from each vector, as rows.

    Returns
    -------
    Tensor
        Result of shape ``(number of combinations, len(tensors))``.

    Examples
    --------
    >>> gc.cartesian_prod(gc.tensor([1, 2]), gc.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    tensors = _as_list_of_tensors(F, tensors)
    for x in tensors:
        if x.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(x.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return F.stack([F.flatten(g) for g in F.meshgrid(tensors, indexing="ij")], 1)


@composite(samples=lambda: [case(floats(4)), case(floats(3), 2, True), case(floats(3), 1)])
def combinations(F, input, r: int = 2, with_replacement: bool = False):
    """Return all combinations of `r` elements of a vector, as rows.

    Returns
    -------
    Tensor
        Result of shape ``(number of combinations, r)``.

    Examples
    --------
    >>> gc.combinations(gc.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if not r:
        return F.new_zeros(input, (0,))
    size = input.shape[0]
    rows = count_combinations(size + r - 1 if with_replacement and size else size, r)
    check_elements((rows, r))
    positions = F.index_tensor(list_combinations(size, r, with_replacement, rows).reshape(-1), input)
    return F.unsafe_view(F.index_select(input, 0, positions), (rows, r))
