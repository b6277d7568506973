"""Multi-tensor kernels (``foreach``), for backends on which every call launches a kernel.

Each method modifies the arrays that it supports in place, and returns the positions of the others in the list, which
the caller handles one by one. The methods here are for backends without kernel launches, and handle no array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradcore.backends.kernel_rules import writes

__all__ = ["Lists"]

Arrays = Sequence[Any]


class Lists:
    """Kernels of lists of gradients, which return the positions of arrays that they have not handled: here, all."""

    @writes()
    def unscale_list(self, arrays: Arrays, factor: Any, found: Any) -> list[int]:
        """Multiply by `factor` (float32 without dims, or None), and write 1 to `found` if an element is not finite."""
        return list(range(len(arrays)))

    @writes()
    def adapt_scale(self, scale: Any, steps: Any, found: Any, growth: float, backoff: float, interval: int) -> bool:
        """Update the scale of gradients after a step; return False if the caller has to do so."""
        return False

    def norm_list(self, arrays: Arrays, order: float) -> tuple[list[Any], list[int]]:
        """Return norms, each of several arrays together, and the numbers of arrays that were left out."""
        return [], list(range(len(arrays)))

    @writes()
    def clip_list(self, arrays: Arrays, norm: Any, most: float) -> list[int]:
        """Scale the arrays by one factor so that their norm, which is `norm` now, is at most `most`."""
        return list(range(len(arrays)))

    @writes()
    def clamp_list(self, arrays: Arrays, bound: float) -> list[int]:
        """Clamp elements between plus and minus `bound`."""
        return list(range(len(arrays)))
