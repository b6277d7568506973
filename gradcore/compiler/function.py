"""Compiled functions: run the specialization whose guards hold, or capture a new one if there is none."""

from __future__ import annotations

import functools
import inspect
import operator
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from textwrap import indent
from typing import Any, TypeAlias

from gradcore.autograd.modes import GRAD, PROFILE, local
from gradcore.backends.registry import find_cupy_backends
from gradcore.compiler import symbolic_sizes
from gradcore.compiler.autograd.node import all_tensors_in, with_grads
from gradcore.compiler.capture.arrays import current
from gradcore.compiler.capture.bytecode import names_in, reads_grads
from gradcore.compiler.capture.checks import Unguardable
from gradcore.compiler.capture.guards import Guards
from gradcore.compiler.capture.host_calls import late_bound
from gradcore.compiler.capture.numbers import float_arguments, plain_numbers
from gradcore.compiler.capture.reasons import OF_RESULTS, Code, Reason
from gradcore.compiler.capture.recorder import Recorder, Unrecordable, recording_lock
from gradcore.compiler.capture.repeatable import handles_end_of_capture
from gradcore.compiler.capture.sizes import Symbols
from gradcore.compiler.capture.sources import offset_of_return
from gradcore.compiler.capture.split import cut
from gradcore.compiler.capture.trusted import is_library
from gradcore.compiler.capture.watch import Observed, Watch, offset_after_which, suspend_callbacks
from gradcore.compiler.captured_run import RecordedRun
from gradcore.compiler.settings import Settings
from gradcore.compiler.specialization import Specialization, SpecializationWriter
from gradcore.compiler.verification import Verifier
from gradcore.core import config
from gradcore.core.tracebacks import is_own, shorten
from gradcore.nn.module import Module

__all__ = ["CompiledFunction", "choose_stance", "explain_calls", "reset"]

_Args: TypeAlias = tuple[Any, ...]
_Named: TypeAlias = dict[str, Any]
#: The smallest limit of programs of one function with ``dynamic=True``.
_MOST_DYNAMIC = 64
#: `explain_calls` stops after this many calls without a new program or graph break.
_LAST_CALLS = 4
#: The largest number of attempts to capture a program with symbolic sizes, by the setting `dynamic`.
_MOST_ATTEMPTS = {True: 6, None: 2}

#: The number of calls of `reset`, or None while the stance is ``"force_eager"``.
_generation: list[int | None] = [0]
_forgotten = [0]
#: The current stance, see `gradcore.compiler.set_stance`.
_stance = ["default"]


@contextmanager
def _compiling_nothing() -> Iterator[None]:
    """Run all compiled functions eagerly within the context."""
    before = choose_stance("force_eager")
    try:
        yield
    finally:
        choose_stance(before)


def _call_as_compiling(function: Callable[..., object], *args: object, **kwargs: object) -> object:
    """Call a function while `is_compiling` is True."""
    outside, current.is_compiling = current.is_compiling, True
    try:
        return function(*args, **kwargs)
    finally:
        current.is_compiling = outside


def _code_of(function: types.FunctionType) -> tuple[Any, ...]:
    """Return a function, its code and its defaults: the attributes that can be replaced."""
    return function, function.__code__, function.__defaults__, function.__kwdefaults__


def _call_module(module: Module, forward: Any, cut: Any, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call `cut`, the split `forward` of a module, or `call` if the module now has hooks or another `forward`."""
    if module._has_hooks() or getattr(module.forward, "__func__", module.forward) is not forward:
        return call(*args, **kwargs)
    return cut(module, *args, **kwargs) if hasattr(module.forward, "__func__") else cut(*args, **kwargs)


def reset() -> None:
    """Forget all programs: compiled functions are captured anew."""
    _forgotten[0] += 1
    choose_stance(_stance[0])


def choose_stance(stance: str) -> str:
    """Set the stance of compiled functions, and return the previous one."""
    before, _stance[0] = _stance[0], stance
    _generation[0] = None if stance == "force_eager" else _forgotten[0]
    return before


class CompiledFunction:
    """A function whose first calls are captured, and whose later calls run as programs.

    Parameters
    ----------
    function : callable
    *settings, **named
        The fields of `gradcore.compiler.settings.Settings`.
    """

    def __init__(self, function: Callable[..., Any], *settings: Any, **named: Any) -> None:
        functools.update_wrapper(self, function, updated=())
        self.settings = Settings(*settings, **named)
        every = config.COMPILE_VERIFY if self.settings.verify is None else self.settings.verify
        self._verifier = Verifier(self, every, _compiling_nothing) if every else None
        self._function = function
        #: Whether this is a part of a split function. Parts run eagerly without a warning.
        self._is_part = False
        self._begin()

    def _begin(self) -> None:
        self._generation = _forgotten[0]
        self._specializations: list[Specialization] = []
        self._observed = Observed()
        self._left: Reason | None = None
        #: With ``fullgraph``, the guards of each refused call, and the reason for the refusal.
        self._refusals: list[tuple[Callable[[_Args, _Named], object], Reason]] = []
        #: The reason for a graph break whose statement the next call has to find.
        self._sought: Reason | None = None
        #: The function to call if there is no program: the original function or its split version.
        self._instead: Callable[..., Any] = self._function
        self._parts: list[CompiledFunction] = []
        #: The function that was split, with its code and defaults.
        self._split: tuple[Any, ...] | None = None
        #: Float arguments of earlier calls; those that change become inputs of programs. None if that has failed.
        self._floats: dict[int | str, float] | None = {}
        self._varying: frozenset[int | str] = frozenset()
        #: The reason for each failed attempt to capture a program with symbolic sizes.
        self._static: list[str] = []

    @property
    def _most(self) -> int:
        """The largest number of programs."""
        return max(config.COMPILE_LIMIT, _MOST_DYNAMIC if self.settings.dynamic else 0)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __reduce_ex__(self, protocol: object) -> str | tuple[object, ...]:
        # As of plain functions, a copy is the object that the name in the module leads to. Others have no programs yet.
        name, module = getattr(self, "__qualname__", ""), sys.modules.get(self.__module__)
        named: Any = functools.reduce(lambda owner, part: getattr(owner, part, None), name.split("."), module)
        return name if named is self else (CompiledFunction, (self._function, *self.settings))

    def __repr__(self) -> str:
        return f"<compiled {self._function!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if current.recorder is not None or self._generation != _generation[0]:
            if current.recorder is not None or _generation[0] is None:
                return self._function(*args, **kwargs)
            self._begin()
        entries = self._specializations
        for entry in entries:
            result = entry.run(args, kwargs)
            if type(result) is not int:
                if entry.decides and entry is not entries[0]:  # trying others first would waste work
                    self._specializations = [entry, *(each for each in entries if each is not entry)]
                return result[0]
        return _call_as_compiling(self._call_without_program, args, kwargs)

    # -- calls for which there is no program --------------------------------------------------------------------

    def eager(self, *args: object, **kwargs: object) -> object:
        """Call the function eagerly, with `is_compiling` True as in captured calls."""
        return _call_as_compiling(self._function, *args, **kwargs)

    def _call_without_program(self, args: _Args, named: _Named) -> object:
        state = local.state
        if state.mode & PROFILE and current.profiler is None:
            return self._call_profiled(args, named)
        split = self._split
        if split is not None and not all(map(operator.is_, split, _code_of(split[0]))):
            self._begin()
        if self._left is not None and self.settings.fullgraph:
            raise Unrecordable(self._left, self._shown_name())
        for check, reason in self._refusals:
            if type(check(args, named)) is not int:
                raise Unrecordable(reason, self._shown_name())
        is_inside = state.mode & ~GRAD or state.batches or state.transforms or state.task is not None
        if self._left is not None or is_inside or _stance[0] == "eager_on_recompile":
            return self._instead(*args, **named)
        if _stance[0] == "fail_on_recompile" or (config.COMPILE_ONCE and self._specializations):
            what = "error_on_recompile is True" if config.COMPILE_ONCE else f"compile's stance is {_stance[0]!r}"
            raise RuntimeError(f"Detected recompile when {what}: {self._shown_name()}")
        is_capturing = any(backend.is_capturing() for backend in find_cupy_backends())  # a CUDA graph: calls do not run
        if is_capturing or not recording_lock.acquire(blocking=False):  # another thread is recording
            return self._function(*args, **named)
        try:
            result = self._with_symbols(args, named)
            return result[0] if type(result) is tuple else self._next(args, named)
        except Unrecordable:
            self._remember_refusal(args, named)
            raise
        finally:
            recording_lock.release()

    def _remember_refusal(self, args: _Args, named: _Named) -> None:
        """Refuse only this call from now on, or all calls if its arguments cannot be guarded."""
        if self._left is None or not self.settings.fullgraph:
            return
        with suppress(Unguardable, RecursionError):
            guards = self._guards(args, named, {})
            check = guards.function_of()
            guards.forget()
            self._refusals = [(check, self._left), *self._refusals[: self._most - 1]]
            self._left = None

    def _next(self, args: _Args, named: _Named) -> Any:
        """Call the function and capture one more program, if the limit allows it."""
        if self._sought is not None:
            return self._seek(self._sought, args, named)
        if len(self._specializations) >= self._most:
            failed = self._specializations[0].run(args, named)
            text = self._specializations[0].guards.texts[failed] if type(failed) is int else ""
            why = f"there are {self._most} programs of it already, and this guard keeps failing: {text}"
            if config.COMPILE_LIMIT_FAILS:
                raise RuntimeError(f"The limit of programs is reached: {self._shown_name()}: {why}")
            self._leave(Reason(Code.PROGRAMS, why))
            return self._instead(*args, **named)
        is_first, function = not self._observed.executed, self._source()
        if is_first and not self.settings.fullgraph:  # Run the function eagerly, and record which code it runs.
            watch = Watch(self._code(), with_host_calls=False)
            with watch.on():
                result = self._function(*args, **named)
            self._learn(watch)
            return result
        if is_first and function is not None and not is_library(function.__globals__):
            self._observed = Observed(function.__code__)
        with suspend_callbacks():
            return self._capture(args, named, is_first)

    def _call_profiled(self, args: _Args, named: _Named) -> Any:
        """Call within a profiler range that contains the fused kernels of a program, or the operations run eagerly."""
        state = local.state
        current.profiler = state.profiler
        event = state.profiler.begin(f"compiled {self._name()}")
        state.mode &= ~PROFILE
        try:
            for entry in self._specializations:
                result = entry.run(args, named)
                if type(result) is not int:
                    return result[0]
            state.mode |= PROFILE
            return self._instead(*args, **named)
        finally:
            state.mode |= PROFILE
            current.profiler.end(event)
            current.profiler = None

    def _learn(self, watch: Watch) -> None:
        """Add the code and effects that a `Watch` has observed to those of earlier calls."""
        self._observed.add(watch)
        if watch.refused is not None:
            self._leave(watch.refused, watch.offset)

    def _knows(self, watch: Watch, guards: Guards) -> bool:
        """Return whether all code that ran has run before, so that the guards are complete."""
        new_code = watch.executed - self._observed.executed
        misses_reads = guards.skipped & names_in(new_code) or guards.reads_grads < reads_grads(new_code)
        misses_methods = guards.misses_methods({code.co_qualname for code in new_code})
        return self._observed.covers(watch) and not (misses_reads or misses_methods)

    def _stop(self, reason: Reason, offset: int | None) -> None:
        """Stop compiling the function at the instruction at `offset`; if that is None, let the next call find it."""
        function = self._source()
        if offset is None and reason.code in OF_RESULTS and function is not None:
            offset = offset_of_return(function.__code__)
        if offset is None and function is not None and not self.settings.fullgraph:
            self._sought = reason
        else:
            self._leave(reason, offset)

    def _seek(self, reason: Reason, args: _Args, named: _Named) -> Any:
        """Run the function eagerly, split it after the statement that makes guards fail, and return the result."""
        self._sought = None
        guards = self._guards_or_none(args, named, reason)
        if guards is None:
            return self._function(*args, **named)
        check = guards.function_of()
        metas = [each.tensor._autograd for each in guards.tensors]
        grads = [None if meta is None else meta.grad for meta in metas]

        def is_changed() -> bool:
            with with_grads(metas, grads):
                return type(check(args, named)) is int

        with offset_after_which(self._code(), is_changed) as offsets:
            result = self._function(*args, **named)
        self._leave(reason, offsets[0] if offsets else None)
        return result

    def _leave(self, reason: Reason, offset: int | None = None) -> None:
        """Stop compiling: split the function at the statement of `offset` if possible, else run it eagerly."""
        if self._left is None:
            file, line = self._position(offset)
            self._left = reason = reason._replace(file=file, line=line)
            if self.settings.fullgraph:
                raise Unrecordable(reason, self._shown_name())
            if (offset is not None and self._cut_at(offset)) or (self._is_part and not self._specializations):
                return
            text = f"compile: {self._shown_name()} runs as it is: {reason.advice}"
            frame, level = sys._getframe(), 1
            while frame.f_back is not None and is_own(frame):
                frame, level = frame.f_back, level + 1
            warnings.warn(text, stacklevel=level)

    def _position(self, offset: int | None) -> tuple[str, int]:
        """Return the file and line of an instruction, or of the function's beginning."""
        code = self._code()
        if code is None:
            return "", 0
        line = None if offset is None else [*code.co_positions()][offset // 2][0]
        return code.co_filename, line or code.co_firstlineno

    def _cut_at(self, offset: int) -> bool:
        """Split the function at the statement of an instruction; return whether that was possible."""

        def compile_part(function: Any) -> CompiledFunction:
            part = CompiledFunction(function, *self.settings._replace(fullgraph=False))
            part._is_part = True
            self._parts.append(part)
            return part

        function = self._source()
        split = None if function is None or is_library(function.__globals__) else cut(function, offset, compile_part)
        if function is None or split is None:
            return False
        self._split = _code_of(function)
        owner = getattr(self._function, "__self__", self._function)
        if isinstance(owner, Module):
            self._instead = functools.partial(_call_module, owner, function, split, self._function)
        else:
            self._instead = split if owner is self._function else types.MethodType(split, owner)
        return True

    def _source(self) -> types.FunctionType | None:
        """Return the user's function: `forward` of a module, or the function of a method."""
        shown = self._user_function()
        function = getattr(shown, "forward", shown) if isinstance(shown, Module) else shown
        function = getattr(function, "__func__", function)
        return function if isinstance(function, types.FunctionType) else None

    def _code(self) -> types.CodeType | None:
        return getattr(self._source(), "__code__", None)

    def _name(self) -> str:
        """Return the name of the function, or of the module's class, for messages."""
        shown = self._user_function()
        return getattr(shown, "__qualname__", type(shown).__name__)

    def _shown_name(self) -> str:
        """Return the name of the function with its file and line."""
        return f"{self._name()}{self._line()}"

    def _user_function(self) -> Any:
        """Return the function as users know it: the module rather than its method."""
        function: Any = self._function
        owner = getattr(function, "__self__", None)
        return owner if isinstance(owner, Module) and function.__func__ is Module._call_impl else function

    def _line(self) -> str:
        """Return the file and line of the function, for messages."""
        shown = self._user_function()
        function = getattr(shown, "forward", shown)
        code = getattr(inspect.unwrap(function), "__code__", None)
        return "" if code is None else f" ({code.co_filename}:{code.co_firstlineno})"

    # -- programs with symbolic sizes --------------------------------------------------------------------------------

    def _with_symbols(self, args: _Args, named: _Named) -> Any:
        """Run a program with symbolic sizes; return its result in a 1-tuple, or None or an int if there is none.

        Errors during a capture with symbolic sizes are not raised: the function then has one program per size.
        """
        try:
            entry = self._symbolic_entry(args, named)
        except (Exception, symbolic_sizes.SizeEscapes) as error:
            is_expected = isinstance(error, (Unguardable, RecursionError, symbolic_sizes.SizeEscapes))
            self._static.append(str(error) if is_expected else f"{type(error).__name__}: {error}")
            return None
        return None if entry is None else entry.run(args, named)

    def _symbolic_entry(self, args: _Args, named: _Named) -> Specialization | None:
        """Return a specialization with symbolic sizes for a call, captured now if needed, or None."""
        has_room = len(self._specializations) < self._most
        entries = [entry for entry in self._specializations if entry.sizes is not None]
        for entry in entries:
            if entry.sizes.frequent(args, named):
                return None if has_room else entry
            if entry.sizes.admits(args, named):
                return entry
        tried, dynamic = len(self._static) + len(entries), self.settings.dynamic
        is_static = dynamic is False or (dynamic is None and not config.COMPILE_DYNAMIC)
        if is_static or tried >= _MOST_ATTEMPTS[dynamic] or not (self._specializations and has_room):
            return None
        with suspend_callbacks():
            result = self._find_symbolic(args, named)
        if result is not None:
            if self._verifier is not None:
                result = self._verifier.wrap_entry(result, self.visible_state(args, named))
            self._specializations.append(result)
        return result

    def _find_symbolic(self, args: _Args, named: _Named) -> Specialization | None:
        """Return a specialization with symbolic sizes, or None before sizes have changed often enough."""
        guards = self._guards(args, named, {})
        earlier = [entry.guards.shapes for entry in self._specializations]
        dims = {name: len(shape) for name, shape in guards.shapes.items()}
        earlier = [shapes for shapes in earlier if {name: len(shape) for name, shape in shapes.items()} == dims]
        symbols, tries = symbolic_sizes.symbols_between(guards.shapes, earlier)
        if not symbols or len({*map(str, earlier)}) < (1 if self.settings.dynamic else 2):
            return None
        # The function runs twice, so it must not do anything new, as it could if more than sizes differs from before.
        known = [entry.guards for entry in self._specializations if not entry.guards.varying]
        if not any(each.admits_other_sizes(args, named) for each in known):
            return None
        symbol_values = Symbols(tries[0])
        try:
            return self._symbolic_at(args, named, symbols, symbol_values)
        except symbolic_sizes.SizeEscapes:
            if not symbol_values.decided:
                raise
            return self._symbolic_at(args, named, symbols, Symbols(tries[1]))

    def _symbolic_at(self, args: _Args, named: _Named, symbols: Any, values: Symbols) -> Specialization:
        """Return a specialization captured with the given symbols, at the sizes in `values`."""
        guards = self._guards(args, named, symbols)
        if self._looks_at_types(guards):
            raise symbolic_sizes.SizeEscapes("the function looks at types, which sizes that are recorded do not have")
        if handles_end_of_capture(self._observed.users, self._observed.executed):
            raise symbolic_sizes.SizeEscapes("the function may handle the error that ends the capture of sizes")
        recorder, watch = symbolic_sizes.SymbolicRecorder(values), Watch()
        recorder.handled = self._observed.handled
        recorded = symbolic_sizes.SymbolicRun(recorder, guards, self._observed.reads_grads)
        try:
            recorded.run(late_bound(self._function), args, named, watch)
            entry = symbolic_sizes.SymbolicSpecializationWriter(recorded).entry(self.eager)
        except Exception as error:
            raise symbolic_sizes.SizeEscapes(str(error)) from error
        finally:
            recorded.restore()
        if watch.refused is not None or not self._knows(watch, guards):
            raise symbolic_sizes.SizeEscapes("the function does what it has not done before")
        if recorder.stopped is not None:
            raise symbolic_sizes.SizeEscapes(str(recorder.stopped))
        guards.forget()
        return entry

    def _looks_at_types(self, guards: Guards) -> bool:
        """Return whether user code may call ``type``, which would reveal that symbolic sizes are not ints."""
        calls_type = any("type" in code.co_names for code in self._observed.users)
        return self._observed.computed_names or calls_type or any(each is type for each in guards.scope.values())

    def _guards(self, args: _Args, named: _Named, symbols: Any, varying: frozenset[int | str] = frozenset()) -> Guards:
        """Return the guards of a call."""
        while True:
            guards = Guards(self._observed, self._observed.computed_names)
            guards.varying = varying
            self._visit_all(guards, args, named, symbols)
            if self._observed.computed_names or not guards.reads_by_name:
                return guards
            self._observed.computed_names = True

    def _guards_or_none(self, args: _Args, named: _Named, reason: Reason | None = None) -> Guards | None:
        """Return the guards of a call, or leave the function and return None if its state cannot be guarded.

        When the function runs afterwards, no exception is being handled, and its traceback keeps no objects alive.
        """
        try:
            return self._guards(args, named, {}, frozenset() if reason else self._varying)
        except (Unguardable, RecursionError) as error:
            why = getattr(error, "reason", Reason(Code.LIMIT, str(error)))
            self._leave(reason or why, self._observed.offset_of_backward if why.code is Code.HISTORY else None)
            return None

    def _visit_all(self, guards: Guards, args: _Args, named: _Named, symbols: dict[str, dict[int, str]]) -> None:
        guards.symbols = symbols
        guards.modes()
        guards.visit(self._function, guards.bind(self._function), "the function")
        guards.arguments(args, named)

    def visible_state(self, args: _Args, named: _Named) -> list[str]:
        """Return a description of all Python state that the function can see."""
        guards = Guards(self._observed, True)
        with suppress(Unguardable, RecursionError):
            self._visit_all(guards, args, named, {})
        return guards.texts

    def _note_floats(self, args: _Args, named: _Named) -> None:
        """Mark float arguments as varying if their value differs from earlier calls."""
        function, code = self._source(), self._code()
        hooks = isinstance(self._function, Module) and self._function._has_hooks()
        has_source = isinstance(self._function, (Module, types.MethodType, types.FunctionType))
        if code is None or self._floats is None or self.settings.fullgraph or hooks or not has_source:
            return
        floats = float_arguments(code, args, named, self._function is not function)
        changed = {key for key, value in floats.items() if self._floats.setdefault(key, value) != value}
        self._varying = (self._varying | changed) & floats.keys()

    def _capture(self, args: _Args, named: _Named, is_first: bool) -> Any:
        """Call the function, capture a program, and return the result.

        With `fullgraph`, the first call is captured to raise an error at what cannot be part of a program.
        """
        self._note_floats(args, named)
        guards = self._guards_or_none(args, named)
        if guards is None:
            return self._function(*args, **named)
        state = [] if self._verifier is None else self.visible_state(args, named)
        recorder, watch = Recorder(self.settings.fullgraph, is_first), Watch(self._code(), not is_first)
        input_tensors = all_tensors_in([*args, named])
        recorder.code, recorder.handled = self._code(), self._observed.handled
        recorded = RecordedRun(recorder, guards, self._observed.reads_grads, self.settings)
        profile = sys.getprofile()
        try:
            result = plain_numbers(recorded.run(late_bound(self._function), args, named, watch, self._varying))
        except BaseException as error:
            sys.setprofile(profile)
            recorder.restore()
            self._observed.add(watch)
            if isinstance(error, Unrecordable) and self.settings.fullgraph and recorder.stopped:
                self._left = recorder.stopped
            recorder.stopped = recorder.stopped or Reason(Code.ERROR, "an error is raised")
            recorded.end(None)
            shorten(error)
            raise
        is_complete = not is_first and self._knows(watch, guards)
        self._learn(watch)
        if self._is_part and not recorder.program.calls:
            self._leave(Reason(Code.UNSUPPORTED, "nothing in it is computed with arrays"))
        if self._left is not None or not is_complete:
            return result
        for code in watch.users - guards.codes:
            where = f"{code.co_filename}:{code.co_firstlineno}"
            text = f"{code.co_name} ({where}) is called, and found in a way that cannot be checked"
            recorded.script.refuse(Code.STATE, text)
        entry = SpecializationWriter(recorded).entry(self.eager) if recorder.stopped is None else None
        with with_grads([t._autograd for t in recorded.tensors], recorded.first_grads):
            failed = None if entry is None else entry.run(args, named, True)
        if type(failed) is int:
            recorded.script.refuse(Code.CHANGE, f"the function changes what it depends on: {guards.texts[failed]}")
        if [*map(id, input_tensors)] != [*map(id, all_tensors_in([*args, named]))]:
            text = "the function changes what it depends on: a tensor in a list or dict that it is given"
            recorded.script.refuse(Code.CHANGE, text)
        if entry is None or recorder.stopped is not None:
            if self._varying:
                self._varying, self._floats = frozenset(), None
            elif recorder.stopped is not None:
                self._stop(recorder.stopped, recorder.offset)
            return result
        self._specializations.insert(0, entry if self._verifier is None else self._verifier.wrap_entry(entry, state))
        guards.forget()
        return result

    # -- for readers ----------------------------------------------------------------------------------------------

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """Call the function until there is a program for these arguments, and return a description of it.

        The description lists the guards, the program before and after each pass, the fused calls and why others are
        not fused, the memory plan, the generated source, and side effects.
        """
        entry = self._specialize(args, kwargs)
        return self._describe_break() if entry is None else self._text(entry)

    def breaks(self) -> list[Reason]:
        """Return the graph breaks of the function and of its split functions."""
        return [*filter(None, [self._left]), *(each for part in self._parts for each in part.breaks())]

    def count_programs(self) -> int:
        """Return the number of programs, those of split functions included."""
        return len(self._specializations) + sum(part.count_programs() for part in self._parts)

    def _describe_break(self) -> str:
        """Return the text of `explain` for a function without a program for these arguments."""
        texts = [f"{'cut' if self._parts else 'no program'}: {self._left}"]
        for each in self._parts:
            text = each._text(each._specializations[0]) if each._specializations else each._describe_break()
            texts.append(f"part {each._line().strip()}:\n" + indent(text, "  "))
        return "\n".join(texts)

    def _text(self, entry: Specialization) -> str:
        """Return the text of `explain` for a specialization."""
        from gradcore.compiler.explanation import explain_program
        from gradcore.compiler.targets.cuda import graphs
        from gradcore.compiler.targets.native import hot_swap

        parts = ["guards:", *(f"  {each}" for each in entry.guards.checked_texts())]
        for name, program, run in zip(entry.names, entry.programs, entry.functions, strict=True):
            writer, writes = ("C++", hot_swap) if program.backend is None else ("CUDA", graphs)
            parts += [*explain_program(name, program), f"{writer} of the {name}:"]
            parts += [f"  {line}" for line in writes.describe(run)]
        parts += [f"sizes are no symbols: {each}" for each in dict.fromkeys(self._static)]
        parts += ["effects:", *(f"  {each}" for each in entry.effects)] if entry.effects else []
        return "\n".join(parts)

    def _specialize(self, args: _Args, named: _Named) -> Specialization | None:
        """Call the function until there is a specialization for these arguments; return it, or None."""
        for _ in range(3):
            self(*args, **named)
            for entry in self._specializations:
                if type(entry.guards.function_of()(args, named)) is not int:
                    return entry
        return None


def explain_calls(function: Callable[..., object], /, *args: object, **kwargs: object) -> Any:
    """Call a function until no new program or graph break appears, and return an `Explanation`."""
    from gradcore.compiler.explanation import Explanation

    compiled = CompiledFunction(function, cpp="0", verify=0)
    unchanged, last_counts = 0, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while unchanged < _LAST_CALLS:
            compiled(*args, **kwargs)
            counts = compiled.count_programs(), len(compiled.breaks())
            unchanged, last_counts = unchanged + 1 if counts == last_counts else 0, counts
    return Explanation(compiled.count_programs(), compiled.breaks())
