"""The backward program of a captured run: it computes the gradients of the run's results."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gradcore.autograd.gradients import grad as gradients_of
from gradcore.autograd.node import is_freed_error
from gradcore.autograd.views import gradient_edge
from gradcore.compiler.autograd.node import as_leaf, cut_history, with_history
from gradcore.compiler.capture.arrays import RecordedArray
from gradcore.compiler.capture.guards import Guards
from gradcore.compiler.capture.reasons import Code
from gradcore.compiler.capture.recorder import Unrecordable
from gradcore.compiler.capture.script import Script
from gradcore.compiler.program.program import Call

__all__ = ["RecordedBackward"]


class RecordedBackward:
    """The capture of the backward of a run.

    Parameters
    ----------
    script : Script
    guards : Guards
    tensors : list of Tensor
        The tensors that the program depends on.

    Attributes
    ----------
    outs, freed : list of Tensor
        The results that have a history, and the results whose history the function has freed.
    inputs : list of int
        The positions in `tensors` of the tensors that receive gradients.
    given, gradients : list of int
        The value numbers of the upstream gradients of `outs`, and of the gradients of `inputs`.
    reached : list of frozenset
        For each result in `outs`, the positions in `inputs` of the tensors that it depends on.
    freed_with : list of frozenset
        For each result in `outs`, the results whose graph a backward from it frees.
    mark : int
        The number of calls before those of backward.
    alone : list of tuple
        If there are only a few results, for each one a program of its own: the calls, the value number of the upstream
        gradient, and the value numbers of the gradients.
    histories : dict
        The earlier state of each argument with a history, see `_state_of_history`.
    """

    def __init__(self, script: Script, guards: Guards, tensors: list[Any]) -> None:
        self.recorder, self.script, self.guards, self.tensors = script.recorder, script, guards, tensors
        self.outs: list[Any] = []
        self.freed: list[Any] = []
        self.inputs: list[int] = []
        self.given: list[int] = []
        self.gradients: list[int | None] = []
        self.reached: list[frozenset[int]] = []
        self.freed_with: list[frozenset[int]] = []
        self.feeds: list[frozenset[int]] = []
        self.mark = 0
        self.alone: list[tuple[list[Call], int, list[int | None]]] = []
        self.histories = {i: _state_of_history(t) for i, t in enumerate(tensors) if t._edge is not None}
        #: Whether the function has returned.
        self.is_over = False

    def backward_runs(self, task: Any) -> None:
        """Stop the capture if a backward call may reach an argument's history, which differs in each call."""
        histories = {edge[0]: i for i, (edge, *_) in self.histories.items()}
        if not histories or self.is_over:
            return
        edges: list[Any] = [gradient_edge(self.tensors[i]) for i in self._found_inputs()]
        outside = {*histories, *(edge[0] for edge in edges)}
        captured = {*task.captures}
        for node in histories.keys() & _find_reachable([root[0] for root in task.roots], histories):
            has_hooks = node in captured and node._hooks is not None
            if not captured or task.accumulate or captured & outside - {node} or has_hooks:
                self.recorder.stop(Code.HISTORY, "gradients are computed through the history of an argument")
            elif node in captured:
                i = histories[node]
                self.guards.require(f"t{i}._edge[0]._hooks is None", f"{self.guards.tensors[i].name} has no hooks")

    def _found_inputs(self) -> list[int]:
        """Return the positions of the tensors that receive gradients: leaves, and arguments with a history."""
        metas = enumerate(t._autograd for t in self.tensors)
        return [i for i, meta in metas if i in self.histories or (meta is not None and meta.requires_grad)]

    def record(self, result: Any) -> None:
        """Capture the gradients of the results that have a history, after the function has run."""
        self.is_over = True
        outs = [t for t in with_history(result, self.script.refuse) if not any(t is each for each in self.tensors)]
        self.inputs = self._found_inputs()
        self.mark = len(self.recorder.program.calls)
        if any(_state_of_history(self.tensors[i]) != before for i, before in self.histories.items()):
            self.script.refuse(Code.WRITE, "an argument with a history is written in place, detached, or given a hook")
        histories = [edge[0] for edge, *_ in self.histories.values()]
        nodes = _find_reachable([t._edge[0] for t in outs], histories) - {*histories}
        if [node for node in nodes if node._hooks is not None and node._hooks.retain]:
            # Otherwise it would have a gradient before any backward.
            self.script.refuse(Code.UNSUPPORTED, "a tensor that the function computes retains its gradient")
        if not outs or self.recorder.stopped is not None:
            return
        self.recorder.first_repeated = self.recorder.new_value()
        try:
            with cut_history([self.tensors[i] for i in self.histories]):
                self._record_of(outs)
        finally:
            self.recorder.first_repeated = None

    def _record_of(self, outs: list[Any]) -> None:
        if self._record_gradients(outs):
            self._record_alone(outs)
        else:
            self.freed = [t for t in outs if not self._record_gradients([t])]
            del self.recorder.program.calls[self.mark :]
            outs = [t for t in outs if not any(t is other for other in self.freed)]
            if outs and not self._record_gradients(outs):
                self.script.refuse(Code.HISTORY, "the graph of a result is freed in part")

    def _record_alone(self, outs: list[Any]) -> None:
        """Capture the gradients of each result alone, for a backward from a loss returned with other results."""
        calls = self.recorder.program.calls
        whole = self.outs, self.given, self.reached, self.freed_with, self.feeds, self.gradients
        # On a device, each program would hold memory.
        if not 1 < len(self.outs) <= _MOST_ALONE or self.recorder.program.backend or self.recorder.program.symbols:
            return
        end = len(calls)
        for t in outs:
            self._record_gradients([t])
            self.alone.append((calls[end:], self.given[0], self.gradients))
            del calls[end:]
        self.outs, self.given, self.reached, self.freed_with, self.feeds, self.gradients = whole

    def _record_gradients(self, outs: list[Any]) -> bool:
        """Capture the gradients of some results; return False if their graph has been freed."""
        upstream = [self.recorder.ones(t) for t in outs]
        grads = [as_leaf(array, t._dtype, t._device) for array, t in zip(upstream, outs, strict=True)]
        inputs = [self.tensors[i] for i in self.inputs]
        try:
            gradients = gradients_of(outs, inputs, grads, retain_graph=True, allow_unused=True)
        except Unrecordable:
            raise
        except Exception as error:  # Eager execution raises the error in backward, not here.
            is_freed = is_freed_error(error)
            if not is_freed:
                self.script.refuse(Code.UNSUPPORTED, f"the gradients of a result cannot be computed: {error}")
            return not is_freed
        if any(g is not None and not (g._strided and isinstance(g._array, RecordedArray)) for g in gradients):
            self.script.refuse(Code.TENSOR, "a gradient is no recorded array")
            return True
        if any(t._device is not outs[0]._device for t in outs):
            self.script.refuse(Code.TENSOR, "results with a history are on several devices")
            return True
        self.outs, self.given = outs, [array.number for array in upstream]
        ends = [gradient_edge(t) for t in inputs]
        nodes = {edge[0] for edge in ends if edge is not None}
        reachable = [_find_reachable([t._edge[0]], nodes) for t in outs]
        self.reached = [frozenset(i for i, e in enumerate(ends) if e is not None and e[0] in f) for f in reachable]
        inner = [*enumerate(each - nodes for each in reachable)]
        self.freed_with = [frozenset((i, *(j for j, o in inner if each & o))) for i, each in inner]
        edges = [{edge for node in each for edge in node._edges} for _, each in inner]
        self.feeds = [frozenset(j for j, each in enumerate(edges) if t._edge in each) for t in outs]
        self.gradients = [None if g is None else g._array.number for g in gradients]
        return True


#: The largest number of results for which each has a backward program of its own.
_MOST_ALONE = 4


def _state_of_history(t: Any) -> tuple[Any, ...]:
    """Return the gradient edge of a tensor, whether it retains its gradient, and the hooks of its node."""
    hooks = t._edge and t._edge[0]._hooks
    tables = hooks and [[*hooks.pre], [*hooks.post], [*hooks.retain], [[*each] for each in hooks.tensor.values()]]
    return t._edge, t._autograd is not None and t._autograd.retains_grad, tables


def _find_reachable(roots: list[Any], ends: Collection[Any]) -> set[Any]:
    """Return the nodes that can be reached from `roots` in the autograd graph, but not through `ends`."""
    seen, layer = {*roots}, {*roots}
    while layer:
        layer = {edge[0] for node in layer if node not in ends for edge in node._edges if edge is not None} - seen
        seen |= layer
    return seen
