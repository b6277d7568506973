"""Which code a function runs, and whether it does something that a program of array calls would leave out."""

from __future__ import annotations

import dis
import gc
import sys
import types
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from gradcore.autograd.gradients import backward
from gradcore.autograd.graph import get_gradient_edge
from gradcore.autograd.node import Node
from gradcore.compiler.host_calls import host_codes
from gradcore.compiler.scopes import IMPURE_MODULES, backend_packages, is_library
from gradcore.compiler.sources import line_in
from gradcore.cuda import graphs, streams
from gradcore.layouts import rows_with_sparse_gradient
from gradcore.tensor import Tensor

__all__ = ["FACTS", "Watch", "garbage_waits", "handled", "left_out", "line_after_which"]

#: Code that is not to be part of a program: sparse gradients are no arrays.
left_out: set[Any] = {rows_with_sparse_gradient.__code__}
#: Functions by which users choose streams, and wait for them: a program is in one.
_OF_STREAMS = frozenset(
    function.__code__
    for cls in (streams.Stream, streams.Event, streams.StreamContext, graphs.CUDAGraph)
    for function in (streams.set_stream, *vars(cls).values())
    if isinstance(function, types.FunctionType)
)

#: What tensors say of themselves beside what guards check in any case: the code that says it, and the expression that
#: guards compare; None for what leads to other tensors or nodes, of which not all can be checked.
FACTS: dict[Any, str | None] = {
    **{Tensor.__dict__[name].fget.__code__: f"{{}}.{name}" for name in ("_version", "output_nr", "retains_grad")},
    Tensor.storage_offset.__code__: "{}.storage_offset()",
    **{Tensor.__dict__[name].fget.__code__: None for name in ("_backward_hooks", "_base", "_grad_fn", "grad_fn")},
    Node.__dict__["next_functions"].fget.__code__: None,
    get_gradient_edge.__code__: None,
}

#: Functions written in C that users may call: what they give depends on their arguments alone.
_MODULES = frozenset(
    ["builtins", "math", "cmath", "_operator", "itertools", "_functools", "_collections", "_abc", "_typing"]
)
_EFFECTS = frozenset(
    [
        "print",
        "open",
        "input",
        "eval",
        "exec",
        "compile",
        "globals",
        "locals",
        "vars",
        "dir",
        "id",
        "hash",
        "breakpoint",
        "__import__",
        "next",
    ]
)
#: What reads or sets attributes by names that the code may have computed.
_BY_NAME = frozenset(
    ["__dict__", "__getattribute__", "attrgetter", "delattr", "getattr", "hasattr", "methodcaller", "setattr", "vars"]
)
_METHODS_OF = (list, dict, tuple, str, bytes, set, frozenset, int, float, complex, range, type, types.GeneratorType)
_IMPURE_FILES = IMPURE_MODULES | {"warnings"}


def handled(codes: Collection[types.CodeType]) -> dict[types.CodeType, list[tuple[int, int]]]:
    """By code, the offsets between which the errors of instructions may be caught."""
    suppressing = any(code.co_name == "__exit__" for code in codes)
    found: dict[types.CodeType, list[tuple[int, int]]] = {}
    for code in codes:
        if not code.co_exceptiontable:
            continue
        names = {each.offset: each.opname for each in dis.get_instructions(code)}
        after = dict(zip(names, [*names.values()][1:], strict=False))
        bytecode: Any = dis.Bytecode(code)
        for entry in bytecode.exception_entries:
            catches = names.get(entry.target) == "PUSH_EXC_INFO"
            if catches and (suppressing or after.get(entry.target) != "WITH_EXCEPT_START"):
                found.setdefault(code, []).append((entry.start, entry.end))
    return found


@contextmanager
def line_after_which(code: types.CodeType | None, is_so: Callable[[], bool]) -> Iterator[list[int]]:
    """Context that finds the line of a function after which something is so, in the outermost call of it.

    Yields
    ------
    list of int
        That line, once it has run; empty if there is none.
    """
    found: list[int] = []
    before: list[int] = []
    running: list[types.FrameType] = []

    def line(frame: types.FrameType, event: str, arg: Any) -> Any:
        sys.settrace(None)
        if not found and event in ("line", "return"):
            if before and is_so():
                found.append(before[0])
            before[:] = [frame.f_lineno]
        sys.settrace(call)
        return line

    def call(frame: types.FrameType, event: str, arg: Any) -> Any:
        if frame.f_code is not code or running:
            return None
        running.append(frame)
        return line

    outside = sys.gettrace()
    sys.settrace(call)
    try:
        yield found
    finally:
        sys.settrace(outside)


@contextmanager
def garbage_waits() -> Iterator[None]:
    """Context in which no garbage is collected, so that nobody's callbacks run, nor is what is recorded searched."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class Watch:
    """What ran while this was on.

    Parameters
    ----------
    code : code, optional
        Of the function that is watched.
    with_host_calls : bool
        Whether to look into host calls, which are no part of programs.

    Attributes
    ----------
    executed, user_codes : set of code
        All code that ran, and that of it which is no library's.
    facts : set of code
        That of `FACTS` which code of the user's has called.
    computed_names : bool
        Whether attributes were read by names that the code does not contain.
    refused : str or None
        What would be left out, or would be another in each call.
    line : int or None
        Where in the function that is watched this was, if that is known.
    line_of_backward : int or None
        Where in that function derivatives were first computed.
    """

    def __init__(self, code: types.CodeType | None = None, with_host_calls: bool = True) -> None:
        self.code = code
        self._skipped = frozenset[types.CodeType]() if with_host_calls else host_codes()
        #: The code that was seen, by its id as the hash of code takes microseconds, and what calls of it are.
        self._seen: dict[int, tuple[types.CodeType, str]] = {}
        self._backends = backend_packages()
        self.executed: set[types.CodeType] = set()
        self.user_codes: set[types.CodeType] = set()
        #: The code of `FACTS` that the user's code has called.
        self.facts: set[types.CodeType] = set()
        self.computed_names = False
        self.refused: str | None = None
        self.line: int | None = None
        self.line_of_backward: int | None = None

    @contextmanager
    def on(self) -> Iterator[None]:
        """Context in which this thread is watched."""
        before = sys.getprofile()
        with garbage_waits():
            sys.setprofile(self._sees())
            try:
                yield
            finally:
                sys.setprofile(before)

    def _sees(self) -> Callable[[types.FrameType, str, Any], None]:
        """The function that is called for each event of this thread."""
        seen, unseen = self._seen, (None, "")
        opaque: types.FrameType | None = None

        def event(frame: types.FrameType, event: str, arg: Any) -> None:
            nonlocal opaque
            if event == "call":
                if opaque is not None:
                    return
                kind = seen.get(id(frame.f_code), unseen)[1] or self._kind_of(frame)
                if kind == "library":
                    return
                if kind == "skipped":  # a host call, or a function of a backend's packages: it is not looked into
                    opaque = frame
                elif kind == "fact" and not self._within_library(frame):
                    self.facts.add(frame.f_code)
            elif event == "c_call":
                if opaque is None and seen.get(id(frame.f_code), unseen)[1] == "user":
                    self._called(arg, frame)
            elif frame is opaque and event == "return":
                opaque = None

        return event

    def _kind_of(self, frame: types.FrameType) -> str:
        """Whether code that runs for the first time is skipped, the user's, a library's, or one of `FACTS`."""
        code, kind = frame.f_code, "library"
        if code in self._skipped or str(frame.f_globals.get("__name__")).startswith(self._backends):
            kind = "skipped"
        else:
            self.executed.add(code)
            if code is backward.__code__:
                self.line_of_backward = line_in(self.code)
            if code in left_out:
                self._refuse(f"{code.co_name} is not to be compiled", frame)
            if code in _OF_STREAMS and not self._within_library(frame):
                self._refuse(f"{code.co_qualname} is called", frame)
            root = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            if root in _IMPURE_FILES and not self._within_library(frame):
                self._refuse(f"{root}.{code.co_name} is called", frame)
            generated = "__name__" not in frame.f_globals and self._within_library(frame)
            if not (is_library(frame.f_globals) or generated or code.co_filename.startswith("<gradcore")):
                self.user_codes.add(code)
                self.computed_names |= not _BY_NAME.isdisjoint(code.co_names)
                kind = "user"
            elif code in FACTS:
                kind = "fact"
        self._seen[id(code)] = code, kind
        return kind

    def _within_library(self, frame: types.FrameType) -> bool:
        """Whether a library, not the user, has called."""
        return frame.f_back is not None and is_library(frame.f_back.f_globals)

    def _called(self, function: Any, frame: types.FrameType) -> None:
        owner, name = getattr(function, "__self__", None), function.__name__
        if isinstance(owner, types.ModuleType):
            self.computed_names |= name in _BY_NAME
            module = owner.__name__
            pure = (module in _MODULES and name not in _EFFECTS) or (
                module.startswith("numpy") and "random" not in module
            )
        elif owner is None:
            pure = str(getattr(function, "__module__", None) or "builtins").partition(".")[0] in (*_MODULES, "numpy")
        else:
            pure = isinstance(owner, _METHODS_OF)
        if not pure:
            self._refuse(f"{name} is called", frame)

    def _refuse(self, what: str, frame: types.FrameType) -> None:
        if self.refused is None:
            self.line = line_in(self.code)
            while frame.f_back is not None and is_library(frame.f_globals):
                frame = frame.f_back
            self.refused = f"{what} ({frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name})"
