"""Neural networks: the functions of `gradcore.nn.functional`."""

from __future__ import annotations

from gradcore.nn import functional

__all__ = ["functional"]
