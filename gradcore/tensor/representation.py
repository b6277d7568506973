"""``repr`` of tensors: elements, device and dtype if they are not the defaults, and grad_fn."""

from __future__ import annotations

from gradcore.autograd.variables import PLAIN_TYPES, wrap
from gradcore.autograd.views import gradient_edge
from gradcore.backends.registry import CPU
from gradcore.backends.vmap import BatchedArray, unbatched_device
from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor
from gradcore.tensor import printing

__all__ = ["text_of"]


def text_of(t: AnyTensor) -> str:
    """Return the text of a tensor."""
    suffixes = []
    try:
        edge = gradient_edge(t)
    except RuntimeError:  # The view has lost its history.
        suffixes.append("grad_fn=<Invalid>")
    else:
        if edge is not None:
            leaf = edge[0].is_graph_input
            suffixes.append("requires_grad=True" if leaf else f"grad_fn=<{type(edge[0]).__name__}>")
    tangents = () if t._autograd is None else (t._autograd.tangents or {}).values()
    innermost = next((tangent for tangent in reversed(tangents) if tangent is not None), None)
    if innermost is not None:
        suffixes.append(f"tangent={innermost!r}")
    name = repr(t._dtype)
    shown = (
        name if printing.shows_dtype(name, repr(dtypes.get_default_dtype()), 0 if t.is_meta else t.numel()) else None
    )
    if t.is_meta:
        return printing.meta_str(t.shape, shown, suffixes, indent_prefix=_prefix(type(t)))
    if t._device.levels:
        return _batched_text(t)
    device_text = None if t._device is CPU else str(t._device)
    return printing.tensor_str(
        t.host(), indent_prefix=_prefix(type(t)), dtype_name=shown, device=device_text, suffixes=suffixes
    )


def _batched_text(t: AnyTensor) -> str:
    """Return the text of a tensor inside of `vmap`, with all samples."""
    level = t._device.levels[-1]
    if t._array.__class__ is not BatchedArray:
        return repr(wrap(t._array, unbatched_device(t._device, level), t._dtype))
    samples = repr(wrap(t._array.array, unbatched_device(t._device, level), t._dtype))
    indented = samples.replace("\n", "\n    ")
    return f"BatchedTensor(lvl={len(t._device.levels)}, bdim=0, value=\n    {indented}\n)"


def _prefix(cls: type) -> str:
    """Return the prefix of a tensor's text; subclasses with ``__torch_function__`` have their own."""
    return "tensor(" if cls in PLAIN_TYPES else f"{cls.__name__}("
