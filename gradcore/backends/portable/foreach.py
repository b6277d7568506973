"""Multi-tensor kernels (``foreach``), for backends on which every call is a launch.

Each method changes, in place, the arrays it can, and returns the places of the others in the list, which the caller
treats one by one. A backend without launches leaves all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["Lists"]

Arrays = Sequence[Any]


class Lists:
    """Lists of gradients: unscaled, measured, clipped."""

    def unscale_list(self, arrays: Arrays, factor: Any, found: Any) -> list[int]:
        """Multiply by `factor` (float32 without dims, or None), and write 1 to `found` if an element is not finite."""
        return list(range(len(arrays)))

    def adapt_scale(self, scale: Any, steps: Any, found: Any, growth: float, backoff: float, interval: int) -> bool:
        """Make the scale of gradients smaller or larger after a step; False if that was not done."""
        return False

    def norm_list(self, arrays: Arrays, order: float) -> tuple[list[Any], list[int]]:
        """Norms, each of several of the arrays together, and the places of arrays that are in none of them."""
        return [], list(range(len(arrays)))

    def clip_list(self, arrays: Arrays, norm: Any, most: float) -> list[int]:
        """Scale down so that the norm of all, which is `norm` now, is at most `most`."""
        return list(range(len(arrays)))

    def clamp_list(self, arrays: Arrays, bound: float) -> list[int]:
        """Clamp elements between plus and minus `bound`."""
        return list(range(len(arrays)))
