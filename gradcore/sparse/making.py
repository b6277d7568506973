"""Functions that create sparse tensors."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from gradcore import functional
from gradcore.autograd.variables import wrap
from gradcore.backends.sparsity import flat_places
from gradcore.core import dtypes
from gradcore.core.typing import AnyArray
from gradcore.sparse.conversion import to_sparse
from gradcore.sparse.indices import raw
from gradcore.sparse.tensor import (
    BLOCKED,
    BSC,
    BSR,
    BY_ROWS,
    COMPRESSED,
    COO,
    CSC,
    CSR,
    SparseTensor,
    known_as,
    sparse,
)
from gradcore.tensor import Tensor

__all__ = [
    "check_sparse_tensor_invariants",
    "from_scipy",
    "sparse_bsc_tensor",
    "sparse_bsr_tensor",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
    "spdiags",
    "to_scipy",
]

_checking: ContextVar[bool] = ContextVar("gradcore.sparse.checking", default=False)


class check_sparse_tensor_invariants:  # PyTorch's name
    """Context manager in which the indices of new sparse tensors are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> with gc.sparse.check_sparse_tensor_invariants():
    ...     gc.sparse_coo_tensor([[0], [3]], [1.0], (2, 3))
    Traceback (most recent call last):
    ...
    RuntimeError: size is inconsistent with indices: for dim 1, size is 3 but found index 3
    """

    def __init__(self, enable: bool = True) -> None:
        self.on = enable

    @staticmethod
    def is_enabled() -> bool:
        """Return whether indices are checked."""
        return _checking.get()

    @staticmethod
    def enable() -> None:
        """Turn the checks of indices on."""
        _checking.set(True)

    @staticmethod
    def disable() -> None:
        """Turn the checks of indices off."""
        _checking.set(False)

    def __enter__(self) -> None:
        self._before = _checking.set(self.on)

    def __exit__(self, *error: object) -> None:
        _checking.reset(self._before)


def _given_values(values: Any, dtype: Any, device: Any) -> tuple[Tensor, bool]:
    """Return the values as a tensor, and whether they come from a tensor with history."""
    if isinstance(values, Tensor):
        values = functional.to(values, device=device or values.device, dtype=dtype or values.dtype)
        return values, bool(functional.is_differentiated(values))
    return functional.tensor(values, dtype=dtype, device=device), False


def _leaf(tensor: SparseTensor, requires_grad: bool, has_history: bool) -> SparseTensor:
    if has_history:
        name = (
            "SparseCooTensorWithDimsAndTensorsBackward0" if tensor.layout is COO else "SparseCompressedTensorBackward0"
        )
        tensor.stored = known_as(tensor.stored, name)
    else:
        tensor.stored = tensor.stored.detach()
        if requires_grad:
            tensor.requires_grad_()
    return tensor


def _indices(values: Any, device: Any, keep: tuple[dtypes.dtype, ...] = ()) -> Any:
    """Return indices as a tensor without history, of int64 unless their dtype is one of `keep`."""
    if isinstance(values, Tensor):
        values = values.detach()
        return functional.to(values, device=device, dtype=values.dtype if values.dtype in keep else dtypes.int64)
    return functional.tensor(values, device=device, dtype=dtypes.int64)


def sparse_coo_tensor(
    indices: Any,
    values: Any = None,
    size: Sequence[int] | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """Create a sparse tensor from values and their indices, in any order; values of equal indices are added.

    Parameters
    ----------
    indices : array_like
        ``(sparse_dim, nnz)``: a column for each value. Indices of any dtype are stored as int64.
    values : array_like
        ``(nnz, *dense)``: numbers, or dense parts. A tensor that requires grad gets the gradients.
    size : sequence of int, optional
        By default the smallest size that contains the indices. ``sparse_coo_tensor(size)`` is a tensor of zeros.
    dtype, device, pin_memory, requires_grad
        See `tensor`.
    check_invariants : bool, optional
        Whether to check indices, by default as `check_sparse_tensor_invariants` says.
    is_coalesced : bool, optional
        Whether the indices are known to be sorted and distinct.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0]).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 5.]])
    """
    if values is None:
        sizes = tuple(indices if size is None else size)
        values = functional.zeros((0,), dtype=dtype, device=device)
        index = functional.zeros((len(sizes), 0), dtype=dtypes.int64, device=values.device)
        return _leaf(sparse(COO, sizes, (index,), values), requires_grad, False)
    stored, history = _given_values(values, dtype, device)
    index = _indices(indices, stored.device)
    if index.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(index.shape)}")
    if not stored.ndim:
        stored = stored.reshape(1)
    if index.shape[1] != stored.shape[0]:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {index.shape[1]}, nnz from values: "
            f"{stored.shape[0]}"
        )
    dims, dense = index.shape[0], tuple(stored.shape[1:])
    if size is None:
        size = (*_smallest(index), *dense)
    sizes = tuple(map(int, size))
    if len(sizes) != dims + len(dense):
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(sizes)}, sparse_dim = {dims}, "
            f"dense_dim = {len(dense)}"
        )
    if sizes[dims:] != dense:
        raise RuntimeError(f"values has incorrect size, expected {[index.shape[1], *sizes[dims:]]}, "
                           f"got {list(stored.shape)}")  # fmt: skip
    if index.shape[1]:
        _check_bounds(raw(index), sizes)
        if is_coalesced and (_checking.get() if check_invariants is None else check_invariants):
            flat = flat_places(raw(index), sizes[:dims])
            if not bool((flat[1:] > flat[:-1]).all()):
                raise RuntimeError("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")
    return _leaf(sparse(COO, sizes, (index,), stored, bool(is_coalesced)), requires_grad, history)


def _smallest(index: Tensor) -> list[int]:
    if not index.shape[1]:
        return [0] * index.shape[0]
    return _check_sizes([n + 1 for n in index.amax(1).tolist()])


def _check_sizes(sizes: list[int]) -> list[int]:
    """Return `sizes`, computed from the largest indices; raise RuntimeError if one exceeds 64-bit integers."""
    if max(sizes, default=0) >= 2**63:
        raise RuntimeError(f"the size of a sparse tensor has to be less than 2**63, but indices make it {sizes}")
    return sizes


def _check_bounds(index: AnyArray, sizes: Sequence[int]) -> None:
    """Raise if an index is out of bounds. This is always checked, because such an index would read another row."""
    for dim, row in enumerate(index):
        low, high = int(row.min()), int(row.max())
        if low < 0:
            raise RuntimeError(f"found negative index {low} for dim {dim}")
        if high >= sizes[dim]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {sizes[dim]} but found index {high}"
            )


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:
    """Create a sparse matrix in a compressed layout, whose values are sorted by rows or by columns.

    Parameters
    ----------
    compressed_indices, plain_indices : array_like
        The position at which each row (column) begins and the last one ends; the column (row) of each value. Indices
        of int32 keep their dtype, others are stored as int64.
    values : array_like
        ``(nnz,)``; of the layouts of blocks ``(nnz, height, width)``.
    size : sequence of int, optional
        By default the smallest size that contains the indices.
    layout : layout
        ``gradcore.sparse_csr``, ``sparse_csc``, ``sparse_bsr`` or ``sparse_bsc``.
    dtype, device, pin_memory, requires_grad, check_invariants
        See `sparse_coo_tensor`.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.sparse_compressed_tensor([0, 1, 2], [1, 0], [3.0, 4.0], layout=gc.sparse_csr).to_dense()
    tensor([[0., 3.],
            [4., 0.]])
    """
    if layout not in COMPRESSED:
        raise RuntimeError("sparse_compressed_tensor expected a compressed layout: sparse_csr, sparse_csc, sparse_bsr "
                           "or sparse_bsc")  # fmt: skip
    stored, history = _given_values(values, dtype, device)
    ends, inner = (_indices(x, stored.device, (dtypes.int32,)) for x in (compressed_indices, plain_indices))
    if ends.ndim != 1 or inner.ndim != 1:
        raise RuntimeError("gradcore has no batches of compressed sparse matrices: indices must be 1-dimensional")
    if stored.ndim != (3 if layout in BLOCKED else 1):
        raise RuntimeError(f"values of the layout {layout} must have {3 if layout in BLOCKED else 1} dims, but have "
                           f"{stored.ndim}")  # fmt: skip
    block = tuple(stored.shape[1:]) if layout in BLOCKED else (1, 1)
    if size is None:
        outer, inner_size = ends.shape[0] - 1, int(inner.max()) + 1 if inner.numel() else 0
        across = (outer, inner_size) if layout in BY_ROWS else (inner_size, outer)
        size = across[0] * block[0], across[1] * block[1]
    sizes = tuple(_check_sizes(list(map(int, size))))
    if len(sizes) != 2:
        raise RuntimeError(f"gradcore has sparse matrices of the layout {layout}, but size has {len(sizes)} dims")
    checked = _checking.get() if check_invariants is None else check_invariants
    _check_compressed(raw(ends), raw(inner), stored.shape[0], sizes, block, layout, checked)
    return _leaf(sparse(layout, sizes, (ends, inner), stored), requires_grad, history)


def _check_compressed(
    ends: AnyArray,
    inner: AnyArray,
    nnz: int,
    sizes: tuple[int, ...],
    block: tuple[int, ...],
    layout: Any,
    distinct: bool,
) -> None:
    """Raise if the indices do not describe a matrix; with `distinct`, also if they are not sorted and distinct."""
    first, second = ("crow", "col") if layout in BY_ROWS else ("ccol", "row")
    outer, across = [n // b for n, b in zip(sizes, block, strict=True)][:: 1 if layout in BY_ROWS else -1]
    lines, size_name = ("rows", "ncols") if layout in BY_ROWS else ("columns", "nrows")
    if ends.size != outer + 1:
        raise RuntimeError(
            f"{first}_indices.shape[-1] must be equal to the number of {lines} + 1 (={outer + 1}), but got {ends.size}"
        )
    if inner.size != nnz:
        raise RuntimeError(
            f"{second}_indices.shape[-1] must be equal to nnz (={nnz}) as defined by values.shape[0], but got "
            f"{inner.size}"
        )
    for holds, text in (
        (int(ends[0]) == 0, f"{first}_indices[..., 0] == 0"),
        (int(ends[-1]) == nnz, f"{first}_indices[..., -1] == nnz"),
        (
            bool((ends[1:] >= ends[:-1]).all()),
            f"0 <= {first}_indices[..., 1:] - {first}_indices[..., :-1] <= {size_name}",
        ),
        (not nnz or (int(inner.min()) >= 0 and int(inner.max()) < across), f"0 <= {second}_indices < {size_name}"),
        (not distinct or _is_sorted(ends, inner), f"{second}_indices[..., {first}_indices[..., i - 1]:{first}_indices"
         f"[..., i]] for all i = 1, ..., n{lines} are sorted and distinct along the last dimension values"),
    ):  # fmt: skip
        if not holds:
            raise RuntimeError(f"`{text}` is not satisfied.")


def _is_sorted(ends: AnyArray, inner: AnyArray) -> bool:
    rising = inner[1:] > inner[:-1]
    starts = ends[1:-1]
    rising[starts[(starts > 0) & (starts < inner.size)] - 1] = True
    return bool(rising.all())


def _maker(name: str, layout: Any, first: str, second: str) -> Any:
    def make(*args: Any, **kwargs: Any) -> SparseTensor:
        for short_name, full_name in ((first, "compressed_indices"), (second, "plain_indices")):
            if short_name in kwargs:
                kwargs[full_name] = kwargs.pop(short_name)
        return sparse_compressed_tensor(*args, layout=layout, **kwargs)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""Create a sparse matrix of the layout ``gradcore.{layout._name}``.

    Parameters
    ----------
    {first}, {second}, values, size, **named
        As those of `sparse_compressed_tensor`.
    """
    return make


sparse_csr_tensor = _maker("sparse_csr_tensor", CSR, "crow_indices", "col_indices")
sparse_csc_tensor = _maker("sparse_csc_tensor", CSC, "ccol_indices", "row_indices")
sparse_bsr_tensor = _maker("sparse_bsr_tensor", BSR, "crow_indices", "col_indices")
sparse_bsc_tensor = _maker("sparse_bsc_tensor", BSC, "ccol_indices", "row_indices")


# -- SciPy -------------------------------------------------------------------------------------------------------------


def from_scipy(matrix: Any, *, device: Any = None, requires_grad: bool = False) -> SparseTensor:
    """Convert a matrix of `scipy.sparse` to a sparse tensor: CSR, CSC and BSR keep their layout, others become COO.

    Examples
    --------
    >>> import gradcore as gc
    >>> import scipy.sparse
    >>> gc.sparse.from_scipy(scipy.sparse.csr_array([[0.0, 2.0], [3.0, 0.0]])).layout
    torch.sparse_csr
    """
    layout = {"csr": CSR, "csc": CSC, "bsr": BSR}.get(matrix.format)
    if layout is None:
        matrix = matrix.tocoo()
        index: Any = (matrix.row, matrix.col) if matrix.ndim == 2 else matrix.coords
        index = functional.stack([functional.as_tensor(row.astype("int64"), device=device) for row in index])
        values = functional.as_tensor(matrix.data, device=device)
        return sparse_coo_tensor(index, values, matrix.shape, requires_grad=requires_grad)
    parts = [functional.as_tensor(x.astype("int64"), device=device) for x in (matrix.indptr, matrix.indices)]
    values = functional.as_tensor(matrix.data, device=device)
    out = sparse(layout, matrix.shape, parts, values)
    return out.requires_grad_() if requires_grad else out


def to_scipy(t: Any) -> Any:
    """Convert a sparse tensor without a history to a matrix of `scipy.sparse`.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.sparse.to_scipy(gc.eye(3).to_sparse_csr()).nnz
    3
    """
    import scipy.sparse

    if not isinstance(t, SparseTensor):
        raise TypeError(f"to_scipy(): argument 't' must be a sparse tensor, not {type(t).__name__}")
    if t.requires_grad and functional.is_differentiated(t.stored):
        raise RuntimeError("Can't convert a sparse tensor that requires grad to SciPy's. Use tensor.detach() first.")
    values, parts = t.stored.host(), [x.host() for x in t.index]
    if t.layout is COO:
        if t.stored.ndim > 1:
            raise RuntimeError("to_scipy: SciPy has no sparse arrays with dense dims")
        return scipy.sparse.coo_array((values, tuple(parts[0])), shape=t.sizes)
    if t.layout is BSC:
        raise RuntimeError("to_scipy: SciPy does not have the layout sparse_bsc")
    make = {CSR: scipy.sparse.csr_array, CSC: scipy.sparse.csc_array, BSR: scipy.sparse.bsr_array}[t.layout]
    return make((values, parts[1], parts[0]), shape=t.sizes)


def spdiags(diagonals: Any, offsets: Any, shape: Sequence[int], layout: Any = None) -> Any:
    """Create a sparse matrix from its diagonals, the rows of `diagonals`, as `scipy.sparse.spdiags`.

    Parameters
    ----------
    diagonals : Tensor
        One row for each diagonal; column ``j`` of it belongs to column ``j`` of the result.
    offsets : Tensor
        The offset of each diagonal from the main one; positive offsets lie above it.
    shape : sequence of int
    layout : layout, optional
        The layout of the result, by default COO.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.sparse.spdiags(gc.ones(2, 3), gc.tensor([0, 1]), (3, 3)).to_dense()
    tensor([[1., 1., 0.],
            [0., 1., 1.],
            [0., 0., 1.]])
    """
    rows = diagonals.reshape(1, -1) if diagonals.ndim < 2 else diagonals
    shifts = offsets.reshape(-1).tolist()
    if len(shifts) != rows.shape[0]:
        raise RuntimeError(
            f"spdiags(): Number of diagonals ({rows.shape[0]}) does not match the number of offsets ({len(shifts)})"
        )
    if len(set(shifts)) != len(shifts):
        raise RuntimeError("spdiags(): Offset tensor contains duplicate values")
    device, (height, width) = rows._device.real, shape
    xp = device.backend.xp
    cols = xp.concatenate([_columns(xp, k, height, width, rows.shape[1]) for k in shifts])
    numbers = xp.concatenate(
        [xp.full(_columns(xp, k, height, width, rows.shape[1]).size, i) for i, k in enumerate(shifts)]
    )
    shift = xp.asarray(shifts)[numbers] if len(shifts) else numbers
    index = wrap(xp.stack([cols - shift, cols]), device)
    values = rows[wrap(numbers, device), wrap(cols, device)]
    out = sparse(COO, (int(height), int(width)), (index,), values, False)
    return out if layout is None else to_sparse(out, layout)


def _columns(xp: Any, k: int, height: int, width: int, length: int) -> AnyArray:
    """Return the columns of the elements of the diagonal `k` of a matrix that has `length` stored columns."""
    return xp.arange(max(k, 0), max(min(width, height + k, length), max(k, 0)))
