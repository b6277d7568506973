"""Parameters and buffers with unknown shape, which lazy modules have before their first call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from gradcore.core import dtypes
from gradcore.core.device import DeviceLike
from gradcore.core.dtypes import DTypeLike
from gradcore.nn.parameter import Parameter
from gradcore.tensor import Tensor
from gradcore.tensor.creation import empty
from gradcore.tensor.to import parse_to
from gradcore.torch_names._C import _disabled_torch_function_impl

__all__ = ["UninitializedBuffer", "UninitializedParameter", "is_lazy"]


class Uninitialized(Tensor):
    """A tensor without a shape. Its dtype and device can change, and it can become a tensor with a shape.

    It has no elements; accessing its array raises an error that says so.
    """

    __slots__ = ()
    __torch_function__ = _disabled_torch_function_impl
    #: The class after `materialize`.
    cls_to_become: ClassVar[type[Tensor]] = Tensor

    @property
    def _array(self) -> Any:
        raise ValueError(
            "Attempted to use an uninitialized parameter. This error happens when you are using a `LazyModule` or "
            f"explicitly manipulating `torch.nn.parameter.{self.__class__.__name__}` objects. When using LazyModules "
            "Call `forward` with a dummy batch to initialize the parameters before calling torch functions"
        )

    def materialize(
        self, shape: Sequence[int], device: DeviceLike | None = None, dtype: DTypeLike | None = None
    ) -> None:
        """Give the tensor a shape, a device and a dtype. Its values are then arbitrary.

        Parameters
        ----------
        shape : tuple of int
        device, dtype
            The device and dtype, by default those with which the tensor was created.
        """
        device, dtype = self._device if device is None else device, self._dtype if dtype is None else dtype
        self.__class__ = self.cls_to_become  # type: ignore[assignment]
        self.data = empty(tuple(shape), device=device, dtype=dtype)

    @property
    def shape(self) -> Any:
        """Shape of the tensor; raises an error, as it is unknown.

        Raises
        ------
        RuntimeError
            Always.
        """
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` "
            "to initialize the parameters before accessing their attributes."
        )

    def share_memory_(self) -> Any:
        """Raise an error, as there is no memory to share.

        Raises
        ------
        RuntimeError
            Always.
        """
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    # -- methods that modules call on their parameters ----------------------------------------------------------------

    @Tensor.data.getter  # type: ignore[attr-defined, untyped-decorator]
    def data(self) -> Any:
        """Return an empty tensor. Assigning a tensor sets the device and the dtype."""
        return empty(0, device=self._device, dtype=self._dtype)

    def _set_data(self, value: Tensor) -> None:
        self._device, self._dtype = value.device, value.dtype

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Return a parameter of the same kind with another device or dtype."""
        device, dtype, _, _ = parse_to(self, args, kwargs)
        return self.__class__(self.requires_grad, device, dtype)

    def cpu(self) -> Any:
        """Return a parameter of the same kind on the CPU."""
        return self.to("cpu")

    def cuda(self, device: DeviceLike | None = None, non_blocking: bool = False) -> Any:
        """Return a parameter of the same kind on a CUDA device."""
        return self.to("cuda" if device is None else device)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return a parameter of the same kind with another dtype, or the name of its type if `dtype` is None."""
        return super().type() if dtype is None else self.to(dtype)

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__}>"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return self.__class__, (self.requires_grad,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = self.__class__(self.requires_grad, self._device, self._dtype)
        return memo[id(self)]


def _conversion(name: str) -> Any:
    def convert(self: Uninitialized) -> Any:
        return self.to(getattr(dtypes, name))

    convert.__doc__ = f"Return a parameter of the same kind with the dtype {name}."
    return convert


for _method, _dtype in (("double", "float64"), ("float", "float32"), ("half", "float16"), ("bfloat16", "bfloat16")):
    setattr(Uninitialized, _method, _conversion(_dtype))


class UninitializedParameter(Uninitialized, Parameter):
    """A parameter whose shape is still unknown.

    Parameters
    ----------
    requires_grad : bool
        Whether it is trained.
    device, dtype
        The device and dtype of its future values.

    Examples
    --------
    >>> import gradcore
    >>> p = gradcore.nn.UninitializedParameter()
    >>> p
    <UninitializedParameter>
    >>> p.materialize((2, 3))
    >>> type(p).__name__, p.shape
    ('Parameter', torch.Size([2, 3]))
    """

    __slots__ = ()
    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: DeviceLike | None = None, dtype: DTypeLike | None = None
    ) -> UninitializedParameter:
        out: Any = Parameter(empty(0, device=device, dtype=dtype), requires_grad)
        out.__class__ = cls
        return out  # type: ignore[no-any-return]


class UninitializedBuffer(Uninitialized):
    """A buffer whose shape is still unknown.

    Parameters
    ----------
    requires_grad : bool
    device, dtype
        The device and dtype of its future values.
    persistent : bool
        Whether it is part of the module's `state_dict`.

    Examples
    --------
    >>> import gradcore as gc
    >>> buffer = gc.nn.UninitializedBuffer()
    >>> buffer.materialize((2, 3))
    >>> buffer.shape
    torch.Size([2, 3])
    """

    __slots__ = ()

    def __new__(
        cls,
        requires_grad: bool = False,
        device: DeviceLike | None = None,
        dtype: DTypeLike | None = None,
        persistent: bool = True,
    ) -> UninitializedBuffer:
        out: Any = empty(0, device=device, dtype=dtype, requires_grad=requires_grad)
        out.__class__ = cls
        out.persistent = persistent
        return out  # type: ignore[no-any-return]


def is_lazy(param: Any) -> bool:
    """Return whether `param` is a parameter or buffer whose shape is still unknown."""
    return isinstance(param, Uninitialized)
