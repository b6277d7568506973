"""Modules as functions of their parameters and buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradcore import functional
from gradcore.tensor import Tensor

if TYPE_CHECKING:
    from gradcore.nn.module import Module

__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in the place of its parameters and buffers.

    Parameters
    ----------
    module : Module
    parameter_and_buffer_dicts : dict or sequence of dict
        Tensors by dotted name. Buffers that the call changes are changed here, not in the module.
    args : object
        The positional arguments, a tuple, or one that is not a tuple.
    kwargs : dict, optional
        The keyword arguments.
    tie_weights : bool
        Whether a tensor that the module has under several names is replaced under all of them.
    strict : bool
        Whether the names must be exactly the names of the module's parameters and buffers.

    Returns
    -------
    object
        The result of the module.

    Raises
    ------
    ValueError
        If two names of one tensor, or two dictionaries, contradict each other.
    RuntimeError
        If `strict` and the names differ.

    Examples
    --------
    >>> import gradcore
    >>> layer = gradcore.nn.Linear(2, 1)
    >>> weights = {"weight": gradcore.tensor([[1.0, 10.0]]), "bias": gradcore.zeros(1)}
    >>> gradcore.func.functional_call(layer, weights, gradcore.tensor([2.0, 3.0]))
    tensor([32.])
    """
    tensors = parameter_and_buffer_dicts
    if not isinstance(tensors, dict):
        tensors = _join_dicts(tensors)
    from gradcore.nn.utils.stateless import call_with  # deferred: whoever has a module has imported it already

    return call_with(module, tensors, args, kwargs, tie_weights, strict)


def _join_dicts(dicts: Any) -> dict[str, Tensor]:
    if not isinstance(dicts, Sequence):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(dicts)}"
        )
    if not all(isinstance(d, dict) for d in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    joined: dict[str, Tensor] = {}
    repeated = dict.fromkeys(
        key for i, d in enumerate(dicts) for key in d if any(key in earlier for earlier in dicts[:i])
    )
    if repeated:
        raise ValueError(
            f"{list(repeated)} appeared in multiple dictionaries; behavior of functional call is ambiguous"
        )
    for d in dicts:
        joined.update(d)
    return joined


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters and buffers of several alike modules, stacked along a new first dim.

    Parameters
    ----------
    models : sequence of Module
        Modules of one class, all in training mode or all in evaluation mode.

    Returns
    -------
    params : dict
        Leaves that require grad if the parameters do.
    buffers : dict

    Raises
    ------
    RuntimeError
        If there are no models, or they differ in class, in mode or in the tensors that require grad.

    Examples
    --------
    >>> import gradcore
    >>> params, buffers = gradcore.func.stack_module_state([gradcore.nn.Linear(2, 3) for _ in range(5)])
    >>> {name: tuple(p.shape) for name, p in params.items()}
    {'weight': (5, 3, 2), 'bias': (5, 3)}
    """
    if len(models) == 0:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(m) for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    return _stack([dict(m.named_parameters()) for m in models]), _stack([dict(m.named_buffers()) for m in models])


def _stack(states: list[Any]) -> dict[str, Tensor]:
    stacked: dict[str, Tensor] = {}
    for name in states[0]:
        tensors = [state[name] for state in states]
        if len({t.requires_grad for t in tensors}) > 1:
            raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
        stacked[name] = functional.stack(tensors)
        if tensors[0].requires_grad:
            stacked[name] = stacked[name].detach().requires_grad_()
    return stacked


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Remove the running statistics of each batch normalization, as `vmap` over samples needs.

    Each layer then normalizes by the mean and variance of its input, in evaluation mode too.

    Parameters
    ----------
    root : Module
        Changed in place.

    Returns
    -------
    Module
        `root`.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore import nn
    >>> net = gradcore.func.replace_all_batch_norm_modules_(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
    >>> net[1].running_mean is None
    True
    """
    from gradcore import nn  # deferred: whoever has a module has imported it already

    for module in root.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
