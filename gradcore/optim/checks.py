"""Checks of options that several optimisers share, in PyTorch's words."""

from __future__ import annotations

from typing import Any

from gradcore.tensor import Tensor

__all__ = ["check_betas", "check_lr", "check_not_negative"]


def check_lr(lr: float | Tensor) -> None:
    """Refuse learning rates that are not one number from 0 on."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    check_not_negative("learning rate", lr)


def check_not_negative(what: str, value: Any) -> None:
    """Refuse negative values, and NaN."""
    if not value >= 0.0:
        raise ValueError(f"Invalid {what}: {value}")


def check_betas(betas: tuple[Any, Any]) -> None:
    """Refuse decay rates outside of [0, 1)."""
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
