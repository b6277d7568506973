"""Transforms from unconstrained real numbers to constrained sets, for the optimisation of parameters.

`biject_to` returns bijections. `transform_to` may return other maps, and is preferable for parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcore.distributions import constraints, transforms
from gradcore.distributions.constraints import Constraint
from gradcore.distributions.transforms import Transform

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Registry of functions from constraints to transforms, by a constraint or its class."""

    def __init__(self) -> None:
        self._registry: dict[Any, Callable[[Any], Transform]] = {}

    def register(self, constraint: Any, factory: Callable[[Any], Transform] | None = None) -> Any:
        """Register the transform to a constraint, or to the constraints of a class.

        Parameters
        ----------
        constraint : Constraint or type
        factory : callable, optional
            A function from a constraint to a transform; without it, a decorator is returned.

        Returns
        -------
        callable
        """
        if factory is None:
            return lambda given: self.register(constraint, given)
        if not (
            isinstance(constraint, Constraint) or (isinstance(constraint, type) and issubclass(constraint, Constraint))
        ):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[_key(constraint)] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """Return the transform to a constraint."""
        factory = self._registry.get(_key(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints: {constraint!r}")
        return factory(constraint)


def _key(constraint: Any) -> Any:
    """Return the class of a constraint, the key in the registry."""
    return constraint if isinstance(constraint, type) else type(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _register_both(constraint: Any, factory: Callable[[Any], Transform]) -> None:
    for registry in (biject_to, transform_to):
        registry.register(constraint, factory)


def _transform_to_interval(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


def _map_above(constraint: Any) -> Transform:
    if isinstance(constraint.lower_bound, (int, float)) and constraint.lower_bound == 0:
        return transforms.ExpTransform()
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    )


def _map_below(constraint: Any) -> Transform:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    )


def _positive_definite(constraint: Any) -> Transform:
    return transforms.PositiveDefiniteTransform()


_register_both(constraints.real, lambda constraint: transforms.identity_transform)
_register_both(constraints.positive, _map_above)
_register_both(constraints.nonnegative, _map_above)
_register_both(constraints.less_than, _map_below)
_register_both(constraints.unit_interval, _transform_to_interval)
_register_both(constraints.half_open_interval, _transform_to_interval)
transform_to.register(constraints.lower_cholesky, lambda constraint: transforms.LowerCholeskyTransform())
transform_to.register(constraints.positive_definite, _positive_definite)
transform_to.register(constraints.positive_semidefinite, _positive_definite)
_register_both(constraints.corr_cholesky, lambda constraint: transforms.CorrCholeskyTransform())
biject_to.register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: transforms.SoftmaxTransform())


def _register_composites(registry: ConstraintRegistry) -> None:
    """Register transforms to composite sets, which are built from the transforms to their parts."""

    def independent(constraint: Any) -> Transform:
        base = registry(constraint.base_constraint)
        return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)

    def cat(constraint: Any) -> Transform:
        return transforms.CatTransform([registry(c) for c in constraint.cseq], constraint.dim, constraint.lengths)

    def stack(constraint: Any) -> Transform:
        return transforms.StackTransform([registry(c) for c in constraint.cseq], constraint.dim)

    registry.register(constraints.independent, independent)
    registry.register(constraints.cat, cat)
    registry.register(constraints.stack, stack)


_register_composites(biject_to)
_register_composites(transform_to)
