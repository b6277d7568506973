"""Memory of optimiser states: one flat array for many parameters, with views for users."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from gradcore.autograd.variables import TensorMeta
from gradcore.core import dtypes
from gradcore.core.device import device as device_of
from gradcore.tensor import Tensor
from gradcore.tensor.arrays import arrays_of, empty_array, share_version, tensor_of

__all__ = ["HOST", "FlatState", "round_to_state_dtype", "value_of"]


def value_of(number: Any) -> Any:
    """Return a Python number, also for a tensor with one element."""
    return number.item() if isinstance(number, Tensor) else number


def _scalar_dtype() -> Any:
    """Return the NumPy dtype of scalar states."""
    return np.dtype("float64" if dtypes.get_default_dtype() is dtypes.float64 else "float32")


def round_to_state_dtype(number: Any) -> Any:
    """Return a number rounded to the dtype of scalar states, or a device array in double precision."""
    if isinstance(number, float):
        return _scalar_dtype().type(number).item()
    return number.astype(_scalar_dtype()).astype("float64")


class _Host:
    """The functions that `F` provides to compute hyperparameters, for Python numbers."""

    maximum = staticmethod(max)

    @staticmethod
    def where(condition: bool, x: float, y: float) -> float:
        return x if condition else y


HOST = _Host()


class FlatState:
    """States of parameters that share a device and a dtype.

    Parameters
    ----------
    params : list of Tensor
        The parameters.
    tensors : dict
        The initial value, a number or a tensor, of every state that has a parameter's shape, by name.
    scalars : dict
        The initial value of every state that is one number for each parameter. Names that begin with an underscore are
        not shown to users; such a number is 0 for a new state, and 1 for one that was loaded.
    state : dict
        The state of the optimiser. What is there already (from a checkpoint) is copied, and replaced by views of this
        memory.
    capturable : bool
        Whether scalars are kept on the device, if that is one for which the host would have to wait.

    Attributes
    ----------
    tensors : dict
        The states that users see, by name: a list of tensors, one for each parameter. They share a version.
    arrays, scalars : dict
        The memory by name: flat arrays of elements, and of one number for each parameter.
    offsets : list of int
        Parameter `i` owns the elements from ``offsets[i]`` to ``offsets[i + 1]`` of each array.
    """

    def __init__(
        self,
        params: list[Any],
        tensors: dict[str, Any],
        scalars: dict[str, Any],
        state: dict[Any, dict[str, Any]],
        capturable: bool = False,
    ) -> None:
        self.device, self.params, memory = params[0].device, params, arrays_of(params)
        self._metas = [*map(TensorMeta.of, params)]
        backend = self.device.backend
        self.capturable, self.on_device = capturable, capturable and not backend.host_scalars
        self.offsets = [0, *itertools.accumulate(array.size for array in memory)]
        xp, device = (backend.xp, self.device) if self.on_device else (np, device_of("cpu"))
        dtype = _scalar_dtype()
        with backend.use_index(self.device.index):
            self.scalars = {name: self._fill(xp.empty(len(params), dtype), value) for name, value in scalars.items()}
            layout = self.offsets[-1], memory[0].dtype, self.device
            self.arrays = {name: self._fill(empty_array(*layout), value) for name, value in tensors.items()}
            self.tensors = {
                name: [tensor_of(values[i : i + 1].reshape(()), device) for i in range(len(params))]
                for name, values in self.scalars.items()
                if not name.startswith("_")
            } | {name: [self._view(name, i) for i in range(len(params))] for name in tensors}
            self.entries = [state[p] for p in params] if self.tensors else []
            share_version([*itertools.chain.from_iterable(self.tensors.values())])
            for i, entry in enumerate(self.entries):
                self._load(i, entry)
                entry.update((name, views[i]) for name, views in self.tensors.items())

    def _fill(self, out: Any, value: Any) -> Any:
        """Fill the array `out` with `value`, a number or a tensor, in real and imaginary parts, and return it."""
        parts = out.view(out.real.dtype) if out.dtype.kind == "c" else out
        stays = self.on_device and isinstance(value, Tensor)  # so that the host does not wait for it
        parts[...] = arrays_of([value.detach().to(self.device)])[0] if stays else value_of(value)
        return out

    def _part(self, name: str, i: int) -> Any:
        return self.arrays[name][self.offsets[i] : self.offsets[i + 1]]

    def _view(self, name: str, i: int) -> Any:
        p = self.params[i]
        return tensor_of(self._part(name, i).reshape(tuple(p.shape)), self.device, p.dtype)

    def _load(self, i: int, entry: dict[str, Any]) -> None:
        """Copy the existing states of parameter `i` into the flat arrays."""
        loaded = [name for name in self.arrays if entry.get(name) is not None]
        for name in loaded:
            part, (array,), shape = self._part(name, i), arrays_of([entry[name]]), self.params[i].shape
            if array.shape != tuple(shape):
                raise RuntimeError(
                    f"a parameter of shape {[*shape]} has the state {name!r} of shape {[*array.shape]}: make a new "
                    "optimizer after you give it data of another shape"
                )
            part[...] = array.ravel()
        for name, values in self.scalars.items():
            number = entry.get(name)
            if name.startswith("_"):
                values[i] = bool(loaded)
            elif number is not None:
                on_device = self.on_device and isinstance(number, Tensor) and number.device is self.device
                values[i : i + 1] = arrays_of([number])[0].reshape(1) if on_device else value_of(number)

    def holds(self, i: int, entry: dict[str, Any] | None, names: tuple[str, ...]) -> bool:
        """Return whether `entry` is the state of parameter `i` in these arrays, with these names.

        False if the parameter has got data of another shape, dtype or device.
        """
        is_like = TensorMeta.of(self.params[i]) == self._metas[i]
        return (
            is_like
            and names == tuple(self.tensors)
            and (
                not self.tensors
                or (entry is self.entries[i] and all(entry.get(n) is tensors[i] for n, tensors in self.tensors.items()))
            )
        )
