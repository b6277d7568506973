"""State dicts of optimisers, in which parameters are indices in the order of the groups."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from gradcore.tensor import Tensor

__all__ = ["check_shapes", "pack", "unpack"]


def pack(state: dict[Any, Any], groups: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the states and groups of an optimiser as a state dict."""
    numbers: dict[int, int] = {}
    packed = []
    start = 0
    for group in groups:
        params = group["params"]
        for i, p in enumerate(params, start):
            numbers.setdefault(id(p), i)
        start += len(params)
        packed.append({**{k: v for k, v in group.items() if k != "params"}, "params": [numbers[id(p)] for p in params]})
    states = {numbers[id(k)] if isinstance(k, Tensor) else k: _export(v, k) for k, v in state.items()}
    return {"state": states, "param_groups": packed}


def _export(states: object, param: object) -> object:
    """Return the states of a parameter. If this process has a part of the parameter, the states are parts as well."""
    with_part = getattr(param, "with_part", None)
    if with_part is None or not isinstance(states, dict):
        return states
    return {
        name: with_part(value) if isinstance(value, Tensor) and value.shape == getattr(param, "shape", None) else value
        for name, value in states.items()
    }


def unpack(
    state_dict: dict[str, Any], groups: list[dict[str, Any]]
) -> tuple[defaultdict[Any, Any], list[dict[str, Any]]]:
    """Return the states and groups in a state dict, for the parameters of `groups`."""
    saved = copy.deepcopy(state_dict["param_groups"])
    if len(groups) != len(saved):
        raise ValueError("loaded state dict has a different number of parameter groups")
    if any(len(g["params"]) != len(s["params"]) for g, s in zip(groups, saved, strict=True)):
        raise ValueError(
            "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
        )
    param_lists = ([p for g in group_list for p in g["params"]] for group_list in (saved, groups))
    params = dict(zip(*param_lists, strict=True))
    state: defaultdict[Any, Any] = defaultdict(dict)
    for key, value in state_dict["state"].items():
        state[params.get(key, key)] = _fit(value, params[key]) if key in params else value
    for group, saved_group in zip(groups, saved, strict=True):
        saved_group["params"] = group["params"]
        if "param_names" in group:
            saved_group.setdefault("param_names", group["param_names"])
    return state, saved


def check_shapes(
    state: dict[Any, Any], groups: list[dict[str, Any]], shapes_of: Callable[..., dict[str, tuple[int, ...]]]
) -> None:
    """Raise RuntimeError if a loaded tensor does not have the shape that ``shapes_of(group, param)`` gives."""
    for number, (group, p) in enumerate((g, p) for g in groups for p in g["params"]):
        states = state.get(p)
        if not isinstance(states, dict):
            continue
        for name, shape in shapes_of(group, p).items():
            value = states.get(name)
            if isinstance(value, Tensor) and tuple(value.shape) != shape:
                raise RuntimeError(
                    f"loaded state dict has the state {name!r} of shape {list(value.shape)} for parameter {number}, "
                    f"which needs the shape {list(shape)}"
                )


def _fit(value: Any, param: Tensor, key: Any = None) -> Any:
    """Return a state on the device and in the dtype of its parameter. The step count is not changed."""
    if isinstance(value, Tensor):
        if key == "step":
            return value
        if hasattr(value, "to_local"):  # a part of a tensor that is spread over processes
            value = value.to_local()
        return value.to(param.device, param.dtype) if param.is_floating_point() else value.to(param.device)
    if isinstance(value, dict):
        return {k: _fit(v, param, k) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        make: Any = type(value)
        return make(_fit(v, param) for v in value)
    return value
