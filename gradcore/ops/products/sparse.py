"""Products with sparse matrices, which are a vector of elements and a constant pattern.

A product, and a product that is sampled at the pattern, are adjoints of each other. Derivatives of all orders consist
of them.
"""

from __future__ import annotations

import math
from typing import Any

from gradcore.backends.sparsity import add_border
from gradcore.ops.declare.promotion import common_dtype
from gradcore.ops.declare.samples import case, floats, ints
from gradcore.ops.declare.table import bilinear, general, linear, same


@linear(same, view=True, node=lambda name: name, function=False, method=False, samples=list)
def known_as(K, self, name: str):
    """Return a view of the whole tensor whose node has the name `name`."""
    return self[...]


@linear(lambda F, grad, index: F.index_select(grad, 0, index), keeps_dtype=("index",), function=False, method=False,
        samples=lambda: [case(floats(4), ints(4, high=3), 3), case(floats(3, 2), ints(3, high=5), 5),
            case(floats(0, 2), ints(0), 2)])  # fmt: skip
def rows_summed(K, self, index, height: int):
    """Return `height` rows: the sums of the rows of `self` with equal indices."""
    row_shape = self.shape[1:]
    return K.sum_into_rows(height, index, self.reshape(self.shape[0], math.prod(row_shape))).reshape(height, *row_shape)


def _sample_product(F, rows, cols, pattern, transposed):
    return F.sampled_product(cols, rows, pattern) if transposed else F.sampled_product(rows, cols, pattern)


@bilinear(
    values=lambda F, grad, dense, pattern, transposed: _sample_product(F, grad, F.conj(dense), pattern, transposed),
    dense=lambda F, grad, values, pattern, transposed: F.sparse_product(
        F.conj(values), grad, pattern, not transposed
    ),
    node="MmBackward0", mixed=common_dtype, function=False, method=False, samples=list, half_on_cuda="sparse",
)  # fmt: skip
def sparse_product(values, dense, pattern: Any, transposed: bool):
    """Return the product of a sparse matrix, or of its transpose, with a vector or a matrix."""


@bilinear(
    left=lambda F, grad, right, pattern: F.sparse_product(grad, F.conj(right), pattern, False),
    right=lambda F, grad, left, pattern: F.sparse_product(grad, F.conj(left), pattern, True),
    mixed=common_dtype, function=False, method=False, samples=list, half_on_cuda="sparse",
)  # fmt: skip
def sampled_product(left, right, pattern: Any):
    """Return the elements of ``left @ right.T`` at the positions of a pattern."""


@general(
    function=False, method=False, mixed=common_dtype, samples=list, outputs=("result", "info"), differentiable=(0,)
)
def sparse_solve(values, b, pattern: Any, transposed: bool, solver: Any, strict: bool = True):
    """Return the solution of ``A @ x = b`` or of the transposed system, and the status of an iterative solver."""


def _adjoint(solver):
    return None if solver is None else solver.adjoint()


@sparse_solve.vjp("values", "b")
def _(F, grad, values, result, pattern, transposed, solver, needs):
    dual = F.sparse_solve(F.conj(values), grad, pattern, not transposed, _adjoint(solver))[0]
    dvalues = -_sample_product(F, dual, F.conj(result), pattern, transposed) if needs[0] else None
    return dvalues, dual


@sparse_solve.jvp("values")
def _(F, t, values, result, pattern, transposed, solver):
    right = F.sparse_product(t, result, pattern, transposed)
    return -F.sparse_solve(values, right, pattern, transposed, _from_zero(solver))[0]


@sparse_solve.jvp("b")
def _(F, t, values, pattern, transposed, solver):
    return F.sparse_solve(values, t, pattern, transposed, _from_zero(solver))[0]


def _from_zero(solver):
    return None if solver is None else solver._replace(x0=None)


@general(function=False, method=False, mixed=common_dtype, samples=list, outputs=("w", "V"),
         constant={"start": "the eigenpairs do not depend on the start"})  # fmt: skip
def sparse_eigenpairs(values, start, pattern: Any, settings: Any):
    """Return the eigenvalues and eigenvectors of a symmetric sparse matrix, by LOBPCG."""


@sparse_eigenpairs.vjp("values")
def _(F, grads, values, w, V, pattern):
    """Compute the gradient through eigenpairs.

    Eigenvectors need the solution of a system with the matrix bordered by the vector, which is regular for simple
    eigenvalues.
    """
    dw, dV = grads
    n, around = pattern.shape[0], add_border(pattern)
    columns = []
    for i in range(w.shape[0]):
        v = F.select(V, 1, i)
        shift = F.expand(F.reshape(-F.select(w, 0, i), (1,)), (n,))
        matrix = F.cat([values, shift, v, v], 0)
        right = F.cat([F.select(dV, 1, i), F.new_zeros(w, (1,))], 0)
        dual, _ = F.sparse_solve(matrix, right, around, False, None)
        columns.append(v * F.select(dw, 0, i) - F.slice_of(dual, 0, 0, n))
    left_vectors = F.stack(columns, 1)
    return (F.sampled_product(left_vectors, V, pattern) + F.sampled_product(V, left_vectors, pattern)) / 2
