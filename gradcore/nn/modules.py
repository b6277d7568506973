"""PyTorch's names for where modules and the hooks on all modules are found: ``nn.modules.conv`` and its like."""

from __future__ import annotations

import sys
from typing import Any

from gradcore.nn import activations as activation
from gradcore.nn import containers as container
from gradcore.nn import convolution as conv
from gradcore.nn import embedding as sparse
from gradcore.nn import layers as dropout
from gradcore.nn import layers as pooling
from gradcore.nn import layers as upsampling
from gradcore.nn import lazy, linear, module, normalization, padding, transformer
from gradcore.nn import losses as loss
from gradcore.nn import normalization as batchnorm
from gradcore.nn import normalization as instancenorm
from gradcore.nn import recurrent as rnn
from gradcore.nn.module import Module

__all__ = [
    "Module",
    "activation",
    "batchnorm",
    "container",
    "conv",
    "dropout",
    "instancenorm",
    "lazy",
    "linear",
    "loss",
    "module",
    "normalization",
    "padding",
    "pooling",
    "rnn",
    "sparse",
    "transformer",
    "upsampling",
]

for _name in __all__[1:]:
    sys.modules[f"{__name__}.{_name}"] = globals()[_name]  # so that they can be imported from


def __getattr__(name: str) -> Any:
    """A class of modules, from `gradcore.nn`."""
    nn = vars(sys.modules[__name__.rpartition(".")[0]])  # which imports this module
    if name in nn["__all__"]:
        return nn[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
