"""The class of tensors: an array, its device, its dtype and its node in the graph."""

from __future__ import annotations

import math
import opcode
import sys
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gradcore import functional
from gradcore.autograd import gradients, graph, variables
from gradcore.autograd.forward import innermost_of
from gradcore.autograd.modes import GRAD, INFERENCE, local
from gradcore.autograd.node import RemovableHandle
from gradcore.autograd.variables import OWN, PLAIN_TYPES, AutogradMeta, Variable, alias, new_leaf_meta, shape_of
from gradcore.autograd.views import chain_of, gradient_edge, replay, requires_grad
from gradcore.backends.numpy.headers import own_header
from gradcore.backends.registry import CPU
from gradcore.core import dtypes
from gradcore.core.errors import history_lost, scipy_advice
from gradcore.core.size import Size, size_of
from gradcore.core.tracebacks import shorten
from gradcore.core.typing import AnyTensor
from gradcore.dispatch.settings import setting
from gradcore.ops.declare.shapes import wrap_dim
from gradcore.tensor import pickling
from gradcore.tensor.methods import Methods
from gradcore.tensor.representation import text_of

if TYPE_CHECKING:
    from gradcore.core.device import device

__all__ = ["Tensor"]


# -- attributes that may be assigned ----------------------------------------------------------------------------------


def _set_requires_grad(t: AnyTensor, on: bool) -> None:
    """Start or stop recording operations on a leaf."""
    if not isinstance(on, bool):
        raise RuntimeError("requires_grad must be a bool")
    if not t.is_leaf:
        hint = (
            "" if on else " If you want to use a computed variable in a subgraph that doesn't require "
            "differentiation use var_no_grad = var.detach()."
        )  # fmt: skip
        raise RuntimeError(f"you can only change requires_grad flags of leaf variables.{hint}")
    if on and not t._dtype.is_differentiable:
        raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
    if t._autograd is None:
        if not on:
            return
        t._autograd = new_leaf_meta()
    if on and t._autograd.inference and not local.state.mode & INFERENCE:
        raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
    t._autograd.requires_grad = on


def _set_grad_dtype(t: AnyTensor, dtype: dtypes.dtype | None) -> None:
    """Set the dtype of a leaf's gradient; None allows any."""
    if not t.is_leaf:
        raise RuntimeError("grad_dtype can only be set on leaf tensors.")
    if dtype is not None and not isinstance(dtype, dtypes.dtype):
        raise RuntimeError(f"grad_dtype must be a torch.dtype or None, but got {type(dtype).__name__}")
    grad = t._grad
    if grad is not None and dtype is not None and grad._dtype is not dtype:
        raise RuntimeError(
            f"Cannot set grad_dtype to '{dtype.name}' because there is already a gradient with dtype "
            f"'{grad._dtype.name}'. Please clear the gradient (.grad = None) before changing grad_dtype, or "
            "ensure the new grad_dtype matches the existing gradient's dtype."
        )
    if t._autograd is None:
        t._autograd = AutogradMeta()
    t._autograd.grad_dtype, t._autograd.observed = dtype, True
    edge = gradient_edge(t)
    if edge is not None:
        edge[0]._own_hooks()  # leaves without hooks take a shorter path


def _check_data(t: AnyTensor, value: Any) -> None:
    """Raise if `value` cannot become the data of `t`, because only one of them is a meta tensor."""
    if isinstance(value, Variable) and (t._device.type == "meta") != (value._device.type == "meta"):
        raise RuntimeError(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor "
            f"type: they are on {t._device.type!r} and {value._device.type!r}. Call module.to_empty(device=...), or "
            "make a new tensor."
        )


def _set_data(t: AnyTensor, value: Any) -> None:
    """Give a tensor the memory of another one, without its history."""
    if not isinstance(value, Variable):
        raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    if t.requires_grad and not value._dtype.is_differentiable:
        raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
    t._array, t._device, t._dtype = value._array, value._device, value._dtype


def _check_grad(t: AnyTensor, grad: Any) -> None:
    """Raise if `grad` cannot be the gradient of `t`."""
    if not isinstance(grad, Variable):
        raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(grad).__name__}")
    if grad is t:
        raise RuntimeError("can't assign Variable as its own grad")
    required = t._dtype if t._autograd is None or t._autograd.grad_dtype is OWN else t._autograd.grad_dtype
    if required is not None and grad._dtype is not required:
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{grad._dtype.name}' to a tensor with grad_dtype "
            f"'{required.name}'. The gradient must match the tensor's grad_dtype (defaults to the tensor's dtype). You "
            "can set the tensor's grad_dtype attribute with a specific dtype, or None to allow any dtype. Set "
            "grad_dtype with caution. Diverging the dtypes of a tensor and its gradient may break downstream systems "
            "that assume they match."
        )
    if grad._device is not t._device:
        if grad._device.type != t._device.type:
            raise RuntimeError(
                f"attempting to assign a gradient with device type '{grad._device.type}' to a tensor with device type "
                f"'{t._device.type}'. Please ensure that the gradient and the tensor are on the same device"
            )
        raise RuntimeError(
            f"attempting to assign a gradient located on device '{grad._device}' to a tensor located on device "
            f"'{t._device}'. Please ensure that the gradient and the tensor are on the same device"
        )
    if shape_of(grad) != t._array.shape:
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(shape_of(grad))}' to a tensor of size "
            f"'{list(t._array.shape)}'. Please ensure that the gradient and the tensor are the same size"
        )


def _warn_of_no_leaf() -> None:
    """Warn that `.grad` of a tensor was read that is neither a leaf nor retains its gradient."""
    warnings.warn(
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
        "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
        "Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure "
        "you access the leaf Tensor instead.",
        stacklevel=3,
    )


# -- the tensor --------------------------------------------------------------------------------------------------------


class Tensor(Variable, Methods):
    """A multi-dimensional array that lives on a device and remembers how it was computed.

    Tensors are created by `gradcore.tensor`, `gradcore.zeros` and similar functions, and by operations. The methods
    that are operations are documented with the functions of the same name.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    __slots__ = ()
    __module__ = "gradcore.tensor"

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        return functional.legacy_tensor(cls, *args, **kwargs)  # type: ignore[no-any-return]

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """Sizes of the dims."""
        return size_of(self._array.shape)

    @property
    def dtype(self) -> dtypes.dtype:
        """Type of the elements."""
        return self._dtype

    @property
    def device(self) -> device:
        """Device of the data."""
        return self._device.real  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return self._array.ndim  # type: ignore[no-any-return]

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the size of one dim."""
        return size_of(self._array.shape) if dim is None else self._array.shape[_place(self, "size", dim)]

    def dim(self) -> int:
        """Return the number of dims."""
        return self._array.ndim  # type: ignore[no-any-return]

    ndimension = dim

    def numel(self) -> int:
        """Return the number of elements."""
        return self._array.size  # type: ignore[no-any-return]

    nelement = numel

    def element_size(self) -> int:
        """Return the bytes per element."""
        return self._dtype.itemsize

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self._dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._dtype.itemsize * self.numel()

    def stride(self, dim: int | None = None) -> Any:
        """Return the strides in elements, or that of one dim."""
        array = self._array
        if array.size or any(array.strides):
            strides = tuple(s // array.itemsize for s in array.strides)
        else:
            # NumPy's strides of empty arrays are zero.
            strides = tuple(math.prod(max(n, 1) for n in array.shape[i + 1 :]) for i in range(array.ndim))
        return strides if dim is None else strides[_place(self, "stride", dim)]

    def storage_offset(self) -> int:
        """Return the number of elements in the storage before the tensor's first one."""
        return int(self._device.backend.geometry_of(self._array)[1])

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return 0 if self.is_meta else int(self._device.backend.address(self._array))

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Return whether the elements lie in memory in the order of their indices."""
        return bool(self._array.flags.c_contiguous)

    def is_floating_point(self) -> bool:
        """Return whether the dtype is a floating-point type."""
        return self._dtype.is_floating_point

    def is_complex(self) -> bool:
        """Return whether the dtype is complex."""
        return self._dtype.is_complex

    def is_signed(self) -> bool:
        """Return whether the dtype has negative numbers."""
        return self._dtype.is_signed

    @property
    def is_cuda(self) -> bool:
        """Whether the data lies on a CUDA device."""
        return bool(self._device.type == "cuda")

    @property
    def is_cpu(self) -> bool:
        """Whether the data lies in the memory of the CPU."""
        return bool(self._device.type == "cpu")

    @property
    def is_meta(self) -> bool:
        """Whether the tensor has a shape and a dtype, but no data."""
        return bool(self._device.type == "meta")

    def get_device(self) -> int:
        """Return the device's index; -1 on the CPU."""
        return -1 if self._device.index is None else self._device.index

    # -- its node in the graph ----------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether operations on this tensor are recorded."""
        return requires_grad(self)

    @requires_grad.setter
    def requires_grad(self, on: bool) -> None:
        _set_requires_grad(self, on)

    @requires_grad.deleter
    def requires_grad(self) -> None:
        raise RuntimeError("requires_grad must be a bool")

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Start or stop recording operations on this tensor, and return it."""
        requires_grad = setting("requires_grad_", "requires_grad", "bool", 0).take(requires_grad)
        if requires_grad and not self._dtype.is_differentiable:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if not requires_grad or self.is_leaf:
            self.requires_grad = requires_grad
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor was created by the user, not by a recorded operation."""
        edge = gradient_edge(self)
        return edge is None or edge[0].is_graph_input

    @property
    def grad_fn(self) -> Any:
        """The node that computed this tensor; None for leaves."""
        edge = gradient_edge(self)
        if edge is None or edge[0].is_graph_input:
            return None
        return edge[0]

    @property
    def output_nr(self) -> int:
        """Output number of this tensor at its node."""
        edge = gradient_edge(self)
        return 0 if edge is None else edge[1]

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient of a leaf, or of a tensor that retains it."""
        meta = self._autograd
        if meta is None or meta.grad is None:
            if (
                self._edge is not None
                and not self._edge[0].is_graph_input
                and not (meta is not None and meta.retains_grad)
            ):
                _warn_of_no_leaf()
            return None
        return meta.grad  # type: ignore[no-any-return]

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            _check_grad(self, value)
        elif self._autograd is None:
            return
        if self._autograd is None:
            self._autograd = AutogradMeta()
        self._autograd.grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def grad_dtype(self) -> dtypes.dtype | None:
        """The dtype of the gradient of this leaf, by default its own; None allows any.

        Gradients are cast to it before hooks see them and before they are added to ``.grad``.
        """
        if not self.is_leaf:
            raise RuntimeError("grad_dtype can only be accessed on leaf tensors.")
        meta = self._autograd
        return self._dtype if meta is None or meta.grad_dtype is OWN else meta.grad_dtype

    @grad_dtype.setter
    def grad_dtype(self, dtype: dtypes.dtype | None) -> None:
        _set_grad_dtype(self, dtype)

    @property
    def data(self) -> Tensor:
        """The same memory as a tensor without history, with a version counter of its own."""
        out = alias(self, None)
        out._vc = None
        return out  # type: ignore[no-any-return]

    @data.setter
    def data(self, value: Tensor) -> None:
        _check_data(self, value)
        self._set_data(value)

    @data.deleter
    def data(self) -> None:
        raise RuntimeError("Deleting tensor data is not allowed. Delete tensor instead!")

    #: Take the memory of another tensor, also across `meta`.
    _set_data = _set_data

    @property
    def retains_grad(self) -> bool:
        """Whether ``.grad`` of this non-leaf tensor is kept."""
        return self._autograd is not None and self._autograd.retains_grad

    def retain_grad(self) -> None:
        """Keep ``.grad`` of this non-leaf tensor in backward."""
        graph.retain_grad(self)

    def register_hook(self, hook: Any) -> RemovableHandle:
        """Call ``hook(grad)`` whenever the gradient of this tensor is computed.

        Parameters
        ----------
        hook : callable
            May return a tensor that replaces the gradient; must not change its argument in place.

        Returns
        -------
        RemovableHandle

        Raises
        ------
        RuntimeError
            If the tensor does not require grad.
        """
        return graph.register_hook(self, hook)

    def register_post_accumulate_grad_hook(self, hook: Any) -> RemovableHandle:
        """Call ``hook(tensor)`` after ``tensor.grad`` of this leaf has been updated."""
        return graph.register_post_accumulate_hook(self, hook)

    @property
    def _backward_hooks(self) -> Any:
        return graph.tensor_hooks(self)

    @_backward_hooks.deleter
    def _backward_hooks(self) -> None:
        raise RuntimeError("Deletion of _backwards_hooks not allowed!")

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Compute the gradients of the leaves that this tensor depends on; see `gradcore.autograd.backward`."""
        try:
            gradients.backward(self, gradient, retain_graph, create_graph, inputs=inputs)
        except BaseException as error:
            shorten(error)
            raise

    def detach(self) -> Tensor:
        """Return the same memory as a tensor without history, with the same version counter."""
        return _detach(self)  # type: ignore[no-any-return]

    def detach_(self) -> Tensor:
        """Forget this tensor's history."""
        if self._is_view():
            raise RuntimeError(
                "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for "
                "training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence "
                "detach_() cannot be called on these gradients."
            )
        if self._autograd is not None and self._autograd.inference and local.state.mode & INFERENCE:
            return self  # Inference mode records nothing.
        self._edge = None
        if self._autograd is not None:
            self._autograd.requires_grad = False
            self._autograd.tangents = None
        return self

    @property
    def _version(self) -> int:
        if self._autograd is not None and self._autograd.inference:
            raise RuntimeError("Inference tensors do not track version counter.")
        return 0 if self._vc is None else self._vc.version

    @property
    def _base(self) -> Tensor | None:
        return None if self._autograd is None else self._autograd.base

    def _view_func(self, new_base: Tensor) -> Tensor | None:
        """Return the same view of `new_base`, or None.

        None is returned if this is no view, or if `new_base` is not like its base.
        """
        base = self._base
        if base is None or base._array.shape != new_base._array.shape:
            return None
        return replay(new_base, chain_of(self))  # type: ignore[no-any-return]

    def _is_view(self) -> bool:
        return self._base is not None

    @property
    def _grad(self) -> Tensor | None:
        return None if self._autograd is None else self._autograd.grad

    @_grad.setter
    def _grad(self, value: Tensor | None) -> None:
        self.grad = value

    @property
    def _grad_fn(self) -> Any:
        return self.grad_fn

    @_grad_fn.deleter
    def _grad_fn(self) -> None:
        raise RuntimeError("Deletion of _grad_fn not allowed. Detach tensor instead!")

    def is_inference(self) -> bool:
        """Return whether the tensor was created in inference mode."""
        return self._autograd is not None and self._autograd.inference

    # -- to other devices, dtypes and libraries -------------------------------------------------------------------

    def __round__(self, ndigits: int | None = None) -> Tensor:
        return functional.round(self, decimals=ndigits or 0)  # type: ignore[no-any-return]

    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return other // self, other % self

    def cpu(self) -> Tensor:
        """Return the tensor in the memory of the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Tensor:
        """Return the tensor on a CUDA device, by default the current one."""
        return self.to("cuda" if device is None else device, non_blocking=non_blocking)

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """Return the data as a NumPy array that shares memory with this CPU tensor.

        Raises
        ------
        RuntimeError
            If the tensor requires grad and operations are recorded (use ``.detach().numpy()``).
        TypeError
            If it does not lie on the CPU (use ``.cpu()``).
        """
        if force:
            return self.detach().cpu().numpy()
        if (self._edge is not None or self._autograd is not None) and is_differentiated(self):
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead." + scipy_advice()
            )
        if self._device.levels:
            return self._read_on_host()  # type: ignore[no-any-return]  # which says why not
        if self._device is not CPU:
            raise TypeError(
                f"can't convert {self._device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
                "host memory first."
            )
        return own_header(self._array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError("a copy is needed to convert the dtype")
            return array.astype(dtype)
        return array.copy() if copy else array

    def host(self) -> np.ndarray[Any, Any]:
        """Return the data as a NumPy array, copied from the device if necessary, whatever the history."""
        result = self._read_on_host()
        return own_header(result) if result is self._array else result

    def _read_on_host(self) -> Any:
        """Return the data as a NumPy array to read from at once; on the CPU it is the tensor's own array."""
        return self._device.backend.to_host(self._array)

    def item(self) -> bool | int | float:
        """Return the only element as a Python number (a complex one for complex dtypes)."""
        if self._array.size != 1:
            raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        if self.is_meta:
            raise RuntimeError("Tensor.item() cannot be called on meta tensors")
        return self._device.backend.item(self._array)  # type: ignore[no-any-return]

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers."""
        return self._read_on_host().tolist()

    def __bool__(self) -> bool:
        if self._array.size != 1:
            if not self._array.size:
                raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        return bool(self._array if self._device.levels else self.item())

    def is_nonzero(self) -> bool:
        """Return whether the only element is not zero."""
        return bool(self)

    def __int__(self) -> int:
        return int(self._real("int64_t"))

    def __float__(self) -> float:
        return float(self._real("double", sys._getframe(1)))

    def __complex__(self) -> complex:
        return complex(self._single_element(sys._getframe(1)))

    def _single_element(self, caller: FrameType | None = None) -> Any:
        """Return the single element, for `int()`, `float()`, ...; `caller` is a frame whose call loses history."""
        if caller is not None and (self._edge is not None or self._autograd is not None) and is_differentiated(self):
            history_lost("element" if _stores(caller) else "number")
        if self._array.size != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        return self.item()

    def _real(self, kind: str, caller: FrameType | None = None) -> Any:
        """Return the single element; for a complex tensor, its real part if the imaginary part is zero."""
        value = self._single_element(caller)
        if isinstance(value, complex):
            if value.imag:
                raise RuntimeError(f"value cannot be converted to type {kind} without overflow")
            return value.real
        return value

    def __index__(self) -> int:
        if self._dtype.is_differentiable or self._array.size != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __len__(self) -> int:
        if not self._array.ndim:
            raise TypeError("len() of a 0-d tensor")
        return int(self._array.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        if not self._array.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return iter(functional.unbind(self, 0))

    def __reversed__(self) -> Tensor:
        return functional.flip(self, (0,)) if self.ndim else self

    def __contains__(self, element: Any) -> bool:
        if isinstance(element, (Tensor, bool, int, float, complex)):
            return bool((self == element).any())
        raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")

    def __hash__(self) -> int:
        return id(self)

    # -- copies -------------------------------------------------------------------------------------------------

    def __copy__(self) -> Tensor:
        return pickling.shallow_copy(self)  # type: ignore[no-any-return]

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return pickling.deep_copy(self, memo)  # type: ignore[no-any-return]

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return pickling.reduce_tensor(self)

    # -- printing -------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return text_of(self)

    def __format__(self, spec: str) -> str:
        return self.item().__format__(spec) if not self.ndim and not self.is_meta else object.__format__(self, spec)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), "__dict__", "__weakref__"} - _UNLISTED)

    # -- NumPy's and CuPy's protocols: record, or refuse; never drop the graph ----------------------------------------

    __array_priority__ = 1000

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return functional.call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return functional.call_array_function(func, args, kwargs)

    def __cupy_override_elementwise_kernel__(self, kernel: Any, *args: Any, **kwargs: Any) -> Any:
        return functional.call_cupy_kernel(kernel, args, kwargs)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Return the namespace of the array API standard."""
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
            raise ValueError(f"gradcore.array_api follows version 2024.12 of the standard, not {api_version!r}")
        return functional.array_api_namespace()

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """Return the tensor on another device: `to` under the name of the array API standard."""
        return functional.to(self, device)

    # -- protocols by which other libraries share the memory: only where there is no history to lose ---------------

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return functional.cuda_array_interface(self)  # type: ignore[no-any-return]

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        arguments = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        return functional.dlpack(self, {name: value for name, value in arguments.items() if value is not None})

    def __dlpack_device__(self) -> tuple[int, int]:
        return functional.exported_array(self).__dlpack_device__()  # type: ignore[no-any-return]


def _place(t: AnyTensor, function: str, dim: Any) -> int:
    """Return the index of a dim counted from the front."""
    if not t._array.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return wrap_dim(setting(function, "dim", "int", 0).take(dim), t._array.ndim)


def is_differentiated(t: AnyTensor) -> bool:
    """Return whether a tensor requires grad or has a tangent."""
    state = local.state
    return bool(state.mode & GRAD and requires_grad(t)) or bool(state.levels and innermost_of((t,)) is not None)


def _stores(frame: FrameType) -> bool:
    """Return whether `frame` runs ``a[i] = value``, for which arrays call ``float(value)``."""
    return frame.f_code.co_code[frame.f_lasti] == _STORE


#: Names that `dir` leaves out: private attributes, and protocols that no user calls. Python suggests corrections of
#: misspelled names only if there are at most 750, and each new operation adds one or two.
_UNLISTED = {
    "_array", "_autograd", "_device", "_dtype", "_edge", "_execution_engine", "_read_on_host", "_real", "_set_data",
    "_single_element", "_strided", "_vc",
    "__array_namespace__", "__cupy_override_elementwise_kernel__",
}  # fmt: skip
_STORE = opcode.opmap["STORE_SUBSCR"]


def _detach(t: AnyTensor) -> Any:
    out = alias(t, None)
    meta = t._autograd
    if meta is not None and (meta.base is not None or meta.inference):
        out._autograd = AutogradMeta()
        out._autograd.inference = meta.inference
    return out


variables.tensor_class = Tensor
PLAIN_TYPES.add(Tensor)
