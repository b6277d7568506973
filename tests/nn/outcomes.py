"""What programs return, raise and warn of, as text that is the same for gradcore and PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["outcome"]


def described(value: Any) -> Any:
    """Describe a result in a form that can be compared between libraries."""
    if hasattr(value, "grad_fn"):
        kind = str(value.dtype), tuple(value.shape), bool(value.requires_grad)
        if value.is_meta:
            return (*kind, None)
        values = np.asarray(value.detach().tolist())
        return (*kind, (values if values.dtype == bool else values.round(5)).tolist())
    if hasattr(value, "named_parameters"):
        return repr(value)
    if isinstance(value, dict):
        return {key: described(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [described(v) for v in value] if type(value) in (list, tuple) else repr(value)
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def outcome(program: Callable[[Any], Any], library: Any) -> str:
    """Return the result or error of a program and the categories of its warnings, without addresses."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            result = described(program(library))
        except Exception as error:
            result = type(error).__name__, str(error).partition(" See ")[0].partition(" Open an issue")[0]
    text = repr((result, [w.category.__name__ for w in seen]))
    for name in (
        "torch.nn.modules.module.", "torch.nn.modules.container.", "gradcore.nn.module.", "gradcore.nn.containers.",
    ):  # fmt: skip
        text = text.replace(name, "nn.")
    return text.replace("gradcore.nn.", "nn.").replace("torch.nn.", "nn.").replace("gradcore", "torch")
