"""Lowering of batch norm and group norm: loops and reductions."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from gradcore.compiler.program.program import Call
from gradcore.compiler.targets.native.steps import Loop, Rules, Step, Unsupported, View

__all__ = ["Channels"]

Dims = tuple[int, ...]


class Channels(Rules):
    """Lowering rules for normalization by channels."""

    # -- values -------------------------------------------------------------------------------------------------------

    def _lower_native_batch_norm(self, call: Call, results: list[View]) -> list[Step]:
        x, weight, bias, eps = call.args
        return self._normalize(self._view(x), results, weight, bias, eps)

    def _lower_native_group_norm(self, call: Call, results: list[View]) -> list[Step]:
        x, weight, bias, groups, eps = call.args
        a, out = (_split(each, groups) for each in (self._view(x), results[0]))
        return self._normalize(a, [out, *results[1:]], weight, bias, eps, groups)

    def _normalize(
        self, x: View, results: list[View], weight: Any, bias: Any, eps: float, groups: int | None = None
    ) -> list[Step]:
        """Return the steps that normalize `x` over all but the channel dims: mean, variance, and the scaled result."""
        out, mean, var = results
        _check([x, *results])
        dims = tuple(d for d in range(len(x.shape)) if d > 1 or (d == 0 and groups is None))
        center, root, squares = _keep_dims(mean, dims), self._like(var), self._like(x)
        params = [self._parameter(each, x, groups) for each in (weight, bias) if each is not None]

        def normalize(F: Any, a: Any, m: Any, r: Any, *rest: Any) -> Any:
            value = (a - m) * (r if weight is None else r * rest[0])
            return value if bias is None else value + rest[-1]

        return [
            *self._reduce_dims("mean", mean, x, dims),
            self._loop_of(squares, lambda F, a, m: (a - m) * (a - m), x, center),
            *self._reduce_dims("mean", var, squares, dims),
            self._inverse_root(root, var, eps),
            self._loop_of(out, normalize, x, center, _keep_dims(root, dims), *params),
        ]

    def _lower_batch_norm_given(self, call: Call, results: list[View]) -> list[Step]:
        x, mean, var, weight, bias, eps = call.args
        a, (out,), root = self._view(x), results, self._like(self._view(var))
        params = [self._parameter(each, a) for each in (mean, root, weight, bias) if each is not None]
        _check([a, out, *params])

        def normalize(F: Any, a: Any, m: Any, r: Any, *rest: Any) -> Any:
            scale = r if weight is None else r * rest[0]
            return a * scale + (-m * scale if bias is None else rest[-1] - m * scale)

        return [self._inverse_root(root, self._view(var), eps), self._loop_of(out, normalize, a, *params)]

    # -- gradients ----------------------------------------------------------------------------------------------------

    def _lower_batch_norm_backward(self, call: Call, results: list[View]) -> list[Step]:
        (grad, x, weight, mean, var), eps, _, (to_x, to_weight, to_bias) = _gradients(call, results)
        g, a, variance = self._view(grad), self._view(x), self._view(var)
        _check([g, a, variance, *results])
        dims, count = (0, *range(2, len(a.shape))), a.size // a.shape[1]
        product, root, scale, slope, shift = (self._like(variance) for _ in range(5))
        total = self._like(variance) if to_bias is None else to_bias
        steps = [
            *self._sums(g, a, self._parameter(mean, a), product, total, dims),
            self._inverse_root(root, variance, eps),
        ]
        if to_weight is not None:
            steps.append(self._loop_of(to_weight, _times, product, root))
        if to_x is None:
            return steps
        factors = [root] if weight is None else [root, self._view(weight)]
        return [
            *steps,
            self._loop_of(scale, _times, *factors),
            self._loop_of(slope, lambda F, p, s, r: p * (s * r * r / -2) * (2 / count), product, scale, root),
            self._loop_of(shift, lambda F, t, s: -t * s / count, total, scale),
            self._plane(to_x, g, a, *(self._parameter(each, a) for each in (scale, mean, slope, shift))),
        ]

    def _lower_group_norm_backward(self, call: Call, results: list[View]) -> list[Step]:
        (grad, x, weight, mean, var), eps, groups, (to_x, to_weight, to_bias) = _gradients(call, results)
        g, a = (_split(self._view(each), groups) for each in (grad, x))
        _check([g, a, self._view(mean), self._view(var), *results])
        channels, points, count = a.shape[:3], tuple(range(3, len(a.shape))), prod(a.shape[2:])
        center, variance = self._view(mean), self._view(var)
        if center.shape != channels[:2] or variance.shape != channels[:2]:
            raise Unsupported("the shape of a statistic")
        product, total, scale, to_roots, products, totals = (self.temporary_view(channels, a.dtype) for _ in range(6))
        root, slope, shift = (self._like(center) for _ in range(3))
        group_root, plane_dims = _keep_dims(root, (2,)), (2, *points)
        steps = [
            *self._sums(g, a, _keep_dims(center, plane_dims), product, total, points),
            self._inverse_root(root, variance, eps),
        ]
        if to_weight is not None:
            steps.append(self._loop_of(to_roots, _times, product, group_root))
            steps += self._reduce_dims("sum", to_weight.reshape(channels[1:]), to_roots, (0,))
        if to_bias is not None:
            steps += self._reduce_dims("sum", to_bias.reshape(channels[1:]), total, (0,))
        if to_x is None:
            return steps
        factors = [] if weight is None else [self._parameter(weight, total, groups)]
        planes = [_keep_dims(each, plane_dims) for each in (center, slope, shift)]
        return [
            *steps,
            self._loop_of(scale, _times, group_root, *factors),
            self._loop_of(products, _times, product, *factors),
            self._loop_of(totals, _times, total, *factors),
            *self._reduce_dims("sum", slope, products, (2,)),
            *self._reduce_dims("sum", shift, totals, (2,)),
            self._loop_of(slope, lambda F, s, r: s * (r * r * r / -2) * (2 / count), slope, root),
            self._loop_of(shift, lambda F, s, r: s * -r / count, shift, root),
            self._plane(_split(to_x, groups), g, a, _keep_dims(scale, points), *planes),
        ]

    def _sums(self, grad: View, x: View, mean: View, product: View, total: View, dims: Dims) -> list[Step]:
        """Return the steps that sum `grad`, and `grad * (x - mean)`, over dims."""
        products = self._like(x)
        return [
            self._loop_of(products, lambda F, g, a, m: g * (a - m), grad, x, mean),
            *self._reduce_dims("sum", product, products, dims),
            *self._reduce_dims("sum", total, grad, dims),
        ]

    def _plane(self, out: View, grad: View, x: View, *lines: View) -> Step:
        """Return the loop ``out = grad * scale + ((x - mean) * slope + shift)``."""
        return self._loop_of(out, lambda F, g, a, s, m, b, c: g * s + ((a - m) * b + c), grad, x, *lines)

    # -- parts --------------------------------------------------------------------------------------------------------

    def _like(self, x: View) -> View:
        """Return a temporary view with the shape of `x`."""
        return self.temporary_view(x.shape, x.dtype)  # type: ignore[no-any-return]

    def _loop_of(self, out: View, formula: Callable[..., Any], *reads: View) -> Step:
        return self._check_loop(Loop([out], [*reads], lambda F, *args: [formula(F, *args)]))  # type: ignore[no-any-return]

    def _inverse_root(self, out: View, var: View, eps: float) -> Step:
        return self._loop_of(out, lambda F, v: 1 / F.xp.sqrt(v + eps), var)

    def _parameter(self, given: Any, x: View, groups: int | None = None) -> View:
        """Return a parameter by channel as a view that broadcasts to images, or to images in channel groups."""
        vector = given if isinstance(given, View) else self._view(given)
        _check([vector])
        if groups is not None:
            return _keep_dims(vector.reshape(x.shape[1:3]), (0, *range(3, len(x.shape))))
        if vector.shape != x.shape[1:2]:
            raise Unsupported("the shape of a parameter")
        return _keep_dims(vector, (0, *range(2, len(x.shape))))


def _times(F: Any, x: Any, *factors: Any) -> Any:
    return x * factors[0] if factors else x


def _gradients(call: Call, results: list[View]) -> tuple[tuple[Any, ...], float, int, list[Any]]:
    """Return the arrays, eps and groups of a backward call, and its result views, None for gradients not needed."""
    args = tuple(call.args[0]) if len(call.args) == 1 else call.args
    grad, grad_mean, grad_var, *arrays, eps, needs, groups = args if len(args) == 10 else (*args, 0)
    if grad is None or grad_mean is not None or grad_var is not None or len(results) != sum(map(bool, needs)):
        raise Unsupported("the gradients")
    remaining = iter(results)
    return (grad, *arrays), eps, groups, [next(remaining) if need else None for need in needs]


def _check(views: list[View]) -> None:
    """Raise `Unsupported` unless the views are nonempty arrays of one floating-point dtype."""
    kind = views[0].dtype
    if kind.kind != "f" or any(v.dtype != kind or not v.size for v in views):
        raise Unsupported("the arrays")
    if any(len(v.shape) < 2 and not v.is_contiguous for v in views):
        raise Unsupported("the strides")


def _keep_dims(x: View, dims: Dims) -> View:
    """Return the view with dims of size 1 inserted at these positions."""
    shape, strides = iter(x.shape), iter(x.strides)
    count = range(len(x.shape) + len(dims))
    return x._replace(
        shape=tuple(1 if d in dims else next(shape) for d in count),
        strides=tuple(0 if d in dims else next(strides) for d in count),
    )


def _split(x: View, groups: int) -> View:
    """Return the view of images with the channel dim split into groups."""
    batch, channels, *points = x.shape
    first, step, *rest = x.strides
    each = channels // groups
    return x._replace(shape=(batch, groups, each, *points), strides=(first, step * each, step, *rest))
