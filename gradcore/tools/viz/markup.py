"""Text in HTML and SVG."""

from __future__ import annotations

__all__ = ["escape"]

_CODES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


def escape(text: str) -> str:
    """Return the text as it stands between tags and in attributes."""
    return text.translate(_CODES)
