"""Order, selection and search."""

from __future__ import annotations

from typing import Any

__all__ = ["Sorting"]


class Sorting:
    """Order, selection and search."""

    xp: Any
