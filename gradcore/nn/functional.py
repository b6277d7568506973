"""Functions for neural networks: convolution, pooling, activations, normalization, dropout, losses.

Every function but `gumbel_softmax` is declared in `gradcore.ops`, under the path ``nn.functional``, with its
derivative.

Examples
--------
>>> import gradcore
>>> import gradcore.nn.functional as F
>>> F.mse_loss(gradcore.tensor([1.0, 2.0]), gradcore.tensor([1.0, 4.0]))
tensor(2.)
"""

from __future__ import annotations

from gradcore.nn.gumbel import gumbel_softmax as gumbel_softmax
from gradcore.tensor import namespaces

_functions = namespaces.functions("nn.functional")
__getattr__, __dir__ = namespaces.lazy_attributes(_functions, globals())

__all__ = sorted(["gumbel_softmax", *_functions])
