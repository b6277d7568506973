"""Hooks of one tensor: those of a leaf are kept with the leaf, others with the node that computes the tensor."""

from __future__ import annotations

import weakref
from typing import Any

from gradcore.autograd.edges import gradient_edge
from gradcore.autograd.hooks import RemovableHandle, of_transformation
from gradcore.autograd.modes import local
from gradcore.autograd.variables import Meta

__all__ = ["register", "register_post_accumulate", "registered", "retain_grad"]


def register(t: Any, hook: Any) -> RemovableHandle:
    """Call ``hook(grad)`` whenever the gradient of a tensor is computed."""
    edge = gradient_edge(t)
    if edge is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if edge[0].is_accumulator:
        meta = t._meta
        if meta.hooks is None:
            meta.hooks = {}
        edge[0]._own_hooks()  # leaves without hooks take a shorter path
        return RemovableHandle(meta.hooks, hook)
    if local.state.transforms:
        hook = of_transformation(hook, edge[0])
    return RemovableHandle(edge[0]._own_hooks().tensor.setdefault(edge[1], {}), hook)


def register_post_accumulate(t: Any, hook: Any) -> RemovableHandle:
    """Call ``hook(tensor)`` after the gradient of a leaf has been updated."""
    edge = gradient_edge(t)
    if edge is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if not edge[0].is_accumulator:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    meta = t._meta
    if meta.post_accumulate_hooks is None:
        meta.post_accumulate_hooks = {}
    edge[0]._own_hooks()
    return RemovableHandle(meta.post_accumulate_hooks, hook)


def registered(t: Any) -> dict[int, Any] | None:
    """The hooks of a tensor, None if it never had any."""
    edge = gradient_edge(t)
    if edge is None:
        return None
    if edge[0].is_accumulator:
        return None if t._meta is None else t._meta.hooks
    return None if edge[0]._hooks is None else edge[0]._hooks.tensor.get(edge[1])


def retain_grad(t: Any) -> None:
    """Keep the gradient of a tensor that is no leaf."""
    edge = gradient_edge(t)
    if edge is None:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if edge[0].is_accumulator or t.retains_grad:
        return
    if t._meta is None:
        t._meta = Meta()
    t._meta.retains_grad = True
    edge[0]._own_hooks().retain[edge[1]] = weakref.ref(t)
