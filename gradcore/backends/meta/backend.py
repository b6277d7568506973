"""The backend of the ``meta`` device."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from gradcore.backends.base import Backend
from gradcore.backends.kernel_rules import Result, shape_rules
from gradcore.backends.meta import algebra, joins, views
from gradcore.backends.meta.array import NO_DATA, MetaArray
from gradcore.backends.meta.creation import CREATION
from gradcore.backends.meta.kernels import MetaKernels
from gradcore.backends.meta.rules import elementwise

__all__ = ["MetaBackend"]

#: Modules that register their rules when they are imported.
RULE_MODULES = (algebra, joins, views)


class Namespace:
    """NumPy's namespace for meta arrays. Creation functions make meta arrays; others dispatch by NumPy's protocols.

    Parameters
    ----------
    module : module
        NumPy or a submodule, or a module of functions of each element (scipy.special).
    """

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        if name in CREATION:
            value = CREATION[name]
        elif isinstance(value, types.ModuleType):
            value = Namespace(value)
        elif isinstance(value, types.FunctionType):  # knows no protocol
            value = elementwise(value)
        setattr(self, name, value)
        return value


def _wrap_shape_rule(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel whose results have the shapes and dtypes that a declared shape rule returns."""

    def make_result(found: Any) -> Any:
        return MetaArray(*found) if found.__class__ is Result else getattr(found, "copy", lambda: found)()

    def kernel(*args: Any) -> Any:
        results = rule(*args)
        return tuple(map(make_result, results)) if type(results) is tuple else make_result(results)

    return kernel


class MetaBackend(MetaKernels, Backend):
    """Arrays without data: every kernel runs, nothing is computed, and no memory is needed."""

    type: ClassVar[str] = "meta"
    host_scalars = False

    def __init__(self) -> None:
        super().__init__(Namespace(np), MetaArray)
        vars(self).update((name, _wrap_shape_rule(rule)) for name, rule in shape_rules(Backend).items())

    @property
    def special(self) -> Any:
        """The module `scipy.special`, imported when first used."""
        import scipy.special

        return Namespace(scipy.special)

    def to_host(self, array: Any) -> Any:
        raise NotImplementedError(NO_DATA)

    def address(self, x: MetaArray) -> int:
        """Return the address of the first element as if all memory began at 0."""
        return x.offset

    def scalar(self, value: complex, dtype: Any) -> Any:
        """Return a NumPy scalar. Numbers, unlike arrays, have values here."""
        try:
            return np.dtype(dtype).type(value)
        except OverflowError:  # integers wrap, as in PyTorch
            return np.asarray(value).astype(dtype)[()]

    def random_words(self, n: int, key: int, counter: int) -> MetaArray:
        return MetaArray((n,), np.uint64)
