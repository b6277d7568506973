"""Guards: the conditions under which a program is valid, and the function that checks them.

The state that a function can see is found from the code that it runs: global names, closures, defaults, attributes of
objects and modules, elements of lists and dicts, and everything reachable from these. All that is mutable is guarded
by value or by identity; tensors by the properties that the program depends on.
"""

from __future__ import annotations

import builtins
import dis
import enum
import functools
import importlib.util
import sys
import types
from collections import OrderedDict, defaultdict, deque
from typing import Any

import numpy as np

from gradcore.autograd.modes import local
from gradcore.autograd.variables import Variable
from gradcore.autograd.views import gradient_edge
from gradcore.backends.registry import CPU
from gradcore.compiler.capture import objects, trusted
from gradcore.compiler.capture.bytecode import BY_NAME, FORMATTING, compares_identity, names_of_values
from gradcore.compiler.capture.checks import Unguardable
from gradcore.compiler.capture.host_calls import HOST_CLASSES
from gradcore.compiler.capture.library_guards import LibraryGuards
from gradcore.compiler.capture.objects import MISSING, PLAIN, UNIQUE, same
from gradcore.compiler.capture.reasons import Code
from gradcore.compiler.capture.watch import Observed
from gradcore.compiler.program.program import leaves_in
from gradcore.core import dtypes
from gradcore.core.determinism import get_deterministic_debug_mode as deterministic
from gradcore.core.device import get_default_device
from gradcore.nn.module import Module
from gradcore.nn.module_hooks import Calls
from gradcore.optim import optimizer
from gradcore.tensor import Tensor

__all__ = ["Guards"]

#: The largest number of values of one type whose identity a function may compare.
_MOST_IDENTITIES = 32
#: Attributes that all functions have and that are guarded only if the code reads them.
_OF_FUNCTIONS = frozenset(["__annotations__", "__doc__", "__module__", "__name__", "__qualname__"])
#: Names of functions and classes. `repr` reads the first one of a function, and two of a class.
_NAMES = ("__qualname__", "__module__", "__name__", "__doc__")
#: Dicts of modules that are usually empty. One guard checks all that are.
_TABLES = ("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks",
           "_backward_pre_hooks")  # fmt: skip
#: Names of `builtins` that instructions read.
_IMPLICIT = {"IMPORT_NAME": "__import__", "LOAD_BUILD_CLASS": "__build_class__"}
#: Attributes of classes that are no methods and that Python reads by itself.
_READ_BY_PYTHON = frozenset(["__abstractmethods__", "__array_priority__", "__array_ufunc__", "__match_args__"])
#: The names of the attributes that every module has.
_OF_MODULES = frozenset(vars(Module()))
#: By type, the attributes through which an object leads to others.
_LEADING_ON: dict[type, tuple[str, ...]] = {
    types.MethodType: ("__func__", "__self__"), functools.partial: ("func", "args", "keywords"),
    functools._lru_cache_wrapper: ("__wrapped__",), property: ("fget", "fset", "fdel", "__doc__"),
    staticmethod: ("__func__",), classmethod: ("__func__",),
}  # fmt: skip

#: The ids of what `__builtins__` of namespaces and functions is, unless it has been replaced.
_BUILTINS = {id(builtins), id(vars(builtins))}


class Guards(LibraryGuards):
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
            "deterministic": deterministic, "Tensor": Tensor, "ndarray": np.ndarray,
            "deque": deque, "read_slot": objects.read_slot,
            "before_steps": optimizer._global_pre_hooks, "after_steps": optimizer._global_post_hooks,
            "modules": sys.modules,
        }  # fmt: skip
        super().__init__(scope, observed, every)
        self.names = observed.names
        self._sees_identity = any(map(compares_identity, self._users))
        #: Names from which user code only reads attributes.
        self._owners = self.user_names - names_of_values(self._users)
        #: By type, the containers and numbers that the function may compare by ``is``, with their expressions.
        self._identities: dict[type, list[tuple[Any, str, bool]]] = {}
        #: Lists and dicts with the names of their variables, by id.
        self.containers: dict[int, tuple[Any, str]] = {}
        #: Positions and names of arguments that may be any float, and the arguments by name.
        self.varying: frozenset[int | str] = frozenset()
        self._named: dict[str, Any] = {}
        self.codes: set[types.CodeType] = set()
        #: Names of attributes that have no guard because they do not occur in the code.
        self.skipped: set[str] = set()
        #: Whether the function can reach `getattr` or the like, so that all attributes need guards.
        self.reads_by_name = False

    def forget(self) -> None:
        """Drop all references to the objects of the call from which the guards were derived."""
        for each in (self._seen, self._identities, self.containers):
            each.clear()
        self.tensors = [guard._replace(tensor=None) for guard in self.tensors]

    def arguments(self, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Guard the arguments of the call."""
        self.require(f"len(args) == {len(args)}", "the number of arguments")
        for i, each in enumerate(args):
            if i in self.varying:
                self.require(f"type(args[{i}]) is float", f"args[{i}] is a float")
            else:
                self.visit(each, f"args[{i}]", f"args[{i}]", given=True)
        self._named = named
        if named:
            self._container(named, "named", "named", given=True)
        else:
            self.require("not named", "arguments by name")

    def visit(self, value: Any, expression: str, text: str, given: bool = False) -> None:
        """Guard the value of an expression, and everything reachable from it."""
        kind = type(value)
        if isinstance(value, Variable):
            return self._tensor(value, expression, text, given)
        if kind is bool:
            return self.require(f"{expression} is {value}", f"{text} is {value}")
        if kind in PLAIN or (kind is tuple and not (given or self._sees_identity) and objects.is_plain(value)):
            name = self.bind(value)
            self._note_reads(value)
            self.require(f"({expression}) is {name} or same({expression}, {name})", f"{text} == {value!r}")
            return self._identity(value, f"({expression})", text, given)
        if (isinstance(value, UNIQUE) and not objects.has_own_class(value)) or (
            isinstance(value, type) and objects.is_constant_class(value)
        ):
            self._refuse_calls(value, text)
            self._note_reads(value)
            name = self.bind(value)
            self.require(f"({expression}) is {name}", f"{text} is {value!r}")
            return self._unique(value, name, text)
        if isinstance(value, (tuple, list, deque, dict, set, frozenset)):
            return self._container(value, expression, text, given)
        if kind in (slice, range):
            self.require(f"type({expression}) is {kind.__name__}", f"type of {text}")
            parts = f"(lambda s: (s.start, s.stop, s.step))({expression})"
            return self._container((value.start, value.stop, value.step), parts, text, given)
        return self._object(value, expression, text)

    # -- containers -----------------------------------------------------------------------------------------------

    def _container(self, value: Any, expression: str, text: str, given: bool) -> None:
        """Guard the type and the elements of a container, or its identity if it has been visited."""
        visited, kind = self.containers.get(id(value)), type(value)
        if visited is not None and kind is not tuple:
            return self.require(f"({expression}) is {visited[1]}", f"{text} is found twice")
        o = self.assign(expression)
        self.containers[id(value)] = value, o
        self._identity(value, o, text, given)
        guard = self._dict if isinstance(value, dict) else self._set if isinstance(value, (set, frozenset)) else None
        (guard or self._sequence)(value, o, text, given)
        if not trusted.is_library_class(kind):  # The attributes of a subclass
            self._object(kind, self.bind(kind), f"type of {text}")
            if hasattr(value, "__dict__"):
                self._attributes(vars(value), o, text)
        return None

    def _sequence(self, value: Any, o: str, text: str, given: bool) -> None:
        """Guard the type, the length and the elements of a tuple, list or deque."""
        base: Any = next(each for each in (list, tuple, deque) if isinstance(value, each))
        kind = type(value)
        is_plain = kind is base or (kind.__getitem__ is base.__getitem__ and kind.__len__ is base.__len__)
        name, size = base.__name__, base.__len__(value)
        length, item = ("len", "{}[{}]") if is_plain else (f"{name}.__len__", f"{name}.__getitem__({{}}, {{}})")
        self.require(f"type({o}) is {self.bind(kind)} and {length}({o}) == {size}", f"length of {text}")
        if base is deque:
            self.require(f"{o}.maxlen == {value.maxlen}", f"{text}.maxlen")
        for i in range(size):
            self.visit(base.__getitem__(value, i), item.format(o, i), f"{text}[{i}]", given)

    def _set(self, value: Any, o: str, text: str, given: bool) -> None:
        """Guard the type and the elements of a set."""
        base: Any = set if isinstance(value, set) else frozenset
        items = (*base.__iter__(value),)
        if not all(type(each) in PLAIN for each in items):
            raise Unguardable(Code.STATE, f"{text} has elements that cannot be checked")
        # The order of iteration may differ between equal sets.
        elements = f"all(map(same, {base.__name__}.__iter__({o}), {self.bind(items)}))"
        same_elements = f"{base.__name__}.__len__({o}) == {len(items)} and {elements}"
        self.require(f"type({o}) is {self.bind(type(value))} and {same_elements}", f"elements of {text}")

    def _dict(self, value: Any, o: str, text: str, given: bool) -> None:
        """Guard the type, the keys and the values of a dict."""
        if any(not isinstance(key, (*PLAIN, *UNIQUE)) for key in dict.__iter__(value)):
            raise Unguardable(Code.STATE, f"{text} has keys that cannot be checked")
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
        elif len(keys) == 1 and not hasattr(type(value), "__missing__"):  # The loop below looks up the only key.
            same_keys = f"{size} == 1"
        self.require(f"type({o}) is {self.bind(type(value))} and {same_keys}", f"keys of {text}")
        if isinstance(value, defaultdict):
            self.visit(value.default_factory, f"{o}.default_factory", f"{text}.default_factory")
        for key in keys:
            if value is self._named and key in self.varying:
                self.require(f"type({o}[{key!r}]) is float", f"{key} is a float")
            else:
                self.visit(dict.__getitem__(value, key), element.format(self.bind(key)), f"{text}[{key!r}]", given)

    # -- identity -------------------------------------------------------------------------------------------------

    def _identity(self, value: Any, expression: str, text: str, given: bool) -> None:
        """Guard which values are the same object as `value`, if the function may compare by ``is``."""
        if not self._sees_identity or type(value) is bool:
            return
        if not given:
            self.require(f"{expression} is {self.bind(value)}", f"{text} is the same object")
        earlier = self._identities.setdefault(type(value), [])
        if sum(not fixed for *_, fixed in earlier) > _MOST_IDENTITIES:
            what = f"the function compares identities, and there are more than {_MOST_IDENTITIES} values"
            raise Unguardable(Code.LIMIT, what)
        for earlier_value, name, fixed in earlier:
            if given or not fixed:
                relation = "is" if earlier_value is value else "is not"
                self.require(f"{expression} {relation} {name}", f"{text} {relation} another value")
        earlier.append((value, expression, not given))

    def _unique(self, value: Any, name: str, text: str) -> None:
        """Guard the object to which a builtin method is bound, and the attributes of an enumeration member."""
        self._registry(value)
        if isinstance(value, type):
            self._class_of_library(value)
        elif isinstance(value, types.BuiltinFunctionType):
            owner = value.__self__
            if not (owner is None or isinstance(owner, (types.ModuleType, type, *self._array_types))):
                self.visit(owner, f"{name}.__self__", f"{text}.__self__")
        elif isinstance(value, enum.Enum) and id(value) not in self._seen and not trusted.is_library_class(type(value)):
            self._seen[id(value)] = value
            self._attributes(vars(value), name, text)
            self.visit(type(value), f"type({name})", f"type of {text}")
            if type(value.value) not in PLAIN:
                self.visit(value._value_, f"{name}._value_", f"{text}.value")

    # -- objects --------------------------------------------------------------------------------------------------

    def _object(self, value: Any, expression: str, text: str) -> None:
        """Guard the identity of an object, and the state that is reachable from it."""
        name = expression
        if hasattr(value if isinstance(value, type) else type(value), "__del__"):
            # Guards keep objects alive, so that finalizers would be called too late.
            raise Unguardable(Code.STATE, f"{text} has a finalizer")
        if self.scope.get(expression) is not value:
            name = self.bind(value)
            self.require(f"({expression}) is {name}", f"{text} is {_short(value)}")
        is_value = self.every and isinstance(value, types.ModuleType) and text.rpartition(".")[2] not in self._owners
        if (id(value), is_value) in self._seen:
            return
        self._seen[id(value), is_value] = value
        leading_on = next((names for kind, names in _LEADING_ON.items() if isinstance(value, kind)), ())
        if isinstance(value, HOST_CLASSES):
            self._host(value, name, text)
        elif isinstance(value, types.FunctionType):
            self.function(value, name, text)
        elif leading_on:
            self._instance(value, name, text, leading_on)
            if isinstance(value, functools._lru_cache_wrapper):
                cached = self.bind(objects.cached_objects(value))  # keeps them alive: ids stay unique
                same_keys = f"{self.bind(objects.cached_objects)}({name}).keys() == {cached}.keys()"
                self.require(same_keys, f"results in the cache of {text}")
        elif trusted.is_library_class(type(value)) and "__wrapped__" in getattr(value, "__dict__", ()):
            # A compiled function. A capture calls the function that it wraps; its own attributes change with its calls.
            self.require(f"{name}.__dict__.keys() == {self.bind({*vars(value)})}", f"names of attributes of {text}")
            self._given_to_library(value, name, text)
            self.visit(value.__wrapped__, f"{name}.__wrapped__", f"{text}.__wrapped__")
        elif isinstance(value, types.ModuleType):
            self._module(value, name, text, is_value)
        elif isinstance(value, type):
            self._class(value, name, text)
        else:
            self._instance(value, name, text)

    def function(self, value: types.FunctionType, name: str, text: str) -> None:
        """Guard the closure, defaults and globals of a user's function."""
        if trusted.is_library(value.__globals__) or trusted.is_generated(value.__code__):
            self._given_to_library(value, name, text)
            return
        test = f"{name}.__code__ is {self.bind(value.__code__)}"
        self.require(test + self._same_names(value, name, 4 if self.every else 1), f"code and name of {text}")
        for each in sorted(self.user_names & _OF_FUNCTIONS):
            self.visit(getattr(value, each), f"{name}.{each}", f"{text}.{each}")
        self._attributes(vars(value), name, text)
        if value.__code__ not in self.executed:
            return
        for label, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            try:  # The cells of a function never change.
                self.visit(cell.cell_contents, f"{self.bind(cell)}.cell_contents", f"{label} of {text}")
            except ValueError:
                raise Unguardable(Code.UNSUPPORTED, f"{label} of {text} has no value yet") from None
        self.visit(value.__defaults__, f"{name}.__defaults__", f"defaults of {text}")
        self.visit(value.__kwdefaults__, f"{name}.__kwdefaults__", f"defaults of {text}")
        if not {id(value.__builtins__), id(value.__globals__.get("__builtins__", builtins))} <= _BUILTINS:
            raise Unguardable(Code.STATE, f"{text} has builtins of its own")
        self.globals_of(value.__code__, value.__globals__)

    def _same_names(self, value: Any, name: str, number: int) -> str:
        """Return the condition that the first names in `_NAMES` of a class or function are unchanged."""
        return "".join(f" and {name}.{each} == {self.bind(getattr(value, each))}" for each in _NAMES[:number])

    def _given_to_library(self, value: types.FunctionType, name: str, text: str) -> None:
        """Guard the functions, modules and tensors in the closure of a library function, as `gradcore.func` returns.

        Attributes of the function are guarded if user code reads them.
        """
        for each in sorted(self.user_names & vars(value).keys()):
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
        instructions = [*dis.get_instructions(code)]
        read_names = {i.argval for i in instructions if i.opname.endswith(("_GLOBAL", "_NAME"))}
        for name in sorted(read_names - namespace.keys()):
            self.require(f"{name!r} not in {scope}", f"there is no global name {name}")
        for name in sorted(read_names & namespace.keys()):
            value = namespace[name]
            if isinstance(value, types.ModuleType) and trusted.is_of_numpy(vars(value)):
                self._refuse_of_numpy(value, code.co_names)
            self.visit(value, f"{scope}.get({name!r})", name)
        implicit_names = {_IMPLICIT[i.opname] for i in instructions if i.opname in _IMPLICIT}
        self._names_of_library(builtins, (read_names - namespace.keys() | implicit_names) & vars(builtins).keys())
        self._imports(instructions, code, namespace)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType) and constant in self.executed:
                # Functions that a call creates read it.
                self.require(f"{scope}.get('__builtins__') is {self.bind(namespace.get('__builtins__'))}", "builtins")
                self.globals_of(constant, namespace)

    def _imports(self, instructions: list[dis.Instruction], code: types.CodeType, namespace: dict[str, Any]) -> None:
        """Guard the modules that `code` imports while it runs."""
        package = namespace.get("__package__") or ""
        for level_load, each in zip(instructions, instructions[2:], strict=False):
            if each.opname != "IMPORT_NAME":
                continue
            name = importlib.util.resolve_name("." * level_load.argval + each.argval, package)
            for module_name in {name, name.partition(".")[0]} & sys.modules.keys():
                if trusted.is_of_numpy(vars(sys.modules[module_name])):
                    self._refuse_of_numpy(sys.modules[module_name], code.co_names)
                self.visit(sys.modules[module_name], f"modules.get({module_name!r})", module_name)

    def _note_reads(self, value: object) -> None:
        """Set `reads_by_name` if `value` can read attributes by computed names, as an alias of `getattr` can."""
        for each in leaves_in(value):
            if isinstance(each, str):
                self.reads_by_name |= "{" in each and not self.user_names.isdisjoint(FORMATTING)
            else:
                self.reads_by_name |= getattr(each, "__name__", None) in BY_NAME

    def _module(self, value: types.ModuleType, name: str, text: str, is_value: bool) -> None:
        """Guard the attributes of a module that the code may read."""
        if trusted.is_of_numpy(vars(value)) and value.__name__.startswith("numpy.random"):
            raise Unguardable(Code.CALL, f"{text} returns other values in each call")
        if trusted.is_library(vars(value)):
            self._module_of_library(value, is_value)
            return
        names = self.user_names if trusted.is_foreign(vars(value)) else self.names
        self.skipped |= vars(value).keys() - self.names
        self.visit(type(value), f"type({name})", f"type of {text}")
        if self.misses or type(value) is not types.ModuleType or "__getattr__" in vars(value):
            missing = self.bind(frozenset(names - vars(value).keys()))
            self.require(f"{name}.__dict__.keys().isdisjoint({missing})", f"names that {text} lacks")
        # Functions of the module have read `__builtins__` when they were created.
        is_usual = id(vars(value).get("__builtins__")) in _BUILTINS
        attributes = vars(value).keys() - ({"__builtins__"} - self.user_names if is_usual else set())
        for each in sorted(attributes if self.every else attributes & names):
            if value is sys and each == "modules":
                raise Unguardable(Code.STATE, "sys.modules cannot be checked")
            self.visit(vars(value)[each], f"{name}.__dict__.get({each!r})", f"{text}.{each}")

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
            if objects.is_written_in_c(cls):
                why = f"{text} is a class written in C, which may return other values in each call"
                raise Unguardable(Code.CALL, why)
            own = self.bind(vars(cls))
            test = f"{cls_name}.__mro__ == {self.bind(cls.__mro__)} and len({own}) == {len(vars(cls))}"
            self.require(test + self._same_names(cls, cls_name, 3), f"names, bases and attributes of {text}")
            unread: list[str] = []
            for each, attribute in vars(cls).items():
                is_special = each[:2] == "__" and each[-2:] == "__"
                is_read = self.every or each in (self.user_names if is_special else self.names)
                if is_special and each not in ("__dict__", "__doc__", "__weakref__"):
                    # Operators call methods whose names do not occur in the code.
                    is_method = attribute is None or callable(attribute) or hasattr(type(attribute), "__get__")
                    is_read = is_read or is_method or each in _READ_BY_PYTHON
                if is_read:
                    self.visit(attribute, f"{own}[{each!r}]", f"{text}.{each}")
                else:
                    unread.append(each)
            self.skipped.update(each for each in unread if each[:2] != "__" or each[-2:] != "__")
            # If these names still exist and the number of attributes is unchanged, no attribute has been added.
            self.require(f"{own}.keys() >= {self.bind({*unread})}", f"names of attributes of {text}")
        self._class_of_library(value)

    def _instance(self, value: Any, name: str, text: str, leading_on: tuple[str, ...] = ()) -> None:
        """Guard the class, the attributes and the slots of an object, and what of its state in C leads to others."""
        kind = type(value)
        attrs, slots = getattr(value, "__dict__", None), objects.slots_of(kind)
        has_plain_state = type(attrs) is dict or (attrs is None and slots)
        is_of_c = objects.has_state_in_c(kind) or str(kind.__module__).partition(".")[0] in ("numpy", "random")
        if not leading_on and (not has_plain_state or is_of_c or hasattr(kind, "__next__")):
            raise Unguardable(Code.STATE, f"{text} is a {kind.__module__}.{kind.__qualname__}, which cannot be checked")
        for each in leading_on:
            self.visit(getattr(value, each), f"{name}.{each}", f"{text}.{each}")
        self.visit(kind, f"type({name})", f"type of {text}")
        if attrs is not None and kind is not types.MethodType:  # whose attributes are those of its function
            self._attributes(attrs, name, text, None if leading_on else value)
        for each in slots:
            slot = getattr(kind, each, None)
            if not isinstance(slot, types.MemberDescriptorType):
                raise Unguardable(Code.STATE, f"{text} has a slot {each} that its class hides, which cannot be checked")
            content = objects.read_slot(slot, value)
            expression = f"read_slot({self.bind(slot)}, {name})"
            if content is MISSING:
                self.require(f"{expression} is {self.bind(MISSING)}", f"{text} has no {each}")
            elif self.every or each in self.names:
                self.visit(content, expression, f"{text}.{each}")
            else:
                self.skipped.add(each)

    def _attributes(self, own: dict[str, Any], name: str, text: str, owner: Any = None) -> None:
        """Guard the attributes of an object; for an `owner`, also those that its class defines for all instances."""
        if not own:
            return self.require(f"not {name}.__dict__", f"{text} has no attributes")
        o = self.assign(f"{name}.__dict__")
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
            unread = [each for each in unread if each not in _OF_MODULES]
        if unread:  # Another attribute, added in its place, could hide one of the class.
            self.require(f"{o}.keys() >= {self.bind({*unread})}", f"names of attributes of {text}")
        return None


def _short(value: Any) -> str:
    has_name = isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType))
    return str(value.__qualname__ if has_name else type(value).__name__)
