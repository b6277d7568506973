"""Mixed precision on CUDA under PyTorch's older names, which are deprecated in favor of `gradcore.amp`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from gradcore import amp
from gradcore.core import dtypes
from gradcore.core.dtypes import DTypeLike
from gradcore.torch_names import paths

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


def _warn_deprecated(old: str, new: str) -> None:
    """Warn that `old` of this module is deprecated, and name its replacement `new`."""
    warnings.warn(
        f"`torch.cuda.amp.{old}(args...)` is deprecated. Please use `torch.amp.{new}` instead.",
        FutureWarning,
        stacklevel=3,
    )


class autocast(amp.autocast):
    """`gradcore.autocast` for CUDA tensors."""

    def __init__(
        self,
        enabled: bool = True,
        dtype: DTypeLike = dtypes.float16,
        cache_enabled: bool = True,
    ) -> None:
        _warn_deprecated("autocast", "autocast('cuda', args...)")
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(amp.GradScaler):
    """`gradcore.amp.GradScaler` for CUDA tensors."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _warn_deprecated("GradScaler", "GradScaler('cuda', args...)")
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: DTypeLike | None = None) -> Callable[..., Any]:
    """`gradcore.amp.custom_fwd` for CUDA tensors."""
    _warn_deprecated("custom_fwd", "custom_fwd(args..., device_type='cuda')")
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any]) -> Callable[..., Any]:
    """`gradcore.amp.custom_bwd` for CUDA tensors."""
    _warn_deprecated("custom_bwd", "custom_bwd(args..., device_type='cuda')")
    return amp.custom_bwd(bwd, device_type="cuda")


__getattr__ = paths.further(__name__)

paths.show_public(__name__)
