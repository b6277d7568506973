"""Parameters and buffers, the tensors that modules own."""

from __future__ import annotations

from typing import Any, Self

from gradcore.tensor import Tensor
from gradcore.tensor.creation import empty
from gradcore.torch_names import paths
from gradcore.torch_names._C import _disabled_torch_function_impl

__all__ = ["Buffer", "Parameter"]


class _ParameterType(type):
    """Metaclass of `Parameter`, which lets tensors of other subclasses be instances of it."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or (cls is Parameter and getattr(instance, "_is_param", False))


class Parameter(Tensor, metaclass=_ParameterType):
    """A leaf tensor that a `Module` registers when it is assigned as an attribute.

    Parameters
    ----------
    data : Tensor, optional
        The values, whose memory is shared; empty if None.
    requires_grad : bool
        Whether it is trained.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.nn.Parameter(gradcore.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    __slots__ = ()
    __torch_function__ = _disabled_torch_function_impl

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        if data is None:
            data = empty(0)
        elif type(data) is not Tensor and type(data).__torch_function__ is not _disabled_torch_function_impl:
            return _parameter_of_subclass(data, requires_grad)  # type: ignore[return-value]
        if requires_grad and not (data.is_floating_point() or data.is_complex()):
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        return cls._make_subclass(cls, data, requires_grad)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(), self.requires_grad)
        return memo[id(self)]  # type: ignore[no-any-return]


def _parameter_of_subclass(data: Tensor, requires_grad: bool) -> Tensor:
    """Return a leaf with the data and the class of `data`, so that the subclass's operations are kept."""
    out = data.detach().requires_grad_(requires_grad)
    if type(out) is not type(data):
        raise RuntimeError(
            f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns an "
            f"instance of the same type, but return type {type(out).__name__} was found instead. To use the type as a "
            "Parameter, please correct the detach() semantics defined by its __torch_function__() implementation."
        )
    out._is_param = True  # type: ignore[attr-defined]
    return out


class Buffer(Tensor):
    """A tensor that is part of a module's state but is not trained.

    Parameters
    ----------
    data : Tensor, optional
        The values, whose memory is shared.
    persistent : bool
        Whether it is part of the module's `state_dict`.

    Examples
    --------
    >>> import gradcore as gc
    >>> module = gc.nn.Module()
    >>> module.mean = gc.nn.Buffer(gc.zeros(2))
    >>> list(module.state_dict())
    ['mean']
    """

    __slots__ = ()
    __torch_function__ = _disabled_torch_function_impl

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Self:
        out = cls._make_subclass(cls, empty(0) if data is None else data, data is not None and data.requires_grad)
        out.persistent = persistent
        return out  # type: ignore[no-any-return]


__getattr__ = paths.further(__name__)
