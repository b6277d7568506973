"""``torch.compile`` and what goes with it: a function's array calls, recorded once and run without Python between them.

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
from collections.abc import Callable
from typing import Any, TypeVar

from gradcore import paths
from gradcore.compiler.arrays import current
from gradcore.compiler.compiled import CompiledFunction, choose_stance, forget_programs
from gradcore.compiler.modules import compiled_module
from gradcore.compiler.settings import BACKENDS, STANCES, check_settings, graphs_of
from gradcore.compiler.watching import left_out
from gradcore.nn.module import Module

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "graph_break",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "maybe_mark_dynamic",
    "nested_compile_region",
    "reset",
    "set_stance",
    "substitute_in_graph",
]

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
) -> Any:
    """A function or module whose calls are recorded, and from then on run as programs of array calls.

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
        settings: Any = {"dynamic": dynamic, "backend": backend, "mode": mode, "options": options}
        return lambda given: compile(given, fullgraph=fullgraph, disable=disable, **settings)
    check_settings(dynamic, backend, mode, options)
    cpp = _CPP[(options or {}).get("cpp")]
    if not callable(model):
        raise TypeError(f"compile(): model must be a module or a function, not {type(model).__name__}")
    if disable or isinstance(model, (CompiledFunction, type)):
        return model
    make = compiled_module if isinstance(model, Module) else CompiledFunction
    return make(model, fullgraph, cpp, dynamic, graphs_of(mode, options))


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function itself, or a decorator that gives it back: compiled functions are cut where they call it."""
    if fn is None:
        return disable
    left_out.add(getattr(getattr(fn, "forward", fn), "__code__", None))
    return fn


def _unchanged(fn: _Function) -> _Function:
    """The function itself."""
    return fn


allow_in_graph = assume_constant_result = _unchanged


def nested_compile_region(fn: Any = None, **settings: Any) -> Any:
    """The function itself, or a decorator that gives it back."""
    return _unchanged if fn is None else fn


def substitute_in_graph(original_fn: Any, **settings: Any) -> Callable[[_Function], _Function]:
    """A decorator that gives back the function: `original_fn` is called where it is written."""
    return _unchanged


def is_compiling() -> bool:
    """Whether this thread records a compiled function."""
    return current.recorder is not None


is_dynamo_compiling = is_exporting = is_compiling


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """The names that `compile` takes as its backend; all are the same."""
    return [*BACKENDS]


def reset() -> None:
    """Forget all programs: compiled functions are recorded anew."""
    forget_programs()


def graph_break(msg: str = "") -> None:
    """End the recording here: the compiled function is cut at the statement that calls this."""
    if current.recorder is not None:
        current.recorder.stop(msg or "graph_break() is called")


def cudagraph_mark_step_begin() -> None:
    """Nothing: CUDA graphs are recorded by `gradcore.cuda.graph`, where a program says so."""


def mark_dynamic(t: Any, index: Any, **bounds: Any) -> None:
    """Nothing: sizes may change from call to call."""


maybe_mark_dynamic = mark_static = mark_dynamic


class set_stance(contextlib.ContextDecorator):
    """Choose what compiled functions do, from now on; as a context or a decorator, as long as that runs.

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
