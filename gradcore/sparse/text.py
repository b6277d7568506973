"""Formatting of sparse tensors by ``repr``."""

from __future__ import annotations

from typing import Any

from gradcore.autograd.views import gradient_edge
from gradcore.backends.registry import CPU
from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor
from gradcore.tensor import printing

__all__ = ["text_of"]

_INDENT = len("tensor(")


def text_of(t: AnyTensor) -> str:
    """Return the ``repr`` of a sparse tensor."""
    name = t.layout._name.removeprefix("sparse_")
    if name == "coo":
        tensors = {"indices": t.index[0], "values": t.stored}
    else:
        first, second = ("crow_indices", "col_indices") if name in ("csr", "bsr") else ("ccol_indices", "row_indices")
        tensors = {first: t.index[0], second: t.index[1], "values": t.stored}
    if t.stored.is_meta:
        tensors = {}
    body = f",\n{' ' * _INDENT}".join(_part(label, part) for label, part in tensors.items()) or "..."
    suffixes = [f"size={tuple(t.sizes)}", f"nnz={t.stored.shape[0]}"]
    if t._device is not CPU:
        suffixes.insert(0, f"device='{t._device}'")
    dtype = repr(t._dtype)
    if printing.shows_dtype(dtype, repr(dtypes.get_default_dtype()), t.stored.numel()):
        suffixes.append(f"dtype={dtype}")
    suffixes.append(f"layout={t.layout}")
    edge = gradient_edge(t.stored)
    if edge is not None:
        leaf = edge[0].is_graph_input
        suffixes.append("requires_grad=True" if leaf else f"grad_fn=<{type(edge[0]).__name__}>")
    linewidth = printing.get_printoptions()["linewidth"]
    return printing.with_suffixes(f"tensor({body}", suffixes, _INDENT, linewidth, name == "coo")


def _part(label: str, part: Any) -> str:
    prefix = f"{label}=tensor("
    printed = printing.tensor_str(part.host(), indent_prefix=" " * _INDENT + prefix)
    text = printed[_INDENT + len(prefix) : -1]
    if not part.numel():
        text = f"[], size={tuple(part.shape)}"
    return f"{prefix}{text})"
