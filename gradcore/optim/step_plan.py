"""Plans of optimiser steps: batches of parameters that are updated together, reused from step to step."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from operator import is_
from typing import Any

from gradcore.core.typing import AnyTensor
from gradcore.optim.flat_state import HOST, FlatState
from gradcore.tensor.arrays import arrays_of
from gradcore.tensor.foreach import Batch

__all__ = ["StepPlan"]

Position = tuple[FlatState, int]
#: ``(F, options, scalars) -> hyperparameters``, which advances the scalar state by a step.
Hyperparameters = Callable[[Any, dict[str, Any], dict[str, Any]], dict[str, Any]]
NO_STATE: dict[str, Any] = {}


class ParameterBatch:
    """Contiguous parameters of a flat state with equal scalar states.

    Parameters
    ----------
    state : FlatState
        The state that the parameters belong to.
    start, stop : int
        The range of the parameters in the flat state.
    indices : list of int
        The indices of the parameters in the plan.
    """

    def __init__(self, state: FlatState, start: int, stop: int, indices: list[int]) -> None:
        self.state, self.indices = state, indices
        self.scalars = {name: values[start:stop] for name, values in state.scalars.items()}
        #: The scalars that users can read and write, and the values that the last step wrote.
        self.visible = [] if state.on_device else [v for name, v in self.scalars.items() if not name.startswith("_")]
        self.last = [values.tobytes() for values in self.visible]
        inside = slice(state.offsets[start], state.offsets[stop])
        params = arrays_of(state.params[start:stop])
        self.batch = Batch(params, [flat[inside] for flat in state.arrays.values()])

    def step(
        self,
        formula: Callable[..., None],
        hyperparameters: Hyperparameters,
        options: dict[str, Any],
        grads: list[Any],
        found_inf: Any = None,
    ) -> None:
        """Update the parameters and states, but only if `found_inf`, a tensor for state on a device, is 0."""
        kernels, skip = self.state.device.kernels, None
        if self.state.on_device:
            if found_inf is not None:
                (skip,) = arrays_of([found_inf.to(self.state.device)])
            dtype = self.batch.params[0].dtype
            settings, former = kernels["step_settings"](hyperparameters, options, self.scalars, dtype, skip)
            scalars = None
        else:
            scalars, settings = self.advance(hyperparameters, options)
        self.batch.grads = [grads[i] for i in self.indices]
        try:
            kernels["optimizer_step"](formula, self.batch, settings, skip)
        except BaseException:
            if scalars is None:
                self.state.device.backend.restore_numbers(self.scalars, former)
            raise
        finally:
            self.batch.grads = []  # do not keep the gradients alive until the next step
        if scalars is not None:  # A step that failed, for example for lack of memory, is not counted.
            self.keep(scalars)

    def advance(self, hyperparameters: Hyperparameters, options: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """Return the scalar state and hyperparameters of the next step, if the host counts steps."""
        scalars = {name: values.item(0) for name, values in self.scalars.items()}
        settings = hyperparameters(HOST, options, scalars)
        return scalars, settings

    def keep(self, scalars: dict[str, Any]) -> None:
        """Set the scalar state."""
        for name, values in self.scalars.items():
            values[...] = scalars[name]
        self.last = [values.tobytes() for values in self.visible]


class StepPlan:
    """The batches of the parameters of a step.

    The plan is valid while parameters, their memory and their states are the same.

    Parameters
    ----------
    params : list of Tensor
        The parameters that have gradients.
    tensors, scalars : dict
        The initial values of states; see `FlatState`.
    state : dict
        The state of the optimiser.
    previous : StepPlan or None
        The group's plan for other parameters, whose memory is reused.
    capturable : bool
        See `FlatState`.

    Attributes
    ----------
    options : list
        The values of the group's options at the last step.
    tensor_options : list of str
        The names of the options that are tensors or contain tensors.
    host_counted : Backend or None
        The backend of an accelerator for which the host counts the steps.
    """

    def __init__(
        self,
        params: list[Any],
        tensors: dict[str, Any],
        scalars: dict[str, Any],
        state: dict[Any, Any],
        previous: StepPlan | None,
        capturable: bool = False,
    ) -> None:
        self.params, self.memory, self.capturable = params, arrays_of(params), capturable
        self.options: list[Any] = []
        self.tensor_options: list[str] = []
        self.host_counted: Any = None
        self.names = _visible(tensors, scalars)
        earlier_positions = {} if previous is None else previous.positions
        self.positions: dict[Any, Position] = {
            p: position
            for p, position in earlier_positions.items()
            if position[0].capturable == capturable and position[0].holds(position[1], state.get(p), self.names)
        }
        groups: dict[Any, list[Any]] = {}
        for p in dict.fromkeys(params):
            if p not in self.positions:
                groups.setdefault((p.device, p.dtype), []).append(p)
        for batch in groups.values():
            flat = FlatState(batch, tensors, scalars, state, capturable)
            self.positions.update((p, (flat, i)) for i, p in enumerate(batch))
        positions = [self.positions[p] for p in params]
        self.batches = [ParameterBatch(*run) for run in _runs(positions, _find_sharing(params))]
        self.tensors = [flat.tensors[name][i] for flat, i in positions for name in self.names]
        #: The tensors that a step modifies: the parameters, and one tensor with the version counter of each flat state.
        states = {id(flat): flat for flat, _ in positions}.values()
        self.written = [*params, *(next(iter(flat.tensors.values()))[0] for flat in states if flat.tensors)]

    def has_options(self, group: dict[str, Any]) -> bool:
        """Return whether the group's options are the same objects as at the last step."""
        return len(group) == len(self.options) and all(map(is_, group.values(), self.options))

    def has_states(self, tensors: dict[str, Any], scalars: dict[str, Any], capturable: bool) -> bool:
        """Return whether the states have these names."""
        return capturable == self.capturable and self.names == _visible(tensors, scalars)

    def fits(self, params: list[Any], state: dict[Any, Any]) -> bool:
        """Return whether the parameters, their memory and their states are unchanged since the last step."""
        if len(params) != len(self.params) or not all(map(is_, params, self.params)):
            return False
        if not all(map(is_, arrays_of(params), self.memory)):
            return False
        if self.names:
            names = self.names
            tensors = [get(name) for get in [state.get(p, NO_STATE).get for p in params] for name in names]
            if not all(map(is_, tensors, self.tensors)):
                return False
        return all([v.tobytes() for v in batch.visible] == batch.last for batch in self.batches)


def _visible(tensors: dict[str, Any], scalars: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the states that users see."""
    return (*(name for name in scalars if not name.startswith("_")), *tensors)


def _find_sharing(params: list[AnyTensor]) -> set[int]:
    """Return the positions of parameters that share memory with an earlier one: they take their step after it."""
    spans = []
    for i, p in enumerate(params):
        if not p.numel():
            continue
        steps = [(n - 1) * step * p.element_size() for n, step in zip(p.shape, p.stride(), strict=True)]
        start = p.data_ptr() + sum(min(step, 0) for step in steps)
        spans.append((start, start + sum(map(abs, steps)) + p.element_size(), i))
    sharing = set[int]()
    before: list[tuple[int, int, int]] = []
    for start, stop, i in sorted(spans):
        before = [each for each in before if each[1] > start]
        sharing.update(max(i, j) for _, _, j in before)
        before.append((start, stop, i))
    return sharing


def _runs(positions: list[Position], sharing: set[int]) -> Iterator[tuple[FlatState, int, int, list[int]]]:
    """Group parameters into runs that are contiguous in a flat state and do not share memory."""
    by_state: dict[int, list[int]] = {}
    for index, (state, _) in enumerate(positions):
        by_state.setdefault(id(state), []).append(index)
    for indices in by_state.values():
        state = positions[indices[0]][0]
        ends = [
            k + 1
            for k, (a, b) in enumerate(itertools.pairwise(indices))
            if b in sharing
            or positions[b][1] != positions[a][1] + 1
            or (not state.on_device and any(v[positions[a][1]] != v[positions[b][1]] for v in state.scalars.values()))
        ]
        for first, last in itertools.pairwise([0, *ends, len(indices)]):
            start = positions[indices[first]][1]
            yield state, start, start + last - first, indices[first:last]
