"""The extension ``linalg`` of the array API standard."""

from __future__ import annotations

from gradcore.numpy import linalg

__all__ = [
    name
    for name in linalg.__all__
    if name not in ("LinAlgError", "cond", "eig", "eigvals", "lstsq", "multi_dot", "norm", "tensorinv", "tensorsolve")
]
globals().update({name: getattr(linalg, name) for name in __all__})
