"""Escaping of text for HTML and SVG."""

from __future__ import annotations

__all__ = ["escape"]

_CODES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


def escape(text: str) -> str:
    """Return `text` with HTML's special characters escaped, for the content and the attributes of elements."""
    return text.translate(_CODES)
