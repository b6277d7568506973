"""Conversion of modules: move all parameters and buffers to another device or dtype."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, Self

from gradcore.autograd.grad_mode import no_grad
from gradcore.nn.parameter import Parameter
from gradcore.tensor import Tensor
from gradcore.tensor.creation import empty, empty_like
from gradcore.tensor.to import parse_to

__all__ = ["Conversion"]


class Conversion:
    """Methods that move modules to other devices and dtypes."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]

    def children(self) -> Iterator[Any]:
        """Return the immediate submodules."""
        raise NotImplementedError

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Apply `fn` to the data of all parameters, gradients and buffers in place.

        Parameters stay the same objects.
        """
        if recurse:
            for child in self.children():
                child._apply(fn)
        with no_grad():
            for parameter in self._parameters.values():
                if parameter is not None:
                    grad, parameter.grad = parameter._grad, None
                    parameter._set_data(fn(parameter))
                    if grad is not None:
                        parameter.grad = fn(grad).requires_grad_(grad.requires_grad)
            for name, buffer in self._buffers.items():
                if buffer is not None:
                    self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move parameters and buffers to a device, and convert floating-point and complex ones to a dtype.

        The arguments are those of `Tensor.to`.

        Raises
        ------
        TypeError
            If the dtype is neither a floating-point nor a complex one.
        """
        some = empty(0)
        _, dtype, copy, _ = parse_to(some, args, dict(kwargs))
        if copy:
            raise RuntimeError(".to() does not accept copy argument")
        if dtype is not some.dtype and not dtype.is_differentiable:
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        if dtype.is_complex:
            warnings.warn(
                "Complex modules are a new feature under active development whose design may change, and some modules "
                "might not work as expected when using complex tensors as parameters or buffers.",
                stacklevel=2,
            )

        def convert(t: Tensor) -> Tensor:
            device, dtype, _, non_blocking = parse_to(t, args, dict(kwargs))
            try:
                target = dtype if t.is_floating_point() or t.is_complex() else t.dtype
                return t.to(device, target, non_blocking=non_blocking)
            except NotImplementedError as error:
                raise NotImplementedError(
                    f"{error} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving module "
                    "from meta to a different device."
                ) from None

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move to a device without copying the values, which are arbitrary afterwards."""
        return self._apply(lambda t: empty_like(t, device=device), recurse)

    def cpu(self) -> Self:
        """Move to the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Any = None) -> Self:
        """Move to a CUDA device."""
        return self._apply(lambda t: t.cuda(device))

    def type(self, dst_type: Any) -> Self:
        """Convert all parameters and buffers to a dtype."""
        return self._apply(lambda t: t.type(dst_type))

    def _floats(self, name: str) -> Self:
        return self._apply(lambda t: getattr(t, name)() if t.is_floating_point() else t)

    def float(self) -> Self:
        """Convert floating-point parameters and buffers to float32."""
        return self._floats("float")

    def double(self) -> Self:
        """Convert floating-point parameters and buffers to float64."""
        return self._floats("double")

    def half(self) -> Self:
        """Convert floating-point parameters and buffers to float16."""
        return self._floats("half")

    def bfloat16(self) -> Self:
        """Convert floating-point parameters and buffers to bfloat16."""
        return self._floats("bfloat16")
