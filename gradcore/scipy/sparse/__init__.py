"""``scipy.sparse`` of tensors: `linalg`. `gradcore.sparse` creates the matrices, also from SciPy's (`from_scipy`)."""

from __future__ import annotations

from typing import Any

from gradcore.scipy.sparse import linalg

__all__ = ["linalg"]


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}: make matrices with gradcore.sparse, or with scipy.sparse and "
        "gradcore.sparse.from_scipy()"
    )
