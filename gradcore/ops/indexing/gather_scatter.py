"""Indexing by one index per element: gather, scatter and their relatives."""

from __future__ import annotations

import math

from gradcore.core import dtypes
from gradcore.core.errors import warn_once
from gradcore.ops.declare.annotations import Number
from gradcore.ops.declare.checks import check_fits, check_implemented, overflow
from gradcore.ops.declare.geometry import broadcast_shape
from gradcore.ops.declare.promotion import same_dtypes
from gradcore.ops.declare.samples import case, floats, ints
from gradcore.ops.declare.shapes import wrap_dim
from gradcore.ops.declare.table import composite, general, linear, same

# -- gather and scatter -----------------------------------------------------------------------------------------------


def _check_dim_and_index(name, x, dim, index, src=None):
    """Check shapes and dtypes of a gather or scatter, and return `dim` counted from the front."""
    dtype = index.dtype
    if (dtype.kind != "i" or dtype.itemsize < 4) and index.size:
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    dim = wrap_dim(dim, x.ndim)
    if not index.size:
        return dim
    if (x.ndim or 1) != (index.ndim or 1):
        kind = "input" if name == "gather" else "self"
        raise RuntimeError(f"Index tensor must have the same number of dimensions as {kind} tensor")
    shape = x.shape or (1,)
    small = index.shape == shape or not _exceeds(index.shape, shape, dim)
    if src is None:
        if not small:
            raise RuntimeError(
                f"Size does not match at dimension {dim} expected index {list(index.shape)} to be no larger than self "
                f"{list(x.shape)} apart from dimension {dim}"
            )
        return dim
    if src.dtype != x.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
    if (src.ndim or 1) != (index.ndim or 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    if not small or (index.shape != src.shape and _exceeds(index.shape, src.shape or (1,))):
        raise RuntimeError(
            f"Expected index {list(index.shape)} to be no larger than self {list(x.shape)} apart from dimension {dim} "
            f"and to be no larger size than src {list(src.shape)}"
        )
    return dim


def _exceeds(sizes, limits, exempt=None):
    """Return whether any of `sizes` exceeds that of `limits` along the same dim; `exempt` is a dim that may."""
    exceeds = False
    for d, n in enumerate(sizes):  # a loop takes half of the time of `any`
        exceeds = exceeds or (d != exempt and n > limits[d])
    return exceeds


def _cut(F, x, shape):
    """Return `x` cut to the shape of an index tensor."""
    return x if tuple(x.shape) == tuple(shape) else F.getitem(x, tuple(slice(n) for n in shape))


def _pad_with_zeros(F, grad, shape):
    """Pad the gradient of a tensor that `_cut` returned with zeros, to the `shape` of the tensor that was cut."""
    if tuple(grad.shape) == tuple(shape):
        return grad
    if not shape or not grad.ndim:
        return F.reshape(grad, shape) if math.prod(grad.shape) else F.new_zeros(grad, shape)
    return F.getitem_backward(grad, shape, tuple(slice(n) for n in grad.shape))


@linear(
    lambda F, grad, self_shape, dim, index: F.gather_backward(grad, self_shape, dim, index),
    computes_half_in_float=False,
    samples=lambda: [
        case(floats(3, 4), 0, ints(2, 3, high=3)),
        case(floats(2, 3), -1, ints(2, 5, high=3)),
        case(floats(2, 3), 1, ints(1, 2, high=3)),
        case(floats(), 0, ints(high=1)),
        case(floats(2, 3), 0, ints(0, 3)),
    ],
)
def gather(K, self, dim: int, index, *, sparse_grad: bool = False):
    """Return the elements that `index` names along a dim: for dim 0 ``out[i, j] = input[index[i, j], j]``.

    Returns
    -------
    Tensor
        Result of the shape of `index`.

    Examples
    --------
    >>> gc.gather(gc.tensor([[1, 2], [3, 4]]), 1, gc.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])
    """
    dim = _check_dim_and_index("gather", self, dim, index)
    return K.gather_along(self, dim, index)


@linear(
    lambda F, grad, dim, index: F.gather(grad, dim, index), computes_half_in_float=False, function=False, method=False
)
def gather_backward(K, self, shape: tuple[int, ...], dim: int, index):
    """Return zeros with `self` added at the positions that `gather` read."""
    return K.added_along(K.xp.zeros(shape, self.dtype), wrap_dim(dim, len(shape)), index, self)


@linear(
    self=lambda F, grad, dim, index: F.scatter_value(grad, dim, index, 0),
    src=lambda F, grad, src_shape, dim, index: _pad_with_zeros(F, F.gather(grad, dim, index), src_shape),
    node="ScatterBackward0",
    computes_half_in_float=False,
    function=False,
    method=False,
    saved={"src_sym_sizes": None},
)
def scatter_src(K, self, src, dim: int, index):
    """Return a copy with the elements of `src` at the positions that `index` names along a dim."""
    dim = _check_dim_and_index("scatter", self, dim, index, src)
    return K.scatter_along(self, dim, index, src)


@general(
    self=lambda F, grad, dim, index: F.scatter_value(grad, dim, index, 0),
    node="ScatterBackward1",
    computes_half_in_float=False,
    function=False,
    method=False,
    saved={"value": None},
)
def scatter_value(K, self, dim: int, index, value: Number):
    """Return a copy with a number at the positions that `index` names along a dim."""
    dim = _check_dim_and_index("scatter", self, dim, index)
    return K.scatter_along(self, dim, index, number_for(K, value, self))


scatter_value.jvp("self")(lambda F, t, dim, index: F.scatter_value(t, dim, index, 0))


def number_for(K, value, x):
    """Return a Python number converted to the dtype of `x`."""
    return K.scalar(check_fits(value, dtypes.from_numpy(x.dtype)), x.dtype)


@composite(
    inplace=True,
    samples=lambda: [
        case(floats(3, 4), 0, _distinct(3, 2, 3), floats(2, 4)),
        case(floats(3, 4), -1, ints(2, 3, high=4), 2.5),
        case(floats(3, 4), 0, ints(2, 3, high=3), floats(2, 4), reduce="add"),
        case(floats(3, 4), 0, ints(2, 3, high=3), 2.5, reduce="multiply"),
        case(floats(), 0, ints(high=1), floats()),
    ],
)
def scatter(F, self, dim: int, index, src=None, *, reduce: str | None = None, value: Number | None = None):
    """Return a copy with the elements of `src` at the positions that `index` names along a dim.

    For dim 0 this is ``out[index[i, j], j] = src[i, j]``.

    `src` may be a number. With ``reduce='add'`` or ``'multiply'`` it is combined with the previous elements.

    Examples
    --------
    >>> gc.scatter(gc.zeros(2, 3), 1, gc.tensor([[2], [0]]), gc.tensor([[5.0], [7.0]]))
    tensor([[0., 0., 5.],
            [7., 0., 0.]])
    """
    src = value if src is None else src
    if src is None:
        raise TypeError('scatter() missing 1 required positional arguments: "src"')
    if reduce not in (None, "add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    if reduce is not None and F.is_tensor(src):
        warn_once(
            "The reduce argument of torch.scatter with Tensor src is deprecated and will be removed in a future "
            "PyTorch release. Use torch.scatter_reduce instead for more reduction options."
        )
    if reduce is None:
        return F.scatter_src(self, src, dim, index) if F.is_tensor(src) else F.scatter_value(self, dim, index, src)
    if not F.is_tensor(src):
        src = F.fill(F.new_zeros(self, index.shape), src)
    if reduce == "add":
        return F.scatter_add(self, dim, index, src)
    return F.scatter_reduce(self, dim, index, src, "prod")


def _distinct(size, *shape):
    """Return indices along dim 0 that are different in every column, for tests."""
    import numpy as np

    return (np.arange(shape[0])[:, None] + np.arange(shape[1])) % size


@linear(
    self=same,
    src=lambda F, grad, src_shape, dim, index: _pad_with_zeros(F, F.gather(grad, dim, index), src_shape),
    inplace=True,
    computes_half_in_float=False,
    keeps_dtype=("index",),
    mixed=same_dtypes("scatter(): Expected self.dtype to be equal to src.dtype"),
    samples=lambda: [
        case(floats(3, 4), 0, ints(5, 4, high=3), floats(5, 4)),
        case(floats(2, 3), -1, ints(1, 2, high=3), floats(2, 2)),
        case(floats(), 0, ints(high=1), floats()),
        case(floats(3), 0, ints(0), floats(2)),
    ],
    autocast="widest:cuda",
    saved={"src_sym_sizes": None},
)
def scatter_add(K, self, dim: int, index, src):
    """Return a copy with `src` added at the positions that `index` names.

    For dim 0 that is ``out[index[i, j], j] += src[i, j]``.

    Examples
    --------
    >>> gc.scatter_add(gc.zeros(3), 0, gc.tensor([0, 0, 2]), gc.tensor([1.0, 2.0, 3.0]))
    tensor([3., 0., 3.])
    """
    dim = _check_dim_and_index("scatter", self, dim, index, src)
    return K.added_along(K.xp.array(self), dim, index, K.cut(src, index))


# -- reductions -------------------------------------------------------------------------------------------------------


def samples_of(cases, reductions):
    """Return `cases` with each of `reductions`, with and without the elements of the input."""
    return [
        case(*each.args, reduce, include_self=include)
        for reduce in reductions
        for each in cases
        for include in (True, False)
    ]


#: The categories of dtypes of which a reduction at indices is refused, see `check_implemented`.
REFUSED_BY = {"amax": "c", "amin": "c", "mean": "b"}


@general(
    inplace=True,
    keeps_dtype=("index",),
    mixed=same_dtypes("scatter(): Expected self.dtype to be equal to src.dtype"),
    samples=lambda: samples_of(
        [case(floats(3, 4), 0, ints(5, 3, high=3), floats(5, 4)), case(floats(), 0, ints(high=1), floats())],
        ("sum", "prod", "mean", "amax", "amin"),
    ),
)
def scatter_reduce(K, self, dim: int, index, src, reduce: str, *, include_self: bool = True):
    """Return a copy in which the elements of `src` are combined at the positions that `index` names along a dim.

    `reduce` is ``'sum'``, ``'prod'``, ``'mean'``, ``'amax'`` or ``'amin'``; with ``include_self=False`` the previous
    elements are ignored.

    Raises
    ------
    NotImplementedError
        For extrema of complex numbers, and the mean of bools.

    Examples
    --------
    >>> gc.scatter_reduce(gc.zeros(2), 0, gc.tensor([0, 0, 1]), gc.tensor([1.0, 5.0, 3.0]), "amax")
    tensor([5., 3.])
    """
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    check_implemented(f"scatter_gather_tensor_cpu_reduce_{reduce}", self, REFUSED_BY.get(reduce, ""))
    dim = _check_dim_and_index("scatter", self, dim, index, src)
    return K.reduced_along(self, dim, index, K.cut(src, index), reduce, include_self)


@scatter_reduce.vjp("self", "src")
def _(F, grad, self, src, result, dim, index, reduce, include_self):
    return reduced_gradients(F, grad, self, dim, index, src, result, reduce, include_self)


def reduced_gradients(F, grad, self, dim, index, src, result, reduce, include_self):
    """Return the gradients of `self` and `src` through a reduction at indices; equal extrema share them."""
    shape, src = src.shape, _cut(F, src, index.shape)
    of_self, of_src = _REDUCTIONS[reduce](F, grad, self, dim, index, src, result, include_self)
    if not include_self:
        of_self = F.scatter_value(of_self, dim, index, 0)
    return of_self, _pad_with_zeros(F, of_src, shape)


def _sum_gradients(F, grad, self, dim, index, src, result, include_self):
    return grad, F.gather(grad, dim, index)


def _mean_gradients(F, grad, self, dim, index, src, result, include_self):
    start = F.ones_like(grad) if include_self else F.zeros_like(grad)
    count = F.scatter_add(start, dim, index, F.ones_like(src))
    share = F.div(grad, F.where(count == 0, 1, count))
    return share, F.gather(share, dim, index)


def _extreme_gradients(F, grad, self, dim, index, src, result, include_self):
    self_ties = F.where(self == result, F.ones_like(grad), 0)
    if not include_self:
        self_ties = F.scatter_value(self_ties, dim, index, 0)
    src_ties = F.where(src == F.gather(result, dim, index), F.ones_like(src), 0)
    share = F.div(grad, F.scatter_add(self_ties, dim, index, src_ties))
    return self_ties * share, src_ties * F.gather(share, dim, index)


def _product_gradients(F, grad, self, dim, index, src, result, include_self):
    # An element's factor is the product of the others. That is the result divided by the element or, if it is zero, the
    # product of the nonzero elements, multiplied by the other zero if there are two, because that has a derivative too.

    def product(self, src):
        return F.scatter_reduce(self, dim, index, src, "prod", include_self=include_self)

    def sum_at_indices(values):
        return F.gather(F.scatter_add(F.zeros_like(grad), dim, index, values), dim, index)

    nonzero_self = F.where(self == 0, 1, self)
    of_self = F.div(grad * product(nonzero_self, src), nonzero_self)
    zero = src == 0
    ones = F.ones_like(src)
    zeros_there = sum_at_indices(F.where(zero, ones, 0))
    other_zero = F.where(zeros_there == 2, sum_at_indices(F.where(zero, src, 0)) - src, 0)
    nonzero_product = product(self, F.where(zero, 1, src))
    of_zero = F.gather(grad * nonzero_product, dim, index) * F.where(zeros_there == 1, ones, other_zero)
    return of_self, F.where(zero, of_zero, F.div(F.gather(grad * result, dim, index), F.where(zero, 1, src)))


_REDUCTIONS = {
    "sum": _sum_gradients,
    "mean": _mean_gradients,
    "amax": _extreme_gradients,
    "amin": _extreme_gradients,
    "prod": _product_gradients,
}

# -- positions in the flattened tensor -----------------------------------------------------------------------------


def _check_flat(K, name, x, index):
    if index.dtype.kind != "i" or index.dtype.itemsize != 8:
        kind = dtypes.from_numpy(index.dtype).scalar_name
        raise RuntimeError(f"{name}(): Expected a long tensor for index, but got {kind}")
    message = "out of range: tried to access index {index} on a tensor of {size} elements."
    K.check_bounds(index, x.size, 0, -x.size, message)


@linear(
    lambda F, grad, self_shape, index: F.reshape(
        F.index_backward(F.reshape(grad, (-1,)), (math.prod(self_shape),), (F.reshape(index, (-1,)),)), self_shape
    ),
    computes_half_in_float=False,
    samples=lambda: [case(floats(3, 4), ints(2, 2, low=-12, high=12)), case(floats(), ints(3, high=1))],
)
def take(K, self, index):
    """Return the elements that `index` names in the flattened tensor.

    Returns
    -------
    Tensor
        Result of the shape of `index`.

    Examples
    --------
    >>> gc.take(gc.tensor([[1, 2], [3, 4]]), gc.tensor([0, 3]))
    tensor([1, 4])
    """
    _check_flat(K, "take", self, index)
    return self.reshape(-1)[index]


@linear(
    self=lambda F, grad, source_shape, index, accumulate: (
        grad if accumulate else F.put(grad, index, F.new_zeros(grad, source_shape))
    ),
    source=lambda F, grad, source_shape, index: F.reshape(F.take(grad, index), source_shape),
    inplace=True,
    computes_half_in_float=False,
    samples=lambda: [
        case(floats(3, 4), ints(2, 2, high=12), floats(2, 2), accumulate=True),
        case(floats(3, 4), _distinct(9, 2, 1) * 5 - 3, floats(2)),
    ],
)
def put(K, self, index, source, accumulate: bool = False):
    """Return a copy with `source` at flat positions given by `index`, or with `source` added there if `accumulate`.

    Examples
    --------
    >>> gc.put(gc.zeros(4), gc.tensor([1, 3]), gc.tensor([5.0, 7.0]))
    tensor([0., 5., 0., 7.])
    """
    if source.dtype != self.dtype:
        names = [dtypes.from_numpy(a.dtype).scalar_name for a in (self, source)]
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got "
            f"self.dtype = {names[0]} and source.dtype = {names[1]}"
        )
    if index.size != source.size:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source.size}, index.numel() = {index.size}"
        )
    _check_flat(K, "put_", self, index)
    flat = K.index_write(self.reshape(-1), source.reshape(-1), (index.reshape(-1),), accumulate)
    return flat.reshape(self.shape)


@composite(
    samples=lambda: [
        case(floats(3, 4), ints(3, 1, high=4), dim=1),
        case(floats(3, 4), ints(2, 4, high=3), dim=0),
        case(floats(3, 4), ints(5, high=12)),
    ],
)
def take_along_dim(F, input, indices, dim: int | None = None):
    """Return the elements that `indices` name along `dim`, after broadcasting in the other dims.

    Without `dim`, indices count in the flattened tensor.

    Returns
    -------
    Tensor
        Result of the shape of `indices`, broadcast against the input outside of `dim`.

    Examples
    --------
    >>> x = gc.tensor([[3, 1, 2]])
    >>> gc.take_along_dim(x, x.argsort(1), dim=1)
    tensor([[1, 2, 3]])
    """
    if indices.dtype is not dtypes.int64:
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got {indices.dtype.scalar_name}"
        )
    if dim is None:
        return F.gather(F.reshape(input, (-1,)), 0, F.reshape(indices, (-1,)))
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    dim = wrap_dim(dim, input.ndim)
    shapes = [list(input.shape), list(indices.shape)]
    for shape in shapes:
        shape[dim] = 1
    common = list(broadcast_shape(shapes))
    sizes = [[*common[:dim], x.shape[dim], *common[dim + 1 :]] for x in (input, indices)]
    return F.gather(F.expand(input, sizes[0]), dim, F.remainder(F.expand(indices, sizes[1]), max(input.shape[dim], 1)))


# -- masks ------------------------------------------------------------------------------------------------------------


def _check_mask(mask):
    if mask.dtype.kind != "b":
        raise RuntimeError(
            f"masked_fill_ only supports boolean masks, but got mask with dtype {dtypes.from_numpy(mask.dtype).name}"
        )


@general(
    self=lambda F, grad, self_shape, mask: F.sum_to_size(F.masked_fill_number(grad, mask, 0), self_shape),
    node="MaskedFillBackward0",
    computes_half_in_float=False,
    function=False,
    method=False,
    saved={"value": None, "self_sym_sizes": None},
)
def masked_fill_number(K, self, mask, value: Number):
    """Return a copy with a number where the mask is True."""
    _check_mask(mask)
    broadcast_shape([self.shape, mask.shape])
    return K.where(mask, number_for(K, value, self), self)


masked_fill_number.jvp("self")(lambda F, t, mask: F.masked_fill_number(t, mask, 0))


@linear(
    self=lambda F, grad, self_shape, mask: F.sum_to_size(F.masked_fill_number(grad, mask, 0), self_shape),
    value=lambda F, grad, mask: F.sum(F.where(mask, grad, 0)),
    node="MaskedFillBackward1",
    computes_half_in_float=False,
    function=False,
    method=False,
    saved={"self_sym_sizes": None},
)
def masked_fill_tensor(K, self, mask, value):
    """Return a copy with the value of a 0-dim tensor where the mask is True."""
    _check_mask(mask)
    if value.ndim:
        raise RuntimeError(
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    if value.dtype.kind == "c" and self.dtype.kind != "c":
        raise overflow(dtypes.from_numpy(self.dtype))
    broadcast_shape([self.shape, mask.shape])
    return K.where(mask, value.astype(self.dtype), self)


@composite(
    inplace=True,
    samples=lambda: [
        case(floats(3, 4), _pattern(3, 4), 1.5),
        case(floats(3, 1), _pattern(2, 1, 4), floats()),
        case(floats(), _pattern(2), 0),
    ],
)
def masked_fill(F, self, mask, value):
    """Return a copy with a value (a number or a 0-dim tensor) where the mask, which is broadcast, holds.

    Examples
    --------
    >>> x = gc.tensor([1.0, -2.0, 3.0])
    >>> gc.masked_fill(x, x < 0, 0)
    tensor([1., 0., 3.])
    """
    if F.is_tensor(value):
        return F.masked_fill_tensor(self, mask, value)
    return F.masked_fill_number(self, mask, value)


def _pattern(*shape):
    """Return a mask for tests in which every third element is False."""
    import numpy as np

    return np.arange(math.prod(shape)).reshape(shape) % 3 > 0


@linear(
    lambda F, grad, self_shape, mask: F.sum_to_size(
        F.masked_back(grad, mask, broadcast_shape([self_shape, mask.shape])), self_shape
    ),
    data_dependent=True,
    computes_half_in_float=False,
    samples=lambda: [
        case(floats(3, 4), _pattern(3, 4)),
        case(floats(4), _pattern(3, 1)),
        case(floats(2, 3), _pattern(3)),
    ],
)
def masked_select(K, self, mask):
    """Return the elements where the mask holds, as a vector; both are broadcast.

    Returns
    -------
    Tensor
        Result of one dim.

    Examples
    --------
    >>> x = gc.tensor([1.0, -2.0, 3.0])
    >>> gc.masked_select(x, x > 0)
    tensor([1., 3.])
    """
    if mask.dtype.kind != "b":
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = broadcast_shape([self.shape, mask.shape])
    return K.index(K.broadcast_view(self, shape), (K.broadcast_view(mask, shape),))


@linear(
    lambda F, grad, self_shape, mask, shape: F.masked_first(grad, F.expand(mask, shape), self_shape[0]),
    computes_half_in_float=False,
    function=False,
    method=False,
)
def masked_back(K, self, mask, shape: tuple[int, ...]):
    """Return zeros of `shape` with the elements of a vector where the mask (broadcast to `shape`) is True."""
    out = K.xp.zeros(shape, self.dtype)
    K.masked_write(out, K.broadcast_view(mask, shape), self)
    return out


@linear(
    self=lambda F, grad, self_shape, mask: F.sum_to_size(F.masked_fill_number(grad, mask, 0), self_shape),
    source=lambda F, grad, source_shape, mask: _masked_source(F, grad, source_shape, mask),
    inplace=True,
    computes_half_in_float=False,
    samples=lambda: [
        case(floats(3, 4), _pattern(3, 4), floats(2, 5)),
        case(floats(4), _pattern(3, 4), floats(8)),
        case(floats(3, 4), _pattern(4), floats(12)),
    ],
    saved={"self_sym_sizes": None},
)
def masked_scatter(K, self, mask, source):
    """Return a copy with the elements of `source`, in their order, where the mask holds.

    Examples
    --------
    >>> gc.masked_scatter(gc.zeros(3), gc.tensor([True, False, True]), gc.tensor([5.0, 7.0]))
    tensor([5., 0., 7.])
    """
    if mask.dtype.kind != "b":
        kind = dtypes.from_numpy(mask.dtype).scalar_name
        raise RuntimeError(f"masked_scatter_ only supports boolean masks, but got mask with dtype {kind}")
    if source.dtype != self.dtype:
        names = [dtypes.from_numpy(a.dtype).scalar_name for a in (self, source)]
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes but got {' and '.join(names)}"
        )
    shape = broadcast_shape([self.shape, mask.shape])
    out = K.xp.array(K.broadcast_view(self, shape), order="C")
    K.masked_write(out, K.broadcast_view(mask, shape), source.reshape(-1))
    return out


def _masked_source(F, grad, shape, mask):
    return F.reshape(F.masked_first(grad, F.expand(mask, grad.shape), math.prod(shape)), shape)


@linear(
    lambda F, grad, self_shape, mask: F.masked_scatter(F.new_zeros(grad, self_shape), mask, grad),
    computes_half_in_float=False,
    function=False,
    method=False,
)
def masked_first(K, self, mask, n: int):
    """Return the elements where the mask is True, in a vector of `n` elements that is filled up with zeros."""
    if not n:
        return K.xp.zeros(0, self.dtype)
    mask = mask.reshape(-1)
    selected = K.where(mask, self.reshape(-1), K.xp.zeros((), self.dtype))
    return K.sum_into_rows(n, K.xp.maximum(mask.cumsum() - 1, 0), selected[:, None]).reshape(n)
