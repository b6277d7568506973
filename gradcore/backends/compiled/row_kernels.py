"""Declarations of the C++ kernels of contiguous rows.

One entry of `ROW_KERNELS` makes a function of ``rows.h`` the kernel of eager calls (`gradcore.backends.compiled.rows`)
and of compiled programs (`gradcore.compiler.targets.native.rows`). The portable kernel of the same name stays the
meaning, and runs where the C++ function does not apply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["ROW_KERNELS", "RowCall", "RowKernel"]


class RowCall(NamedTuple):
    """The settings of a kernel, or of an operation: the arguments behind its arrays.

    Attributes
    ----------
    dim, dims, number, dtype : int
        Positions among these arguments of: a dim, which has to be the last one; the number of last dims that make a
        row; the member ``number`` of ``Work``; a dtype. -1 if there is no such argument.
    value : float
        The member ``number`` where no argument gives it.
    """

    dim: int = -1
    dims: int = -1
    number: int = -1
    dtype: int = -1
    value: float = 0

    @classmethod
    def parse(cls, words: str, value: float = 0) -> RowCall:
        """Return the call that words such as ``"dim number=1 dtype"`` describe; `value` where they give no number."""
        fields: dict[str, Any] = {"value": value}
        position = 0
        for word in words.split():
            name, _, default = word.partition("=")
            if default:
                fields["value"] = float(default)
            else:
                fields[name], position = position, position + 1
        return cls(**fields)

    def row_dims(self, ndim: int, arguments: Sequence[Any]) -> int:
        """Return the number of last dims that make a row of an array of `ndim` dims; 0 if rows lie in other dims."""
        if self.dim >= 0:
            return int(ndim > 0 and arguments[self.dim] % ndim == ndim - 1)
        return arguments[self.dims] if self.dims >= 0 else 1

    def number_of(self, arguments: Sequence[Any]) -> float:
        """Return the member ``number`` of ``Work``; 0 if its argument is left out."""
        if self.number < 0:
            return self.value
        return arguments[self.number] if self.number < len(arguments) else 0

    def dtype_of(self, arguments: Sequence[Any]) -> Any:
        """Return the dtype that is asked for, or None."""
        return arguments[self.dtype] if 0 <= self.dtype < len(arguments) else None


class RowKernel(NamedTuple):
    """A C++ kernel of contiguous rows of float32 or float64.

    The function of ``rows.h`` is ``symbol(const Work&, i64 start, i64 stop, const T* reads..., writes...)``; its work
    is the rows from `start` to before `stop`. ``rows.cpp`` makes it a symbol of the library by ``FLOAT_KERNEL``.

    Attributes
    ----------
    symbol : str
    reads : tuple of str
        Contents of each array that the kernel takes: ``"rows"``, the elements of the rows; ``"row"``, one number for
        each row; ``"column=1"``, one number for each column of a row, and 1 for each if the array is None.
    writes : tuple of str
        Contents of each result: ``"rows"``; ``"row"``, in a vector, or ``"kept"``, in the shape of the rows with dims
        of size 1; ``"index"``, an int64 for each element.
    call : RowCall
        The kernel's other arguments.
    least_width : int
        The width of rows from which the kernel is faster than NumPy's functions.
    operations : dict
        How operations that are nothing but this kernel take their other arguments, by the name of the operation.
    """

    symbol: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    call: RowCall
    least_width: int
    operations: dict[str, RowCall]


def _declare(symbol: str, arrays: str, call: str, least_width: int, **operations: str) -> RowKernel:
    """Return the declaration of a kernel whose arrays are words such as ``"rows column=1 -> rows row"``."""
    reads, writes = (tuple(side.split()) for side in arrays.split("->"))
    own = RowCall.parse(call)
    calls = {name: RowCall.parse(words, own.value) for name, words in operations.items()}
    return RowKernel(symbol, reads, writes, own, least_width, calls)


#: The declarations by the names of the kernels, which are methods of backends.
ROW_KERNELS = {
    "softmax_along": _declare("softmax", "rows -> rows", "dim", 128, softmax="dim dtype"),
    "log_softmax_along": _declare("log_softmax", "rows -> rows", "dim", 32, log_softmax="dim dtype"),
    "softmax_product": _declare("softmax_backward", "rows rows -> rows", "dim", 32, softmax_backward="dim"),
    "log_softmax_transposed": _declare(
        "log_softmax_backward", "rows rows -> rows", "dim", 32, log_softmax_backward="dim"
    ),
    "row_powers": _declare("row_powers", "rows -> rows row row", "", 32),
    "scaled_rows": _declare("scaled_rows", "rows row -> rows", "", 32),
    "cumsum_along": _declare(
        "cumulative_sum", "rows -> rows", "dim number dtype", 1, cumsum="dim dtype", cumsum_backward="dim number=1"
    ),
    "cumprod_along": _declare("cumulative_product", "rows -> rows", "dim dtype", 1, cumprod="dim dtype"),
    "cummax_along": _declare("cumulative_extremum", "rows -> rows index", "dim", 1, cummax="dim"),
    "cummin_along": _declare("cumulative_extremum", "rows -> rows index", "dim number=1", 1, cummin="dim"),
    "scan_along": _declare("scan", "rows rows -> rows", "dim number", 1, scan="dim number"),
    "native_layer_norm": _declare(
        "layer_norm", "rows column=1 column=0 -> rows kept kept", "dims number", 32, native_layer_norm="dims number"
    ),
}  # fmt: skip
