"""Gradients of sparse tensors by their values and by what they are combined with, in both modes and twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.autograd import gradcheck, gradgradcheck

#: Not in order, with an element that is stored in parts.
INDEX = [[0, 3, 1, 1, 2, 0], [2, 0, 0, 2, 1, 2]]
SQUARE = [[0, 1, 1, 2, 2, 0], [0, 1, 0, 2, 1, 2]]


def drawn(*shape: int, dtype: Any = gc.float64, seed: int = 0) -> gc.Tensor:
    rng = np.random.default_rng((seed, *shape))
    values = rng.standard_normal(shape)
    if dtype.is_complex:
        values = values + 1j * rng.standard_normal(shape)
    return gc.tensor(values, dtype=dtype, requires_grad=True)


def coo(v: Any) -> Any:
    return gc.sparse_coo_tensor(INDEX, v, (4, 3))


def square(v: Any) -> Any:
    return gc.sparse_coo_tensor(SQUARE, v, (3, 3))


def hybrid(v: Any) -> Any:
    return gc.sparse_coo_tensor([[0, 2, 0]], v.reshape(3, 2), (4, 2))


def well(v: Any) -> Any:
    """Return a well-conditioned matrix."""
    return square(v * 0.3 + gc.tensor([3.0, 4.0, 1.0, 5.0, 1.0, 0.5], dtype=v.dtype))


def definite(v: Any) -> Any:
    matrix = well(v)
    return matrix @ matrix.mH


#: Functions of six values, and of a dense tensor of the given shape where there is one.
CALLS: dict[str, tuple[Any, ...]] = {
    "coo @ matrix": (lambda v, d: coo(v) @ d, (3, 2)),
    "coo @ vector": (lambda v, d: coo(v) @ d, (3,)),
    "coo @ batch": (lambda v, d: coo(v) @ d, (2, 3, 2)),
    "csr @ matrix": (lambda v, d: coo(v).to_sparse_csr() @ d, (3, 2)),
    "csc @ matrix": (lambda v, d: coo(v).to_sparse_csc() @ d, (3, 2)),
    "bsr @ matrix": (lambda v, d: coo(v).to_sparse_bsr((2, 3)) @ d, (3, 2)),
    "bsc @ matrix": (lambda v, d: coo(v).to_sparse_bsc((2, 1)) @ d, (3, 2)),
    "transposed": (lambda v, d: coo(v).to_sparse_csr().t() @ d, (4, 2)),
    "adjoint": (lambda v, d: coo(v).mH @ d, (4,)),
    "matrix @ coo": (lambda v, d: d @ coo(v), (2, 4)),
    "vector @ csr": (lambda v, d: d @ coo(v).to_sparse_csr(), (4,)),
    "batch @ coo": (lambda v, d: d @ coo(v), (2, 2, 4)),
    "sparse @ sparse": (lambda v: (coo(v) @ coo(v * 2).t()).to_dense(),),
    "csr @ csr": (lambda v: (square(v).to_sparse_csr() @ square(v).to_sparse_csr()).to_dense(),),
    "bmm": (lambda v, d: gc.bmm(gc.sparse_coo_tensor([[0, 1, 1], [1, 0, 2], [0, 1, 1]], v[:3], (2, 3, 2)), d),
            (2, 2, 3)),
    "addmm": (lambda v, d: gc.sparse.addmm(d, coo(v), d[:3], beta=0.5, alpha=2.0), (4, 2)),
    "linear": (lambda v, d: gc.nn.functional.linear(d, coo(v)), (2, 3)),
    "mean of products": (lambda v, d: gc.sparse.mm(coo(v), d, "mean"), (3, 2)),
    "sampled": (lambda v, d: gc.sparse.sampled_addmm(coo(v), d[:, :2], d[:3, 2:].T, beta=0.5).to_dense(), (4, 4)),
    "dense + sparse": (lambda v, d: d + coo(v), (4, 3)),
    "dense - sparse": (lambda v, d: d - coo(v), (4, 3)),
    "sparse + sparse": (lambda v: (coo(v) + coo(v * v).coalesce()).to_dense(),),
    "merged": (lambda v: (square(v) - square(v).t() * 2).to_dense(),),
    "csr + csr": (lambda v: gc.add(square(v).to_sparse_csr(), square(v).t().to_sparse_csr(), alpha=3).to_dense(),),
    "sparse * dense": (lambda v, d: (coo(v) * d).to_dense(), (4, 3)),
    "sparse * row": (lambda v, d: (d * coo(v).to_sparse_csc()).to_dense(), (3,)),
    "sparse * number": (lambda v, d: (coo(v) * d / 2).to_dense(), ()),
    "sparse * sparse": (lambda v: (square(v) * square(v).t()).to_dense(),),
    "square": (lambda v: (coo(v) ** 2).to_dense(),),
    "sin": (lambda v: gc.sin(coo(v)).to_dense(),),
    "tanh of csr": (lambda v: coo(v).to_sparse_csr().tanh().to_dense(),),
    "sum": (lambda v: gc.sparse.sum(coo(v)),),
    "sum over rows": (lambda v: gc.sparse.sum(coo(v), 0).to_dense(),),
    "sum over columns": (lambda v: coo(v).sum(1, keepdim=True).to_dense(),),
    "sum over a dense dim": (lambda v: gc.sparse.sum(hybrid(v), 1).to_dense(),),
    "sum over a sparse dim": (lambda v: gc.sparse.sum(hybrid(v), 0),),
    "values": (lambda v: coo(v).coalesce().values(),),
    "to_dense of blocks": (lambda v: coo(v).to_sparse_bsr((4, 1)).to_dense(),),
    "of dense": (lambda d: d.to_sparse_csr().to_dense() * 2, (4, 3), "alone"),
    "of dense, hybrid": (lambda d: (d.to_sparse(1) * 2).to_dense(), (4, 3), "alone"),
    "mask": (lambda d: (d.sparse_mask(coo(gc.ones(6))) * 2).to_dense(), (4, 3), "alone"),
    "select": (lambda v: coo(v)[0].to_dense() * coo(v)[:, 2][0],),
    "index_select": (lambda v: coo(v).index_select(1, gc.tensor([2, 0, 2])).to_dense(),),
    "slices": (lambda v: coo(v)[1:3, None, :2].to_dense(),),
    "cat": (lambda v: gc.cat([coo(v), coo(v * v)], 1).to_dense(),),
    "cat of dense dims": (lambda v: gc.cat([hybrid(v), hybrid(v * v)], 1).to_dense(),),
    "stack": (lambda v: gc.stack([coo(v), coo(v * v)], 2).to_dense(),),
    "spdiags": (lambda v: gc.sparse.spdiags(v.reshape(2, 3), gc.tensor([-1, 1]), (3, 3)).to_dense(),),
    "norm": (lambda v: coo(v).norm(),),
    "spsolve": (lambda v, d: gc.sparse.spsolve(well(v), d), (3,)),
    "spsolve of columns": (lambda v, d: gc.sparse.spsolve(well(v).to_sparse_csc(), d), (3, 2)),
    "spsolve of bsr": (lambda v, d: gc.sparse.spsolve(well(v).to_sparse_bsr((3, 1)), d), (3,)),
    "gmres": (lambda v, d: gc.sparse.gmres(well(v), d, rtol=1e-12)[0], (3,)),
    "bicgstab": (lambda v, d: gc.sparse.bicgstab(well(v), d, rtol=1e-10)[0], (3,)),
    "cg": (lambda v, d: gc.sparse.cg(definite(v), d, rtol=1e-12)[0], (3,)),
    "cg of a dense matrix": (lambda v, d: gc.sparse.cg(definite(v).to_dense(), d, rtol=1e-12)[0], (3,)),
}  # fmt: skip
#: Functions that complex numbers have no part in.
REAL: dict[str, tuple[Any, ...]] = {
    "softmax": (lambda v: gc.sparse.softmax(coo(v), 1).to_dense(),),
    "log_softmax": (lambda v: gc.sparse.log_softmax(coo(v).to_sparse_csr(), 0).to_dense(),),
    "softmax, hybrid": (lambda v: gc.sparse.softmax(hybrid(v), 0).to_dense(),),
    "softmax of a dense dim": (lambda v: gc.sparse.softmax(hybrid(v), 1).to_dense(),),
    "largest product": (lambda v, d: gc.sparse.mm(coo(v), d, "amax"), (3, 2)),
    "smallest product": (lambda v, d: gc.sparse.mm(coo(v), d, "min"), (3, 2)),
    "relu": (lambda v: coo(v).relu().to_dense(),),
}


def arguments(call: tuple[Any, ...], dtype: Any) -> tuple[Callable[..., Any], tuple[gc.Tensor, ...]]:
    function, *rest = call
    shapes = [s for s in rest if isinstance(s, tuple)]
    values = [] if "alone" in rest else [drawn(6, dtype=dtype)]
    return function, (*values, *(drawn(*s, dtype=dtype, seed=1) for s in shapes))


@pytest.mark.parametrize("name", [*CALLS, *REAL])
def test_derivatives(name: str) -> None:
    function, args = arguments({**CALLS, **REAL}[name], gc.float64)
    assert gradcheck(function, args, check_forward_ad=True)
    assert gradgradcheck(function, args)


@pytest.mark.parametrize("name", [*CALLS])
def test_derivatives_of_complex_values(name: str) -> None:
    function, args = arguments(CALLS[name], gc.complex128)
    assert gradcheck(function, args, check_forward_ad=True)


@pytest.mark.parametrize("name", [*CALLS, *REAL])
def test_batches(name: str) -> None:
    """Under `vmap`, values and dense tensors are batched, indices are the same for all samples."""
    if any(word in name for word in ("solve", "gmres", "bicgstab", "cg", "of dense", "csr @ csr")):
        pytest.skip("looks at numbers")
    function, args = arguments({**CALLS, **REAL}[name], gc.float64)
    batch = [gc.stack([t.detach(), 2 * t.detach(), t.detach() - 1]) for t in args]
    found = gc.vmap(function)(*batch)
    for i in range(3):
        assert gc.allclose(found[i], function(*(t[i] for t in batch)))


# -- eigenvalues ------------------------------------------------------------------------------------------------------


def eigenpairs(d: gc.Tensor) -> tuple[gc.Tensor, gc.Tensor]:
    matrix = gc.diag(gc.arange(1.0, 13.0, dtype=gc.float64) ** 2 / 10 + 0.1 * d) + 0.05 * gc.outer(d, d)
    start = drawn(12, 2, seed=3).detach()
    w, V = gc.sparse.lobpcg(matrix.to_sparse_csr(), start, tol=1e-11, maxiter=500)
    return w, V * V.detach()[:1].sign()


@pytest.mark.filterwarnings("ignore:Exited")
def test_eigenpairs() -> None:
    d = drawn(12)
    assert gradcheck(eigenpairs, (d,))
    assert gradgradcheck(lambda d: eigenpairs(d)[0], (d,))
    (ours,) = gc.autograd.grad(eigenpairs(d)[0].sum(), d)
    matrix = gc.diag(gc.arange(1.0, 13.0, dtype=gc.float64) ** 2 / 10 + 0.1 * d) + 0.05 * gc.outer(d, d)
    (dense,) = gc.autograd.grad(gc.linalg.eigvalsh(matrix)[-2:].sum(), d)
    assert gc.allclose(ours, dense)


# -- sparse leaves ----------------------------------------------------------------------------------------------------


def test_the_gradient_of_a_sparse_leaf_is_sparse() -> None:
    s = gc.sparse_coo_tensor(INDEX, drawn(6).detach(), (4, 3), requires_grad=True)
    d = drawn(3, 2)
    (s @ d).sum().backward()
    assert s.grad.layout is gc.sparse_coo
    assert s.grad.is_coalesced()
    stored = s.detach().coalesce()
    expected = d.detach().sum(1)[stored.indices()[1]]
    assert gc.allclose(s.grad.values(), expected)
    assert gc.equal(s.grad.indices(), stored.indices())
    (s @ d).sum().backward()
    assert gc.allclose(s.grad.values(), 2 * expected)
    s.grad = None
    assert s.grad is None


@pytest.mark.parametrize("layout", ["sparse_csr", "sparse_csc"])
def test_the_gradient_of_a_compressed_leaf(layout: str) -> None:
    s = coo(drawn(6).detach()).to_sparse(layout=getattr(gc, layout)).requires_grad_()
    (s @ gc.ones(3, dtype=gc.float64)).backward(gc.arange(4.0, dtype=gc.float64))
    assert s.grad.layout is s.layout
    assert gc.equal(s.grad.to_dense() != 0, (s.to_dense() != 0) & (gc.arange(4)[:, None] > 0))


def test_grad_with_respect_to_a_sparse_tensor() -> None:
    s = coo(drawn(6).detach()).coalesce().requires_grad_()
    loss = (s.to_dense() ** 3).sum()
    (first,) = gc.autograd.grad(loss, s, create_graph=True)
    assert gc.allclose(first.to_dense(), 3 * s.detach().to_dense() ** 2)
    (second,) = gc.autograd.grad(first.values().sum(), s)
    assert gc.allclose(second.to_dense(), 6 * s.detach().to_dense())
    found = gc.func.grad(lambda s: (s.to_dense() ** 3).sum())(s.detach())
    assert gc.allclose(found.to_dense(), first.detach().to_dense())


def test_a_sparse_upstream_gradient() -> None:
    v = drawn(6)
    out = coo(v).coalesce() * 3
    out.backward(out.detach())
    whole = coo(v.detach()).to_dense()
    assert gc.allclose(v.grad, 9 * whole[INDEX[0], INDEX[1]])
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (coo(v) * 2).backward()


def test_hooks_get_sparse_gradients() -> None:
    s = coo(drawn(6).detach()).coalesce().requires_grad_()
    seen = []
    s.register_hook(seen.append)
    (s @ gc.ones(3, dtype=gc.float64)).sum().backward()
    assert seen[0].layout is gc.sparse_coo
    assert gc.allclose(seen[0].values(), gc.ones(5, dtype=gc.float64))


def test_values_written_in_place_are_noticed() -> None:
    s = coo(drawn(6).detach()).coalesce().requires_grad_()
    y = (s * s).values().sum()
    with gc.no_grad():
        s.mul_(2)
    assert s.requires_grad
    assert s.is_leaf
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        s.mul_(2)


def test_an_iteration_that_does_not_converge_says_so_in_backward() -> None:
    v, b = drawn(6), drawn(3)
    x, info = gc.sparse.gmres(well(v), b, rtol=1e-14, maxiter=1, restart=1)
    assert info > 0
    with pytest.raises(RuntimeError, match="gmres did not converge for the gradient"):
        x.sum().backward()


def test_the_factorisation_is_kept_for_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    import scipy.sparse.linalg

    calls = []
    splu = scipy.sparse.linalg.splu
    monkeypatch.setattr(scipy.sparse.linalg, "splu", lambda *args: calls.append(1) or splu(*args))
    for dtype in (gc.float64, gc.complex128):
        calls.clear()
        v, b = drawn(6, dtype=dtype), drawn(3, dtype=dtype)
        gc.sparse.spsolve(well(v), b).abs().sum().backward()
        assert len(calls) == 1
    with gc.no_grad():
        matrix = well(v)
        first = gc.sparse.spsolve(matrix, b)
        matrix.mul_(2)
        assert gc.allclose(gc.sparse.spsolve(matrix, b), first / 2)
    assert len(calls) == 3


def test_singular_matrices_raise() -> None:
    with pytest.raises(RuntimeError, match="singular"):
        gc.sparse.spsolve(gc.sparse_coo_tensor([[0], [0]], [1.0], (2, 2)), gc.ones(2))


@pytest.mark.filterwarnings("ignore:compile")
def test_compiled_functions() -> None:
    s, d = coo(drawn(6).detach()).coalesce().requires_grad_(), drawn(3, 2)
    f = gc.compile(lambda s, d: ((s @ d).tanh() * 2).sum())
    for factor in (1, 2):
        t = (s.detach() * factor).requires_grad_()
        f(t, d).backward()
        ours, dense = t.grad, d.grad
        t.grad = d.grad = None
        ((t @ d).tanh() * 2).sum().backward()
        assert gc.allclose(ours.values(), t.grad.values())
        assert gc.allclose(dense, d.grad)
        t.grad = d.grad = None
