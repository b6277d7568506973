"""Names of functions whose C++ versions may differ from NumPy's in the last places."""

from __future__ import annotations

__all__ = ["APPROXIMATE"]

#: Functions of `elements.h`, by the names of NumPy's or SciPy's functions. The table has a module of its own, because
#: kernels are chosen by it before a formula is traced.
APPROXIMATE = {
    "erf": "erf", "exp": "exp", "expm1": "expm1", "log": "log", "log1p": "log1p", "tanh": "tanh",
    "xlog1py": "times_log1p", "xlogy": "times_log",
}  # fmt: skip
