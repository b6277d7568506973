"""Sparse tensors: matrices of which only some elements are stored, with gradients of the values.

`gradcore.sparse_coo_tensor`, `gradcore.sparse_csr_tensor` and their like make sparse tensors, `Tensor.to_sparse` and
`from_scipy` too. `mm` and ``@`` are products, `spsolve`, `cg`, `gmres` and `bicgstab` solve systems.
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
