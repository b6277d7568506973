"""Judgement of user code that a capture runs once more than eager execution does: hooks, `Function.backward`.

A capture computes gradients before any backward, so it calls this code once more. That must not change anything.
Code is judged before it runs, by its instructions and by the objects in its reach:

- Code that assigns to an attribute or to a variable outside is refused, as are calls with unknown effects.
- Code may change objects that it has made itself (items of a list, elements of a tensor). If some of the code
  changes objects, and some of it reaches objects from outside, these may be the same objects, and it is refused.
- Objects whose classes are written in C, or have special methods in C or finalizers, may change without a frame that
  shows it, and are refused.
- Writes to tensors from outside are found by the recorder, which sees every call on arrays.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import functools
import inspect
import itertools
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Collection, Mapping, Sequence, Set
from enum import IntEnum
from typing import Any, Generic
from weakref import ref

import numpy as np

from gradcore.autograd.function import BackwardFunction, FunctionCtx
from gradcore.autograd.node import Node, call_posthooks, call_prehooks, call_tensor_hooks
from gradcore.autograd.variables import TensorMeta, Variable
from gradcore.compiler.capture import objects, trusted
from gradcore.core.device import device
from gradcore.core.dtypes import dtype
from gradcore.nn.backward_hooks import BackwardHooks
from gradcore.nn.lazy import LazyModuleMixin
from gradcore.nn.module import Module
from gradcore.nn.module_hooks import find_forward_code

__all__ = ["CALLING_HOOKS", "RepeatedCode", "handles_end_of_capture"]

#: Packages whose functions and classes code may use; what gradcore's functions change is looked at elsewhere.
_TRUSTED = ("cmath", "gradcore", "math", "numpy")
#: Instructions that change a variable or attribute that outlives the call, besides those of free variables.
_STORING = frozenset(("DELETE_ATTR", "DELETE_GLOBAL", "DELETE_NAME", "STORE_ATTR", "STORE_GLOBAL", "STORE_NAME"))
#: Beginnings of instructions, and names of methods, that may change an object or move an iterator on.
_CHANGING = ("BEFORE_", "CONTAINS_", "DELETE_S", "DICT_", "FOR_", "GET_", "LIST_", "LOAD_SPECIAL", "SEND", "SET_",
             "STORE_S", "UNPACK_", "YIELD_")  # fmt: skip
_CHANGING_NAMES = frozenset(("join",)).union(*map(dir, (OrderedDict, bytearray, deque, list, set))) - {
    *dir(Mapping), *dir(Sequence), *dir(Set), "copy",
}  # fmt: skip
#: Names of functions that read or change attributes whose names are not in the code, also of functions and tensors.
_BY_NAME = frozenset(("attrgetter", "delattr", "getattr", "methodcaller", "setattr", "vars"))
#: Special names that only read.
_READING = frozenset(("__class__", "__file__", "__name__", "__qualname__"))
#: Attributes of tensors and nodes that are other objects, or may have such as attributes.
_LEADING_ON = frozenset(
    ("_backward_hooks", "_base", "_grad_fn", "grad", "grad_fn", "metadata", "next_functions", "variable"),
)
#: Classes of errors, which handlers may catch: an effect that is found is raised as another one.
_ERRORS = frozenset(n for n, each in vars(builtins).items() if isinstance(each, type) and issubclass(each, Exception))
#: Code of contexts that end errors of any class, or call functions of users when an error passes.
_HANDLING = {each.__exit__.__code__ for each in (contextlib.closing, contextlib.ExitStack, contextlib.suppress)}
#: Builtins that change nothing.
_UNCHANGING = {f.__name__ for f in (abs, bool, complex, float, int, isinstance, len, range, round, str, type)}
#: Types of values that only functions of gradcore change, besides its own classes.
_UNCHANGEABLE = (
    Variable, bool, int, float, complex, str, bytes, range, slice, types.NoneType, types.EllipsisType, dtype, device,
    *objects.SCALARS, np.ufunc, tuple, frozenset, types.FunctionType, types.CodeType, FunctionCtx,
)  # fmt: skip
#: Types of functions written in C that run without a frame: those that a class may have as special methods.
_HIDDEN = (types.BuiltinFunctionType, types.MethodDescriptorType, types.MethodWrapperType, functools.partial)
#: The type of the attributes of named tuples, which are elements.
_FIELD = type(vars(TensorMeta)["shape"])
#: Classes written in C that change by names in `_CHANGING_NAMES` alone, and whose elements `_find_parts` finds.
_KNOWN_CLASSES = frozenset(
    (object, *_UNCHANGEABLE, list, dict, set, OrderedDict, types.SimpleNamespace, types.MethodType, Generic, np.dtype),
)
#: The ids of the code that calls hooks of nodes and tensors. Hashes of code take microseconds.
CALLING_HOOKS = {id(each.__code__) for each in (
    call_posthooks, call_prehooks, call_tensor_hooks, BackwardHooks.run_at_inputs, BackwardHooks.run_at_outputs
)}  # fmt: skip
#: The folder of the capture, whose functions are called where an array is computed with, and never by signals.
_FOLDER = __file__.rpartition("repeatable")[0]
#: Modules of the library without functions that change something or return arrays to write to, except functions with
#: the prefixes below.
_ONLY_COMPUTING = (
    "gradcore.autograd.function", "gradcore.autograd.grad_mode", "gradcore.compiler.capture.substitutes",
    "gradcore.core.dtypes", "gradcore.core.size", "gradcore.core.tracebacks", "gradcore.dispatch.",
    "gradcore.functional", "gradcore.nn.functional", "gradcore.ops.", "gradcore.tensor.", "abc", "enum",
)  # fmt: skip
_WITH_EFFECTS = ("__array__", "__dlpack__", "backward", "data_ptr", "manual_", "numpy", "register_", "requires_grad_",
                 "retain_", "seed", "set_", "setbuf", "seterr", "share_", "storage", "swap_", "untyped_")  # fmt: skip
#: Methods of modules that change nothing but tensors, see `_only_computes`.
_OF_MODULES = frozenset(("__call__", "__getattr__", "_call_impl"))


class Effect(IntEnum):
    """Extent of what code can change, or what can be changed by means of a value."""

    NOTHING = 0
    OBJECTS = 1
    ANYTHING = 2


class RepeatedCode:
    """The code that a capture has run once more so far.

    Attributes
    ----------
    changes, reaches : Effect
        What all of this code changes, and what it reaches from outside.
    """

    def __init__(self) -> None:
        self.changes = self.reaches = Effect.NOTHING
        #: By the id of a code object: the code, the names of its arguments, and whether the last one takes all others.
        self._arguments: dict[int, tuple[types.CodeType, tuple[str, ...], bool]] = {}

    def find_effect(self, frame: types.FrameType, kind: str) -> str | None:
        """Return what is wrong with code of a kind (see `Watch._kind_of`) that is about to run, or None."""
        code, back, namespace = frame.f_code, frame.f_back, frame.f_globals
        if kind == "user" or id(code) in CALLING_HOOKS:
            values = [value for name, value in frame.f_locals.items() if name != ".0"]
            values += [namespace[name] for name in code.co_names if name in namespace]
            changes, reaches = Effect.NOTHING, find_reach(tuple(values), code.co_names)
            if kind == "user":
                is_shadowed = not _ERRORS.isdisjoint(code.co_names) and not _ERRORS.isdisjoint(namespace)
                changes = Effect.ANYTHING if is_shadowed else find_changes(code)
                self.changes, self.reaches = max(self.changes, changes), max(self.reaches, reaches)
            if Effect.ANYTHING in (changes, reaches) or (self.changes and self.reaches):
                return f"{code.co_name} may change an object from outside, and would run once more than without compile"
        elif not (back is None or trusted.is_library(back.f_globals) or trusted.is_generated(back.f_code)):
            module, name = str(namespace.get("__name__", "")), code.co_name
            is_allowed = kind == "numpy" or trusted.is_generated(code) or module.startswith(_ONLY_COMPUTING)
            if module.startswith("gradcore.nn.module") and name in _OF_MODULES:
                is_allowed = _only_computes(frame.f_locals["self"])
            has_effect = name.startswith(_WITH_EFFECTS) or (name[-1] == "_" and name[-2:] not in ("_", "__"))
            if name == "saved_tensors":  # A class may allow backward to read them once.
                has_effect = frame.f_locals["self"]._forward_cls.clear_saved_tensors_on_access
            if not is_allowed or has_effect or module.endswith(("inplace_views", "generator")):
                return f"{name} is called"
        return None

    def is_asynchronous(self, frame: types.FrameType) -> bool:
        """Return whether no code has called a frame's code: a finalizer, a signal handler, or a weakref's callback."""
        code = frame.f_code
        _, names, rest = self._arguments.get(id(code)) or self._find_arguments(code)
        if not names:
            return False
        back, values = frame.f_back, frame.f_locals
        if code.co_name == "__del__" and (back is None or "__del__" not in back.f_code.co_names):
            return True
        arguments: list[Any] = [values.get(name) for name in names]
        if rest:
            arguments += values.get(names[-1], ())
        # By `type`: sizes that stand for ints have no class before they are initialized.
        return any(each is back or (issubclass(type(each), ref) and each() is None) for each in arguments)

    def _find_arguments(self, code: types.CodeType) -> tuple[types.CodeType, tuple[str, ...], bool]:
        """Return code, the names of its arguments, and whether the last one is a tuple of all others."""
        rest = bool(code.co_flags & inspect.CO_VARARGS)
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + rest]
        # Variables of generated code may share a name, which `f_locals` would mix up.
        is_called = trusted.is_generated(code) or code.co_filename.startswith(_FOLDER)
        return self._arguments.setdefault(id(code), (code, () if is_called else names, rest))


def _only_computes(module: Module) -> bool:
    """Return whether a module is of layers and of users' modules: no lazy ones, and none that send messages."""
    home = f"{type(module).__module__}."
    is_other = home.startswith("gradcore.") and not home.startswith("gradcore.nn.")
    if is_other or isinstance(module, LazyModuleMixin):
        return False
    if Effect.ANYTHING in [find_reach(each, ()) for each in find_forward_code(module)]:
        return False
    return all(each is None or _only_computes(each) for each in vars(module).get("_modules", {}).values())


@functools.cache
def _handles_all_errors(code: types.CodeType) -> bool:
    """Return whether code handles other errors than Python's own subclasses of `Exception`, as those of a capture."""
    steps = [*dis.get_instructions(code)]
    return any(each.opname == "PUSH_EXC_INFO" and not _passes_effects(steps, i) for i, each in enumerate(steps, 1))


def handles_end_of_capture(users: Collection[types.CodeType], executed: Collection[types.CodeType]) -> bool:
    """Return whether user code in `users` handles errors of all classes, by itself or by a context of `executed`."""
    if any(code.co_name == "__exit__" or _handles_all_errors(code) for code in users):
        return True
    steps = itertools.chain.from_iterable(map(dis.get_instructions, users))
    return not _HANDLING.isdisjoint(executed) and any(each.opname == "WITH_EXCEPT_START" for each in steps)


@functools.cache
def find_changes(code: types.CodeType) -> Effect:
    """Return what the instructions of user code can change."""
    if code.co_name == "__enter__":  # `__exit__` also runs if the code is stopped.
        return Effect.ANYTHING
    # Handlers of other errors would run, unobserved, if the code is stopped.
    if _handles_all_errors(code) or any(n in _BY_NAME or (n[:2] == "__" and n not in _READING) for n in code.co_names):
        return Effect.ANYTHING
    is_changing = not _CHANGING_NAMES.isdisjoint(code.co_names)
    before = None
    for each in dis.get_instructions(code):
        name, value = each.opname, each.argval
        is_stored = name in _STORING or (name in ("DELETE_DEREF", "STORE_DEREF") and value in code.co_freevars)
        if is_stored or (name == "IMPORT_NAME" and value not in sys.modules):
            return Effect.ANYTHING
        is_changing |= name == "BINARY_OP" and each.argrepr[-1] == "="
        is_changing |= name.startswith(_CHANGING) and before != "saved_tensors"
        is_changing |= name == "LOAD_GLOBAL" and value in vars(builtins).keys() - _UNCHANGING - _ERRORS
        before = value
    return Effect.OBJECTS if is_changing else Effect.NOTHING


def _passes_effects(instructions: list[dis.Instruction], i: int) -> bool:
    """Return whether the handler that begins at position `i` raises a `RepeatedEffect` again, and does nothing else."""
    positions = {each.offset: j for j, each in enumerate(instructions)}
    if instructions[i].opname == "WITH_EXCEPT_START":  # `__exit__` has been judged.
        return True
    while instructions[i].opname != "RERAISE":
        names = [*itertools.takewhile(lambda each: each.opname == "LOAD_GLOBAL", instructions[i:])]
        i += len(names) + (instructions[i + len(names)].opname == "BUILD_TUPLE")
        jump = instructions[i + 1]
        is_match = instructions[i].opname == "CHECK_EXC_MATCH" and jump.opname.startswith("POP_JUMP")
        if not (names and is_match and _ERRORS.issuperset(each.argval for each in names)):
            return False
        i = positions[jump.argval]
    return True


def find_reach(value: object, names: Collection[str], depth: int = 4) -> Effect:
    """Return what code with these names can change by means of a value and of the values in it."""
    own, parts = _find_own_reach(value, names), _find_parts(value, names)
    if not depth:
        return Effect.ANYTHING if parts else own
    return max([own, *(find_reach(each, names, depth - 1) for each in parts)])


def _find_own_reach(value: object, names: Collection[str]) -> Effect:
    """Return what code with these names can change by means of a value itself."""
    cls, is_module = type(value), isinstance(value, types.ModuleType)
    origin = str(getattr(value, "__name__" if is_module else "__module__", None))
    is_trusted = origin.partition(".")[0] in _TRUSTED
    if isinstance(value, (types.BuiltinFunctionType, types.ModuleType, type)):
        if not is_trusted and (origin in sys.stdlib_module_names or isinstance(value, types.BuiltinFunctionType)):
            is_unchanging = origin == "builtins" and value.__name__ in _UNCHANGING
            return Effect.NOTHING if is_unchanging else Effect.ANYTHING
        is_hidden = isinstance(value, type) and (_has_hidden_methods(value) or _has_hidden_methods(cls))
        return Effect.NOTHING if is_trusted else Effect.ANYTHING if is_hidden else Effect.OBJECTS
    if isinstance(value, _UNCHANGEABLE):
        return Effect.OBJECTS if isinstance(value, (Variable, Node)) and _LEADING_ON & {*names} else Effect.NOTHING
    if is_trusted and isinstance(value, Module):
        return Effect.NOTHING
    is_of_c = callable(value) and not isinstance(getattr(cls, "__call__", None), types.FunctionType)  # noqa: B004
    is_of_c |= hasattr(cls, "__next__") or _has_hidden_methods(cls) or any(map(_has_methods_in_c, cls.__mro__))
    return Effect.ANYTHING if is_of_c and not isinstance(value, types.MethodType) else Effect.OBJECTS


def _has_methods_in_c(cls: type) -> bool:
    """Return whether a class is written in C, besides the ones whose methods and elements are known."""
    if cls in _KNOWN_CLASSES:
        return False
    methods = (types.MethodDescriptorType, types.WrapperDescriptorType)
    return any(isinstance(each, methods) and each.__objclass__ is cls for each in vars(cls).values())


def _has_hidden_methods(cls: type) -> bool:
    """Return whether operators or the end of an object call what no frame shows before: code in C, and finalizers."""
    others = {*_TRUSTED, *sys.stdlib_module_names}
    users = [each for each in cls.__mro__ if str(each.__module__).partition(".")[0] not in others]
    special = [pair for each in users for pair in vars(each).items() if pair[0][:2] == "__"]
    return any(name == "__del__" or isinstance(each, _HIDDEN) for name, each in special if name != "__new__")


def _find_parts(value: object, names: Collection[str]) -> list[object]:
    """Return the values that code with these names can read from a value."""
    parts: list[object] = []
    if isinstance(value, types.MethodType):
        parts = [value.__self__, value.__func__]
    elif isinstance(value, (tuple, list, set, frozenset, dict)):
        parts = [*(value.values() if isinstance(value, dict) else value)]
    elif isinstance(value, BackwardFunction):
        parts = [each.tensor for each in value._saved or ()]
    attributes = getattr(value, "__dict__", {})
    tables = [attributes]
    if isinstance(value, Module):
        tables += [attributes.get(name, {}) for name in ("_parameters", "_buffers", "_modules")]
    wanted = {*names}
    for table in tables:
        parts += [table[name] for name in wanted & table.keys()]
    for cls in (*(value.__mro__ if isinstance(value, type) else ()), *type(value).__mro__):
        for name in wanted & vars(cls).keys():
            part = vars(cls)[name]
            if isinstance(part, property):
                parts.append(part.fget)
            elif isinstance(part, (classmethod, staticmethod)):
                parts.append(part.__func__)
            elif isinstance(part, types.MemberDescriptorType) and isinstance(value, cls):
                parts.append(getattr(value, name, None))  # a slot
            elif not isinstance(part, _FIELD) and getattr(part, "__objclass__", None) is not cls:
                parts.append(part)  # It is no method in C of the class itself.
    return parts
