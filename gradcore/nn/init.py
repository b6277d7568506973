"""Initialization of parameters: functions that fill a tensor in place, without being recorded."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

from gradcore import functional
from gradcore.autograd.grad_mode import no_grad
from gradcore.tensor import Tensor
from gradcore.tensor.creation import eye as identity_matrix
from gradcore.tensor.random import randperm
from gradcore.torch_names.overrides import overridable

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

_GAINS = {"sigmoid": 1, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}
_GAINS |= dict.fromkeys(["linear", *(f"{c}{n}d" for c in ("conv", "conv_transpose") for n in (1, 2, 3))], 1)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the recommended gain of initial weights before a nonlinearity, which keeps the scale of signals.

    Parameters
    ----------
    nonlinearity : str
        The name of the nonlinearity, such as ``"linear"``, ``"relu"``, ``"leaky_relu"``, ``"tanh"``.
    param : float, optional
        The negative slope of ``"leaky_relu"``.

    Returns
    -------
    float

    Examples
    --------
    >>> from gradcore import nn
    >>> round(nn.init.calculate_gain("leaky_relu", 0.2), 4)
    1.3868
    """
    if nonlinearity == "leaky_relu":
        if param is not None and (isinstance(param, bool) or not isinstance(param, (int, float))):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return _GAINS[nonlinearity]


def _matrix(tensor: Tensor) -> None:
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")


# -- given values -------------------------------------------------------------------------------------------------


@overridable
@no_grad()
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill the tensor with the value `val`.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.init.constant_(gc.empty(2), 0.5)
    tensor([0.5000, 0.5000])
    """
    return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill the tensor with ones.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.init.ones_(gc.empty(2))
    tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill the tensor with zeros.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.init.zeros_(gc.empty(2))
    tensor([0., 0.])
    """
    return constant_(tensor, 0.0)


@no_grad()
def eye_(tensor: Tensor) -> Tensor:
    """Fill the matrix with the identity.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.init.eye_(gc.empty(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    _matrix(tensor)
    identity = identity_matrix(*tensor.shape, dtype=tensor.dtype, device=tensor.device)
    return tensor.copy_(identity)


@no_grad()
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill the weight of a convolution so that it returns its input, for as many channels as it can.

    Parameters
    ----------
    tensor : Tensor
        Has 3, 4 or 5 dims.
    groups : int
        The number of groups of the convolution.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.init.dirac_(gc.empty(1, 1, 3))
    tensor([[[0., 1., 0.]]])
    """
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = tensor.shape[0] // groups
    middle = tuple(n // 2 for n in tensor.shape[2:])
    tensor.zero_()
    for group in range(groups):
        for channel in range(min(per_group, tensor.shape[1])):
            tensor[(group * per_group + channel, channel, *middle)] = 1
    return tensor


# -- random values ------------------------------------------------------------------------------------------------


@overridable
@no_grad()
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill the tensor with uniformly distributed numbers between `a` and `b`.

    Examples
    --------
    >>> import gradcore as gc
    >>> bool((gc.nn.init.uniform_(gc.empty(100), -1, 1).abs() <= 1).all())
    True
    """
    return tensor.uniform_(a, b, generator=generator)


@overridable
@no_grad()
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill the tensor with normally distributed numbers.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.init.normal_(gc.empty(3, 5), std=0.02).shape
    torch.Size([3, 5])
    """
    return tensor.normal_(mean, std, generator=generator)


def _cdf(x: float) -> float:
    return (1 + math.erf(x / math.sqrt(2))) / 2


@no_grad()
def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Fill the tensor with numbers from a normal distribution truncated to ``[a, b]``.

    Examples
    --------
    >>> import gradcore as gc
    >>> bool((gc.nn.init.trunc_normal_(gc.empty(100)).abs() <= 2).all())
    True
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be "
            "incorrect.",
            stacklevel=2,
        )
    # The inverse of the distribution function, at numbers that are uniform between its values at the bounds.
    low, high = _cdf((a - mean) / std), _cdf((b - mean) / std)
    tensor.uniform_(2 * low - 1, 2 * high - 1, generator=generator)
    return tensor.erfinv_().mul_(std * math.sqrt(2)).add_(mean).clamp_(min=a, max=b)


def _fans(tensor: Tensor) -> tuple[int, int]:
    """Return the fan-in and fan-out of a layer with this weight."""
    if tensor.ndim < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


_calculate_fan_in_and_fan_out = _fans


def _fan(tensor: Tensor, mode: str) -> int:
    modes = ["fan_in", "fan_out"]
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode.lower()} not supported, please use one of {modes}")
    return _fans(tensor)[modes.index(mode.lower())]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with uniform numbers whose variance is ``2 * gain**2 / (fan_in + fan_out)`` (Glorot and Bengio, 2010).

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.init.xavier_uniform_(gc.empty(3, 5)).shape
    torch.Size([3, 5])
    """
    bound = gain * math.sqrt(6 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with normal numbers whose variance is ``2 * gain**2 / (fan_in + fan_out)`` (Glorot and Bengio, 2010).

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.init.xavier_normal_(gc.empty(3, 5)).shape
    torch.Size([3, 5])
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(_fans(tensor))), generator)


def _kaiming(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float | None:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return None
    return calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))


@overridable
def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Fill with uniform numbers whose variance is ``gain**2 / fan`` (He et al., 2015).

    Parameters
    ----------
    tensor : Tensor
    a : float
        The negative slope, for ``"leaky_relu"``.
    mode : {"fan_in", "fan_out"}
        Whether the size of the signal is kept in forward or in backward.
    nonlinearity : str
        The nonlinearity after the layer; see `calculate_gain`.
    generator : Generator, optional

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.init.kaiming_uniform_(gc.empty(3, 5), nonlinearity="relu").shape
    torch.Size([3, 5])
    """
    std = _kaiming(tensor, a, mode, nonlinearity)
    return tensor if std is None else uniform_(tensor, -math.sqrt(3) * std, math.sqrt(3) * std, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Fill with normal numbers whose variance is ``gain**2 / fan`` (He et al., 2015).

    Parameters
    ----------
    tensor : Tensor
    a : float
        The negative slope, for ``"leaky_relu"``.
    mode : {"fan_in", "fan_out"}
        Whether the size of the signal is kept in forward or in backward.
    nonlinearity : str
        The nonlinearity after the layer; see `calculate_gain`.
    generator : Generator, optional

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.init.kaiming_normal_(gc.empty(3, 5), nonlinearity="relu").shape
    torch.Size([3, 5])
    """
    std = _kaiming(tensor, a, mode, nonlinearity)
    return tensor if std is None else normal_(tensor, 0.0, std, generator)


@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fill the tensor with a random (semi-)orthogonal matrix (Saxe et al., 2013). Dims after the first are flattened.

    Examples
    --------
    >>> import gradcore as gc
    >>> w = gc.nn.init.orthogonal_(gc.empty(2, 3))
    >>> gc.allclose(w @ w.T, gc.eye(2), atol=1e-6)
    True
    """
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if not tensor.numel() or tensor.is_meta:
        return tensor
    rows, cols = tensor.shape[0], tensor.numel() // tensor.shape[0]
    drawn = tensor.new_empty(max(rows, cols), min(rows, cols)).normal_(generator=generator)
    q, r = functional.linalg_qr(drawn)
    # Otherwise the signs that the decomposition chooses would bias the distribution.
    q = q * functional.diagonal(r).sign()
    return tensor.copy_((q.t() if rows < cols else q).reshape(tensor.shape)).mul_(gain)


@no_grad()
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill a matrix with normally distributed numbers, and set a share of each column to zero (Martens, 2010).

    Parameters
    ----------
    tensor : Tensor
    sparsity : float
        The part of each column that is zero.
    std : float
        The standard deviation of the other elements.
    generator : Generator, optional

    Examples
    --------
    >>> import gradcore as gc
    >>> int((gc.nn.init.sparse_(gc.empty(10, 2), sparsity=0.5) == 0).sum())
    10
    """
    _matrix(tensor)
    rows, cols = tensor.shape
    normal_(tensor, 0.0, std, generator)
    for col in range(cols):
        tensor[randperm(rows)[: math.ceil(sparsity * rows)], col] = 0
    return tensor


def _deprecate(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the deprecated alias of an initialization function, without the underscore in its name."""
    new, old = function.__name__, function.__name__.removesuffix("_")

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = old
    return call


uniform, normal, constant, eye = (_deprecate(f) for f in (uniform_, normal_, constant_, eye_))
dirac, orthogonal, sparse = _deprecate(dirac_), _deprecate(orthogonal_), _deprecate(sparse_)
xavier_uniform, xavier_normal = _deprecate(xavier_uniform_), _deprecate(xavier_normal_)
kaiming_uniform, kaiming_normal = _deprecate(kaiming_uniform_), _deprecate(kaiming_normal_)


def _fill_whole(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Wrap an initialization function so that it fills whole parameters, even if this process has a part.

    See `fully_shard`.
    """

    @wraps(function)
    def initialize(tensor: Tensor, *args: object, **kwargs: object) -> Tensor:
        whole = getattr(type(tensor), "initialize_whole", None)
        if whole is None:
            return function(tensor, *args, **kwargs)
        result: Tensor = whole(tensor, lambda t: function(t, *args, **kwargs))
        return result

    return initialize


for _name in __all__:
    if _name.endswith("_"):
        globals()[_name] = _fill_whole(globals()[_name])
