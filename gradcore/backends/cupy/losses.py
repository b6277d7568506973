"""Losses of probabilities on CUDA: losses and gradients are one fused kernel each, before the reduction."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gradcore.backends.base import Backend
from gradcore.backends.cupy.kernels import CudaKernels
from gradcore.backends.portable.reductions import Reductions
from gradcore.core.typing import AnyArray

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["CudaLosses"]


class CudaLosses(CudaKernels, Reductions):
    """Losses whose bodies are elementwise before the reduction; without fusion the bodies run."""

    evaluate_formula: Callable[..., AnyArray]

    def bce(self, x: Array, target: Array, weight: Array | None, reduction: str) -> Array:
        losses = self.evaluate_formula("bce", _losses, x=x, target=target, weight=weight)
        return self._reduce_elements(losses, reduction)

    def bce_backward(self, grad: Array, x: Array, target: Array, weight: Array | None, reduction: str) -> Array:
        operands = {"grad": grad, "count": _divisor(x, reduction), "x": x, "target": target, "weight": weight}
        return self.evaluate_formula("bce_backward", _gradient, **operands)

    def bce_with_logits(
        self, x: Array, target: Array, weight: Array | None, pos_weight: Array | None, reduction: str
    ) -> Array:
        operands = {"x": x, "target": target, "weight": weight, "pos_weight": pos_weight}
        return self._reduce_elements(self.evaluate_formula("bce_with_logits", _logit_losses, **operands), reduction)

    def bce_with_logits_backward(
        self,
        grad: Array,
        x: Array,
        target: Array,
        weight: Array | None,
        pos_weight: Array | None,
        reduction: str,
    ) -> Array:
        operands = {
            "grad": grad, "count": _divisor(x, reduction), "x": x, "target": target, "weight": weight,
            "pos_weight": pos_weight,
        }  # fmt: skip
        return self.evaluate_formula("bce_with_logits_backward", _logit_gradient, **operands)

    def _reduce_elements(self, losses: Array, reduction: str) -> Array:
        if reduction == "none":
            return losses
        return self.mean_over(losses) if reduction == "mean" else self.sum_over(losses)


def _divisor(x: Array, reduction: str) -> float:
    """Return what gradients are divided by: a float, which is a parameter of the kernel and not part of its source."""
    return float(x.size) if reduction == "mean" else 1.0


# The formulas call the declared bodies, as `F` is a tracer or, without fusion, the backend with the methods above.


def _losses(F: object, x: AnyArray, target: AnyArray, weight: AnyArray) -> AnyArray:
    return Backend.bodies["bce"](F, x, target, weight, "none")


def _gradient(F: object, grad: AnyArray, count: float, x: AnyArray, target: AnyArray, weight: AnyArray) -> AnyArray:
    return Backend.bodies["bce_backward"](F, grad / count, x, target, weight, "none")


def _logit_losses(F: object, x: AnyArray, target: AnyArray, weight: AnyArray, pos_weight: AnyArray) -> AnyArray:
    return Backend.bodies["bce_with_logits"](F, x, target, weight, pos_weight, "none")


def _logit_gradient(
    F: object, grad: AnyArray, count: float, x: AnyArray, target: AnyArray, weight: AnyArray, pos_weight: AnyArray
) -> AnyArray:
    return Backend.bodies["bce_with_logits_backward"](F, grad / count, x, target, weight, pos_weight, "none")
