"""Line search for a step that satisfies the strong Wolfe conditions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Point", "strong_wolfe"]

#: The constants of the two conditions, and the smallest change of a parameter for which the search continues.
SUFFICIENT, CURVATURE, TOLERANCE = 1e-4, 0.9, 1e-9


class Point(NamedTuple):
    """Loss and gradient at a step along the line.

    `gradient` is the gradient of all parameters, `slope` its component along the line.
    """

    step: float
    loss: float
    gradient: Any
    slope: float


def _cubic_minimum(a: Point, b: Point, bounds: tuple[float, float] | None = None) -> float:
    """Return the minimizer of the cubic through two points with their slopes, clamped to bounds."""
    low, high = bounds or sorted((a.step, b.step))
    if a.step == b.step:
        return (low + high) / 2
    d = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.step - b.step)
    square = d * d - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    root = math.sqrt(square)
    left, right = (a, b) if a.step <= b.step else (b, a)
    rise, total = right.slope + root - d, right.slope - left.slope + 2 * root
    if not total:  # a line, which has its minimum at a bound
        return low if rise > 0 else high
    return min(max(right.step - (right.step - left.step) * rise / total, low), high)


def strong_wolfe(
    evaluate: Callable[[float], Point], start: Point, step: float, size: float, most: int
) -> tuple[Point, int]:
    """Return a step with sufficient decrease of the loss and a sufficiently small slope.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(step)`` returns the `Point` at a step.
    start : Point
        The point at step 0; its slope is negative.
    step : float
        The first step to try.
    size : float
        The largest change of any parameter by a step of 1.
    most : int
        The maximum number of evaluations after the first point.

    Returns
    -------
    Point
        The best point.
    int
        The number of evaluations.
    """
    ends, count, satisfied = _bracket(evaluate, start, step, most)
    stuck = False
    while not satisfied and count - 1 < most and abs(ends[1].step - ends[0].step) * size >= TOLERANCE:
        ends.sort(key=lambda p: p.loss)
        step, stuck = _next_step(ends, stuck)
        point = evaluate(step)
        count += 1
        best, other = ends
        if point.loss > start.loss + SUFFICIENT * step * start.slope or point.loss >= best.loss:
            ends = [best, point]
            continue
        satisfied = abs(point.slope) <= -CURVATURE * start.slope
        ends = [point, best if point.slope * (other.step - best.step) >= 0 else other]
    return min(ends, key=lambda p: p.loss), count


def _bracket(evaluate: Callable[[float], Point], start: Point, step: float, most: int) -> tuple[list[Point], int, bool]:
    """Return the points that bracket a step, the number of evaluations, and whether a point satisfies the conditions.

    The list has two points, or a single point that satisfies the conditions.
    """
    before, point, count = start, evaluate(step), 1
    while count - 1 < most:
        has_decreased = point.loss <= start.loss + SUFFICIENT * point.step * start.slope
        if not has_decreased or (count > 2 and point.loss >= before.loss):
            return [before, point], count, False
        if abs(point.slope) <= -CURVATURE * start.slope:
            return [point], count, True
        if point.slope >= 0:
            return [before, point], count, False
        bounds = point.step + 0.01 * (point.step - before.step), point.step * 10
        before, point = point, evaluate(_cubic_minimum(before, point, bounds))
        count += 1
    return [start, point], count, False


def _next_step(ends: list[Point], stuck: bool) -> tuple[float, bool]:
    """Return the cubic's minimizer, moved away from the ends if it was near them twice, and whether it is near them."""
    step = _cubic_minimum(ends[0], ends[1])
    low, high = sorted(p.step for p in ends)
    margin = 0.1 * (high - low)
    if min(high - step, step - low) >= margin:
        return step, False
    if stuck or not low < step < high:
        return (high - margin if high - step < step - low else low + margin), False
    return step, True


# -- PyTorch's private functions of these names, which packages import from `optim.lbfgs` -----------------------------


def _cubic_interpolate(
    x1: float, f1: float, g1: float, x2: float, f2: float, g2: float, bounds: tuple[float, float] | None = None
) -> float:
    return _cubic_minimum(Point(x1, f1, None, g1), Point(x2, f2, None, g2), bounds)


def _strong_wolfe(
    obj_func: Callable[[Any, float, Any], tuple[float, Any]],
    x: Any,
    t: float,
    d: Any,
    f: float,
    g: Any,
    gtd: Any,
    c1: float = SUFFICIENT,
    c2: float = CURVATURE,
    tolerance_change: float = TOLERANCE,
    max_ls: int = 25,
) -> tuple[float, Any, float, int]:
    """Return loss, gradient and length of a step from `x` along `d`, and the number of evaluations."""
    if (c1, c2, tolerance_change) != (SUFFICIENT, CURVATURE, TOLERANCE):
        raise NotImplementedError("_strong_wolfe with other constants than c1=1e-4, c2=0.9, tolerance_change=1e-9")

    def evaluate(step: float) -> Point:
        loss, gradient = obj_func(x, step, d)
        return Point(float(step), float(loss), gradient.clone(), float(gradient.dot(d)))

    start = Point(0.0, float(f), g.clone(), float(gtd))
    point, count = strong_wolfe(evaluate, start, float(t), float(d.abs().max()), max_ls)
    return point.loss, point.gradient, point.step, count
