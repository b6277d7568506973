"""Containers of modules: in sequence, in a list, or by key."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Self, overload

from gradcore.nn.module import Module
from gradcore.tensor import Tensor

__all__ = ["ModuleDict", "ModuleList", "Sequential", "pairs"]


def pairs(entries: Any, name: str, article: str) -> Iterator[tuple[Any, Any]]:
    """Yield the key-value pairs of a mapping or an iterable of pairs. Errors call the argument `name`.

    Raises
    ------
    TypeError, ValueError
        If it is neither; with the words for the ``update`` of the class `name`.
    """
    if not isinstance(entries, Iterable):
        raise TypeError(
            f"{article}.update should be called with an iterable of key/value pairs, but got {type(entries).__name__}"
        )
    if isinstance(entries, Mapping) or (isinstance(entries, Module) and hasattr(entries, "items")):
        yield from entries.items()
        return
    for i, pair in enumerate(entries):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{name} update sequence element #{i} should be Iterable; is{type(pair).__name__}")
        item = tuple(pair)
        if len(item) != 2:
            raise ValueError(f"{name} update sequence element #{i} has length {len(item)}; 2 is required")
        yield item


class _Listed(Module):
    """Base of containers that name their modules ``"0"``, ``"1"`` ..."""

    def _key(self, index: Any) -> str:
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

    def _part(self, entries: list[tuple[str, Any]]) -> Any:
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._part(list(self._modules.items())[index])
        return self._modules[self._key(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), module)

    def __delitem__(self, index: int | slice) -> None:
        for key in list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]:
            delattr(self, key)
        self._refill(list(self._modules.values()))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())  # type: ignore[arg-type]

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Any) -> Self:
        """Add the modules of an iterable at the end."""
        if not isinstance(modules, Iterable):
            name = type(self).__name__
            raise TypeError(f"{name}.extend should be called with an iterable, but got {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def _insert(self, index: int, module: Module) -> None:
        entries = list(self._modules.values())
        entries.insert(index, module)
        self._refill(entries)

    def pop(self, key: int | slice) -> Any:
        """Remove a module or a slice of modules, and return it."""
        result = self[key]
        del self[key]
        return result


class Sequential(_Listed):
    """Container that calls its modules one after the other.

    Parameters
    ----------
    *args
        The modules, or one ordered dictionary of names and modules.

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
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            self._refill(args)

    def _part(self, entries: list[tuple[str, Any]]) -> Any:
        return type(self)(OrderedDict(entries))

    def forward(self, input: Any) -> Tensor:
        """Return the output of the last module. For type checkers it is a tensor."""
        for module in self:
            input = module(input)
        return input  # type: ignore[no-any-return]

    def insert(self, index: int, module: Module) -> Self:
        """Add a module before the one at `index`."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        self._insert(index, module)
        return self

    def _check_addend(self, other: Any) -> None:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")

    def __add__(self, other: Any) -> Sequential:
        self._check_addend(other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Self:
        self._check_addend(other)
        return self.extend(other)

    def _check_factor(self, times: Any) -> None:
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(times)}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {type(self)}")

    def __mul__(self, times: int) -> Sequential:
        self._check_factor(times)
        return Sequential(*list(self) * times)

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Self:
        self._check_factor(times)
        return self.extend(list(self) * (times - 1))


class ModuleList(_Listed):
    """A list of modules, registered as submodules.

    Parameters
    ----------
    modules : iterable of Module, optional

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.ModuleList([gc.nn.Linear(2, 2) for _ in range(3)])
    ModuleList(
      (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)
    )
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend([] if modules is None else modules)

    def _part(self, entries: list[tuple[str, Any]]) -> Any:
        return type(self)([module for _, module in entries])

    def insert(self, index: int, module: Module) -> None:
        """Add a module before the one at `index`."""
        self._insert(index, module)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __repr__(self) -> str:
        runs: list[list[Any]] = []  # first index, last index, text: equal neighbours are printed once
        for i, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        if not runs:
            return f"{self._get_name()}()"
        lines = [
            f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}"
            for first, last, text in runs
        ]
        return f"{self._get_name()}(\n  " + "\n  ".join(line.replace("\n", "\n  ") for line in lines) + "\n)"


class ModuleDict(Module):
    """Modules by key, registered as submodules.

    Parameters
    ----------
    modules : mapping or iterable of pairs, optional

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.ModuleDict({"encode": gc.nn.Linear(2, 1), "decode": gc.nn.Linear(1, 2)})["decode"]
    Linear(in_features=1, out_features=2, bias=True)
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]  # type: ignore[return-value]

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

    def keys(self) -> KeysView[str]:
        """Return the keys."""
        return self._modules.keys()

    def values(self) -> ValuesView[Module]:
        """Return the modules."""
        return self._modules.values()  # type: ignore[return-value]

    def items(self) -> ItemsView[str, Module]:
        """Return the pairs of key and module."""
        return self._modules.items()  # type: ignore[return-value]

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove the module with this key, and return it."""
        return self._modules.pop(key)

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add modules by key."""
        for key, module in pairs(modules, "ModuleDict", "ModuleDict"):
            self[key] = module
