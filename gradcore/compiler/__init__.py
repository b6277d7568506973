"""``torch.compile`` for gradcore: capture the array calls of a function once, then run them without the Python between.

See :doc:`/compile`.

Examples
--------
>>> import gradcore
>>> @gradcore.compile
... def double(x):
...     return 2 * x
>>> double(gradcore.ones(2))
tensor([2., 2.])
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from gradcore.compiler.capture.arrays import current
from gradcore.compiler.capture.watch import left_out
from gradcore.compiler.function import CompiledFunction, choose_stance, explain_calls, forget_programs
from gradcore.compiler.settings import BACKENDS, STANCES, check_settings, graphs_of
from gradcore.compiler.verification import VerificationError
from gradcore.nn.module import Module
from gradcore.torch_names import paths

__all__ = [
    "VerificationError", "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin",
    "disable", "explain", "graph_break", "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends",
    "mark_dynamic", "mark_static", "maybe_mark_dynamic", "nested_compile_region", "reset", "set_stance",
    "substitute_in_graph",
]  # fmt: skip

#: What the option ``cpp`` may be.
_CPP: dict[Any, Any] = {None: None, True: "background", "wait": "wait", False: "0"}
_Function = TypeVar("_Function", bound=Callable[..., Any])


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    verify: int | None = None,
) -> Any:
    """Return a compiled function or module: its array calls are captured once and then run as a program.

    Parameters
    ----------
    model : callable, optional
        Without one, a decorator is returned.
    fullgraph : bool
        Whether it is an error if the function cannot be recorded as a whole. Else it is cut where that ends, or runs as
        it is, with a warning that says why.
    dynamic : bool, optional
        Whether sizes that change become symbols of one program, as far as all that is computed follows from them: the
        second time that a dim has another size if True, the third time by default, never if False. With True there may
        be 64 programs rather than 8.
    backend, mode : str, optional
        PyTorch's names; they change nothing.
    options : dict, optional
        ``"cpp"``: whether programs become C++, built in the background (True, by default), while a program is made
        (``"wait"``), or not at all (False). Others change nothing.
    disable : bool
        Give back the function or module itself.
    verify : int, optional
        Compare every so manieth call of a program with eager execution, and raise `VerificationError` if they differ;
        0 for none. The default is the environment variable ``GRADCORE_COMPILE_VERIFY``.

    Returns
    -------
    callable
        Of a module, one that shares its parameters, buffers and attributes.

    Raises
    ------
    TypeError
        For what cannot be called.
    RuntimeError
        For backends, modes and options that there are not.

    Examples
    --------
    >>> import gradcore
    >>> step = gradcore.compile(lambda x: (x * x).sum())
    >>> x = gradcore.ones(3, requires_grad=True)
    >>> for _ in range(3):
    ...     step(x).backward()
    >>> x.grad
    tensor([6., 6., 6.])
    """
    if model is None:
        settings: Any = {"dynamic": dynamic, "backend": backend, "mode": mode, "options": options, "verify": verify}
        return lambda given: compile(given, fullgraph=fullgraph, disable=disable, **settings)
    check_settings(dynamic, backend, mode, options, verify)
    cpp = _CPP[(options or {}).get("cpp")]
    if not callable(model):
        raise TypeError(f"compile(): model must be a module or a function, not {type(model).__name__}")
    if disable or isinstance(model, (CompiledFunction, type)):
        return model
    make = _compile_module if isinstance(model, Module) else CompiledFunction
    return make(model, fullgraph, cpp, dynamic, graphs_of(mode, options), verify)


def _compile_module(module: Any, *settings: Any) -> Any:
    """Return a compiled module that shares the attributes of `module`, parameters and buffers included.

    Parameters
    ----------
    module : Module
    *settings
        Those of `CompiledFunction`.
    """
    if isinstance(module, _Compiled):
        return module
    other: Any = object.__new__(_class_of(module.__class__))
    object.__setattr__(other, "__dict__", vars(module))
    _Compiled._orig_mod.__set__(other, module)  # type: ignore[attr-defined]
    compiled = CompiledFunction(module, *settings)
    _Compiled._compiled_call_impl.__set__(other, compiled)  # type: ignore[attr-defined]
    return other


class _Compiled:
    """The attributes of a compiled module that are not those of the module it was made of."""

    __slots__ = ("_compiled_call_impl", "_orig_mod")

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._compiled_call_impl(*args, **named)  # type: ignore[attr-defined]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _compile_module, (self._orig_mod, *self._compiled_call_impl.settings)  # type: ignore[attr-defined]


@functools.cache
def _class_of(cls: Any) -> Any:
    return type(cls.__name__, (_Compiled, cls), {"__module__": cls.__module__, "__doc__": cls.__doc__})


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return the function itself, marked so that compiled functions have a graph break where they call it."""
    if fn is None:
        return disable
    left_out.add(getattr(getattr(fn, "forward", fn), "__code__", None))
    return fn


def _return_function(fn: _Function) -> _Function:
    """Return the function itself."""
    return fn


allow_in_graph = assume_constant_result = _return_function


def nested_compile_region(fn: Any = None, **settings: Any) -> Any:
    """Return the function itself, or a decorator that gives it back."""
    return _return_function if fn is None else fn


def substitute_in_graph(original_fn: Any, **settings: Any) -> Callable[[_Function], _Function]:
    """Return a decorator that returns the function unchanged: compiled functions call `original_fn` as written."""
    return _return_function


def is_compiling() -> bool:
    """Return whether a compiled function runs in this thread, in captured and all other calls alike.

    False within functions that are marked with `disable`, and under ``set_stance("force_eager")``.
    """
    frame = sys._getframe(1) if current.is_compiling else None
    while frame is not None and frame.f_code not in left_out:
        frame = frame.f_back
    return current.is_compiling and frame is None


is_dynamo_compiling = is_exporting = is_compiling


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """Return the names that `compile` accepts as its backend; all have the same effect."""
    return [*BACKENDS]


def reset() -> None:
    """Forget all programs: compiled functions are captured anew."""
    forget_programs()


def explain(f: Callable[..., object], *extra_args: object, **extra_named: object) -> Any:
    """Return a function that calls `f` until nothing more of it is compiled, and describes the outcome.

    `f` is called several times, and so are its effects; what is made of it is thrown away.

    Parameters
    ----------
    f : callable
        A function or module, compiled or not.
    *extra_args, **extra_named
        If there are any, `f` is called with them, and the description is returned at once.

    Returns
    -------
    callable or Explanation
        The description has ``graph_count``, ``graph_break_count`` and ``break_reasons``: for each statement that cannot
        be captured its ``reason``, ``file``, ``line`` and ``remedy``. Its text lists them.

    Examples
    --------
    >>> import gradcore as gc
    >>> found = gc.compiler.explain(lambda x: x * 2)(gc.ones(1))
    >>> found.graph_count, found.graph_break_count
    (1, 0)
    """
    if extra_args or extra_named:
        return explain(f)(*extra_args, **extra_named)
    compiled = (isinstance(f, Module) and f._compiled_call_impl) or f
    return functools.partial(explain_calls, getattr(compiled, "_function", compiled))


def graph_break(msg: str = "") -> None:
    """End the capture here: the compiled function is split at the statement that calls this function."""
    if current.recorder is not None:
        current.recorder.stop(msg or "graph_break() is called")


def cudagraph_mark_step_begin() -> None:
    """Do nothing: CUDA graphs are captured by `gradcore.cuda.graph`, where the caller says so."""


def mark_dynamic(t: Any, index: Any, **bounds: Any) -> None:
    """Do nothing: sizes may change from call to call."""


maybe_mark_dynamic = mark_static = mark_dynamic


class set_stance(contextlib.ContextDecorator):
    """Context manager, decorator or call that chooses what compiled functions do.

    Parameters
    ----------
    stance : str
        - ``"default"``, ``"eager_then_compile"``, ``"aot_eager_then_compile"``: they are recorded, in the second call.
        - ``"force_eager"``: they run as they are.
        - ``"eager_on_recompile"``: where there is no program for the arguments, they run as they are.
        - ``"fail_on_recompile"``: where there is none, that is an error.
    skip_guard_eval_unsafe : bool
        Accepted: guards are always checked.
    force_backend : str, optional
        Accepted: all backends are the same.

    Raises
    ------
    RuntimeError
        For another stance, and in calls for which ``"fail_on_recompile"`` is chosen.

    Examples
    --------
    >>> import gradcore
    >>> double = gradcore.compile(lambda x: x * 2)
    >>> with gradcore.compiler.set_stance("fail_on_recompile"):
    ...     double(gradcore.ones(1))
    Traceback (most recent call last):
    ...
    RuntimeError: Detected recompile when compile's stance is 'fail_on_recompile': <lambda> ...
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        if stance not in STANCES:
            raise RuntimeError(f"invalid compile stance {stance!r}, should be one of: {', '.join(STANCES)}")
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        check_settings(None, force_backend, None, None)
        self.stance, self.before = stance, choose_stance(stance)

    def __call__(self, func: _Function) -> _Function:
        choose_stance(self.before)
        return super().__call__(func)

    def __enter__(self) -> None:
        choose_stance(self.stance)

    def __exit__(self, *error: object) -> None:
        choose_stance(self.before)


paths.show_public(__name__)
