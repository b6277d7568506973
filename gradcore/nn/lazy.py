"""Lazy modules, which infer the size of their inputs from the first call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from gradcore.autograd.grad_mode import no_grad
from gradcore.core.typing import AnyTensor
from gradcore.nn import convolution, normalization
from gradcore.nn.docstrings import Docstring
from gradcore.nn.lazy_parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from gradcore.nn.linear import Linear
from gradcore.nn.module import Module
from gradcore.tensor import Tensor

__all__ = ["LazyLinear", "LazyModuleMixin"]


class LazyModuleMixin:
    """Mixin of lazy modules. The first call, or loading a state, determines the shapes of their parameters.

    A subclass defines `initialize_parameters`, which is called with the inputs of the first call.

    Attributes
    ----------
    cls_to_become : type, optional
        The class of the module afterwards.
    """

    cls_to_become: ClassVar[type[Module] | None] = None

    def __init__(self: AnyTensor, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)
        self._register_load_state_dict_pre_hook(self._lazy_load_hook)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Set the shapes and initial values of the parameters, given the inputs of the first call."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self: AnyTensor) -> bool:
        """Return whether the shape of a parameter or buffer is still unknown."""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))

    def _infer_parameters(self: AnyTensor, module: Any, args: Any, kwargs: Any = None) -> None:
        """Set missing shapes before the first forward. This is a forward pre-hook."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        lazy_hooks = module._infer_parameters, module._lazy_load_hook
        for table in (module._forward_pre_hooks, module._load_state_dict_pre_hooks):
            for key in [k for k, hook in table.items() if getattr(hook, "call", hook) in lazy_hooks]:
                del table[key]
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _lazy_load_hook(self: AnyTensor, state_dict: Any, prefix: str, *others: Any) -> None:
        """Give parameters without a shape the shapes in a state dict, before it is loaded."""
        for name, tensor in (*self._parameters.items(), *self._buffers.items()):
            saved = state_dict.get(prefix + name)
            if is_lazy(tensor) and saved is not None and not is_lazy(saved):
                with no_grad():
                    tensor.materialize(saved.shape)

    def _replicate_for_data_parallel(self) -> Any:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy forward pass to "
            "correctly initialize the modules"
        )


class _Lazy(LazyModuleMixin):
    """A layer without the number of its input features or channels, which is 0 until it is known."""

    #: The name of the attribute that holds the number of input features or channels.
    _size: ClassVar[str]

    def __init__(self: AnyTensor, *args: Any, **kwargs: Any) -> None:
        super().__init__(0, *args, **kwargs)
        for name, p in self._parameters.items():
            if p is not None:
                setattr(self, name, UninitializedParameter(device=p.device, dtype=p.dtype))
        for name, b in list(self._buffers.items()):
            if b is not None and b.ndim:
                setattr(self, name, UninitializedBuffer(device=b.device, dtype=b.dtype))

    def reset_parameters(self: AnyTensor) -> None:
        """Draw new parameters at random, if their shapes are known."""
        if not self.has_uninitialized_params() and getattr(self, self._size):
            super().reset_parameters()  # type: ignore[misc]

    def _size_of(self, input: Tensor) -> int:
        size: int = input.shape[1]
        return size

    def _shape_of(self: AnyTensor, name: str) -> tuple[int, ...]:
        raise NotImplementedError

    def initialize_parameters(self: AnyTensor, input: Tensor, *others: Any, **settings: Any) -> None:
        """Set the shapes and initial values of the parameters, given the inputs of the first call."""
        is_uninitialized = self.has_uninitialized_params()
        if is_uninitialized or not getattr(self, self._size):
            setattr(self, self._size, self._size_of(input))
        if is_uninitialized:
            with no_grad():
                for name, tensor in (*self._parameters.items(), *self._buffers.items()):
                    if is_lazy(tensor):
                        tensor.materialize(self._shape_of(name))
                self.reset_parameters()


class LazyLinear(_Lazy, Linear):
    """A `Linear` layer that infers `in_features` from its first input.

    Parameters
    ----------
    out_features : int
        Size of the last dim of outputs.
    bias : bool
        Whether there is a bias.
    device, dtype
        The device and dtype of the parameters.

    Examples
    --------
    >>> import gradcore
    >>> layer = gradcore.nn.LazyLinear(3)
    >>> layer.weight
    <UninitializedParameter>
    >>> layer(gradcore.ones(5, 2)).shape
    torch.Size([5, 3])
    >>> layer
    Linear(in_features=2, out_features=3, bias=True)
    """

    cls_to_become = Linear
    _size = "in_features"

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(out_features, bias, device, dtype)

    def _size_of(self, input: Tensor) -> int:
        size: int = input.shape[-1]
        if not is_lazy(self.weight) and size != self.weight.shape[-1]:
            raise AssertionError(
                f"The in_features inferred from input: {size} is not equal to in_features from self.weight: "
                f"{self.weight.shape[-1]}"
            )
        return size

    def _shape_of(self, name: str) -> tuple[int, ...]:
        return (self.out_features, self.in_features) if name == "weight" else (self.out_features,)


class _LazyOfChannels(_Lazy):
    _size = "in_channels"

    def _size_of(self: AnyTensor, input: Tensor) -> int:
        if input.ndim not in (self.n + 1, self.n + 2):
            raise RuntimeError(
                f"Expected {self.n + 1}D (unbatched) or {self.n + 2}D (batched) input to {type(self).__name__}, but "
                f"got input of size: {input.shape}"
            )
        channels: int = input.shape[-self.n - 1]
        if channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        return channels

    def _shape_of(self: AnyTensor, name: str) -> tuple[int, ...]:
        return self._weight_shape() if name == "weight" else (self.out_channels,)


class _LazyConv(_LazyOfChannels):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        )


class _LazyConvTranspose(_LazyOfChannels):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options = (padding_mode, device, dtype)
        super().__init__(out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation, *options)


class _LazyNorm(_Lazy):
    _size = "num_features"

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _size_of(self: AnyTensor, input: Tensor) -> int:
        self._check_input_dim(input)
        return super()._size_of(input)

    def _shape_of(self: AnyTensor, name: str) -> tuple[int, ...]:
        return (self.num_features,)


def _make_lazy(mixin: type[_Lazy], base: type[Module]) -> type[Module]:
    doc = f"A `{base.__name__}` that learns `{mixin._size}` from its first input, and takes its other settings."
    body = {"cls_to_become": base, "__module__": "gradcore.nn", "__doc__": Docstring(doc)}
    return type(f"Lazy{base.__name__}", (mixin, base), body)


def _mixin(name: str) -> type[_Lazy]:
    return _LazyConvTranspose if "Transpose" in name else _LazyConv if "Conv" in name else _LazyNorm


MADE = {
    cls.__name__: cls
    for cls in (_make_lazy(_mixin(name), base) for name, base in {**convolution.MADE, **normalization.MADE}.items())
}
globals().update(MADE)
__all__ += sorted(MADE)

if TYPE_CHECKING:  # the classes that were made

    def __getattr__(name: str) -> Any: ...
