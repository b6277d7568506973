"""Special functions, under the names that PyTorch gives them in ``torch.special``.

Every function is declared in `gradcore.ops`, with its derivative.

Examples
--------
>>> import gradcore
>>> gradcore.special.expit(gradcore.tensor([0.0]))
tensor([0.5000])
"""

from __future__ import annotations

from gradcore.tensor import namespaces

_functions = namespaces.functions("special")
__getattr__, __dir__ = namespaces.lazy_attributes(_functions, globals())

__all__ = sorted(_functions)
