"""Which parameters step together: the batches of a group, kept from one step to the next."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from operator import is_
from typing import Any

from gradcore.backends.portable.optimizers import Batch
from gradcore.optim.flat_state import HOST, Slab

__all__ = ["Plan"]

Home = tuple[Slab, int]
#: ``(F, options, numbers) -> settings``, which moves the numbers on by a step.
Settings = Callable[[Any, dict[str, Any], dict[str, Any]], dict[str, Any]]


class Run:
    """Neighbours in a slab whose numbers are equal.

    Parameters
    ----------
    slab : Slab
        Where they have their states.
    start, stop : int
        Which of the slab's parameters they are.
    positions : list of int
        Which of the plan's parameters they are.
    """

    def __init__(self, slab: Slab, start: int, stop: int, positions: list[int]) -> None:
        self.slab, self.slice, self.positions = slab, slice(start, stop), positions
        self.numbers = [values[start:stop] for values in slab.numbers.values()]
        shown = zip(slab.numbers, self.numbers, strict=True)
        self.shown_numbers = [values for name, values in shown if not name.startswith("_")]
        inside = slice(slab.offsets[start], slab.offsets[stop])
        params = [p._array for p in slab.params[start:stop]]
        self.batch = Batch(params, [flat[inside] for flat in slab.arrays.values()])

    @property
    def even(self) -> bool:
        """Whether the numbers that users can write to (counts of steps) are equal still; on a device they need not."""
        return self.slab.on_device or all(
            len(values) == 1 or bool((values == values[0]).all()) for values in self.shown_numbers
        )

    def step(
        self,
        formula: Callable[..., None],
        settings: Settings,
        options: dict[str, Any],
        grads: list[Any],
        found_inf: Any = None,
    ) -> None:
        """Update the parameters and the states, if the tensor `found_inf` (only for a slab on a device) is 0."""
        device, bad = self.slab.device, None
        if self.slab.on_device:
            bad = None if found_inf is None else found_inf.to(device)._array
            found = self._settings_on_device(settings, options, bad)
        else:
            found = self._settings(settings, options)
        self.batch.grads = [grads[i] for i in self.positions]
        device.kernels["optimizer_step"](formula, self.batch, found, bad)
        self.batch.grads = []  # they are not ours to keep

    def _settings(self, settings: Settings, options: dict[str, Any]) -> dict[str, Any]:
        """The formula's settings for this step, by which the numbers are moved on."""
        names = self.slab.numbers
        values = {name: v[0].item() for name, v in zip(names, self.numbers, strict=True)}
        found = settings(HOST, options, values)
        for name, v in zip(names, self.numbers, strict=True):
            v[...] = values[name]
        return found

    def _settings_on_device(self, settings: Settings, options: dict[str, Any], found_inf: Any) -> dict[str, Any]:
        """The same where the numbers are on the device: what follows from them has an element for each parameter."""
        numbers = dict(zip(self.slab.numbers, self.numbers, strict=True))
        found: dict[str, Any] = self.slab.device.kernels["step_settings"](
            settings, options, numbers, self.batch.params[0].dtype, found_inf
        )
        return found


class Plan:
    """The runs of the parameters that take a step, valid as long as these, their memory and their states are the same.

    Parameters
    ----------
    params : list of Tensor
        The parameters that have gradients.
    arrays, numbers : dict
        The initial values of states; see `Slab`.
    state : dict
        The states of the optimiser.
    before : Plan or None
        The group's plan for other parameters, whose memory is used on.
    capturable : bool
        See `Slab`.
    """

    def __init__(
        self,
        params: list[Any],
        arrays: dict[str, float],
        numbers: dict[str, float],
        state: dict[Any, Any],
        before: Plan | None,
        capturable: bool = False,
    ) -> None:
        self.params, self.memory = params, [p._array for p in params]
        self.capturable = capturable
        self.names = names = {*arrays, *(n for n in numbers if not n.startswith("_"))}
        old = {} if before is None else before.homes
        self.homes: dict[Any, Home] = {
            p: home
            for p, home in old.items()
            if home[0].capturable == capturable and home[0].holds(home[1], state.get(p), names)
        }
        alike: dict[Any, list[Any]] = {}
        for p in dict.fromkeys(params):
            if p not in self.homes:
                alike.setdefault((p._device, p._dtype), []).append(p)
        for new in alike.values():
            slab = Slab(new, arrays, numbers, state, capturable)
            self.homes.update((p, (slab, i)) for i, p in enumerate(new))
        homes = [self.homes[p] for p in params]
        self.runs = [Run(*run) for run in _runs(homes)]
        self.slabs = list({id(slab): slab for slab, _ in homes}.values())
        self.entries = [slab.entries[i] for slab, i in homes] if names else []
        self.tensors = {name: [slab.tensors[name][i] for slab, i in homes] for name in names}

    def fits(self, params: list[Any], names: set[str], state: dict[Any, Any], capturable: bool = False) -> bool:
        """Whether this is the plan for `params`."""
        if (
            capturable != self.capturable
            or len(params) != len(self.params)
            or names != self.names
            or not all(map(is_, params, self.params))
        ):
            return False
        if not all(map(is_, [p._array for p in params], self.memory)):
            return False
        if names:
            entries = [state.get(p) for p in params]
            if not all(map(is_, entries, self.entries)):
                return False
            for name, tensors in self.tensors.items():
                if not all(map(is_, [e.get(name) for e in entries], tensors)):  # type: ignore[union-attr]
                    return False
        return all(run.even for run in self.runs)


def _runs(homes: list[Home]) -> Iterator[tuple[Slab, int, int, list[int]]]:
    """Cut the homes of parameters into runs of neighbours."""
    by_slab: dict[int, list[int]] = {}
    for position, (slab, _) in enumerate(homes):
        by_slab.setdefault(id(slab), []).append(position)
    for positions in by_slab.values():
        slab = homes[positions[0]][0]
        ends = [
            k + 1
            for k, (a, b) in enumerate(itertools.pairwise(positions))
            if homes[b][1] != homes[a][1] + 1
            or (not slab.on_device and any(v[homes[a][1]] != v[homes[b][1]] for v in slab.numbers.values()))
        ]
        for first, last in itertools.pairwise([0, *ends, len(positions)]):
            start = homes[positions[first]][1]
            yield slab, start, start + last - first, positions[first:last]
