"""Observation of the code that a function runs, and of effects that a program of array calls would lose."""

from __future__ import annotations

import _lsprof
import functools
import gc
import importlib
import importlib._bootstrap
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from gradcore.autograd.gradients import backward
from gradcore.autograd.graph import get_gradient_edge
from gradcore.autograd.node import Node
from gradcore.compiler.capture import trusted
from gradcore.compiler.capture.bytecode import BY_NAME, FORMATTING, find_handlers, names_in, reads_by_name
from gradcore.compiler.capture.host_calls import host_codes
from gradcore.compiler.capture.reasons import Code, Reason
from gradcore.compiler.capture.repeatable import CALLING_HOOKS, RepeatedCode
from gradcore.compiler.capture.sources import codes_in, running_offset, statements_of, tree_of
from gradcore.core.tracebacks import is_own
from gradcore.cuda import graphs, streams
from gradcore.tensor import Tensor
from gradcore.tensor.layouts import rows_with_sparse_gradient
from gradcore.tensor.sharing import is_shared

__all__ = ["FACTS", "Observed", "RepeatedEffect", "Watch", "is_pure", "left_out", "offset_after_which",
           "suspend_callbacks"]  # fmt: skip

#: Code that ends a capture: functions marked with `disable`, sparse gradients, which are no arrays, and `is_shared`,
#: which looks at the object that owns the memory of an array.
left_out: set[Any] = {rows_with_sparse_gradient.__code__, is_shared.__code__}
#: Functions that select streams or wait for them. A program runs in one stream.
_OF_STREAMS = frozenset(
    function.__code__
    for cls in (streams.Stream, streams.Event, streams.StreamContext, graphs.CUDAGraph)
    for function in (streams.set_stream, *vars(cls).values())
    if isinstance(function, types.FunctionType)
)

#: Properties of tensors that are guarded only if user code reads them: the code of each, and the expression that guards
#: compare. None marks properties that return other tensors or nodes, which guards cannot check completely.
FACTS: dict[Any, str | None] = {
    **{Tensor.__dict__[name].fget.__code__: f"{{}}.{name}" for name in ("_version", "output_nr")},
    Tensor.storage_offset.__code__: "{}.storage_offset()",
    **{Tensor.__dict__[name].fget.__code__: None for name in ("_backward_hooks", "_base", "_grad_fn", "grad_fn")},
    Node.__dict__["next_functions"].fget.__code__: None,
    get_gradient_edge.__code__: None,
}

#: C functions that trusted modules may call in addition to `PURE_FUNCTIONS`.
_OF_LIBRARIES = frozenset((
    "builtins.compile", "builtins.dir", "builtins.eval", "builtins.exec", "builtins.globals", "builtins.hash",
    "builtins.id", "builtins.locals", "builtins.next", "builtins.vars", "sys._getframe", "sys.exc_info", "sys.intern",
))  # fmt: skip
#: Attributes of functions, cells and frames that give access to variables without guards.
_OF_FUNCTIONS = frozenset(
    ["__closure__", "__defaults__", "__globals__", "__kwdefaults__", "cell_contents", "f_globals", "f_locals"]
)
_METHODS_OF = (
    list, dict, tuple, str, bytes, set, frozenset, int, float, complex, range, slice, types.GeneratorType,
    BaseException, re.Pattern, re.Match,
)  # fmt: skip
#: Methods of classes that are written in C and depend on their arguments alone; `__subclasses__` and `now` do not.
_OF_CLASSES = frozenset((
    "__init_subclass__", "__new__", "__prepare__", "__subclasshook__", "from_bytes", "from_iterable", "fromhex",
    "fromkeys", "maketrans", "mro",
))  # fmt: skip
#: Kinds of code that is trusted, see `Watch._kind_of`.
_TRUSTED = ("library", "numpy", "pure")
#: Prefixes of the names of functions without arguments that return a setting of the library.
_QUERIES = ("current_", "default_", "get_", "initial_", "is_")


def is_pure(function: Any, is_trusted: bool) -> bool:
    """Return whether the result of a C function depends on its arguments alone.

    Parameters
    ----------
    function : builtin function or method
    is_trusted : bool
        Whether a trusted module calls the function. These may call more functions.
    """
    owner, name = getattr(function, "__self__", None), function.__name__
    method_class = getattr(function, "__objclass__", None)
    if isinstance(owner, types.ModuleType) or (owner is None and method_class is None):
        module = str(getattr(owner, "__name__", None) or getattr(function, "__module__", None) or "")
        if is_trusted and (f"{module}.{name}" in _OF_LIBRARIES or module == "_weakref" or _is_of_numpy(module)):
            return True
        names = trusted.PURE_FUNCTIONS.get("numpy" if _is_of_numpy(module) else module, frozenset())
        return names is None or name in names
    if is_trusted:
        return True
    if isinstance(owner, type):
        return name in _OF_CLASSES and trusted.PURE_FUNCTIONS.get(owner.__module__, ()) != ()
    return isinstance(owner, _METHODS_OF) if method_class is None else issubclass(method_class, _METHODS_OF)


def _is_of_numpy(module: str) -> bool:
    return module.partition(".")[0] == "numpy" and "random" not in module


#: The code that imports a module. It is skipped, because a module's code runs only in its first import.
_IMPORTING = frozenset(getattr(importlib._bootstrap, name).__code__ for name in ("_find_and_load", "_handle_fromlist"))
#: Code of trusted modules that reads state without guards (registries, modules, annotations), and its name for readers.
_LOOKING_UP = {
    **dict.fromkeys(codes_in(functools.singledispatch.__code__), "a function of functools.singledispatch"),
    importlib.import_module.__code__: "importlib.import_module",
    typing.get_type_hints.__code__: "typing.get_type_hints",
    typing.get_overloads.__code__: "typing.get_overloads",
}


@contextmanager
def offset_after_which(code: types.CodeType | None, is_so: Callable[[], bool]) -> Iterator[list[int]]:
    """Yield a list that receives the offset of the first statement after which `is_so()` is true.

    Yields
    ------
    list of int
        The offset of an instruction of that statement, once it has run; empty if there is none.
    """
    offsets: list[int] = []
    last_statement: list[tuple[int, Any]] = []
    is_begun: list[bool] = []  # The frame itself would be kept alive, with its variables, by its trace function.
    statements = [] if code is None else statements_of(code, tree_of(code))

    def step(frame: types.FrameType, event: str, arg: Any) -> Any:
        sys.settrace(None)
        frame.f_trace_opcodes = True
        statement = None if event == "return" else statements[frame.f_lasti // 2]
        if not offsets and event in ("opcode", "return") and not (last_statement and statement is last_statement[0][1]):
            if last_statement and is_so():
                offsets.append(last_statement[0][0])
            last_statement[:] = [(frame.f_lasti, statement)]
        sys.settrace(call)
        return step

    def call(frame: types.FrameType, event: str, arg: Any) -> Any:
        if frame.f_code is not code or is_begun:
            return None
        is_begun.append(True)
        frame.f_trace_opcodes = True
        return step

    outer_trace = sys.gettrace()
    sys.settrace(call)
    try:
        yield offsets
    finally:
        sys.settrace(outer_trace)


@contextmanager
def suspend_callbacks(*, of_collector: bool = True) -> Iterator[None]:
    """Suspend garbage collection and `cProfile` within the context.

    No finalizers and callbacks of the collector run during a capture, and captured objects are not searched.
    `cProfile` has to be suspended because ``sys.setprofile`` cannot restore it.
    """
    profiler: Any = sys.getprofile()
    suspended = (gc,) * (of_collector and gc.isenabled()) + (profiler,) * isinstance(profiler, _lsprof.Profiler)
    with ExitStack() as stack:
        for each in suspended:
            each.disable()
            stack.callback(each.enable)
        yield


class RepeatedEffect(BaseException):
    """Raised, with a `Reason`, before code that runs once more than in eager execution could change something."""


class Observed:
    """Record of a function's calls: the code that ran, and the state of the library that it read.

    Parameters
    ----------
    *codes : code
        User code that has run.

    Attributes
    ----------
    executed, users : set of code
        All code that ran, and the part of it that is user code.
    facts : set of code
        The code in `FACTS` that user code has called.
    queries : set of function
        Functions of gradcore without arguments that user code has called to read settings.
    computed_names : bool
        Whether attributes were read by names that the code does not contain.
    offset_of_backward : int or None
        The offset of the instruction of the function where derivatives were first computed.
    names : frozenset of str
        The names in the code of earlier calls, see `names_in`.
    handled : dict
        The ranges of instructions of user code in earlier calls that may catch errors, see `find_handlers`.
    """

    def __init__(self, *codes: types.CodeType) -> None:
        self.executed, self.users, self.facts = {*codes}, {*codes}, set[types.CodeType]()
        self.queries: set[Any] = set()
        self.computed_names = False
        self.offset_of_backward: int | None = None
        self.names = names_in(codes)
        self.handled: dict[types.CodeType, list[tuple[int, int]]] = find_handlers(self.users)

    def add(self, other: Observed) -> None:
        """Add what has been observed in a call."""
        self.names |= names_in(other.executed - self.executed)
        if not other.users <= self.users:
            self.handled = find_handlers(self.users | other.users)
        for name in ("executed", "users", "facts", "queries"):
            getattr(self, name).update(getattr(other, name))
        self.computed_names |= other.computed_names
        self.offset_of_backward = self.offset_of_backward or other.offset_of_backward

    def covers(self, other: Observed) -> bool:
        """Return whether a call has done nothing that earlier calls did not do."""
        is_known = other.users <= self.users and other.computed_names <= self.computed_names
        return is_known and other.facts <= self.facts and other.queries <= self.queries

    @property
    def reads_grads(self) -> bool:
        """Whether user code may read gradients."""
        return self.computed_names or "grad" in names_in(self.users)


class Watch(Observed):
    """Observer of the code that runs in a thread.

    Parameters
    ----------
    code : code, optional
        The code of the observed function.
    with_host_calls : bool
        Whether to observe the code within host calls, which programs do not contain.

    Attributes
    ----------
    refused : Reason or None
        The reason why no program can replace the function: an effect would be lost, or results differ between calls.
    offset : int or None
        The offset of the instruction of the observed function that was running then, if known.
    """

    def __init__(self, code: types.CodeType | None = None, with_host_calls: bool = True) -> None:
        super().__init__()
        self.code = code
        self._skipped = frozenset[types.CodeType]() if with_host_calls else host_codes()
        #: Observed code and its kind (see `_kind_of`), by id: the hash of a code object takes microseconds.
        #: The last item is whether the code is certainly called by other code.
        self._seen: dict[int, tuple[types.CodeType, str, bool]] = {}
        self._backends = trusted.backend_packages()
        self.refused: Reason | None = None
        self.offset: int | None = None
        #: The judge of code, while it runs once more than in eager execution.
        self._repeated: RepeatedCode | None = None

    @contextmanager
    def forbid_effects(self, refuse: Callable[[Code, str, str], None]) -> Iterator[None]:
        """Stop the block before user code in it could change anything, and call `refuse` with the reason.

        A capture computes gradients before any backward, so it calls hooks and the user's own backward functions once
        more. Only those without effects may run. What is unknown counts as an effect; finalizers, signal handlers and
        callbacks of weak references do not.
        """
        self._repeated = RepeatedCode()
        try:
            yield
        except RepeatedEffect as effect:
            refuse(*effect.args[0][:3])
        finally:
            self._repeated = None

    @contextmanager
    def on(self) -> Iterator[None]:
        """Observe this thread within the context."""
        with suspend_callbacks():
            outer_profile = sys.getprofile()
            sys.setprofile(self._sees())
            try:
                yield
            finally:
                sys.setprofile(outer_profile)

    def _sees(self) -> Callable[[types.FrameType, str, Any], None]:
        """Return the profile function that is called for each event of this thread."""
        seen, unseen = self._seen, (None, "", False)
        hidden: types.FrameType | None = None
        #: Frames of user code called from hidden frames, with these hidden frames.
        inner: list[tuple[types.FrameType, types.FrameType]] = []

        def skip(frame: types.FrameType, event: str, arg: Any) -> None:
            """Observe nothing before the hidden frame returns."""
            nonlocal hidden
            if frame is hidden and event == "return":
                hidden = None
                sys.setprofile(observe)

        def hide(frame: types.FrameType) -> None:
            nonlocal hidden
            hidden = frame
            sys.setprofile(skip)

        def observe(frame: types.FrameType, event: str, arg: Any) -> None:
            nonlocal hidden
            if event == "call":
                repeated, (_, kind, is_called) = self._repeated, seen.get(id(frame.f_code), unseen)
                if repeated is None and kind == "library":
                    return
                back = frame.f_back if kind == "library" and id(frame.f_code) not in CALLING_HOOKS else None
                has_no_effect = back is not None and seen.get(id(back.f_code), unseen)[1] in _TRUSTED
                if is_called and has_no_effect:
                    return
                if hidden is not None:
                    # The finders of other packages may be asked for a module.
                    if self._is_trusted_within(frame) or self._is_importing(frame):
                        return
                    inner.append((frame, hidden))  # A package calls a function that user code has passed to it.
                    hidden = None
                if repeated is not None and not is_called and repeated.is_asynchronous(frame):
                    hide(frame)
                    return
                if has_no_effect:
                    return  # What trusted code calls in the library has no effect.
                kind = kind or self._kind_of(frame)
                is_foreign = kind == "foreign"
                if is_foreign:
                    kind = "skipped" if self._is_called_by_gradcore(frame) else self._kind_of_user(frame)
                effect = None if repeated is None or kind == "skipped" else repeated.find_effect(frame, kind)
                if repeated is not None and effect is not None:
                    if kind in _TRUSTED and repeated.is_asynchronous(frame):
                        hide(frame)
                        return
                    self._refuse(effect, frame, Code.BACKWARD)
                if kind == "skipped" and is_foreign:  # Only what user code has passed to it is observed.
                    hidden = frame
                elif kind == "skipped":  # Code within host calls and within backends' packages is not observed.
                    hide(frame)
                elif kind == "fact" and not self._is_called_by_library(frame):
                    self.facts.add(frame.f_code)
                elif kind == "query" and not self._is_called_by_library(frame):
                    self._ask(frame)
                elif kind == "numpy" and not self._is_pure_of_numpy(frame):
                    self._refuse(f"numpy.{frame.f_code.co_qualname} is called", frame)
            elif event == "c_call":
                if hidden is None:
                    kind = seen.get(id(frame.f_code), unseen)[1]
                    if kind in ("user", "foreign"):
                        self._note_c_call(arg, frame)
                    elif kind in ("pure", "numpy") and not (
                        is_pure(arg, True) or self._is_called_by_gradcore(frame) or self._is_importing(frame)
                    ):
                        self._refuse(f"{arg.__name__} is called", frame)
            elif event == "return":
                if frame is hidden:
                    hidden = None
                elif inner and frame is inner[-1][0]:
                    hidden = inner.pop()[1]

        return observe

    def _kind_of(self, frame: types.FrameType) -> str:
        """Return the kind of code that runs for the first time, and store it.

        The kinds are ``skipped``, ``foreign`` (trusted if gradcore calls it), ``user``, ``pure``, ``numpy``,
        ``library``, ``fact`` (in `FACTS`) and ``query`` (reads a setting).
        """
        code, kind, namespace = frame.f_code, "library", frame.f_globals
        is_trusted = trusted.is_library(namespace) or trusted.is_generated(code)
        name = str(namespace.get("__name__", ""))
        if code in self._skipped or code in _IMPORTING or f"{name}.".startswith(self._backends):
            kind = "skipped"
        elif not is_trusted and trusted.is_foreign(namespace):
            kind = "foreign"  # Where user code calls it, it counts as user code.
        else:
            self.executed.add(code)
            if code is backward.__code__:
                self.offset_of_backward = running_offset(self.code)
            if code in left_out:
                self._refuse(f"{code.co_name} is not to be compiled", frame, Code.UNSUPPORTED)
            if code in _LOOKING_UP or (code in _OF_STREAMS and not self._is_called_by_library(frame)):
                self._refuse(f"{_LOOKING_UP.get(code, code.co_qualname)} is called", frame)
            if not is_trusted:
                return self._kind_of_user(frame)
            if code in FACTS:
                kind = "fact"
            elif name.partition(".")[0] == "gradcore":
                takes_nothing = not (name.startswith("gradcore.compiler") or code.co_argcount or code.co_kwonlyargcount)
                is_query = takes_nothing and code.co_name.startswith(_QUERIES)
                kind = "query" if is_query and code.co_qualname == code.co_name else kind
            else:
                kind = "numpy" if trusted.is_of_numpy(namespace) else "pure"
        # Library code without such arguments, and the capture, call no code that signals and finalizers bring along.
        is_called = not code.co_flags & inspect.CO_VARARGS or name.startswith("gradcore.compiler.capture.")
        self._seen[id(code)] = code, kind, is_called and kind in ("library", "numpy")
        return kind

    def _kind_of_user(self, frame: types.FrameType) -> str:
        """Add code that is not trusted to `users`; return its kind."""
        code, namespace = frame.f_code, frame.f_globals
        if code in _LOOKING_UP:
            self._refuse(f"{_LOOKING_UP[code]} is called", frame)
        for name in sorted(names_in([code]) & _OF_FUNCTIONS):
            self._refuse(f"{name} of a function or frame is used", frame, Code.STATE)
        if code not in self.users and not self._is_importing(frame):
            self.executed.add(code)
            self.users.add(code)
            self.computed_names |= reads_by_name(code)
        if not trusted.is_foreign(namespace):
            self._seen[id(code)] = code, "user", False
        return "user"

    def _is_trusted_within(self, frame: types.FrameType) -> bool:
        """Return whether code called by foreign code is trusted: of a backend's package, generated, or a library's."""
        namespace = frame.f_globals
        name = str(namespace.get("__name__", ""))
        is_hidden = not name or f"{name}.".startswith(self._backends) or trusted.is_generated(frame.f_code)
        return is_hidden or trusted.is_library(namespace) or trusted.is_foreign(namespace)

    def _is_called_by_library(self, frame: types.FrameType) -> bool:
        """Return whether trusted code is the caller."""
        return frame.f_back is not None and trusted.is_library(frame.f_back.f_globals)

    def _is_called_by_gradcore(self, frame: types.FrameType) -> bool:
        """Return whether gradcore is the caller, directly or through trusted modules."""
        back = frame.f_back
        while back is not None and not is_own(back):
            if not (trusted.is_library(back.f_globals) or trusted.is_foreign(back.f_globals)):
                return False
            back = back.f_back
        return back is not None

    def _is_pure_of_numpy(self, frame: types.FrameType) -> bool:
        """Return whether NumPy code is trusted: it is private, listed as pure, or called by a trusted module."""
        name = frame.f_code.co_qualname.partition(".")[0]
        return name[0] == "_" or name in (trusted.PURE_FUNCTIONS["numpy"] or ()) or self._is_called_by_library(frame)

    def _is_importing(self, frame: types.FrameType | None) -> bool:
        """Return whether a module is being imported."""
        while frame is not None and frame.f_code not in _IMPORTING:
            frame = None if frame.f_code is self.code else frame.f_back
        return frame is not None

    def _ask(self, frame: types.FrameType) -> None:
        """Add the function of a frame to `queries`, or refuse it if it cannot be found by name."""
        function = frame.f_globals.get(frame.f_code.co_name)
        if getattr(function, "__code__", None) is frame.f_code:
            self.queries.add(function)
        else:
            self._refuse(f"{frame.f_code.co_name} is called", frame)

    def _note_c_call(self, function: Any, frame: types.FrameType) -> None:
        """Store whether a C function reads attributes by computed names; refuse the function if it is not pure."""
        owner, name = getattr(function, "__self__", None), function.__name__
        by_format = name in FORMATTING and isinstance(owner, str) and ("." in owner or "[" in owner)
        self.computed_names |= (isinstance(owner, types.ModuleType) and name in BY_NAME) or by_format
        if not (is_pure(function, False) or self._is_importing(frame)):
            self._refuse(f"{name} is called", frame)

    def _refuse(self, what: str, frame: types.FrameType, code: Code = Code.CALL) -> None:
        """Store the first reason why no program can replace the function, with the user's line."""
        if self.refused is None:
            self.offset = running_offset(self.code)
            while frame.f_back is not None and trusted.is_library(frame.f_globals):
                frame = frame.f_back
            where = f"{frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name}"
            self.refused = Reason(code, what, where)
        if self._repeated is not None:
            raise RepeatedEffect(self.refused)
