"""Kernel arguments for many arrays at once: the structure of `cuda/parts.cuh`, filled from lists of any length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradcore.backends.cupy.kernels import pass_by_value

__all__ = ["CHUNK", "MOST_ARRAYS", "Launch", "launches"]

#: Elements that a block handles, and largest number of arrays in one launch.
CHUNK, MOST_ARRAYS = 1 << 13, 128

_PARTS = np.dtype(
    [
        ("addresses", "i8", (2, MOST_ARRAYS)),
        ("start", "i8", (MOST_ARRAYS + 1,)),
        ("block", "i4", (MOST_ARRAYS + 1,)),
        ("count", "i4"),
        ("first", "i8"),
    ],
    align=True,
)


class Launch(NamedTuple):
    """Arguments of one launch, for some of the arrays.

    Attributes
    ----------
    parts : NumPy array
        One element, the bytes of the structure that the kernel takes by value.
    blocks : int
        The size of the grid.
    """

    parts: np.ndarray[Any, Any]
    blocks: int


def launches(sizes: Sequence[int], *addresses: Sequence[int]) -> Iterator[Launch]:
    """Yield the launches of a kernel for arrays of these sizes at these addresses; none if all are empty.

    Parameters
    ----------
    sizes : sequence of int
        How many elements each array has.
    *addresses : sequence of int
        The addresses of the arrays, and if wanted those of other arrays that belong to them.
    """
    starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    for first in range(0, len(sizes), MOST_ARRAYS):
        count = min(MOST_ARRAYS, len(sizes) - first)
        blocks = np.concatenate([[0], np.cumsum(-(-np.asarray(sizes[first : first + count]) // CHUNK))])
        if not blocks[-1]:
            continue
        parts = np.zeros(1, _PARTS)
        for position, values in enumerate(addresses):
            parts["addresses"][0, position, :count] = values[first : first + count]
        parts["start"][0, : count + 1] = starts[first : first + count + 1]
        parts["block"][0, : count + 1] = blocks
        parts["count"], parts["first"] = count, first
        yield Launch(pass_by_value(parts), int(blocks[-1]))
