"""Pruning: parameters multiplied by masks of zeros and ones.

A pruned parameter ``weight`` is stored as the parameter ``weight_orig`` and the buffer ``weight_mask``. The attribute
``weight`` is their product, computed before each forward.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradcore import functional
from gradcore.nn.module import Module
from gradcore.nn.utils.pruning_methods import (
    Amount,
    BasePruningMethod,
    CustomFromMask,
    Identity,
    L1Unstructured,
    LnStructured,
    PruningContainer,
    RandomStructured,
    RandomUnstructured,
    method_of,
)
from gradcore.tensor import Tensor
from gradcore.tensor.creation import ones_like

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


def identity(module: Module, name: str) -> Module:
    """Add a mask of ones to a parameter, which prunes nothing yet.

    Parameters
    ----------
    module : Module
    name : str
        The name of the parameter.

    Returns
    -------
    Module
        The module.

    Examples
    --------
    >>> import gradcore as gc
    >>> prune = gc.nn.utils.prune
    >>> prune.identity(gc.nn.Linear(2, 1), "weight").weight_mask
    tensor([[1., 1.]])
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: Amount) -> Module:
    """Prune randomly chosen elements of a parameter.

    Parameters
    ----------
    module : Module
    name : str
        The name of the parameter.
    amount : int or float
        The number of elements to prune, or their share of all.

    Returns
    -------
    Module
        The module.

    Examples
    --------
    >>> import gradcore as gc
    >>> prune = gc.nn.utils.prune
    >>> int(prune.random_unstructured(gc.nn.Linear(2, 2), "weight", amount=0.5).weight_mask.sum())
    2
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: Amount, importance_scores: Tensor | None = None) -> Module:
    """Prune the elements of a parameter with the smallest magnitude.

    Parameters
    ----------
    module : Module
    name : str
        The name of the parameter.
    amount : int or float
        The number of elements to prune, or their share of all.
    importance_scores : Tensor, optional
        The scores by which elements are chosen; by default the parameter itself.

    Returns
    -------
    Module
        The module.

    Examples
    --------
    >>> import gradcore as gc
    >>> prune = gc.nn.utils.prune
    >>> int(prune.l1_unstructured(gc.nn.Linear(2, 2), "weight", amount=1).weight_mask.sum())
    3
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: Amount, dim: int) -> Module:
    """Prune randomly chosen slices of a parameter.

    Parameters
    ----------
    module : Module
    name : str
        The name of the parameter.
    amount : int or float
        The number of elements to prune, or their share of all.
    dim : int
        The dim along which the slices lie.

    Returns
    -------
    Module
        The module.

    Examples
    --------
    >>> import gradcore as gc
    >>> prune = gc.nn.utils.prune
    >>> int(prune.random_structured(gc.nn.Linear(2, 3), "weight", amount=1, dim=0).weight_mask.sum())
    4
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: Amount, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prune the slices of a parameter with the smallest norm.

    Parameters
    ----------
    module : Module
    name : str
        The name of the parameter.
    amount : int or float
        The number of elements to prune, or their share of all.
    n : int, float or str
        The order of the norm.
    dim : int
        The dim along which the slices lie.
    importance_scores : Tensor, optional
        The scores by which elements are chosen; by default the parameter itself.

    Returns
    -------
    Module
        The module.

    Examples
    --------
    >>> import gradcore as gc
    >>> prune = gc.nn.utils.prune
    >>> int(prune.ln_structured(gc.nn.Linear(2, 3), "weight", amount=1, n=2, dim=0).weight_mask.sum())
    4
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune a parameter where `mask` is 0.

    Parameters
    ----------
    module : Module
    name : str
        The name of the parameter.
    mask : Tensor
        The mask, with the shape of the parameter.

    Returns
    -------
    Module
        The module.

    Examples
    --------
    >>> import gradcore as gc
    >>> prune = gc.nn.utils.prune
    >>> layer = prune.custom_from_mask(gc.nn.Linear(2, 1), "weight", gc.tensor([[1.0, 0.0]]))
    >>> layer.weight_mask
    tensor([[1., 0.]])
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters together, as if they were one tensor.

    Parameters
    ----------
    parameters : iterable of (Module, str)
        Modules, with the names of their parameters.
    pruning_method : type
        The class of a method that prunes single elements.
    importance_scores : dict, optional
        Tensors by which to choose, for some of the parameters.
    **kwargs
        Arguments of the constructor of the method.

    Raises
    ------
    TypeError
        If the method prunes anything but single elements.

    Examples
    --------
    >>> import gradcore as gc
    >>> prune = gc.nn.utils.prune
    >>> a, b = gc.nn.Linear(2, 2), gc.nn.Linear(2, 2)
    >>> prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=4)
    >>> int(a.weight_mask.sum() + b.weight_mask.sum())
    4
    """
    pairs = [(module, name) for module, name in parameters]
    scores = importance_scores or {}
    values = [scores.get((module, name), getattr(module, name)) for module, name in pairs]
    masks = [getattr(module, f"{name}_mask", ones_like(getattr(module, name))) for module, name in pairs]
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of '
            f"type {method.PRUNING_TYPE}"
        )
    container.add_pruning_method(method)
    flat_values = functional.cat([value.detach().flatten() for value in values])
    mask = container.compute_mask(flat_values, functional.cat([m.flatten() for m in masks]))
    parts = mask.split([value.numel() for value in values])
    for (module, name), part in zip(pairs, parts, strict=True):
        custom_from_mask(module, name, part.view_as(getattr(module, name)))


def remove(module: Module, name: str) -> Module:
    """Turn a pruned parameter back into an ordinary one, with zeros where it was pruned.

    Parameters
    ----------
    module : Module
    name : str
        The name of the parameter.

    Returns
    -------
    Module
        The module.

    Raises
    ------
    ValueError
        If the parameter has not been pruned.

    Examples
    --------
    >>> import gradcore as gc
    >>> prune = gc.nn.utils.prune
    >>> layer = prune.l1_unstructured(gc.nn.Linear(2, 2), "weight", amount=1)
    >>> prune.is_pruned(prune.remove(layer, "weight"))
    False
    """
    applied = method_of(module, name)
    if applied is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    key, method = applied
    method.remove(module)
    del module._forward_pre_hooks[key]
    return module


def is_pruned(module: Module) -> bool:
    """Return whether a module or one of its submodules has pruned parameters.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.utils.prune.is_pruned(gc.nn.Linear(2, 1))
    False
    """
    hooks = (hook for submodule in module.modules() for hook in submodule._forward_pre_hooks.values())
    return any(isinstance(hook.call, BasePruningMethod) for hook in hooks)
