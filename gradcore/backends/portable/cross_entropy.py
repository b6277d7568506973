"""Kernels of losses of class targets, which look up the score and the weight of each target.

Scores have the shape ``(batch, classes, *)`` or ``(classes,)``. Targets have the same shape without the classes.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from gradcore.backends.kernel_methods import packed
from gradcore.backends.kernel_rules import Settings, native_arrays
from gradcore.core.typing import NamedTuple

if TYPE_CHECKING:
    from gradcore.core.arrays import Array, Namespace

__all__ = ["NEVER", "LossGradients", "Targets"]

#: Logarithm that stands for an alignment of probability zero. It is finite, as a difference of infinities is NaN.
NEVER = -1e30


class LossGradients(NamedTuple):
    """Arguments of the backward of `softmax_nll`: upstream gradients, its other arguments, and its results."""

    grad: Any
    grad_powers: Array | None
    grad_total: Array | None
    target: Array
    weight: Array | None
    total_weight: Array
    powers: Array
    total: Array
    reduction: str
    ignore_index: int

    @property
    def of_loss_alone(self) -> bool:
        """Whether the loss is the only result that has a gradient."""
        return self.grad is not None and self.grad_powers is None and self.grad_total is None


def _rows_of_classes(x: Array, target: Array, weight: Array | None, reduction: str, ignore_index: int) -> Settings:
    """Return the settings of the C++ functions: for rows of scores, a reduced loss, no weights and no ignored class."""
    is_plain = len(x.shape) == 2 and target.shape == x.shape[:1] and weight is None and reduction != "none"
    return (*x.shape, reduction == "mean") if is_plain and not 0 <= ignore_index < x.shape[1] else None


def _gradient_settings(*arguments: Any) -> Settings:
    given = LossGradients(*arguments)
    if not given.of_loss_alone or given.grad.size != 1:
        return None
    return _rows_of_classes(given.powers, given.target, given.weight, given.reduction, given.ignore_index)


class Targets:
    """Kernels of losses of class targets. Ignored targets count with a score and a weight of zero."""

    xp: Namespace
    div: Any
    log: Any
    host_scalars: bool
    check_bounds: Any
    max_over: Any
    sum_over: Any
    exp_less: Any
    index_add: Any
    bodies: ClassVar[dict[str, Any]]

    def class_pick(self, x: Array, target: Array, ignore_index: int) -> Array:
        """Return the score of each target's class."""
        valid_target, ignored = self._known_classes(target, x.shape[min(x.ndim, 2) - 1], ignore_index)
        return self._zero_ignored(self._pick(x, valid_target), ignored)

    def class_spread(self, x: Array, target: Array, classes: int, ignore_index: int) -> Array:
        """Return zeros with the elements of `x` at their targets' classes (the adjoint of `class_pick`)."""
        valid_target, ignored = self._known_classes(target, classes, ignore_index)
        shape = (*target.shape[:1], classes, *target.shape[1:]) if target.ndim else (classes,)
        result = self.xp.zeros(shape, dtype=x.dtype)
        view, key = self._class_places(result, valid_target)
        view[key] = self._zero_ignored(x, ignored).reshape(key[1].shape)
        return result

    def class_ones(self, target: Array, like: Array, ignore_index: int) -> Array:
        """Return 1 for each target and 0 for ignored ones, in the dtype of `like`."""
        return (target != ignore_index).astype(like.dtype)

    def class_totals(self, x: Array, target: Array, classes: int, ignore_index: int) -> Array:
        """Return the sums of the elements of `x` that belong to each class."""
        valid_target, ignored = self._known_classes(target, classes, ignore_index)
        x = self._zero_ignored(x, ignored).reshape(-1)
        return self.index_add(self.xp.zeros(classes, x.dtype), 0, valid_target.reshape(-1), x)

    def class_weights(self, target: Array, weight: Array, ignore_index: int) -> Array:
        """Return the weight of each target's class."""
        valid_target, ignored = self._known_classes(target, len(weight), ignore_index)
        return self._zero_ignored(weight[valid_target], ignored)

    def _weights(self, target: Array, weight: Array | None, like: Array, ignore_index: int) -> Array:
        if weight is None:
            return self.class_ones(target, like, ignore_index)
        return self.class_weights(target, weight, ignore_index)

    def nll(
        self, x: Array, target: Array, weight: Array | None, reduction: str, ignore_index: int
    ) -> tuple[Array, Array]:
        """Return the reduced, weighted negative scores of the targets' classes, and the sum of weights."""
        weights = self._weights(target, weight, x, ignore_index)
        return self._reduced_losses(-self.class_pick(x, target, ignore_index) * weights, weights, reduction)

    @native_arrays("cross_entropy", "x target=index -> value value value value", _rows_of_classes)
    def softmax_nll(
        self, x: Array, target: Array, weight: Array | None, reduction: str, ignore_index: int
    ) -> tuple[Array, Array, Array, Array]:
        """Return the cross entropy and the sum of weights, and for backward the exponentials and their sums.

        The exponentials are those of the scores minus their maximum over the classes.
        """
        dim = min(x.ndim, 2) - 1
        valid_target, ignored = self._known_classes(target, x.shape[dim], ignore_index)
        powers, highest, total = self.exponentials_along(x, dim)
        losses = self.log(total).reshape(target.shape) - (self._pick(x, valid_target) - highest.reshape(target.shape))
        return *self._weight_losses(losses, target, weight, ignored, reduction, ignore_index), powers, total

    def exponentials_along(self, x: Array, dim: int) -> tuple[Array, Array, Array]:
        """Return the exponentials of `x` minus its maxima along a dim, these maxima, and the exponentials' sums."""
        highest = self.xp.asarray(self.max_over(x, (dim,), True))
        powers = self.exp_less(x, highest)
        return powers, highest, self.sum_over(powers, (dim,), True)

    def _weight_losses(
        self, losses: Any, target: Array, weight: Array | None, ignored: Any, reduction: str, ignore_index: int
    ) -> tuple[Array, Array]:
        """Return the losses, weighted and reduced, and the sum of weights."""
        weights = self._weights(target, weight, losses, ignore_index)
        if weight is not None or ignored is not None:
            losses = self._zero_ignored(losses, ignored) * weights
        return self._reduced_losses(losses, weights, reduction)

    def _reduced_losses(self, losses: Any, weights: Array, reduction: str) -> tuple[Array, Array]:
        """Return the losses, their sum or their weighted mean, as `reduction` says, and the sum of weights."""
        total = weights.sum()
        if reduction == "none":
            return losses, total
        return (self.div(losses.sum(), total) if reduction == "mean" else losses.sum()), total

    @native_arrays("cross_entropy_back", "grad target=index total_weight powers total -> value", _gradient_settings)
    @packed(LossGradients)
    def softmax_nll_backward(self, arguments: LossGradients) -> Array:
        """Return the gradient of `softmax_nll` by its input, computed in the memory of its saved exponentials."""
        if not arguments.of_loss_alone:
            return self.bodies["softmax_nll_backward"](self, *arguments)
        grad, _, _, target, weight, total_weight, powers, total, reduction, ignore_index = arguments
        valid_target, ignored = self._known_classes(target, powers.shape[min(powers.ndim, 2) - 1], ignore_index)
        if reduction == "mean":
            grad = self.div(grad, total_weight)
        if weight is not None or ignored is not None or not grad.ndim:
            grad = self._zero_ignored(self._weights(target, weight, powers, ignore_index) * grad, ignored)
        result = powers * self.div(grad.reshape(total.shape), total)
        view, key = self._class_places(result, valid_target)
        view[key] -= grad.reshape(key[1].shape)
        return result

    def _known_classes(self, target: Array, classes: int, ignore_index: int) -> tuple[Array, Array | None]:
        """Return the targets, with 0 for ignored ones, and a mask of these (None if no target can be ignored)."""
        if self.host_scalars and not 0 <= ignore_index < classes:
            try:
                self.check_bounds(target, classes, 0)
            except IndexError:
                pass
            else:
                return target, None
        ignored = target == ignore_index
        valid_target = self.xp.where(ignored, self.xp.zeros((), target.dtype), target)
        self.check_bounds(valid_target, classes, 0, 0, "Target {index} is out of bounds.")
        return valid_target, ignored

    def _zero_ignored(self, x: Array, ignored: Any) -> Array:
        """Return `x` with zeros where targets are ignored."""
        return x if ignored is None else self.xp.where(ignored, self.xp.zeros((), x.dtype), x)

    def _pick(self, x: Array, known: Any) -> Array:
        """Return the element of `x` at each target's class, in the shape of the targets."""
        view, key = self._class_places(x, known)
        return view[key].reshape(known.shape)

    def _class_places(self, x: Array, target: Array) -> tuple[Array, tuple[Array, ...]]:
        """Return a view of `x` as ``(batch, classes, n)``, and the key of the targets' elements in it."""
        batch, classes = (x.shape[0], x.shape[1]) if x.ndim > 1 else (1, x.shape[0])
        n = prod(x.shape[2:])
        rows, columns = self.xp.arange(batch).reshape(batch, 1), self.xp.arange(n)
        return x.reshape(batch, classes, n), (rows, target.reshape(batch, n), columns)
