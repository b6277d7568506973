"""Shortened tracebacks, which show only the last of gradcore's own frames.

An error is shortened where it leaves gradcore, at the end of ``try: ... except`` in what users call, which costs
nothing as long as nothing is raised::

    except BaseException as error:
        shorten(error)
        raise

So it is short wherever it is shown: in scripts, notebooks, tests, logs and other threads. All frames of user code stay,
including those called by gradcore (hooks, ``forward`` of modules).
"""

from __future__ import annotations

import functools
import linecache
import os
import sys
import weakref
from collections.abc import Callable, Iterable
from itertools import count
from traceback import walk_tb
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any, TypeVar, cast

from gradcore.core import config

__all__ = [
    "ALLOCATORS",
    "ShortErrors",
    "define",
    "generated_file",
    "is_own",
    "is_raised_by_user",
    "line_name",
    "shorten",
    "shorten_errors",
    "user_frame",
    "user_line",
]

#: Modules whose frames are left out if gradcore has called them.
LIBRARIES = {"numpy", "scipy", "cupy", "cupyx", "cupy_backends", *sys.stdlib_module_names} - {"__main__"}

#: Functions that return the allocator of a library in this thread, which may be a function of another package.
ALLOCATORS: list[Callable[[], object]] = []


def is_own(frame: FrameType) -> bool:
    """Return whether `frame` runs code of gradcore, generated code included."""
    module = str(frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] == "gradcore" or frame.f_code.co_filename.startswith("<gradcore")


def user_frame() -> FrameType:
    """Return the innermost frame of the user's program."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_own(frame):
        frame = frame.f_back
    return frame


def user_line() -> str:
    """Return the file and line of the user's program that is running."""
    frame = user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name}"


def shorten(error: BaseException) -> None:
    """Remove gradcore's frames, except the last, from the tracebacks of an error and of its causes.

    The frames that stay are the one that raised the error, and ``forward`` of the module in which it was raised.
    """
    if config.get_traceback() == "full":
        return
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        if each.__traceback__ is not None:
            each.__traceback__ = _shorten_traceback(each.__traceback__)
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)


_F = TypeVar("_F", bound=Callable[..., Any])


def shorten_errors(function: _F) -> _F:
    """Decorate a function so that its errors have short tracebacks.

    This costs one more Python call, so use it for functions that are rarely called.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            shorten(error)
            raise

    return cast(_F, call)


class ShortErrors:
    """Base of classes whose constructors raise errors with short tracebacks."""

    __slots__ = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls) and cls.__module__.startswith("gradcore."):
            cls.__init__ = shorten_errors(cls.__init__)  # type: ignore[method-assign]


def is_raised_by_user(error: BaseException) -> bool:
    """Return whether user code raised `error`, for example a hook, and neither gradcore nor a library that it calls.

    An allocator of `ALLOCATORS` counts as a part of the library that calls it.
    """
    if error.__traceback__ is None or _split_traceback(error.__traceback__)[1]:
        return False
    codes = {_code_of(get_allocator()) for get_allocator in ALLOCATORS}
    return not any(frame.f_code in codes for frame, _ in walk_tb(error.__traceback__))


def _code_of(function: object) -> CodeType | None:
    """Return the code of a function, a method or a callable object; None if it is not written in Python."""
    for each in (function, getattr(function, "__func__", None), type(function).__call__):
        if isinstance(code := getattr(each, "__code__", None), CodeType):
            return code
    return None


def _split_traceback(traceback: TracebackType) -> tuple[list[TracebackType], list[TracebackType]]:
    """Return the entries of frames to show to users, and those of gradcore's frames since the last user frame."""
    shown_entries: list[TracebackType] = []
    own_entries: list[TracebackType] = []
    next_entry: TracebackType | None = traceback
    while next_entry is not None:
        entry, next_entry = next_entry, next_entry.tb_next
        if is_own(entry.tb_frame):
            own_entries.append(entry)
        elif not own_entries or str(entry.tb_frame.f_globals.get("__name__", "")).partition(".")[0] not in LIBRARIES:
            shown_entries.append(entry)
            own_entries.clear()
    return shown_entries, own_entries


def _shorten_traceback(traceback: TracebackType) -> TracebackType:
    """Return a traceback with user frames only, and with the frames that `_telling` keeps."""
    shown_entries, own_entries = _split_traceback(traceback)
    result: TracebackType | None = None
    for entry in reversed([*shown_entries, *_telling(own_entries)]):
        result = TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result or traceback


def _telling(frames: list[TracebackType]) -> list[TracebackType]:
    """Return the entries that stay: the one that raised the error, and ``forward`` of the innermost module."""
    modules = [entry for entry in frames[:-1] if _is_forward(entry.tb_frame)]
    return [*modules[-1:], *frames[-1:]]


def _is_forward(frame: FrameType) -> bool:
    return frame.f_code.co_name == "forward" and str(frame.f_globals.get("__name__")).startswith("gradcore.nn.")


def line_name(filename: str, line: int) -> str:
    """Return the name of a source file to show to users: its path, or the cell of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    label = getattr(getattr(shell, "compile", None), "format_code_name", lambda name: None)(filename)
    if label is None:
        return f"{os.path.basename(filename)}:{line}"
    return f"{label[1].replace('[', ' [')}, line {line}"


_numbers = count()
#: Weak references to the code of generated functions, by file name.
_generated_code: dict[str, weakref.ref[CodeType]] = {}


def generated_file(module: str, text: str) -> str:
    """Return a file name for code that `module` generated.

    Debuggers, `inspect` and tracebacks find the source text under it.
    """
    name = f"<{module}-{next(_numbers)}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    return name


def define(module: str, name: str, lines: Iterable[str], scope: dict[str, object]) -> FunctionType:
    """Return the function `name` that `module` generated as source `lines`, of which all but the first are its body."""
    text = "\n    ".join(lines)
    file = generated_file(module, text)
    exec(compile(text, file, "exec"), scope)
    function = cast("FunctionType", scope[name])
    texts, references = linecache.cache, _generated_code

    def forget(_: object) -> None:
        texts.pop(file, None)
        del references[file]

    # The text is of no use without the code. Tracebacks keep the code alive.
    references[file] = weakref.ref(function.__code__, forget)
    return function
