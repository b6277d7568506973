"""Sparse tensors, which store only some of their elements, with gradients of the stored values.

Create them with `gradcore.sparse_coo_tensor`, `gradcore.sparse_csr_tensor`, `Tensor.to_sparse` or `from_scipy`.
Multiply them with `mm` and ``@``, and solve systems with `spsolve`, `cg`, `gmres` and `bicgstab`.
"""

from gradcore.sparse import arithmetic, differentiation, selection  # noqa: F401  # which define functions of sparse tensors
from gradcore.sparse.making import (
    check_sparse_tensor_invariants,
    from_scipy,
    spdiags,
    to_scipy,
)
from gradcore.sparse.products import addmm, mm, sampled_addmm, spmm
from gradcore.sparse.reductions import log_softmax, softmax, sum
from gradcore.sparse.solvers import bicgstab, cg, gmres, lobpcg, spsolve
from gradcore.sparse.tensor import SparseTensor
from gradcore.torch_names import paths

__all__ = [
    "SparseTensor",
    "addmm",
    "bicgstab",
    "cg",
    "check_sparse_tensor_invariants",
    "from_scipy",
    "gmres",
    "lobpcg",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "spmm",
    "spsolve",
    "sum",
    "to_scipy",
]
paths.show_public(__name__)
