"""Losses on CUDA that are elementwise before the reduction: losses, and gradients, are one fused kernel each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gradcore.backends.base import Backend
from gradcore.backends.cupy.kernels import CudaKernels, accumulation_dtype
from gradcore.backends.portable.reductions import Reductions
from gradcore.core.typing import AnyArray

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["CudaLosses"]

#: Names of the operands of a loss in the source of its kernel.
_OPERANDS = ("x", "target", "factor", "second_factor")


def _loss(name: str) -> Callable[..., Array]:
    """Return the kernel of the loss `name`, whose last argument is the reduction; without fusion, the body runs."""

    def formula(F: object, *operands: AnyArray) -> AnyArray:
        # `F` is a tracer or, without fusion, the backend.
        return Backend.bodies[name](F, *operands, "none")

    def kernel(self: CudaLosses, *arguments: AnyArray) -> AnyArray:
        *operands, reduction = arguments
        dtype = operands[0].dtype
        # Losses of halves are not rounded before the reduction.
        stored = dtype if reduction == "none" else np.dtype(accumulation_dtype(operands[0]))
        losses = self.evaluate_formula(name, formula, stored, **self._name_operands(operands))
        if reduction == "none":
            return losses
        return (self.mean_over(losses) if reduction == "mean" else self.sum_over(losses)).astype(dtype, copy=False)

    return kernel


def _gradient(name: str) -> Callable[..., Array]:
    """Return the kernel of the gradient of a loss, whose first argument is the gradient of the reduced losses."""

    def formula(F: object, grad: AnyArray, count: float, *operands: AnyArray) -> AnyArray:
        return Backend.bodies[name](F, grad / count, *operands, "none")

    def kernel(self: CudaLosses, grad: Array, *arguments: AnyArray) -> AnyArray:
        *operands, reduction = arguments
        # A float is a parameter of the kernel and not part of its source.
        count = float(operands[0].size) if reduction == "mean" else 1.0
        named = self._name_operands(operands)
        return self.evaluate_formula(name, formula, operands[0].dtype, grad=grad, count=count, **named)

    return kernel


class CudaLosses(CudaKernels, Reductions):
    """Losses of numbers and probabilities that are fused up to the reduction."""

    evaluate_formula: Callable[..., AnyArray]
    generates: Callable[[Sequence[AnyArray]], bool]

    bce, bce_backward = _loss("bce"), _gradient("bce_backward")
    bce_with_logits, bce_with_logits_backward = _loss("bce_with_logits"), _gradient("bce_with_logits_backward")
    huber_loss_of, huber_loss_backward = _loss("huber_loss_of"), _gradient("huber_loss_backward")
    mse_loss_of, mse_loss_backward = _loss("mse_loss_of"), _gradient("mse_loss_backward")
    smooth_l1_loss_of, smooth_l1_loss_backward = _loss("smooth_l1_loss_of"), _gradient("smooth_l1_loss_backward")
    soft_margin, soft_margin_backward = _loss("soft_margin"), _gradient("soft_margin_backward")

    def _name_operands(self, operands: Sequence[AnyArray]) -> dict[str, AnyArray]:
        """Return the operands by name, halves as float32 if no kernel is generated, which would convert them."""
        if not self.generates(operands):
            operands = [x.astype(accumulation_dtype(x), copy=False) if hasattr(x, "dtype") else x for x in operands]
        return dict(zip(_OPERANDS, operands, strict=False))
