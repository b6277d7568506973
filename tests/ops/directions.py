"""Derivatives along random directions against central differences: for real and complex inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gradcore as gc

STEP = 1e-6


def random(rng: np.random.Generator, shape: Sequence[int], dtype: Any) -> Any:
    """Draw normally distributed numbers, real or complex."""
    values = rng.standard_normal(shape)
    return values + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else values


def inner(a: Any, b: Any) -> float:
    """Return the real inner product."""
    return float(np.sum(np.conj(a) * b).real)


def _outputs(out: Any) -> list[gc.Tensor]:
    return [t for t in (out if isinstance(out, tuple) else (out,)) if t.dtype.is_floating_point or t.is_complex()]


def check_derivatives(
    function: Callable[..., Any], *arrays: Any, second: bool = True, rtol: float = 1e-5, atol: float = 1e-6
) -> None:
    """Compare reverse mode, forward mode and, if `second`, the derivative of reverse mode with differences.

    Parameters
    ----------
    function : callable
        Of as many tensors as there are arrays; what it returns must not depend on what a factorisation leaves open.
    """
    rng = np.random.default_rng(7)
    directions = [random(rng, a.shape, a.dtype) for a in arrays]
    weights: list[Any] = []

    def outputs(inputs: Sequence[gc.Tensor]) -> list[gc.Tensor]:
        outs = _outputs(function(*inputs))
        if not weights:
            weights.extend(random(rng, tuple(o.shape), o.detach().numpy().dtype) for o in outs)
        return outs

    def value(step: float) -> float:
        outs = outputs([gc.tensor(a + step * d) for a, d in zip(arrays, directions, strict=True)])
        return sum(inner(w, o.numpy()) for w, o in zip(weights, outs, strict=True))

    def gradients(step: float, create_graph: bool = False) -> tuple[list[gc.Tensor], list[Any]]:
        inputs = [gc.tensor(a + step * d, requires_grad=True) for a, d in zip(arrays, directions, strict=True)]
        outs = outputs(inputs)
        grads = gc.autograd.grad(outs, inputs, [gc.tensor(w) for w in weights], create_graph=create_graph)
        return inputs, list(grads)

    expected = (value(STEP) - value(-STEP)) / (2 * STEP)
    inputs, grads = gradients(0, create_graph=True)
    found = sum(inner(g.detach().numpy(), d) for g, d in zip(grads, directions, strict=True))
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
    _, tangents = gc.func.jvp(
        lambda *x: tuple(_outputs(function(*x))), tuple(map(gc.tensor, arrays)), tuple(map(gc.tensor, directions))
    )
    forward = sum(inner(w, t.numpy()) for w, t in zip(weights, tangents, strict=True))
    np.testing.assert_allclose(forward, found, rtol=1e-8, atol=1e-8)
    if not second:
        return
    probes = [random(rng, a.shape, a.dtype) for a in arrays]
    varying = [(g, gc.tensor(p)) for g, p in zip(grads, probes, strict=True) if g.requires_grad]
    found = 0.0
    if varying:  # the derivative of a linear function does not vary
        seconds = gc.autograd.grad([g for g, _ in varying], inputs, [p for _, p in varying], allow_unused=True)
        found = sum(inner(s.numpy(), d) for s, d in zip(seconds, directions, strict=True) if s is not None)
    sides = [
        sum(inner(g.detach().numpy(), p) for g, p in zip(gradients(step)[1], probes, strict=True))
        for step in (STEP, -STEP)
    ]
    np.testing.assert_allclose(found, (sides[0] - sides[1]) / (2 * STEP), rtol=10 * rtol, atol=10 * atol)
