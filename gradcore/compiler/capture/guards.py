"""Guards: the conditions under which a program is valid, and the function that checks them.

The state that a function can see is found from the code that it runs: global names, closures, defaults, attributes of
objects and modules, elements of lists and dicts, and everything reachable from these. All that is mutable is guarded
by value or by identity; tensors by the properties that the program depends on.
"""

from __future__ import annotations

import abc
import builtins
import dis
import enum
import functools
import gc
import importlib.util
import inspect
import itertools
import operator
import os
import re
import sys
import types
import typing
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from gradcore.amp.scaling import GradScaler
from gradcore.autograd.gradients import backward
from gradcore.autograd.modes import local
from gradcore.autograd.variables import Variable
from gradcore.autograd.views import gradient_edge
from gradcore.backends import switches
from gradcore.backends.registry import CPU
from gradcore.compiler.capture import trusted
from gradcore.compiler.capture.host_calls import HOST_CLASSES, can_be_observed, recorded_methods
from gradcore.compiler.capture.reasons import Code, Reason
from gradcore.compiler.capture.substitutes import original_of
from gradcore.compiler.capture.watch import BY_NAME, FACTS, FORMATTING, Observed, is_pure, names_in
from gradcore.compiler.program.source import Source, names_assigned_in, names_in_lines
from gradcore.compiler.program.storage import find_cupy_backends
from gradcore.core import config, dtypes
from gradcore.core.determinism import get_deterministic_debug_mode as deterministic
from gradcore.core.device import device, get_default_device
from gradcore.core.operators import OPERATORS
from gradcore.core.typing import AnyTensor
from gradcore.nn import functional
from gradcore.nn.module import Module
from gradcore.nn.module_hooks import Calls
from gradcore.nn.module_hooks import _Everywhere as Everywhere
from gradcore.nn.parameter import Parameter
from gradcore.optim import optimizer
from gradcore.optim.optimizer import Optimizer
from gradcore.tensor import Tensor

__all__ = ["Guards", "TensorGuard", "Unguardable", "reads_grads"]

#: The largest number of guards of a program. Functions that need more are not compiled.
MOST = 4096
_PLAIN = (bool, int, float, complex, str, bytes)
_UNIQUE = (
    type(None), type(...), type(NotImplemented), dtypes.dtype, np.dtype, device, enum.Enum,
    types.BuiltinFunctionType, np.ufunc, types.WrapperDescriptorType, types.MethodDescriptorType, np.generic,
    types.GetSetDescriptorType, types.MemberDescriptorType, re.Pattern,
)  # fmt: skip
_OF_NUMPY = trusted.PURE_FUNCTIONS["numpy"] or frozenset()
#: The names of the methods that each operator calls, keyed by its symbol in bytecode.
_METHODS_BY_SYMBOL = defaultdict[str, list[str]](list)
for _each in OPERATORS.values():
    for _form, _name in _each.methods:
        _METHODS_BY_SYMBOL[f"{_each.symbol}=" if _form == "in place" else _each.symbol].append(_name)
#: The largest number of values of one type whose identity a function may compare.
_MOST_IDENTITIES = 32
_DISTRIBUTIONS = os.path.join("gradcore", "distributions", "")
#: ``Py_TPFLAGS_HEAPTYPE``: whether a class was made at run time.
_HEAP_TYPE = 1 << 9
#: ``Py_TPFLAGS_IMMUTABLETYPE``: whether a class is written in C.
_IMMUTABLE = 1 << 8
#: The expression of `FACTS` that needs no guard for tensors without a history.
_OF_HISTORY = "{}.output_nr"
#: Attributes that all functions have and that are guarded only if the code reads them.
_OF_FUNCTIONS = frozenset(["__annotations__", "__doc__", "__module__", "__name__", "__qualname__"])
#: Dicts of modules that are usually empty. One guard checks all that are.
_TABLES = ("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks",
           "_backward_pre_hooks")  # fmt: skip
#: The end of the checks. An error means that an object has been deleted that no earlier line checks.
_IF_DELETED = "except (AttributeError, LookupError, TypeError, ValueError): return 0"
#: NumPy's flag bits of an array for "aligned" and "writeable".
_FLAGS = 0x100 | 0x400


class Unguardable(Exception):
    """Raised when a function depends on state that cannot be checked."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.reason = Reason(code, text)


class TensorGuard(NamedTuple):
    """A tensor that a program depends on.

    Attributes
    ----------
    name : str
        The path to the tensor from the function or its arguments, for readers.
    tensor : Tensor
    given : bool
        Whether the tensor is an argument, so that each call may pass another one.
    lines : slice
        If the tensor is the ``.grad`` of another one, the lines that check it; else empty.
    constant : str
        The name of the tensor in the scope, if each call uses the same one.
    """

    name: str
    tensor: Any
    given: bool
    lines: slice = slice(0)
    constant: str = ""


def reads_grads(codes: Iterable[types.CodeType]) -> bool:
    """Return whether code may read or set an attribute ``grad``; to call a global function `grad` does not count."""
    instructions = (each for code in codes if "grad" in code.co_names for each in dis.get_instructions(code))
    return any(each.argval == "grad" and not each.opname.endswith(("_GLOBAL", "_NAME")) for each in instructions)


def _compares_identity(code: types.CodeType) -> bool:
    """Return whether code may compare objects by ``is``, other than with None, a bool or ``...``."""
    instructions = [each for each in dis.get_instructions(code) if each.opname != "CACHE"]
    if not {"is_", "is_not"}.isdisjoint(code.co_names):
        return True
    return any(
        each.opname == "IS_OP" and not (previous.opname == "LOAD_CONST" and previous.argval in (None, True, False, ...))
        for previous, each in itertools.pairwise(instructions)
    )


@functools.cache
def _of_modules() -> frozenset[str]:
    """Return the names of the attributes that every module has."""
    return frozenset(vars(Module()))


def _operator_methods(code: types.CodeType) -> set[str]:
    """Return the names of the methods that the operators and subscripts in code call.

    The instructions differ: slices have their own since Python 3.12, ``+x`` is an intrinsic function since 3.12, a
    comparison may also convert to bool since 3.13, and ``x[i]`` is a binary operator since 3.14.
    """
    results: set[str] = set()
    for each in dis.get_instructions(code):
        name, text = each.opname, each.argrepr
        if name.endswith(("_SUBSCR", "_SLICE")) or text == "[]":
            results.update(("__getitem__", "__setitem__", "__delitem__"))
        elif name in ("BINARY_OP", "COMPARE_OP"):
            results.update(_METHODS_BY_SYMBOL.get(each.argval if name == "COMPARE_OP" else text, ()))
        elif name.startswith(("UNARY_", "CONTAINS_")) or text == "INTRINSIC_UNARY_POSITIVE":
            results.update(("__neg__", "__pos__", "__invert__", "__contains__"))
    return results


def _has_state_in_c(kind: type) -> bool:
    """Return whether instances of a class have state outside of ``__dict__`` and slots, which no guard can check."""
    # Pointers to ``__dict__`` and to weak references lie in the object itself (a positive offset), or in front of it.
    pointers = (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0) + len(_slots_of(kind))
    return kind.__basicsize__ > object.__basicsize__ + object.__basicsize__ // 2 * pointers or bool(kind.__itemsize__)


def _slots_of(kind: type) -> list[str]:
    """Return the names of the attributes that a class stores in slots."""
    names = []
    for cls in kind.__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            private = name.startswith("__") and not name.endswith("__")
            names.append(f"_{cls.__name__.lstrip('_')}{name}" if private else name)
    return [name for name in names if name not in ("__dict__", "__weakref__")]


_MISSING = object()


def _read_slot(slot: types.MemberDescriptorType, owner: object) -> object:
    """Return the value in a slot of an object."""
    try:
        return slot.__get__(owner)
    except AttributeError:
        return _MISSING


def _cached_objects(function: object) -> dict[int, object]:
    """Return the arguments and results in the cache of a `functools.lru_cache` function, by their ids."""
    referents = gc.get_referents(function)
    tables = (each.values() for each in referents if type(each) is dict)
    return {id(each): each for each in itertools.chain(referents, *tables)}


def _has_own_class(value: object) -> bool:
    """Return whether an object, such as a NumPy scalar, is of a user's subclass; enumeration members always are."""
    flags = type(value).__flags__
    is_user_class = flags & _HEAP_TYPE and not flags & _IMMUTABLE and not isinstance(value, enum.Enum)
    return bool(is_user_class) and not trusted.is_library_class(type(value))


def _is_constant_class(cls: type) -> bool:
    """Return whether the attributes of a class never change: its code is trusted, or it is immutable."""
    return trusted.is_library_class(cls) or not cls.__flags__ & _HEAP_TYPE


def same(a: Any, b: Any) -> bool:
    """Return whether two constants have the same type and value; signs of zeros count, and nan equals nan."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    return repr(a) == repr(b) if isinstance(a, (float, complex)) else bool(a == b)


def _choices(backend: Any) -> tuple[Any, ...]:
    """Return the settings that decide which kernels a device backend uses."""
    precision, attention = config.get_float32_matmul_precision(), switches.cuda.flash_sdp_enabled()
    return backend.current_index(), precision, attention, bool(backend.supports_fusion), config.index_checks()


class Guards(Source):
    """The guards of a call, generated as the lines of a checking function.

    Parameters
    ----------
    observed : Observed
        What earlier calls did. Only objects and attributes whose names occur in the code that ran are guarded.
    every : bool
        Whether the code may read attributes by computed names, so that all attributes are guarded.
    """

    def __init__(self, observed: Observed, every: bool) -> None:
        scope: dict[str, Any] = {
            "same": same, "MISS": None, "local": local, "CPU": CPU, "gradient_edge": gradient_edge,
            "get_default_device": get_default_device, "get_default_dtype": dtypes.get_default_dtype,
            "deterministic": deterministic, "every": Everywhere, "Tensor": Tensor, "ndarray": np.ndarray,
            "deque": deque, "read_slot": _read_slot,
            "before_steps": optimizer._global_pre_hooks, "after_steps": optimizer._global_post_hooks,
            "modules": sys.modules,
        }  # fmt: skip
        super().__init__("k", scope)
        self._users, self._queries = [*observed.users], [*observed.queries]
        #: Names in user code. Only these attributes can be read from modules of other packages.
        self._user_names = names_in(self._users)
        self._sees_identity = any(map(_compares_identity, self._users))
        #: By type, the containers and numbers that the function may compare by ``is``, with their expressions.
        self._identities: dict[type, list[tuple[Any, str, bool]]] = {}
        self.facts = [FACTS[code] for code in observed.facts]
        self.executed, self.names, self.every = frozenset(observed.executed), observed.names, every
        #: Whether the function may continue if an attribute is missing, because it asks for one or catches errors.
        self.misses = every or bool(observed.handled)
        #: Whether `.grad` of leaves is read or set.
        self.reads_grads = every or "grad" in self._user_names or reads_grads(self.executed)
        self._calls_backward = backward.__code__ in self.executed
        self.lines: list[str] = []
        #: Numbers of guards that are checked before a call only, see `require`.
        self.passing: set[int] = set()
        #: Lists and dicts with the names of their variables, by id.
        self.containers: dict[int, tuple[Any, str]] = {}
        self._still: Any = None
        #: A description of each guard, for readers.
        self.texts: list[str] = []
        #: The numbers of guards that have been removed because the program does not depend on them.
        self._left_out: set[str] = set()
        self.tensors: list[TensorGuard] = []
        #: By the name of a tensor, the symbols of its dims with symbolic sizes.
        self.symbols: dict[str, dict[int, str]] = {}
        #: Positions and names of arguments that may be any float.
        self.varying: frozenset[int | str] = frozenset()
        #: By name, the shapes of the tensors.
        self.shapes: dict[str, tuple[int, ...]] = {}
        #: Optimisers, schedulers and gradient scalers.
        self.hosts: list[Any] = []
        #: The lines that check the parameters of optimizers whose methods are only called, with their tensor numbers.
        self.called_groups: list[tuple[slice, frozenset[int]]] = []
        self.codes: set[types.CodeType] = set()
        #: Names of attributes that have no guard because they do not occur in the code.
        self.skipped: set[str] = set()
        #: Whether the function can reach `getattr` or the like, so that all attributes need guards.
        self.reads_by_name = False
        self._seen: dict[Any, Any] = {}
        self._array_types = (np.ndarray, *(backend.array_type for backend in find_cupy_backends()))
        self._slots = itertools.count(1)
        self._sees_abstract = False

    # -- lines ----------------------------------------------------------------------------------------------------

    def require(self, condition: str, text: str, passing: bool = False) -> None:
        """Add a condition; a `passing` one is checked before the call only, as it may be false afterwards."""
        if len(self.lines) > MOST:
            raise Unguardable(Code.LIMIT, f"the function depends on more than {MOST} values")
        if passing:
            self.passing.add(len(self.lines))
        self.lines.append(f"if not ({condition}): return {len(self.texts)}")
        self.texts.append(text)

    def _variable(self, expression: str) -> str:
        name = f"o{next(self._slots)}"
        self.lines.append(f"{name} = {expression}")
        return name

    # -- what programs depend on ------------------------------------------------------------------------------------

    def modes(self) -> None:
        """Guard the modes of the thread and of the process, such as grad mode and the default dtype."""
        self.lines.append("state = local.state")
        self.require(f"state.mode == {local.state.mode}", "grad mode, or what intercepts operations, has changed", True)
        self.require("not state.batches and not state.transforms and state.task is None", "inside a transform", True)
        self.require(f"get_default_dtype() is {self.bind(dtypes.get_default_dtype())}", "the default dtype")
        self.require(f"deterministic() == {deterministic()}", "whether algorithms are deterministic")
        hooks = "every.forward or every.forward_pre or every.backward or every.backward_pre"
        if eval(hooks, {"every": Everywhere}):
            raise Unguardable(Code.UNSUPPORTED, "there are hooks of all modules")
        self.require(f"not ({hooks})", "there are no hooks of all modules")
        self.require(f"get_default_device() is {self.bind(get_default_device())}", "the default device")
        distributions: Any = sys.modules.get("gradcore.distributions.distribution")
        if distributions is not None and any(_DISTRIBUTIONS in code.co_filename for code in self.executed):
            cls = distributions.Distribution
            validates = cls._validate_args
            self.require(f"{self.bind(cls)}._validate_args is {validates}", "whether distributions check arguments")
        for query in sorted(self._queries, key=lambda each: str(each.__qualname__)):
            value = query()
            if not isinstance(value, (*_PLAIN, *_UNIQUE)):
                raise Unguardable(
                    Code.STATE, f"{query.__name__}() returns a {type(value).__name__}, which cannot be checked"
                )
            self.require(f"same({self.bind(query)}(), {self.bind(value)})", f"{query.__name__}() is {value!r}")
        self._functions_of_library()
        for backend in find_cupy_backends():
            choices = self.bind(functools.partial(_choices, backend))
            self.require(f"{choices}() == {_choices(backend)}", "the current device, TensorFloat32, fusion, attention")

    def arguments(self, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Guard the arguments of the call."""
        self.require(f"len(args) == {len(args)}", "the number of arguments")
        for i, each in enumerate(args):
            if i in self.varying:
                self.require(f"type(args[{i}]) is float", f"args[{i}] is a float")
            else:
                self.visit(each, f"args[{i}]", f"args[{i}]", given=True)
        if named:
            self._dict(named, "named", "named", given=True)
        else:
            self.require("not named", "arguments by name")

    def visit(self, value: Any, expression: str, text: str, given: bool = False) -> None:
        """Guard the value of an expression, and everything reachable from it."""
        kind = type(value)
        if isinstance(value, Variable):
            return self._tensor(value, expression, text, given)
        if kind is bool:
            return self.require(f"{expression} is {value}", f"{text} is {value}")
        if kind in _PLAIN:
            name = self.bind(value)
            self._note_reads(value)
            self.require(f"({expression}) is {name} or same({expression}, {name})", f"{text} == {value!r}")
            return self._identity(value, f"({expression})", text, given)
        if (isinstance(value, _UNIQUE) and not _has_own_class(value)) or (
            isinstance(value, type) and _is_constant_class(value)
        ):
            self._refuse_calls(value, text)
            self._note_reads(value)
            name = self.bind(value)
            self.require(f"({expression}) is {name}", f"{text} is {value!r}")
            return self._unique(value, name, text)
        if isinstance(value, (tuple, list, deque)):
            return self._sequence(value, expression, text, given)
        if isinstance(value, dict):
            return self._dict(value, expression, text, given)
        if isinstance(value, (set, frozenset)):
            return self._set(value, expression, text, given)
        if kind in (slice, range):
            self.require(f"type({expression}) is {kind.__name__}", f"type of {text}")
            parts = f"(lambda s: (s.start, s.stop, s.step))({expression})"
            return self._sequence((value.start, value.stop, value.step), parts, text, given)
        return self._object(value, expression, text)

    def _sequence(self, value: Any, expression: str, text: str, given: bool) -> None:
        """Guard the type, the length and the elements of a tuple, list or deque."""
        o = self._container(value, expression, text, given)
        if o is None:
            return
        base: Any = next(each for each in (list, tuple, deque) if isinstance(value, each))
        kind = type(value)
        is_plain = kind is base or (kind.__getitem__ is base.__getitem__ and kind.__len__ is base.__len__)
        length, item = (
            ("len", "{}[{}]") if is_plain else (f"{base.__name__}.__len__", f"{base.__name__}.__getitem__({{}}, {{}})")
        )
        size = base.__len__(value)
        self.require(f"type({o}) is {self.bind(type(value))} and {length}({o}) == {size}", f"length of {text}")
        if base is deque:
            self.require(f"{o}.maxlen == {value.maxlen}", f"{text}.maxlen")
        for i in range(size):
            self.visit(base.__getitem__(value, i), item.format(o, i), f"{text}[{i}]", given)
        self._of_subclass(value, o, text)

    def _set(self, value: Any, expression: str, text: str, given: bool) -> None:
        """Guard the type and the elements of a set."""
        kind: Any = type(value)
        base: Any = set if isinstance(value, set) else frozenset
        items = (*base.__iter__(value),)
        if not all(type(each) in _PLAIN for each in items):
            raise Unguardable(Code.STATE, f"{text} has elements that cannot be checked")
        o = self._container(value, expression, text, given)
        if o is None:
            return
        # The order of iteration may differ between equal sets.
        elements = f"all(map(same, {base.__name__}.__iter__({o}), {self.bind(items)}))"
        same_elements = f"{base.__name__}.__len__({o}) == {len(items)} and {elements}"
        self.require(f"type({o}) is {self.bind(kind)} and {same_elements}", f"elements of {text}")
        self._of_subclass(value, o, text)

    def _container(self, value: Any, expression: str, text: str, given: bool) -> str | None:
        """Return a variable for a container; if it has been visited, guard its identity and return None."""
        visited = self.containers.get(id(value))
        if visited is not None and type(value) is not tuple:
            self.require(f"({expression}) is {visited[1]}", f"{text} is found twice")
            return None
        o = self._variable(expression)
        self.containers[id(value)] = value, o
        self._identity(value, o, text, given)
        return o

    def _identity(self, value: Any, expression: str, text: str, given: bool) -> None:
        """Guard which values are the same object as `value`, if the function may compare by ``is``."""
        if not self._sees_identity or type(value) is bool:
            return
        if not given:
            self.require(f"{expression} is {self.bind(value)}", f"{text} is the same object")
        earlier = self._identities.setdefault(type(value), [])
        if sum(not fixed for *_, fixed in earlier) > _MOST_IDENTITIES:
            raise Unguardable(
                Code.LIMIT, f"the function compares identities, and there are more than {_MOST_IDENTITIES} values"
            )
        for earlier_value, name, fixed in earlier:
            if given or not fixed:
                relation = "is" if earlier_value is value else "is not"
                self.require(f"{expression} {relation} {name}", f"{text} {relation} another value")
        earlier.append((value, expression, not given))

    def _of_subclass(self, value: Any, o: str, text: str) -> None:
        """Guard the attributes of an instance of a user's container subclass."""
        kind = type(value)
        if not trusted.is_library_class(kind):
            self._object(kind, self.bind(kind), f"type of {text}")
            if hasattr(value, "__dict__"):
                self._attributes(vars(value), o, text)

    def _unique(self, value: Any, name: str, text: str) -> None:
        """Guard the object to which a builtin method is bound, and the attributes of an enumeration member."""
        self._registry(value)
        if isinstance(value, types.BuiltinFunctionType):
            owner = value.__self__
            if not (owner is None or isinstance(owner, (types.ModuleType, type, *self._array_types))):
                self.visit(owner, f"{name}.__self__", f"{text}.__self__")
        elif isinstance(value, enum.Enum) and id(value) not in self._seen and not trusted.is_library_class(type(value)):
            self._seen[id(value)] = value
            self._attributes(vars(value), name, text)
            self.visit(type(value), f"type({name})", f"type of {text}")
            if type(value.value) not in _PLAIN:
                self.visit(value._value_, f"{name}._value_", f"{text}.value")

    def _dict(self, value: Any, expression: str, text: str, given: bool) -> None:
        """Guard the type, the keys and the values of a dict."""
        if any(not isinstance(key, (*_PLAIN, *_UNIQUE)) for key in dict.__iter__(value)):
            raise Unguardable(Code.STATE, f"{text} has keys that cannot be checked")
        o = self._container(value, expression, text, given)
        if o is None:
            return
        is_of_user = not trusted.is_library_class(type(value))  # A user's methods may do anything.
        plain = OrderedDict if isinstance(value, OrderedDict) else dict
        base = self.bind(plain)
        size = f"{base}.__len__({o})" if is_of_user else f"len({o})"
        element = f"{base}.__getitem__({o}, {{}})" if is_of_user else f"{o}[{{}}]"
        own_keys = f"{base}.__iter__({o})" if is_of_user else o
        keys = (*(plain.__iter__(value) if is_of_user else value),)
        same_keys = f"tuple({own_keys}) == {self.bind(keys)}" if keys else f"{size} == 0"
        if any(type(key) is not str for key in keys):  # The keys 1, 1.0 and True are equal.
            same_keys = f"{size} == {len(keys)} and all(map(same, {own_keys}, {self.bind(keys)}))"
        elif len(keys) == 1:  # The loop below looks up the only key.
            same_keys = f"{size} == 1"
        self.require(f"type({o}) is {self.bind(type(value))} and {same_keys}", f"keys of {text}")
        if isinstance(value, defaultdict):
            self.visit(value.default_factory, f"{o}.default_factory", f"{text}.default_factory")
        for key in keys:
            if expression == "named" and key in self.varying:
                self.require(f"type({o}[{key!r}]) is float", f"{key} is a float")
                continue
            self.visit(dict.__getitem__(value, key), element.format(self.bind(key)), f"{text}[{key!r}]", given)
        self._of_subclass(value, o, text)

    def _object(self, value: Any, expression: str, text: str) -> None:
        """Guard the identity of an object, and the state that is reachable from it."""
        name = expression
        if self.scope.get(expression) is not value:
            name = self.bind(value)
            self.require(f"({expression}) is {name}", f"{text} is {_short(value)}")
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if isinstance(value, HOST_CLASSES):
            self._host(value, name, text)
        elif isinstance(value, types.FunctionType):
            self.function(value, name, text)
        elif isinstance(value, types.MethodType):
            self.visit(value.__func__, f"{name}.__func__", text)
            self.visit(value.__self__, f"{name}.__self__", f"{text}.__self__")
        elif isinstance(value, functools.partial):
            for attribute in ("func", "args", "keywords"):
                self.visit(getattr(value, attribute), f"{name}.{attribute}", f"{text}.{attribute}")
            self._attributes(vars(value), name, text)
        elif isinstance(value, functools._lru_cache_wrapper):
            self._attributes(vars(value), name, text)
            cached = self.bind(_cached_objects(value))  # keeps them alive: ids stay unique
            same_keys = f"{self.bind(_cached_objects)}({name}).keys() == {cached}.keys()"
            self.require(same_keys, f"results in the cache of {text}")
            self.visit(value.__wrapped__, f"{name}.__wrapped__", f"{text}.__wrapped__")
        elif trusted.is_library_class(type(value)) and "__wrapped__" in getattr(value, "__dict__", ()):
            # A compiled function. A capture calls the function that it wraps; its own attributes change with its calls.
            self.require(f"{name}.__dict__.keys() == {self.bind({*vars(value)})}", f"names of attributes of {text}")
            self._given_to_library(value, name, text)
            self.visit(value.__wrapped__, f"{name}.__wrapped__", f"{text}.__wrapped__")
        elif isinstance(value, types.ModuleType):
            self._module(value, name, text)
        elif isinstance(value, type):
            self._class(value, name, text)
        elif isinstance(value, (staticmethod, classmethod, property)):
            for attribute in ("fget", "fset") if isinstance(value, property) else ("__func__",):
                self.visit(getattr(value, attribute), f"{name}.{attribute}", text)
        else:
            self._instance(value, name, text)

    def function(self, value: types.FunctionType, name: str, text: str) -> None:
        """Guard the closure, defaults and globals of a user's function."""
        if trusted.is_library(value.__globals__) or trusted.is_generated(value.__code__):
            self._given_to_library(value, name, text)
            return
        self.require(f"{name}.__code__ is {self.bind(value.__code__)}", f"code of {text}")
        for each in sorted(self._user_names & _OF_FUNCTIONS):
            self.visit(getattr(value, each), f"{name}.{each}", f"{text}.{each}")
        self._attributes(vars(value), name, text)
        if value.__code__ not in self.executed:
            return
        for i, cell in enumerate(value.__closure__ or ()):
            expression = f"{name}.__closure__[{i}].cell_contents"
            label = value.__code__.co_freevars[i]
            try:
                self.visit(cell.cell_contents, expression, f"{label} of {text}")
            except ValueError:
                raise Unguardable(Code.UNSUPPORTED, f"{label} of {text} has no value yet") from None
        self.visit(value.__defaults__, f"{name}.__defaults__", f"defaults of {text}")
        self.visit(value.__kwdefaults__, f"{name}.__kwdefaults__", f"defaults of {text}")
        self.globals_of(value.__code__, value.__globals__)

    def _given_to_library(self, value: types.FunctionType, name: str, text: str) -> None:
        """Guard the functions, modules and tensors in the closure of a library function, as `gradcore.func` returns.

        Attributes of the function are guarded if user code reads them.
        """
        for each in sorted(self._user_names & vars(value).keys()):
            self.visit(vars(value)[each], f"{name}.__dict__.get({each!r})", f"{text}.{each}")
        for i, cell in enumerate(getattr(value, "__closure__", None) or ()):
            content = getattr(cell, "cell_contents", None)
            if isinstance(content, (types.FunctionType, types.MethodType, functools.partial, Variable, Calls)):
                expression = f"{name}.__closure__[{i}].cell_contents"
                self.visit(content, expression, f"{value.__code__.co_freevars[i]} of {text}")

    def globals_of(self, code: types.CodeType, namespace: dict[str, Any]) -> None:
        """Guard the global names that `code`, and code nested in it, refers to."""
        key = (id(code), id(namespace))
        if key in self._seen:
            return
        self._seen[key] = (code, namespace)
        self.codes.add(code)
        scope = self.bind(namespace)
        read_names = {i.argval for i in dis.get_instructions(code) if i.opname.endswith(("_GLOBAL", "_NAME"))}
        for name in sorted(read_names):
            if name in namespace:
                value = namespace[name]
                if isinstance(value, types.ModuleType) and trusted.is_of_numpy(vars(value)):
                    self._refuse_of_numpy(value, code.co_names)
                self.visit(value, f"{scope}.get({name!r})", name)
            else:
                self.require(f"{name!r} not in {scope}", f"there is no global name {name}")
        builtin_names = [name for name in read_names if name not in namespace and name in vars(builtins)]
        self._names_of_library(builtins, self.bind(vars(builtins)), builtin_names, "builtins")
        self._imports(code, namespace)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType) and constant in self.executed:
                self.globals_of(constant, namespace)

    def _imports(self, code: types.CodeType, namespace: dict[str, Any]) -> None:
        """Guard the modules that `code` imports while it runs."""
        instructions = [*dis.get_instructions(code)]
        for level_load, each in zip(instructions, instructions[2:], strict=False):
            if each.opname != "IMPORT_NAME":
                continue
            name = "." * level_load.argval + each.argval
            if level_load.argval:
                name = importlib.util.resolve_name(name, namespace.get("__package__") or "")
            for module_name in {name, name.partition(".")[0]} & sys.modules.keys():
                if trusted.is_of_numpy(vars(sys.modules[module_name])):
                    self._refuse_of_numpy(sys.modules[module_name], code.co_names)
                self.visit(sys.modules[module_name], f"modules.get({module_name!r})", module_name)

    def _note_reads(self, value: object) -> None:
        """Set `reads_by_name` if `value` can read attributes by computed names, as an alias of `getattr` can."""
        if isinstance(value, str):
            is_reader = "{" in value and not self._user_names.isdisjoint(FORMATTING)
        else:
            is_reader = getattr(value, "__name__", None) in BY_NAME
        self.reads_by_name = self.reads_by_name or is_reader

    def _refuse_calls(self, value: object, text: str) -> None:
        """Refuse C functions and classes whose result may depend on more than their arguments."""
        is_function = isinstance(value, (types.BuiltinFunctionType, types.MethodDescriptorType))
        is_unknown_class = isinstance(value, type) and not trusted.is_library_class(value)
        if is_unknown_class or (is_function and not is_pure(value, False)):
            raise Unguardable(Code.CALL, f"{text} may return other values in each call")

    def _refuse_of_numpy(self, module: types.ModuleType, names: Iterable[str]) -> None:
        """Refuse functions looked up in a NumPy module that may depend on more than their arguments."""
        for name in {*names} & vars(module).keys():
            value = vars(module)[name]
            if isinstance(value, types.ModuleType):
                if value is np.random or not trusted.is_of_numpy(vars(value)):
                    raise Unguardable(Code.CALL, f"{module.__name__}.{name} returns other values in each call")
                self._refuse_of_numpy(value, names)
            elif callable(value) and not isinstance(value, (type, np.ufunc)) and name not in _OF_NUMPY:
                raise Unguardable(Code.CALL, f"{module.__name__}.{name} may return other values in each call")

    def _module(self, value: types.ModuleType, name: str, text: str) -> None:
        """Guard the attributes of a module that the code may read."""
        if trusted.is_of_numpy(vars(value)) and value.__name__.startswith("numpy.random"):
            raise Unguardable(Code.CALL, f"{text} returns other values in each call")
        if trusted.is_library(vars(value)):
            self._names_of_library(value, f"{name}.__dict__", self._user_names & vars(value).keys(), text)
            return
        names = self._user_names if trusted.is_foreign(vars(value)) else self.names
        self.skipped |= vars(value).keys() - self.names
        self.visit(type(value), f"type({name})", f"type of {text}")
        if self.misses or type(value) is not types.ModuleType or "__getattr__" in vars(value):
            missing = self.bind(frozenset(names - vars(value).keys()))
            self.require(f"{name}.__dict__.keys().isdisjoint({missing})", f"names that {text} lacks")
        for each in sorted((vars(value).keys() if self.every else names) & vars(value).keys()):
            if value is sys and each == "modules":
                raise Unguardable(Code.STATE, "sys.modules cannot be checked")
            self.visit(vars(value)[each], f"{name}.__dict__.get({each!r})", f"{text}.{each}")

    def _names_of_library(self, module: types.ModuleType, scope: str, names: Iterable[str], text: str) -> None:
        """Guard the attributes of a trusted module that user code reads, as users may replace or add some."""
        plain = (*_PLAIN, list, dict, set, types.ModuleType)
        values = {each: vars(module)[each] for each in sorted(names)}
        for each, value in values.items():
            if isinstance(value, plain) and vars(sys).get("modules") is not value:
                self.visit(value, f"{scope}.get({each!r})", f"{text}.{each}")
        compared_names = [each for each, value in values.items() if not isinstance(value, plain)]
        self._registry(*values.values())
        if compared_names:
            getter = operator.itemgetter(*compared_names)
            expected = self.bind(getter(vars(module)))
            self.require(f"{self.bind(getter)}({scope}) == {expected}", f"names in {text}")

    def _functions_of_library(self) -> None:
        """Guard the library's public functions and methods of tensors that ran, as users may replace them."""
        methods = self._user_names.union(*map(_operator_methods, self._users))
        executed_names = {code.co_name for code in self.executed}
        for owner, public in ((Tensor, methods), (functional, executed_names - {"__getattr__"})):
            names = sorted(n for n in public & vars(owner).keys() if isinstance(vars(owner)[n], types.FunctionType))
            if names:
                getter = operator.itemgetter(*names, names[0])
                expression = f"{self.bind(getter)}({self.bind(vars(owner))})"
                expected = self.bind((*map(original_of, getter(vars(owner))),))
                test = f"{expression} == {expected} or (*map({self.bind(original_of)}, {expression}),) == {expected}"
                self.require(test, f"functions of {owner.__name__}")  # Another thread may be capturing.

    def _registry(self, *values: object) -> None:
        """Guard the registries of abstract base classes, where such a class is among the guarded objects."""
        if not self._sees_abstract and any(isinstance(typing.get_origin(v) or v, abc.ABCMeta) for v in values):
            self._sees_abstract = True
            token = self.bind(abc.get_cache_token())  # Each registration changes the token.
            self.require(f"{self.bind(abc.get_cache_token)}() == {token}", "registered subclasses")

    def _class(self, value: type, name: str, text: str) -> None:
        """Guard the attributes of a user's class and of its bases."""
        meta: Any = type(value)
        self._registry(value)
        if not trusted.is_library_class(meta):
            self.visit(meta, f"type({name})", f"type of {text}")
        for cls in value.__mro__:
            if trusted.is_library_class(cls):
                continue
            cls_name = name if cls is value else self.bind(cls)
            if cls.__flags__ & _IMMUTABLE:
                raise Unguardable(
                    Code.CALL, f"{text} is a class written in C, which may return other values in each call"
                )
            test = f"{cls_name}.__mro__ == {self.bind(cls.__mro__)} and len({cls_name}.__dict__) == {len(vars(cls))}"
            self.require(test, f"bases and attributes of {text}")
            unread: list[str] = []
            for each, attribute in vars(cls).items():
                is_special = each[:2] == "__" and each[-2:] == "__"
                if is_special:  # Operators call methods whose names do not occur in the code.
                    is_named = self.every or each in self._user_names or each == "__match_args__"
                    is_read = is_named or isinstance(attribute, types.FunctionType)
                else:
                    is_read = self.every or each in self.names
                if is_read:
                    self.visit(attribute, f"{cls_name}.__dict__.get({each!r})", f"{text}.{each}")
                else:
                    unread.append(each)
            self.skipped.update(each for each in unread if each[:2] != "__" or each[-2:] != "__")
            # If these names still exist and the number of attributes is unchanged, no attribute has been added.
            self.require(f"{cls_name}.__dict__.keys() >= {self.bind({*unread})}", f"names of attributes of {text}")

    def _instance(self, value: Any, name: str, text: str) -> None:
        """Guard the class, the attributes and the slots of an object."""
        kind = type(value)
        attrs, slots = getattr(value, "__dict__", None), _slots_of(kind)
        has_plain_state = type(attrs) is dict or (attrs is None and slots)
        is_of_c = _has_state_in_c(kind) or str(kind.__module__).startswith(("numpy", "random"))
        if not has_plain_state or is_of_c or hasattr(kind, "__next__"):
            raise Unguardable(Code.STATE, f"{text} is a {kind.__module__}.{kind.__qualname__}, which cannot be checked")
        self.visit(kind, f"type({name})", f"type of {text}")
        if isinstance(value, Module) and kind not in self._seen:
            self._seen[kind] = kind
            cls, forward, call = map(self.bind, (kind, kind.forward, kind.__call__))
            test = f"{cls}.forward is {forward} and {cls}.__call__ is {call}"
            self.require(test, f"forward and __call__ of {kind.__name__}")
        if attrs is not None:
            self._attributes(attrs, name, text, value)
        for each in slots:
            slot = getattr(kind, each, None)
            if not isinstance(slot, types.MemberDescriptorType):
                raise Unguardable(Code.STATE, f"{text} has a slot {each} that its class hides, which cannot be checked")
            content = _read_slot(slot, value)
            expression = f"read_slot({self.bind(slot)}, {name})"
            if content is _MISSING:
                self.require(f"{expression} is {self.bind(_MISSING)}", f"{text} has no {each}")
            elif self.every or each in self.names:
                self.visit(content, expression, f"{text}.{each}")
            else:
                self.skipped.add(each)

    def _attributes(self, own: dict[str, Any], name: str, text: str, owner: Any = None) -> None:
        """Guard the attributes of an object; for an `owner`, also those that its class defines for all instances."""
        if not own:
            return self.require(f"not {name}.__dict__", f"{text} has no attributes")
        o = self._variable(f"{name}.__dict__")
        self.require(f"len({o}) == {len(own)}", f"attributes of {text}")
        empty = [each for each in _TABLES if isinstance(owner, Module) and not own.get(each, True)]
        if empty:
            tables = " or ".join(f"{o}[{each!r}]" for each in empty)
            self.require(f"not ({tables})", f"{text} has no {', '.join(empty)}")
        is_of_library = owner is not None and trusted.is_library_class(type(owner))  # may use computed names
        unread: list[str] = []
        for each, attribute in own.items():
            if each in empty or each == "_compiled_call_impl":  # The compiled call is equivalent to the module.
                continue
            if self.every or each in self.names or (is_of_library and each[0] != "_"):
                self.visit(attribute, f"{o}[{each!r}]", f"{text}.{each}")
            else:
                unread.append(each)
        self.skipped.update(unread)
        if isinstance(owner, Module):  # Attributes set by the library are never deleted.
            unread = [each for each in unread if each not in _of_modules()]
        if unread:  # Another attribute, added in its place, could hide one of the class.
            self.require(f"{o}.keys() >= {self.bind({*unread})}", f"names of attributes of {text}")
        return None

    def _host(self, value: Any, name: str, text: str) -> None:
        """Guard the attributes that captured methods of an optimizer, scheduler or scaler read, such as parameters."""
        if not can_be_observed(type(value)):
            raise Unguardable(Code.UNSUPPORTED, f"{text} is of a class that looks up or sets attributes in its own way")
        methods = recorded_methods(type(value))
        if not vars(value).keys().isdisjoint(methods):
            raise Unguardable(Code.UNSUPPORTED, f"a method of {text} is replaced")
        for each in methods:  # These are captured like other functions.
            method = self.bind(getattr(type(value), each))
            test = f"{each!r} not in {name}.__dict__ and type({name}).{each} is {method}"
            self.require(test, f"{each} of {text}")
        self.hosts.append(value)
        if isinstance(value, Optimizer):  # Hooks may run user code before or after a step.
            hooks = f"bool({name}._hooks['step_pre'] or {name}._hooks['step_post'] or before_steps or after_steps)"
            self.require(f"{hooks} is {eval(hooks, self.scope)}", f"whether {text} has hooks")
        is_captured = any(inspect.unwrap(getattr(type(value), each)).__code__ in self.executed for each in methods)
        for i, group in enumerate(value.param_groups if isinstance(value, Optimizer) else ()):
            start, first = len(self.lines), len(self.tensors)
            pairs = [(f"o{next(self._slots)}", self.bind(p)) for p in group["params"]]
            self.lines.append(f"[{', '.join(o for o, _ in pairs)}] = {name}.param_groups[{i}]['params']")
            same_params = "".join(f" and {o} is {p}" for o, p in pairs)
            self.require(f"len({name}.param_groups) == {len(value.param_groups)}{same_params}", f"parameters of {text}")
            for j, p in enumerate(group["params"]):
                self.visit(p, self.bind(p), f"{text}.param_groups[{i}]['params'][{j}]")
            if not is_captured:
                params_ids = {id(p) for p in group["params"]}  # some may have been guarded before `first`
                numbers = {j for j, each in enumerate(self.tensors) if j >= first or id(each.tensor) in params_ids}
                self.called_groups.append((slice(start, len(self.lines)), frozenset(numbers)))
        if isinstance(value, GradScaler):
            for each in ("_enabled", "_scale"):
                if each in vars(value):
                    self.visit(vars(value)[each], f"{name}.{each}", f"{text}.{each}")

    # -- tensors --------------------------------------------------------------------------------------------------

    def _tensor(self, t: Any, expression: str, text: str, given: bool) -> None:
        """Guard the properties of a tensor that a program depends on, and its gradient if the function may read it."""
        if type(t) not in (Tensor, Parameter) or type(t._array) not in self._array_types:
            what = f"{text} is a {type(t).__name__} on {t._device}"
            raise Unguardable(Code.TENSOR, f"{what}: programs are made of plain tensors of the CPU and CUDA")
        if vars(t):
            raise Unguardable(Code.TENSOR, f"{text} has attributes of its own")
        is_bound = self.scope.get(expression) is t
        earlier = self._seen.get(id(t))
        if earlier is not None:
            if is_bound and any(guard.tensor is t and guard.constant for guard in self.tensors):
                return None
            return self.require(f"({expression}) is {earlier[0]}", f"{text} is {earlier[1]}")
        o = f"t{len(self.tensors)}"
        self.lines.append(f"{o} = {expression}")
        constant = ""
        if given:
            for guard in self.tensors:
                if guard.given:
                    self.require(f"{o} is not {self._seen[id(guard.tensor)][0]}", f"{text} is not {guard.name}")
            self.require(f"type({o}) is {self.bind(type(t))}", f"type of {text}")
        else:
            constant = expression if is_bound else self.bind(t)
            if not is_bound:
                self.require(f"{o} is {constant}", f"{text} is the same tensor")
        self._seen[id(t)] = (o, text, t)
        self.tensors.append(TensorGuard(text, t, given, constant=constant))
        self._memory(o, t, text, len(self.tensors) - 1, given)
        meta = t._autograd
        if meta is not None and (meta.tangents or meta.inference):
            raise Unguardable(Code.TENSOR, f"{text} has tangents, or is of inference mode")
        self._facts(t, o, text)
        if self.misses:
            self.require(f"not {o}.__dict__", f"{text} has no attributes of its own")
        has_history = t._edge is not None or (
            meta is not None and meta.base is not None and gradient_edge(t) is not None
        )
        if meta is None and not has_history:
            return self.require(f"{o}._autograd is None and {o}._edge is None", f"{text} has no history", True)
        if has_history:
            if self._calls_backward:
                raise Unguardable(Code.HISTORY, f"{text} has a history, through which the function may call backward")
            if not given or (meta is not None and (t._edge is None or meta.base is not None)):
                raise Unguardable(
                    Code.TENSOR, f"{text} is a view with a history, or found outside of the arguments with one"
                )
            self.require(f"{o}._edge is not None", f"{text} has a history", True)
            m = self._variable(f"{o}._autograd")
            retains = meta is not None and meta.retains_grad
            plain = f"not ({m}.tangents or {m}.inference or {m}.base is not None) and {m}.retains_grad is {retains}"
            self.require(f"{plain} if {m} else {not retains}", f"{text} is no view, and whether it retains_grad", True)
            if self.reads_grads:
                if meta is not None and meta.grad is not None:
                    raise Unguardable(Code.TENSOR, f"{text} has a history, and retains its gradient")
                self.require(f"{m} is None or {m}.grad is None", f"{text}.grad is None", True)
            return None
        if meta.observed or meta.retains_grad:
            raise Unguardable(Code.TENSOR, f"{text} has, or has had, hooks, or has a dtype for its gradient")
        m = self._variable(f"{o}._autograd")
        absent = [f"{o}._edge", f"{m}.tangents", f"{m}.inference", f"{m}.retains_grad", f"{m}.observed"]
        is_view = meta.base is not None
        absent.append(f"({m}.base is None or gradient_edge({o}) is not None)" if is_view else f"{m}.base is not None")
        conditions = f"{m}.requires_grad is {meta.requires_grad} and not ({' or '.join(absent)})"
        self.require(conditions, f"history and hooks of {text}", True)
        if not self.reads_grads:
            return None
        if meta.grad is None:
            return self.require(f"{m}.grad is None", f"{text}.grad is None", True)
        grad = meta.grad
        if type(grad) is not Tensor or grad._autograd is not None or grad._edge is not None or id(grad) in self._seen:
            raise Unguardable(Code.TENSOR, f"{text}.grad has history, or is used elsewhere")
        start, g = len(self.lines), f"t{len(self.tensors)}"
        self.lines.append(f"{g} = {m}.grad")
        self._seen[id(grad)] = (g, f"{text}.grad", grad)
        self.require(f"type({g}) is Tensor and {g}._autograd is None and {g}._edge is None", f"{text}.grad")
        self.tensors.append(TensorGuard(f"{text}.grad", grad, given))
        self._memory(g, grad, f"{text}.grad", len(self.tensors) - 1, True)
        self.tensors[-1] = self.tensors[-1]._replace(lines=slice(start, len(self.lines)))
        self.passing.update(range(start + 1, len(self.lines)))
        return None

    def _facts(self, t: Any, o: str, text: str) -> None:
        """Guard the other properties of a tensor that user code reads, see `gradcore.compiler.capture.watch.FACTS`."""
        meta = t._autograd
        if None in self.facts and (t._edge is not None or (meta is not None and (meta.base is not None or meta.hooks))):
            raise Unguardable(Code.TENSOR, f"{text} is a view, or has a history or hooks, which the function looks at")
        for each in self.facts:
            if each is not None and (t._edge is not None or each != _OF_HISTORY):
                property_expression, m = each.format(o), f"{o}._autograd"
                value = eval(property_expression, {o: t})
                # The version of an inference tensor cannot be read.
                self.require(f"not ({m} and {m}.inference) and {property_expression} == {value!r}", each.format(text))

    def _memory(self, o: str, t: Any, text: str, number: int, given: bool) -> None:
        """Assign the array of a tensor to a variable, and guard dtype, device, shape, strides and memory flags."""
        a, array = f"a{number}", t._array
        self.lines.append(f"{a} = {o}._array")
        self.shapes[text] = array.shape
        on_cpu = type(array) is np.ndarray
        symbols = self.symbols.get(text)
        shape, strides = f"{a}.shape == {array.shape}", f"{a}.strides == {array.strides}"
        if symbols:
            shape, strides = self._match_symbols(a, array, symbols, text), f"{a}.flags.c_contiguous"
        kind = f"{o}._dtype is {self.bind(t._dtype)} and {o}._device is {'CPU' if on_cpu else self.bind(t._device)}"
        layout = f"{shape} and {strides} and type({a}) is {'ndarray' if on_cpu else self.bind(type(array))}"
        if on_cpu:
            layout += f" and {a}.flags.num & {_FLAGS} == {array.flags.num & _FLAGS}"
        conditions = f"{kind} and {layout}"
        if on_cpu and not symbols:  # The array is usually that of the last call.
            is_last_array = f"{self.bind(weakref.ref(array))}() is {a}"
            conditions = f"{kind} and ({is_last_array} or {layout})" if given else f"{is_last_array} or {conditions}"
        description = f"{text}: shape {list(array.shape)}, strides {array.strides}, {t._dtype.name}"
        if symbols:
            sizes = ", ".join(symbols.get(i, str(n)) for i, n in enumerate(array.shape))
            description = f"{text}: shape [{sizes}] of sizes from 2, contiguous, {t._dtype.name}"
        self.require(conditions, description)

    def _match_symbols(self, a: str, array: Any, symbols: dict[int, str], text: str) -> str:
        """Return a condition that assigns each symbol the size of its first dim, and compares all other dims."""
        if not array.flags.c_contiguous:
            raise Unguardable(Code.TENSOR, f"{text} has sizes that change, and is not contiguous")
        first_dims = {symbol: dim for dim, symbol in reversed(symbols.items())}
        first_dims = {s: dim for s, dim in first_dims.items() if not any(f"({s} := " in line for line in self.lines)}
        assignments = "".join(f"({symbol} := {a}.shape[{dim}]) >= 2 and " for symbol, dim in first_dims.items())
        return f"{assignments}{a}.shape == ({''.join(f'{symbols.get(i, n)}, ' for i, n in enumerate(array.shape))})"

    def leave_out(self, groups: Iterable[slice]) -> None:
        """Remove checks of tensors that the program does not read, unless other checks use the names in these lines."""
        uses = Counter(names_in_lines(self.lines))
        for lines in groups:
            removed = self.lines[lines]
            names, own_uses = names_assigned_in(removed), Counter(names_in_lines(removed))
            if names and all(uses[name] == own_uses[name] for name in names):
                uses.subtract(own_uses)
                self._left_out.update(line.rpartition(": return ")[2] for line in removed)
                self.lines[lines] = ["" for _ in removed]

    def checked_texts(self) -> list[str]:
        """Return the descriptions of the guards that are checked in each call."""
        return [text for i, text in enumerate(self.texts) if str(i) not in self._left_out]

    def forget(self) -> None:
        """Drop all references to the objects of the call from which the guards were derived."""
        self._seen.clear()
        self.containers.clear()
        self.tensors = [guard._replace(tensor=None) for guard in self.tensors]

    # -- the function ---------------------------------------------------------------------------------------------

    def checks(self) -> list[str]:
        """Return source lines that check the guards and assign each tensor and its array to ``t0`` and ``a0``, etc."""
        return ["try:", *(f" {line}" for line in self.lines if line), _IF_DELETED]

    def changed_since(self, args: Any, named: Any, tensors: tuple[Any, ...], arrays: tuple[Any, ...]) -> str | None:
        """Return a description of the state that has changed since a call with `tensors` and `arrays`, or None."""
        if any(t._array is not array for t, array in zip(tensors, arrays, strict=True)):
            return "the memory of a tensor"
        guard_number, result = self._evaluate(args, named)
        if guard_number is not None:
            return str(self.texts[guard_number])
        earlier_tensors = (t for t, guard in zip(tensors, self.tensors, strict=True) if not guard.lines.stop)
        return None if all(map(operator.is_, result, earlier_tensors)) else "a tensor among the arguments"

    def tensors_by_name(self, args: object, named: object) -> dict[str, AnyTensor]:
        """Return the tensors of a call that passes the guards, by name, without gradients."""
        names = [guard.name for guard in self.tensors if not guard.lines.stop]
        unique_names = [name if names.index(name) == i else f"{name} ({i})" for i, name in enumerate(names)]
        return dict(zip(unique_names, self._evaluate(args, named)[1], strict=True))

    def _evaluate(self, args: object, named: object) -> tuple[int | None, tuple[AnyTensor, ...]]:
        """Return the number of the failed guard, `passing` ones excepted, and the tensors of a call."""
        if self._still is None:
            lines = [f" {line}" for i, line in enumerate(self.lines) if line and i not in self.passing]
            tensors = "".join(f"{g.constant or f't{i}'}, " for i, g in enumerate(self.tensors) if not g.lines.stop)
            lines = ["def still(args, named):", "try:", *lines, _IF_DELETED, f"return ({tensors})"]
            self._still = self.define("still", lines)
        result = self._still(args, named)
        return (result, ()) if type(result) is int else (None, result)

    def function_of(self) -> Callable[..., Any]:
        """Return the guard function: ``(args, named) -> None`` or the number of the guard that failed."""
        return self.define("check", ["def check(args, named):", *self.checks()])  # type: ignore[no-any-return]


def _short(value: Any) -> str:
    has_name = isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType))
    return str(value.__qualname__ if has_name else type(value).__name__)
