"""Selective checkpointing: a policy decides which operations are recomputed and which results are kept."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

from gradcore.autograd.function import Function
from gradcore.autograd.graph import current_saved_tensors_hooks, saved_tensors_hooks
from gradcore.tensor import Tensor
from gradcore.tensor.creation import empty
from gradcore.torch_names.overrides import TorchFunctionMode
from gradcore.utils._pytree import tree_leaves, tree_map

__all__ = ["CheckpointPolicy", "SelectiveCheckpointContext", "create_selective_checkpoint_contexts"]


class CheckpointPolicy(enum.Enum):
    """Decision of a policy for the result of an operation. "Must" and "prefer" have the same effect here.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.utils.checkpoint.CheckpointPolicy.MUST_SAVE.name
    'MUST_SAVE'
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


SAVING = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)


class SelectiveCheckpointContext:
    """Context that is passed to a policy function as its first argument.

    Attributes
    ----------
    is_recompute : bool
        False, because policies are called in the first computation.
    op_output : object
        The operation's result.
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


def _same_memory(a: Any, b: Tensor) -> bool:
    return isinstance(a, Tensor) and a.dtype is b.dtype and a.is_set_to(b)


class _Kept:
    """A call whose result was kept.

    Parameters
    ----------
    result : object
        The result of the call.
    args : tuple
        The arguments of the call.
    packed : list of Tensor
        The tensors that the call saved for backward.
    """

    def __init__(self, result: Any, args: tuple[Any, ...], packed: list[Tensor]) -> None:
        outputs, inputs = tree_leaves(result), tree_leaves(args)
        self.requires_grad = [isinstance(t, Tensor) and t.requires_grad for t in outputs]
        self.result = tree_map(lambda t: t.detach() if isinstance(t, Tensor) else t, result)
        self.versions = [t._version if isinstance(t, Tensor) else None for t in tree_leaves(self.result)]
        #: For each saved tensor: an argument or a result by number, or else the tensor itself.
        self.saved: list[tuple[str, Any]] = []
        for t in packed:
            for kind, values in (("result", outputs), ("argument", inputs)):
                number = next((i for i, v in enumerate(values) if _same_memory(v, t)), None)
                if number is not None:
                    self.saved.append((kind, number))
                    break
            else:
                self.saved.append(("other", t.detach()))

    def again(self, args: tuple[Any, ...], mutable: bool) -> Any:
        """Return the kept result, after passing the tensors that the call would save to the hooks on saved tensors."""
        results = tree_leaves(self.result)
        for t, version in zip(results, self.versions, strict=True):
            if version is not None and t._version != version and not mutable:
                raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")
        hooks = current_saved_tensors_hooks()
        if hooks is not None:
            inputs = tree_leaves(args)
            for kind, value in self.saved:
                hooks[0](value if kind == "other" else (results if kind == "result" else inputs)[value])
        needs = iter(self.requires_grad)
        return tree_map(lambda t: _as_recorded(t) if next(needs) else t, self.result)


def _as_recorded(t: Tensor) -> Tensor:
    """Return a non-leaf tensor with the same memory that requires grad, so that later operations are recorded."""
    return _Recorded.apply(empty(0, requires_grad=True), t)


class _Recorded(Function):
    """Autograd function whose backward is never called, as its graph is discarded."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, t: Tensor) -> Tensor:
        return t.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None]:
        return None, None


class _First(TorchFunctionMode):
    """Context of the first computation, which asks the policy and keeps results."""

    def __init__(self, policy: Callable[..., Any], calls: dict[Any, list[Any]]) -> None:
        self.policy, self.calls = policy, calls

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        hooks, packed = current_saved_tensors_hooks(), []
        if hooks is None:
            result = func(*args, **kwargs)
        else:
            pack, unpack = hooks

            def pack_and_note(t: Tensor) -> Any:
                packed.append(t)
                return pack(t)

            with saved_tensors_hooks(pack_and_note, unpack):
                result = func(*args, **kwargs)
        policy = self.policy(SelectiveCheckpointContext(is_recompute=False, op_output=result), func, *args, **kwargs)
        saves = policy if isinstance(policy, bool) else policy in SAVING
        entry = _Kept(result, (args, kwargs), packed) if saves else None
        self.calls.setdefault(func, []).append(entry)
        return result


CONSUMED: Any = object()
MISMATCH = (
    "This can happen if the operations in the checkpointed region are nondeterministic or depend on global state that "
    "changed between forward and backward."
)


class _Second(TorchFunctionMode):
    """Context of the recomputation, which returns kept results and computes the others."""

    def __init__(self, calls: dict[Any, list[Any]], mutable: bool) -> None:
        self.calls, self.mutable = calls, mutable
        self.counts: dict[Any, int] = {}

    def __enter__(self) -> Any:
        self.counts = {}
        return super().__enter__()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        number = self.counts.get(func, 0)
        self.counts[func] = number + 1
        records = self.calls.get(func)
        if records is None:
            raise RuntimeError(f"{func} encountered during backward but not found in storage. {MISMATCH}")
        if number >= len(records):
            raise RuntimeError(
                f"{func} invocation index {number} encountered during backward but not found in storage. {MISMATCH}"
            )
        entry = records[number]
        if entry is None:
            return func(*args, **(kwargs or {}))
        if entry is CONSUMED:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under "
                "selective activation checkpoint."
            )
        records[number] = CONSUMED
        return entry.again((args, kwargs or {}), self.mutable)


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Any] | Sequence[Callable[..., Any]], allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """Return two contexts for `checkpoint`, in which only some operations are recomputed.

    Parameters
    ----------
    policy_fn_or_list : callable or list of callable
        The functions whose results are kept, as `gradcore.matmul`, or ``policy_fn(ctx, op, *args, **kwargs)``, which
        returns a `CheckpointPolicy`. It is called for every operation that the checkpointed function calls itself, with
        the function that was called; for an operator, that is the function of the same meaning.
    allow_cache_entry_mutation : bool
        Whether results that are kept may be written to in place.

    Returns
    -------
    tuple of context manager
        The contexts of the first computation and of the recomputation.

    Examples
    --------
    >>> from functools import partial
    >>> import gradcore
    >>> from gradcore.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> x, w = gradcore.ones(2, 2, requires_grad=True), gradcore.ones(2, 2)
    >>> contexts = partial(create_selective_checkpoint_contexts, [gradcore.matmul])
    >>> y = checkpoint(lambda x: (x @ w).exp().sum(), x, use_reentrant=False, context_fn=contexts)
    >>> y.backward()  # computes exp again, and not the product
    """
    if isinstance(policy_fn_or_list, (list, tuple, set)):
        kept_ops = list(policy_fn_or_list)
        for op in kept_ops:
            if not callable(op):
                raise ValueError(f"Expected op in `op_list` to be a function but got: {op} of type {type(op)}.")

        def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            return CheckpointPolicy.MUST_SAVE if op in kept_ops else CheckpointPolicy.PREFER_RECOMPUTE

    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    calls: dict[Any, list[Any]] = {}
    return _First(policy, calls), _Second(calls, allow_cache_entry_mutation)
