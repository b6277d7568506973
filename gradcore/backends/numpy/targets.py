"""Losses of class targets for NumPy in the usual case of a matrix of scores without ignored targets.

Scores are read and written by their positions in the flattened matrix. Cross entropy is computed in blocks of rows that
stay in cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore.backends.kernel_methods import packed
from gradcore.backends.kernel_rules import native_rows
from gradcore.backends.numpy.row_blocks import exponentials, in_blocks, row_maxima, row_sums, rows_of
from gradcore.backends.portable.cross_entropy import LossGradients, Targets
from gradcore.core.typing import Array

__all__ = ["NumpyTargets"]

_sum: Any = np.add.reduce


class NumpyTargets(Targets):
    """Negative log-likelihood and cross entropy of a matrix of scores."""

    def nll(self, x: Any, target: Any, weight: Any, reduction: str, ignore_index: int) -> tuple[Any, Any]:
        positions = None if weight is not None else self._places_in(x, target, ignore_index)
        if positions is None:
            return super().nll(x, target, weight, reduction, ignore_index)
        return _reduce_losses(-x.reshape(-1).take(positions), reduction)

    def class_spread(self, x: Any, target: Any, classes: int, ignore_index: int) -> Any:
        if target.ndim == 1 and not 0 <= ignore_index < classes and _within(target, classes):
            result = np.zeros((len(target), classes), x.dtype)
            result.reshape(-1)[_places(target, classes)] = x
            return result
        return super().class_spread(x, target, classes, ignore_index)

    def softmax_nll(
        self, x: Any, target: Any, weight: Any, reduction: str, ignore_index: int
    ) -> tuple[Any, Any, Any, Any]:
        positions = self._places_in(x, target, ignore_index)
        if positions is None:
            return super().softmax_nll(x, target, weight, reduction, ignore_index)
        rows = rows_of(x)
        powers, top, total = self.row_powers(rows)
        top -= rows.reshape(-1).take(positions)
        top += np.log(total)
        if weight is None:
            loss_and_weight = _reduce_losses(top, reduction)
        else:
            loss_and_weight = self._weight_losses(top, target, weight, None, reduction, ignore_index)
        return *loss_and_weight, powers, total.reshape(-1, 1)

    @native_rows("row_powers", "rows -> rows row row", "", 32)
    def row_powers(self, rows: Any) -> tuple[Any, Any, Any]:
        """Return the exponentials of rows minus their maxima, these maxima, and the sums of the exponentials."""
        powers = np.empty(rows.shape, rows.dtype)
        top, total = np.empty((2, len(rows)), rows.dtype)

        def work(part: slice, _: int) -> None:
            a, b = rows[part], powers[part]
            top[part] = highest = row_maxima(a)
            total[part] = row_sums(exponentials(np.subtract(a, highest[:, None], b), b))

        in_blocks(work, rows)
        return powers, top, total

    @packed(LossGradients)
    def softmax_nll_backward(self, arguments: LossGradients) -> Array:
        grad, grad_powers, grad_total, target, weight, total_weight, powers, total, reduction, _ = arguments
        only_loss = grad is not None and grad_powers is None and grad_total is None
        # If the total weight is not the number of targets, some targets are ignored.
        if not only_loss or weight is not None or powers.ndim != 2 or total_weight != len(target):
            return super().softmax_nll_backward(arguments)
        if reduction == "mean":
            grad = grad / total_weight
        result = self.scaled_rows(powers, grad.reshape(-1, 1) / total)
        result.reshape(-1)[_places(target, powers.shape[1])] -= grad
        return result

    @native_rows("scaled_rows", "rows row -> rows", "", 32)
    def scaled_rows(self, rows: Any, scale: Any) -> Any:
        """Return a contiguous copy of a matrix with each row multiplied by its element of the column `scale`."""
        result = np.empty(rows.shape, rows.dtype)
        in_blocks(lambda part, _: np.multiply(rows[part], scale[part], result[part]), rows)
        return result

    def _places_in(self, x: Any, target: Any, ignore_index: int) -> Any:
        """Return the flat positions of the targets' classes in a matrix of scores, or None if one may be ignored."""
        if x.ndim != 2 or not x.size or x.dtype.kind != "f" or x.itemsize < 4:
            return None
        classes = x.shape[1]
        if 0 <= ignore_index < classes or not _within(target, classes):
            return None
        return _places(target, classes)


def _within(target: Any, classes: int) -> bool:
    """Return whether all targets are valid classes."""
    if target.dtype == np.int64:
        target = target.view(np.uint64)
    return bool(not target.size or np.maximum.reduce(target) < classes)


def _places(target: Any, classes: int) -> Any:
    return target + np.arange(0, len(target) * classes, classes)


def _reduce_losses(losses: Any, reduction: str) -> tuple[Any, Any]:
    """Return the reduced losses and their number, which is the sum of weights, as each weight is 1."""
    number = np.array(len(losses), losses.dtype)
    if reduction == "none":
        return losses, number
    total = _sum(losses)
    return (total / number if reduction == "mean" else total), number
