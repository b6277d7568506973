"""Sorting, the largest elements, distinct elements, and positions in sorted sequences."""

from __future__ import annotations

from gradcore.core import dtypes
from gradcore.ops.declare.checks import check_implemented
from gradcore.ops.declare.samples import case, floats, ints
from gradcore.ops.declare.shapes import along, wrap_dim
from gradcore.ops.declare.table import composite, constant, general, not_implemented
from gradcore.ops.reductions.minmax import place_gradient, take_tangent

# -- sorting ----------------------------------------------------------------------------------------------------------


def _check_sortable(self):
    if self.dtype.kind == "c":
        raise RuntimeError("Sort does not support complex dtypes")


def _sort_samples():
    return [
        case(floats(3, 5)), case(floats(4, 3), 0, True), case(floats(3, 4), stable=True), case(floats()),
        case(floats(2, 3, 4), -2), case(floats(0)),
    ]  # fmt: skip


@general(
    place_gradient,
    differentiable=(0,),
    fields="values indices",
    node=lambda stable: f"SortBackward{0 if stable is None else 1}",
    samples=_sort_samples,
    saved={"descending": None, "stable": None},
    half_on_cuda="selection forward",
)
def sort(K, self, dim: int = -1, descending: bool = False, *, stable: bool | None = None):
    """Sort the elements along `dim`, and return them with their former indices, ``(values, indices)``.

    Equal elements keep their order, even without `stable`. NaN is greater than all other elements.

    Examples
    --------
    >>> gc.sort(gc.tensor([3, 1, 2]), descending=True)
    torch.return_types.sort(
    values=tensor([3, 2, 1]),
    indices=tensor([0, 2, 1]))
    """
    _check_sortable(self)
    return along(K.sort_along, self, dim, descending)


sort.jvp("self")(take_tangent)


@constant(constant="results are indices", samples=_sort_samples, half_on_cuda="selection")
def argsort(K, self, dim: int = -1, descending: bool = False, *, stable: bool = False):
    """Return the indices that sort a tensor along a dim; equal elements keep their order.

    Examples
    --------
    >>> gc.argsort(gc.tensor([3, 1, 2]))
    tensor([1, 2, 0])
    """
    _check_sortable(self)
    return along(K.argsort_along, self, dim, descending)


@composite(samples=lambda: [case(floats(4, 3)), case(floats())])
def msort(F, self):
    """Return the elements in order along the first dim.

    Examples
    --------
    >>> gc.msort(gc.tensor([3, 1, 2]))
    tensor([1, 2, 3])
    """
    return F.sort(self, 0)[0]


@general(
    place_gradient,
    differentiable=(0,),
    fields="values indices",
    samples=lambda: [
        case(floats(3, 5), 2),
        case(floats(4, 3), 3, 0, False),
        case(floats(3, 40), 20),
        case(floats(), 1),
        case(floats(3), 0),
    ],
    saved={"k": None, "largest": None, "sorted": None},
    half_on_cuda="selection forward",
)
def topk(K, self, k: int, dim: int = -1, largest: bool = True, sorted: bool = True):
    """Return the `k` largest (or smallest) elements along `dim` in order, and their indices.

    Examples
    --------
    >>> gc.topk(gc.tensor([3, 1, 4, 2]), 2)
    torch.return_types.topk(
    values=tensor([4, 3]),
    indices=tensor([2, 0]))
    """
    size = self.shape[wrap_dim(dim, self.ndim)] if self.ndim else 1
    if not 0 <= k <= size:
        raise RuntimeError("selected index k out of range")
    if self.dtype.kind in "bc":
        raise RuntimeError(f"topk does not support {'bool' if self.dtype.kind == 'b' else 'complex'} dtypes")
    return along(K.topk_along, self, dim, k, largest)


topk.jvp("self")(take_tangent)


# -- distinct elements ------------------------------------------------------------------------------------------------


def _distinct(name, function, **options):
    """Declare an operation that returns distinct values, the index of each element's value, and their counts."""
    general(
        not_implemented(name), name=name, outputs=("values", "inverse", "counts"), differentiable=(0,), function=False,
        method=False, data_dependent=True, **options,
    )(function)  # fmt: skip


def _dim_of_slices(shape, dim):
    """Return `dim` counted from the front, or None; raise RuntimeError if its slices are empty."""
    if dim is None:
        return None
    dim, empty = wrap_dim(dim, len(shape)), shape.count(0)
    if empty and not shape[dim] and empty > 1:
        raise RuntimeError("Number of zero sized dimensions is more than one, so unique cannot be applied ")
    if empty and shape[dim]:
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    return dim


def _unique(K, self, inverse: bool, counts: bool, dim: int | None):
    """Return the distinct elements, or distinct slices along `dim`, sorted."""
    return K.unique_of(self, inverse, counts, _dim_of_slices(tuple(self.shape), dim))


def _consecutive(K, self, inverse: bool, counts: bool, dim: int | None):
    """Return the first element, or slice along `dim`, of each run of equal ones."""
    return K.unique_consecutive_of(self, inverse, counts, _dim_of_slices(tuple(self.shape), dim))


_distinct(
    "_unique2", _unique,
    node=lambda dim: "Unique2Backward0" if dim is None else "UniqueDimBackward0",
)  # fmt: skip
_distinct(
    "unique_consecutive_", _consecutive,
    node=lambda dim: f"Unique{'' if dim is None else 'Dim'}ConsecutiveBackward0",
)  # fmt: skip


def _distinct_samples():
    x = ints(3, 4, high=3)
    return [
        case(x),
        case(x, return_inverse=True, return_counts=True),
        case(x, return_inverse=True, dim=1),
        case(ints(0)),
    ]


def _select_results(found, inverse, counts):
    values, where, number = found
    if not (inverse or counts):
        return values
    return (values, *((where,) if inverse else ()), *((number,) if counts else ()))


@composite(
    data_dependent=True,
    samples=_distinct_samples,
    overloads=(("sorted: bool = ..., *, dim: int | None = ...", "Tensor"),),
)
def unique(
    F, self, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
):
    """Return the distinct elements, sorted.

    Parameters
    ----------
    sorted : bool
        The result is in order in any case.
    return_inverse, return_counts : bool
        Whether to return, too, where each element is in the result, and how often each one occurs.
    dim : int, optional
        The distinct slices along a dim, instead of elements.

    Examples
    --------
    >>> gc.unique(gc.tensor([3, 1, 3, 2]), return_counts=True)
    (tensor([1, 2, 3]), tensor([1, 1, 2]))
    """
    return _select_results(F._unique2(self, return_inverse, return_counts, dim), return_inverse, return_counts)


@composite(data_dependent=True, samples=_distinct_samples, overloads=(("*, dim: int | None = ...", "Tensor"),))
def unique_consecutive(F, self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None):
    """Return the first element of each run of equal elements.

    The parameters are those of `unique`.

    Examples
    --------
    >>> gc.unique_consecutive(gc.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    return _select_results(
        F.unique_consecutive_(self, return_inverse, return_counts, dim), return_inverse, return_counts
    )


# -- positions in sorted sequences --------------------------------------------------------------------------------


@constant(constant="results are indices", function=False, method=False)
def search(K, sequence, values, right: bool):
    """Return the insertion indices of values into one sorted sequence, or into one for each row."""
    return K.search_in(sequence, values, right)


def _insertion_indices(F, name, sequence, values, out_int32, right, sorter):
    if not hasattr(values, "ndim"):
        values = F.number_as_tensor(values, sequence)
    if values.dtype is not sequence.dtype:
        common = dtypes.promote_types(values.dtype, sequence.dtype)
        values, sequence = F.to(values, common), F.to(sequence, common)
    check_implemented("searchsorted_out_cpu", values, "bc")
    if sorter is not None:
        sequence = F.gather(F.detach(sequence), -1, sorter)
    result = F.search(sequence, values, right)
    return F.to(result, dtypes.int32) if out_int32 else result


@composite(
    method=False,
    samples=lambda: [
        case(floats(5, form="sorted"), floats(2, 3)), case(floats(2, 5, form="sorted"), floats(2, 3), right=True),
        case(floats(5, form="sorted"), 0.5, out_int32=True),
    ],
)  # fmt: skip
def searchsorted(
    F, sorted_sequence, input, *, out_int32: bool = False, right: bool = False, side: str | None = None, sorter=None
):
    """Return the insertion indices of numbers into a sorted sequence.

    Parameters
    ----------
    sorted_sequence : Tensor
        Sorted along its last dim; of several dims, one sequence for each row of `input`.
    input : Tensor or float
        The numbers.
    out_int32 : bool
        Whether the result is int32 instead of int64.
    right : bool
        Whether to insert after equal elements rather than before.
    side : {"left", "right"}, optional
        The meaning of `right` as a word; ``"right"`` is the same as ``right=True``.
    sorter : Tensor, optional
        Indices that sort a sequence that is not sorted.

    Returns
    -------
    Tensor
        Result of the shape of the searched numbers.

    Examples
    --------
    >>> gc.searchsorted(gc.tensor([1, 3, 5]), gc.tensor([2, 3, 6]))
    tensor([1, 1, 3])
    """
    if side not in (None, "left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    if not sorted_sequence.ndim:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension"
        )
    lead = tuple(sorted_sequence.shape[:-1])
    if lead and (not hasattr(input, "ndim") or tuple(input.shape[:-1]) != lead or not input.ndim):
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            f"tensor and input value tensor must match, but we got boundaries tensor {list(sorted_sequence.shape)} and "
            f"input value tensor {list(getattr(input, 'shape', ()))}"
        )
    if sorter is not None and sorter.shape != sorted_sequence.shape:
        raise RuntimeError(
            "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor "
            f"{list(sorted_sequence.shape)}and got sorter tensor {list(sorter.shape)}"
        )
    return _insertion_indices(F, "searchsorted", sorted_sequence, input, out_int32, right or side == "right", sorter)


@composite(
    method=False,
    samples=lambda: [
        case(floats(2, 3), floats(5, form="sorted")),
        case(floats(4), floats(3, form="sorted"), right=True),
    ],
)
def bucketize(F, input, boundaries, *, out_int32: bool = False, right: bool = False):
    """Return the index of the interval between sorted boundaries in which each element lies.

    An element that equals a boundary belongs to the interval before it, or to the one after it if `right`.

    Returns
    -------
    Tensor
        Result of the shape of the input.

    Examples
    --------
    >>> gc.bucketize(gc.tensor([2, 3, 6]), gc.tensor([1, 3, 5]))
    tensor([1, 1, 3])
    """
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return _insertion_indices(F, "bucketize", boundaries, input, out_int32, right, None)


@constant(constant="results are bools", function=False, method=False)
def is_in(K, self, among, invert: bool = False):
    """Return whether each element occurs in `among`."""
    return K.is_in_of(self, among, invert)


@composite(
    method=False,
    samples=lambda: [case(ints(3, 4), ints(2)), case(ints(5), ints(3), invert=True), case(ints(4), 2)],
    also={"element": "elements", "test_element": "test_elements"},
)
def isin(F, elements, test_elements, *, assume_unique: bool = False, invert: bool = False):
    """Return whether each element occurs in `test_elements`, or does not occur if `invert`.

    Returns
    -------
    Tensor
        Result of the shape of `elements`.

    Examples
    --------
    >>> gc.isin(gc.tensor([1, 2, 3]), gc.tensor([2, 5]))
    tensor([False,  True, False])
    """
    like = next((x for x in (elements, test_elements) if hasattr(x, "ndim")), None)
    if like is None:
        raise TypeError("isin(): argument 'elements' (position 1) must be Tensor if test_elements is a number")
    if not hasattr(elements, "ndim"):
        elements = F.number_as_tensor(elements, like)
    if not hasattr(test_elements, "ndim"):
        test_elements = F.number_as_tensor(test_elements, like)
    for x in (elements, test_elements):
        if x.dtype.category in (0, 3):
            raise RuntimeError(f"Unsupported input type encountered for isin(): {x.dtype.scalar_name}")
    return F.is_in(elements, test_elements, invert)
