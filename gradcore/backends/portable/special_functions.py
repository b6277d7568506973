"""Special functions without a kernel of their own, which are called by SciPy's names."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gradcore.core.dtypes import from_numpy

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from gradcore.core.arrays import Array

__all__ = ["SpecialFunctions"]


#: Functions that take whole numbers first only.
_WHOLE = ("eval_hermite", "eval_hermitenorm")


class SpecialFunctions:
    """Functions of `scipy.special`. A number behind a colon chooses a result, or a branch: ``"lambertw:-1"``."""

    special: Any
    to_host: Any
    from_host: Any

    def special_of_one(self, x: Array, name: str) -> Array:
        return self._evaluate(name, x)

    def special_of_two(self, x: Array, y: Array, name: str) -> Array:
        return self._evaluate(name, x, y)

    def special_of_three(self, x: Array, y: Array, z: Array, name: str) -> Array:
        return self._evaluate(name, x, y, z)

    def special_of_four(self, x: Array, y: Array, z: Array, w: Array, name: str) -> Array:
        return self._evaluate(name, x, y, z, w)

    def has_special_function(self, name: str) -> bool:
        """Return whether the library has a counterpart of SciPy's function. If not, the host computes it."""
        return hasattr(self.special, name)

    def _evaluate(self, path: str, *arrays: Array) -> Array:
        name, _, branch = path.partition(":")
        dtype = arrays[0].dtype
        if dtype.kind not in "fc":
            raise NotImplementedError(f"\"{name}\" not implemented for '{from_numpy(dtype).scalar_name}'")
        if name in _WHOLE or (name.startswith("eval_") and _are_degrees(arrays[0])):
            # SciPy's recurrences for integers are exact where its hypergeometric functions for other degrees cancel.
            arrays = (arrays[0].astype("int64"), *arrays[1:])
        if self.has_special_function(name):
            return _choose_result(getattr(self.special, name), name, branch, arrays, dtype)
        function = getattr(importlib.import_module("scipy.special"), name)
        on_host = _choose_result(function, name, branch, [self.to_host(a) for a in arrays], dtype)
        result: Array = self.from_host(on_host)
        return result


def _are_degrees(x: Array) -> bool:
    """Return whether all elements are integers that a recurrence, whose time is proportional to them, can reach."""
    return bool(((x == x.round()) & (abs(x) <= 1e6)).all())


def _choose_result(function: Any, name: str, which: str, arrays: Sequence[Array], dtype: np.dtype[Any]) -> Array:
    result = function(*arrays, int(which)) if name == "lambertw" else function(*arrays)
    if isinstance(result, tuple):
        result = result[int(which)]
    converted: Array = result.astype(dtype, copy=False)
    return converted
