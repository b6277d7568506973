"""PyTorch's names for where modules and the hooks on all modules are found: ``nn.modules.module`` and its like."""

from gradcore.nn import activations as activation
from gradcore.nn import containers as container
from gradcore.nn import convolution as conv
from gradcore.nn import lazy, linear, module, padding, transformer
from gradcore.nn import losses as loss
from gradcore.nn.module import Module

__all__ = ["Module", "activation", "container", "conv", "lazy", "linear", "loss", "module", "padding", "transformer"]
