"""Linear algebra, under the names that PyTorch gives it in ``torch.linalg``.

Every function is declared in `gradcore.ops`, with its derivative. All of them take batches of matrices.

Examples
--------
>>> import gradcore
>>> A = gradcore.tensor([[2.0, 1.0], [1.0, 3.0]])
>>> gradcore.linalg.det(A)
tensor(5.)
>>> gradcore.linalg.solve(A, gradcore.tensor([3.0, 4.0]))
tensor([1., 1.])
"""

from __future__ import annotations

from gradcore.core.errors import LinAlgError
from gradcore.tensor import namespaces

_functions = namespaces.functions("linalg")
__getattr__, __dir__ = namespaces.lazy_attributes(_functions, globals())

__all__ = ["LinAlgError", *sorted(_functions)]
