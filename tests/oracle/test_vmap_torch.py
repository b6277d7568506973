"""`vmap` and the transformations around it give what PyTorch's give: the same programs, run with both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc

torch = pytest.importorskip("torch")
#: PyTorch uses what it has deprecated.
pytestmark = [
    pytest.mark.oracle,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]

X = np.linspace(-1.0, 2.0, 12).reshape(4, 3)
W = np.array([[1.0, -2.0], [0.5, 1.5], [2.0, 0.25]])
I = np.array([[0, 2], [1, 1], [2, 0], [0, 1]])


def network(M: Any, w: Any, v: Any) -> Any:
    return M.nn.functional.log_softmax((v @ w).tanh(), -1)[0]


PROGRAMS: dict[str, Callable[..., Any]] = {
    "elementwise": lambda M, x, w, i: M.func.vmap(lambda v: v.exp() * v.sum() + 1)(x),
    "shared": lambda M, x, w, i: M.func.vmap(lambda v: v @ w)(x),
    "dims": lambda M, x, w, i: M.func.vmap(lambda a, b: a.outer(b), in_dims=(1, 1), out_dims=2)(x, x),
    "nested": lambda M, x, w, i: M.func.vmap(M.func.vmap(lambda a, b: (a - b).abs().sum(), (None, 0)), (0, None))(x, x),
    "per-sample gradients": lambda M, x, w, i: M.func.vmap(
        M.func.grad(lambda p, v: network(M, p, v)), in_dims=(None, 0)
    )(w, x),
    "gradient through": lambda M, x, w, i: M.func.grad(
        lambda p: M.func.vmap(lambda v: network(M, p, v))(x).square().sum()
    )(w),
    "hessian of samples": lambda M, x, w, i: M.func.vmap(M.func.hessian(lambda v: network(M, w, v)))(x),
    "gradient of jacobians": lambda M, x, w, i: M.func.grad(
        lambda p: M.func.vmap(M.func.jacrev(lambda v: (v @ p).sin()))(x).square().sum()
    )(w),
    "jacobian of batch": lambda M, x, w, i: M.func.jacrev(M.func.vmap(lambda v: v.cumsum(0) * v.prod()))(x),
    "jacfwd of gradients": lambda M, x, w, i: M.func.jacfwd(M.func.vmap(M.func.grad(lambda v: v.prod().sin())))(x),
    "forward mode": lambda M, x, w, i: M.func.vmap(lambda v, t: M.func.jvp(lambda u: u.sin().prod(), (v,), (t,))[1])(
        x, x
    ),
    "trace of jacobian": lambda M, x, w, i: M.func.vmap(
        lambda v: M.func.jacrev(lambda u: u.tanh() * u.sum())(v).diagonal().sum()
    )(x),
    "indices": lambda M, x, w, i: M.func.vmap(lambda v, k: v[k])(x, i),
    "gather and scatter": lambda M, x, w, i: M.func.vmap(
        lambda v, k: M.zeros_like(v).scatter_add(0, k, v.gather(0, k))
    )(x, i),
    "sort": lambda M, x, w, i: M.func.vmap(lambda v: v.sort(descending=True).values.cumsum(-1))(x),
    "writes": lambda M, x, w, i: M.func.vmap(lambda v: M.func.grad(lambda u: u.clone().mul_(2).square_().sum())(v))(x),
    "linear algebra": lambda M, x, w, i: M.func.vmap(
        lambda v: M.linalg.solve(M.outer(v, v) + 2 * M.eye(3, dtype=v.dtype), v)
    )(x),
    "cross entropy of samples": lambda M, x, w, i: M.func.vmap(
        M.func.grad(lambda v, k: M.nn.functional.cross_entropy(v.unsqueeze(0), k.unsqueeze(0)))
    )(x, i[:, 0]),
    "convolution of samples": lambda M, x, w, i: M.func.vmap(
        M.func.grad(lambda k, v: M.nn.functional.conv1d(v.reshape(1, 1, 3), k.reshape(1, 1, 2)).tanh().sum()), (None, 0)
    )(w[1], x),
    "einsum": lambda M, x, w, i: M.func.vmap(lambda v: M.einsum("i,ij,j->j", v, w, w[0]))(x),
    "chunks": lambda M, x, w, i: M.func.vmap(lambda v: v.softmax(0), chunk_size=3)(x),
    "containers": lambda M, x, w, i: M.func.vmap(lambda d: {"a": (d["v"] * 2, d["v"].sum())}, in_dims=({"v": 0},))(
        {"v": x}
    )["a"][0],
    "linearize": lambda M, x, w, i: M.func.vmap(M.func.linearize(lambda v: v.sin() * v.sum(), x[0])[1])(x),
    "many cotangents": lambda M, x, w, i: M.func.vmap(M.func.vjp(lambda v: v.sin() * v.sum(), x[0])[1])(x)[0],
    "is_grads_batched": lambda M, x, w, i: _batched(M, x),
    "functional hessian": lambda M, x, w, i: M.autograd.functional.hessian(
        lambda v: network(M, w, v), x[0], vectorize=True
    ),
}


def _batched(M: Any, x: Any) -> Any:
    v = x[0].clone().requires_grad_()
    return M.autograd.grad(v.sin() * v.sum(), v, x, is_grads_batched=True)[0]


def run(M: Any, name: str) -> Any:
    make = torch.from_numpy if M is torch else gc.from_numpy
    return PROGRAMS[name](M, *(make(a.copy()) for a in (X, W, I)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_as_torch(name: str) -> None:
    found, expected = run(gc, name), run(torch, name)
    assert tuple(found.shape) == tuple(expected.shape)
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), 1e-9, 1e-12)
