"""``scipy.sparse`` of tensors: `linalg`. Matrices are made by `gradcore.sparse`, also of SciPy's (`from_scipy`)."""

from typing import Any

from gradcore.scipy.sparse import linalg

__all__ = ["linalg"]


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}: make matrices with gradcore.sparse, or with scipy.sparse and "
        "gradcore.sparse.from_scipy()"
    )
