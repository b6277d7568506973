"""Import hooks that register tensors with other libraries.

This module imports no library. A library is told about tensors when the program imports it, before or after gradcore.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from gradcore import functional
from gradcore.core.typing import AnyTensor
from gradcore.tensor import Tensor
from gradcore.tensor.creation import arange, from_numpy

__all__ = ["install"]


def _einops(backends: Any) -> None:
    """Register tensors with `einops`."""

    class Backend(backends.AbstractBackend):  # type: ignore[misc]
        framework_name = "gradcore"

        def is_appropriate_type(self, tensor: AnyTensor) -> bool:
            return isinstance(tensor, Tensor)

        def from_numpy(self, x: Any) -> Tensor:
            return from_numpy(x)

        def to_numpy(self, x: Tensor) -> Any:
            return x.detach().cpu().numpy()

        def arange(self, start: int, stop: int) -> Tensor:
            return arange(start, stop)

        def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
            return x.permute(axes)

        def reduce(self, x: Tensor, operation: str, axes: Sequence[int]) -> Tensor:
            if operation == "prod":
                # `prod` reduces one dim at a time.
                for axis in sorted(axes, reverse=True):
                    x = x.prod(axis)
                return x
            name = {"min": "amin", "max": "amax"}.get(operation, operation)
            return getattr(x, name)(tuple(axes))  # type: ignore[no-any-return]

        def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
            return functional.stack(tensors)  # type: ignore[no-any-return]

        def add_axis(self, x: Tensor, new_position: int) -> Tensor:
            return x.unsqueeze(new_position)

        def tile(self, x: Tensor, repeats: Sequence[int]) -> Tensor:
            return x.repeat(repeats)

        def concat(self, tensors: list[Tensor], axis: int) -> Tensor:
            return functional.cat(tensors, axis)  # type: ignore[no-any-return]

        def is_float_type(self, x: Tensor) -> bool:
            return x.is_floating_point()

        def einsum(self, pattern: str, *x: Tensor) -> Tensor:
            return functional.einsum(pattern, *x)  # type: ignore[no-any-return]

    # einops finds the class by `__subclasses__`, which holds weak references. This attribute keeps the class alive.
    backends.GradcoreBackend = Backend


#: The function to call after the import of each module.
_HOOKS: dict[str, Callable[[Any], None]] = {"einops._backends": _einops}


class _Finder:
    """Import hook that registers tensors after the import of a module of the table."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _HOOKS:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                _HOOKS[fullname](module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def install() -> None:
    """Register tensors with the libraries that are imported, and install the hook for later ones."""
    for name, register in _HOOKS.items():
        if name in sys.modules:
            register(sys.modules[name])
    sys.meta_path.insert(0, _Finder())
