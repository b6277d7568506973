"""Checkpointing: forward keeps only the inputs of a part of a computation, and backward computes the rest again."""

from __future__ import annotations

import contextlib
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gradcore import random
from gradcore.autograd.function import Function
from gradcore.autograd.grad_mode import enable_grad, is_grad_enabled
from gradcore.autograd.gradients import backward
from gradcore.autograd.graph import saved_tensors_hooks
from gradcore.autograd.modes import local
from gradcore.creation import empty
from gradcore.tensor import Tensor

__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential", "noop_context_fn", "set_checkpoint_early_stop"]

Contexts = Callable[[], tuple[Any, Any]]


class CheckpointError(RuntimeError):
    """The second computation differs from the first one."""


class _StopRecomputationError(Exception):
    """Everything that backward needs is there."""


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts that do nothing: the default of `checkpoint`."""
    return contextlib.nullcontext(), contextlib.nullcontext()


_early_stop: list[bool] = []


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Inside, choose for all calls of `checkpoint` whether the second computation ends as soon as it can."""
    _early_stop.append(bool(enable))
    try:
        yield
    finally:
        _early_stop.pop()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Contexts = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **named: Any,
) -> Any:
    """Call a function without keeping what it computes for backward, which calls it again.

    Parameters
    ----------
    function : callable
        Must compute the same every time.
    *args
        Its arguments.
    use_reentrant : bool
        False is recommended: everything works as without checkpointing. True runs backward inside backward; then the
        function may not take keyword arguments, and only ``backward()`` without ``inputs`` works.
    context_fn : callable
        Returns two context managers, in which the function runs the first and the second time.
    determinism_check : {"default", "none"}
        Whether to compare shape, dtype and device of what is computed again.
    debug : bool
        Accepted for compatibility; errors always name what differs.
    early_stop : bool
        Whether the second computation ends as soon as backward has what it needs.
    preserve_rng_state : bool
        Whether the function draws the same random numbers again.
    **named
        Keyword arguments of the function.

    Returns
    -------
    object
        What the function returns.

    Raises
    ------
    CheckpointError
        In backward, if the function has not computed the same again.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.utils.checkpoint import checkpoint
    >>> x = gradcore.tensor([1.0, 2.0], requires_grad=True)
    >>> checkpoint(lambda x: (x * x).sum(), x, use_reentrant=False).backward()
    >>> x.grad
    tensor([2., 4.])
    """
    if use_reentrant is None:
        warnings.warn(
            "checkpoint: the use_reentrant parameter should be passed explicitly. use_reentrant=False is recommended, "
            "but if you need to preserve the current default behavior, you can pass use_reentrant=True.",
            stacklevel=2,
        )
        use_reentrant = True
    if not use_reentrant:
        stop = _early_stop[-1] if _early_stop else early_stop
        return _without_reentrance(function, args, named, context_fn, determinism_check, stop, preserve_rng_state)
    if named:
        raise ValueError("Unexpected keyword arguments: " + ",".join(named))
    if context_fn is not noop_context_fn or debug:
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    return CheckpointFunction.apply(function, preserve_rng_state, *args)


def checkpoint_sequential(
    functions: Iterable[Callable[[Any], Any]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
) -> Any:
    """Call functions one after the other, all but the last segment of them checkpointed.

    Parameters
    ----------
    functions : iterable of callable
        Each takes what the one before returns; for example an ``nn.Sequential``.
    segments : int
        Into how many parts to divide them.
    input : Tensor
        What the first one takes.
    use_reentrant, preserve_rng_state : bool
        As for `checkpoint`.

    Returns
    -------
    object
        What the last one returns.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.utils.checkpoint import checkpoint_sequential
    >>> x = gradcore.tensor([1.0, 2.0], requires_grad=True)
    >>> checkpoint_sequential([gradcore.exp, gradcore.log, gradcore.sum], 2, x, use_reentrant=False)
    tensor(3., grad_fn=<SumBackward0>)
    """
    steps = list(functions)
    size = len(steps) // segments

    def run(start: int, end: int) -> Callable[[Any], Any]:
        def segment(value: Any) -> Any:
            for step in steps[start:end]:
                value = step(value)
            return value

        return segment

    start = 0
    for _ in range(segments - 1):
        input = checkpoint(
            run(start, start + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state
        )
        start += size
    return run(start, len(steps))(input)


# -- hooks on saved tensors -----------------------------------------------------------------------------------------


class _Inputs(Function):
    """Keeps the arguments as any operation keeps its inputs, so that checkpoints nest."""

    @staticmethod
    def forward(ctx: Any, anchor: Any, *tensors: Any) -> Any:
        ctx.save_for_backward(*tensors)
        return anchor.clone()


class _Holder:
    """Stands in the graph for a tensor that was not kept."""

    __slots__ = ("__weakref__",)


class _Frame:
    """One call of `checkpoint`: how to repeat it, and what the repetition has computed."""

    def __init__(self, recompute: Callable[..., None], args: tuple[Any, ...], check: bool, early_stop: bool) -> None:
        self.recompute, self.check, self.early_stop = recompute, check, early_stop
        self.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        self.rest = [None if isinstance(a, Tensor) else a for a in args]
        anchor = empty(0, requires_grad=True)
        with enable_grad():
            self.inputs = _Inputs.apply(anchor, *(args[i] for i in self.places)).grad_fn
        #: In the order in which tensors were saved: what stands for them, and what they were like.
        self.holders: list[weakref.ref[_Holder]] = []
        self.kinds: list[Any] = []
        self.recomputed: weakref.WeakKeyDictionary[_Holder, Tensor] = weakref.WeakKeyDictionary()
        self.pass_: Any = None

    def arguments(self) -> list[Any]:
        args = list(self.rest)
        for place, tensor in zip(self.places, self.inputs.saved_tensors, strict=True):
            args[place] = tensor
        return args

    def pack(self, tensor: Tensor) -> _Holder:
        holder = _Holder()
        self.holders.append(weakref.ref(holder))
        self.kinds.append(_kind(tensor))
        return holder

    def unpack(self, holder: _Holder) -> Tensor:
        task = local.state.task
        this_pass = None if task is None else task.notes.setdefault("pass", object())
        if this_pass is not self.pass_ or holder not in self.recomputed:
            self.recomputed.clear()
            self.pass_ = this_pass
            self.repeat()
        return self.recomputed.pop(holder)

    def repeat(self) -> None:
        """Call the function again and put what it saves in the place of what was not kept."""
        count = 0

        def keep(tensor: Tensor) -> Tensor:
            nonlocal count
            number, count = count, count + 1
            tensor = tensor.detach()
            if number < len(self.holders):
                holder = self.holders[number]()
                if holder is not None:
                    self.recomputed[holder] = tensor
                if self.check and _kind(tensor) != self.kinds[number]:
                    raise CheckpointError(
                        "checkpoint: Recomputed values for the following tensors have different metadata than during "
                        f"the forward pass.\ntensor at position {number}:\nsaved metadata: {self.kinds[number]}\n"
                        f"recomputed metadata: {_kind(tensor)}"
                    )
            if self.early_stop and count == len(self.holders):
                raise _StopRecomputationError
            return tensor

        with contextlib.suppress(_StopRecomputationError), saved_tensors_hooks(keep, _identity), enable_grad():
            self.recompute(*self.arguments())
        if count != len(self.holders):
            raise CheckpointError(
                "checkpoint: A different number of tensors was saved during the original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.holders)}\n"
                f"Number of tensors saved during recomputation: {count}."
            )


def _identity(tensor: Tensor) -> Tensor:
    return tensor


def _kind(tensor: Tensor) -> dict[str, Any]:
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


def _without_reentrance(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    named: dict[str, Any],
    context_fn: Contexts,
    determinism_check: str,
    early_stop: bool,
    preserve_rng_state: bool,
) -> Any:
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ('default', 'none') but got {determinism_check}")
    first, second = context_fn()
    if not is_grad_enabled():
        with first:
            return function(*args, **named)
    rng_state = random.get_rng_state() if preserve_rng_state else None

    def recompute(*again: Any) -> None:
        with random.fork_rng() if preserve_rng_state else contextlib.nullcontext():
            if rng_state is not None:
                random.set_rng_state(rng_state)
            with second:
                function(*again, **named)

    frame = _Frame(recompute, args, determinism_check == "default", early_stop)
    with saved_tensors_hooks(frame.pack, frame.unpack), first:
        return function(*args, **named)


# -- backward inside backward ---------------------------------------------------------------------------------------


class CheckpointFunction(Function):
    """Runs the function unrecorded, and in backward once more, recorded, with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        if not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=4)
        ctx.function = function
        ctx.rng_state = random.get_rng_state() if preserve_rng_state else None
        ctx.rest = [None if isinstance(a, Tensor) else a for a in args]
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if local.state.task is not None and local.state.task.captures:
            raise RuntimeError(
                "When use_reentrant=True, checkpoint is incompatible with .grad() or passing an `inputs` parameter to "
                ".backward(). To resolve this error, you can either set use_reentrant=False, or call .backward() "
                "without passing the `inputs` argument."
            )
        args = list(ctx.rest)
        for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            args[place] = tensor.detach().requires_grad_(tensor.requires_grad)
        with random.fork_rng() if ctx.rng_state is not None else contextlib.nullcontext():
            if ctx.rng_state is not None:
                random.set_rng_state(ctx.rng_state)
            with enable_grad():
                outputs = ctx.function(*args)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = [
            (out, g) for out, g in zip(outputs, grads, strict=True) if isinstance(out, Tensor) and out.requires_grad
        ]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([out for out, _ in pairs], [g for _, g in pairs])
        return None, None, *(a.grad if isinstance(a, Tensor) else None for a in args)
