"""Functions and methods with the signatures of their declarations."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from gradcore.autograd.formulas import TENSORS
from gradcore.autograd.graph import (
    Variable,
)
from gradcore.dispatch.calls import apply, call_composite
from gradcore.dispatch.inplace import apply_inplace, out_of
from gradcore.ops.table import Op

__all__ = ["NUMPY_NAMES", "REQUIRED", "make_function", "make_inplace", "named", "spread", "with_out"]


_templates: dict[Any, Callable[..., Any]] = {}


#: NumPy's names for parameters, which PyTorch takes, too.
NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim"}


class _Required:
    """In the place of a default: the parameter must be given, under one of its names."""

    def __repr__(self) -> str:
        return "<required>"


REQUIRED = _Required()


def _template(n: int, out: bool, required: tuple[int, ...] | None) -> Callable[..., Any]:
    """A maker of functions of `n` parameters that hand them on as one tuple.

    Unless `required` is None, they know NumPy's names of their parameters; those at these positions must be given.
    """
    key = n, out, required
    if key not in _templates:
        names = ", ".join(f"a{i}" for i in range(n))
        aliased = "" if required is None else ", **aliases"
        lines = ["def make(run, run_out, op):", f"    def call({names}{', out' if out else ''}{aliased}):"]
        if required is not None:
            lines += [f"        if {' or '.join(['aliases', *(f'a{i} is REQUIRED' for i in required)])}:"]
            lines += [f"            {names}, = renamed(op, ({names},), aliases)"]
        if out:
            lines += ["        if out is not None:", f"            return run_out(op, ({names},), out)"]
        lines += [f"        return run(op, ({names},))", "    return call"]
        scope: dict[str, Any] = {"REQUIRED": REQUIRED, "renamed": _renamed}
        exec("\n".join(lines), scope)
        _templates[key] = scope["make"]
    return _templates[key]


def _renamed(op: Op, args: tuple[Any, ...], aliases: dict[str, Any]) -> list[Any]:
    """The arguments with those put in their places that were given by NumPy's names."""
    full, name = list(args), op.path.rpartition(".")[2]
    for alias, value in aliases.items():
        position = op.position.get(NUMPY_NAMES.get(alias, ""))
        if position is None:
            raise TypeError(f"{name}() got an unexpected keyword argument '{alias}'")
        full[position] = value
    for parameter, value in zip(op.parameters, full, strict=True):
        if value is REQUIRED:
            raise TypeError(f"{name}() missing required argument: '{parameter.name}'")
    return full


def make_function(op: Op, *, method: bool, run: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A function with the operation's signature, as users call it."""
    if run is None:
        run = call_composite if op.kind == "composite" else apply
    name = op.path.rpartition(".")[2]
    if any(p.kind is p.VAR_POSITIONAL for p in op.parameters):  # a composite of any number of tensors
        return named(lambda *args, **settings: op.body(TENSORS, *args, **settings), op, name, method)  # type: ignore[misc]
    if op.parameters and op.parameters[-1].annotation == "Sizes" and method:
        return named(_variadic(op, run), op, name, method)
    with_out = not method and not op.view and not op.path.startswith("nn.")
    dim = op.position.get("dim")
    required = (
        None if dim is None else tuple(i for i, p in enumerate(op.parameters) if i >= dim and p.default is p.empty)
    )
    function = _template(len(op.names), with_out, required)(run, out_of, op)
    names = list(op.names)
    if not method and names and names[0] == "self":
        names[0] = "input"
    keyword_only = [p for p in op.parameters if p.kind is p.KEYWORD_ONLY]
    positional = len(names) - len(keyword_only)
    code = function.__code__
    code = code.replace(
        co_varnames=(*names, *(["out"] if with_out else []), *code.co_varnames[len(names) + with_out :]),
        co_argcount=positional,
        co_kwonlyargcount=len(keyword_only) + with_out,
    )
    defaults = tuple(
        REQUIRED if p.default is p.empty else p.default
        for i, p in enumerate(op.parameters[:positional])
        if p.default is not p.empty or i in (required or ())
    )
    function = types.FunctionType(code, function.__globals__, name, defaults, function.__closure__)
    function.__kwdefaults__ = {p.name: p.default for p in keyword_only if p.default is not p.empty}
    if with_out:
        function.__kwdefaults__["out"] = None
    return named(function, op, name, method)


def _variadic(op: Op, run: Callable[..., Any]) -> Callable[..., Any]:
    last = op.names[-1]

    def call(self: Any, *values: Any, **named: Any) -> Any:
        if named:
            if values or list(named) != [last]:
                raise TypeError(f"{op.name}() got an unexpected keyword argument {next(iter(named))!r}")
            values = (named[last],)
        if len(values) == 1 and not hasattr(values[0], "__index__"):
            values = values[0]
        elif len(values) == 1 and isinstance(values[0], Variable) and values[0]._array.ndim:
            values = tuple(values[0].tolist())  # type: ignore[attr-defined]
        return run(op, (self, values))

    return call


def spread(function: Callable[..., Any], op: Op) -> Callable[..., Any]:
    """A function of a sequence of tensors as one that takes the tensors as separate arguments, too."""

    def call(*tensors: Any, **settings: Any) -> Any:
        single = len(tensors) == 1 and (op.kind == "composite" or not isinstance(tensors[0], Variable))
        return function(tensors[0] if single else tensors, **settings)

    return call


def named(function: Any, op: Op, name: str, method: bool) -> Callable[..., Any]:
    function.__name__ = name
    function.__qualname__ = f"Tensor.{name}" if method else name
    function.__doc__ = op.doc
    function.__module__ = "gradcore"
    return function  # type: ignore[no-any-return]


def make_inplace(op: Op) -> Callable[..., Any]:
    """The method that writes the operation's result into its first argument."""
    function = make_function(op, method=True, run=apply_inplace)
    function.__name__ = function.__name__ + "_"
    function.__qualname__ = function.__qualname__ + "_"
    return function


def with_out(function: Callable[..., Any], op: Op) -> Callable[..., Any]:
    """A fast one- or two-argument function, with ``out=`` as an option."""
    if len(op.names) == 1:

        def call(input: Any, *, out: Any = None) -> Any:
            return function(input) if out is None else out_of(op, (input,), out)

    else:

        def call(input: Any, other: Any, *, out: Any = None) -> Any:  # type: ignore[misc]
            return function(input, other) if out is None else out_of(op, (input, other), out)

    return call
