"""Layouts: tensors are strided; what PyTorch offers for other layouts says so here, in one table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

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
    """Layout of a tensor in memory: ``gradcore.strided`` for every tensor.

    There are the others of PyTorch too, to compare with.

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

#: Methods of sparse and quantized tensors, with the layout that they need.
SPARSE = (
    "_coalesced_", "_dimI", "_dimV", "_indices", "_nnz", "_values", "coalesce", "col_indices", "crow_indices",
    "indices", "is_coalesced", "smm", "sparse_mask", "sparse_resize_", "sparse_resize_and_clear_", "sspaddmm", "values",
)  # fmt: skip
QUANTIZED = (
    "int_repr", "q_per_channel_axis", "q_per_channel_scales", "q_per_channel_zero_points", "q_scale", "q_zero_point",
    "qscheme",
)  # fmt: skip
CONVERSIONS = ("_to_sparse_csr", "to_sparse", "to_mkldnn")

#: What PyTorch removed, and its replacement.
REMOVED = {
    "eig": "gradcore.linalg.eig",
    "lstsq": "gradcore.linalg.lstsq",
    "solve": "gradcore.linalg.solve",
    "symeig": "gradcore.linalg.eigh",
    "reinforce": "the log-probability of what was sampled, times the reward",
}


def _refuse(name: str, error: type[Exception], text: str) -> Callable[..., Any]:
    """The method of a name that raises."""

    def method(self: Tensor, *args: Any, **named: Any) -> Any:
        raise error(text)

    method.__name__, method.__doc__ = name, f"Not for strided tensors: {text}"
    return method


def _refusals() -> Iterator[tuple[str, type[Exception], str]]:
    for names, kind in ((SPARSE, "sparse"), (QUANTIZED, "quantized")):
        for name in names:
            yield name, RuntimeError, f"{name} expected {kind} tensor layout but got Strided"
    for name in CONVERSIONS:
        text = f"{name}: gradcore has strided tensors only; use scipy.sparse or cupyx.scipy.sparse on the arrays"
        yield name, NotImplementedError, text
    for name, instead in REMOVED.items():
        text = f"This function was deprecated since version 1.9 and is now removed. Use {instead} instead."
        yield name, RuntimeError, text
    yield "xpu", AssertionError, "gradcore runs on the CPU and on CUDA; there is no XPU backend"


def dense_dim(self: Tensor) -> int:
    """The number of dims: all are dense."""
    return self.ndim


def sparse_dim(self: Tensor) -> int:
    """0: no dim is sparse."""
    return 0


def dequantize(self: Tensor) -> Tensor:
    """The tensor itself: nothing is quantized."""
    return self


def to_dense(self: Tensor, dtype: Any = None) -> Tensor:
    """The tensor itself, or in another dtype."""
    return self if dtype is None else self.to(dtype)


def is_distributed(self: Tensor) -> bool:
    """False."""
    return False


def is_conj(self: Tensor) -> bool:
    """False: conjugates are computed at once."""
    return False


def is_neg(self: Tensor) -> bool:
    """False: negatives are computed at once."""
    return False


#: Methods of tensors that say that there is nothing else than strided ones.
METHODS = {
    **{name: _refuse(name, error, text) for name, error, text in _refusals()},
    **{
        method.__name__: method
        for method in (dense_dim, sparse_dim, dequantize, to_dense, is_distributed, is_conj, is_neg)
    },
}

#: Attributes of tensors that are the same for all.
ATTRIBUTES = {
    **{name: property(lambda self: False, doc="False: tensors are strided, on the CPU or on CUDA.") for name in FLAGS},
    "layout": property(lambda self: strided, doc="``gradcore.strided``."),
    "name": property(lambda self: None, doc="None; kept for PyTorch's old programs."),
}
