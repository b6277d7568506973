"""Calls of modules: forward, with the hooks before and after it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from gradcore.core.tracebacks import shorten
from gradcore.nn.backward_hooks import BackwardHooks, watch_node
from gradcore.utils.hooks import RemovableHandle

__all__ = [
    "Calls",
    "register_module_backward_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
]


_Result = TypeVar("_Result", covariant=True)


class _Computing(Protocol[_Result]):
    """Protocol of objects that have a `forward`."""

    @property
    def forward(self) -> Callable[..., _Result]: ...


class Hook(NamedTuple):
    """A hook around forward, and the options with which it is called."""

    call: Callable[..., Any]
    with_kwargs: bool = False
    always: bool = False


Table = dict[int, Any]


class _Everywhere:
    """Hooks that apply to all modules."""

    forward_pre: Table = {}  # noqa: RUF012  (one table for the process)
    forward: Table = {}  # noqa: RUF012
    backward_pre: Table = {}  # noqa: RUF012
    backward: Table = {}  # noqa: RUF012
    full: bool | None = None


MIXED = "Cannot use both regular backward hooks and full backward hooks {where}. Please use only one of them."


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, args)`` before the forward of every module. The hook may return other arguments.

    Examples
    --------
    >>> import gradcore as gc
    >>> hook = gc.nn.modules.module.register_module_forward_pre_hook(lambda module, args: print(len(args)))
    >>> y = gc.nn.ReLU()(gc.ones(1))
    1
    >>> hook.remove()
    """
    return RemovableHandle(_Everywhere.forward_pre, Hook(hook))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after the forward of every module. The hook may return another output.

    Parameters
    ----------
    hook : callable
    with_kwargs : bool
        Call ``hook(module, args, kwargs, output)`` instead.
    always_call : bool
        Call it also if forward raises.

    Examples
    --------
    >>> import gradcore as gc
    >>> hook = gc.nn.modules.module.register_module_forward_hook(
    ...     lambda module, args, out: print(type(module).__name__)
    ... )
    >>> y = gc.nn.ReLU()(gc.ones(1))
    ReLU
    >>> hook.remove()
    """
    return RemovableHandle(_Everywhere.forward, Hook(hook, with_kwargs, always_call))


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` for every module once the gradients of its outputs are computed.

    Examples
    --------
    >>> import gradcore as gc
    >>> hook = gc.nn.modules.module.register_module_full_backward_pre_hook(
    ...     lambda module, grad_output: print(grad_output)
    ... )
    >>> gc.nn.ReLU()(gc.ones(1, requires_grad=True)).backward()
    (tensor([1.]),)
    >>> hook.remove()
    """
    return RemovableHandle(_Everywhere.backward_pre, hook)


def _everywhere(hook: Callable[..., Any], full: bool) -> RemovableHandle:
    if _Everywhere.full is (not full):
        raise RuntimeError(MIXED.format(where="as a global Module hook"))
    _Everywhere.full = full
    return RemovableHandle(_Everywhere.backward, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` for every module once the gradients of its inputs are computed.

    Examples
    --------
    >>> import gradcore as gc
    >>> hook = gc.nn.modules.module.register_module_full_backward_hook(
    ...     lambda module, grad_input, grad_output: print(grad_input)
    ... )
    >>> gc.nn.ReLU()(gc.ones(1, requires_grad=True)).backward()
    (tensor([1.]),)
    >>> hook.remove()
    """
    return _everywhere(hook, True)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Register the older form of `register_module_full_backward_hook`. The hook sees only the last node of forward."""
    return _everywhere(hook, False)


def find_forward_code(module: Calls) -> list[object]:
    """Return the forward hooks of a module, and what is called in the place of `forward` of its class."""
    own = [vars(module).get(name) for name in ("forward", "_compiled_call_impl")]
    tables = (module._forward_hooks, module._forward_pre_hooks, _Everywhere.forward, _Everywhere.forward_pre)
    return [each for each in own if each is not None] + [hook.call for table in tables for hook in table.values()]


class Calls:
    """Methods that call modules, with their hooks."""

    _forward_hooks: Table
    _forward_pre_hooks: Table
    _backward_hooks: Table
    _backward_pre_hooks: Table
    #: The kind of the registered backward hooks, or None if there are none.
    _is_full_backward_hook: bool | None
    #: The compiled function that calls run, after `Module.compile`.
    _compiled_call_impl: Any = None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the result of a call. Subclasses define it."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    if TYPE_CHECKING:  # what `forward` returns

        def __call__(self: _Computing[_Result], *args: Any, **kwargs: Any) -> _Result: ...

    else:

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            if self._compiled_call_impl is not None:
                return self._compiled_call_impl(*args, **kwargs)
            try:
                own = self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks
                everywhere = _Everywhere
                if (
                    own
                    or everywhere.forward
                    or everywhere.forward_pre
                    or everywhere.backward
                    or everywhere.backward_pre
                ):
                    return _Call(self, args, kwargs).run()
                return self.forward(*args, **kwargs)
            except BaseException as error:
                shorten(error)
                raise

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module with its hooks, without its compiled function."""
        return _Call(self, args, kwargs).run()

    def _has_hooks(self) -> bool:
        """Return whether a call has to run hooks besides `forward`."""
        own = self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks
        everywhere = _Everywhere
        return bool(
            own or everywhere.forward or everywhere.forward_pre or everywhere.backward or everywhere.backward_pre
        )

    # -- registering ----------------------------------------------------------------------------------------------

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after `forward`. The hook may return another output.

        Parameters
        ----------
        hook : callable
        prepend : bool
            Call it before the hooks that are there already.
        with_kwargs : bool
            Call ``hook(module, args, kwargs, output)`` instead.
        always_call : bool
            Call it also if `forward` raises.
        """
        return _register(self._forward_hooks, Hook(hook, with_kwargs, always_call), prepend)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before `forward`. The hook may return other arguments.

        Parameters
        ----------
        hook : callable
        prepend : bool
            Call it before the hooks that are there already.
        with_kwargs : bool
            Call ``hook(module, args, kwargs)`` instead, which may return a pair of both.
        """
        return _register(self._forward_pre_hooks, Hook(hook, with_kwargs), prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` once the gradients of the inputs are computed.

        The hook may return gradients that replace `grad_input`.
        """
        return self._register_backward(hook, True, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Register the older form of `register_full_backward_hook`. The hook sees only the last node of `forward`."""
        return self._register_backward(hook, False, False)

    def _register_backward(self, hook: Callable[..., Any], full: bool, prepend: bool) -> RemovableHandle:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(MIXED.format(where="on a single Module"))
        self._is_full_backward_hook = full
        return _register(self._backward_hooks, hook, prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` once the gradients of the outputs are computed.

        The hook may return gradients that replace them.
        """
        return _register(self._backward_pre_hooks, hook, prepend)


def _register(table: Table, hook: Any, prepend: bool) -> RemovableHandle:
    handle = RemovableHandle(table, hook)
    if prepend:
        earlier = {key: value for key, value in table.items() if key != handle.id}
        table.clear()
        table.update({handle.id: hook, **earlier})
    return handle


class _Call:
    """Call of a module that has hooks."""

    def __init__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.module, self.args, self.kwargs = module, args, kwargs
        self.result: Any = None
        self.done: set[int] = set()

    def run(self) -> Any:
        try:
            self.run_pre_hooks()
            watch = self.backward_hooks()
            args = self.args if watch is None else watch.inputs(self.args)
            self.args = args
            self.result = self.module.forward(*args, **self.kwargs)
            self.run_hooks()
            if watch is not None:
                self.result = watch.outputs(self.result)
            self.older_backward_hooks()
            return self.result
        except Exception:
            self.call_remaining()
            raise

    def run_pre_hooks(self) -> None:
        for hook in (*_Everywhere.forward_pre.values(), *self.module._forward_pre_hooks.values()):
            if hook.with_kwargs:
                result = hook.call(self.module, self.args, self.kwargs)
                if result is not None:
                    if not (isinstance(result, tuple) and len(result) == 2):
                        raise RuntimeError(
                            f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {result}."
                        )
                    self.args, self.kwargs = result
            else:
                result = hook.call(self.module, self.args)
                if result is not None:
                    self.args = result if isinstance(result, tuple) else (result,)

    def run_hooks(self) -> None:
        for key, hook in (*_Everywhere.forward.items(), *self.module._forward_hooks.items()):
            self.done.add(key)
            self.call(hook)

    def call(self, hook: Hook) -> None:
        named = (self.kwargs,) if hook.with_kwargs else ()
        replaced = hook.call(self.module, self.args, *named, self.result)
        self.result = self.result if replaced is None else replaced

    def call_remaining(self) -> None:
        """Call, after an error, the hooks with ``always_call=True`` that have not run yet."""
        for table, kind in ((_Everywhere.forward, "global module"), (self.module._forward_hooks, "module")):
            for key, hook in table.items():
                if hook.always and key not in self.done:
                    try:
                        self.call(hook)
                    except Exception as error:
                        warnings.warn(
                            f"{kind} forward hook with ``always_call=True`` raised an exception that was silenced as "
                            f"another error was raised in forward: {error}",
                            stacklevel=4,
                        )

    def backward_hooks(self) -> BackwardHooks | None:
        everywhere, module = _Everywhere, self.module
        hooks = [*everywhere.backward.values()] if everywhere.full else []
        hooks += module._backward_hooks.values() if module._is_full_backward_hook else ()
        before = [*everywhere.backward_pre.values(), *module._backward_pre_hooks.values()]
        return BackwardHooks(module, hooks, before) if hooks or before else None

    def older_backward_hooks(self) -> None:
        everywhere, module = _Everywhere, self.module
        hooks = [*everywhere.backward.values()] if everywhere.full is False else []
        hooks += module._backward_hooks.values() if module._is_full_backward_hook is False else ()
        if hooks:
            watch_node(module, hooks, self.args, self.result)
