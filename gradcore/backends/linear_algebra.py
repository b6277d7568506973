"""Matrix products, factorisations, solvers."""

from __future__ import annotations

from typing import Any

__all__ = ["LinearAlgebra"]


class LinearAlgebra:
    """Matrix products, factorisations, solvers."""

    xp: Any

    def matmul(self, a: Any, b: Any) -> Any:
        return self.xp.matmul(a, b)
