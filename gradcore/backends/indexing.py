"""Gather, scatter and friends."""

from __future__ import annotations

from typing import Any

__all__ = ["Indexing"]


class Indexing:
    """Gather, scatter and friends."""

    xp: Any
