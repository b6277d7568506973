"""Recomputation for checkpoints: a call keeps only its inputs, and is repeated when backward needs saved tensors."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import Any

from gradcore.autograd.function import Function
from gradcore.autograd.grad_mode import enable_grad
from gradcore.autograd.graph import current_graph_task, saved_tensors_hooks
from gradcore.tensor import Tensor
from gradcore.tensor.creation import empty

__all__ = ["METADATA", "CheckpointError", "Frame"]

TIP = (
    "\nTip: To see a more detailed error message, either pass `debug=True` to\n"
    "`gradcore.utils.checkpoint.checkpoint(...)` or wrap the code block\n"
    "with `with gradcore.utils.checkpoint.set_checkpoint_debug_enabled(True):` to\n"
    "enable checkpoint-debug mode globally.\n"
)


class CheckpointError(RuntimeError):
    """Raised when the recomputation differs from the first computation."""


class _StopRecomputationError(Exception):
    """Raised to end the recomputation, once all tensors that backward needs are computed."""


class _Inputs(Function):
    """Autograd function that saves the arguments like any operation, so that checkpoints can be nested."""

    generate_vmap_rule = True

    @staticmethod
    def forward(ctx: Any, anchor: Any, *tensors: Any) -> Any:
        ctx.save_for_backward(*tensors)
        return anchor.clone()

    @staticmethod
    def jvp(ctx: Any, anchor: Any, *tensors: Any) -> Any:
        return anchor.clone()


class _Holder:
    """Placeholder in the graph for a tensor that was not saved."""

    __slots__ = ("__weakref__",)


def _kind(tensor: Tensor) -> dict[str, Any]:
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


#: The functions that return the compared properties of a tensor, by the name of the check.
METADATA: dict[str, Callable[[Tensor], Any]] = {"default": _kind, "none": lambda tensor: None}


class Frame:
    """Record of one call of `checkpoint`: how to repeat it, and the tensors saved by the repetition.

    Parameters
    ----------
    recompute : callable
        Repeats the call.
    args : tuple
        The positional arguments of the call.
    metadata : callable
        Returns the properties of a saved tensor that are compared.
    early_stop : bool
        Whether a repetition ends as soon as all tensors that backward needs are computed.
    explain : callable or None
        Returns a more detailed error, given a `CheckpointError`.
    """

    def __init__(
        self,
        recompute: Callable[..., None],
        args: tuple[Any, ...],
        metadata: Callable[[Tensor], Any],
        early_stop: bool,
        explain: Callable[[CheckpointError], CheckpointError] | None,
    ) -> None:
        self.recompute, self.metadata, self.early_stop, self.explain = recompute, metadata, early_stop, explain
        self.positions = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        self.rest = [None if isinstance(a, Tensor) else a for a in args]
        anchor = empty(0, requires_grad=True)
        with enable_grad():
            self.inputs = _Inputs.apply(anchor, *(args[i] for i in self.positions)).grad_fn
        #: The placeholders of the saved tensors, and the properties of these tensors, in the order of saving.
        self.holders: list[weakref.ref[_Holder]] = []
        self.kinds: list[Any] = []
        self.recomputed: weakref.WeakKeyDictionary[_Holder, Tensor] = weakref.WeakKeyDictionary()
        #: Whether the first computation is complete. The recomputation of an outer checkpoint may stop in the middle.
        self.complete = False
        self.pass_: Any = None

    def arguments(self) -> list[Any]:
        """Return the original arguments of the call."""
        args = list(self.rest)
        for position, tensor in zip(self.positions, self.inputs.saved_tensors, strict=True):
            args[position] = tensor
        return args

    def pack(self, tensor: Tensor) -> _Holder:
        """Return a placeholder, which the graph saves instead of `tensor`."""
        holder = _Holder()
        self.holders.append(weakref.ref(holder))
        self.kinds.append(self.metadata(tensor))
        return holder

    def unpack(self, holder: _Holder) -> Tensor:
        """Return the tensor of a placeholder. The first request in a backward recomputes all of them."""
        task = current_graph_task()
        this_pass = None if task is None else task.local_data.setdefault("pass", object())
        if this_pass is not self.pass_ or holder not in self.recomputed:
            self.recomputed.clear()
            self.pass_ = this_pass
            try:
                self.repeat()
            except CheckpointError as error:
                raise (error if self.explain is None else self.explain(error)) from None
        return self.recomputed.pop(holder)

    def repeat(self) -> None:
        """Call the function again, and assign the tensors that it saves to the placeholders."""
        kinds: list[Any] = []

        def keep(tensor: Tensor) -> Tensor:
            number = len(kinds)
            if tensor.requires_grad:  # otherwise keep the tensor with its attributes
                tensor = tensor.detach()
            if number >= len(self.holders):
                if not self.complete:
                    raise _StopRecomputationError
                raise CheckpointError(
                    "torch.utils.checkpoint: trying to save more tensors during recomputation than during the original "
                    f"forward pass.\n{TIP}"
                )
            kinds.append(self.metadata(tensor))
            holder = self.holders[number]()
            if holder is not None:
                self.recomputed[holder] = tensor
            if self.early_stop and len(kinds) == len(self.holders):
                raise _StopRecomputationError
            return tensor

        with contextlib.suppress(_StopRecomputationError), saved_tensors_hooks(keep, _identity), enable_grad():
            self.recompute(*self.arguments())
        self.check(kinds)

    def check(self, saved: list[Any]) -> None:
        """Raise an error if the recomputation saved other tensors than the first computation."""
        if len(saved) != len(self.holders):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {len(self.holders)}\n"
                f"Number of tensors saved during recomputation: {len(saved)}.\n{TIP}"
            )
        different = "".join(
            f"tensor at position {i}:\nsaved metadata: {before}\nrecomputed metadata: {after}\n"
            for i, (before, after) in enumerate(zip(self.kinds, saved, strict=True))
            if before != after and self.holders[i]() is not None
        )
        if different:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                f"during the forward pass.\n{different}.\n{TIP}"
            )


def _identity(tensor: Tensor) -> Tensor:
    return tensor
