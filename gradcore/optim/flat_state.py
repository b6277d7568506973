"""The memory of optimisers: the states of many parameters in one flat array, and views of it for users."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from gradcore import dtypes
from gradcore.autograd.variables import VersionCounter, bump, wrap
from gradcore.backends.registry import CPU
from gradcore.tensor import Tensor

__all__ = ["HOST", "Slab", "number_dtype", "number_tensor", "rounded", "value_of"]


def value_of(number: Any) -> Any:
    """A Python number, or the number in a tensor of one element."""
    return number.item() if isinstance(number, Tensor) else number


def number_tensor(array: Any, device: Any = CPU) -> Any:
    """A number of a state as users see it: a tensor without dims, on the CPU or on the device of the parameter."""
    return wrap(array.reshape(()), device)


def number_dtype() -> Any:
    """The NumPy type of the numbers in states."""
    return np.dtype("float64" if dtypes.get_default_dtype() is dtypes.float64 else "float32")


def rounded(number: Any) -> Any:
    """A number as states keep it; or a device's numbers, in double precision."""
    if isinstance(number, float):
        return number_dtype().type(number).item()
    return number.astype(number_dtype()).astype("float64")


class _Host:
    """The functions that settings of a step are computed with, for Python numbers."""

    maximum = staticmethod(max)

    @staticmethod
    def where(condition: bool, x: float, y: float) -> float:
        return x if condition else y


HOST = _Host()


class Slab:
    """The states of parameters of one device and dtype.

    Parameters
    ----------
    params : list of Tensor
        Whose states these are.
    arrays : dict
        The initial value, a number or a tensor, of every state that has a parameter's shape, by name.
    numbers : dict
        The initial value of every state that is one number a parameter. Names that begin with an underscore are not
        shown to users; such a number is 0 for a new state, and 1 for one that was loaded.
    state : dict
        The states of the optimiser. What is there already (from a checkpoint) is taken over, and views of this slab are
        put in its place.
    capturable : bool
        Whether numbers are kept on the device, if that is one for which the host would have to wait.
    """

    def __init__(
        self,
        params: list[Any],
        arrays: dict[str, float],
        numbers: dict[str, float],
        state: dict[Any, dict[str, Any]],
        capturable: bool = False,
    ) -> None:
        self.device, self.params = params[0]._device, params
        self.capturable, self.on_device = capturable, capturable and not self.device.backend.host_scalars
        self.offsets = [0, *itertools.accumulate(p._array.size for p in params)]
        xp, place = (self.device.backend.xp, self.device) if self.on_device else (np, CPU)
        with self.device.backend.use_index(self.device.index):
            self.numbers = {
                name: self._filled(xp, len(params), value, number_dtype()) for name, value in numbers.items()
            }
            own = self.device.backend.xp, self.offsets[-1]
            dtype = params[0]._array.dtype
            self.arrays = {name: self._filled(*own, value, dtype) for name, value in arrays.items()}
            #: What users see: the tensors by name, and each parameter's entry in the state of the optimiser.
            self.tensors = {
                name: [number_tensor(values[i : i + 1], place) for i in range(len(params))]
                for name, values in self.numbers.items()
                if not name.startswith("_")
            } | {name: [self._view(name, i) for i in range(len(params))] for name in arrays}
            self.entries = [state[p] for p in params] if self.tensors else []
            version = VersionCounter()
            for tensor in itertools.chain.from_iterable(self.tensors.values()):
                tensor._vc = version
            for i, entry in enumerate(self.entries):
                self._take_over(i, entry)
                entry.update((name, tensors[i]) for name, tensors in self.tensors.items())

    def _filled(self, xp: Any, size: int, value: Any, dtype: Any) -> Any:
        """An array in which every number, and every part of a complex number, is `value`, maybe a tensor."""
        out = xp.empty(size, dtype)
        parts = out.view(out.real.dtype) if dtype.kind == "c" else out
        stays = self.on_device and isinstance(value, Tensor)  # so that the host does not wait for it
        parts[...] = value.detach().to(self.device)._array if stays else value_of(value)
        return out

    def _part(self, name: str, i: int) -> Any:
        return self.arrays[name][self.offsets[i] : self.offsets[i + 1]]

    def _view(self, name: str, i: int) -> Any:
        p = self.params[i]
        return wrap(self._part(name, i).reshape(p._array.shape), self.device, p._dtype)

    def _take_over(self, i: int, entry: dict[str, Any]) -> None:
        """Copy the states that a parameter has already."""
        found = [name for name in self.arrays if entry.get(name) is not None]
        for name in found:
            part = self._part(name, i)
            part[...] = entry[name]._array.ravel()
        for name, values in self.numbers.items():
            known = entry.get(name)
            if name.startswith("_"):
                values[i] = bool(found)
            elif known is not None:
                there = self.on_device and isinstance(known, Tensor) and known.device is self.device
                values[i : i + 1] = known._array.reshape(1) if there else value_of(known)

    def holds(self, i: int, entry: dict[str, Any] | None, names: set[str]) -> bool:
        """Whether a state is still that of parameter `i` in this slab, with these names."""
        return names == self.tensors.keys() and (
            not self.tensors
            or (entry is self.entries[i] and all(entry.get(n) is tensors[i] for n, tensors in self.tensors.items()))
        )

    def note_write(self) -> None:
        """Count a step in the version that all tensors of the slab share, as views of one memory do."""
        if self.entries:
            bump(next(iter(self.tensors.values()))[0])
