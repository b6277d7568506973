"""``gradcore.scipy.linalg`` against SciPy, and its derivatives; a line for each function."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.autograd import gradcheck, gradgradcheck
from gradcore.scipy import linalg
from tests.references import reference_call

scipy_linalg = pytest.importorskip("scipy.linalg")

#: Letters are arrays: A, B squares, S, T positive definite, R (4, 3), L (3, 4), V, W vectors, M columns, Z complex,
#: H Hermitian, G diagonals of a band, U upper and O lower halves of a definite band, E a batch of squares, N a number.
CALLS = """
solve: N, N; N, V; A, V; A, M; S, M, assume_a="pos"; S, V, lower=True, assume_a="sym"; Z, M; A, V, transposed=True; E, M
inv: A; E; S, assume_a="pos"
solve_triangular: A, V; A, M, lower=True; A, V, "T"; Z, M, 2; A, M, 1, True, True
solve_banded: (1, 2), G, V; (1, 2), G, M; (1, 2), G * (1 + 1j), M
solveh_banded: U, V; O, M, lower=True
cholesky_banded: U; O, lower=True
cho_solve_banded: (U, False), V; (O, True), M
cho_solve: (S, True), V; (S, False), M; (H, True), M
lu_solve: (A, P), V; (A, P), M, 1; (Z, P), M, 2; (Z, P), V, 1
solve_toeplitz: (V, W), M; V, V; A, M; A, V; A, A
matmul_toeplitz: (V, W), M; V, W; (Z[0], W), V
solve_circulant: V, W; V, M; N, N
toeplitz: V, W; Z[0]; V; N; N, N; N, V; V, N; A, N; A, V
hankel: V, W; V
circulant: V; Z[1]; N; A
block_diag: A, R, V; R, L
companion: V
leslie: V, W[:3]; A[:, :2], N; V, A[:, :3]
khatri_rao: R, A[:, :3]; R, R
kron: R, L
expm: A; E; Z; N
expm_frechet: A, B; A, B, compute_expm=False
logm: S; A; Z
sqrtm: S; A; Z
signm: A; S
fractional_matrix_power: S, 0.3; S, 3
cosm: A; Z
sinm: A; Z
tanm: A / 9
coshm: A
sinhm: A
tanhm: A
solve_sylvester: S, T, B; Z, T, B
solve_continuous_lyapunov: S, B; Z, B; N, N
solve_discrete_lyapunov: A / 9, B; A / 9, B, method="bilinear"
solve_continuous_are: A, B, S, T
solve_discrete_are: A, B, S, T
cholesky: S; H; S, lower=True; N
det: A; E; Z
eig: A, right=False; Z, left=True; Z; A, S, right=False
eigvals: A; Z; A, S; E
lstsq: R, V; R, M; L, V[:3]; A, V; Z, M; R, V, 1e-3
pinvh: S; H; S, return_rank=True
fiedler: V; N
fiedler_companion: V; W[:2]; V[:3]; Z[0]
convolution_matrix: V, 3; V, 3, "valid"; W, 3, "same"; V, 6, mode="valid"; V, 6, "same"; Z[0], 2
norm: A; V; A, 1; A, "nuc"; V, 3; A, axis=1
svdvals: R; A
pinv: R; L; R, return_rank=True; Z
polar: A; R; R.T, side="left"; Z
eigvalsh: S; S, T; S, T, type=2; H; S, subset_by_index=(1, 2)
eigh: S, T; H; S, T, type=3
lu: A; R; A, True
qr: A; R, mode="economic"
svd: R, full_matrices=False; R, compute_uv=False
orth: R
"""
#: Functions of which the results are determined up to signs or phases: absolute values are compared and differentiated.
UP_TO_SIGN = ("eig", "eigvals", "eigh", "qr", "svd", "orth")


def arrays() -> dict[str, Any]:
    random = np.random.default_rng(11)

    def normal(*shape: int) -> Any:
        return random.normal(size=shape)

    definite = [(x := normal(4, 4)) @ x.T + 4 * np.eye(4) for _ in range(2)]
    z = normal(4, 4) + 1j * normal(4, 4) + 6 * np.eye(4)
    upper = np.vstack([normal(4) / 3, normal(4) / 3, 4 + normal(4) ** 2])
    return {
        "A": normal(4, 4) + 5 * np.eye(4), "B": normal(4, 4), "S": definite[0], "T": definite[1], "R": normal(4, 3),
        "L": normal(3, 4), "V": normal(4) + np.array([4.0, 0, 0, 0]), "W": normal(4) + np.array([4.0, 0, 0, 0]),
        "M": normal(4, 2), "Z": z, "H": z @ z.conj().T, "E": normal(2, 4, 4) + 5 * np.eye(4),
        "P": np.array([2, 1, 3, 3]), "N": np.array(2.5),
        "G": normal(4, 4) / 3 + np.array([[0.0], [0], [4], [0]]), "U": upper, "O": upper[::-1].copy(),
    }  # fmt: skip


LINES = dict(line.split(": ", 1) for line in CALLS.strip().splitlines())
EXPRESSIONS = [f"{name}({call})" for name, calls in LINES.items() for call in calls.split("; ")]


def leaves_of(value: Any) -> list[Any]:
    return [x for each in value for x in leaves_of(each)] if isinstance(value, (tuple, list)) else [value]


def evaluated(expression: str, module: Any, values: dict[str, Any]) -> list[Any]:
    name, _, call = expression.partition("(")
    found = leaves_of(eval(f"function({call}", {"function": getattr(module, name, np.kron), **values}))
    return [abs(x) if name in UP_TO_SIGN else x for x in found]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_values_and_derivatives(expression: str) -> None:
    drawn = arrays()
    strided = {k: gc.tensor(np.repeat(v, 2, -1))[..., ::2] if v.ndim else gc.tensor(v) for k, v in drawn.items()}
    with reference_call():
        theirs = evaluated(expression, scipy_linalg, drawn)
    ours = evaluated(expression, linalg, strided)
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        number = mine.resolve_conj().numpy() if isinstance(mine, gc.Tensor) else mine
        if expression.startswith("cholesky_banded"):
            other = np.where(number == 0, 0, other)  # what SciPy leaves beyond the ends of diagonals
        np.testing.assert_allclose(number, other, rtol=1e-8, atol=1e-9)

    names = [k for k in drawn if k != "P" and re.search(rf"\b{k}\b", expression.partition("(")[2])]
    hermitian = [k for k in names if k in "STH"]

    def results(*values: Any) -> Any:
        given = dict(zip(names, values, strict=True))
        given.update({k: (given[k] + given[k].mH) / 2 for k in hermitian})
        return evaluated(expression, linalg, {**strided, **given})

    leaves = [gc.tensor(drawn[name], requires_grad=True) for name in names]
    chosen = [i for i, x in enumerate(results(*leaves)) if isinstance(x, gc.Tensor) and x.requires_grad]
    assert chosen

    def call(*values: Any) -> Any:
        found = results(*values)
        return tuple(found[i] for i in chosen)

    assert gradcheck(call, leaves, fast_mode=True, check_forward_ad=True, atol=1e-4, nondet_tol=1e-9)
    if not expression.startswith("solve_discrete_are"):  # as the continuous one
        assert gradgradcheck(call, leaves, fast_mode=True, atol=1e-4, rtol=1e-2, nondet_tol=1e-9)


def test_every_function_has_a_line() -> None:
    assert {*linalg.__all__} - {*LINES} == {
        "LinAlgError", "cho_factor", "funm", "lu_factor", "null_space", *OF_THEIR_SIZE
    }  # fmt: skip


OF_THEIR_SIZE = {
    "hilbert": "4", "invhilbert": "4", "pascal": "4, kind='lower'", "invpascal": "4", "hadamard": "4, float",
    "helmert": "4", "dft": "5, 'sqrtn'",
}  # fmt: skip


@pytest.mark.parametrize("name", OF_THEIR_SIZE)
def test_matrices_of_their_size(name: str) -> None:
    ours, theirs = (eval(f"m.{name}({OF_THEIR_SIZE[name]})", {"m": m}) for m in (linalg, scipy_linalg))
    assert isinstance(ours, gc.Tensor)
    np.testing.assert_array_equal(ours.numpy(), theirs)
    assert ours.numpy().dtype == theirs.dtype


def test_eigenvectors_of_a_pair() -> None:
    """Both kinds solve their equations, in which the order and the phases do not matter."""
    drawn = arrays()
    a, b = gc.tensor(drawn["Z"]), gc.tensor(drawn["T"]).to(gc.complex128)
    w, left, right = linalg.eig(a, b, left=True)
    gc.testing.assert_close(a @ right, b @ right * w)
    gc.testing.assert_close(a.mH @ left, b.mH @ left * w.conj())
    gc.testing.assert_close(gc.linalg.vector_norm(left, dim=0), gc.ones(4, dtype=gc.float64))
    assert gradcheck(lambda a: linalg.eig(a, b, left=True)[1].abs(), a.requires_grad_(), fast_mode=True)


def test_toeplitz_systems_of_a_corner_of_two() -> None:
    """The corner of the matrix is the column's: the row's has no gradient."""
    c, r, b = (gc.tensor(x, dtype=gc.float64, requires_grad=True) for x in ([5.0, 1, 2], [7.0, 3, 1], [1.0, 2, 3]))
    solved = linalg.solve_toeplitz((c, r), b)
    dense = linalg.solve(linalg.toeplitz(c, r), b)
    gc.testing.assert_close(solved, dense)
    for mine, other in zip(*(gc.autograd.grad((x**3).sum(), (c, r, b)) for x in (solved, dense)), strict=True):
        gc.testing.assert_close(mine, other)
    f = lambda c, b: linalg.solve_toeplitz((c, r.detach()), b)  # noqa: E731
    columns = gc.stack([c.detach(), c.detach() * 2])
    gc.testing.assert_close(gc.func.vmap(f, (0, None))(columns, b.detach())[1], f(columns[1], b.detach()))
    on_cpu = [gc.tensor(x, device="cpu") for x in ([0.0, 1.0], [1.0, 2.0])]
    with pytest.raises(gc.linalg.LinAlgError):
        linalg.solve_toeplitz(*on_cpu)


def test_factors() -> None:
    values = {k: gc.tensor(v) for k, v in arrays().items()}
    for lower in (False, True):
        c, low = linalg.cho_factor(values["S"], lower)
        wanted = scipy_linalg.cholesky(values["S"].numpy(), lower)
        np.testing.assert_allclose(c, wanted)
        assert low is lower
    a = gc.tensor(arrays()["A"], requires_grad=True)
    ours, theirs = linalg.lu_factor(a), scipy_linalg.lu_factor(a.detach().numpy())
    np.testing.assert_allclose(ours[0].detach(), theirs[0])
    assert ours[1].tolist() == theirs[1].tolist()
    assert gradcheck(lambda a: linalg.lu_solve(linalg.lu_factor(a), values["M"]), a, fast_mode=True)
    assert gradcheck(lambda s: linalg.cho_solve(linalg.cho_factor(s + s.mT), values["M"]), values["S"].requires_grad_())
    n = linalg.null_space(values["L"])
    np.testing.assert_allclose(values["L"] @ n, 0, atol=1e-12)
    assert n.shape == (4, 1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("name", ["null_space", "orth"])
def test_gradients_of_subspaces(name: str, rows: int) -> None:
    """Projections have gradients, and a single vector up to its sign."""
    gc.manual_seed(rows)
    a, weights = gc.randn(rows, 4, dtype=gc.float64, requires_grad=True), gc.randn(4, 4, dtype=gc.float64)

    def loss(a: Any) -> Any:
        basis = linalg.null_space(a) if name == "null_space" else linalg.orth(a.mT)
        return basis[1:, 0] / basis[0, 0] if basis.shape[-1] == 1 else (weights * (basis @ basis.mT)).sum()

    assert gradcheck(loss, a, check_forward_ad=True)
    assert gradgradcheck(loss, a, atol=1e-4)
    assert gc.autograd.grad(loss(a).sum(), a)[0].abs().max() > 1e-3


def test_complex_results_of_real_matrices() -> None:
    a = np.array([[-1.0, 2.0], [0.3, -4.0]])
    for name in ("sqrtm", "logm"):
        ours, theirs = getattr(linalg, name)(gc.tensor(a)), getattr(scipy_linalg, name)(a)
        np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-10)
        assert gradcheck(
            getattr(linalg, name), gc.tensor(a, requires_grad=True), check_forward_ad=True, nondet_tol=1e-9
        )


@pytest.mark.parametrize("name", ["sqrtm", "logm", "fractional_matrix_power"])
@pytest.mark.parametrize("seed", range(12))
def test_negative_eigenvalues_have_the_principal_branch(name: str, seed: int) -> None:
    """Rounding moves an eigenvalue of a real matrix to either side of the cut along the negative axis."""
    basis = np.random.default_rng(seed).standard_normal((4, 4))
    block = [[0.4, 1.1, 0, 0], [-1.1, 0.4, 0, 0], [0, 0, -0.7, 0], [0, 0, 0, 1.9]]
    matrix = basis @ block @ np.linalg.inv(basis)
    values, vectors = np.linalg.eig(matrix)
    values = np.where(values.imag == 0, values.real, values) + 0j  # without the sign of zero
    function = {"sqrtm": np.sqrt, "logm": np.log, "fractional_matrix_power": lambda x: x**0.3}[name]
    expected = vectors @ np.diag(function(values)) @ np.linalg.inv(vectors)
    args = (0.3,) if name == "fractional_matrix_power" else ()
    np.testing.assert_allclose(getattr(linalg, name)(gc.tensor(matrix), *args).numpy(), expected, atol=1e-8)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="square matrices"):
        linalg.solve_sylvester(gc.ones(4, 0), gc.eye(4), gc.eye(4))
    with pytest.raises(ValueError, match="corresponding sizes"):
        linalg.solve_continuous_lyapunov(gc.eye(4), gc.ones(4, 0))
    with pytest.raises(ValueError, match="expected square"):
        linalg.pinvh(gc.ones(4, 1))
    with pytest.raises(TypeError, match="eigenvalues"):
        linalg.funm(gc.eye(2), gc.sin)
    with pytest.raises(RuntimeError, match="the rank is 1 of 2"):
        linalg.null_space(gc.ones(2, 3, requires_grad=True))
    with pytest.raises(RuntimeError, match="depends on the choice of the basis"):
        linalg.null_space(gc.ones(1, 3, requires_grad=True))[0, 0].backward()
    with pytest.raises(ValueError, match="infs or NaNs"):
        linalg.solve(gc.full((2, 2), float("nan")), gc.ones(2))
    with pytest.raises(ValueError, match=r"l\+u\+1"):
        linalg.solve_banded((1, 1), gc.ones(2, 4), gc.ones(4))
    with pytest.raises(TypeError, match="neither e nor s"):
        linalg.solve_continuous_are(gc.eye(2), gc.eye(2), gc.eye(2), gc.eye(2), e=gc.eye(2))
    with pytest.raises(gc.linalg.LinAlgError):
        linalg.solve_banded((1, 1), gc.zeros(3, 4), gc.ones(4))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
def test_range_of_matrices_with_zero_singular_values(shape: tuple[int, int]) -> None:
    """The gradient of the projection on it is right in the directions that keep the rank."""
    gc.manual_seed(0)
    sizes = gc.tensor([2.0, 1.0], dtype=gc.float64)

    def projection(basis: Any) -> Any:
        return basis @ basis.mH

    for first in (gc.eye(shape[0], 2, dtype=gc.float64) * sizes, gc.randn(shape[0], 2, dtype=gc.float64)):
        for second in (gc.eye(2, shape[1], dtype=gc.float64), gc.randn(2, shape[1], dtype=gc.float64)):
            parts = (first.requires_grad_(), second.requires_grad_())
            weights = gc.randn(shape[0], shape[0], dtype=gc.float64)
            assert gc.autograd.gradcheck(
                lambda left, right, weights=weights: (weights * projection(linalg.orth(left @ right))).sum(),
                parts,
                check_forward_ad=True,
            )


@pytest.mark.parametrize("name", ["pinv", "pinvh"])
def test_each_matrix_of_a_batch_has_its_own_bound(name: str) -> None:
    a = np.random.default_rng(2).random((2, 4, 3))
    a[0] *= 1e-9
    a[1, :, 2] = a[1, :, 1]
    a = np.moveaxis(a, -1, -2) @ a if name == "pinvh" else a
    found, rank = getattr(linalg, name)(gc.tensor(a), return_rank=True)
    wanted = [getattr(scipy_linalg, name)(each, return_rank=True) for each in a]
    assert rank.tolist() == [w[1] for w in wanted] == [3, 2]
    np.testing.assert_allclose(found.numpy(), [w[0] for w in wanted], rtol=1e-4)


def test_bases_of_several_matrices_are_refused() -> None:
    for function in (linalg.null_space, linalg.orth):
        with pytest.raises(ValueError, match="expected one matrix, but the input has 3 dims"):
            function(gc.ones(2, 3, 3))
    with pytest.raises(ValueError, match="should be 2-dimensional"):
        linalg.khatri_rao(gc.ones(3), gc.ones(2, 3))


def test_hankel_matrices_have_batches_in_front() -> None:
    """As SciPy says that its function will have them; today it flattens matrices."""
    c, r = gc.arange(6.0).reshape(2, 3), gc.arange(2.0, 6.0)
    for row in (None, r, gc.stack([r, r + 1])):
        rows = [None, None] if row is None else [row, row] if row.ndim == 1 else list(row)
        expected = gc.stack([linalg.hankel(*pair) for pair in zip(c, rows, strict=True)])
        assert gc.equal(linalg.hankel(c, row), expected)


@pytest.mark.parametrize("name", ["cholesky_banded", "polar", "companion", "cho_factor", "logm", "svd", "eigh", "inv"])
def test_numbers_are_no_matrices(name: str) -> None:
    with pytest.raises((ValueError, RuntimeError), match=r"dimensions|axis|square|at least 2"):
        getattr(linalg, name)(gc.tensor(2.0))


@pytest.mark.parametrize("name", ["cholesky", "lu_factor", "expm", "sqrtm"])
def test_numbers_that_scipy_takes_as_matrices(name: str) -> None:
    function = getattr(linalg, name)
    number, matrix = function(gc.tensor(2.0)), function(gc.tensor([[2.0]]))
    assert [x.tolist() for x in number] == [x.tolist() for x in matrix]
    x = gc.tensor(2.0, dtype=gc.float64, requires_grad=True)
    assert gc.autograd.gradcheck(lambda x: function(x)[0], (x,))
