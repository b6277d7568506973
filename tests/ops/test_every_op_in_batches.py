"""`vmap` of every operation, in every mode, against a loop over the samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.func import jvp, vjp, vmap
from tests.ops.cases import ALL, DIFFERENTIABLE, Drawn
from tests.ops.test_every_op import by_label, host

COUNT = 3


def samples(case: Drawn) -> list[list[Any]]:
    """For each array of the call, the arrays of all samples: of the same kind, and different where that is safe."""
    found = []
    for a in case.arrays():
        if a.dtype.kind in "fc":
            found.append([a * scale for scale in (1.0, 0.75, 0.5)])
        elif a.ndim and a.dtype.kind != "b":
            found.append([a, np.roll(a, 1, -1), a[..., ::-1].copy()])
        else:
            found.append([a] * COUNT)
    return found


def patterns(case: Drawn) -> list[tuple[int | None, ...]]:
    """Which inputs are batched: all, the first, the last."""
    n = len(case.arrays())
    rows = [(0,) * n, (0,) + (None,) * (n - 1), (None,) * (n - 1) + (0,)]
    return list(dict.fromkeys(rows)) if n else []


def batches(case: Drawn, dims: tuple[int | None, ...], device: str = "cpu") -> list[Any]:
    """Return the inputs of `vmap`."""
    rows = samples(case)
    return [gc.tensor(row[0] if d is None else np.stack(row), device=device) for row, d in zip(rows, dims, strict=True)]


def sample(inputs: list[Any], dims: tuple[int | None, ...], i: int) -> list[Any]:
    """Return the inputs of one sample."""
    return [t if d is None else t[i] for t, d in zip(inputs, dims, strict=True)]


def refused(case: Drawn) -> bool:
    """Whether results differ in shape between samples, or are numbers: PyTorch's `vmap` refuses these, too."""
    masks = any(a.dtype.kind == "b" for a in case.arrays())
    return case.op.data_dependent or case.op.name in ("equal", "allclose") or ("index" in case.op.name and masks)


def looped(function: Callable[..., Any], inputs: list[Any], dims: tuple[int | None, ...]) -> list[Any] | None:
    """Return the results of all samples, computed one after the other, or None if a call is refused."""
    try:
        rows = [function(*sample(inputs, dims, i)) for i in range(COUNT)]
        return [np.stack([host(r) for r in column]) for column in zip(*rows, strict=True)]
    except (RuntimeError, ValueError, IndexError, gc.linalg.LinAlgError):
        return None


def check(case: Drawn, function: Callable[..., Any], device: str = "cpu") -> None:
    if not case.arrays() or case.op.random or case.op.layout_dependent:
        pytest.skip("random, without tensors, or dependent on strides")
    for dims in patterns(case):
        inputs = batches(case, dims, device)
        # On the CPU, which takes less time: `test_every_op` compares the same calls of one sample on the device.
        expected = looped(function, batches(case, dims), dims)
        if expected is None:
            continue
        try:
            found = vmap(function, dims)(*inputs)
        except RuntimeError as error:
            if str(error).startswith("vmap:") and refused(case):
                continue
            raise
        for got, want in zip(found, expected, strict=True):
            assert got.shape == want.shape
            assert host(got).dtype == want.dtype
            np.testing.assert_allclose(host(got), want, 1e-8, 1e-10)


def floating(outs: list[Any]) -> list[Any]:
    return [o for o in outs if o.requires_grad]


def upstream(outs: list[Any]) -> list[Any]:
    """Cotangents that are the same for every sample, and different between elements."""
    angles = [gc.arange(o.numel(), dtype=gc.float64, device=o.device) for o in outs]
    return [gc.cos(a).reshape(o.shape).to(o.dtype) for a, o in zip(angles, outs, strict=True)]


@by_label(ALL)
def test_values(case: Drawn) -> None:
    check(case, lambda *ts: tuple(case.outputs(list(ts))))


@pytest.mark.sampled(8)
@by_label(ALL)
def test_values_of_operands_in_different_batches(case: Drawn) -> None:
    """``vmap(vmap)``, where the first operand is batched by the one, and the others by the other."""
    first = (0,) + (None,) * (len(case.arrays()) - 1)
    others = tuple(None if d == 0 else 0 for d in first)

    def function(*ts: Any) -> tuple[Any, ...]:
        return tuple(case.outputs(list(ts)))

    if len(first) < 2 or case.op.random or case.op.layout_dependent:
        pytest.skip("one operand, random, or dependent on strides")
    inputs = [gc.tensor(np.stack(row)) for row in samples(case)]
    for outer, inner in ((first, others), (others, first)):
        rows = [looped(function, sample(inputs, outer, i), inner) for i in range(COUNT)]
        if any(row is None for row in rows):
            continue
        try:
            found = vmap(vmap(function, inner), outer)(*inputs)
        except RuntimeError as error:
            if str(error).startswith("vmap:") and refused(case):
                continue
            raise
        for got, *want in zip(found, *rows, strict=True):
            np.testing.assert_allclose(host(got), np.stack(want), 1e-8, 1e-10)


@pytest.mark.sampled(16)
@by_label(ALL[::4])
def test_values_on_the_strict_device(case: Drawn, strict: str) -> None:
    """What CuPy's arrays demand."""
    check(case, lambda *ts: tuple(case.outputs(list(ts))), strict)


def gradients(case: Drawn) -> Callable[..., Any]:
    """Return a function that computes the gradients of a call for fixed cotangents."""
    chosen = case.differentiable()

    def run(*tensors: Any) -> Any:
        def function(*primals: Any) -> Any:
            full = list(tensors)
            for i, p in zip(chosen, primals, strict=True):
                full[i] = p
            return tuple(floating(case.outputs(full)))

        outs, pull = vjp(function, *(tensors[i] for i in chosen))
        return pull(tuple(upstream(list(outs))))

    return run


@pytest.mark.sampled(16)
@by_label(DIFFERENTIABLE)
def test_gradients_of_samples(case: Drawn) -> None:
    """``vmap(grad)``: backward runs on the batch."""
    check(case, gradients(case))


@pytest.mark.sampled(128)
@by_label(DIFFERENTIABLE)
def test_gradients_of_samples_on_the_strict_device(case: Drawn, strict: str) -> None:
    check(case, gradients(case), strict)


@pytest.mark.sampled(32)
@by_label(DIFFERENTIABLE)
def test_tangents_of_samples(case: Drawn) -> None:
    """``vmap(jvp)``."""
    chosen = case.differentiable()

    def run(*tensors: Any) -> Any:
        def function(*primals: Any) -> Any:
            full = list(tensors)
            for i, p in zip(chosen, primals, strict=True):
                full[i] = p
            return tuple(case.outputs(full))

        primals = tuple(tensors[i] for i in chosen)
        outs, tangents = jvp(function, primals, tuple(upstream(list(primals))))
        return tuple(t for o, t in zip(outs, tangents, strict=True) if o.is_floating_point() or o.is_complex())

    check(case, run)


@by_label(DIFFERENTIABLE)
def test_many_cotangents(case: Drawn) -> None:
    """``vmap(vjp_fn)``: the graph knows nothing of the batch that runs back through it."""
    chosen = case.differentiable()
    tensors = [gc.tensor(a) for a in case.arrays()]

    def function(*primals: Any) -> Any:
        full = list(tensors)
        for i, p in zip(chosen, primals, strict=True):
            full[i] = p
        return tuple(floating(case.outputs(full)))

    if not floating(case.outputs([t.requires_grad_(i in chosen) for i, t in enumerate(map(gc.tensor, case.arrays()))])):
        pytest.skip("no output that requires grad")
    outs, pull = vjp(function, *(tensors[i] for i in chosen))
    batch = tuple(gc.stack([c, 2 * c, c.cos()]) for c in upstream(list(outs)))
    found = vmap(pull)(batch)
    for i in range(COUNT):
        for got, want in zip(found, pull(tuple(c[i] for c in batch)), strict=True):
            np.testing.assert_allclose(host(got[i]), host(want), 1e-8, 1e-10)


@by_label(DIFFERENTIABLE)
def test_backward_through_the_batch(case: Drawn) -> None:
    """``grad(vmap)``: what all samples share receives the sum of their gradients."""
    if case.op.random or case.op.layout_dependent:
        pytest.skip("random, or dependent on strides")
    chosen = set(case.differentiable())
    for dims in patterns(case):
        grads = []
        for batched in (True, False):
            inputs = [t.requires_grad_(i in chosen) for i, t in enumerate(batches(case, dims))]

            def function(*ts: Any) -> Any:
                return tuple(o for o in case.outputs(list(ts)) if o.is_floating_point() or o.is_complex())

            try:
                if batched:
                    outs = list(vmap(function, dims)(*inputs))
                else:
                    rows = [function(*sample(inputs, dims, i)) for i in range(COUNT)]
                    outs = [gc.stack(list(column)) for column in zip(*rows, strict=True)]
            except (RuntimeError, ValueError, IndexError, gc.linalg.LinAlgError):
                grads = []
                break
            outs = floating(outs)
            if not outs:
                break
            wanted = [t for t in inputs if t.requires_grad]
            grads.append(gc.autograd.grad(outs, wanted, upstream(outs), materialize_grads=True))
        for got, want in zip(*grads, strict=True) if len(grads) == 2 else ():
            np.testing.assert_allclose(host(got), host(want), 1e-8, 1e-10)
