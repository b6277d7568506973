"""Normalization layers, with learned scales and running statistics."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from gradcore.autograd.grad_mode import no_grad
from gradcore.core import dtypes
from gradcore.dispatch.settings import setting
from gradcore.nn import functional as F
from gradcore.nn.docstrings import Docstring
from gradcore.nn.init import ones_, zeros_
from gradcore.nn.module import Module, count_dims
from gradcore.nn.parameter import Parameter
from gradcore.tensor import Tensor
from gradcore.tensor.creation import empty, ones, tensor, zeros

__all__ = ["GroupNorm", "LayerNorm", "RMSNorm", "SyncBatchNorm"]


def sizes_of(shape: Any) -> tuple[int, ...]:
    """Return the sizes of the last dims as a tuple, given one number or several."""
    several = isinstance(shape, (tuple, list)) or getattr(shape, "ndim", 0) > 0
    sizes = setting("layer_norm", "normalized_shape", "Ints").take(tuple(shape) if several else shape)
    return (sizes,) if isinstance(sizes, int) else sizes


class _Affine(Module):
    """Base class of normalization layers with weight and bias."""

    weight: Tensor | None
    bias: Tensor | None

    def _add(self, shape: tuple[int, ...], weight: bool, bias: bool, device: Any, dtype: Any) -> None:
        for name, exists in (("weight", weight), ("bias", bias)):
            parameter = Parameter(empty(shape, device=device, dtype=dtype)) if exists else None
            self.register_parameter(name, parameter)

    def reset_parameters(self) -> None:
        """Set the weights to one and the biases to zero."""
        if self.weight is not None:
            ones_(self.weight)
        if self._parameters.get("bias") is not None:
            zeros_(self._parameters["bias"])  # type: ignore[arg-type]


class LayerNorm(_Affine):
    """`gradcore.nn.functional.layer_norm` with learned weights and biases.

    Parameters
    ----------
    normalized_shape : int or tuple of int
        The sizes of the last dims, over which is normalized.
    eps : float
    elementwise_affine : bool
        Whether there are factors.
    bias : bool
        Whether there are offsets as well.
    device, dtype
        The device and dtype of the parameters.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.LayerNorm(3)(gc.tensor([[0.0, 1.0, 2.0]])).detach()
    tensor([[-1.2247,  0.0000,  1.2247]])
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = sizes_of(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._add(self.normalized_shape, elementwise_affine, elementwise_affine and bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalized input."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(_Affine):
    """`gradcore.nn.functional.rms_norm` with learned weights.

    Parameters
    ----------
    normalized_shape : int or tuple of int
        The sizes of the last dims, over which is normalized.
    eps : float, optional
    elementwise_affine : bool
        Whether there are factors.
    device, dtype
        The device and dtype of the factors.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.RMSNorm(2)(gc.tensor([[3.0, 4.0]])).detach()
    tensor([[0.8485, 1.1314]])
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = sizes_of(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        weight = Parameter(ones(self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", weight)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalized input."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Affine):
    """`gradcore.nn.functional.group_norm` with learned weights and biases.

    Parameters
    ----------
    num_groups : int
        The number of groups into which the channels are divided.
    num_channels : int
    eps : float
    affine : bool
        Whether there are factors.
    device, dtype
        The device and dtype of the parameters.
    bias : bool
        Whether there are offsets as well.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.GroupNorm(2, 4)(gc.tensor([[1.0, 3.0, 10.0, 30.0]])).detach()
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self._add((num_channels,), affine, affine and bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalized input."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


# -- with running statistics --------------------------------------------------------------------------------------


class _Running(_Affine):
    """Base class of normalization layers with a running mean and variance.

    Parameters
    ----------
    num_features : int
        The number of channels.
    eps : float
    momentum : float or None
        The weight of a new batch in the running statistics; with None, all batches have equal weight.
    affine : bool
        Whether there are factors.
    track_running_stats : bool
        Whether there are running statistics, which are used in evaluation mode.
    device, dtype
        The device and dtype of the parameters.
    bias : bool
        Whether there are offsets as well.
    """

    #: The numbers of dims that an input may have, including the batch.
    ndims: tuple[int, ...]
    #: Since version 2, the state contains the number of batches.
    _version = 2
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self._add((num_features,), affine, affine and bias, device, dtype)
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", ones(num_features, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("num_batches_tracked", tensor(0, dtype=dtypes.int64, device=device) if tracked else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Set the running mean to zero and the running variance to one."""
        for name, value in (("running_mean", 0), ("running_var", 1), ("num_batches_tracked", 0)):
            buffer = self._buffers[name]
            if buffer is not None:
                buffer.fill_(value)

    def reset_parameters(self) -> None:
        """Set the weights and the running variance to one, the biases and the running mean to zero."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check_input_dim(self, input: Tensor) -> None:
        if count_dims(self, "input", input) not in self.ndims:
            expected = " or ".join(f"{n}D" for n in self.ndims)
            raise ValueError(f"expected {expected} input (got {input.ndim}D input)")

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *others: Any) -> None:
        key = f"{prefix}num_batches_tracked"
        if (local_metadata.get("version") or 0) < 2 and self.num_batches_tracked is not None:
            count = self.num_batches_tracked
            state_dict.setdefault(key, tensor(0, dtype=dtypes.int64) if count.is_meta else count)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_Running):
    def forward(self, input: Tensor) -> Tensor:
        """Return the input, normalized over all dims except the channels."""
        self._check_input_dim(input)
        momentum = self._count_batch()
        by_batch = self.training or self.running_mean is None
        uses_statistics = not self.training or self.track_running_stats
        mean: Any = self.running_mean if uses_statistics else None
        var: Any = self.running_var if uses_statistics else None
        return F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, momentum, self.eps)

    def _count_batch(self) -> float:
        """Count a batch, and return its weight in the running statistics."""
        momentum: float = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1 / float(self.num_batches_tracked)
        return momentum


class _InstanceNorm(_Running):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return the input, with each channel of each sample normalized."""
        self._check_input_dim(input)
        alone = input.ndim == self.ndims[0]  # one sample without a dim of batches
        channels = input.shape[0 if alone else 1]
        if self.affine and channels != self.num_features:
            raise ValueError(
                f"expected input's size at dim={0 if alone else 1} to match num_features ({self.num_features}), but "
                f"got: {channels}."
            )
        momentum = 0.0 if self.momentum is None else self.momentum
        out = F.instance_norm(
            input.unsqueeze(0) if alone else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            momentum,
            self.eps,
        )
        return out.squeeze(0) if alone else out


def _make_layer(base: type[_Running], n: int, ndims: tuple[int, ...]) -> type[_Running]:
    kind = base.__name__.removeprefix("_")
    function = f"`gradcore.nn.functional.{kind.removesuffix('Norm').lower()}_norm` over {n} dim{'s' * (n > 1)}"
    doc = f"{function}, with parameters and running statistics.{(_Running.__doc__ or '').partition('share.')[2]}"
    body = {"ndims": ndims, "__module__": "gradcore.nn", "__doc__": Docstring(doc)}
    return type(f"{kind}{n}d", (base,), body)


class SyncBatchNorm(_BatchNorm):
    """Batch normalization over the batches of all processes, for any number of dims.

    The processes are those of `gradcore.distributed`. Derivatives of every order are available. With one process, and
    in evaluation mode, it equals `BatchNorm1d`, `BatchNorm2d` or `BatchNorm3d`.

    Parameters
    ----------
    num_features, eps, momentum, affine, track_running_stats
        See `BatchNorm2d`.
    process_group : ProcessGroup, optional
        The processes; by default all.
    device, dtype
        The device and dtype of the parameters.
    bias : bool
        Whether there are offsets as well.

    Examples
    --------
    >>> import gradcore
    >>> net = gradcore.nn.Sequential(gradcore.nn.Conv2d(1, 2, 3), gradcore.nn.BatchNorm2d(2))
    >>> gradcore.nn.SyncBatchNorm.convert_sync_batchnorm(net)[1]
    SyncBatchNorm(2, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if count_dims(self, "input", input) < 2:
            raise ValueError(f"expected at least 2D input (got {input.ndim}D input)")

    def forward(self, input: Tensor) -> Tensor:
        """Return the input, normalized over all dims except the channels, and over all processes."""
        from gradcore.distributed import groups
        from gradcore.distributed.nn.functional import all_reduce

        by_batch = self.training or self.running_mean is None
        if not by_batch or not groups.is_initialized() or groups.get_world_size(self.process_group) == 1:
            return super().forward(input)
        self._check_input_dim(input)
        dims = (0, *range(2, input.ndim))
        total = partial(all_reduce, group=self.process_group)
        numbers = [input.numel() // input.shape[1]] if input.shape[1] else [0]
        count = total(tensor(numbers)).item()
        if count == 1:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
        exact = input.float() if input.dtype.is_reduced else input
        channel_shape = (1, -1, *(1,) * (input.ndim - 2))
        mean = total(exact.sum(dims)) / count
        centered = exact - mean.view(channel_shape)
        var = total((centered * centered).sum(dims)) / count
        momentum = self._count_batch()
        if self.training and self.running_mean is not None and self.running_var is not None:
            with no_grad():
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
                self.running_var.lerp_((var * (count / (count - 1))).to(self.running_var.dtype), momentum)
        out: Tensor = centered * (var + self.eps).rsqrt().view(channel_shape)
        if self.weight is not None:
            out = out * self.weight.view(channel_shape)
        if self.bias is not None:
            out = out + self.bias.view(channel_shape)
        return out.to(input.dtype)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Replace the batch normalization layers in a module by `SyncBatchNorm`, with the same parameters and buffers.

        Parameters
        ----------
        module : Module
        process_group : ProcessGroup, optional
            The processes over which they normalize; by default all.
        """
        result = module
        if isinstance(module, _BatchNorm):
            result = cls.__new__(cls)
            result.__dict__.update(module.__dict__, process_group=process_group)
        for name, child in module.named_children():
            setattr(result, name, cls.convert_sync_batchnorm(child, process_group))
        return result


MADE = {
    cls.__name__: cls
    for n in (1, 2, 3)
    for cls in (
        _make_layer(_BatchNorm, n, (2, 3) if n == 1 else (n + 2,)),
        _make_layer(_InstanceNorm, n, (n + 1, n + 2)),
    )
}
globals().update(MADE)
__all__ += sorted(MADE)

if TYPE_CHECKING:  # the classes that were made

    def __getattr__(name: str) -> Any: ...
