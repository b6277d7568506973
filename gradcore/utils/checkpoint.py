"""Activation checkpointing: forward keeps only the inputs of a function, and backward computes the rest again."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gradcore.amp import autocasting as amp
from gradcore.autograd.function import Function
from gradcore.autograd.grad_mode import enable_grad, is_grad_enabled
from gradcore.autograd.gradients import backward
from gradcore.autograd.graph import current_graph_task, saved_tensors_hooks
from gradcore.tensor import Tensor, random
from gradcore.torch_names import paths
from gradcore.utils.checkpoint_log import Log, explain_difference
from gradcore.utils.recomputation import METADATA, CheckpointError, Frame
from gradcore.utils.selective_checkpoint import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]

Contexts = Callable[[], tuple[Any, Any]]


def noop_context_fn() -> tuple[Any, Any]:
    """Return two contexts that do nothing, the default of `checkpoint`.

    Examples
    --------
    >>> import gradcore as gc
    >>> first, second = gc.utils.checkpoint.noop_context_fn()
    """
    return contextlib.nullcontext(), contextlib.nullcontext()


class _Chosen:
    """Settings for all calls of `checkpoint`; None leaves the setting to each call."""

    early_stop: bool | None = None
    debug: bool | None = None


@contextlib.contextmanager
def _choice(name: str, value: bool | None) -> Iterator[None]:
    before = getattr(_Chosen, name)
    setattr(_Chosen, name, value)
    try:
        yield
    finally:
        setattr(_Chosen, name, before)


def set_checkpoint_early_stop(enable: bool) -> contextlib.AbstractContextManager[None]:
    """Set, inside this context manager, whether recomputation stops as soon as possible in all calls of `checkpoint`.

    Examples
    --------
    >>> import gradcore as gc
    >>> def block(x):
    ...     y = x.exp()
    ...     print("computed to the end")
    ...     return y
    >>> x = gc.ones(2, requires_grad=True)
    >>> with gc.utils.checkpoint.set_checkpoint_early_stop(False):
    ...     gc.utils.checkpoint.checkpoint(block, x, use_reentrant=False).sum().backward()
    computed to the end
    computed to the end
    """
    return _choice("early_stop", enable)


def set_checkpoint_debug_enabled(enabled: bool | None) -> contextlib.AbstractContextManager[None]:
    """Set, inside this context manager, whether errors of `checkpoint` list the operations of both computations.

    Examples
    --------
    >>> import gradcore as gc
    >>> sizes = iter([2, 3])
    >>> x = gc.ones(3, requires_grad=True)
    >>> with gc.utils.checkpoint.set_checkpoint_debug_enabled(True):
    ...     y = gc.utils.checkpoint.checkpoint(lambda x: x[: next(sizes)].exp(), x, use_reentrant=False)
    >>> try:
    ...     y.sum().backward()
    ... except gc.utils.checkpoint.CheckpointError as error:
    ...     print(str(error).splitlines()[-3].split(" -> ")[0])
      0. slice_of(torch.float32[3])
    """
    return _choice("debug", enabled)


WARNING = (
    "torch.utils.{}: the use_reentrant parameter should be passed explicitly. use_reentrant=False is recommended, but "
    "if you need to preserve the current default behavior, you can pass use_reentrant=True."
)


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Contexts = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Call a function without keeping intermediate results for backward, which calls the function again.

    Parameters
    ----------
    function : callable
        Must compute the same every time.
    *args
        The arguments of the function.
    use_reentrant : bool
        False is recommended: everything works as without checkpointing. True runs backward inside backward; then the
        function may not take keyword arguments, and only ``backward()`` without ``inputs`` works.
    context_fn : callable
        Returns two context managers, in which the function runs the first and the second time.
    determinism_check : {"default", "none"}
        Whether to compare shape, dtype and device of the tensors computed by both calls.
    debug : bool
        Whether errors list the operations of both computations, and where they were called.
    early_stop : bool
        Whether the second computation ends as soon as it has computed all tensors that backward needs.
    preserve_rng_state : bool
        Whether the function draws the same random numbers again.
    **kwargs
        Keyword arguments of the function.

    Returns
    -------
    object
        The result of the function.

    Raises
    ------
    CheckpointError
        In backward, if the recomputation differs from the first computation.

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
            WARNING.format("checkpoint"),
            stacklevel=2,
        )
        use_reentrant = True
    if not use_reentrant:
        stop = early_stop if _Chosen.early_stop is None else _Chosen.early_stop
        debug = debug if _Chosen.debug is None else _Chosen.debug
        how = context_fn, determinism_check, debug, stop, preserve_rng_state
        return _checkpoint_without_reentrance(function, args, kwargs, *how)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if context_fn is not noop_context_fn or debug:
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    return CheckpointFunction.apply(function, preserve_rng_state, *args)


def checkpoint_sequential(
    functions: Iterable[Callable[[Any], Any]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Call functions one after the other in segments, and checkpoint all segments but the last.

    Parameters
    ----------
    functions : iterable of callable
        Functions, each of which takes the result of the previous one, such as an ``nn.Sequential``.
    segments : int
        The number of segments.
    input : Tensor
        The argument of the first function.
    use_reentrant, preserve_rng_state : bool
        See `checkpoint`.

    Returns
    -------
    object
        The result of the last function.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.utils.checkpoint import checkpoint_sequential
    >>> x = gradcore.tensor([1.0, 2.0], requires_grad=True)
    >>> checkpoint_sequential([gradcore.exp, gradcore.log, gradcore.sum], 2, x, use_reentrant=False)
    tensor(3., grad_fn=<SumBackward0>)
    """
    if use_reentrant is None:
        warnings.warn(WARNING.format("checkpoint.checkpoint_sequential"), stacklevel=2)
        use_reentrant = True
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
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


def _checkpoint_without_reentrance(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    named: dict[str, Any],
    context_fn: Contexts,
    determinism_check: str,
    debug: bool,
    early_stop: bool,
    preserve_rng_state: bool,
) -> Any:
    explain = None
    if debug:
        if context_fn is not noop_context_fn:
            raise ValueError("debug=True is incompatible with non-default context_fn")
        logs = Log(), Log()
        context_fn, explain = lambda: logs, lambda error: explain_difference(error, *logs)
    if determinism_check not in METADATA:
        raise ValueError(f"determinism_check should be one of {list(METADATA)}, but got {determinism_check}")
    first, second = context_fn()
    if not is_grad_enabled():
        return function(*args, **named)
    repeated = _Surroundings(preserve_rng_state, args)

    def recompute(*again: Any) -> None:
        with repeated.restore(), second:
            function(*again, **named)

    frame = Frame(recompute, args, METADATA[determinism_check], early_stop, explain)
    with saved_tensors_hooks(frame.pack, frame.unpack), first:
        result = function(*args, **named)
        frame.complete = True
    if not frame.complete:
        raise RuntimeError(
            "torch.utils.checkpoint: the forward context provided by context_fn suppressed an exception raised during "
            "the checkpointed forward. This is not supported because checkpoint cannot return a value for a failed "
            "forward."
        )
    return result


class _Surroundings:
    """State besides the arguments that a result depends on: random numbers (of all devices) and autocasting."""

    def __init__(self, preserve_rng_state: bool, args: tuple[Any, ...]) -> None:
        self.numbers = random.generator.current_state() if preserve_rng_state else None
        devices = {"cpu", *(a.device.type for a in args if isinstance(a, Tensor))}
        self.casts = [
            (d, amp.get_autocast_dtype(d), amp.is_autocast_enabled(d), amp.is_autocast_cache_enabled())
            for d in devices
            if amp.is_autocast_available(d)
        ]

    @contextlib.contextmanager
    def restore(self) -> Iterator[None]:
        """Restore the state inside this context manager."""
        with contextlib.ExitStack() as stack:
            if self.numbers is not None:
                stack.enter_context(random.generator.repeat_draws(self.numbers))
            for device_type, dtype, enabled, cached in self.casts:
                if enabled or amp.is_autocast_enabled(device_type):
                    stack.enter_context(amp.autocast(device_type, dtype, enabled, cached))
            yield


# -- backward inside backward ---------------------------------------------------------------------------------------


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments with their tensors detached. Those that required grad become leaves that do.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.utils.checkpoint.detach_variable((gc.ones(1, requires_grad=True) * 2,))
    (tensor([2.], requires_grad=True),)
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(t.detach().requires_grad_(t.requires_grad) if isinstance(t, Tensor) else t for t in inputs)


def check_backward_validity(inputs: Iterable[Any], stacklevel: int = 2) -> None:
    """Warn if no argument requires grad."""
    if not any(isinstance(t, Tensor) and t.requires_grad for t in inputs):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=stacklevel)


class CheckpointFunction(Function):
    """Autograd function that runs a function without recording. Backward records it again and differentiates it."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args, stacklevel=5)
        ctx.function = function
        ctx.surroundings = _Surroundings(preserve_rng_state, args)
        ctx.rest = [None if isinstance(a, Tensor) else a for a in args]
        ctx.positions = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.positions))
        return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        task = current_graph_task()
        if task is not None and task.captures:
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call "
                ".backward() without passing the `inputs` argument."
            )
        args = list(ctx.rest)
        for position, tensor in zip(ctx.positions, ctx.saved_tensors, strict=True):
            args[position] = tensor
        detached = detach_variable(tuple(args))
        with ctx.surroundings.restore(), enable_grad():
            outputs = ctx.function(*detached)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = [
            (out, g) for out, g in zip(outputs, grads, strict=True) if isinstance(out, Tensor) and out.requires_grad
        ]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([out for out, _ in pairs], [g for _, g in pairs])
        return None, None, *(a.grad if isinstance(a, Tensor) else None for a in detached)


paths.show_public(__name__)
