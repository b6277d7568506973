"""Derivatives of collectives, of both modes, against one process that has all tensors."""

from __future__ import annotations

import pytest

import gradcore as gc
import gradcore.distributed as dist
from gradcore.distributed import ReduceOp
from gradcore.distributed.nn import functional as DF


def rank():
    return dist.get_rank()


def size():
    return dist.get_world_size()


def drawn(shape, seed, dtype=gc.float64):
    return gc.randn(shape, generator=gc.Generator().manual_seed(seed), dtype=dtype)


def forms():
    """Each collective, as the call of this process, and as a function of the tensors of all to the results of all."""
    n, r, ones = size(), rank(), (1,) * size()
    return {
        "sum": (lambda x: DF.all_reduce(x), lambda X: X.sum(0).expand(n, n, 2)),
        "mean": (lambda x: DF.all_reduce(x, ReduceOp.AVG), lambda X: X.mean(0).expand(n, n, 2)),
        "product": (lambda x: DF.all_reduce(x, ReduceOp.PRODUCT), lambda X: X.prod(0).expand(n, n, 2)),
        "max": (lambda x: DF.all_reduce(x, ReduceOp.MAX), lambda X: X.amax(0).expand(n, n, 2)),
        "broadcast": (lambda x: DF.broadcast(x, n - 1), lambda X: X[n - 1].expand(n, n, 2)),
        "reduce": (
            lambda x: DF.reduce(x, 1),
            lambda X: gc.stack([X.sum(0) if i == 1 else 0 * X[0] for i in range(n)]),
        ),
        "all_gather": (lambda x: gc.stack(DF.all_gather(x)), lambda X: X.expand(n, n, n, 2)),
        "gather": (
            lambda x: gc.stack(DF.gather(x, 1)),
            lambda X: gc.stack([X if i == 1 else 0 * X for i in range(n)]),
        ),
        "scatter": (lambda x: DF.scatter(list(x), 1), lambda X: X[1]),
        "reduce_scatter": (lambda x: DF.reduce_scatter(x[0], list(x)), lambda X: X.sum(0)),
        "all_to_all": (
            lambda x: gc.stack(DF.all_to_all(list(x), list(x))),
            lambda X: X.transpose(0, 1),
        ),
        "all_to_all_single": (lambda x: DF.all_to_all_single(x, x, ones, ones), lambda X: X.transpose(0, 1)),
    } if r >= 0 else {}  # fmt: skip


def check_values_and_gradients_of_both_modes():
    for name, (own, whole) in forms().items():
        X = drawn((size(), size(), 2), 1)
        x = X[rank()].clone().requires_grad_()
        X.requires_grad_()
        wanted = whole(X)
        y = own(x)
        assert gc.allclose(y, wanted[rank()]), name
        weights = drawn(tuple(wanted.shape), 2)
        (grad,) = gc.autograd.grad((y.sin() * weights[rank()]).sum(), x, create_graph=True)
        (wanted_grad,) = gc.autograd.grad((wanted.sin() * weights).sum(), X, create_graph=True)
        assert gc.allclose(grad, wanted_grad[rank()]), name
        other = drawn(tuple(X.shape), 3)
        (second,) = gc.autograd.grad((grad.cos() * other[rank()]).sum(), x)
        (wanted_second,) = gc.autograd.grad((wanted_grad.cos() * other).sum(), X)
        assert gc.allclose(second, wanted_second[rank()]), name
        T = drawn(tuple(X.shape), 4)
        _, tangent = gc.func.jvp(lambda x, f=own: f(x).sin(), (x.detach(),), (T[rank()],))
        _, wanted_tangent = gc.func.jvp(lambda X, f=whole: f(X).sin(), (X.detach(),), (T,))
        assert gc.allclose(tangent, wanted_tangent[rank()]), name
        dist.barrier()


def check_complex_numbers():
    x = drawn((3,), rank(), gc.complex128).requires_grad_()
    y = DF.all_reduce(x)
    (y * y.conj()).real.sum().backward()
    total = sum(drawn((3,), i, gc.complex128) for i in range(size()))
    assert gc.allclose(x.grad, 2 * size() * total)


def check_batches():
    B = 3
    for name, (own, _) in forms().items():
        xs = drawn((B, size(), 2), rank())
        found = gc.func.vmap(own)(xs)
        wanted = gc.stack([own(x) for x in xs])
        assert gc.allclose(found, wanted), name
        slopes = gc.func.vmap(gc.func.grad(lambda x, f=own: f(x).sin().sum()))(xs)
        wanted = gc.stack([gc.func.grad(lambda x, f=own: f(x).sin().sum())(x) for x in xs])
        assert gc.allclose(slopes, wanted), name


def check_nested_batches():
    for name, (own, _) in forms().items():
        xs = drawn((2, 3, size(), 2), rank())
        for dim in (0, 1):
            found = gc.func.vmap(gc.func.vmap(own), in_dims=dim)(xs)
            wanted = gc.stack([gc.stack([own(x) for x in row]) for row in xs.movedim(dim, 0)])
            assert gc.allclose(found, wanted), (name, dim)
        slopes = gc.func.vmap(gc.func.vmap(gc.func.grad(lambda x, f=own: f(x).sin().sum())))(xs)
        wanted = [gc.stack([gc.func.grad(lambda x, f=own: f(x).sin().sum())(x) for x in row]) for row in xs]
        assert gc.allclose(slopes, gc.stack(wanted)), name


def check_what_has_no_derivative():
    with pytest.raises(ValueError, match="no derivative"):
        DF.all_reduce(gc.ones(2, dtype=gc.int64), ReduceOp.BOR)
    with pytest.raises(ValueError, match="do not match"):
        DF.all_to_all_single(gc.ones(size()), gc.ones(size() + 1))
