"""The table of NumPy's functions: the function for tensors, or the reason why there is none."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradcore.numpy import fft, linalg, making, mathematics, reductions, selecting, shaping
from gradcore.numpy.ufuncs import UFUNCS

__all__ = ["CONSTANT", "FUNCTIONS", "ON_ARRAYS", "REFUSED", "functions_of"]

_MODULES: dict[str, tuple[types.ModuleType, ...]] = {
    "": (making, mathematics, reductions, selecting, shaping),
    "linalg.": (linalg,),
    "fft.": (fft,),
}

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{function.__name__: ufunc for function, ufunc in UFUNCS.items()},
    **{
        prefix + name: getattr(module, name)
        for prefix, modules in _MODULES.items()
        for module in modules
        for name in module.__all__
        if name != "LinAlgError"
    },
}
"""The functions on tensors, by their path in `numpy`, such as ``linalg.norm``."""

#: Functions whose results have no derivative: integers, bools, step functions, and results that depend on shapes only.
CONSTANT = {name for name, f in FUNCTIONS.items() if not getattr(f, "differentiable", True)} | {
    "all", "allclose", "any", "arange", "argmax", "argmin", "argpartition", "argsort", "argwhere", "array_equal",
    "array_equiv", "around", "bartlett", "blackman", "broadcast_shapes", "count_nonzero", "diag_indices",
    "diag_indices_from", "digitize", "einsum_path", "empty", "empty_like", "eye", "fft.fftfreq", "fft.rfftfreq", "fix",
    "flatnonzero", "from_dlpack", "frombuffer", "fromfile", "fromiter", "fromstring", "hamming", "hanning", "identity",
    "indices", "isclose", "iscomplex", "isin", "isneginf", "isposinf", "isreal", "kaiser", "lexsort",
    "linalg.matrix_rank", "mask_indices", "nanargmax", "nanargmin", "nonzero", "ones", "ones_like", "packbits",
    "ravel_multi_index", "round", "searchsorted", "tri", "tril_indices", "tril_indices_from", "triu_indices",
    "triu_indices_from", "unique_counts", "unpackbits", "unravel_index", "zeros", "zeros_like",
}  # fmt: skip

#: Functions that run in NumPy on the tensors' arrays: text, files, and queries about shapes, dtypes and memory.
ON_ARRAYS = {
    "array2string", "array_repr", "array_str", "can_cast", "common_type", "iscomplexobj", "isfortran", "isrealobj",
    "isscalar", "iterable", "may_share_memory", "min_scalar_type", "ndim", "ndenumerate", "promote_types",
    "result_type", "save", "savetxt", "savez", "savez_compressed", "shape", "shares_memory", "size",
}  # fmt: skip


def _because(reason: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


#: Functions that refuse tensors, with the reason and what to do.
REFUSED: dict[str, str] = {
    **_because(
        "it is for dates, which tensors do not hold; convert them to numbers first",
        "busday_count busday_offset datetime_as_string datetime_data is_busday isnat",
    ),
    **_because(
        "matrices of a class of their own are arrays of NumPy alone; use tensors of two dims and @",
        "asmatrix bmat",
    ),
    **_because(
        "it makes a function for arrays of objects; use gradcore.numpy.vectorize or gradcore.func.vmap",
        "frompyfunc",
    ),
    **_because(
        "it walks over the memory of arrays; use indexing, broadcasting or gradcore.numpy.vectorize",
        "nested_iters",
    ),
    **_because(
        "it is about a single number; use t.item()",
        "base_repr binary_repr format_float_positional format_float_scientific",
    ),
    **_because(
        "it reads text or records; read into an array and convert that with gradcore.numpy.asarray",
        "fromregex genfromtxt load loadtxt",
    ),
    **_because(
        "it is about NumPy itself and takes no arrays",
        "get_include get_printoptions getbufsize geterr geterrcall info isdtype issubdtype mintypecode printoptions "
        "set_printoptions setbufsize seterr seterrcall show_config show_runtime test typename",
    ),
}


def functions_of(module: types.ModuleType) -> Iterator[str]:
    """Yield the names of the public functions in a NumPy module, without classes and modules."""
    for name in sorted({*getattr(module, "__all__", ())} - {"row_stack"}):
        value = getattr(module, name, None)
        if callable(value) and not isinstance(value, (type, types.ModuleType)):
            yield name


BY_FUNCTION: dict[Any, Callable[..., Any]] = {}
"""The functions on tensors, by the NumPy function that they replace; several names may refer to one function."""

for _path, _own in FUNCTIONS.items():
    _home: Any = np
    *_way, _name = _path.split(".")
    for _part in _way:
        _home = getattr(_home, _part)
    if hasattr(_home, _name):
        BY_FUNCTION[getattr(_home, _name)] = _own
