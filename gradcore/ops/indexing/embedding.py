"""Embeddings: rows of a table, looked up by index, singly or in bags."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from gradcore.core.dtypes import INTEGER
from gradcore.ops.declare.checks import check_implemented
from gradcore.ops.declare.samples import case, floats, ints
from gradcore.ops.declare.shapes import check_elements
from gradcore.ops.declare.table import bilinear, composite, constant

# -- rows by index -------------------------------------------------------------------------------------------


def _zero_padding(F: Any, rows: Any, indices: Any, padding_idx: int) -> Any:
    return rows if padding_idx < 0 else F.where(F.unsqueeze(indices == padding_idx, -1), 0, rows)


@bilinear(
    node="EmbeddingBackward0",
    function=False,
    method=False,
    saved={"weight_sym_argsize_0": lambda self_shape: self_shape[0], "self_sym_sizes": None},
)
def embedding_rows(self, indices, padding_idx: int = -1, scale_grad_by_freq: bool = False):
    """Return the rows of a table that `indices` name.

    The settings concern the gradient only; the row `padding_idx` gets none.
    """


@embedding_rows.vjp("self")
def _(F, grad, self_shape, indices, padding_idx, scale_grad_by_freq):
    if scale_grad_by_freq:
        grad = grad / F.unsqueeze(F.index_counts(indices, self_shape[0]), -1)
    return F.embedding_sum(grad, indices, self_shape[0], padding_idx)


@bilinear(
    self=lambda F, grad, indices, padding_idx: _zero_padding(F, F.embedding_rows(grad, indices), indices, padding_idx),
    node="EmbeddingDenseBackwardBackward0",
    function=False,
    method=False,
)
def embedding_sum(self, indices, height: int, padding_idx: int = -1):
    """Return a table of `height` rows: the sums of the rows of `self` with equal indices.

    Rows with the index `padding_idx` are left out.
    """


@constant(constant="results are counts", function=False, method=False)
def index_counts(self, height: int):
    """Return how often each index below `height` occurs."""


def _check_padding_idx(input: Any, weight: Any, padding_idx: int | None) -> int:
    """Check the dtypes and shapes of an embedding, and return `padding_idx` from the front, or -1 for None."""
    if input.dtype.name not in ("int64", "int32"):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"torch.{input.dtype.scalar_name}Tensor instead (while checking arguments for embedding)"
        )
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if padding_idx is None:
        return -1
    if not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return int(padding_idx % weight.shape[0])


def _renormalize(F: Any, weight: Any, input: Any, max_norm: float, norm_type: float) -> None:
    """Scale down the used rows whose norm is above `max_norm`, in place and without recording."""
    rows = F.unique(input)
    table = weight.detach()
    table_rows = F.index_select(table, 0, rows)
    norms = F.norm(table_rows, norm_type, 1, True)
    table.index_copy_(0, rows, F.where(norms > max_norm, table_rows * (max_norm / (norms + 1e-7)), table_rows))


@composite(
    path="nn.functional.embedding",
    samples=lambda: [
        case(ints(3, 2, high=4), floats(4, 3)),
        case(ints(7, high=4), floats(4, 2)),
        case(ints(high=4), floats(4, 2)),
        case(ints(0, high=4), floats(4, 2)),
    ],
)
def embedding(
    F,
    input,
    weight,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
):
    """Return the rows of `weight` that `input` names.

    Parameters
    ----------
    input : Tensor
        Indices, int64 or int32.
    weight : Tensor
        The table, ``(rows, width)``.
    padding_idx : int, optional
        A row that gets no gradient.
    max_norm : float, optional
        Rows in use with a larger norm are scaled to this one first, in place.
    norm_type : float
        The p of that p-norm.
    scale_grad_by_freq : bool
        Whether to divide the gradient of each row by the number of times that `input` names it.
    sparse : bool
        Whether the gradient of a leaf `weight` is a sparse tensor, of the rows in use.

    Returns
    -------
    Tensor
        Result of shape ``(*input.shape, embedding_dim)``.

    Examples
    --------
    >>> table = gc.tensor([[0.0, 0.0], [1.0, 1.5], [2.0, 2.5]])
    >>> gc.nn.functional.embedding(gc.tensor([2, 0]), table)
    tensor([[2.0000, 2.5000],
            [0.0000, 0.0000]])
    """
    padding_idx = _check_padding_idx(input, weight, padding_idx)
    if max_norm is not None:
        _renormalize(F, weight, input, max_norm, norm_type)
    rows = F.rows_with_sparse_gradient if sparse else F.embedding_rows
    return rows(weight, input, padding_idx, scale_grad_by_freq)


# -- bags ----------------------------------------------------------------------------------------------------


def _offsets(input: Any, offsets: Any, include_last_offset: bool) -> list[int]:
    """Return the offsets of the bags in the flattened indices, and the end of the last."""
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets)}"
            )
        return [i * input.shape[1] for i in range(input.shape[0] + 1)]
    if input.ndim != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    if offsets.dtype.category != INTEGER:
        raise RuntimeError(
            "Expected tensor for argument #2 'offsets' to have one of the following scalar types: Long, Int; but got "
            f"torch.{offsets.dtype.scalar_name}Tensor instead (while checking arguments for embedding_bag)"
        )
    starts = offsets.tolist()
    if starts and starts[0] != 0:
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, "
            f"got {starts[0]}"
        )
    if starts and starts[-1] > input.shape[0]:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length {input.shape[0]} but got offsets[-1] of {starts[-1]}"
        )
    if any(start > stop for start, stop in pairwise(starts)):
        raise IndexError(f"index out of range in self: offsets have to be in ascending order, but got {starts[:20]}")
    if include_last_offset and not starts:
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    return starts if include_last_offset else [*starts, input.shape[0]]


def _check_bag(
    input: Any, weight: Any, mode: str, scale_grad_by_freq: bool, sparse: bool, per_sample_weights: Any
) -> None:
    if weight.ndim != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is None:
        return
    if per_sample_weights.shape != input.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have the "
            f"same shape as the input ({input.shape})"
        )
    if mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
            f"(got mode='{mode}')."
        )


@composite(
    path="nn.functional.embedding_bag",
    samples=lambda: [
        case(ints(3, 2, high=4), floats(4, 3)),
        case(ints(3, 2, high=4), floats(4, 3), mode="sum", per_sample_weights=None),
        case(ints(3, 2, high=4), floats(4, 3, form="distinct"), mode="max"),
    ],
)
def embedding_bag(
    F,
    input,
    weight,
    offsets=None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights=None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
):
    """Return the sum, mean or maximum of each bag of rows of `weight`.

    Parameters
    ----------
    input : Tensor
        Indices: one bag a row, or one after the other.
    weight : Tensor
        The table, ``(rows, width)``.
    offsets : Tensor, optional
        The start of each bag in an input of one dim.
    max_norm, norm_type, scale_grad_by_freq, sparse
        See `embedding`.
    mode : str
        ``'sum'``, ``'mean'`` or ``'max'``; an empty bag gives zeros.
    per_sample_weights : Tensor, optional
        A factor of each row, if the mode is ``'sum'``.
    include_last_offset : bool
        Whether the last offset is where the last bag ends.
    padding_idx : int, optional
        Indices of this value are left out.

    Returns
    -------
    Tensor
        Result of shape ``(bags, embedding_dim)``.

    Examples
    --------
    >>> table = gc.tensor([[1.0], [2.0], [3.0]])
    >>> gc.nn.functional.embedding_bag(gc.tensor([0, 1, 2]), table, offsets=gc.tensor([0, 2]), mode="sum")
    tensor([[3.],
            [3.]])
    """
    _check_bag(input, weight, mode, scale_grad_by_freq, sparse, per_sample_weights)
    check_implemented("embedding_bag", weight, "bc")
    padding_idx = _check_padding_idx(input, weight, padding_idx)
    bounds = _offsets(input, offsets, include_last_offset)
    if max_norm is not None:
        _renormalize(F, weight, F.reshape(input, (-1,)), max_norm, norm_type)
    flat = F.reshape(input, (-1,))
    bags = len(bounds) - 1
    numbers = F.index_tensor([i for i in range(bags) for _ in range(bounds[i], bounds[i + 1])], weight)
    flat = flat[bounds[0] : bounds[-1]]  # no elements without bags
    look_up = F.rows_with_sparse_gradient if sparse else F.embedding_rows
    rows = look_up(weight, flat, padding_idx, scale_grad_by_freq)
    counted = (flat != padding_idx).to(weight.dtype)
    if mode == "max":
        return _maxima(F, rows, counted, bounds)
    if per_sample_weights is not None:
        factors = F.reshape(per_sample_weights, (-1,))[bounds[0] : bounds[-1]]
        rows = rows * F.unsqueeze(factors * counted if padding_idx >= 0 else factors, -1)
    elif padding_idx >= 0:
        rows = rows * F.unsqueeze(counted, -1)
    sums = F.embedding_sum(rows, numbers, bags)
    if mode == "sum":
        return sums
    counts = F.embedding_sum(F.unsqueeze(counted, -1), numbers, bags)
    return sums / F.clamp(counts, 1, None)


def _maxima(F: Any, rows: Any, counted: Any, bounds: list[int]) -> Any:
    """Return the maximum of each bag, and 0 for an empty one.

    Bags are filled up with a row of minus infinity. The first of several equal rows gets the gradient.
    """
    spans = [range(start, stop) for start, stop in pairwise(bounds)]
    if not spans:
        return rows.new_zeros((0, rows.shape[1]))
    longest = max([*map(len, spans), 1])
    positions = [[*span, *[bounds[-1]] * (longest - len(span))] for span in spans]
    lowest = rows.new_full((1, rows.shape[1]), float("-inf"))
    counted_rows = F.where(F.unsqueeze(counted, -1) > 0, rows, float("-inf"))
    positions = F.index_tensor(positions, rows)
    best = F.max(F.embedding_rows(F.cat([counted_rows, lowest]), positions), 1)[0]
    counted = F.unsqueeze(F.cat([counted, counted.new_zeros(1)]), -1)
    return F.where(F.amax(F.embedding_rows(counted, positions), 1) > 0, best, 0)


# -- one hot -------------------------------------------------------------------------------------------------


@constant(
    name="one_hot_of",
    constant="tensors are of integers",
    kernel="one_hot",
    function=False,
    method=False,
    data_dependent=True,
)
def one_hot_of(self, num_classes: int = -1):
    """Return zeros with a one at each class, for checked classes."""


@composite(
    path="nn.functional.one_hot",
    data_dependent=True,
    samples=lambda: [case(ints(3, 2, high=4), 4), case(ints(5, high=4)), case(ints(high=4), 6)],
)
def one_hot(F, tensor, num_classes: int = -1):
    """Return zeros with a one at each class, along a new last dim of size `num_classes`.

    If it is -1, the size is one more than the highest class.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.nn.functional.one_hot(gradcore.tensor([1, 0]), 3)
    tensor([[0, 1, 0],
            [1, 0, 0]])
    """
    if tensor.dtype.name != "int64":
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    check_elements((*tensor.shape, num_classes))
    if not tensor.numel():
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return tensor.new_zeros((*tensor.shape, num_classes))
    if tensor.device.type == "cpu":  # on a device the host would have to wait for the checks
        if F.holds_anywhere(tensor < 0):
            raise RuntimeError("Class values must be non-negative.")
        if num_classes != -1 and F.holds_anywhere(tensor >= num_classes):
            raise RuntimeError("Class values must be smaller than num_classes.")
    return F.one_hot_of(tensor, num_classes)
