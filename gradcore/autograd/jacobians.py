"""Jacobians as NumPy matrices, by finite differences, in reverse and in forward mode, for `gradcheck` to compare.

A complex tensor is treated as twice as many real numbers, real and imaginary parts alternating, so that every Jacobian
is real. Its rows correspond to the numbers of an input, its columns to those of an output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gradcore import functional
from gradcore.autograd.forward import ForwardLevel, tangent_of
from gradcore.autograd.forward_ad import make_dual
from gradcore.autograd.gradients import grad
from gradcore.autograd.variables import Variable, wrap
from gradcore.autograd.views import requires_grad
from gradcore.core.typing import AnyTensor

__all__ = [
    "as_tuple",
    "directional",
    "forward_jacobian",
    "numbers_of",
    "numerical_jacobian",
    "reverse_jacobian",
    "tensor_of",
    "unit",
]

Matrix = np.ndarray[Any, Any]


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Return a function's arguments or results as a tuple."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def numbers_of(t: AnyTensor) -> Matrix:
    """Return the elements of a tensor as a vector of real numbers."""
    flat = np.ascontiguousarray(t.host()).reshape(-1)
    return flat.view(flat.real.dtype).astype(np.float64) if flat.dtype.kind == "c" else flat.astype(np.float64)


def count_of(t: AnyTensor) -> int:
    """Return the number of real numbers in a tensor: two for a complex element."""
    return int(t._array.size) * (2 if t._dtype.is_complex else 1)


def tensor_of(numbers: Matrix, like: AnyTensor) -> Any:
    """Return the real numbers `numbers` as a tensor with the shape, dtype and device of `like`."""
    flat = numbers.view(np.complex128) if like._dtype.is_complex else numbers
    device = like._device
    with device.backend.use_index(device.index):
        return wrap(
            device.backend.from_host(flat.reshape(like._array.shape).astype(like._dtype.numpy)), device, like._dtype
        )


def unit(like: AnyTensor, i: int) -> Any:
    """Return a tensor like `like` that is one at flat position `i`, and zero elsewhere."""
    device = like._device
    with device.backend.use_index(device.index):
        flat = device.backend.xp.zeros(like._array.size, like._array.dtype)
        flat[i] = 1
    return wrap(flat.reshape(like._array.shape), device, like._dtype)


def _direction(like: AnyTensor, i: int) -> Any:
    numbers = np.zeros(count_of(like))
    numbers[i] = 1
    return tensor_of(numbers, like)


@contextmanager
def _perturb(t: AnyTensor, step: Any) -> Iterator[None]:
    """Add `step` (a tensor) to the data of `t` inside of the block, without recording it."""
    before = t._array.copy()
    t._array[...] = before + step._array
    try:
        yield
    finally:
        t._array[...] = before


def directional(
    func: Callable[..., Any], inputs: Sequence[Any], k: int, direction: Any, eps: float, chosen: Sequence[int]
) -> list[Matrix]:
    """Return central differences of the outputs `chosen`, when input `k` moves in a direction.

    Raises
    ------
    RuntimeError
        If an output changes its shape or dtype.
    """
    step = direction * eps
    samples: list[list[Any]] = []
    for sign in (1, -1):
        with _perturb(inputs[k], step if sign > 0 else -step):
            outs = as_tuple(func(*inputs))
            samples.append([(numbers_of(outs[j]), outs[j].shape, outs[j].dtype) for j in chosen])
    result = []
    for (up, *kind), (down, *other_kind) in zip(*samples, strict=True):
        if kind != other_kind:
            raise RuntimeError(
                "Expected `func` to return outputs with the same shape and dtype when inputs are perturbed by "
                f"{eps}, but got: {kind[0]} {kind[1]!r} and {other_kind[0]} {other_kind[1]!r}"
            )
        result.append((up - down) / (2 * eps))
    return result


def numerical_jacobian(
    func: Callable[..., Any], inputs: Sequence[Any], k: int, eps: float, chosen: Sequence[int]
) -> list[Matrix]:
    """Return the Jacobian of each output in `chosen` with respect to input `k`, by central differences."""
    rows = [directional(func, inputs, k, _direction(inputs[k], i), eps, chosen) for i in range(count_of(inputs[k]))]
    return _group_by_output(rows, chosen)


def reverse_jacobian(output: Any, inputs: Sequence[Any]) -> tuple[list[Matrix], list[Any]]:
    """Return the Jacobian of `output` by each of `inputs` in reverse mode, and the gradients of its last row."""
    columns: list[list[Matrix]] = [[] for _ in inputs]
    gradients: Sequence[Any] = [None] * len(inputs)
    for i in range(count_of(output)):
        gradients = grad(output, inputs, _direction(output, i), retain_graph=True, allow_unused=True)
        for column, g, t in zip(columns, gradients, inputs, strict=True):
            column.append(np.zeros(count_of(t)) if g is None else numbers_of(_like(g, t)))
    return [np.array(c).reshape(len(c), count_of(t)).T for c, t in zip(columns, inputs, strict=True)], list(gradients)


def _like(gradient: Any, t: AnyTensor) -> Any:
    """Return `gradient` converted to the dtype of `t` if only one of them is complex."""
    return functional.to(gradient, t._dtype) if gradient._dtype.is_complex != t._dtype.is_complex else gradient


def forward_jacobian(func: Callable[..., Any], inputs: Sequence[Any], k: int, chosen: Sequence[int]) -> list[Matrix]:
    """Return the Jacobian of each output in `chosen` with respect to input `k`, in forward mode."""
    rows = [push_forward(func, inputs, {k: _direction(inputs[k], i)}, chosen) for i in range(count_of(inputs[k]))]
    return _group_by_output(rows, chosen)


def push_forward(
    func: Callable[..., Any], inputs: Sequence[Any], tangents: dict[int, Any], chosen: Sequence[int]
) -> list[Matrix]:
    """Return the tangents of the outputs at the positions `chosen`, given the tangents of some inputs."""
    with ForwardLevel() as level:
        detached = [functional.detach(t) if isinstance(t, Variable) and requires_grad(t) else t for t in inputs]
        duals = [make_dual(t, tangents[i]) if i in tangents else t for i, t in enumerate(detached)]
        outs = as_tuple(func(*duals))
        pairs = [(outs[j], tangent_of(outs[j], level)) for j in chosen]
        return [np.zeros(count_of(out)) if t is None else numbers_of(t) for out, t in pairs]


def _group_by_output(rows: list[list[Matrix]], chosen: Sequence[int]) -> list[Matrix]:
    return [np.array([row[j] for row in rows]) if rows else np.zeros((0, 0)) for j in range(len(chosen))]
