"""Reading and writing by tensors of indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradcore.core import dtypes
from gradcore.core.errors import warn
from gradcore.ops.declare.annotations import Indices, Ints, Number, Tensor
from gradcore.ops.declare.checks import check_fits, check_implemented, dtype_of, no_kernel
from gradcore.ops.declare.promotion import same_dtypes
from gradcore.ops.declare.samples import case, floats, ints
from gradcore.ops.declare.shapes import check_elements, wrap_dim
from gradcore.ops.declare.table import composite, constant, general, linear, same
from gradcore.ops.indexing.gather_scatter import REFUSED_BY, number_for, reduced_gradients, samples_of

# -- tuples of index tensors ------------------------------------------------------------------------------------------


@linear(
    lambda F, grad, self_shape, indices: F.index_backward(grad, self_shape, indices),
    computes_half_in_float=False,
    function=False,
    method=False,
)
def index(self, indices: Indices):
    """Return the elements at `indices`: integers or masks for some dims, None for the others."""


@linear(lambda F, grad, indices: F.index(grad, indices), computes_half_in_float=False, function=False, method=False)
def index_backward(self, shape: tuple[int, ...], indices: Indices):
    """Return zeros with `self` added at `indices`."""


@linear(
    self=lambda F, grad, indices, accumulate: (
        grad if accumulate else F.index_write(grad, F.new_zeros(grad, ()), indices, False)
    ),
    values=lambda F, grad, values_shape, indices: F.sum_to_size(F.index(grad, indices), values_shape),
    node="IndexPutBackward0",
    computes_half_in_float=False,
    function=False,
    method=False,
    saved={"values_sym_sizes": None},
)
def index_write(self, values, indices: Indices, accumulate: bool = False):
    """Return a copy with `values` at `indices`, or with `values` added there if `accumulate`."""


def _index_put_cases():
    import numpy as np

    return [
        case(floats(3, 4), (np.array([2, 0]),), floats(4)),
        case(floats(3, 4), (ints(5, high=3), ints(5, high=4)), floats(5), True),
        case(floats(3, 4), (ints(2, 1, high=3),), floats(), True),
        case(floats(3, 4), (np.arange(3) > 0,), floats(2, 4)),
    ]


BYTES = "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."


def check_mask(mask_shape: Sequence[int], dim: int, shape: Sequence[int]) -> None:
    """Raise an IndexError if a mask does not have the sizes of the dims from `dim` on of a tensor that it indexes."""
    for i, n in enumerate(mask_shape):
        if dim + i >= len(shape):
            raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
        if n != shape[dim + i]:
            raise IndexError(
                f"The shape of the mask {list(mask_shape)} at index {i} does not match the shape of the indexed tensor "
                f"{list(shape)} at index {dim + i}"
            )


def as_indices(F: Any, x: Tensor, indices: Any) -> tuple[Any, ...]:
    """Return index tensors of `x` as operations take them: byte tensors become bool masks.

    Raises
    ------
    IndexError
        If a tensor is of another dtype, or a mask does not have the sizes of the dims that it indexes.
    """
    results = []
    dim = 0
    for each in indices:
        if each is not None and each.dtype is dtypes.uint8:
            warn(BYTES)
            each = F.ne(each, 0)
        if each is not None and each.dtype is dtypes.bool_:
            check_mask(each.shape, dim, x.shape)
            dim += each.ndim
        elif each is None or each.dtype in (dtypes.int64, dtypes.int32):
            dim += 1
        else:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        results.append(each)
    return tuple(results)


def convert_values(F, x: Tensor, indices, values: Tensor, accumulate: bool) -> Tensor:
    """Return the values that are written into `x` at `indices`, in its dtype.

    A single number at a mask, the only index, is converted, because PyTorch writes it by `masked_fill`.

    Raises
    ------
    RuntimeError
        If other values are of another dtype.
    """
    if values.dtype is x.dtype:
        return values
    masks = [each.dtype is dtypes.bool_ for each in indices if each is not None]
    is_fill = masks == [True] and values.numel() == 1 and not accumulate
    if not is_fill or (values.dtype.is_complex and not x.dtype.is_complex):
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {x.dtype.scalar_name} for the "
            f"destination and {values.dtype.scalar_name} for the source."
        )
    return F.to(F.reshape(values, ()), x.dtype)


@composite(
    inplace=True,
    samples=_index_put_cases,
    autocast="widest:cuda",
)
def index_put(F, self, indices: Any, values, accumulate: bool = False):
    """Return a copy with `values` (broadcast) at the positions `indices`, or added there if `accumulate`.

    `indices` is a tuple of integer or bool tensors, one for each of the first dims.

    Examples
    --------
    >>> gc.index_put(gc.zeros(2, 2), (gc.tensor([0, 1]), gc.tensor([1, 0])), gc.tensor([5.0, 7.0]))
    tensor([[0., 5.],
            [7., 0.]])
    """
    indices = as_indices(F, self, indices)
    values = convert_values(F, self, indices, values, accumulate)
    if not indices and values.ndim > self.ndim:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of "
            f"shape {list(self.shape)}"
        )
    return F.index_write(self, values, indices, accumulate)


# -- a vector of indices along a dim ----------------------------------------------------------------------------------


def _index_along(dim, index):
    return (None,) * dim + (index,)


def _vector(x, dim, index, name):
    """Return `dim` counted from the front, and `index` as a vector of indices along it."""
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector")
    dtype = index.dtype
    if dtype.kind != "i" or dtype.itemsize < 4:
        raise RuntimeError(f"{name}(): Expected dtype int32 or int64 for index")
    return wrap_dim(dim, x.ndim), index if index.ndim else index.reshape(1)


def _to_rows(x):
    return x.reshape(1) if not x.ndim else x


@linear(
    lambda F, grad, self_shape, dim, index: _selected_backward(F, grad, self_shape, dim, index),
    computes_half_in_float=False,
    samples=lambda: [
        case(floats(3, 4), 0, ints(5, high=3)),
        case(floats(2, 3, 4), -1, ints(2, high=4)),
        case(floats(), 0, ints(1, high=1)),
        case(floats(3), 0, ints(0)),
        case(floats(3, 2), 0, ints(high=3)),
    ],
)
def index_select(K, self, dim: int, index):
    """Return the slices of a dim that a vector of indices names.

    Returns
    -------
    Tensor
        Result of size ``len(index)`` along `dim`.

    Examples
    --------
    >>> gc.index_select(gc.tensor([[1, 2], [3, 4], [5, 6]]), 0, gc.tensor([2, 0]))
    tensor([[5, 6],
            [1, 2]])
    """
    dim, index = _vector(self, dim, index, "index_select")
    if not self.ndim and index.size != 1:
        raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {index.size} value(s)")
    if not self.ndim:
        K.check_bounds(index, 1, dim)
        return self.copy()
    return K.taken_along(self, dim, index)


def _selected_backward(F, grad, shape, dim, index):
    if not shape:
        return grad
    dim = wrap_dim(dim, len(shape))
    index = F.reshape(index, (-1,))
    return F.index_backward(grad, shape, _index_along(dim, index))


def _check_source(x, dim, index, source, name):
    shape = x.shape
    if source.dtype is x.dtype and source.shape == (*shape[:dim], index.size, *shape[dim + 1 :]) and shape:
        return
    if source.dtype != x.dtype:
        names = [dtypes.from_numpy(a.dtype).scalar_name for a in (x, source)]
        raise RuntimeError(f"{name}(): self ({names[0]}) and source ({names[1]}) must have the same scalar type")
    may_differ = not (x.ndim and source.ndim) and (name == "index_copy_" or x.shape == (1,))
    if source.ndim != x.ndim and not may_differ:
        raise IndexError(
            f"{name}(): When source and destination are not scalars, their dimensionality must match. Source "
            f"dimensionality ({source.ndim}), destination dimensionality ({x.ndim})"
        )
    length = source.shape[dim] if source.ndim else 1
    if length != index.size:
        raise IndexError(
            f"{name}(): Number of indices ({index.size}) should be equal to source.size(dim): ({length}), "
            f"for dim: {dim}"
        )
    if source.shape[:dim] + source.shape[dim + 1 :] != x.shape[:dim] + x.shape[dim + 1 :]:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
            f"{list(x.shape)} source.shape = {list(source.shape)}"
        )


def _write_rows(K, x, dim, index, source, name, accumulate):
    dim, index = _vector(x, dim, index, name)
    _check_source(x, dim, index, source, name)
    rows = _to_rows(x)
    K.check_bounds(index, rows.shape[dim], dim)
    return K.index_write(rows, _to_rows(source), _index_along(dim, index), accumulate).reshape(x.shape)


def _vector_cases():
    return [
        case(floats(3, 4), 0, ints(2, high=3), floats(2, 4)),
        case(floats(2, 3), -1, ints(4, high=3), floats(2, 4)),
        case(floats(), 0, ints(1, high=1), floats()),
    ]


def _distinct_cases():
    import numpy as np

    return [
        case(floats(3, 4), 0, np.array([2, 0]), floats(2, 4)),
        case(floats(2, 3), -1, np.array([1]), floats(2, 1)),
        case(floats(), 0, np.array([0]), floats()),
        case(floats(), 0, np.array([0]), floats(1)),
        case(floats(3), 0, np.array([1]), floats()),
    ]


@linear(
    self=same,
    source=lambda F, grad, source_shape, dim, index, alpha: F.reshape(
        _scale(F.index_select(grad, dim, index), alpha), source_shape
    ),
    inplace=True,
    computes_half_in_float=False,
    samples=lambda: [*_vector_cases(), case(floats(3), 0, ints(4, high=3), floats(4), alpha=2)],
)
def index_add(K, self, dim: int, index, source, *, alpha: Number = 1):
    """Return a copy with ``alpha * source`` added to the slices of a dim that a vector of indices names.

    Examples
    --------
    >>> gc.index_add(gc.zeros(3), 0, gc.tensor([0, 0, 2]), gc.tensor([1.0, 2.0, 3.0]))
    tensor([3., 0., 3.])
    """
    dtype = dtypes.from_numpy(source.dtype)
    alpha = alpha if dtype.is_differentiable or not isinstance(alpha, int) else check_fits(alpha, dtype)
    return _write_rows(K, self, dim, index, _scale(source, alpha).astype(source.dtype, copy=False), "index_add_", True)


def _scale(x, alpha):
    return x if alpha == 1 else x * alpha


@linear(
    self=lambda F, grad, dim, index: F.index_fill_number(grad, dim, index, 0),
    source=lambda F, grad, source_shape, dim, index: F.reshape(F.index_select(grad, dim, index), source_shape),
    inplace=True,
    computes_half_in_float=False,
    samples=_distinct_cases,
    autocast="widest:cpu",
)
def index_copy(K, self, dim: int, index, source):
    """Return a copy with `source` instead of the slices of a dim that a vector of indices names.

    Examples
    --------
    >>> gc.index_copy(gc.zeros(3), 0, gc.tensor([2, 0]), gc.tensor([5.0, 7.0]))
    tensor([7., 0., 5.])
    """
    return _write_rows(K, self, dim, index, source, "index_copy_", False)


def _fill_rows(K, x, dim, index, value):
    if index.ndim > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    dim, index = _vector(x, dim, index, "index_fill_")
    return K.index_write(_to_rows(x), value, _index_along(dim, index), False).reshape(x.shape)


@general(
    self=lambda F, grad, dim, index: F.index_fill_number(grad, dim, index, 0),
    node="IndexFillBackward0",
    computes_half_in_float=False,
    function=False,
    method=False,
    saved={"value": None},
)
def index_fill_number(K, self, dim: int, index, value: Number):
    """Return a copy with a number in the slices of a dim that a vector of indices names."""
    return _fill_rows(K, self, dim, index, number_for(K, value, self))


index_fill_number.jvp("self")(lambda F, t, dim, index: F.index_fill_number(t, dim, index, 0))


@linear(
    self=lambda F, grad, dim, index: F.index_fill_number(grad, dim, index, 0),
    value=lambda F, grad, dim, index: F.sum(
        F.where(F.index_fill_number(F.zeros_like(grad), dim, index, 1) != 0, grad, 0)
    ),
    node="IndexFillBackward1",
    computes_half_in_float=False,
    function=False,
    method=False,
)
def index_fill_tensor(K, self, value, dim: int, index):
    """Return a copy with a 0-dim tensor in the slices of a dim that a vector of indices names."""
    if value.ndim:
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    return _fill_rows(K, self, dim, index, value.astype(self.dtype))


@composite(
    inplace=True,
    samples=lambda: [
        case(floats(3, 4), 0, ints(2, high=3), 1.5),
        case(floats(3, 4), 1, ints(2, high=4), floats()),
        case(floats(), 0, ints(1, high=1), 2),
    ],
)
def index_fill(F, self, dim: int, index, value):
    """Return a copy with a value (a number or a 0-dim tensor) in the slices of a dim that a vector of indices names.

    Examples
    --------
    >>> gc.index_fill(gc.zeros(3), 0, gc.tensor([2, 0]), 7)
    tensor([7., 0., 7.])
    """
    if F.is_tensor(value):
        return F.index_fill_tensor(self, value, dim, index)
    return F.index_fill_number(self, dim, index, value)


def _repeat_index(F, dim, index, shape):
    """Return a vector of indices along a dim, repeated for every element of a tensor of `shape`."""
    dim = wrap_dim(dim, len(shape))
    return F.expand(F.reshape(index, [-1 if d == dim else 1 for d in range(len(shape))]), shape)


@general(
    inplace=True,
    samples=lambda: samples_of(_vector_cases(), ("prod", "mean", "amax", "amin")),
    keeps_dtype=("index",),
    mixed=same_dtypes("index_reduce_(): self ({self}) and source ({source}) must have the same scalar type"),
)
def index_reduce(K, self, dim: int, index, source, reduce: str, *, include_self: bool = True):
    """Return the slices of a dim that a vector of indices names, reduced with those of `source`.

    `reduce` is ``'prod'``, ``'mean'``, ``'amax'`` or ``'amin'``; with ``include_self=False`` the previous elements of
    the slices are ignored.

    Examples
    --------
    >>> gc.index_reduce(gc.ones(2), 0, gc.tensor([0, 0, 1]), gc.tensor([2.0, 3.0, 4.0]), "prod")
    tensor([6., 4.])
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    check_implemented("index_func_", self, REFUSED_BY.get(reduce, ""))
    dim, index = _vector(self, dim, index, "index_reduce_")
    _check_source(self, dim, index, source, "index_reduce_")
    rows, source = _to_rows(self), _to_rows(source)
    K.check_bounds(index, rows.shape[dim], dim)
    places = _repeat_index(K, dim, index, source.shape)
    return K.reduced_along(rows, dim, places, source, reduce, include_self).reshape(self.shape)


@index_reduce.vjp("self", "source")
def _(F, grad, self, source, result, dim, index, reduce, include_self):
    places = _repeat_index(F, dim, index, source.shape) if source.ndim else F.reshape(index, ())
    return reduced_gradients(F, grad, self, dim, places, source, result, reduce, include_self)


# -- places where something holds -------------------------------------------------------------------------------------


@constant(constant="results are indices", data_dependent=True, function=False, method=False)
def nonzero_rows(K, self):
    """Return the indices of the nonzero elements as rows."""
    return K.xp.argwhere(self)


@composite(
    data_dependent=True,
    samples=lambda: [case(floats(2, 3)), case(floats(3), as_tuple=True), case(floats())],
    overloads=(("*, as_tuple: Literal[False] = ...", "Tensor"), ("*, as_tuple: Literal[True]", "tuple[Tensor, ...]")),
)
def nonzero(F, input, *, as_tuple: bool = False):
    """Return the indices of the nonzero elements as rows, or with `as_tuple` as one vector for each dim.

    Returns
    -------
    Tensor
        Result of shape ``(count, ndim)``; or a tuple of `ndim` tensors of shape ``(count,)``.

    Examples
    --------
    >>> gc.nonzero(gc.tensor([[0, 1], [2, 0]]))
    tensor([[0, 1],
            [1, 0]])
    >>> gc.nonzero(gc.tensor([0, 1, 2]), as_tuple=True)
    (tensor([1, 2]),)
    """
    if not as_tuple:
        return F.nonzero_rows(input)
    return F.unbind(F.nonzero_rows(input if input.ndim else F.reshape(input, (1,))), 1)


@composite(data_dependent=True, samples=lambda: [case(floats(2, 3))])
def argwhere(F, input):
    """Return the indices of the nonzero elements as rows.

    Returns
    -------
    Tensor
        Result of shape ``(count, ndim)``.

    Examples
    --------
    >>> gc.argwhere(gc.tensor([[0, 1], [2, 0]]))
    tensor([[0, 1],
            [1, 0]])
    """
    return F.nonzero_rows(input)


@composite(samples=lambda: [case(floats(2, 3, form="zeros"), size=4), case(floats(3), size=2), case(floats(), size=2)])
def nonzero_static(F, input, *, size: int, fill_value: int = -1):
    """Return the indices of the first `size` nonzero elements as rows, filled up with `fill_value`.

    The shape of the result does not depend on the elements, so the host need not wait for them.

    Returns
    -------
    Tensor
        Result of shape ``(size, ndim)``.

    Examples
    --------
    >>> gc.nonzero_static(gc.tensor([0, 1, 2]), size=3)
    tensor([[ 1],
            [ 2],
            [-1]])
    """
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    is_nonzero = F.reshape(input != 0, (-1,))
    place = F.cumsum(is_nonzero, 0) - 1
    place = F.where(is_nonzero & (place < size), place, size)
    positions = F.places_until(place, place.shape[0])
    first = F.scatter(F.new_zeros(place, (size + 1,)) - 1, 0, place, positions)[:size]
    if not input.ndim:
        return F.reshape(first, (size, 1))[:, :0]
    rows = F.stack(F.unravel_index(F.clamp(first, 0), tuple(input.shape)), 1)
    return F.where(F.unsqueeze(first < 0, 1), fill_value, rows)


@composite(method=False, samples=lambda: [case(ints(2, 3, high=12), (3, 4)), case(ints(), 5), case(ints(2), (3, 2, 1))])
def unravel_index(F, indices, shape: Ints):
    """Return the indices into each dim, as a tuple, of elements given by their flat index.

    Returns
    -------
    tuple of Tensor
        A tensor of the shape of `indices` for each dim.

    Examples
    --------
    >>> gc.unravel_index(gc.tensor([3, 5]), (2, 3))
    (tensor([1, 1]), tensor([0, 2]))
    """
    if indices.dtype.category != 1:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    lengths = (shape,) if isinstance(shape, int) else shape
    if any(length < 0 for length in lengths):
        raise ValueError(f"'shape' cannot have negative values, but got {lengths}")
    coordinates, indices = [], F.to(indices, dtypes.int64)
    for length in reversed(lengths):
        coordinates.append(F.remainder(indices, length) if length else indices)
        indices = F.div(indices, length, rounding_mode="floor") if length else indices
    return tuple(reversed(coordinates))


# -- repeated elements ------------------------------------------------------------------------------------------------


@constant(constant="tensors are of integers", data_dependent=True, function=False, method=False)
def repeated_places(K, self):
    """Return each position as often as the element at it says: ``[2, 1]`` gives ``[0, 0, 1]``."""
    if self.ndim != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    dtype = dtype_of(self)
    if dtype not in (dtypes.int64, dtypes.int32):
        raise no_kernel("repeat_interleave", dtype)
    if not self.size:
        return K.xp.zeros(0, self.dtype)
    if int(K.xp.amin(self)) < 0:
        raise RuntimeError("repeats can not be negative")
    if float(self.sum(dtype="float64")) > 2**62:
        raise RuntimeError(
            "Storage size calculation overflowed: repeat_interleave() repeats more than any memory holds"
        )
    return K.places_repeated_to(self, int(self.sum()))


@constant(constant="tensors are of integers", function=False, method=False)
def places_repeated_to(K, self, size: int):
    """Return the result of `repeated_places` where its `size` is known, so that the host need not wait for it."""
    return K.xp.searchsorted(K.xp.cumsum(self), K.xp.arange(size), side="right").astype(self.dtype, copy=False)


@composite(
    data_dependent=True,
    samples=lambda: [
        case(floats(2, 3), 2),
        case(floats(2, 3), 2, dim=-1),
        case(floats(3, 2), ints(3, high=3), dim=0),
        case(floats(), 3),
    ],
)
def repeat_interleave(F, input, repeats=None, dim: int | None = None, *, output_size: int | None = None):
    """Repeat every slice of a dim, or every element without `dim`, as often as `repeats` says.

    With `input` alone, a vector of counts, return the index of each count, repeated as often as the count says.

    Examples
    --------
    >>> gc.repeat_interleave(gc.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])
    >>> gc.repeat_interleave(gc.tensor([1, 2]), gc.tensor([1, 3]))
    tensor([1, 2, 2, 2])
    """
    if repeats is None:
        return F.repeated_places(input)
    if dim is None:
        input, dim = F.reshape(input, (-1,)), 0
    elif not input.ndim:
        input = F.reshape(input, (1,))
    dim = wrap_dim(dim, input.ndim)
    if not F.is_tensor(repeats):
        if repeats < 0:
            raise RuntimeError("Repeats must be non-negative")
        shape = (*input.shape[: dim + 1], repeats, *input.shape[dim + 1 :])
        check_elements(shape)
        out = F.flatten(F.clone(F.expand(F.unsqueeze(input, dim + 1), shape), memory_format="contiguous"), dim, dim + 1)
    else:
        repeats = F.reshape(repeats, (-1,)) if not repeats.ndim else repeats
        if repeats.shape[0] == 1 and repeats.ndim == 1:
            repeats = F.expand(repeats, (input.shape[dim],))
        if repeats.ndim == 1 and repeats.shape[0] != input.shape[dim]:
            raise RuntimeError(
                "repeats must have the same size as input along dim, but got repeats.size(0) = "
                f"{repeats.shape[0]} and input.size({dim}) = {input.shape[dim]}"
            )
        size_is_known = output_size is not None and repeats.device.type != "cpu"
        places = F.places_repeated_to(repeats, output_size) if size_is_known else F.repeated_places(repeats)
        out = F.index_select(input, dim, places)
    if output_size is not None and out.shape[dim] != output_size:
        raise RuntimeError(f"repeat_interleave: Invalid output_size, expected {out.shape[dim]} but got {output_size}")
    return out
