"""Patterns of sparse matrices: the positions of stored elements, in the forms that kernels read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any

from gradcore.core.typing import AnyArray

__all__ = ["Pattern", "add_border", "flat_places", "unravel_places"]


class Pattern:
    """Positions of the stored elements of a matrix. The elements themselves are stored elsewhere.

    Parameters
    ----------
    xp : module
        The array library.
    shape : tuple of int
    rows, cols : array, optional
        Row and column of each element, in any order; an element may be stored in parts.
    ends : array, optional
        Replaces `rows` (or `cols`, if not `by_rows`): the position of the first element of each row, and the number of
        elements.
    by_rows : bool
        Whether elements with `ends` are sorted by rows.
    """

    def __init__(
        self,
        xp: Any,
        shape: tuple[int, int],
        rows: AnyArray = None,
        cols: AnyArray = None,
        ends: AnyArray = None,
        by_rows: bool = True,
    ) -> None:
        self.xp, self.shape, self.by_rows = xp, shape, by_rows
        self._rows, self._cols, self._ends = rows, cols, ends
        #: Cache for objects that kernels compute from the pattern, by names that the kernels choose.
        self.kept: dict[str, Any] = {}

    @property
    def size(self) -> int:
        """Number of stored elements."""
        return int((self._cols if self._rows is None else self._rows).size)

    @property
    def is_compressed(self) -> bool:
        """Whether rows (or columns) are given by the positions of their ends."""
        return self._ends is not None

    @cached_property
    def rows(self) -> AnyArray:
        """Row of each element."""
        return self._expand_ends() if self._rows is None else self._rows

    @cached_property
    def cols(self) -> AnyArray:
        """Column of each element."""
        return self._expand_ends() if self._cols is None else self._cols

    def _expand_ends(self) -> AnyArray:
        return self.xp.searchsorted(self._ends, self.xp.arange(self.size), side="right") - 1

    @cached_property
    def compressed_form(self) -> tuple[AnyArray, AnyArray, AnyArray]:
        """Ends of the rows, column of each element, and the order that sorts elements by row (None: sorted).

        Columns and rows swap roles where the pattern is not `by_rows`.
        """
        if self._ends is not None:
            return self._ends, self._cols if self.by_rows else self._rows, None
        rows, cols, order = self.rows, self.cols, None
        if rows.size and bool((rows[1:] < rows[:-1]).any()):
            order = self.xp.argsort(rows, kind="stable")
            rows, cols = rows[order], cols[order]
        return self.xp.searchsorted(rows, self.xp.arange(self.shape[0] + 1)), cols, order


def add_border(pattern: Pattern) -> Pattern:
    """Return the pattern of ``[[A + D, b], [c, 0]]`` with a diagonal `D`: the elements of `A`, `D`, `b`, then `c`."""
    xp, (n, _) = pattern.xp, pattern.shape
    if "bordered" not in pattern.kept:
        positions, border = xp.arange(n), xp.full(n, n)
        rows = xp.concatenate([pattern.rows, positions, positions, border])
        cols = xp.concatenate([pattern.cols, positions, border, positions])
        pattern.kept["bordered"] = Pattern(xp, (n + 1, n + 1), rows, cols)
    result: Pattern = pattern.kept["bordered"]
    return result


def flat_places(index: AnyArray | Sequence[AnyArray], sizes: Sequence[int]) -> AnyArray:
    """Return the flat, row-major position of each column of indices in a tensor of these sizes, as int64.

    The dtype of the indices, such as int32, may be too small for positions.
    """
    if prod(sizes) >= 2**63:
        raise RuntimeError(f"numel: integer multiplication overflow: a tensor of sizes {list(sizes)} has 2**63 "
                           "elements or more")  # fmt: skip
    if not len(index):  # a tensor without dims has one place
        return index.sum(0, dtype="int64")  # type: ignore[union-attr]
    flat: AnyArray = index[0].astype("int64")
    for row, size in zip(index[1:], sizes[1:], strict=True):
        flat = flat * size + row
    return flat


def unravel_places(xp: Any, flat: AnyArray, sizes: Sequence[int]) -> AnyArray:
    """Return the indices, one row for each dim, of flat, row-major positions in a tensor of these sizes."""
    index = xp.empty((len(sizes), flat.size), "int64")
    for dim in range(len(sizes) - 1, 0, -1):
        rest = flat // sizes[dim]
        xp.multiply(rest, sizes[dim], out=index[dim])
        xp.subtract(flat, index[dim], out=index[dim])
        flat = rest
    index[:1] = flat
    return index
