"""Helpers: checkpointing and nested containers."""

from gradcore.utils import checkpoint

__all__ = ["checkpoint"]
