"""Conversion of user functions that close over tensors into functions that take these tensors as arguments.

An operation such as the solution of an equation is differentiable with respect to its inputs only. A function that it
takes may also read tensors from its surroundings, for example the parameters of a module. They are found by running the
function once, and replaced by other tensors when it runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gradcore.autograd.forward import innermost_of
from gradcore.autograd.modes import GRAD, local
from gradcore.autograd.variables import tick
from gradcore.autograd.views import gradient_edge
from gradcore.tensor import Tensor, is_differentiated
from gradcore.torch_names.overrides import TorchFunctionMode
from gradcore.utils._pytree import tree_leaves, tree_map

__all__ = ["capture"]


class _Exchange(TorchFunctionMode):
    """Mode that collects the tensors with a history that a function reads, or replaces the collected ones.

    With `replacements`, reading any further tensor with a history raises a RuntimeError.
    """

    def __init__(self, own: Sequence[Any], replacements: dict[int, Tensor] | None) -> None:
        self.start, self.replacements = tick(), replacements
        self.levels = local.state.levels
        self.derived = {id(t): t for t in own}
        self.captured: dict[int, Tensor] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: tuple[type, ...], args: Any = (), kwargs: Any = None
    ) -> Any:
        args, kwargs = tree_map(self._look, (args, kwargs or {}))
        result = func(*args, **kwargs)
        self.derived.update((id(t), t) for t in tree_leaves(result) if isinstance(t, Tensor))
        return result

    def _look(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or id(value) in self.derived:
            return value
        if self.replacements is not None and id(value) in self.replacements:
            return self.replacements[id(value)]
        if self._is_older(value):
            if self.replacements is not None:
                raise RuntimeError(
                    "a function that is differentiated read another tensor with a history than when it was run first; "
                    "pass the tensors that it depends on by args="
                )
            self.captured[id(value)] = value
        return value

    def _is_older(self, t: Tensor) -> bool:
        """Return whether the history of a tensor began before this context was entered."""
        edge = gradient_edge(t) if local.state.mode & GRAD else None
        if edge is not None and (edge[0]._seq < self.start or not edge[0]._edges):
            return True
        level = innermost_of((t,))
        return level is not None and level in self.levels


def _boundary(outputs: Sequence[Tensor], start: int) -> Iterator[Any]:
    """Yield the edges that lead from nodes created since `start` to older nodes and to leaves."""
    edges = [edge for t in outputs if (edge := gradient_edge(t)) is not None]
    seen: set[int] = set()
    while edges:
        edge = edges.pop()
        node = edge[0]
        if node._seq < start or not node._edges:
            yield edge
        elif id(node) not in seen:
            seen.add(id(node))
            edges.extend(each for each in node._edges if each is not None)


def _check_histories(results: object, start: int, known: Sequence[Tensor]) -> None:
    """Raise a RuntimeError if `results` depend on a tensor older than `start` that is not in `known`."""
    nodes = {id(gradient_edge(t)[0]) for t in known if is_differentiated(t) and gradient_edge(t)}  # type: ignore[index]
    outputs = [t for t in tree_leaves(results) if isinstance(t, Tensor)]
    if local.state.mode & GRAD and any(id(edge[0]) not in nodes for edge in _boundary(outputs, start)):
        raise RuntimeError(
            "a function that is differentiated reads a tensor with a history by other means than operations "
            "(autograd.Function.apply, say); pass the tensors that it depends on by args="
        )


def capture(function: Callable[..., Any], *args: Any) -> tuple[Callable[..., Any], list[Tensor]]:
    """Find the tensors with a history that `function` reads besides its arguments, and make them arguments.

    Parameters
    ----------
    function : callable
        Takes `args`, and returns tensors or nested containers of them.
    *args
        The arguments with which it is run once.

    Returns
    -------
    call : callable
        Takes a list of tensors that replace the captured ones, and then the arguments of `function`.
    captured : list of Tensor
        The tensors that `function` closes over.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.scipy.closures import capture
    >>> a = gradcore.tensor(3.0, requires_grad=True)
    >>> call, captured = capture(lambda x: a * x, gradcore.tensor(2.0))
    >>> captured[0] is a, call([gradcore.tensor(5.0)], gradcore.tensor(2.0))
    (True, tensor(10.))
    """
    arguments = [t for t in tree_leaves(args) if isinstance(t, Tensor)]
    with _Exchange(arguments, None) as watch:
        results = tree_map(watch._look, function(*args))
    captured = list(watch.captured.values())
    _check_histories(results, watch.start, [*captured, *arguments])

    def call(values: Sequence[Tensor], *args: Any) -> Any:
        arguments = [t for t in (*values, *tree_leaves(args)) if isinstance(t, Tensor)]
        with _Exchange(arguments, dict(zip(watch.captured, values, strict=True))) as exchange:
            return tree_map(exchange._look, function(*args))

    # The function may also read captured tensors in a way that is not intercepted.
    if captured and local.state.mode & GRAD:
        _check_histories(call([t.detach() for t in captured], *args), watch.start, arguments)
    return call, captured
