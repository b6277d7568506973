"""Named tuples of operations with several results: ``gradcore.return_types.max`` has ``values`` and ``indices``.

Examples
--------
>>> import gradcore
>>> found = gradcore.tensor([1.0, 3.0, 2.0]).max(0)
>>> found
torch.return_types.max(
values=tensor(3.),
indices=tensor(1))
>>> values, indices = found
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from gradcore.dispatch import OUTPUT_TYPES

__all__ = ["register"]

_FIELDS = {
    "aminmax": "min max",
    "cummax": "values indices",
    "cummin": "values indices",
    "frexp": "mantissa exponent",
    "geqrf": "a tau",
    "histogram": "hist bin_edges",
    "histogramdd": "hist bin_edges",
    "kthvalue": "values indices",
    "linalg_cholesky_ex": "L info",
    "linalg_eig": "eigenvalues eigenvectors",
    "linalg_eigh": "eigenvalues eigenvectors",
    "linalg_inv_ex": "inverse info",
    "linalg_ldl_factor": "LD pivots",
    "linalg_ldl_factor_ex": "LD pivots info",
    "linalg_lstsq": "solution residuals rank singular_values",
    "linalg_lu": "P L U",
    "linalg_lu_factor": "LU pivots",
    "linalg_lu_factor_ex": "LU pivots info",
    "linalg_qr": "Q R",
    "linalg_slogdet": "sign logabsdet",
    "linalg_solve_ex": "result info",
    "linalg_svd": "U S Vh",
    "lu_unpack": "P L U",
    "max": "values indices",
    "median": "values indices",
    "min": "values indices",
    "mode": "values indices",
    "nanmedian": "values indices",
    "qr": "Q R",
    "slogdet": "sign logabsdet",
    "sort": "values indices",
    "svd": "U S V",
    "topk": "values indices",
    "triangular_solve": "solution cloned_coefficient",
}


def _shown(self: Any) -> str:
    fields = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
    return f"torch.return_types.{type(self).__name__}(\n{fields})"  # as PyTorch's, like the tensors inside


def register(name: str, fields: str) -> None:
    """Make the type of an operation's results, which the operation names as its ``output_type``.

    Parameters
    ----------
    name : str
        What the type is called, in this module and when printed.
    fields : str
        The names of the results, separated by spaces.
    """
    make: Any = namedtuple
    made = make(name, fields, module=__name__)
    made.__repr__ = made.__str__ = _shown
    made.__doc__ = f"Results of `gradcore.{name.replace('_', '.')}`: {', '.join(fields.split())}."
    globals()[name] = OUTPUT_TYPES[name] = made


for _name, _fields in _FIELDS.items():
    register(_name, _fields)
