"""Sparse linear maps along one dim, applied tap by tap, which pooling and interpolation have in common.

Each output combines a few inputs. The `t`-th inputs of all outputs form one tap. A tap is read at once: by a slice if
its inputs are evenly spaced, as for windows with a stride, and otherwise by an array of indices.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends.portable.sliding import overlap
from gradcore.backends.random.recording import present
from gradcore.core.typing import NUMPY, NamedTuple

if TYPE_CHECKING:
    from gradcore.core.arrays import Array, Namespace

__all__ = ["Step", "Taps", "along", "fold", "on_device", "select", "spread"]

Index = slice | np.ndarray


class Step(NamedTuple):
    """A tap of some outputs: inputs, outputs, weights. If `first`, none of these outputs had a tap before."""

    tap: int
    first: bool
    outputs: Index
    inputs: Index
    weights: np.ndarray | None = None


class Taps:
    """A sparse map from `inputs` to `outputs` elements along one dim, as a sequence of steps."""

    def __init__(self, inputs: int, outputs: int, steps: list[Step]) -> None:
        self.inputs, self.outputs, self.steps = inputs, outputs, steps
        covered_count = sum(_length(step.outputs) for step in steps if step.first)
        #: Every output has a tap.
        self.complete = covered_count == outputs
        #: Number of steps at the beginning that cover all outputs.
        covers_all = (isinstance(step.outputs, slice) and step.outputs == slice(0, outputs, 1) for step in steps)
        self.whole = len(list(takewhile(bool, covers_all)))

    @classmethod
    def of_windows(cls, size: int, kernel: int, stride: int, padding: int, dilation: int, outputs: int) -> Taps:
        """Return the map of windows that move by `stride`. Taps in the padding do not count."""
        steps = []
        begun = outputs  # The outputs from here on have a tap already.
        for tap in range(kernel):
            inside, elements = overlap(tap * dilation - padding, stride, size, outputs)
            # The number of outputs, the first ones of the tap, that had no tap before.
            new = max(0, min(begun, inside.stop) - inside.start)
            for first, part in ((True, slice(new)), (False, slice(new, None))):
                output_range, input_range = range(outputs)[inside][part], range(size)[elements][part]
                if output_range:
                    steps.append(Step(tap, first, _slice(output_range), _slice(input_range)))
            if inside.start < inside.stop:
                begun = min(begun, inside.start)
        return cls(size, outputs, steps)

    @classmethod
    def of_table(cls, size: int, indices: np.ndarray, weights: np.ndarray | None = None) -> Taps:
        """Return the map in which output ``i`` has the inputs `indices[i]` (negative: none), times `weights[i]`."""
        steps = []
        present = indices >= 0
        begun = np.zeros(len(indices), dtype=bool)
        for tap in range(indices.shape[1]):
            for first in (True, False):
                (outputs,) = (present[:, tap] & (begun != first)).nonzero()
                if outputs.size:
                    chosen = None if weights is None else weights[outputs, tap]
                    steps.append(Step(tap, first, _index(outputs), _index(indices[outputs, tap]), chosen))
            begun |= present[:, tap]
        return cls(size, len(indices), steps)

    @cached_property
    def total(self) -> bool:
        """Whether there is one output, to which all inputs contribute unweighted."""
        if self.outputs != 1 or len(self.steps) != self.inputs:
            return False
        return all(step.inputs == slice(i, i + 1, 1) and step.weights is None for i, step in enumerate(self.steps))

    @cached_property
    def is_sliced(self) -> bool:
        """Whether the inputs and outputs of all steps are slices."""
        return all(isinstance(step.inputs, slice) and isinstance(step.outputs, slice) for step in self.steps)

    @cached_property
    def adjoint(self) -> Taps:
        """The transposed map, in which every input gathers from the outputs that it contributed to."""
        numbers = [np.arange(size) for size in (self.inputs, self.outputs)]
        sources = np.concatenate([numbers[0][step.inputs] for step in self.steps] or [numbers[0][:0]])
        targets = np.concatenate([numbers[1][step.outputs] for step in self.steps] or [numbers[1][:0]])
        order = np.lexsort((targets, sources))
        sources, targets = sources[order], targets[order]
        counts = np.bincount(sources, minlength=self.inputs)
        tap = np.arange(len(sources)) - np.repeat(counts.cumsum() - counts, counts)
        indices = np.full((self.inputs, counts.max(initial=0)), -1)
        indices[sources, tap] = targets
        if all(step.weights is None for step in self.steps):
            return Taps.of_table(self.outputs, indices)
        flat = np.concatenate([step.weights for step in self.steps if step.weights is not None])
        weights = np.zeros(indices.shape, dtype=flat.dtype)
        weights[sources, tap] = flat[order]
        return Taps.of_table(self.outputs, indices, weights)


def fold(xp: Namespace, combine: Any, x: Array, dim: int, taps: Taps, empty: Any = 0) -> Array:
    """Combine (by `xp.add` or `xp.maximum`) the weighted taps of every output along `dim`.

    An output that has no tap is `empty`.
    """
    steps = iter(taps.steps)
    if taps.whole > 1:
        result: Array = combine(_part(xp, x, dim, next(steps)), _part(xp, x, dim, next(steps)))
    else:
        shape = (*x.shape[:dim], taps.outputs, *x.shape[dim + 1 :])
        result = xp.empty(shape, dtype=x.dtype) if taps.complete else xp.full(shape, empty, dtype=x.dtype)
    for step in steps:
        target, part = along(xp, dim, step.outputs), _part(xp, x, dim, step)
        if step.first:
            result[target] = part
        elif isinstance(step.outputs, slice):
            view = result[target]
            combine(view, part, out=view)
        else:
            result[target] = combine(part, select(xp, result, dim, step.outputs))
    return result


def spread(xp: Namespace, x: Array, dim: int, taps: Taps) -> Array:
    """Apply the adjoint of `fold` with `xp.add`."""
    if taps.total:
        return xp.repeat(x, taps.inputs, axis=dim)
    if not taps.is_sliced:
        return fold(xp, xp.add, x, dim, taps.adjoint)
    result = xp.zeros((*x.shape[:dim], taps.inputs, *x.shape[dim + 1 :]), dtype=x.dtype)
    for step in taps.steps:
        view = result[along(xp, dim, step.inputs)]
        xp.add(view, _apply_weights(xp, x[along(xp, dim, step.outputs)], dim, step), out=view)
    return result


def on_device(xp: Any, table: np.ndarray, dtype: Any = None) -> Any:
    """Return a small table as an array of the library. A device caches it, as a transfer costs more than a kernel."""
    if xp is NUMPY or not hasattr(xp, "cuda"):
        return xp.asarray(table, dtype)
    table = np.asarray(table, dtype)
    result = _upload(xp, xp.cuda.runtime.getDevice(), table.dtype, table.shape, table.tobytes())
    recording = present()
    if recording is not None:
        recording.keep(result)
    return result


@lru_cache(maxsize=512)
def _upload(xp: Namespace, device: int, dtype: Any, shape: tuple[int, ...], data: bytes) -> Array:
    return xp.asarray(np.frombuffer(data, dtype).reshape(shape))


def along(xp: Any, dim: int, index: Index) -> tuple[Any, ...]:
    """Return the key that applies `index` to one dim."""
    return (*[slice(None)] * dim, index if isinstance(index, slice) else on_device(xp, index))


def select(xp: Namespace, x: Array, dim: int, index: Index) -> Array:
    """Return the elements of `x` at `index` along `dim`, as a view if `index` is a slice."""
    if not isinstance(index, slice):
        return xp.take(x, on_device(xp, index), axis=dim)
    view = x[along(xp, dim, index)]
    # NumPy copies strided elements faster than it computes with them.
    return view.copy() if xp is NUMPY and dim == x.ndim - 1 and index.step > 1 else view


def _part(xp: Namespace, x: Array, dim: int, step: Step) -> Array:
    return _apply_weights(xp, select(xp, x, dim, step.inputs), dim, step)


def _apply_weights(xp: Namespace, part: Array, dim: int, step: Step) -> Array:
    if step.weights is None:
        return part
    weights: Array = on_device(xp, step.weights, part.dtype).reshape(-1, *[1] * (part.ndim - dim - 1))
    if isinstance(step.inputs, slice):
        return part * weights
    product: Array = xp.multiply(part, weights, out=part)
    return product


def _length(index: Index) -> int:
    return len(range(index.start, index.stop, index.step)) if isinstance(index, slice) else len(index)


def _slice(numbers: range) -> slice:
    return slice(numbers[0], numbers[-1] + 1, numbers.step if len(numbers) > 1 else 1)


def _index(numbers: np.ndarray) -> Index:
    """Return indices as a slice if they rise in even steps, else as an array."""
    step = int(numbers[1] - numbers[0]) if len(numbers) > 1 else 1
    if step > 0 and (numbers[1:] - numbers[:-1] == step).all():
        return slice(int(numbers[0]), int(numbers[-1]) + 1, step)
    return numbers
