"""Kernels that look up what belongs to a class: its score, its weight, its place.

Scores have the shape ``(batch, classes, *)`` or ``(classes,)``, targets the same without the classes.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

__all__ = ["Targets"]


class Targets:
    """Class targets. One that is ignored has a score and a weight of zero, and no place."""

    xp: Any
    check_bounds: Any

    def class_pick(self, x: Any, target: Any, ignore_index: int) -> Any:
        """The score of each target's class."""
        safe, ignored = self._known(target, x.shape[min(x.ndim, 2) - 1], ignore_index)
        view, key = self._places(x, safe)
        return _without(view[key].reshape(target.shape), ignored)

    def class_spread(self, x: Any, target: Any, classes: int, ignore_index: int) -> Any:
        """Zeros, with the elements of `x` in the places of their targets' classes."""
        safe, ignored = self._known(target, classes, ignore_index)
        shape = (*target.shape[:1], classes, *target.shape[1:]) if target.ndim else (classes,)
        result = self.xp.zeros(shape, dtype=x.dtype)
        view, key = self._places(result, safe)
        view[key] = _without(x if ignored is None else x.copy(), ignored).reshape(key[1].shape)
        return result

    def class_weights(self, target: Any, weight: Any, like: Any, ignore_index: int) -> Any:
        """The weight of each target's class; without weights 1, in the dtype of `like`."""
        if weight is None:
            return (target != ignore_index).astype(like.dtype)
        safe, ignored = self._known(target, len(weight), ignore_index)
        return _without(self.xp.asarray(weight[safe]), ignored)

    def nll(
        self, x: Any, target: Any, weight: Any, reduction: str, ignore_index: int
    ) -> tuple[Any, Any]:
        """Weighted scores of the targets' classes, negative and reduced, and the sum of weights."""
        weights = self.class_weights(target, weight, x, ignore_index)
        return _reduced(-self.class_pick(x, target, ignore_index) * weights, weights, reduction)

    def softmax_nll(
        self, x: Any, target: Any, weight: Any, reduction: str, ignore_index: int
    ) -> tuple[Any, Any, Any, Any]:
        """Cross entropy, the sum of weights, and of each row the maximum and the sum of exponentials less that."""
        xp, dim = self.xp, min(x.ndim, 2) - 1
        highest = x.max(axis=dim, keepdims=True)
        exponentials = x - highest
        scores = self.class_pick(exponentials, target, ignore_index)
        xp.exp(exponentials, out=exponentials)
        if xp is np and x.ndim == 2:  # the fastest sum of rows
            total = (exponentials @ np.ones(x.shape[1], x.dtype)).reshape(-1, 1)
        else:
            total = xp.add.reduce(exponentials, axis=dim, keepdims=True)
        weights = self.class_weights(target, weight, x, ignore_index)
        losses = xp.asarray(xp.log(total).reshape(target.shape) - scores)
        losses = _without(losses, self._known(target, x.shape[dim], ignore_index)[1]) * weights
        return *_reduced(losses, weights, reduction), highest, total

    def softmax_nll_backward(
        self, x: Any, highest: Any, scale: Any, at_target: Any, target: Any, ignore_index: int
    ) -> Any:
        """``exp(x - highest) * scale``, less `at_target` in the places of the targets' classes."""
        result = x - highest
        self.xp.exp(result, out=result)
        result *= scale
        safe, ignored = self._known(target, x.shape[min(x.ndim, 2) - 1], ignore_index)
        view, key = self._places(result, safe)
        view[key] -= _without(at_target if ignored is None else at_target.copy(), ignored).reshape(key[1].shape)
        return result

    def _known(self, target: Any, classes: int, ignore_index: int) -> tuple[Any, Any]:
        """Targets that are classes, 0 for ignored ones; and which are ignored, None where it is certain that none is."""
        if not 0 <= ignore_index < classes:  # without a second pass in the usual case, in which all is well
            try:
                self.check_bounds(target, classes, 0)
            except IndexError:
                pass
            else:
                if not self.is_traced:
                    return target, None
        ignored = target == ignore_index
        safe = self.xp.where(ignored, self.xp.zeros((), target.dtype), target)
        try:
            self.check_bounds(safe, classes, 0)
        except IndexError:
            wrong = target[(safe < 0) | (safe >= classes)].reshape(-1)[0]
            raise IndexError(f"Target {int(wrong)} is out of bounds.") from None
        return safe, ignored

    def _places(self, x: Any, target: Any) -> tuple[Any, tuple[Any, ...]]:
        """A view of `x` as ``(batch, classes, n)``, and the key of the targets' places in it."""
        batch, classes = (x.shape[0], x.shape[1]) if x.ndim > 1 else (1, x.shape[0])
        n = prod(x.shape[2:])
        rows, columns = self.xp.arange(batch).reshape(batch, 1), self.xp.arange(n)
        return x.reshape(batch, classes, n), (rows, target.reshape(batch, n), columns)
