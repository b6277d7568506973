"""Reductions and normalizations of the elements that a mask selects, as ``torch.masked`` has them.

A mask is a tensor of bools that can be expanded to the input's shape; elements where it is true are selected.

Examples
--------
>>> import gradcore
>>> x = gradcore.tensor([[1.0, 2.0], [3.0, 4.0]])
>>> gradcore.masked.mean(x, 1, mask=gradcore.tensor([[True, False], [True, True]]))
tensor([1.0000, 3.5000])
"""

from __future__ import annotations

from gradcore.tensor import namespaces

_functions = namespaces.functions("masked")
__getattr__, __dir__ = namespaces.lazy_attributes(_functions, globals())

__all__ = sorted(_functions)
