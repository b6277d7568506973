"""Functions for neural networks: convolution, pooling, activations, normalization, dropout and losses.

`gradcore.ops` declares them with their derivatives, under the path ``nn.functional``; `gumbel_softmax` is the
exception.
"""

from __future__ import annotations

from gradcore.nn.gumbel import gumbel_softmax as gumbel_softmax
from gradcore.tensor import namespaces

_functions = namespaces.functions("nn.functional")
__getattr__, __dir__ = namespaces.lazy_attributes(_functions, globals())

__all__ = sorted(["gumbel_softmax", *_functions])
