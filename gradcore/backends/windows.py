"""Convolution, pooling, resampling."""

from __future__ import annotations

from typing import Any

__all__ = ["Windows"]


class Windows:
    """Convolution, pooling, resampling."""

    xp: Any
