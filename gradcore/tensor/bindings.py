"""Functions of upper layers that lower layers call. `gradcore.functional` imports each one on its first use.

A method of tensors can therefore use a package above the tensors, such as ``numpy`` or ``sparse``, without importing
it. Only the package itself imports this module, after all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from gradcore import functional

__all__ = ["MAKERS", "install"]

Function: TypeAlias = Callable[..., Any]


def _array_api_namespace() -> Function:
    from gradcore.numpy import array_api

    return lambda: array_api


def _call_array_function() -> Function:
    from gradcore.numpy.protocols import array_function

    return array_function


def _call_cupy_kernel() -> Function:
    from gradcore.numpy.protocols import cupy_kernel

    return cupy_kernel


def _call_ufunc() -> Function:
    from gradcore.numpy.protocols import ufunc

    return ufunc


def _compile() -> Function:
    from gradcore.compiler import compile

    return compile


def _cuda_array_interface() -> Function:
    from gradcore.tensor.interop import cuda_array_interface

    return cuda_array_interface


def _dense_to_sparse() -> Function:
    from gradcore.sparse.conversion import dense_to_sparse

    return dense_to_sparse


def _dlpack() -> Function:
    from gradcore.tensor.interop import dlpack

    return dlpack


def _exported_array() -> Function:
    from gradcore.tensor.interop import export_array

    return export_array


def _from_scipy() -> Function:
    from gradcore.sparse import from_scipy

    return from_scipy


def _legacy_tensor() -> Function:
    from gradcore.tensor.creation.legacy import legacy_tensor

    return legacy_tensor


def _lookup_rows() -> Function:
    from gradcore.sparse.lookups import lookup

    return lookup


def _sparse_conversions() -> Function:
    from gradcore.sparse.conversion import DENSE

    return lambda: DENSE


def _sparse_mask() -> Function:
    from gradcore.sparse.conversion import sparse_mask

    return sparse_mask


#: Functions that import a function when it is first looked up, by its name in `gradcore.functional`.
MAKERS: dict[str, Callable[[], Function]] = {
    "array_api_namespace": _array_api_namespace,
    "call_array_function": _call_array_function,
    "call_cupy_kernel": _call_cupy_kernel,
    "call_ufunc": _call_ufunc,
    "compile": _compile,
    "cuda_array_interface": _cuda_array_interface,
    "dense_to_sparse": _dense_to_sparse,
    "dlpack": _dlpack,
    "exported_array": _exported_array,
    "from_scipy": _from_scipy,
    "legacy_tensor": _legacy_tensor,
    "lookup_rows": _lookup_rows,
    "sparse_conversions": _sparse_conversions,
    "sparse_mask": _sparse_mask,
}


def install() -> None:
    """Put the functions into `gradcore.functional`."""
    functional.makers.update(MAKERS)
