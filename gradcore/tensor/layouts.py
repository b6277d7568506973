"""Layouts of tensors, conversions to sparse layouts, and methods that need a sparse layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gradcore import functional
from gradcore.tensor import Tensor

__all__ = [
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "layout",
    "memory_format",
    "preserve_format",
    "strided",
]


class layout:
    """Layout of a tensor in memory: ``gradcore.strided``, or that of a sparse tensor, as ``gradcore.sparse_csr``.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.zeros(1).layout
    torch.strided
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


class memory_format(layout):
    """An order of dims in memory, accepted where PyTorch accepts it.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.channels_last
    torch.channels_last
    """


strided = layout("strided")
jagged, sparse_coo = layout("jagged"), layout("sparse_coo")
sparse_bsc, sparse_bsr, sparse_csc, sparse_csr = map(layout, ("sparse_bsc", "sparse_bsr", "sparse_csc", "sparse_csr"))
contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")

#: Flags that are False for strided tensors on the CPU and on CUDA.
FLAGS = (
    "is_sparse", "is_sparse_csr", "is_quantized", "is_mkldnn", "is_xpu", "is_vulkan", "is_mps", "is_ipu", "is_mtia",
    "is_maia", "is_xla", "is_nested",
)  # fmt: skip

#: Methods of sparse and quantized tensors, with the words for the layout that they need.
NEEDED = {
    "sparse": "_coalesced_ _dimI _dimV _indices _nnz _values smm sparse_resize_ sparse_resize_and_clear_ sspaddmm "
    "values",
    "sparse coordinate": "coalesce indices is_coalesced",
    "sparse row compressed": "col_indices crow_indices",
    "sparse column compressed": "ccol_indices row_indices",
    "quantized": "int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point "
    "qscheme",
}

#: Functions that PyTorch removed, and their replacements.
REMOVED = {
    "eig": "gradcore.linalg.eig",
    "lstsq": "gradcore.linalg.lstsq",
    "solve": "gradcore.linalg.solve",
    "symeig": "gradcore.linalg.eigh",
    "reinforce": "the log-probability of what was sampled, times the reward",
}


def _refuse(name: str, error: type[Exception], text: str) -> Callable[..., Any]:
    """Return a method called `name` that raises `error`."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        raise error(text)

    method.__name__, method.__doc__ = name, f"Raise an error, as the tensor is strided: {text}"
    return method


def _refusals() -> Iterator[tuple[str, type[Exception], str]]:
    for kind, names in NEEDED.items():
        for name in names.split():
            yield name, RuntimeError, f"{name} expected {kind} tensor layout but got Strided"
    text = "to_mkldnn: gradcore has strided and sparse tensors only"
    yield "to_mkldnn", NotImplementedError, text
    for name, substitute in REMOVED.items():
        text = f"This function was deprecated since version 1.9 and is now removed. Use {substitute} instead."
        yield name, RuntimeError, text
    yield "xpu", AssertionError, "gradcore runs on the CPU and on CUDA; there is no XPU backend"


def to_sparse(
    self: Tensor, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None, dense_dim: Any = None
) -> Any:
    """Return the nonzero elements as a sparse tensor, by default of the layout ``gradcore.sparse_coo``.

    Parameters
    ----------
    sparse_dim : int, optional
        The number of dims with indices; the others are dense. By default all dims have indices.
    layout : layout, optional
    blocksize : tuple of int, optional
        Height and width of the blocks of ``sparse_bsr`` and ``sparse_bsc``.
    dense_dim : int, optional
        Not supported: all dims that are not sparse are dense.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse()
    tensor(indices=tensor([[0, 1],
                           [1, 0]]),
           values=tensor([2., 3.]),
           size=(2, 2), nnz=2, layout=torch.sparse_coo)
    """
    if dense_dim is not None:
        raise NotImplementedError("to_sparse: dense_dim is not supported; pass sparse_dim")
    return functional.dense_to_sparse(self, layout, blocksize=blocksize, sparse_dim=sparse_dim)


def rows_with_sparse_gradient(weight: Tensor, indices: Tensor, padding_idx: int, scale_grad_by_freq: bool) -> Any:
    """Return the rows of a table that `indices` name, with a sparse gradient."""
    return functional.lookup_rows(weight, indices, padding_idx, scale_grad_by_freq)


def sparse_mask(self: Tensor, mask: Tensor) -> Any:
    """Return the elements at the indices of a sparse tensor, as a sparse tensor."""
    return functional.sparse_mask(self, mask)


def _conversion(name: str, words: str) -> Callable[..., Any]:
    def method(self: Tensor, *blocksize: Any, dense_dim: int | None = None) -> Any:
        if dense_dim is not None or len(blocksize) > name.startswith("to_sparse_bs"):
            raise NotImplementedError(f"{name}: dense_dim is not supported: elements and blocks are numbers")
        return functional.sparse_conversions()[name](self, *blocksize)

    method.__name__, method.__doc__ = name, f"Return the nonzero elements as a sparse tensor {words}."
    return method


#: Conversions to the sparse layouts of matrices.
CONVERSIONS = {
    "to_sparse_coo": "of indices and values",
    "to_sparse_csr": "compressed by rows",
    "to_sparse_csc": "compressed by columns",
    "to_sparse_bsr": "dense blocks, compressed by rows",
    "to_sparse_bsc": "dense blocks, compressed by columns",
    "_to_sparse_csr": "compressed by rows",
}


def dense_dim(self: Tensor) -> int:
    """Return the number of dims: all dims of a strided tensor are dense."""
    return self.ndim


def sparse_dim(self: Tensor) -> int:
    """Return 0: no dim of a strided tensor is sparse."""
    return 0


def dequantize(self: Tensor) -> Tensor:
    """Return the tensor itself, which is never quantized."""
    return self


def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """Return the tensor itself, or the tensor in another dtype."""
    return self if dtype is None else self.to(dtype)


def is_distributed(self: Tensor) -> bool:
    """Return False."""
    return False


def is_conj(self: Tensor) -> bool:
    """Return False: conjugates are computed at once."""
    return False


def is_neg(self: Tensor) -> bool:
    """Return False: negatives are computed at once."""
    return False


#: Methods of strided tensors.
_STRIDED = (
    dense_dim, sparse_dim, dequantize, to_dense, to_sparse, sparse_mask, is_distributed, is_conj, is_neg
)  # fmt: skip

#: Methods of strided tensors that return a constant or themselves, raise an error, or convert to a sparse layout.
METHODS = {
    **{name: _refuse(name, error, text) for name, error, text in _refusals()},
    **{method.__name__: method for method in _STRIDED},
    **{name: _conversion(name, words) for name, words in CONVERSIONS.items()},
}

#: Attributes of tensors that are the same for all.
ATTRIBUTES = {
    **{name: property(lambda self: False, doc="False: tensors are strided, on the CPU or on CUDA.") for name in FLAGS},
    "layout": property(lambda self: strided, doc="``gradcore.strided``."),
    "name": property(lambda self: None, doc="None; kept for PyTorch's old programs."),
}
