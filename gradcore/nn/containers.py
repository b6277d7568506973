"""Modules and parameters in sequence or by key."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gradcore.nn.module import Module
from gradcore.nn.parameter import Parameter
from gradcore.tensor import Tensor

__all__ = ["ModuleDict", "ModuleList", "ParameterList", "Sequential"]


class _Listed(Module):
    """Modules under the names ``"0"``, ``"1"`` ..."""

    def _key(self, index: int) -> str:
        keys = list(self._modules)
        position = operator.index(index)
        if not -len(keys) <= position < len(keys):
            raise IndexError(f"index {position} is out of range")
        return keys[position]

    def _refill(self, modules: Iterable[Module | None]) -> None:
        entries = list(modules)
        self._modules.clear()
        for i, module in enumerate(entries):
            self.add_module(str(i), module)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            entries = list(self._modules.items())[index]
            if isinstance(self, Sequential):
                return type(self)(OrderedDict(entries))
            return type(self)([module for _, module in entries])  # type: ignore[call-arg]
        return self._modules[self._key(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), module)

    def __delitem__(self, index: int | slice) -> None:
        keys = list(self._modules)
        for key in keys[index] if isinstance(index, slice) else [self._key(index)]:
            del self._modules[key]
        self._refill(list(self._modules.values()))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def append(self, module: Module) -> Any:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Add a module before the one at `index`."""
        entries = list(self._modules.values())
        entries.insert(index, module)
        self._refill(entries)
        return self

    def pop(self, key: int) -> Module:
        """Take a module out."""
        found = self[key]
        del self[key]
        return found  # type: ignore[no-any-return]


class Sequential(_Listed):
    """Modules that are called one after the other.

    Examples
    --------
    >>> from gradcore import nn
    >>> nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): ReLU()
    )
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], Mapping):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            self._refill(args)

    def forward(self, input: Any) -> Any:
        """The last module's output."""
        for module in self:
            input = module(input)
        return input


class ModuleList(_Listed):
    """A list of modules, registered as submodules."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self._refill(modules or ())


class ModuleDict(Module):
    """Modules by key, registered as submodules."""

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def keys(self) -> Any:
        """The keys."""
        return self._modules.keys()

    def values(self) -> Any:
        """The modules."""
        return self._modules.values()

    def items(self) -> Any:
        """Pairs of key and module."""
        return self._modules.items()

    def clear(self) -> None:
        """Take all modules out."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Take a module out."""
        return self._modules.pop(key)

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add modules by key."""
        for key, module in modules.items() if isinstance(modules, Mapping) else modules:
            self[key] = module


class ParameterList(Module):
    """A list of parameters, registered as the module's."""

    def __init__(self, values: Iterable[Tensor] | None = None) -> None:
        super().__init__()
        self.extend(values or ())

    def append(self, value: Tensor) -> ParameterList:
        """Add a parameter; other tensors become parameters."""
        self.register_parameter(str(len(self)), value if isinstance(value, Parameter) else Parameter(value))
        return self

    def extend(self, values: Iterable[Tensor]) -> ParameterList:
        """Add parameters."""
        for value in values:
            self.append(value)
        return self

    def __len__(self) -> int:
        return len(self._parameters)

    def __getitem__(self, index: int) -> Any:
        return list(self._parameters.values())[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parameters.values())

    def extra_repr(self) -> str:
        """The parameters, a line each."""
        lines = []
        for name, p in self._parameters.items():
            if p is not None:
                shape = "x".join(map(str, p.shape))
                lines.append(f"({name}): Parameter containing: [{p.type()} of size {shape}]")
        return "\n".join(lines)
