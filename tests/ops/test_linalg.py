"""Linear algebra: identities, derivatives of complex matrices, singular and empty matrices, errors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore import linalg
from tests.ops.directions import check_derivatives, random

DTYPES = pytest.mark.parametrize("dtype", ["float64", "complex128"])


def matrix(*shape: int, dtype: str = "float64", seed: int = 0) -> Any:
    return random(np.random.default_rng(seed), shape, dtype)


def regular(n: int, dtype: str = "float64", batch: tuple[int, ...] = ()) -> Any:
    return matrix(*batch, n, n, dtype=dtype) + 2 * n * np.eye(n)


def herm(x: gc.Tensor) -> gc.Tensor:
    return x.transpose(-1, -2).conj()


def hermitian(x: gc.Tensor) -> gc.Tensor:
    """Return the Hermitian part of a matrix, so that functions of one triangle have derivatives in all directions."""
    return (x + herm(x)) / 2


def positive(x: gc.Tensor) -> gc.Tensor:
    return x @ herm(x) + gc.eye(x.shape[-1], dtype=x.dtype)


def close(a: Any, b: Any, rtol: float = 1e-10, atol: float = 1e-10) -> None:
    np.testing.assert_allclose(np.asarray(a.detach()), np.asarray(b.detach()), rtol=rtol, atol=atol)


# -- what defines the results -----------------------------------------------------------------------------------------


@DTYPES
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2), (0, 3), (3, 0)])
def test_factors_multiply_to_the_matrix(shape: tuple[int, ...], dtype: str) -> None:
    A = gc.tensor(matrix(*shape, dtype=dtype))
    U, S, Vh = linalg.svd(A, full_matrices=False)
    close((U * S.unsqueeze(-2).to(U.dtype)) @ Vh, A)
    Q, R = linalg.qr(A)
    close(Q @ R, A)
    P, L, V = linalg.lu(A)
    close(P @ L @ V, A)
    close(linalg.svdvals(A), S)


@DTYPES
@pytest.mark.parametrize("batch", [(), (2,), (2, 0)])
def test_factors_of_square_matrices(batch: tuple[int, ...], dtype: str) -> None:
    A = gc.tensor(regular(3, dtype, batch))
    eye = gc.eye(3, dtype=A.dtype).expand(*batch, 3, 3)
    close(linalg.inv(A) @ A, eye)
    H = hermitian(A)
    values, vectors = linalg.eigh(H)
    close(H @ vectors, vectors * values.unsqueeze(-2).to(A.dtype))
    values, vectors = linalg.eig(A)
    close(A.to(vectors.dtype) @ vectors, vectors * values.unsqueeze(-2))
    L = linalg.cholesky(positive(A))
    close(L @ herm(L), positive(A))
    close(linalg.cholesky(positive(A), upper=True), herm(L))
    sign, logabsdet = linalg.slogdet(A)
    close(sign * logabsdet.exp(), linalg.det(A))


@DTYPES
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("batches", [((), ()), ((2,), (2,)), ((2,), ()), ((), (4,)), ((2, 1), (4,)), ((40,), (40,))])
def test_solutions_solve(batches: Any, left: bool, dtype: str) -> None:
    A = gc.tensor(regular(3, dtype, batches[0]))
    B = gc.tensor(matrix(*batches[1], *((3, 4) if left else (4, 3)), dtype=dtype, seed=1))
    X = linalg.solve(A, B, left=left)
    close(A @ X if left else X @ A, B.expand(X.shape))
    LU, pivots = linalg.lu_factor(A)
    close(linalg.lu_solve(LU, pivots, B, left=left), X)
    close(linalg.lu_solve(LU, pivots, B, left=left, adjoint=True), linalg.solve(herm(A), B, left=left))
    for upper in (True, False):
        T = A.triu() if upper else A.tril()
        X = linalg.solve_triangular(A, B, upper=upper, left=left)
        close(T @ X if left else X @ T, B.expand(X.shape))


def test_vectors_of_a_batch_are_solved_for() -> None:
    A, b = gc.tensor(regular(3, batch=(4,))), gc.tensor(matrix(4, 3))
    close(linalg.solve(A, b), linalg.solve(A, b.unsqueeze(-1)).squeeze(-1))


def test_the_exponential_is_that_of_the_eigenvalues() -> None:
    A = gc.tensor(matrix(3, 4, 4) * np.array([1e-3, 1, 30])[:, None, None])
    values, vectors = linalg.eigh(hermitian(A))
    expected = (vectors * values.exp().unsqueeze(-2)) @ vectors.mT
    np.testing.assert_allclose(linalg.matrix_exp(hermitian(A)).numpy(), expected.numpy(), rtol=1e-9)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_norms_of_matrices_without_elements(shape: tuple[int, int]) -> None:
    for ord in (1, 2, math.inf, "fro", "nuc"):
        A = gc.zeros(2, *shape, dtype=gc.float64, requires_grad=True)
        result = linalg.matrix_norm(A, ord)
        assert result.tolist() == [0.0, 0.0]
        assert linalg.matrix_norm(A, ord, keepdim=True).shape == (2, 1, 1)
        assert gc.autograd.grad(result.sum(), A)[0].shape == A.shape


def test_exponentials_of_matrices_whose_powers_are_zero() -> None:
    sizes = [1e5, 1e16, 1e30, 1e100, 1e300]
    matrices = gc.tensor([[[0.0, size], [0.0, 0.0]] for size in sizes], dtype=gc.float64)
    expected = [[[1.0, size], [0.0, 1.0]] for size in sizes]
    np.testing.assert_allclose(linalg.matrix_exp(matrices).numpy(), expected, rtol=1e-14)


def test_exponentials_of_matrices_with_large_blocks() -> None:
    """Blocks that commute with each other: exp([[A, s A], [0, A]]) is [[exp(A), s A exp(A)], [0, exp(A)]]."""
    A, zeros, sizes = gc.tensor(matrix(3, 3)) * 3, gc.zeros(3, 3, dtype=gc.float64), (0.0, 1.0, 1e6, 1e14)
    e = linalg.matrix_exp(A)
    blocks = gc.stack([gc.cat([gc.cat([A, s * A], 1), gc.cat([zeros, A], 1)]) for s in sizes])
    for s, result in zip(sizes, linalg.matrix_exp(blocks), strict=True):
        for found, expected in ((result[:3, :3], e), (result[3:, 3:], e), (result[:3, 3:], s * A @ e)):
            scale = expected.abs().max().item() + 1e-300
            np.testing.assert_allclose(found.numpy() / scale, expected.numpy() / scale, rtol=0, atol=1e-13)
    x = A.clone().requires_grad_()
    plain, scaled = (gc.autograd.grad((linalg.matrix_exp(x) * s).sum(), x)[0].numpy() for s in (1.0, 1e14))
    np.testing.assert_allclose(scaled / 1e14, plain, rtol=1e-12, atol=1e-13 * abs(plain).max())


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, -1, -2])
def test_powers(n: int) -> None:
    A = gc.tensor(regular(3))
    np.testing.assert_allclose(linalg.matrix_power(A, n).numpy(), np.linalg.matrix_power(A.numpy(), n), rtol=1e-10)


@DTYPES
def test_reflections_give_the_orthogonal_factor(dtype: str) -> None:
    A = gc.tensor(matrix(5, 3, dtype=dtype))
    h, tau = gc.geqrf(A)
    close(linalg.householder_product(h, tau), linalg.qr(A).Q)
    other = gc.tensor(matrix(5, 2, dtype=dtype))
    close(gc.ormqr(h, tau, gc.ormqr(h, tau, other), transpose=True), other)


def test_least_squares_are_least() -> None:
    A, B = gc.tensor(matrix(6, 3)), gc.tensor(matrix(6, 2, seed=1))
    for driver in (None, "gels", "gelsd", "gelss"):
        X, residuals = linalg.lstsq(A, B, driver=driver)[:2]
        close(A.mT @ (A @ X - B), gc.zeros(3, 2, dtype=gc.float64))
        if driver is not None:
            close(residuals, (A @ X - B).square().sum(0))
    assert linalg.lstsq(A, B).rank == 3
    wide = linalg.lstsq(A.mT, gc.ones(3, 1, dtype=gc.float64)).solution
    close(wide, linalg.pinv(A.mT) @ gc.ones(3, 1, dtype=gc.float64))


def test_ranks_and_tolerances() -> None:
    A = gc.diag(gc.tensor([1.0, 1e-3, 0.0], dtype=gc.float64))
    assert linalg.matrix_rank(A) == 2
    assert linalg.matrix_rank(A, atol=1e-2) == 1
    assert linalg.matrix_rank(A, rtol=gc.tensor(1e-4)) == 2
    close(linalg.pinv(A, atol=1e-2), gc.diag(gc.tensor([1.0, 0.0, 0.0], dtype=gc.float64)))


@DTYPES
@pytest.mark.parametrize("shape", [(9, 6), (6, 9)])
def test_random_projections_find_a_low_rank(shape: tuple[int, int], dtype: str) -> None:
    A = gc.tensor(matrix(shape[0], 3, dtype=dtype) @ matrix(3, shape[1], dtype=dtype, seed=1))
    U, S, V = gc.svd_lowrank(A, q=4)
    close((U * S.unsqueeze(-2).to(U.dtype)) @ herm(V), A)
    U, S, V = gc.pca_lowrank(A, q=4)
    close((U * S.unsqueeze(-2).to(U.dtype)) @ herm(V), A - A.mean(0))


# -- derivatives ------------------------------------------------------------------------------------------------------

#: Functions of any square matrix whose results do not depend on signs and phases of vectors.
INVARIANT: dict[str, Callable[[gc.Tensor], Any]] = {
    "inv": linalg.inv,
    "det": linalg.det,
    "slogdet": linalg.slogdet,
    "matrix_exp": lambda x: linalg.matrix_exp(x / 4),
    "pinv of a tall matrix": lambda x: linalg.pinv(x[:, :2]),
    "pinv of a Hermitian matrix": lambda x: linalg.pinv(hermitian(x), hermitian=True),
    "cholesky": lambda x: linalg.cholesky(positive(x)),
    "upper cholesky": lambda x: linalg.cholesky(positive(x), upper=True),
    "cholesky_inverse": lambda x: gc.cholesky_inverse(linalg.cholesky(positive(x))),
    "cholesky_solve": lambda x: gc.cholesky_solve(x, linalg.cholesky(positive(x), upper=True), upper=True),
    "eigh": lambda x: _spectral(*linalg.eigh(hermitian(x))),
    "eigvalsh": lambda x: linalg.eigvalsh(hermitian(x)),
    "eig": lambda x: _spectral_general(*linalg.eig(x)),
    "eigvals": lambda x: linalg.eigvals(x).pow(3).sum(),
    "svd": lambda x: _singular(*linalg.svd(x)),
    "svd of a tall matrix": lambda x: _singular(*linalg.svd(x[:, :2], full_matrices=False)),
    "svd of a wide matrix": lambda x: _singular(*linalg.svd(x[:2], full_matrices=False)),
    "svdvals": linalg.svdvals,
    "nuclear norm": lambda x: linalg.matrix_norm(x, "nuc"),
    "spectral norm": lambda x: linalg.matrix_norm(x, 2),
    "qr": linalg.qr,
    "qr of a tall matrix": lambda x: linalg.qr(x[:, :2]),
    "qr of a wide matrix": lambda x: linalg.qr(x[:2]),
    "lu": lambda x: linalg.lu(x)[1:],
    "lu of a tall matrix": lambda x: linalg.lu(x[:, :2])[1:],
    "lu of a wide matrix": lambda x: linalg.lu(x[:2])[1:],
    "lu_factor": lambda x: linalg.lu_factor(x).LU,
    "lu_unpack": lambda x: gc.lu_unpack(*linalg.lu_factor(x))[1:],
    "solve": lambda x: linalg.solve(x, x[:, :2] * 2),
    "solve from the right": lambda x: linalg.solve(x, x[:2] * 2, left=False),
    "solve_triangular": lambda x: linalg.solve_triangular(x, x * x, upper=True),
    "solve with a unit triangle": lambda x: linalg.solve_triangular(
        x / 9, x[:2], upper=False, left=False, unitriangular=True
    ),
    "lu_solve": lambda x: linalg.lu_solve(*linalg.lu_factor(x), x[:, :2]),
    "adjoint lu_solve": lambda x: linalg.lu_solve(*linalg.lu_factor(x), x[:2], left=False, adjoint=True),
    "householder_product": lambda x: linalg.householder_product(x / 9, x[0, :2] / 9),
    "lstsq": lambda x: linalg.lstsq(x[:, :2], x[:, 2:], driver="gelsd")[:2],
    "norms": lambda x: (linalg.norm(x), linalg.norm(x, 1), linalg.vector_norm(x, 3.5), linalg.vector_norm(x, dim=1)),
    "cond": lambda x: linalg.cond(x, "fro"),
}  # fmt: skip


def _spectral(values: gc.Tensor, vectors: gc.Tensor) -> Any:
    """Return the matrix with the same eigenvectors and a function of the eigenvalues."""
    return (vectors * values.sin().unsqueeze(-2).to(vectors.dtype)) @ herm(vectors)


def _spectral_general(values: gc.Tensor, vectors: gc.Tensor) -> Any:
    return (vectors * values.sin().unsqueeze(-2)) @ linalg.inv(vectors), vectors.abs().square().sum(-1)


def _singular(U: gc.Tensor, S: gc.Tensor, Vh: gc.Tensor) -> Any:
    return S, (U * S.sin().unsqueeze(-2).to(U.dtype)) @ Vh, (U * S.cos().unsqueeze(-2).to(U.dtype)) @ herm(U)


@DTYPES
@pytest.mark.parametrize("name", INVARIANT)
def test_derivatives(name: str, dtype: str) -> None:
    A = matrix(4, 4, dtype=dtype, seed=3) + 3 * np.diag([1.0, 2, 3, 4])
    # Beside the diagonal an imaginary part of R or of eigenvectors is free: second differences see other choices.
    check_derivatives(INVARIANT[name], A, rtol=2e-5, atol=2e-6)


def test_derivatives_of_a_batch() -> None:
    check_derivatives(lambda A, B: linalg.solve(A, B), regular(3, batch=(2, 1)), matrix(3, 3, 2))
    check_derivatives(lambda A: linalg.det(A), matrix(2, 3, 3, 3))
    check_derivatives(lambda A: linalg.inv(A), regular(3, "complex128", (2,)))


# -- singular matrices ------------------------------------------------------------------------------------------------


@DTYPES
@pytest.mark.parametrize("rank", [3, 2, 1, 0])
def test_determinant_of_singular_matrices(rank: int, dtype: str) -> None:
    """The gradient is the matrix of cofactors; so is the gradient of the gradient right, whatever the rank."""
    left, right = matrix(4, rank, dtype=dtype), matrix(rank, 4, dtype=dtype, seed=1)
    check_derivatives(linalg.det, left @ right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("place", [(0, 0), (0, 1), (1, 0), (2, 2)])
@pytest.mark.parametrize("others", ["zeros", "ones", "eye"])
def test_determinants_of_what_is_not_a_number(others: str, place: tuple[int, int]) -> None:
    A = getattr(np, others)(3) if others == "eye" else getattr(np, others)((3, 3))
    A[place] = np.nan
    pair = gc.tensor(np.stack([np.eye(3), A]))
    assert linalg.det(pair).isnan().tolist() == [False, True]
    assert linalg.slogdet(pair).logabsdet.isnan().tolist() == [False, True]


def test_cofactors_of_a_zero_matrix() -> None:
    A = gc.zeros(2, 2, dtype=gc.float64, requires_grad=True)
    (grad,) = gc.autograd.grad(linalg.det(A), A, create_graph=True)
    assert grad.tolist() == [[0, 0], [0, 0]]
    (second,) = gc.autograd.grad(grad[0, 0], A)
    assert second.tolist() == [[0, 0], [0, 1]]


def test_equal_singular_values_do_no_harm_to_sums() -> None:
    A = gc.eye(3, dtype=gc.float64).requires_grad_()
    linalg.svd(A).S.sum().backward()
    close(A.grad, gc.eye(3, dtype=gc.float64))
    A.grad = None
    linalg.eigh(A).eigenvalues.sum().backward()
    close(A.grad, gc.eye(3, dtype=gc.float64))


def test_gradients_of_norms_at_zero_are_zero() -> None:
    for ord in (0, 1, 2, 3, 1.5, float("inf")):
        x = gc.zeros(3, dtype=gc.float64, requires_grad=True)
        linalg.vector_norm(x, ord).backward()
        assert x.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", ["inv", "solve", "cholesky", "lu_factor"])
def test_failures_name_the_matrix(name: str) -> None:
    bad = gc.stack([gc.eye(3), gc.diag(gc.tensor([1.0, 0.0, -1.0]))])
    args = (bad, gc.ones(3, 1)) if name == "solve" else (bad,)
    with pytest.raises(linalg.LinAlgError, match=r"\(Batch element 1\)"):
        getattr(linalg, name)(*args)
    info = getattr(linalg, f"{name}_ex")(*args)[-1]
    assert info.tolist() == [0, 2]
    assert info.dtype is gc.int32


def test_messages() -> None:
    singular = gc.zeros(2, 2)
    with pytest.raises(linalg.LinAlgError, match="diagonal element 1 is zero, the inversion could not be completed"):
        linalg.inv(singular)
    with pytest.raises(
        linalg.LinAlgError, match=r"torch.linalg.solve: The solver failed because the input matrix is singular"
    ):
        linalg.solve(singular, gc.ones(2))
    with pytest.raises(linalg.LinAlgError, match="the leading minor of order 1 is not positive-definite"):
        linalg.cholesky(singular)
    with pytest.raises(linalg.LinAlgError, match="contained non-finite values"):
        linalg.svd(gc.full((2, 2), float("nan")))
    with pytest.raises(RuntimeError, match="A must be batches of square matrices, but they are 2 by 3 matrices"):
        linalg.det(gc.ones(2, 3))
    with pytest.raises(RuntimeError, match=r"Incompatible shapes of A and B for the equation AX = B \(2x2 and 3x1\)"):
        linalg.solve(gc.eye(2), gc.ones(3))
    with pytest.raises(RuntimeError, match=r"Expected a floating point or complex tensor as input\. Got Long"):
        linalg.inv(gc.eye(2, dtype=gc.int64))
    with pytest.raises(RuntimeError, match=r"linalg\.matrix_norm: Order 3 not supported"):
        linalg.norm(gc.ones(2, 2), 3)
    for tau, other, message in [
        ((), (2,), "Expected tau to have one dimension less than input, but got tau.ndim equal to 1"),
        ((3,), (2,), r"Expected batch dimensions of tau to be equal to input.shape\[:-2\], but got \[3\]"),
        ((2,), (), "Expected other to have the same number of dimensions as input"),
        ((2,), (3,), r"Expected batch dimensions of other .* but got \[3\]"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            gc.ormqr(gc.ones(2, 4, 2), gc.ones(*tau, 2), gc.ones(*other, 4, 3))
        if "tau" in message:
            with pytest.raises(RuntimeError, match=message):
                linalg.householder_product(gc.ones(2, 4, 2), gc.ones(*tau, 2))
    assert issubclass(linalg.LinAlgError, RuntimeError)


def test_a_loss_that_depends_on_phases_is_refused() -> None:
    A = gc.tensor(matrix(3, 3, dtype="complex128"), requires_grad=True)
    with pytest.raises(RuntimeError, match=r"specified up to multiplication by e\^\{i phi\}"):
        linalg.eigh(hermitian(A)).eigenvectors[0, 0].imag.backward()
    with pytest.raises(RuntimeError, match="singular vectors"):
        linalg.svd(A).U[0, 0].imag.backward()
    with pytest.raises(RuntimeError, match="depends on Q, which is not computed when mode='r'"):
        linalg.qr(A, mode="r").R.abs().sum().backward()


# -- sizes and dtypes -------------------------------------------------------------------------------------------------


def test_empty_matrices() -> None:
    empty = gc.zeros(0, 0)
    assert linalg.det(empty) == 1
    assert linalg.slogdet(empty).logabsdet == 0
    assert linalg.inv(empty).shape == (0, 0)
    assert linalg.matrix_exp(gc.zeros(2, 0, 0)).shape == (2, 0, 0)
    assert linalg.eigh(empty).eigenvectors.shape == (0, 0)
    assert linalg.svd(gc.zeros(0, 3)).Vh.shape == (3, 3)
    assert linalg.solve(gc.zeros(2, 0, 0), gc.zeros(2, 0, 3)).shape == (2, 0, 3)


@pytest.mark.parametrize("name", ["eig", "eigh", "svd"])
def test_second_gradients_of_empty_decompositions(name: str) -> None:
    A = gc.zeros(2, 0, 0, dtype=gc.float64, requires_grad=True)
    outs = getattr(linalg, name)(A)
    upstream = [gc.ones_like(out, requires_grad=True) for out in outs]
    (grad,) = gc.autograd.grad(outs, A, upstream, create_graph=True)
    second = gc.autograd.grad(grad, upstream, gc.ones_like(grad))
    assert [t.shape for t in second] == [t.shape for t in upstream]


@pytest.mark.parametrize("dtype", [gc.float16, gc.float32])
def test_precision_of_results(dtype: gc.dtype) -> None:
    A = gc.tensor(regular(3), dtype=dtype, requires_grad=True)
    out = linalg.inv(A)
    out.sum().backward()
    assert out.dtype is dtype
    assert A.grad.dtype is dtype
    np.testing.assert_allclose(out.detach().numpy(), np.linalg.inv(A.detach().double().numpy()), atol=2e-3)


def test_results_have_names() -> None:
    A = gc.eye(2)
    assert linalg.svd(A)._fields == ("U", "S", "Vh")
    assert linalg.eigh(A)._fields == ("eigenvalues", "eigenvectors")
    assert linalg.lstsq(A, A)._fields == ("solution", "residuals", "rank", "singular_values")
    assert gc.svd(A)._fields == ("U", "S", "V")


def test_nodes_have_pytorchs_names() -> None:
    A = gc.eye(2, requires_grad=True)
    names = {
        "LinalgInvExBackward0": linalg.inv(A), "LinalgSolveExBackward0": linalg.solve(A, A),
        "LinalgDetBackward0": linalg.det(A),
        "LinalgCholeskyExBackward0": linalg.cholesky(A), "LinalgEighBackward0": linalg.eigvalsh(A),
        "LinalgSvdBackward0": linalg.svd(A).S, "LinalgQrBackward0": linalg.qr(A).R,
        "LinalgLuBackward0": linalg.lu(A).L,
        "LinalgVectorNormBackward0": linalg.norm(A), "LinalgMatrixExpBackward0": linalg.matrix_exp(A),
        "LinalgPinvBackward0": linalg.pinv(A), "LinalgSlogdetBackward0": linalg.slogdet(A).logabsdet,
        "LinalgSolveTriangularBackward0": linalg.solve_triangular(A, A, upper=True), "TraceBackward0": A.trace(),
    }  # fmt: skip
    for name, out in names.items():
        assert out.grad_fn.name() == name


@pytest.mark.parametrize("dtype", [gc.float32, gc.complex64], ids=str)
@pytest.mark.parametrize("shape", [(16, 16), (2, 3, 20, 17), (17, 20), (0, 16, 16)], ids=str)
def test_decompositions_in_single_precision(shape: tuple[int, ...], dtype: gc.dtype) -> None:
    """From a size on they have a way of their own."""
    a = gc.randn(*shape, dtype=dtype)
    close = functools.partial(np.testing.assert_allclose, rtol=0, atol=2e-5)
    for full in (False, True):
        u, s, vh = gc.linalg.svd(a, full_matrices=full)
        k = s.shape[-1]
        close(((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :]).numpy(), a.numpy())
        close((u.mH @ u).numpy(), np.broadcast_to(np.eye(u.shape[-1]), (*shape[:-2], *u.shape[-1:] * 2)))
    close(gc.linalg.svdvals(a).numpy(), s.numpy())
    assert u.is_contiguous()
    assert vh.is_contiguous()
    assert s.dtype is gc.float32
    h = a.mH @ a / shape[-2]
    for uplo in "LU":
        half = h.tril() if uplo == "L" else h.triu()  # the other half is not looked at
        values, vectors = gc.linalg.eigh(half, UPLO=uplo)
        close((vectors * values.unsqueeze(-2) @ vectors.mH).numpy(), h.numpy())
        close(gc.linalg.eigvalsh(half, UPLO=uplo).numpy(), values.numpy())


@pytest.mark.parametrize("n", [4, 20])
def test_decompositions_of_what_is_not_finite(n: int) -> None:
    a = gc.full((n, n), float("nan"))
    for decompose in (gc.linalg.svd, gc.linalg.svdvals, gc.linalg.eigh, gc.linalg.eigvalsh):
        with pytest.raises(RuntimeError, match="converge"):
            decompose(a)


@pytest.mark.parametrize("hermitian", [False, True])
def test_systems_of_indefinite_matrices(hermitian):
    a = gc.randn(2, 5, 5, dtype=gc.complex128)
    a = a + (a.mH if hermitian else a.mT)
    b = gc.randn(2, 5, 3, dtype=gc.complex128, requires_grad=True)
    factors = gc.linalg.ldl_factor(a, hermitian=hermitian)
    assert gc.allclose(a @ gc.linalg.ldl_solve(*factors, b, hermitian=hermitian), b)
    assert gc.autograd.gradcheck(lambda b: gc.linalg.ldl_solve(*factors, b, hermitian=hermitian), b)


def test_factors_of_indefinite_matrices_have_no_derivative():
    a = gc.eye(3, requires_grad=True)
    factors, pivots = gc.linalg.ldl_factor(a)
    with pytest.raises(NotImplementedError, match=r"derivative for linalg.ldl_factor is not implemented"):
        factors.sum().backward()
    leaf = factors.detach().requires_grad_()
    with pytest.raises(NotImplementedError, match=r"derivative for 'linalg.ldl_solve: LD' is not implemented"):
        gc.linalg.ldl_solve(leaf, pivots, gc.ones(3, 1)).sum().backward()


def test_singular_matrices_have_no_ldl_factors():
    with pytest.raises(gc.linalg.LinAlgError, match=r"Batch element 1\): D\[1,1\] is zero"):
        gc.linalg.ldl_factor(gc.stack([gc.eye(3), gc.zeros(3, 3)]))
    assert gc.linalg.ldl_factor_ex(gc.zeros(3, 3)).info.item() == 1


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_euclidean_norms_of_complex_numbers(dim: int | None) -> None:
    parts = np.random.default_rng(0).standard_normal((2, 3, 4))
    x = gc.tensor(parts[0] + 1j * parts[1], requires_grad=True)
    assert gc.autograd.gradcheck(lambda x: gc.linalg.vector_norm(x, dim=dim), x, check_forward_ad=True)
    assert gc.autograd.gradgradcheck(lambda x: gc.linalg.vector_norm(x, dim=dim), x)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [gc.float64, gc.complex128])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 2, 4), (4, 3), (3, 4)])
def test_subspaces_beyond_the_singular_values(shape: tuple[int, ...], dtype: Any) -> None:
    gc.manual_seed(len(shape) + shape[-1])
    a, weights = gc.randn(shape, dtype=dtype, requires_grad=True), gc.randn(2, 6, 6, dtype=dtype)

    def projections(a: Any) -> Any:
        u, s, vh = linalg.svd(a)
        k = s.shape[-1]
        parts = [x @ x.mH for x in (u[..., k:], vh.mH[..., k:])]
        return sum(
            (w[: p.shape[-1], : p.shape[-1]] * p).abs().pow(2).sum() for w, p in zip(weights, parts, strict=True)
        )

    assert gc.autograd.gradcheck(projections, a, check_forward_ad=True)
    assert gc.autograd.gradgradcheck(projections, a, check_fwd_over_rev=True)
    assert gc.autograd.grad(projections(a), a)[0].abs().max() > 1e-3


def test_a_null_vector_of_one_dimension() -> None:
    a = gc.randn(3, 4, dtype=gc.float64, requires_grad=True)

    def ratio(a: Any) -> Any:
        null = linalg.svd(a).Vh[-1]
        return null[:3] / null[3]

    assert gc.autograd.gradcheck(ratio, a, check_forward_ad=True)


def _projection(vectors: Any) -> Any:
    return vectors @ vectors.mH


#: Of vectors left and right of the values 3, 2, 2, 1 (or 1, 2, 2, 3): what no choice of the vectors changes.
OF_REPEATED_VALUES: dict[str, Callable[[Any, Any], Any]] = {
    "the product": lambda left, right: left @ right,
    "the first on the left": lambda left, right: _projection(left[:, :1]),
    "the first on the right": lambda left, right: _projection(right[:1].mH),
    "the pair on the left": lambda left, right: _projection(left[:, 1:3]),
    "the pair on the right": lambda left, right: _projection(right[1:3].mH),
    "the pair on both": lambda left, right: left[:, 1:3] @ right[1:3],
}


def _with_repeated_values(seed: int, hermitian: bool, dtype: Any) -> Any:
    """Return a matrix whose repeated values are equal up to rounding, or a diagonal matrix without a seed."""
    diagonal = gc.tensor([3.0, 2.0, 2.0, 1.0], dtype=dtype).diag()
    if not seed:
        return diagonal
    gc.manual_seed(seed)
    left, right = (linalg.qr(gc.randn(4, 4, dtype=dtype)).Q for _ in range(2))
    return left @ diagonal @ (left if hermitian else right).mH


def _factors(a: Any, hermitian: bool) -> Any:
    if hermitian:
        values, vectors = linalg.eigh((a + a.mH) / 2)
        return vectors, values, vectors.mH
    return linalg.svd(a)


@pytest.mark.parametrize("dtype", [gc.float64, gc.complex128], ids=str)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("name", OF_REPEATED_VALUES)
def test_what_repeated_values_leave_open_is_not_seen(name: str, hermitian: bool, seed: int, dtype: Any) -> None:
    a = _with_repeated_values(seed, hermitian, dtype).requires_grad_()
    weights = gc.randn(4, 4, dtype=dtype)

    def loss(a: Any) -> Any:
        left, _, right = _factors(a, hermitian)
        return (weights * OF_REPEATED_VALUES[name](left, right)).sum().abs()

    assert gc.autograd.gradcheck(loss, a, atol=1e-4)
    largest = gc.autograd.grad(loss(a), a)[0].abs().max()
    assert (largest < 1e-9) if hermitian and name == "the product" else (largest > 1e-3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("hermitian", [False, True])
def test_what_repeated_values_do_not_determine_is_not_finite(hermitian: bool, seed: int) -> None:
    """Check that gradients of one vector of a pair, and of a function of the matrix by its vectors, are not finite."""
    a = _with_repeated_values(seed, hermitian, gc.float64).requires_grad_()
    weights = gc.randn(4, 4, dtype=gc.float64)

    left, values, right = _factors(a, hermitian)
    for out in (left[:, 1:2] @ right[1:2], left * values.square() @ right):
        grad = gc.autograd.grad((weights * out).sum(), a, retain_graph=True)[0]
        assert not grad.isfinite().all()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["eigh", "svd", "eig"])
def test_forward_mode_at_repeated_values_is_right_or_not_finite(kind: str, seed: int) -> None:
    """Compare it in directions that rotate the vectors of a pair, and in one that leaves them where they are."""
    a = _with_repeated_values(seed, kind != "svd", gc.float64)
    weights = gc.randn(4, 4, dtype=gc.float64)
    across = gc.randn(4, 4, dtype=gc.float64)

    def function_of_matrix(a: Any) -> Any:
        if kind == "eig":
            values, vectors = linalg.eig(a)
            return (weights * (vectors * values.exp() @ linalg.inv(vectors)).real).sum()
        left, values, right = _factors(a, kind == "eigh")
        return (weights * (left * values.exp() @ right)).sum()

    def tangent(direction: Any) -> Any:
        return gc.func.jvp(function_of_matrix, (a,), (direction,))[1]

    assert not tangent(across).isfinite()
    value = tangent(a)
    step = 1e-6 * a
    difference = (function_of_matrix(a + step) - function_of_matrix(a - step)) / 2e-6
    assert abs(value - difference) < 1e-6 * max(1.0, abs(difference))


@pytest.mark.parametrize("seed", range(4))
def test_repeated_eigenvalues_of_general_matrices(seed: int) -> None:
    gc.manual_seed(seed)
    basis = gc.eye(4, dtype=gc.float64) + gc.randn(4, 4, dtype=gc.float64) * seed / 20
    a = (basis @ _with_repeated_values(0, False, gc.float64) @ linalg.inv(basis)).detach().requires_grad_()
    weights = gc.randn(4, 4, dtype=gc.float64)

    def projection(a: Any) -> Any:
        values, vectors = linalg.eig(a)
        pair = (values.detach() - 2).abs() < 0.5
        return (weights * (vectors[:, pair] @ linalg.inv(vectors)[pair]).real).sum()

    assert gc.autograd.gradcheck(projection, a, atol=1e-4)
    assert gc.autograd.grad(projection(a), a)[0].abs().max() > 1e-3
    assert gc.autograd.gradcheck(lambda a: linalg.eig(a).eigenvalues.pow(2).sum().real, a)
    values, vectors = linalg.eig(a)
    square = vectors * values.square() @ linalg.inv(vectors)
    assert not gc.autograd.grad((weights * square.real).sum(), a)[0].isfinite().all()


def test_a_loss_that_depends_on_the_choice_of_a_basis_is_refused() -> None:
    a = gc.randn(2, 5, dtype=gc.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="depends on the choice of the basis"):
        linalg.svd(a).Vh[2].sum().backward()
    with pytest.raises(RuntimeError, match="depends on the choice of the basis"):
        linalg.svd(a.mH).U[..., 3].sum().backward()


def test_pseudo_inverse_with_several_tolerances_for_each_matrix() -> None:
    a = gc.randn(2, 5, 3, dtype=gc.float64, requires_grad=True)
    tolerances = gc.tensor([[1e-3], [1e-4]], dtype=gc.float64)
    out = linalg.pinv(a, rtol=tolerances)
    assert gc.autograd.grad(out.sum(), a)[0].shape == a.shape
    assert gc.autograd.gradcheck(lambda a: linalg.pinv(a, rtol=tolerances), a, check_forward_ad=True)
    assert gc.autograd.gradgradcheck(lambda a: linalg.pinv(a, rtol=tolerances), a)


@pytest.mark.parametrize("decompose", [gc.linalg.svd, gc.linalg.eigh, gc.linalg.eig])
@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)], ids=str)
def test_decompositions_of_empty_matrices_have_gradients(decompose: Any, shape: tuple[int, ...]) -> None:
    x = gc.zeros(*shape, dtype=gc.float64, requires_grad=True)
    sum(t.abs().sum() for t in decompose(x)).backward()
    assert x.grad is not None
    assert x.grad.shape == x.shape


def test_values_of_a_large_matrix_are_not_taken_for_equal() -> None:
    x, weight = (gc.tensor(draw, dtype=gc.float32) for draw in np.random.default_rng(2).normal(size=(2, 200, 200)))
    x.requires_grad_()
    (gc.linalg.svd(x, full_matrices=False)[0] * weight).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
