"""The namespace of the Python array API standard, version 2024.12, on tensors.

It is what ``tensor.__array_namespace__()`` returns: `gradcore.numpy` with the standard's names and arguments.

Examples
--------
>>> import gradcore
>>> xp = gradcore.ones(2, requires_grad=True).__array_namespace__()
>>> xp.sum(xp.asarray([1.0, 2.0]) ** 2)
tensor(5., dtype=torch.float64)
"""

# ruff: noqa: F401, F403

from __future__ import annotations

from math import e, inf, nan, pi

from gradcore.core.dtypes import DTYPES as _DTYPES
from gradcore.numpy.array_api import fft, linalg, special
from gradcore.numpy.array_api.functions import *
from gradcore.numpy.array_api.functions import __all__ as _functions
from gradcore.numpy.array_api.info import __array_namespace_info__

__array_api_version__ = "2024.12"
newaxis = None

_NAMES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128",
)  # fmt: skip
globals().update({name: _DTYPES[name] for name in _NAMES})
__all__ = sorted([*_functions, *_NAMES, "e", "fft", "inf", "linalg", "nan", "newaxis", "pi", "special"])


def __dir__() -> list[str]:
    return [*__all__, "__array_api_version__", "__array_namespace_info__"]
