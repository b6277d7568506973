"""PyTorch's ``backends.cuda``: what products of matrices and attention may do on CUDA."""

from __future__ import annotations

from typing import Any

from gradcore.backends.switches import ProductPrecision, Switch, Switches, TensorFloat

__all__ = [
    "cudnn_sdp_enabled",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "is_built",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
]


class MatmulSwitches(Switches):
    """Products of matrices. Sums are in float32 at least, whatever may be allowed beyond `allow_tf32`.

    Attributes
    ----------
    allow_tf32 : bool
        Whether float32 operands may be rounded to TensorFloat32: `gradcore.set_float32_matmul_precision` with
        ``'high'`` or ``'highest'``.
    fp32_precision : {'none', 'ieee', 'tf32'}
        The same in words.
    allow_fp16_reduced_precision_reduction, allow_bf16_reduced_precision_reduction, allow_fp16_accumulation : bool
        Kept, and not made use of.
    """

    allow_tf32 = TensorFloat()
    fp32_precision = ProductPrecision()
    allow_fp16_reduced_precision_reduction = Switch(True)
    allow_bf16_reduced_precision_reduction = Switch(True)
    allow_fp16_accumulation = Switch(False)

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(getattr(type(self), name, None), Switch):
            raise AttributeError(f"Unknown attribute {name}")
        super().__setattr__(name, value)


matmul = MatmulSwitches("matmul")


def is_built() -> bool:
    """Whether CuPy is installed, so that CUDA can be used where there is a device.

    `gradcore.cuda.is_available` says whether it can.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.backends.cuda.is_built() in (True, False)
    True
    """
    import importlib.util

    return importlib.util.find_spec("cupy") is not None


_attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def enable_flash_sdp(enabled: bool) -> None:
    """Let large attention on the CPU, and attention on CUDA, keep no weights for gradients, or (False) keep them.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.backends.cuda.enable_flash_sdp(True)
    """
    _attention["flash"] = bool(enabled)


def flash_sdp_enabled() -> bool:
    """Whether attention may keep no weights and compute them again.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.backends.cuda.flash_sdp_enabled()
    True
    """
    return _attention["flash"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Kept, and read by nothing: attention that keeps no weights is chosen by `enable_flash_sdp`.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.backends.cuda.enable_mem_efficient_sdp(True)
    """
    _attention["mem_efficient"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """What `enable_mem_efficient_sdp` was told.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.backends.cuda.mem_efficient_sdp_enabled()
    True
    """
    return _attention["mem_efficient"]


def enable_math_sdp(enabled: bool) -> None:
    """Kept, and read by nothing: products and a softmax are what is left without `enable_flash_sdp`.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.backends.cuda.enable_math_sdp(True)
    """
    _attention["math"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """What `enable_math_sdp` was told.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.backends.cuda.math_sdp_enabled()
    True
    """
    return _attention["math"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Kept, and read by nothing: cuDNN is not used.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.backends.cuda.enable_cudnn_sdp(True)
    """
    _attention["cudnn"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """What `enable_cudnn_sdp` was told.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.backends.cuda.cudnn_sdp_enabled()
    True
    """
    return _attention["cudnn"]
