"""Autocasting: context managers, decorators, and settings of a thread."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Self

from gradcore.amp.casting import LOWER_PRECISION, casting
from gradcore.backends import registry
from gradcore.core import dtypes
from gradcore.core.dtypes import DTypeLike
from gradcore.core.interrupts import run_despite_interrupts
from gradcore.core.tracebacks import shorten_errors
from gradcore.tensor import Tensor

__all__ = [
    "autocast",
    "clear_autocast_cache",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_dtype",
    "is_autocast_available",
    "is_autocast_cache_enabled",
    "is_autocast_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
]

#: The lower precisions that operations may be computed in.
SUPPORTED = (dtypes.bfloat16, dtypes.float16)


def _check_device_type(device_type: Any) -> str:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    return device_type


def is_autocast_available(device_type: str) -> bool:
    """Return whether a type of device supports autocasting: ``'cpu'`` and ``'cuda'`` do.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.amp.is_autocast_available("cpu")
    True
    """
    return _check_device_type(device_type) in LOWER_PRECISION


#: PyTorch's types of devices that may autocast and that gradcore does not have.
_ELSEWHERE = ("hpu", "ipu", "maia", "mps", "mtia", "xla", "xpu")


@shorten_errors
def _known(device_type: Any) -> str:
    if not is_autocast_available(device_type):
        raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
    return device_type  # type: ignore[no-any-return]


# -- the settings of this thread --------------------------------------------------------------------------------------


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Return whether autocasting is on for a type of device. It is always off for types that gradcore does not have.

    Examples
    --------
    >>> import gradcore as gc
    >>> with gc.autocast("cpu"):
    ...     print(gc.is_autocast_enabled("cpu"))
    True
    """
    return device_type not in _ELSEWHERE and casting().enabled[_known(device_type)]


def set_autocast_enabled(device_type: str, enabled: bool) -> None:
    """Switch autocasting on or off for a type of device. `autocast` does this for a block.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.set_autocast_enabled("cpu", False)
    >>> gc.is_autocast_enabled("cpu")
    False
    """
    casting().switch(_known(device_type), enabled)


def get_autocast_dtype(device_type: str) -> dtypes.dtype:
    """Return the lower precision of a type of device: by default bfloat16 on the CPU, float16 on CUDA.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.get_autocast_dtype("cpu")
    torch.bfloat16
    """
    return casting().dtypes[_known(device_type)]


def set_autocast_dtype(device_type: str, dtype: DTypeLike) -> None:
    """Set the lower precision of a type of device.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.set_autocast_dtype("cpu", gc.bfloat16)
    >>> gc.get_autocast_dtype("cpu")
    torch.bfloat16
    """
    casting().dtypes[_known(device_type)] = dtypes.as_dtype(dtype)


def is_autocast_cache_enabled() -> bool:
    """Return whether converted parameters are cached until the outermost `autocast` ends.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.is_autocast_cache_enabled()
    True
    """
    return casting().cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Set whether converted parameters are cached.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.set_autocast_cache_enabled(True)
    """
    casting().cache_enabled = enabled


def clear_autocast_cache() -> None:
    """Clear the cache of converted parameters.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.clear_autocast_cache()
    """
    casting().cache.clear()


# -- contexts and decorators ------------------------------------------------------------------------------------------


class autocast:
    """Run each operation in a suitable precision, as a context manager or decorator.

    Matrix products and convolutions run in the lower precision. Losses and other sensitive operations run in float32.
    Operations in neither list use the dtypes of their arguments. Parameters and their gradients stay in float32, as the
    conversions are recorded. Autocasting does not affect operations in place, with ``out=`` or with a given dtype, nor
    tensors in double precision.

    Parameters
    ----------
    device_type : {"cpu", "cuda"}
        The devices on whose tensors this acts.
    dtype : dtype, optional
        The lower precision, float16 or bfloat16; by default float16 on CUDA, bfloat16 on the CPU.
    enabled : bool
        False switches autocasting off in the block.
    cache_enabled : bool, optional
        Whether a parameter that is used several times is converted once.

    Raises
    ------
    RuntimeError
        For other types of devices.

    Examples
    --------
    >>> import gradcore
    >>> weight = gradcore.ones(3, 2, requires_grad=True)
    >>> x = gradcore.ones(4, 3)
    >>> with gradcore.autocast("cpu"):
    ...     y = x @ weight
    ...     loss = gradcore.nn.functional.mse_loss(y, gradcore.zeros(4, 2))
    >>> y.dtype, loss.dtype
    (torch.bfloat16, torch.float32)
    >>> loss.backward()
    >>> weight.grad.dtype
    torch.float32
    """

    def __init__(
        self,
        device_type: str,
        dtype: DTypeLike | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        self.device = _known(device_type)
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtypes.as_dtype(dtype)
        self._cache_enabled = is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        reason = _unusable(self.device, self.fast_dtype) if enabled else None
        if reason is not None:
            warnings.warn(reason, stacklevel=2 if type(self) is autocast else 3)
        self._enabled = enabled and reason is None

    def __enter__(self) -> Self:
        settings = casting()
        before = settings.enabled[self.device], settings.dtypes[self.device], settings.cache_enabled
        settings.before = (*settings.before, before)
        try:
            settings.dtypes[self.device], settings.cache_enabled = self.fast_dtype, self._cache_enabled
            settings.switch(self.device, self._enabled)
        except BaseException:  # an interrupt
            run_despite_interrupts(self._restore)
            raise
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._restore()
        except BaseException:
            run_despite_interrupts(self._restore)
            raise

    def _restore(self) -> None:
        """Restore the settings from before the innermost context. The last step, an assignment, completes it."""
        settings = casting()
        enabled, settings.dtypes[self.device], settings.cache_enabled = settings.before[-1]
        if len(settings.before) == 1:
            settings.cache.clear()
        settings.switch(self.device, enabled)
        settings.before = settings.before[:-1]

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. Did you mean to use autocast as "
                "a context manager? For example:\n    with torch.autocast(device_type=...):\n"
                "        output = model(input)"
            )

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return wrapper


def _unusable(device_type: str, dtype: dtypes.dtype) -> str | None:
    """Return the reason why autocasting to `dtype` is not possible, or None if it is."""
    if device_type == "cuda" and registry.unavailable("cuda") is not None:
        return "User provided device_type of 'cuda', but CUDA is not available. Disabling autocast."
    if dtype in SUPPORTED:
        return None
    name = device_type.upper()
    return (
        f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
        f"{name} Autocast only supports dtypes of {', '.join(map(repr, SUPPORTED))} currently."
    )


def _cast(value: Any, device_type: str, dtype: dtypes.dtype) -> Any:
    """Return `value` with its floating-point tensors, also those in containers, converted to another dtype."""
    if isinstance(value, Tensor):
        eligible = value.is_floating_point() and value.dtype is not dtypes.float64
        return value.to(dtype) if eligible and value.device.type == device_type else value
    if isinstance(value, Mapping):
        return {key: _cast(each, device_type, dtype) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(each, device_type, dtype) for each in value)
    return value


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: DTypeLike | None = None
) -> Callable[..., Any]:
    """Decorate ``forward`` of an `autograd.Function` so that it can be called under autocasting.

    Parameters
    ----------
    fwd : callable
        The function's `forward`, which gets the context as its first argument.
    device_type : {"cpu", "cuda"}
    cast_inputs : dtype, optional
        Under autocasting, floating-point tensors are converted to this dtype, and `fwd` runs without autocasting. If
        None, `fwd` runs under autocasting.

    See Also
    --------
    custom_bwd

    Examples
    --------
    >>> import gradcore as gc
    >>> class Exp(gc.autograd.Function):
    ...     @staticmethod
    ...     @gc.amp.custom_fwd(device_type="cpu", cast_inputs=gc.float32)
    ...     def forward(ctx, x):
    ...         return x.exp()
    ...
    ...     @staticmethod
    ...     @gc.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, g):
    ...         return g
    >>> with gc.autocast("cpu"):
    ...     print(Exp.apply(gc.zeros(1, dtype=gc.bfloat16)).dtype)
    torch.float32
    """
    _check_device_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def wrapper(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        on = is_autocast_enabled(device_type)
        ctx._dtype = get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = on and cast_inputs is None
        if cast_inputs is None or not on:
            return fwd(ctx, *args, **kwargs)
        target = dtypes.as_dtype(cast_inputs)
        with autocast(device_type, enabled=False):
            return fwd(ctx, *_cast(args, device_type, target), **_cast(kwargs, device_type, target))

    return wrapper


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Decorate ``backward`` of an `autograd.Function` so that it runs with the autocast state of `forward`.

    Parameters
    ----------
    bwd : callable
        The function's `backward`; its `forward` is decorated with `custom_fwd`.
    device_type : {"cpu", "cuda"}

    Examples
    --------
    >>> import gradcore as gc
    >>> class Exp(gc.autograd.Function):
    ...     @staticmethod
    ...     @gc.amp.custom_fwd(device_type="cpu")
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(result := x.exp())
    ...         return result
    ...
    ...     @staticmethod
    ...     @gc.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, g):
    ...         return g * ctx.saved_tensors[0]
    >>> x = gc.zeros(1, requires_grad=True)
    >>> Exp.apply(x).backward()
    >>> x.grad
    tensor([1.])
    """
    _check_device_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def wrapper(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(ctx, *args, **kwargs)

    return wrapper
