"""Module classes generated from tables of names, functions and settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from gradcore.core.typing import AnyTensor
from gradcore.nn import functional
from gradcore.nn.docstrings import Docstring
from gradcore.nn.module import Module
from gradcore.tensor import Tensor

__all__ = ["ModuleEntry", "Settings", "make", "ntuple", "settings"]

REQUIRED = inspect.Parameter.empty
#: The settings of a module, by name.
Settings = dict[str, Any]


def settings(*required: str, **optional: Any) -> Settings:
    """Return the settings of a class in order: those without a default, then those with one."""
    return {**dict.fromkeys(required, REQUIRED), **optional}


class ModuleEntry(NamedTuple):
    """Base class of modules whose forward calls a function of `gradcore.nn.functional` with the module's settings.

    Attributes
    ----------
    function : str
        The function's name.
    settings : dict
        Names and defaults, see `settings`.
    shown : tuple of str or callable, optional
        The settings that `repr` shows (None for all), or a function that returns the text, given the module.
    prepare : callable, optional
        Converts the settings passed to the constructor to those that are stored.
    training : bool
        Whether the function has a parameter `training`, which gets the mode of the module.
    keyword_only : bool
        Whether settings can only be given by name.
    base : type
        The base of the class.
    """

    function: str
    settings: Settings
    shown: Any = None
    prepare: Callable[[Settings], Settings] | None = None
    training: bool = False
    keyword_only: bool = False
    base: type[Module] = Module


def ntuple(value: Any, n: int) -> tuple[Any, ...]:
    """Return `value` as a tuple. A single number is repeated `n` times."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * n


def _format_settings(module: Any, names: Any) -> str:
    if callable(names):
        return str(names(module))
    parts = [f"{name}={getattr(module, name)!r}" for name in names if name != "inplace"]
    # `inplace` is printed by some classes only, and only if it is True.
    return ", ".join([*parts, "inplace=True"] if "inplace" in names and module.inplace else parts)


def make(name: str, entry: ModuleEntry, where: str) -> type[Module]:
    """Create and return the class of a table entry, which belongs to the module `where`."""
    kind = inspect.Parameter.KEYWORD_ONLY if entry.keyword_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(n, kind, default=d) for n, d in entry.settings.items()])
    names = list(entry.settings) if entry.shown is None else entry.shown

    def __init__(self: Module, *args: Any, **kwargs: Any) -> None:
        Module.__init__(self)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        chosen = dict(bound.arguments)
        chosen = chosen if entry.prepare is None else entry.prepare(chosen)
        object.__setattr__(self, "_settings", tuple(chosen))
        for key, value in chosen.items():
            if isinstance(value, Tensor) or (value is None and key in ("weight", "pos_weight")):
                self.register_buffer(key, value)
            else:
                setattr(self, key, value)

    def forward(self: AnyTensor, *inputs: Any, **kwargs: Any) -> Any:
        keywords = {key: getattr(self, key) for key in self._settings}
        if entry.training:
            keywords["training"] = self.training
        return getattr(functional, entry.function)(*inputs, **keywords, **kwargs)

    def extra_repr(self: AnyTensor) -> str:
        return _format_settings(self, names)

    forward.__doc__ = f"Call `gradcore.nn.functional.{entry.function}` with this module's settings."
    extra_repr.__doc__ = "Return the settings that `repr` shows."
    body = {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__module__": where}
    doc = Docstring(f"`gradcore.nn.functional.{entry.function}` as a module.", entry.function, entry.settings)
    cls = type(name, (entry.base,), {**body, "__doc__": doc, "__signature__": signature})
    for function in (__init__, forward, extra_repr):
        function.__qualname__ = f"{name}.{function.__name__}"
    return cls
