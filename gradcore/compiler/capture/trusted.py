"""Trusted code: gradcore, NumPy and a short list of pure modules. All other code is the user's."""

from __future__ import annotations

import os
import sys
import sysconfig
import types
from typing import Any

import numpy as np

from gradcore.autograd.node import Node
from gradcore.backends import registry

__all__ = ["HEAP_TYPE", "PURE_FUNCTIONS", "PURE_MODULES", "backend_packages", "is_foreign", "is_generated",
           "is_library", "is_library_class", "is_of_numpy", "is_standard", "namespace_of"]  # fmt: skip

#: Modules of the standard library whose functions depend on their arguments alone, and read only attributes of them
#: whose names occur in user code.
PURE_MODULES = frozenset((
    "__future__", "_abc", "_collections", "_collections_abc", "_functools", "_operator", "_py_abc", "_typing",
    "_weakrefset", "abc", "bisect", "builtins", "cmath", "collections", "contextlib", "enum", "functools", "heapq",
    "itertools", "keyword", "math", "numbers", "operator", "types", "typing", "typing_extensions", "weakref",
))  # fmt: skip
_BUILTINS = """
    __build_class__ abs all any ascii bin callable chr delattr divmod format getattr hasattr hex isinstance issubclass
    iter len max min oct ord pow repr round setattr sorted sum
"""
_OF_NUMPY = """
    allclose arange argmax argmin argsort array array_equal asarray ascontiguousarray atleast_1d bartlett blackman
    broadcast_shapes broadcast_to can_cast cholesky clip concatenate convolve copy cumprod cumsum det diag diff dot
    eigh eigvalsh einsum empty errstate eye fftfreq finfo flip full geomspace gradient hamming hanning histogram
    identity iinfo interp inv isclose iscomplexobj isscalar issubdtype kaiser kron linspace logspace max mean median
    meshgrid min ndim nonzero norm ones outer pad pinv prod promote_types qr ravel repeat reshape result_type
    rfftfreq roll rot90 round shape sinc size solve sort split squeeze stack std sum svd take tensordot tile trace
    transpose trapezoid tri tril triu unique vander var vstack hstack where zeros
"""
#: Functions that users may call and that depend on their arguments alone, by module; None for the whole module.
#: `hash` and `id` differ between equal objects, `next` moves an iterator on. Of NumPy these make and compute constants;
#: others read files, random numbers and settings. The state of the rest, iterators and containers, is guarded.
PURE_FUNCTIONS: dict[str, frozenset[str] | None] = {
    "builtins": frozenset(_BUILTINS.split()),
    "numpy": frozenset(_OF_NUMPY.split()),
    **dict.fromkeys(("math", "cmath", "_operator", "itertools", "_functools", "_collections", "_abc", "_typing")),
}
#: ``Py_TPFLAGS_HEAPTYPE``: whether a class was made at run time.
HEAP_TYPE = 1 << 9
#: Folders, and the archive in which some distributions of Python have the standard library. Packages may be installed
#: in a folder of the standard library, also in that of the Python from which a virtual environment was created.
_STANDARD = tuple({os.path.join(sysconfig.get_paths()[name], "") for name in ("stdlib", "platstdlib")})
_ARCHIVE = f"{os.sep}python{sys.version_info[0]}{sys.version_info[1]}.zip{os.sep}"
_OF_PACKAGES = frozenset(("dist-packages", "site-packages"))
_NUMPY = os.path.join(os.path.dirname(np.__file__), "")  # wherever it is installed
#: Packages that are trusted if gradcore calls them, and count as user code otherwise.
_USED = frozenset(("cuda", "cupy", "cupy_backends", "cupyx", "fastrlock", "numpy", "scipy"))


def is_library(namespace: dict[str, Any]) -> bool:
    """Return whether `namespace` is the globals of trusted code: of gradcore, NumPy, or a pure module."""
    root, file = _origin(namespace)
    is_of_named_tuple = root.startswith("namedtuple_") and "_tuple_new" in namespace and not file
    is_pure = root in PURE_MODULES and (is_standard(namespace) or root == "typing_extensions")
    return root == "gradcore" or is_of_named_tuple or is_pure or file.startswith(_NUMPY)


def is_of_numpy(namespace: dict[str, Any]) -> bool:
    """Return whether `namespace` is the globals of a NumPy module."""
    return _origin(namespace)[1].startswith(_NUMPY)


def is_standard(namespace: dict[str, Any]) -> bool:
    """Return whether `namespace` is the globals of a standard library module."""
    root, file = _origin(namespace)
    if folder := next(filter(file.startswith, _STANDARD), ""):
        return _OF_PACKAGES.isdisjoint(file[len(folder) :].split(os.sep))
    # A user's file may have the name of a standard library module.
    is_builtin = not file and getattr(namespace.get("__spec__"), "origin", None) in ("built-in", "frozen")
    return root in sys.stdlib_module_names and root != "__main__" and (is_builtin or _ARCHIVE in file)


def is_foreign(namespace: dict[str, Any]) -> bool:
    """Return whether `namespace` belongs to code that is trusted only when gradcore itself calls it."""
    root, file = _origin(namespace)
    # The packages of CUDA's headers share the name `cuda`, which a user's file may also have.
    is_of_user = root == "cuda" and _OF_PACKAGES.isdisjoint(file.split(os.sep))
    return is_standard(namespace) or (root in _USED and not is_of_user)


def _origin(namespace: dict[str, Any]) -> tuple[str, str]:
    """Return the top-level package and the file of a module."""
    return str(namespace.get("__name__", "")).partition(".")[0], str(namespace.get("__file__") or "")


def backend_packages() -> tuple[str, ...]:
    """Return the packages that the backends in use declare as their own, each with a dot at the end."""
    return tuple(f"{name}." for backend in registry.in_use() for name in backend.packages)


def is_generated(code: types.CodeType) -> bool:
    """Return whether gradcore generated the code."""
    return code.co_filename.startswith("<gradcore")


def namespace_of(cls: type) -> dict[str, Any]:
    """Return the globals of the module that defines a class."""
    return getattr(sys.modules.get(cls.__module__), "__dict__", {})


def is_library_class(cls: type) -> bool:
    """Return whether a class is defined in trusted code."""
    # Code that runs in a namespace without a name, as by `exec`, defines classes of the module `builtins`.
    is_unnamed = cls.__module__ == "builtins" and cls.__flags__ & HEAP_TYPE
    return not (is_unnamed and not issubclass(cls, (Node, ExceptionGroup))) and is_library(namespace_of(cls))
