"""Losses of class targets for NumPy in the usual case of a matrix of scores without ignored targets.

Scores are read and written by their positions in the flattened matrix. Cross entropy is computed in blocks of rows that
stay in cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore.backends.kernel_methods import packed
from gradcore.backends.numpy.row_blocks import exponentials, row_maxima, row_sums, rows_of, run_in_blocks
from gradcore.backends.portable.cross_entropy import LossGradients, Targets
from gradcore.core.typing import AnyArray

__all__ = ["NumpyTargets"]

_sum: Any = np.add.reduce


class NumpyTargets(Targets):
    """Negative log-likelihood and cross entropy of a matrix of scores."""

    def _is_usual(self, x: AnyArray, target: AnyArray, ignore_index: int) -> bool:
        """Return whether `x` is a matrix of floats with a valid class for each row, none of which may be ignored."""
        if x.ndim != 2 or not x.size or x.dtype.kind != "f" or x.itemsize < 4:
            return False
        classes = x.shape[1]
        return not 0 <= ignore_index < classes and self.are_classes(target, classes)

    def are_classes(self, target: AnyArray, classes: int) -> bool:
        """Return whether all targets are valid classes."""
        if target.dtype == np.int64:
            target = target.view(np.uint64)
        return bool(not target.size or np.maximum.reduce(target) < classes)

    def nll(self, x: Any, target: Any, weight: Any, reduction: str, ignore_index: int) -> tuple[Any, Any]:
        if weight is not None or not self._is_usual(x, target, ignore_index):
            return super().nll(x, target, weight, reduction, ignore_index)
        return _reduce_losses(-x.reshape(-1).take(_places(target, x.shape[1])), reduction)

    def class_spread(self, x: Any, target: Any, classes: int, ignore_index: int) -> Any:
        if target.ndim == 1 and not 0 <= ignore_index < classes and self.are_classes(target, classes):
            result = np.zeros((len(target), classes), x.dtype)
            result.reshape(-1)[_places(target, classes)] = x
            return result
        return super().class_spread(x, target, classes, ignore_index)

    def softmax_nll(
        self, x: Any, target: Any, weight: Any, reduction: str, ignore_index: int
    ) -> tuple[Any, Any, Any, Any]:
        if not self._is_usual(x, target, ignore_index):
            return super().softmax_nll(x, target, weight, reduction, ignore_index)
        powers, losses, total = self.cross_entropy_rows(rows_of(x), target)
        if weight is None:
            loss_and_weight = _reduce_losses(losses, reduction)
        else:
            loss_and_weight = self._weight_losses(losses, target, weight, None, reduction, ignore_index)
        return *loss_and_weight, powers, total.reshape(-1, 1)

    def cross_entropy_rows(self, rows: AnyArray, target: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
        """Return the exponentials of rows minus their maxima, the cross entropy of each row, and sums of exponentials.

        The matrix `rows` is contiguous, and `target` has a valid class for each row.
        """
        powers = np.empty(rows.shape, rows.dtype)
        # Not parts of one array: the node keeps only the sums.
        losses, total = np.empty(len(rows), rows.dtype), np.empty(len(rows), rows.dtype)

        def work(part: slice, _: int) -> None:
            a, b = rows[part], powers[part]
            losses[part] = highest = row_maxima(a)
            total[part] = row_sums(exponentials(np.subtract(a, highest[:, None], b), b))

        run_in_blocks(work, rows)
        losses -= rows.reshape(-1).take(_places(target, rows.shape[1]))
        losses += np.log(total)
        return powers, losses, total

    @packed(LossGradients)
    def softmax_nll_backward(self, arguments: LossGradients) -> AnyArray:
        grad, _, _, target, weight, total_weight, powers, total, reduction, _ = arguments
        # If the total weight is not the number of targets, some targets are ignored. The caller may have changed
        # targets since the forward pass, through an array that shares their memory.
        is_plain = arguments.of_loss_alone and weight is None and powers.ndim == 2 and total_weight == len(target)
        if not is_plain or not self.are_classes(target, powers.shape[1]):
            return super().softmax_nll_backward(arguments)
        if reduction == "mean":
            grad = grad / total_weight
        return self.cross_entropy_rows_backward(grad, target, powers, total)

    def cross_entropy_rows_backward(
        self, grad: AnyArray, target: AnyArray, powers: AnyArray, total: AnyArray
    ) -> AnyArray:
        """Return the derivative of `cross_entropy_rows`, given the gradient of each loss or one for all of them."""
        result = np.empty(powers.shape, powers.dtype)
        scale = grad.reshape(-1, 1) / total
        run_in_blocks(lambda part, _: np.multiply(powers[part], scale[part], result[part]), powers)
        result.reshape(-1)[_places(target, powers.shape[1])] -= grad
        return result


def _places(target: Any, classes: int) -> Any:
    return target + np.arange(0, len(target) * classes, classes)


def _reduce_losses(losses: Any, reduction: str) -> tuple[Any, Any]:
    """Return the reduced losses and their number, which is the sum of weights, as each weight is 1."""
    number = np.array(len(losses), losses.dtype)
    if reduction == "none":
        return losses, number
    total = _sum(losses)
    return (total / number if reduction == "mean" else total), number
