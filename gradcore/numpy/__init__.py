"""NumPy's namespace, on tensors: ``import gradcore.numpy as np``.

Names, arguments, defaults and dtypes are NumPy's. Results are tensors with their history. New arrays are created on
`gradcore.get_default_device()`.

Examples
--------
>>> import gradcore
>>> import gradcore.numpy as np
>>> x = np.linspace(0.0, 1.0, 3).requires_grad_()
>>> np.sum(np.sin(x) ** 2).backward()
>>> x.grad
tensor([0.0000, 0.8415, 0.9093], dtype=torch.float64)
"""

# ruff: noqa: F401

from __future__ import annotations

from typing import Any

import numpy as _numpy

from gradcore.core import dtypes as _dtypes
from gradcore.numpy import documentation as _documentation
from gradcore.numpy import examples as _examples
from gradcore.numpy import fft, linalg, random
from gradcore.numpy.making import c_, mgrid, ogrid, r_
from gradcore.numpy.namespace import can_cast, finfo, iinfo, isdtype, issubdtype, promote_types, result_type
from gradcore.numpy.table import FUNCTIONS as _FUNCTIONS
from gradcore.tensor import Tensor as ndarray

#: Names that are NumPy's own objects: constants, abstract dtypes, settings and functions that concern NumPy itself.
_OWN = (
    "array_repr", "array_str", "array2string", "character", "complexfloating", "e", "errstate", "euler_gamma",
    "flexible", "floating", "generic", "get_printoptions", "index_exp", "inexact", "inf", "integer", "iscomplexobj",
    "isrealobj", "isscalar", "iterable", "load", "nan", "ndim", "newaxis", "number", "object_", "pi", "printoptions",
    "s_", "save", "savez", "set_printoptions", "shape", "signedinteger", "size", "unsignedinteger",
)  # fmt: skip

#: Further names of dtypes.
_ALIASES = {"bool": "bool", "double": "float64", "single": "float32", "half": "float16", "csingle": "complex64",
            "cdouble": "complex128", "int_": "int64", "uint": "uint64", "intp": "int64"}  # fmt: skip

_names: dict[str, Any] = {
    **{name: getattr(_numpy, name) for name in _OWN},
    **{name: _dtypes.DTYPES[of] for name, of in _ALIASES.items()},
    **_dtypes.DTYPES,
    "bool_": _dtypes.DTYPES["bool"],
    "dtype": _dtypes.dtype,
    **{name: f for name, f in _FUNCTIONS.items() if "." not in name},
    **{
        alias: _FUNCTIONS[name]
        for alias, name in {
            "abs": "absolute", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh",
            "atan": "arctan", "atan2": "arctan2", "atanh": "arctanh", "bitwise_invert": "invert",
            "bitwise_left_shift": "left_shift", "bitwise_not": "invert", "bitwise_right_shift": "right_shift",
            "conj": "conjugate", "mod": "remainder", "pow": "power", "row_stack": "vstack", "true_divide": "divide",
        }.items()
    },
}  # fmt: skip
globals().update(_names)
_documentation.describe(_FUNCTIONS, _numpy, _examples.EXAMPLES)
__version__ = _numpy.__version__
__all__ = sorted({*_names, "c_", "can_cast", "fft", "finfo", "iinfo", "isdtype", "issubdtype", "linalg", "mgrid",
                  "ndarray", "ogrid", "promote_types", "r_", "result_type"})  # fmt: skip


def __dir__() -> list[str]:
    return __all__
