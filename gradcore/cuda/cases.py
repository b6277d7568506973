"""Example calls of every operation, drawn from the declarations. The device check and the tests use them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gradcore.ops.declare.samples import Bools, Case, Floats, Ints, Values, complexes, floats, ints
from gradcore.ops.declare.table import Op
from gradcore.tensor import Tensor

__all__ = ["ELEMENTWISE_SHAPES", "Case", "Constant", "Drawn", "Symmetric", "cases"]

ELEMENTWISE_SHAPES: dict[int, list[tuple[tuple[int, ...], ...]]] = {
    1: [((3, 4),), ((),), ((0, 2),)],
    2: [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((), (2,)), ((2, 0), (2, 1))],
    3: [((3, 4), (3, 4), (3, 4)), ((3, 4), (4,), ()), ((3, 1), (1, 4), (3, 4))],
}


class Constant(np.ndarray[Any, Any]):
    """An array that is not differentiated."""


class Symmetric(np.ndarray[Any, Any]):
    """A symmetric matrix that stays symmetric when it is perturbed.

    Operations read one triangle, but gradients fill both.
    """


class Drawn(NamedTuple):
    """A call of an operation, whose tensor arguments are given as NumPy arrays."""

    op: Op
    label: str
    args: tuple[Any, ...]
    settings: dict[str, Any]

    def arrays(self) -> list[np.ndarray[Any, Any]]:
        """Return all arrays of the arguments, in order."""
        return [a for a in _leaves((self.args, *self.settings.values())) if isinstance(a, np.ndarray)]

    def differentiable(self) -> list[int]:
        """Return the positions, among `arrays`, of the arrays that can have gradients."""
        return [i for i, a in enumerate(self.arrays()) if a.dtype.kind in "fc" and not isinstance(a, Constant)]

    def call(self, tensors: list[Any]) -> Any:
        """Call the operation with `tensors` in place of the arrays."""
        queue = list(tensors)
        args = _fill_in(self.args, queue)
        return self.op.call(*args, **{name: _fill_in(value, queue) for name, value in self.settings.items()})

    def outputs(self, tensors: list[Any]) -> list[Any]:
        """Call the operation with `tensors`, and return the tensors among the results."""
        out = self.call(tensors)
        return [t for t in _leaves(out if isinstance(out, (tuple, list)) else (out,)) if isinstance(t, Tensor)]


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for v in value:
            yield from _leaves(v)
    else:
        yield value


def _fill_in(value: Any, queue: list[Any]) -> Any:
    """Return `value` with its arrays replaced by the tensors that are removed from `queue`, in order."""
    if isinstance(value, (tuple, list)):
        return type(value)(_fill_in(v, queue) for v in value)
    if isinstance(value, Symmetric):
        matrix = queue.pop(0)
        return (matrix + matrix.transpose(-1, -2)) / 2
    return queue.pop(0) if isinstance(value, np.ndarray) else value


def _draw(spec: Any, op: Op, rng: np.random.Generator) -> Any:
    if isinstance(spec, Floats):
        low, high = op.domain
        low = low if spec.low is None else spec.low
        high = high if spec.high is None else spec.high
        values = rng.uniform(low, high, spec.shape)
        if spec.form == "spd":
            values = values @ values.swapaxes(-1, -2) + spec.shape[-1] * np.eye(spec.shape[-1])
            return values.view(Symmetric)
        if spec.form == "symmetric":
            return (values + values.swapaxes(-1, -2)).view(Symmetric)
        if spec.form == "well-conditioned":
            values = values + 2 * spec.shape[-1] * np.eye(spec.shape[-2], spec.shape[-1])
        elif spec.form == "complex":
            values = values + 1j * rng.uniform(low, high, spec.shape)
        elif spec.form == "zeros":
            values = np.where(rng.random(spec.shape) < 0.4, 0, values)
        elif spec.form == "sorted":
            values = np.sort(values, axis=-1)
        elif spec.form == "constant":
            return values.view(Constant)
        elif spec.form == "distinct":
            n = values.size
            values = (low + (high - low) * (rng.permutation(n) + 0.5) / max(n, 1)).reshape(spec.shape)
        elif spec.form:
            raise ValueError(f"unknown form {spec.form!r}")
        return np.asarray(values)
    if isinstance(spec, Values):
        return np.array(spec.values, spec.dtype)
    if isinstance(spec, Ints):
        return np.asarray(rng.integers(spec.low, spec.high, spec.shape))
    if isinstance(spec, Bools):
        return np.asarray(rng.integers(0, 2, spec.shape).astype(bool))
    if isinstance(spec, (list, tuple)):
        return type(spec)(_draw(s, op, rng) for s in spec)
    return np.asarray(spec) if isinstance(spec, np.ndarray) else spec


def _specs(op: Op) -> list[Case]:
    if op.samples is not None:
        return list(op.samples())
    setting_parameters = [p for i, p in enumerate(op.parameters) if i not in op.tensors]
    if (
        op.kind in ("elementwise", "constant")
        and 1 <= len(op.tensors) <= 3
        and all(p.default is not p.empty for p in setting_parameters)
    ):
        shapes = ELEMENTWISE_SHAPES[len(op.tensors)]
        if "-float" in op.promotion:
            return [Case(tuple(ints(*shape) for shape in row), {}) for row in shapes]
        rows = [Case(tuple(floats(*shape) for shape in row), {}) for row in shapes]
        if op.kind == "elementwise" and not {"-complex", "same_dtype", "complex"} & set(op.promotion.split()):
            rows += [Case(tuple(complexes(*shape) for shape in row), {}) for row in shapes[:2]]
            if len(op.tensors) == 2:  # a real and a complex number
                rows += [Case((floats(3), complexes(3)), {}), Case((complexes(3), floats(3)), {})]
        return rows
    return []


def cases(op: Op) -> list[Drawn]:
    """Return the example calls of an operation, with the same numbers in every run."""
    rng = np.random.default_rng(zlib.crc32(op.name.encode()))
    drawn = []
    for i, (args, settings) in enumerate(_specs(op)):
        args, settings = tuple(_draw(a, op, rng) for a in args), {n: _draw(v, op, rng) for n, v in settings.items()}
        drawn.append(Drawn(op, f"{op.name}-{i}", args, settings))
    return drawn
