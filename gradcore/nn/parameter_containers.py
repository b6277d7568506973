"""Containers of parameters: in a list, or by key."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, KeysView, Mapping
from typing import Any, Self, overload

from gradcore.nn.containers import pairs
from gradcore.nn.module import Module
from gradcore.nn.parameter import Parameter
from gradcore.tensor import Tensor

__all__ = ["ParameterDict", "ParameterList"]


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _line(name: Any, value: Any, kind: Any) -> str:
    """Return the line of an entry in the `repr`, where `kind` describes a tensor's type."""
    if not isinstance(value, Tensor):
        return f"  ({name}): Object of type: {type(value).__name__}"
    word = "Parameter" if isinstance(value, Parameter) else "Tensor"
    where = f" ({value.device})" if value.is_cuda else ""
    return f"  ({name}): {word} containing: [{kind(value)} of size {'x'.join(map(str, value.shape))}{where}]"


class ParameterList(Module):
    """A list of registered parameters. Other tensors that are added become parameters.

    Parameters
    ----------
    values : iterable, optional

    Examples
    --------
    >>> import gradcore
    >>> gradcore.nn.ParameterList([gradcore.ones(2, 3)])
    ParameterList(  (0): Parameter containing: [torch.float32 of size 2x3])
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _key(self, index: Any) -> str:
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"index {position} is out of range")
        return str(position % len(self))

    @overload
    def __getitem__(self, index: int) -> Parameter: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)([self[i] for i in range(len(self))[index]])
        return getattr(self, self._key(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        setattr(self, self._key(index), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Parameter]:
        return (self[i] for i in range(len(self)))

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def append(self, value: Any) -> Self:
        """Add a parameter at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Any) -> Self:
        """Add the parameters of an iterable at the end."""
        if isinstance(values, Tensor) or not isinstance(values, Iterable):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """Return one line for each parameter."""
        return "\n".join(_line(i, value, lambda t: t.dtype) for i, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of registered parameters. Other tensors that are added become parameters.

    Parameters
    ----------
    parameters : mapping or iterable of pairs, optional

    Examples
    --------
    >>> import gradcore
    >>> table = gradcore.nn.ParameterDict({"scale": gradcore.ones(2)})
    >>> [name for name, _ in table.named_parameters()]
    ['scale']
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _check_key(self, key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string (type is "
                f"'{type(key).__name__}')."
            )
        return key

    def __getitem__(self, key: str) -> Parameter:
        return getattr(self, self._check_key(key))  # type: ignore[no-any-return]

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, self._check_key(key), _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._check_key(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def __or__(self, other: Any) -> ParameterDict:
        out = self.copy()
        out.update(other)
        return out

    def __ror__(self, other: Any) -> ParameterDict:
        out = ParameterDict(other)
        out.update(self)
        return out

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def copy(self) -> ParameterDict:
        """Return a new dictionary with the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def keys(self) -> KeysView[str]:
        """Return the keys."""
        return self._keys.keys()

    def values(self) -> Iterator[Parameter]:
        """Return the parameters."""
        return (self[key] for key in self._keys)

    def items(self) -> Iterator[tuple[str, Parameter]]:
        """Return the pairs of key and parameter."""
        return ((key, self[key]) for key in self._keys)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the parameter with this key, or `default`."""
        return self[key] if key in self._keys else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the parameter with this key. If there is none, set it to `default` first."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Remove the parameter with this key, and return it."""
        result = self[key]
        del self[key]
        return result

    def popitem(self) -> tuple[str, Any]:
        """Remove the parameter added last, and return its key and itself."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def clear(self) -> None:
        """Remove all parameters."""
        for key in list(self._keys):
            del self[key]

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Return a new dictionary that has the same value under several keys."""
        return ParameterDict((key, default) for key in keys)

    def update(self, parameters: Any) -> None:
        """Add parameters by key. The keys of an unordered mapping are sorted."""
        entries: Any = pairs(parameters, "ParameterDict", "ParametersDict")
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            entries = sorted(entries)
        for key, value in entries:
            self[key] = value

    def extra_repr(self) -> str:
        """Return one line for each parameter."""
        return "\n".join(_line(key, value, lambda t: Tensor.type(t)) for key, value in self.items())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")
