"""Neural networks: modules, parameters and functions."""

from gradcore.nn import functional
from gradcore.nn.containers import ModuleDict, ModuleList, ParameterList, Sequential
from gradcore.nn.layers import *  # noqa: F403  (activations and losses are made from tables)
from gradcore.nn.layers import MADE, Flatten, Identity, Linear
from gradcore.nn.module import Module, register_module_forward_hook, register_module_forward_pre_hook
from gradcore.nn.parameter import Buffer, Parameter

__all__ = [
    "Buffer",
    "Flatten",
    "Identity",
    "Linear",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "ParameterList",
    "Sequential",
    "functional",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    *MADE,
]
