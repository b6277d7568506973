"""Names that programs take from ``torch._C``."""

from __future__ import annotations

from typing import Any

from gradcore.autograd.modes import local
from gradcore.autograd.variables import Variable
from gradcore.core.device import device
from gradcore.core.dtypes import dtype, float32, float64
from gradcore.core.size import Size
from gradcore.dispatch.torch_function import DisableTorchFunction, DisableTorchFunctionSubclass
from gradcore.dispatch.torch_function import call_without_overrides as _disabled_torch_function_impl
from gradcore.tensor import Tensor
from gradcore.tensor.creation import empty
from gradcore.tensor.layouts import layout, memory_format
from gradcore.tensor.random import Generator
from gradcore.tensor.to import parse_to
from gradcore.torch_names import paths

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "Generator",
    "Size",
    "_disabled_torch_function_impl",
    "device",
    "dtype",
    "layout",
    "memory_format",
]


def _parse_to(*args: object, **kwargs: object) -> tuple[device | None, dtype | None, bool, object]:
    """Return the device and dtype of a call ``t.to(...)``, None for each that is not given, and its settings.

    What is not given stays as it is, so that two tensors that differ in it show which that is.
    """
    probes = (empty(0, dtype=float32, device="cpu"), empty(0, dtype=float64, device="meta"))
    (target, result, _, non_blocking), (other_target, other_result, *_) = (
        parse_to(t, args, dict(kwargs)) for t in probes
    )
    return (
        target if target is other_target else None,
        result if result is other_result else None,
        non_blocking,
        kwargs.get("memory_format"),
    )


def _log_api_usage_once(event: str) -> None:
    """Do nothing: uses are not counted."""


def _swap_tensor_impl(t1: Tensor, t2: Tensor) -> None:
    """Exchange the class, the attributes and the slots of two tensors."""
    for name, t in (("t1", t1), ("t2", t2)):
        accumulator = None if t._autograd is None else t._autograd.accumulator
        if accumulator is not None and accumulator() is not None:
            raise RuntimeError(f"Cannot swap {name} because a graph ends at it; drop its results first")
    t1.__class__, t2.__class__ = type(t2), type(t1)
    for slot in ("__dict__", *(slot for slot in Variable.__slots__ if not slot.startswith("__"))):
        first, second = getattr(t1, slot), getattr(t2, slot)
        setattr(t1, slot, second)
        setattr(t2, slot, first)


def _are_functorch_transforms_active() -> bool:
    """Return whether a function runs within a transform of `gradcore.func`."""
    return bool(local.state.transforms or local.state.batches)


def _is_torch_function_mode_enabled() -> bool:
    """Return whether a `TorchFunctionMode` is active."""
    return bool(local.state.functions)


def _get_tracing_state() -> None:
    """Return None: programs are not traced."""


def _add_docstr(obj: Any, doc: str) -> Any:
    """Return `obj` with the docstring `doc`, or unchanged if its docstring cannot be set."""
    obj.__doc__ = doc
    return obj


__getattr__ = paths.further(__name__)

paths.show_public(__name__)
