"""State dicts of models and optimisers with sharded parameters, by the names of the parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gradcore.autograd.grad_mode import no_grad
from gradcore.core import dtypes
from gradcore.core.device import device as Device
from gradcore.distributed import collectives, groups, objects
from gradcore.distributed.checkpoint import Shard
from gradcore.distributed.data_parallel import DistributedDataParallel
from gradcore.distributed.groups import default_device, resolve
from gradcore.distributed.sharded_parameter import DTensor, ShardedParameter
from gradcore.nn.module import Module
from gradcore.optim.optimizer import Optimizer
from gradcore.tensor import Tensor
from gradcore.tensor.creation import empty, tensor, zeros_like

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]


@dataclass(frozen=True)
class StateDictOptions:
    """Options of state dicts.

    Parameters
    ----------
    full_state_dict : bool
        Whether each process gets whole tensors, gathered from all processes, instead of shards.
    cpu_offload : bool
        Whether tensors are copied to the CPU. With `full_state_dict`, rank 0 alone gets them, and the others get empty
        state dicts.
    strict : bool
        Whether names of a state dict that is set must be those of the model.
    broadcast_from_rank0 : bool
        Whether a state dict that is set is that of rank 0, with whole tensors, which rank 0 sends to the others one by
        one. The others may pass empty state dicts.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    strict: bool = True
    broadcast_from_rank0: bool = False

    @property
    def only_rank0(self) -> bool:
        """Return whether rank 0 alone gets a state dict."""
        return self.full_state_dict and self.cpu_offload and groups.is_initialized()


def _inner(model: Module) -> Module:
    return model.module if isinstance(model, DistributedDataParallel) else model


def export_value(value: Any, p: Any, options: StateDictOptions) -> Any:
    """Return a value with the size of a parameter for a state dict: as a `Shard`, or as the whole tensor."""
    if not isinstance(value, Tensor):
        return value
    value = value.to_local() if isinstance(value, DTensor) else value.detach()
    if isinstance(p, ShardedParameter) and value.shape == p.shape:
        if not options.full_state_dict:
            return Shard(value, p.full_shape, p.start)
        group = p.process_group
        if p.compute_device is not None:
            value = value.to(p.compute_device)
        receives = not options.only_rank0 or group.rank() == 0
        gathered = empty(value.numel() * group.size() if receives else 0, dtype=value.dtype, device=value.device)
        if options.only_rank0:
            collectives.gather(
                value, list(gathered.chunk(group.size())) if receives else None, group=group, group_dst=0
            )
        else:
            collectives.all_gather_into_tensor(gathered, value, group)
        value = gathered[: p.full_numel].view(p.full_shape) if receives else value
    return value.cpu() if options.cpu_offload else value


def receive_values(values: Mapping[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    """Return this process's parts of the values of rank 0, which all processes receive one by one.

    Parameters
    ----------
    values : dict
        The values of rank 0, as whole tensors. Other processes may pass anything.
    like : mapping
        The parameter, or other tensor, to which each value belongs. Its device is that of the result; see
        `device_for_values`.
    """
    message: list[Any] = [None]
    if groups.get_rank() == 0:
        message[0] = {
            name: (tuple(value.shape), value.dtype.name) if isinstance(value, Tensor) else (None, value)
            for name, value in values.items()
        }
    objects.broadcast_object_list(message, src=0)
    parts: dict[str, Any] = {}
    for name, (shape, dtype_or_value) in (message[0] or {}).items():
        if shape is None:
            parts[name] = dtype_or_value
            continue
        p = like.get(name)
        device = None if p is None else getattr(p, "compute_device", None) or device_for_values(p)
        with no_grad():
            if groups.get_rank() == 0:
                received = values[name].detach().to(device).contiguous()
            else:
                received = empty(shape, dtype=dtypes.DTYPES[dtype_or_value], device=device)
            collectives.broadcast(received, src=0)
            part = select_part(received, p)
            parts[name] = part if p is None else part.to(device_for_values(p))
    return parts


def device_for_values(p: Tensor) -> Device:
    """Return the device for values of a parameter or buffer: its own unless it is on ``meta``, without values."""
    if not p.is_meta:
        return p.device
    if getattr(p, "compute_device", None) is not None or not groups.is_initialized():
        return Device("cpu")
    return default_device(p.process_group if isinstance(p, DTensor) else resolve(None))


def select_part(value: Any, p: Any) -> Any:
    """Return this process's part of a value in a state dict."""
    if isinstance(value, Shard):
        return value.tensor
    if isinstance(value, DTensor):
        return value.to_local()
    if not (isinstance(p, ShardedParameter) and isinstance(value, Tensor) and tuple(value.shape) == p.full_shape):
        return value
    result = zeros_like(p.to_local(), dtype=value.dtype, device=value.device)
    part = value.reshape(-1)[p.start : p.start + p.numel()]
    result[: part.numel()] = part
    return result


def get_model_state_dict(model: Module, *, options: StateDictOptions | None = None) -> dict[str, Any]:
    """Return the state dict of a model. Sharded parameters are `Shard` objects, or whole tensors if `options` say so.

    Parameters
    ----------
    model : Module
        Also one that `fully_shard` has changed, or in `DistributedDataParallel`.
    options : StateDictOptions, optional

    Returns
    -------
    dict
        For `distributed.checkpoint`.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.distributed.checkpoint.state_dict import get_model_state_dict
    >>> list(get_model_state_dict(gc.nn.Linear(2, 1)))
    ['weight', 'bias']
    """
    inner, options = _inner(model), options or StateDictOptions()
    parameters = dict(inner.named_parameters(remove_duplicate=False))
    state = {name: export_value(value, parameters.get(name), options) for name, value in inner.state_dict().items()}
    return {} if options.only_rank0 and groups.get_rank() else state


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Load a state dict from `get_model_state_dict`, or from an unsharded model, into a model.

    If the model has parameters or buffers on ``meta``, tensors with the loaded values take the places of all of them.

    Parameters
    ----------
    model : Module
    model_state_dict : dict
    options : StateDictOptions, optional

    Returns
    -------
    NamedTuple
        The missing and unexpected names, as ``load_state_dict`` returns them.
    """
    inner, options = _inner(model), options or StateDictOptions()
    parameters = dict(inner.named_parameters(remove_duplicate=False))
    templates = {**inner.state_dict(), **parameters}
    assign = any(isinstance(t, Tensor) and t.is_meta for t in templates.values())
    if options.broadcast_from_rank0 and groups.is_initialized():
        own_state = receive_values(model_state_dict, templates)
    else:
        own_state = {name: select_part(value, parameters.get(name)) for name, value in model_state_dict.items()}
    if assign:
        for name, value in own_state.items():
            if isinstance(value, Tensor) and name in templates:
                # A copy, so that the model does not share memory with the state dict.
                own_state[name] = value.detach().to(device_for_values(templates[name]), copy=True)
    return inner.load_state_dict(own_state, strict=options.strict, assign=assign)


def name_parameters(model: Module, optimizer: Optimizer) -> Iterator[tuple[int, str, Any]]:
    """Yield the parameters of an optimiser with their numbers and names."""
    names = {id(p): name for name, p in _inner(model).named_parameters()}
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for i, p in enumerate(parameters):
        if id(p) not in names:
            raise ValueError(f"parameter {i} of the optimiser is not a parameter of the model")
        yield i, names[id(p)], p


def get_optimizer_state_dict(
    model: Module, optimizers: Optimizer, *, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """Return the state dict of an optimiser by the names of the model's parameters.

    If the optimiser has taken no step yet, a step that changes nothing creates its state, so that a checkpoint can be
    loaded into it.

    Parameters
    ----------
    model : Module
    optimizers : Optimizer
    options : StateDictOptions, optional

    Returns
    -------
    dict
    """
    options = options or StateDictOptions()
    create_state(optimizers)
    plain, parameters = optimizers.state_dict(), list(name_parameters(model, optimizers))
    state = {
        name: {key: export_value(value, p, options) for key, value in plain["state"][i].items()}
        for i, name, p in parameters
        if i in plain["state"]
    }
    if options.only_rank0 and groups.get_rank():
        return {}
    names = {i: name for i, name, _ in parameters}
    param_groups = [{**group, "params": [names[i] for i in group["params"]]} for group in plain["param_groups"]]
    return {"state": state, "param_groups": param_groups}


def set_optimizer_state_dict(
    model: Module, optimizers: Optimizer, optim_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> None:
    """Load a state dict from `get_optimizer_state_dict` into an optimiser.

    Parameters
    ----------
    model : Module
    optimizers : Optimizer
    optim_state_dict : dict
    options : StateDictOptions, optional
    """
    parameters = list(name_parameters(model, optimizers))
    numbers = {name: i for i, name, _ in parameters}
    states, param_groups = optim_state_dict.get("state", {}), optim_state_dict.get("param_groups", [])
    if options is not None and options.broadcast_from_rank0 and groups.is_initialized():
        message = [param_groups, {name: list(values) for name, values in states.items()}]
        objects.broadcast_object_list(message, src=0)
        param_groups = message[0]
        state = {}
        for i, name, p in parameters:
            keys = message[1].get(name)
            if keys is not None:
                templates = dict.fromkeys(keys, p)
                state[i] = receive_values(states.get(name, {}), templates)
    else:
        state = {
            i: {key: select_part(value, p) for key, value in states[name].items()}
            for i, name, p in parameters
            if name in states
        }
    param_groups = [{**g, "params": [numbers[name] for name in g["params"]]} for g in param_groups]
    optimizers.load_state_dict({"state": state, "param_groups": param_groups})


def create_state(optimizer: Optimizer) -> None:
    """Create the state of an optimizer by a step of size zero."""
    if optimizer.state:
        return
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    grads, rates = [p.grad for p in parameters], [group["lr"] for group in optimizer.param_groups]
    with no_grad():
        for p in parameters:
            p.grad = zeros_like(p)
        for group in optimizer.param_groups:
            group["lr"] = tensor(0.0) if isinstance(group["lr"], Tensor) else 0.0
        optimizer.step()
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        for p, grad in zip(parameters, grads, strict=True):
            p.grad = grad


def get_state_dict(
    model: Module, optimizers: Optimizer, *, options: StateDictOptions | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the state dicts of a model and of its optimiser.

    Parameters
    ----------
    model : Module
    optimizers : Optimizer
    options : StateDictOptions, optional

    Returns
    -------
    tuple of dict
    """
    return (
        get_model_state_dict(model, options=options),
        get_optimizer_state_dict(model, optimizers, options=options),
    )


def set_state_dict(
    model: Module,
    optimizers: Optimizer,
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """Load the state dicts of a model and of its optimiser.

    Parameters
    ----------
    model : Module
    optimizers : Optimizer
    model_state_dict, optim_state_dict : dict
    options : StateDictOptions, optional

    Returns
    -------
    NamedTuple
        The missing and unexpected names, as ``load_state_dict`` returns them.
    """
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)
