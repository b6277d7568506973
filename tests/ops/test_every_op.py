"""What must hold for every operation, checked on calls drawn from the declarations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.ops.declare.table import OPS
from tests.ops.cases import ALL, DIFFERENTIABLE, Drawn, cases

STEP = 1e-6


def by_label(drawn: list[Drawn]) -> Any:
    return pytest.mark.parametrize("case", [pytest.param(c, id=c.label) for c in drawn])


def tensors(case: Drawn, device: str = "cpu", grad: bool = True) -> list[gc.Tensor]:
    chosen = set(case.differentiable()) if grad else set()
    return [gc.tensor(a, device=device, requires_grad=i in chosen) for i, a in enumerate(case.arrays())]


def floating(outs: list[gc.Tensor]) -> list[gc.Tensor]:
    return [o for o in outs if o.requires_grad]


def cotangents(outs: list[gc.Tensor], seed: int = 1) -> list[gc.Tensor]:
    rng = np.random.default_rng(seed)
    made = []
    for out in outs:
        values = rng.standard_normal(tuple(out.shape))
        if out.is_complex():
            values = values + 1j * rng.standard_normal(tuple(out.shape))
        made.append(gc.tensor(values, dtype=out.dtype, device=out.device))
    return made


def inner(a: Any, b: Any) -> float:
    return float(np.sum(np.conj(a) * b).real)


def host(t: gc.Tensor) -> Any:
    return np.array(t.detach().cpu().numpy())


def gradients(case: Drawn, create_graph: bool = False, device: str = "cpu") -> tuple[list[Any], list[Any]]:
    """Return the inputs that require grad, and their gradients for fixed cotangents."""
    ins = tensors(case, device)
    outs = floating(case.outputs(ins))
    if not outs:
        pytest.skip("no output that requires grad")
    wanted = [t for t in ins if t.requires_grad]
    grads = gc.autograd.grad(outs, wanted, cotangents(outs), create_graph=create_graph, materialize_grads=True)
    return wanted, list(grads)


def test_every_op_has_calls() -> None:
    """An operation that users can call is tested."""
    missing = [op.name for op in OPS.values() if (op.function or op.method) and not cases(op)]
    assert not missing, f"operations without samples: {missing}"


@by_label(ALL)
def test_inputs_stay_as_they_are(case: Drawn) -> None:
    ins = tensors(case)
    outs = case.outputs(ins)
    tracked = floating(outs)
    if tracked:
        gc.autograd.backward(tracked, cotangents(tracked))
    for t, a in zip(ins, case.arrays(), strict=True):
        np.testing.assert_array_equal(t.detach().numpy(), a)


@by_label(ALL)
def test_strided_inputs_give_the_same(case: Drawn) -> None:
    if case.op.random or case.op.layout_dependent:
        pytest.skip("random, or what it does depends on strides")
    plain = case.outputs(tensors(case, grad=False))
    strided = []
    for a in case.arrays():
        wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype) if a.ndim else np.zeros((2,), a.dtype)
        view = wide[..., ::2] if a.ndim else wide[1:].reshape(())
        view[...] = a
        strided.append(gc.from_numpy(view.swapaxes(0, -1).copy().swapaxes(0, -1) if a.ndim > 1 else view))
    for p, s in zip(plain, case.outputs(strided), strict=True):
        np.testing.assert_allclose(host(s), host(p), rtol=1e-10, atol=1e-12)


@by_label(DIFFERENTIABLE)
def test_modes_are_adjoint(case: Drawn) -> None:
    """<g, J v> equals <J' g, v>."""
    ins = tensors(case)
    outs = floating(case.outputs(ins))
    if not outs:
        pytest.skip("no output that requires grad")
    position = [i for i, o in enumerate(case.outputs(tensors(case))) if o.requires_grad]
    chosen = case.differentiable()
    directions = cotangents([ins[i] for i in chosen], 2)
    upstream = cotangents(outs)
    grads = gc.autograd.grad(outs, [ins[i] for i in chosen], upstream, materialize_grads=True)

    def run(*primals: gc.Tensor) -> tuple[gc.Tensor, ...]:
        full = tensors(case, grad=False)
        for i, p in zip(chosen, primals, strict=True):
            full[i] = p
        found = case.outputs(full)
        return tuple(found[i] for i in position)

    primals = tuple(gc.tensor(case.arrays()[i]) for i in chosen)
    _, moved = gc.func.jvp(run, primals, tuple(directions))
    forward = sum(inner(host(g), host(t)) for g, t in zip(upstream, moved, strict=True))
    reverse = sum(inner(host(g), host(v)) for g, v in zip(grads, directions, strict=True))
    np.testing.assert_allclose(forward, reverse, rtol=1e-8, atol=1e-9)


@by_label(DIFFERENTIABLE)
def test_raw_equals_recorded(case: Drawn) -> None:
    """The same formula on arrays and on tensors."""
    _, raw = gradients(case)
    _, recorded = gradients(case, create_graph=True)
    for r, t in zip(raw, recorded, strict=True):
        assert (r.dtype, r.shape) == (t.dtype, t.shape)
        np.testing.assert_allclose(host(r), host(t), rtol=1e-12, atol=1e-13)


@by_label(DIFFERENTIABLE)
def test_finite_differences(case: Drawn) -> None:
    """The derivative along a random direction, against central differences."""
    ins, grads = gradients(case)
    directions = [host(v) for v in cotangents(ins, 3)]
    analytic = sum(inner(host(g), v) for g, v in zip(grads, directions, strict=True))
    numeric = _difference(case, directions)
    np.testing.assert_allclose(analytic, numeric, rtol=2e-5, atol=2e-6)


def _difference(case: Drawn, directions: list[Any]) -> float:
    values = []
    for sign in (1, -1):
        ins = tensors(case)
        moved, k = [], 0
        for t in ins:
            if t.requires_grad:
                moved.append((t.detach() + gc.tensor(sign * STEP * directions[k], dtype=t.dtype)).requires_grad_())
                k += 1
            else:
                moved.append(t)
        outs = floating(case.outputs(moved))
        values.append(sum(inner(host(g), host(o)) for g, o in zip(cotangents(outs), outs, strict=True)))
    return (values[0] - values[1]) / (2 * STEP)


@by_label(DIFFERENTIABLE)
def test_second_order(case: Drawn) -> None:
    """The derivative of the gradient along a random direction, against central differences of gradients."""
    ins, grads = gradients(case, create_graph=True)
    directions = [host(v) for v in cotangents(ins, 4)]
    terms = [(g, v) for g, v in zip(grads, directions, strict=True) if g.requires_grad]
    seconds: list[Any] = [np.zeros(tuple(t.shape)) for t in ins]
    if terms:
        found = gc.autograd.grad(
            [g for g, _ in terms], ins, [gc.tensor(v, dtype=g.dtype) for g, v in terms], materialize_grads=True
        )
        seconds = [host(g) for g in found]
    probe = [host(v) for v in cotangents(ins, 5)]
    analytic = sum(inner(s, p) for s, p in zip(seconds, probe, strict=True))
    sides = []
    for sign in (1, -1):
        arrays = list(case.arrays())
        for i, p in zip(case.differentiable(), probe, strict=True):
            arrays[i] = np.asanyarray(arrays[i] + sign * STEP * p)
        moved = case._replace(args=_replaced(case.args, arrays))
        _, shifted = gradients(moved)
        sides.append(sum(inner(host(g), v) for g, v in zip(shifted, directions, strict=True)))
    np.testing.assert_allclose(analytic, (sides[0] - sides[1]) / (2 * STEP), rtol=1e-4, atol=1e-5)


def _replaced(args: Any, arrays: list[Any]) -> Any:
    queue = list(arrays)

    def walk(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(walk(v) for v in value)
        return queue.pop(0) if isinstance(value, np.ndarray) else value

    return walk(args)


@by_label(DIFFERENTIABLE)
def test_broadcast_upstream(case: Drawn) -> None:
    """An upstream gradient without memory of its own (stride 0) gives what its copy gives."""
    ins = tensors(case)
    outs = floating(case.outputs(ins))
    if not outs:
        pytest.skip("no output that requires grad")
    wanted = [t for t in ins if t.requires_grad]
    flat = [gc.ones((), dtype=o.dtype).expand(o.shape) for o in outs]
    spread = gc.autograd.grad(outs, wanted, flat, retain_graph=True, materialize_grads=True)
    dense = gc.autograd.grad(outs, wanted, [f.clone() for f in flat], materialize_grads=True)
    for s, d in zip(spread, dense, strict=True):
        np.testing.assert_allclose(host(s), host(d), rtol=1e-10, atol=1e-12)


@pytest.mark.sampled(16)
@by_label(ALL)
def test_strict_device(case: Drawn, strict: str) -> None:
    """Values and gradients on a device that allows nothing that CuPy does not."""
    if case.op.random:
        pytest.skip("random")
    here, there = tensors(case), tensors(case, strict)
    outs, outs_there = case.outputs(here), case.outputs(there)
    for a, b in zip(outs, outs_there, strict=True):
        assert (b.dtype, b.shape, b.device) == (a.dtype, a.shape, strict)
        np.testing.assert_allclose(host(b), host(a), rtol=1e-9, atol=1e-11)
    if floating(outs):
        wanted, wanted_there = ([t for t in ts if t.requires_grad] for ts in (here, there))
        up = cotangents(floating(outs))
        grads = gc.autograd.grad(floating(outs), wanted, up, materialize_grads=True)
        grads_there = gc.autograd.grad(
            floating(outs_there), wanted_there, [u.to(strict) for u in up], materialize_grads=True
        )
        for a, b in zip(grads, grads_there, strict=True):
            assert b.device == strict
            np.testing.assert_allclose(host(b), host(a), rtol=1e-9, atol=1e-11)


@by_label(ALL)
def test_meta_device(case: Drawn) -> None:
    """Shapes and dtypes without data, of results and of gradients; the strides of views."""
    if case.op.data_dependent:
        pytest.skip("the result's shape depends on the data")
    real, ins = case.outputs(tensors(case)), tensors(case, "meta")
    traced = case.outputs(ins)
    assert [(t.shape, t.dtype, t.requires_grad) for t in traced] == [(t.shape, t.dtype, t.requires_grad) for t in real]
    if case.op.view:
        assert [t.stride() for t in traced if t.numel()] == [t.stride() for t in real if t.numel()]
    outs, wanted = floating(traced), [t for t in ins if t.requires_grad]
    if outs:
        ones = [gc.ones_like(out) for out in outs]
        try:
            grads = gc.autograd.grad(outs, wanted, ones, materialize_grads=True, create_graph=True)
        except NotImplementedError as error:
            if "depends on data" not in str(error):
                raise
            pytest.skip("the gradient is what a mask selects")
        assert [(g.shape, g.dtype, g.device) for g in grads] == [(t.shape, t.dtype, t.device) for t in wanted]
