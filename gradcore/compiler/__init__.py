"""``torch.compile`` for gradcore: capture the array calls of a function once, then run them without its Python code.

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
from gradcore.compiler.capture.reasons import Code
from gradcore.compiler.capture.watch import left_out
from gradcore.compiler.function import CompiledFunction, choose_stance, explain_calls, reset
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

#: Values of the option ``cpp``, and the setting of `CompiledFunction` that each stands for.
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
        The function or module to compile. If it is omitted, a decorator is returned.
    fullgraph : bool
        Whether to raise an error if the function cannot be captured as a whole. By default, the function is split at
        the statement that cannot be captured, or runs eagerly with a warning that gives the reason.
    dynamic : bool, optional
        When to capture one program with symbolic sizes for a dim whose size changes: at its second size if True, at
        its third size by default, never if False. A function has at most 8 programs, or 64 if `dynamic` is True.
        Functions that need the size as a plain int keep one program per size.
    backend, mode : str, optional
        PyTorch's names. Backends have no effect; modes decide whether programs on CUDA become CUDA graphs.
    options : dict, optional
        ``"cpp"``: whether to compile programs as C++. True (default) builds in the background, ``"wait"`` makes the
        call wait for the build, and False uses no C++. ``"triton.cudagraphs"``: whether programs on CUDA become CUDA
        graphs. Other options of PyTorch have no effect.
    disable : bool
        Return `model` unchanged.
    verify : int, optional
        Compare every `verify`-th call of a program with eager execution, and raise `VerificationError` if they differ;
        0 turns this off. The default is the environment variable ``GRADCORE_COMPILE_VERIFY``.

    Returns
    -------
    callable
        The compiled function. For a module, a module that shares its parameters, buffers and attributes.

    Raises
    ------
    TypeError
        If `model` is not callable.
    RuntimeError
        If `backend`, `mode` or an option does not exist.

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
        The arguments of `CompiledFunction` after `function`.
    """
    if isinstance(module, _Compiled):
        return module
    compiled_module: Any = object.__new__(_class_of(module.__class__))
    object.__setattr__(compiled_module, "__dict__", vars(module))
    _Compiled._orig_mod.__set__(compiled_module, module)  # type: ignore[attr-defined]
    compiled = CompiledFunction(module, *settings)
    _Compiled._compiled_call_impl.__set__(compiled_module, compiled)  # type: ignore[attr-defined]
    return compiled_module


class _Compiled:
    """Base class of compiled modules: it stores what a compiled module does not share with the original module."""

    __slots__ = ("_compiled_call_impl", "_orig_mod")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled_call_impl(*args, **kwargs)  # type: ignore[attr-defined]

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
    """Return the function unchanged, or a decorator that does so if `fn` is None."""
    return _return_function if fn is None else fn


def substitute_in_graph(original_fn: Any, **settings: Any) -> Callable[[_Function], _Function]:
    """Return a decorator that returns the function unchanged: compiled functions call `original_fn` as written."""
    return _return_function


def is_compiling() -> bool:
    """Return whether a compiled function runs in this thread, whether or not the call is captured.

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


def explain(f: Callable[..., object], *extra_args: object, **extra_named: object) -> Any:
    """Return a function that calls `f` until no new program or graph break appears, and returns a description.

    `f` is called several times, so its side effects are repeated. The programs are discarded.

    Parameters
    ----------
    f : callable
        A function or module, compiled or not.
    *extra_args, **extra_named
        Arguments for `f`. If any are passed, the description is returned directly.

    Returns
    -------
    callable or Explanation
        The description has ``graph_count``, ``graph_break_count`` and ``break_reasons``: for each statement that cannot
        be captured its ``reason``, ``file``, ``line``, ``remedy`` and ``code``. Its text lists them.

    Examples
    --------
    >>> import gradcore as gc
    >>> explanation = gc.compiler.explain(lambda x: x * 2)(gc.ones(1))
    >>> explanation.graph_count, explanation.graph_break_count
    (1, 0)
    """
    if extra_args or extra_named:
        return explain(f)(*extra_args, **extra_named)
    compiled = (isinstance(f, Module) and f._compiled_call_impl) or f
    return functools.partial(explain_calls, getattr(compiled, "_function", compiled))


def graph_break(msg: str = "") -> None:
    """End the capture here: the compiled function is split at the statement that calls this function."""
    if current.recorder is not None:
        current.recorder.stop(Code.BREAK, msg or "graph_break() is called")


def cudagraph_mark_step_begin() -> None:
    """Do nothing: the function exists for compatibility with PyTorch."""


def mark_dynamic(t: Any, index: Any, **bounds: Any) -> None:
    """Do nothing: sizes may change from call to call."""


maybe_mark_dynamic = mark_static = mark_dynamic


class set_stance(contextlib.ContextDecorator):
    """Context manager, decorator or call that chooses what compiled functions do.

    Parameters
    ----------
    stance : str
        - ``"default"``, ``"eager_then_compile"``, ``"aot_eager_then_compile"``: capture a program in the second call.
        - ``"force_eager"``: run eagerly.
        - ``"eager_on_recompile"``: run eagerly if no program exists for the arguments.
        - ``"fail_on_recompile"``: raise an error if no program exists for the arguments.
    skip_guard_eval_unsafe : bool
        Accepted for compatibility with PyTorch. Guards are always checked.
    force_backend : str, optional
        Accepted for compatibility with PyTorch. Backends have no effect.

    Raises
    ------
    RuntimeError
        If `stance` does not exist; and in calls without a program while the stance is ``"fail_on_recompile"``.

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
