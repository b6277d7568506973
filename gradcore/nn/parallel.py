"""Data parallelism on several devices, each of which runs a module on a part of the batch."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from gradcore import functional
from gradcore.core.device import DeviceLike
from gradcore.core.device import device as Device
from gradcore.cuda.devices import device_count, is_available
from gradcore.nn.lazy import LazyModuleMixin
from gradcore.nn.module import Module
from gradcore.nn.utils.stateless import call_with
from gradcore.tensor import Tensor
from gradcore.tensor.creation import empty
from gradcore.torch_names import paths

__all__ = ["DataParallel", "data_parallel", "gather", "scatter"]

Places = Sequence[DeviceLike]


def _device_of(where: DeviceLike) -> Any:
    return empty(0, device=where).device


def scatter(inputs: Any, target_gpus: Places, dim: int = 0) -> Any:
    """Split inputs into parts, and return each part on one of several devices.

    Parameters
    ----------
    inputs
        Tensors, which are split, in nested tuples, lists and dicts; anything else is given to all devices.
    target_gpus : sequence of int, str or device
        Numbers are CUDA devices.
    dim : int
        The dim of tensors that is split.

    Returns
    -------
    list
        The inputs of each device; fewer than there are devices, where there is not enough to be split.

    Examples
    --------
    >>> import gradcore
    >>> [part.shape for part in gradcore.nn.parallel.scatter(gradcore.ones(5, 3), ["cpu", "cpu"])]
    [torch.Size([3, 3]), torch.Size([2, 3])]
    """
    devices = [_device_of(device) for device in target_gpus]
    return _parts(inputs, devices, dim)


def _parts(value: Any, devices: list[Any], dim: int) -> Any:
    if isinstance(value, Tensor):
        chunks = value.chunk(len(devices), dim)
        return [chunk.to(device) for chunk, device in zip(chunks, devices, strict=False)]
    if isinstance(value, (tuple, list)) and value:
        return [_like(value, parts) for parts in zip(*(_parts(v, devices, dim) for v in value), strict=False)]
    if isinstance(value, dict) and value:
        columns = [_parts(v, devices, dim) for v in value.values()]
        return [type(value)(zip(value, parts, strict=True)) for parts in zip(*columns, strict=False)]
    return [value for _ in devices]


def _like(original: Any, parts: Any) -> Any:
    """Return `parts` in a tuple or list of the type of `original`."""
    return type(original)(*parts) if hasattr(original, "_fields") else type(original)(parts)


def gather(outputs: Sequence[Any], target_device: DeviceLike, dim: int = 0) -> Any:
    """Concatenate the results of several devices on one device.

    Parameters
    ----------
    outputs : sequence
        Tensors, or equally nested tuples, lists and dicts of them.
    target_device : int, str or device
        Numbers are CUDA devices.
    dim : int
        The dim along which tensors are joined; single numbers become a vector.

    Returns
    -------
    object
        Nested as one of the outputs.

    Raises
    ------
    ValueError
        If dicts have different keys.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.nn.parallel.gather([{"y": gradcore.ones(2)}, {"y": gradcore.zeros(1)}], "cpu")
    {'y': tensor([1., 1., 0.])}
    """
    return _join(outputs, _device_of(target_device), dim)


def _join(outputs: Sequence[Any], device: Any, dim: int) -> Any:
    first = outputs[0]
    if isinstance(first, Tensor):
        if dim == 0 and all(t.ndim == 0 for t in outputs):
            warnings.warn(
                "Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze and "
                "return a vector.",
                stacklevel=2,
            )
            outputs = [t.reshape(1) for t in outputs]
        return functional.cat([t.to(device) for t in outputs], dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(first) != len(other) for other in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((key, _join([each[key] for each in outputs], device, dim)) for key in first)
    parts = [_join(column, device, dim) for column in zip(*outputs, strict=True)]
    return _like(first, parts)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Places | None = None,
    output_device: DeviceLike | None = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call a module on several devices, each with a part of the batch; see `DataParallel`.

    Parameters
    ----------
    module : Module
        The module, whose parameters and buffers must be on the first of the devices.
    inputs : tuple or Tensor
    device_ids : sequence of int, str or device, optional
        The devices to use, by default all CUDA devices.
    output_device : int, str or device, optional
        The device of the result, by default the first one.
    dim : int
        The dim of the batch.
    module_kwargs : dict, optional
        Inputs by name.

    Returns
    -------
    object
        The joined results.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.parallel.data_parallel(gc.nn.ReLU(), gc.tensor([-1.0, 2.0]), device_ids=[])
    tensor([0., 2.])
    """
    runner = DataParallel(module, device_ids, output_device, dim)
    return runner(
        *(inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)), **module_kwargs or {}
    )


class DataParallel(Module):
    """A module that runs on several devices, each with a part of the batch.

    Each call copies the parameters to the other devices. Gradients are summed on each device and moved back once.
    Buffers are updated from the first device only.

    Parameters
    ----------
    module : Module
        The module, whose parameters and buffers must be on the first of the devices.
    device_ids : sequence of int, str or device, optional
        Numbers are CUDA devices; by default all of them. Without CUDA the module is simply called.
    output_device : int, str or device, optional
        The device of the result, by default the first one.
    dim : int
        The dim of the batch.

    Examples
    --------
    >>> import gradcore
    >>> net = gradcore.nn.DataParallel(gradcore.nn.Linear(3, 2), device_ids=["cpu", "cpu"])
    >>> net(gradcore.ones(5, 3)).shape
    torch.Size([5, 2])
    >>> list(net.state_dict())
    ['module.weight', 'module.bias']
    """

    device_ids: list[Any]

    def __init__(
        self,
        module: Module,
        device_ids: Places | None = None,
        output_device: DeviceLike | None = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module, self.dim = module, dim
        ids = list(range(device_count())) if device_ids is None else list(device_ids)
        cuda = any(isinstance(where, int) or Device(where).type == "cuda" for where in ids)
        self.device_ids = ids if is_available() or not cuda else []
        if self.device_ids:
            self.output_device = self.device_ids[0] if output_device is None else output_device
            if len(self.device_ids) == 1:
                module.to(_device_of(self.device_ids[0]))

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return the concatenated results of all devices."""
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        devices = [_device_of(where) for where in self.device_ids]
        self._check(devices[0])
        if not inputs and not kwargs:
            devices = devices[:1]
        parts = list(zip(_parts(inputs, devices, self.dim), _parts(kwargs, devices, self.dim), strict=False))
        if len(devices) == 1:
            args, named = parts[0]
            return self.module(*args, **named)
        results = [self._run(device, *part) for device, part in zip(devices, parts, strict=False)]
        return _join(results, _device_of(self.output_device), self.dim)

    def _check(self, first: Any) -> None:
        for submodule in self.module.modules():
            if isinstance(submodule, LazyModuleMixin):
                submodule._replicate_for_data_parallel()
        for t in (*self.module.parameters(), *self.module.buffers()):
            if t.device != first:
                raise RuntimeError(
                    f"module must have its parameters and buffers on device {first} (device_ids[0]) but found one of "
                    f"them on device: {t.device}"
                )

    def _run(self, device: Any, args: Any, kwargs: Any) -> Any:
        """Return the result of the module on one device."""
        with device.backend.use_index(device.index):
            tensors = (*self.module.named_parameters(), *self.module.named_buffers())
            moved = {name: t.to(device) for name, t in tensors if t.device != device}
            return call_with(self.module, moved, args, kwargs, tie_weights=True, strict=False)


__getattr__ = paths.further(__name__)

paths.show_public(__name__)
