"""Tables that the host computes from sizes alone: combinations, and the order of the products in a chain."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcore.core.errors import OutOfMemoryError

__all__ = ["count_combinations", "find_cheapest_order", "list_combinations"]


def count_combinations(size: int, r: int) -> int:
    """Return the number of ways to choose `r` of `size` elements, or any number above 2**62 if there are more."""
    count = 1
    for i in range(min(r, size - r)):
        count = count * (size - i) // (i + 1)
        if count > 2**62:
            break
    return count if r <= size else 0


def list_combinations(size: int, r: int, with_replacement: bool, rows: int) -> Any:
    """Return the `rows` combinations of `r` of the numbers below `size`, as an array of shape ``(rows, r)``.

    Memory for all of them is allocated first, so that too many combinations raise an error without a long computation.

    Raises
    ------
    OutOfMemoryError
        If there is not enough memory for them.
    """
    draw = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    numbers = itertools.chain.from_iterable(draw(range(size), r))
    try:
        return np.fromiter(numbers, np.int64, rows * r).reshape(rows, r)
    except MemoryError as error:
        raise OutOfMemoryError(f"not enough memory for {rows} combinations of {r} of {size} elements") from error


def find_cheapest_order(sizes: Sequence[int]) -> list[list[int]]:
    """Return where to split each chain of matrices of ``sizes[i] x sizes[i + 1]`` for the fewest multiplications.

    Entry ``[i][j]`` is the last matrix of the first part of the chain from matrix `i` to matrix `j`. All chains of one
    length are decided at once: the number of steps in Python grows with the number of matrices, not with its cube.
    """
    dims = np.array([float(size) for size in sizes])
    n = len(dims) - 1
    #: Costs of the chains by their first matrix and their length, and by their last matrix and their length, less one.
    by_first, by_last = np.zeros((n, n)), np.zeros((n, n))
    split = np.zeros((n, n), "int64")
    for length in range(1, n):
        first_matrix, last_matrix = np.arange(n - length), np.arange(length, n)
        inner = np.lib.stride_tricks.sliding_window_view(dims[1:-1], length)
        options = by_first[first_matrix, :length] + by_last[last_matrix, :length][:, ::-1]
        options += dims[first_matrix, None] * inner * dims[last_matrix + 1, None]
        best = options.argmin(1)
        split[first_matrix, last_matrix] = first_matrix + best
        by_first[first_matrix, length] = by_last[last_matrix, length] = options[first_matrix, best]
    return split.tolist()
