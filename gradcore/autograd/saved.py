"""Tensors that nodes keep for backward, and the hooks around them."""

from __future__ import annotations

from typing import Any

from gradcore.autograd.graph import (
    Meta,
    Packed,
    Variable,
    alias,
    gradient_edge,
    modified_in_place,
    saved_hooks,
    version_counter,
    with_edge,
)

__all__ = ["SavedTensor"]


class SavedTensor:
    """One tensor that a custom `Function` keeps for backward.

    Parameters
    ----------
    t : Tensor or None
        What is kept.
    own : bool
        Whether it is an output of the node that keeps it. Then only its memory is kept, and its history is put back
        when it is asked for: a node never holds its own output.
    """

    __slots__ = ("edge", "output_nr", "tangents", "value", "version")

    def __init__(self, t: Any, own: bool) -> None:
        self.value = None
        if t is None:
            return
        edge = gradient_edge(t)
        self.output_nr = edge[1] if own and edge is not None else None
        self.edge = None if own else edge
        self.tangents = t._meta.tangents if own and t._meta is not None else None
        hooks = saved_hooks()
        if hooks is not None:
            self.value = Packed(t, hooks)
            return
        self.version = version_counter(t).version
        self.value = alias(t, None) if own else t

    def unpack(self, node: Any) -> Any:
        """The tensor, for the node that keeps it."""
        t = self.value
        if t is None:
            return None
        if t.__class__ is Packed:
            t = t.unpack()
        elif t._vc.version != self.version:
            edge = self.edge if self.output_nr is None else (node, self.output_nr)
            raise modified_in_place(t, edge, self.version)
        if self.output_nr is None:
            return with_edge(t, self.edge)
        t = alias(t, (node, self.output_nr))
        if self.tangents:
            t._meta = Meta()
            t._meta.tangents = self.tangents
        return t
