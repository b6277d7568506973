"""The layout of an optimiser's checkpoint: parameters are indices, in the order of the groups."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from gradcore.tensor import Tensor

__all__ = ["pack", "unpack"]


def pack(state: dict[Any, Any], groups: list[dict[str, Any]]) -> dict[str, Any]:
    """The states and groups of an optimiser as a state dict."""
    numbers: dict[int, int] = {}
    packed = []
    start = 0
    for group in groups:
        params = group["params"]
        for i, p in enumerate(params, start):
            numbers.setdefault(id(p), i)
        start += len(params)
        packed.append({**{k: v for k, v in group.items() if k != "params"}, "params": [numbers[id(p)] for p in params]})
    states = {numbers[id(k)] if isinstance(k, Tensor) else k: v for k, v in state.items()}
    return {"state": states, "param_groups": packed}


def unpack(
    state_dict: dict[str, Any], groups: list[dict[str, Any]]
) -> tuple[defaultdict[Any, Any], list[dict[str, Any]]]:
    """The states and groups of a state dict, for the parameters of `groups`."""
    saved = copy.deepcopy(state_dict["param_groups"])
    if len(groups) != len(saved):
        raise ValueError("loaded state dict has a different number of parameter groups")
    if any(len(g["params"]) != len(s["params"]) for g, s in zip(groups, saved, strict=True)):
        raise ValueError(
            "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
        )
    both = ([p for g in which for p in g["params"]] for which in (saved, groups))
    params = dict(zip(*both, strict=True))
    state: defaultdict[Any, Any] = defaultdict(dict)
    for key, value in state_dict["state"].items():
        state[params.get(key, key)] = _fit(value, params[key]) if key in params else value
    for group, new in zip(groups, saved, strict=True):
        new["params"] = group["params"]
        if "param_names" in group:
            new.setdefault("param_names", group["param_names"])
    return state, saved


def _fit(value: Any, param: Tensor, key: Any = None) -> Any:
    """A state on the device and in the dtype of its parameter; the step count is left alone."""
    if isinstance(value, Tensor):
        if key == "step":
            return value
        return value.to(param.device, param.dtype) if param.is_floating_point() else value.to(param.device)
    if isinstance(value, dict):
        return {k: _fit(v, param, k) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        make: Any = type(value)
        return make(_fit(v, param) for v in value)
    return value
