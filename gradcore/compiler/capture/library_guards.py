"""Guards of the library: its modes and settings, functions that users may replace or that are not pure, optimizers."""

from __future__ import annotations

import abc
import functools
import inspect
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gradcore.amp.autocasting import get_autocast_dtype
from gradcore.amp.scaling import GradScaler
from gradcore.autograd.modes import local
from gradcore.backends import switches
from gradcore.backends.registry import find_cupy_backends
from gradcore.compiler.capture import objects, trusted
from gradcore.compiler.capture.bytecode import names_in
from gradcore.compiler.capture.checks import Unguardable
from gradcore.compiler.capture.host_calls import can_be_observed, methods_of
from gradcore.compiler.capture.objects import PLAIN, UNIQUE
from gradcore.compiler.capture.reasons import Code
from gradcore.compiler.capture.substitutes import original_of
from gradcore.compiler.capture.tensor_guards import TensorGuards
from gradcore.compiler.capture.watch import Observed, is_pure
from gradcore.core import config
from gradcore.nn import functional
from gradcore.nn.module_hooks import _Everywhere as Everywhere
from gradcore.optim.optimizer import Optimizer
from gradcore.tensor import Tensor
from gradcore.tensor.namespaces import LazyMethod
from gradcore.utils import checkpoint

__all__ = ["LibraryGuards"]

#: Settings of the process: the source expression of each, and its name for readers.
_SETTINGS = {
    "get_default_dtype()": "the default dtype",
    "deterministic()": "whether algorithms are deterministic",
    "get_default_device()": "the default device",
}
#: The hooks of all modules.
_HOOKS_OF_ALL = Everywhere.forward, Everywhere.forward_pre, Everywhere.backward, Everywhere.backward_pre
_DISTRIBUTIONS = os.path.join("gradcore", "distributions", "")
_OF_NUMPY = trusted.PURE_FUNCTIONS["numpy"] or frozenset()


def _choices(backend: Any) -> tuple[Any, ...]:
    """Return the settings that decide which kernels a device backend uses."""
    precision, attention = config.get_float32_matmul_precision(), switches.cuda.flash_sdp_enabled()
    return backend.current_index(), precision, attention, bool(backend.supports_fusion), config.index_checks()


class LibraryGuards(TensorGuards):
    """Guards of the state of the library, and of how user code uses trusted modules.

    The parameters are those of `TensorGuards`.
    """

    visit: Callable[..., None]

    def __init__(self, scope: dict[str, Any], observed: Observed, every: bool) -> None:
        super().__init__(scope, observed, every)
        self._users, self._queries, self.every = [*observed.users], [*observed.queries], every
        self.executed = frozenset(observed.executed)
        #: Functions of operations get other code in their first call, with the same name.
        self._executed_names = {code.co_qualname for code in self.executed}
        #: Names in user code. Only these attributes can be read from modules of other packages.
        self.user_names = names_in(self._users)
        #: Optimisers, schedulers and gradient scalers.
        self.hosts: list[Any] = []
        #: The lines that check the parameters of optimizers whose methods are only called, with their tensor numbers.
        self.called_groups: list[tuple[slice, frozenset[int]]] = []
        self._sees_abstract = False

    # -- settings -------------------------------------------------------------------------------------------------

    def modes(self) -> None:
        """Guard the modes of the thread and of the process, such as grad mode and the default dtype."""
        self.lines.append("state = local.state")
        self.require(f"state.mode == {local.state.mode}", "grad mode, or what intercepts operations, has changed", True)
        self.require("not state.batches and not state.transforms and state.task is None", "inside a transform", True)
        if any(_HOOKS_OF_ALL):
            raise Unguardable(Code.UNSUPPORTED, "there are hooks of all modules")
        self.require(f"not ({' or '.join(map(self.bind, _HOOKS_OF_ALL))})", "there are no hooks of all modules")
        for expression, text in _SETTINGS.items():
            self.require_unchanged(expression, text)
        distributions: Any = sys.modules.get("gradcore.distributions.distribution")
        if distributions is not None and any(_DISTRIBUTIONS in code.co_filename for code in self.executed):
            self.require_unchanged(f"{self.bind(distributions.Distribution)}._validate_args", "argument checks")
        if checkpoint.checkpoint.__code__ in self.executed:
            self.require_unchanged(f"{self.bind(checkpoint._Chosen)}.early_stop", "whether checkpoints stop early")
        if get_autocast_dtype.__code__ in self.executed:
            dtypes = f"(*map(str, map({self.bind(get_autocast_dtype)}, ('cpu', 'cuda'))),)"
            self.require_unchanged(dtypes, "dtypes of autocasting")
        for query in sorted(self._queries, key=lambda each: str(each.__qualname__)):
            value = query()
            if not isinstance(value, (*PLAIN, *UNIQUE)):
                text = f"{query.__name__}() returns a {type(value).__name__}, which cannot be checked"
                raise Unguardable(Code.STATE, text)
            self.require(f"same({self.bind(query)}(), {self.bind(value)})", f"{query.__name__}() is {value!r}")
        self._class_of_library(Tensor)
        called = {code.co_name for code in self.executed} & vars(functional).keys() - {"__getattr__"}
        self._names_of_library(functional, {n for n in called if isinstance(vars(functional)[n], types.FunctionType)})
        for backend in find_cupy_backends():
            choices = f"{self.bind(functools.partial(_choices, backend))}()"
            self.require_unchanged(choices, "the current device, TensorFloat32, fusion, attention")

    def _module_of_library(self, module: types.ModuleType, is_value: bool) -> None:
        """Guard the attributes of a trusted module that user code may read.

        Where user code may pass the module to `getattr` with a computed name (`is_value`), these are all public ones.
        """
        own, scope = vars(module), self.bind(vars(module))
        later = {*getattr(module, "__all__", ())} - own.keys()  # created when they are first looked up
        missing = self.bind(self.user_names - own.keys() - later)
        added = f"__le__({self.bind(own.keys() | later)})" if is_value else f"isdisjoint({missing})"
        if self.misses:
            self.require(f"len({scope}) == {len(own)} or {scope}.keys().{added}", f"names that {module.__name__} lacks")
        self._names_of_library(module, {each for each in own if self._is_read(each, own[each], is_value)})

    def _class_of_library(self, cls: type) -> None:
        """Guard the attributes that user code may read from a class or its instances, and that trusted code defines."""
        inherits = False  # whether it reads attributes of bases, which new ones of the class would hide
        for each in () if cls in self._seen else reversed(cls.__mro__):
            if objects.is_written_in_c(each) or not trusted.is_library_class(each):
                continue
            names = {name for name, value in vars(each).items() if self._is_read(name, value, self.every)}
            if each not in self._seen:
                self._seen[each] = each
                if inherits or self.misses:
                    self.require(f"len({self.bind(vars(each))}) == {len(vars(each))}", f"names of {each.__name__}")
                for name in self.user_names & {"__name__", "__qualname__"}:
                    self.visit(getattr(each, name), f"{self.bind(each)}.{name}", f"{each.__name__}.{name}")
                self._names_of_library(each, names)
            inherits |= bool(names)

    def _is_read(self, name: str, value: object, is_computed: bool) -> bool:
        """Return whether user code, or Python by itself, may read an attribute of a trusted module or class."""
        if isinstance(value, LazyMethod) or name == "__dict__":
            return False
        code: Any = getattr(getattr(value, "fget", None) or getattr(value, "__func__", value), "__code__", None)
        is_code = isinstance(code, types.CodeType)  # `types.FunctionType` has a `__code__`, too
        has_run = is_code and code.co_qualname in self._executed_names
        is_constant = not (is_code or isinstance(value, (type, types.ModuleType)))
        may_be_computed = is_computed and name[0] != "_" and (has_run or is_constant)
        return may_be_computed or (has_run and name[:2] == "__") or name == "forward" or name in self.user_names

    def misses_methods(self, names: set[str]) -> bool:
        """Return whether these qualified names include special methods of guarded classes that have no guards."""
        classes = {each.__name__ for each in self._seen if isinstance(each, type)}
        return any(each.partition(".__")[0] in classes for each in names - self._executed_names if ".__" in each)

    def _names_of_library(self, owner: Any, names: Iterable[str]) -> None:
        """Guard attributes of a trusted module or class, as users may replace them."""
        scope = self.bind(vars(owner))
        values = {each: vars(owner)[each] for each in sorted(names) if (id(owner), each) not in self._seen}
        self._seen.update(((id(owner), each), owner) for each in values)
        plain = (*PLAIN, list, dict, set, types.ModuleType)
        for each, value in values.items():
            if isinstance(value, plain) and vars(sys).get("modules") is not value:
                self.visit(value, f"{scope}[{each!r}]", f"{owner.__name__}.{each}")
            elif isinstance(value, type) and objects.is_constant_class(value):
                self._class_of_library(value)
        compared = {
            each: self.bind(original_of(value)) for each, value in values.items() if not isinstance(value, plain)
        }
        self._registry(*values.values())
        if compared:  # Another thread may be capturing.
            original, elements = self.bind(original_of), ((f"{scope}[{each!r}]", v) for each, v in compared.items())
            tests = (f"({element} is {v} or {original}({element}) is {v})" for element, v in elements)
            self.require(" and ".join(tests), f"{', '.join(compared)} of {owner.__name__}")

    def _registry(self, *values: object) -> None:
        """Guard the registries of abstract base classes, where such a class is among the guarded objects."""
        if not self._sees_abstract and any(isinstance(typing.get_origin(v) or v, abc.ABCMeta) for v in values):
            self._sees_abstract = True
            self.require_unchanged(f"{self.bind(abc.get_cache_token)}()", "registered subclasses")

    # -- calls ----------------------------------------------------------------------------------------------------

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

    # -- optimizers -----------------------------------------------------------------------------------------------

    def _host(self, value: Any, name: str, text: str) -> None:
        """Guard the attributes that captured methods of an optimizer, scheduler or scaler read, such as parameters."""
        if not can_be_observed(type(value)):
            raise Unguardable(Code.UNSUPPORTED, f"{text} is of a class that looks up or sets attributes in its own way")
        methods = methods_of(type(value))[1]
        if not vars(value).keys().isdisjoint(methods):
            raise Unguardable(Code.UNSUPPORTED, f"a method of {text} is replaced")
        for each in methods:  # These are captured like other functions.
            method = self.bind(getattr(type(value), each))
            test = f"{each!r} not in {name}.__dict__ and type({name}).{each} is {method}"
            self.require(test, f"{each} of {text}")
        self.hosts.append(value)
        if isinstance(value, Optimizer):  # Hooks may run user code before or after a step.
            hooks = f"(not ({name}._hooks['step_pre'] or {name}._hooks['step_post'] or before_steps or after_steps))"
            self.require_unchanged(hooks, f"whether {text} has hooks")
        is_captured = any(inspect.unwrap(getattr(type(value), each)).__code__ in self.executed for each in methods)
        for i, group in enumerate(value.param_groups if isinstance(value, Optimizer) else ()):
            start, first = len(self.lines), len(self.tensors)
            pairs = [(f"o{next(self._variables)}", self.bind(p)) for p in group["params"]]
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
