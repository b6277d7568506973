"""Functions and methods of operations, with the signatures of their declarations."""

from __future__ import annotations

import builtins
import functools
import types
from collections.abc import Callable, Iterable
from typing import Any

from gradcore import functional
from gradcore.autograd.modes import GRAD, local
from gradcore.autograd.variables import Variable
from gradcore.core.errors import warn_once
from gradcore.core.tracebacks import generated_file, shorten, shorten_errors
from gradcore.dispatch.fast_path import globals_of, has_fast_path, source_of
from gradcore.dispatch.general import apply, call_composite
from gradcore.dispatch.inplace import apply_inplace, out_of
from gradcore.dispatch.interception import intercept
from gradcore.dispatch.operands import NUMBERS
from gradcore.dispatch.torch_function import overridable
from gradcore.ops.declare.documentation import docstring
from gradcore.ops.declare.table import Op

__all__ = ["NUMPY_NAMES", "REQUIRED", "make_function", "make_inplace", "set_names", "spread"]


#: PyTorch's names of parameters by NumPy's names, which PyTorch accepts as well.
NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x2": "other"}


def _collect_other_names(op: Op) -> dict[str, str]:
    """Return the alternative names of an operation's parameters, as a dict from alternative to declared names.

    These are NumPy's names, the names in the declaration's `also`, and ``input`` where the first parameter is ``A``.
    """
    first = op.names[0] if op.names else ""
    aliases = {"x1": first, "a": first, "x": first} if first in ("self", "input") else {}
    op_names = {"input": "A"} if first == "A" else aliases | {"x": first} if op.path.startswith("special.") else aliases
    return {
        name: parameter for name, parameter in {**NUMPY_NAMES, **op_names, **op.also}.items() if name not in op.names
    }


class _Required:
    """Default of a required parameter that has alternative names, under which a caller may pass it."""

    def __repr__(self) -> str:
        return "<required>"


REQUIRED = _Required()

#: Last lines of every function: they remove gradcore's frames from the traceback of an error.
_LAST_LINES = ("except BaseException as error:", "    shorten(error)", "    raise")


def make_function(
    op: Op, *, method: bool, run: Callable[..., Any] | None = None, general: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Return a function with the operation's signature, as users call it.

    Parameters
    ----------
    op : Op
    method : bool
        Whether to return a method, whose first parameter is called ``self`` and which has no ``out=``.
    run : callable, optional
        Function that handles all calls, as ``run(op, args)``, in place of a fast path.
    general : callable, optional
        Function that handles the calls that the fast path cannot, as ``general(op, args)``. The default is
        `call_composite` for composites and `apply` for other operations.
    """
    name = op.path.rpartition(".")[2]
    if any(p.kind is p.VAR_POSITIONAL for p in op.parameters):  # a composite of any number of tensors
        return set_names(_accept_any_number(op), op, name, method)
    if general is None:
        general = call_composite if op.kind == "composite" else apply
    signature = _Signature(op, method)
    function = signature.function()
    scope = function.__globals__
    scope["run"] = run or general
    if run is None and has_fast_path(op):
        scope["run"] = _first_call(function, signature, general)
    return set_names(function, op, name, method)


def _first_call(function: Any, signature: _Signature, general: Callable[..., Any]) -> Callable[..., Any]:
    """Return a stub for ``run(op, args)`` that handles the first call of `function`.

    It also replaces the code of `function` by its fast path, so that fast paths are only compiled for operations in
    use.
    """

    def run(op: Op, args: tuple[Any, ...]) -> Any:
        function.__globals__.update(globals_of(op, general))
        code = signature.code(source_of(op))
        function.__code__ = code.replace(co_name=function.__name__, co_qualname=function.__qualname__)
        return general(op, args)

    return run


class _Signature:
    """Signature of an operation as a function or a method, which builds functions from bodies of source code.

    The lines of a body refer to the parameters as ``a0, a1, ...`` and to the globals of the function, of which each
    function has its own. Functions with the same source share one compiled code object.
    """

    def __init__(self, op: Op, method: bool) -> None:
        self.op = op
        names, parameters = list(op.names), op.parameters
        if not method and names and names[0] == "self":
            names[0] = "input"
        #: Whether the last parameter takes sizes as separate arguments.
        self.variadic = method and bool(parameters) and str(parameters[-1].annotation).startswith("Sizes")
        self.out = not method and not op.view and not op.path.startswith("nn.")
        #: Positions of the required parameters from the first with an alternative name on; None without such names.
        self.required: tuple[int, ...] | None = None
        renamed = [op.position[name] for name in _collect_other_names(op).values() if name in op.position]
        if renamed and not self.variadic:
            first = min(renamed)
            self.required = tuple(i for i, p in enumerate(parameters) if i >= first and p.default is p.empty)
        keyword_only = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
        self.positional = len(names) - len(keyword_only)
        self.names = [*names, "out"] if self.out else names
        self.defaults = tuple(
            REQUIRED if p.default is p.empty else p.default
            for i, p in enumerate(parameters[: self.positional])
            if p.default is not p.empty or i in (self.required or ())
        )
        self.keyword_defaults = {p.name: p.default for p in keyword_only if p.default is not p.empty}
        if self.out:
            self.keyword_defaults["out"] = None

    def code(self, body: Iterable[str]) -> types.CodeType:
        """Return the code object of a function with this signature and the given body."""
        names = None if self.variadic else tuple(self.names)
        lines = (f"    {line}" for line in (*self._first_lines(), *body))
        return _compile_function((self._head(), "try:", *lines, *_LAST_LINES), names, self.positional)

    def _head(self) -> str:
        parameters = [f"a{i}" for i in range(len(self.op.names))]
        if self.variadic:
            parameters[-1:] = [f"*{parameters[-1]}", "**named"]
        if self.op.numbers_first:
            parameters.insert(self.positional, "*deprecated")
        if self.out:
            parameters.append("out")
        if self.required is not None:
            parameters.append("**aliases")
        return f"def call({', '.join(parameters)}):"

    def _first_lines(self) -> Iterable[str]:
        """Yield source that processes aliases, sizes as separate arguments, deprecated overloads and ``out=``."""
        arguments = _names(self.op)
        if self.variadic:
            last = f"a{len(self.op.names) - 1}"
            yield from (f"if len({last}) == 1 or named:", f"    {last} = sizes(op, {last}, named)")
        if self.required is not None:
            missing = "".join(f" or a{i} is REQUIRED" for i in self.required)
            yield from (f"if aliases{missing}:", f"    {arguments} = renamed(op, {arguments}, aliases)")
        if self.op.numbers_first:
            yield from ("if deprecated:", f"    {arguments} = numbers_last(op, {arguments}, deprecated, function)")
        if self.out:
            yield from ("if out is not None:", f"    return out_of(op, {arguments}, out)")

    def function(self) -> Any:
        """Return a function with this signature and its own globals that calls ``run(op, args)``."""
        key = tuple(self.names), self.positional, self.required, self.out, self.variadic, self.op.numbers_first
        if key not in _handing_over:
            _handing_over[key] = self.code([f"return run(op, {_names(self.op)})"])
        scope: dict[str, Any] = {
            "__builtins__": builtins,  # C code that imports modules, as NumPy's for a dtype's name, needs this entry
            "__name__": __name__, "op": self.op, "out_of": out_of, "renamed": _apply_aliases, "sizes": _sizes,
            "numbers_last": _numbers_last, "REQUIRED": REQUIRED, "shorten": shorten,
        }  # fmt: skip
        function = types.FunctionType(_handing_over[key], scope, "call", None if self.variadic else self.defaults)
        scope["function"] = function
        if not self.variadic:
            function.__kwdefaults__ = self.keyword_defaults
        return function


#: Code objects of functions that only call ``run(op, args)``, by signature.
_handing_over: dict[tuple[Any, ...], types.CodeType] = {}


@functools.cache
def _compile_function(
    lines: tuple[str, ...], names: tuple[str, ...] | None = None, positional: int = 0
) -> types.CodeType:
    """Return the code object of a function.

    Functions with the same source are compiled once; only their parameters are renamed.

    Parameters
    ----------
    lines : tuple of str
        Source of the function, with parameters ``a0, a1, ...``.
    names : tuple of str, optional
        Names of the parameters in the returned code.
    positional : int
        Number of positional parameters.
    """
    if names is not None:
        code = _compile_function(lines)
        parameters = ", ".join(f"a{i}: {name}" for i, name in enumerate(names) if name != "out")
        return code.replace(
            co_filename=generated_file(
                "gradcore.dispatch.fast_path", "\n    ".join((f"{lines[0]}  # {parameters}", *lines[1:]))
            ),
            co_varnames=(*names, *code.co_varnames[len(names) :]),
            co_argcount=positional,
            co_kwonlyargcount=len(names) - positional,
        )
    text = "\n    ".join(lines)
    module = compile(text, generated_file("gradcore.dispatch.fast_path", text), "exec")
    return next(constant for constant in module.co_consts if isinstance(constant, types.CodeType))


def _names(op: Op) -> str:
    return f"({', '.join(f'a{i}' for i in range(len(op.names)))},)"


def _apply_aliases(op: Op, args: tuple[Any, ...], aliases: dict[str, Any]) -> list[Any]:
    """Return the arguments of a call, with the values in `aliases` (by alternative names) at their positions.

    Raises
    ------
    TypeError
        If a name in `aliases` is unknown, or a required argument is missing.
    """
    full, name = list(args), op.path.rpartition(".")[2]
    declared_names = _collect_other_names(op)
    for alias, value in aliases.items():
        position = op.position.get(declared_names.get(alias, ""))
        if position is None:
            raise TypeError(f"{name}() got an unexpected keyword argument '{alias}'")
        full[position] = value
    for parameter, value in zip(op.parameters, full, strict=True):
        if value is REQUIRED:
            raise TypeError(f"{name}() missing required argument: '{parameter.name}'")
    return full


def _numbers_last(op: Op, args: tuple[Any, ...], further: tuple[Any, ...], function: Any) -> list[Any]:
    """Return the arguments of a call of a deprecated overload in the order of the current signature.

    For example, ``add(x, 2, y)`` stands for ``add(x, y, alpha=2)``.
    """
    count, method = len(op.tensors), function.__qualname__.startswith("Tensor.")
    values, settings = [*args[:count], *further], op.names[count:]
    # `beta` precedes the tensor that it multiplies, or follows the tensor whose method is called. `alpha` precedes the
    # factors of the product.
    places = (int(method or len(settings) == 1), 2)[: len(further)]
    is_given_twice = any(args[op.position[name]] != op.parameters[op.position[name]].default for name in settings)
    if is_given_twice or len(further) > len(settings) or not all(isinstance(values[i], NUMBERS) for i in places):
        raise TypeError(f"{function.__qualname__}() takes {count} positional arguments but {len(values)} were given")
    warn_once(_overload_warning(op, places, function.__name__, method))
    numbers = dict(zip(settings, (values[i] for i in places), strict=False))
    tensors = [value for i, value in enumerate(values) if i not in places]
    return [*tensors, *(numbers.get(name, args[op.position[name]]) for name in settings)]


def _overload_warning(op: Op, places: tuple[int, ...], name: str, method: bool) -> str:
    names, settings = list(op.names[: len(op.tensors)]), op.names[len(op.tensors) :]
    new = [f"Tensor {name}" for name in (names if method else ["input", *names[1:]])]
    old = list(new)
    for i, number in zip(places, settings, strict=False):
        old.insert(i, f"Number {number}")
    new += ["*", *(f"Number {number} = 1" for number in settings)]
    if not method:
        old, new = [*old, "*", "Tensor out = None"], [*new, "Tensor out = None"]
    old_signature, new_signature = (", ".join(each[method:]) for each in (old, new))
    return (
        f"This overload of {name} is deprecated:\n\t{name}({old_signature})\n"
        f"Consider using one of the following signatures instead:\n\t{name}({new_signature})"
    )


def _sizes(op: Op, values: tuple[Any, ...], set_names: dict[str, Any]) -> Any:
    """Return the sizes of a call, which may be one sequence, separate arguments, or an argument given by name."""
    if set_names:
        name, value = next(iter(set_names.items()))
        if values or len(set_names) > 1 or _collect_other_names(op).get(name, name) != op.names[-1]:
            raise TypeError(f"{op.name}() got an unexpected keyword argument {name!r}")
        values = (value,)
    if len(values) != 1:
        return values
    value = values[0]
    if not hasattr(value, "__index__"):
        return value
    if isinstance(value, Variable) and value._array.ndim:
        return tuple(value.tolist())  # type: ignore[attr-defined]
    return values


def _accept_any_number(op: Op) -> Callable[..., Any]:
    @overridable
    def call(*args: Any, **settings: Any) -> Any:
        def run(op: Op, args: tuple[Any, ...], state: Any) -> Any:
            return op.body(functional, *args, **settings)  # type: ignore[misc]

        state = local.state
        return run(op, args, state) if state.mode <= GRAD else intercept(op, args, run, state)

    return call


def spread(function: Callable[..., Any], op: Op) -> Callable[..., Any]:
    """Wrap a function of a sequence of tensors so that it also takes the tensors as separate arguments."""

    def call(*tensors: Any, **settings: Any) -> Any:
        is_sequence = len(tensors) == 1 and (op.kind == "composite" or not isinstance(tensors[0], Variable))
        return function(tensors[0] if is_sequence else tensors, **settings)

    return shorten_errors(call)


def set_names(function: Any, op: Op, name: str, method: bool) -> Callable[..., Any]:
    """Set the name, docstring and module of an operation's function or method, and return it."""
    function.__name__ = name
    function.__qualname__ = f"Tensor.{name}" if method else name
    function.__doc__ = docstring(op, method)
    # `compiler` recognizes a function by the name of its code, which the first call replaces.
    function.__code__ = function.__code__.replace(co_name=name, co_qualname=function.__qualname__)
    where = op.path.rpartition(".")[0]
    function.__module__ = f"gradcore.{where}" if where and not method else "gradcore"  # where pickle finds it
    return function  # type: ignore[no-any-return]


def make_inplace(op: Op) -> Callable[..., Any]:
    """Return the in-place method of an operation, which writes the result into its first argument."""
    function = make_function(op, method=True, run=apply_inplace)
    function.__name__ = function.__name__ + "_"
    function.__qualname__ = function.__qualname__ + "_"
    function.__doc__ = docstring(op, method=True, inplace=True)
    return function
