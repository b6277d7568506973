"""``gradcore.scipy.sparse.linalg``: SciPy's names, systems with matrices and with operators that read tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.autograd import gradcheck, gradgradcheck
from gradcore.scipy.sparse import linalg

scipy_linalg = pytest.importorskip("scipy.sparse.linalg")
scipy_sparse = pytest.importorskip("scipy.sparse")

N = 6
SYMMETRIC = ("cg", "minres")
METHODS = ("bicg", "bicgstab", "cg", "cgs", "gcrotmk", "gmres", "lgmres", "minres", "tfqmr")
EXACT = {"rtol": 1e-13, "maxiter": 400}


def drawn(*shape: int) -> Any:
    return gc.tensor(np.random.default_rng(3).standard_normal(shape))


def stretched(v: Any, d: Any, k: Any, bend: float) -> Any:
    """Multiply a vector by a tridiagonal matrix, without forming the matrix."""
    zero = v.new_zeros(1)
    return (4 + d * d) * v + k * gc.cat([v[1:], zero]) + k * (1 + bend) * gc.cat([zero, v[:-1]])


def dense_of(d: Any, k: Any, bend: float) -> Any:
    return gc.stack([stretched(e, d, k, bend) for e in gc.eye(N, dtype=gc.float64)], 1)


def test_every_name_is_there_or_has_a_reason() -> None:
    theirs = {name for name in scipy_linalg.__all__ if not name.startswith("_")}
    newer = theirs - set(linalg.__all__) - set(linalg.LEFT_OUT)
    assert not newer
    with pytest.raises(AttributeError, match="lobpcg"):
        linalg.eigs  # noqa: B018
    with pytest.raises(AttributeError, match="from_scipy"):
        gc.scipy.sparse.csr_array  # noqa: B018


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_operators(name: str) -> None:
    """The solution depends on the right side, and on all that the operator reads."""
    bend = 0.0 if name in SYMMETRIC else 0.5
    d, k, b = drawn(N).requires_grad_(), gc.tensor(0.7, dtype=gc.float64, requires_grad=True), drawn(N).requires_grad_()

    def solve(d: Any, k: Any, b: Any) -> Any:
        A = linalg.LinearOperator((N, N), matvec=lambda v: stretched(v, d, k, bend))
        x, info = getattr(linalg, name)(A, b, **EXACT)
        assert info == 0
        return x

    gc.testing.assert_close(solve(d, k, b), gc.linalg.solve(dense_of(d, k, bend), b), rtol=1e-9, atol=1e-10)
    assert gradcheck(solve, (d, k, b), fast_mode=True, check_forward_ad=True, check_undefined_grad=False, atol=1e-5)
    if name in ("cg", "gmres"):
        assert gradgradcheck(solve, (d, k, b), fast_mode=True, check_undefined_grad=False, atol=1e-4, rtol=1e-2)


@pytest.mark.parametrize("name", METHODS)
def test_matrices(name: str) -> None:
    bend = 0.0 if name in SYMMETRIC else 0.5
    A = dense_of(drawn(N), gc.tensor(0.7, dtype=gc.float64), bend).to_sparse_csr()
    b, x0 = drawn(N), drawn(N)
    theirs, info = getattr(scipy_linalg, name)(gc.sparse.to_scipy(A), b.numpy(), x0.numpy(), rtol=1e-3)
    ours = getattr(linalg, name)(A, b, x0, rtol=1e-3)
    np.testing.assert_allclose(ours[0], theirs, rtol=1e-12, atol=1e-12)
    assert ours[1] == info
    values = A.values().clone().requires_grad_()

    def solve(values: Any, b: Any) -> Any:
        return getattr(linalg, name)(A.like(values), b, **EXACT)[0]

    if name not in SYMMETRIC:
        assert gradcheck(solve, (values, b.clone().requires_grad_()), fast_mode=True, check_undefined_grad=False)


def test_complex_operators_and_preconditioners() -> None:
    z = (drawn(N, N) + 1j * drawn(N, N) + 9 * gc.eye(N)).requires_grad_()
    b = (drawn(N) + 2j).requires_grad_()
    scale = 1 / z.detach().diagonal()

    def solve(z: Any, b: Any) -> Any:
        A = linalg.LinearOperator((N, N), matvec=lambda v: z @ v)
        M = linalg.LinearOperator((N, N), matvec=lambda v: scale * v, rmatvec=lambda v: scale.conj() * v)
        return linalg.gmres(A, b, M=M, rtol=1e-13)[0]

    gc.testing.assert_close(solve(z, b), gc.linalg.solve(z, b), rtol=1e-9, atol=1e-10)
    assert gradcheck(solve, (z, b), fast_mode=True, check_undefined_grad=False, atol=1e-5)
    A = linalg.aslinearoperator(z.detach())
    gc.testing.assert_close(linalg.LinearOperator((N, N), lambda v: z @ v).H @ b, z.mH @ b)
    gc.testing.assert_close(A.H @ b, z.mH @ b)
    gc.testing.assert_close(A @ z, z @ z)
    assert solve(z, b[:, None]).shape == (N, 1)


def test_what_is_refused() -> None:
    A = linalg.LinearOperator((2, 2), matvec=lambda v: v * gc.tensor([1.0, -1.0]))
    with pytest.raises(ValueError, match="incompatible"):
        linalg.cg(A, gc.ones(3))
    with pytest.raises(ValueError, match="dimension mismatch"):
        A.matvec(gc.ones(3))
    x = gc.ones(N, dtype=gc.float64, requires_grad=True)
    hard = linalg.LinearOperator((N, N), matvec=lambda v: stretched(v, x, 1.5, 0.9))
    found, info = linalg.gmres(hard, drawn(N), maxiter=1, restart=2, rtol=1e-14)
    assert info > 0
    with pytest.raises(RuntimeError, match="did not converge for the gradient"):
        found.sum().backward()


def test_other_functions() -> None:
    dense = gc.tril(drawn(N, N)) + 4 * gc.eye(N)
    b = drawn(N, 2).requires_grad_()
    L = dense.to_sparse_csr()
    gc.testing.assert_close(linalg.spsolve_triangular(L, b), gc.linalg.solve(dense, b))
    gc.testing.assert_close(
        linalg.spsolve_triangular(dense.mT.to_sparse(), b, lower=False), gc.linalg.solve(dense.mT, b)
    )
    unit = linalg.spsolve_triangular(L, b, unit_diagonal=True)
    gc.testing.assert_close(unit, gc.linalg.solve_triangular(dense, b, upper=False, unitriangular=True))
    with pytest.raises(gc.linalg.LinAlgError, match="triangular"):
        linalg.spsolve_triangular(dense.mT.to_sparse(), b)
    solve = linalg.factorized(L.to_sparse_csc())
    gc.testing.assert_close(solve(b), gc.linalg.solve(dense, b))
    values = L.values().clone().requires_grad_()
    for call in (
        lambda v, b: linalg.spsolve_triangular(L.like(v), b),
        lambda v, b: linalg.spsolve_triangular(L.like(v), b, unit_diagonal=True),
        lambda v, b: linalg.expm_multiply(L.like(v) * 0.3, b),
        lambda v, b: linalg.norm(L.like(v)) * b,
        lambda v, b: linalg.norm(L.like(v), 1) * b,
    ):
        assert gradcheck(call, (values, b), fast_mode=True, check_undefined_grad=False, atol=1e-5)
    matrix = gc.sparse.to_scipy(L)
    for order in (None, "fro", 1, -1, np.inf, -np.inf):
        np.testing.assert_allclose(linalg.norm(L, order), scipy_linalg.norm(matrix, order))
    for axis in (0, 1):
        np.testing.assert_allclose(linalg.norm(L, axis=axis), scipy_linalg.norm(matrix, axis=axis))
        np.testing.assert_allclose(linalg.norm(L, 1, axis=axis), scipy_linalg.norm(matrix, 1, axis=axis))
    found = linalg.expm_multiply(L, b.detach())
    np.testing.assert_allclose(found, scipy_linalg.expm_multiply(matrix, b.detach().numpy()), rtol=1e-10)


def symmetric(a: Any) -> Any:
    return (a + a.mH) / 2


def pairs_of(values: Any, vectors: Any) -> Any:
    """Return the vectors, up to their sign, and the values."""
    return (vectors * vectors[:1]) * values


PLACES = np.nonzero(np.random.default_rng(8).random((5, 3)) < 0.8)


def sparse_of(values: Any) -> Any:
    return gc.sparse_coo_tensor(gc.tensor(np.stack(PLACES)), values, (5, 3))


#: Functions of a tensor of some shape by results of iterations.
OF_ITERATIONS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "eigsh": (lambda a: pairs_of(*linalg.eigsh(symmetric(a), k=2, which="LA")), (4, 4)),
    "svds": (lambda a: (lambda u, s, vh: (u * s) @ vh)(*linalg.svds(sparse_of(a), k=1)), (PLACES[0].size,)),
    "lsqr": (lambda a: linalg.lsqr(sparse_of(a), drawn(5), atol=1e-14, btol=1e-14)[0], (PLACES[0].size,)),
    "lsqr, the shortest": (
        lambda a: linalg.lsqr(sparse_of(a).mH, drawn(3), atol=1e-14, btol=1e-14)[0],
        (PLACES[0].size,),
    ),
    "lsqr, damped": (
        lambda a: linalg.lsqr(sparse_of(a), drawn(5), 0.4, atol=1e-14, btol=1e-14)[0],
        (PLACES[0].size,),
    ),
}


@pytest.mark.parametrize("name", OF_ITERATIONS)
def test_derivatives_of_results_of_iterations(name: str) -> None:
    function, shape = OF_ITERATIONS[name]
    gc.manual_seed(0)
    a = drawn(*shape).requires_grad_()
    assert gradcheck(function, a, fast_mode=True, check_forward_ad=True, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_ITERATIONS)
def test_second_derivatives_of_results_of_iterations(name: str) -> None:
    function, shape = OF_ITERATIONS[name]
    gc.manual_seed(0)
    assert gradgradcheck(function, drawn(*shape).requires_grad_(), fast_mode=True, atol=1e-6)


def test_iterations_of_large_matrices_make_no_dense_one() -> None:
    n = 2_000
    i = gc.arange(n - 1)
    index = gc.cat([gc.stack([i, i + 1]), gc.stack([i + 1, i]), gc.arange(n).expand(2, n)], 1)
    middle = gc.linspace(1, 40, n, dtype=gc.float64).square().requires_grad_()
    values = gc.cat([gc.full((2 * n - 2,), -1.0, dtype=gc.float64), middle])
    w, v = linalg.eigsh(gc.sparse_coo_tensor(index, values, (n, n)), k=1)
    (grad,) = gc.autograd.grad(w.sum(), middle)
    gc.testing.assert_close(grad, v[:, 0].detach().square())


def test_what_iterations_leave_open_is_refused() -> None:
    a = gc.tensor([3.0, 3.0, 2.0, 1.0], dtype=gc.float64).diag().requires_grad_()
    w, v = linalg.eigsh(a, k=2, which="LA")
    np.testing.assert_allclose(gc.autograd.grad(w.sum(), a, retain_graph=True)[0], np.diag([1.0, 1, 0, 0]), atol=1e-9)
    with pytest.raises(RuntimeError, match="equal values"):
        v[:, 0].sum().backward()
    low = (drawn(5, 1) @ drawn(1, 3)).requires_grad_()
    with pytest.raises(RuntimeError, match="full rank"):
        linalg.lsqr(low, drawn(5))[0].sum().backward()
    with pytest.raises(TypeError, match="real matrices"):
        linalg.eigsh(gc.eye(3, dtype=gc.complex128), k=1)


def test_values_of_iterations_are_those_of_scipy() -> None:
    a = drawn(8, 6)
    theirs = scipy_linalg.svds(a.numpy(), k=3)[1]
    np.testing.assert_allclose(linalg.svds(a, k=3, return_singular_vectors=False), np.sort(theirs))
    for which in ("LM", "SM", "LA", "SA", "BE"):
        right = scipy_linalg.eigsh(symmetric(a[:6]).numpy(), k=2, which=which)[0]
        np.testing.assert_allclose(linalg.eigsh(symmetric(a[:6]), k=2, which=which)[0], right, atol=1e-9)
    found, right = linalg.lsqr(a, drawn(8)), scipy_linalg.lsqr(a.numpy(), drawn(8).numpy())
    np.testing.assert_allclose(found[0], right[0], 1e-5)
    assert found[1:3] == right[1:3]


def test_a_matrix_that_is_read_in_two_ways_is_not_lost_in_one() -> None:
    v = gc.ones(3, dtype=gc.float64, requires_grad=True)
    unsorted = gc.sparse_coo_tensor([[0, 2, 1], [1, 0, 1]], v, (3, 2))
    operator = linalg.LinearOperator(
        (5, 5), matvec=lambda x: gc.cat([x[:3] + unsorted @ x[3:], unsorted.mH @ x[:3] - x[3:]])
    )
    with pytest.raises(RuntimeError, match="by other means than operations"):
        linalg.minres(operator, gc.ones(5, dtype=gc.float64))
