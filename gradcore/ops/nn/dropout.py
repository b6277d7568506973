"""Dropout: multiplication by a random mask."""

from __future__ import annotations

from typing import Any

from gradcore.core.errors import warn
from gradcore.ops.declare.checks import check_implemented
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import composite, elementwise, general
from gradcore.ops.images.spatial import declare_for_dims, spatial

# The limit of the scaled exponential linear unit (selu) at minus infinity: -scale * alpha.
_SATURATION = -1.7580993408473766


@elementwise(
    lambda F, t, mask, scale: F.masked_scale(t, mask, scale),
    constant={"mask": "drawn at random"},
    keeps_dtype=("mask",),
    inplace=False,
    function=False,
    method=False,
)
def masked_scale(K, self, mask, scale: float):
    """Compute ``self * mask * scale`` for a bool mask."""
    return self * mask.astype(self.dtype) * scale


@general(
    node="NativeDropoutBackward0",
    constant={"self": "has been computed", "mask": "drawn at random"},
    keeps_dtype=("self", "mask"),
    materialize=False,
    computes_half_in_float=False,
    function=False,
    method=False,
)
def record_dropout(K, self, source, mask, scale: float = 1.0):
    """Return `self`, the result of dropout with `mask`, with `source` as its history."""
    return self


@record_dropout.vjp("source")
def _(F, grad, mask, scale):
    return F.masked_scale(grad, mask, scale)


@record_dropout.jvp("source")
def _(F, t, mask, scale):
    return F.masked_scale(t, mask, scale)


def check_dropout_probability(p: float) -> None:
    """Raise ValueError unless `p` is a probability; NaN is none."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _channels(input: Any) -> tuple[int, ...]:
    """Return a shape with one element for each channel of each image."""
    if input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return (*input.shape[:2], *(1,) * (input.ndim - 2))


def _draw_mask(F: Any, input: Any, shape: tuple[int, ...], p: float) -> Any:
    """Return a random mask: 1 with probability ``1 - p``, else 0."""
    return F.bernoulli_mask(shape, 1 - p, input.device).to(input.dtype)


def _drop(F: Any, input: Any, shape: tuple[int, ...], p: float, training: bool, inplace: bool) -> Any:
    """Set elements to zero with probability `p`, and scale the others so that the expectation stays."""
    if not training or not p or not input.numel():
        return input
    if p != 1 and not inplace and shape == tuple(input.shape):
        dropped = F.dropped_by_kernel(input, p)
        if dropped is not None:
            return dropped
    noise = input.new_zeros(shape) if p == 1 else F.dropout_noise(input, shape, p)
    return input.mul_(noise) if inplace else input * noise


def _alpha_drop(F: Any, input: Any, shape: tuple[int, ...], p: float, training: bool, inplace: bool) -> Any:
    """Replace elements by the saturation value with probability `p`, and restore mean and variance linearly."""
    if not training or not p or not input.numel():
        return input
    check_implemented("bernoulli_scalar_cpu_", input, "c")
    if p == 1:
        noise, shift = input.new_zeros(shape), input.new_zeros(shape)
    else:
        mask = _draw_mask(F, input, shape, p)
        scale = ((1 - p) * (1 + p * _SATURATION**2)) ** -0.5
        noise, shift = mask * scale, (1 - p - mask) * (_SATURATION * scale)
    return input.mul_(noise).add_(shift) if inplace else input * noise + shift


@composite(
    path="nn.functional.dropout",
    random=True,
    samples=lambda: [case(floats(3, 4), 0.3), case(floats(3, 4), 0.5, False), case(floats(2), 1.0)],
)
def dropout(F, input, p: float = 0.5, training: bool = True, inplace: bool = False):
    """Set elements to zero with probability `p`, and divide the others by ``1 - p``.

    Without `training`, return the input.

    Parameters
    ----------
    input : Tensor
    p : float
    training, inplace : bool

    Examples
    --------
    >>> import gradcore
    >>> import gradcore.nn.functional as F
    >>> _ = gradcore.manual_seed(0)
    >>> sorted(set(F.dropout(gradcore.ones(100), 0.75).tolist()))
    [0.0, 4.0]
    """
    check_dropout_probability(p)
    return _drop(F, input, tuple(input.shape), p, training, inplace)


@composite(path="nn.functional.alpha_dropout", random=True, samples=lambda: [case(floats(3, 4), 0.3, True)])
def alpha_dropout(F, input, p: float = 0.5, training: bool = False, inplace: bool = False):
    """Apply dropout to self-normalizing networks.

    Dropped elements take the value at which `selu` saturates.

    A linear map afterwards keeps zero mean and unit variance.

    Returns
    -------
    Tensor
        Result of the same shape as the input.

    Examples
    --------
    >>> gc.nn.functional.alpha_dropout(gc.tensor([1.0, 2.0]), p=0.5, training=False)
    tensor([1., 2.])
    """
    check_dropout_probability(p)
    return _alpha_drop(F, input, tuple(input.shape), p, training, inplace)


@composite(
    path="nn.functional.feature_alpha_dropout",
    random=True,
    samples=lambda: [case(floats(3, 4, 2), 0.3, True)],
)
def feature_alpha_dropout(F, input, p: float = 0.5, training: bool = False, inplace: bool = False):
    """Apply `alpha_dropout` to whole channels.

    Returns
    -------
    Tensor
        Result of the same shape as the input.

    Examples
    --------
    >>> gc.nn.functional.feature_alpha_dropout(gc.ones(2, 3, 4), training=True).shape
    torch.Size([2, 3, 4])
    """
    check_dropout_probability(p)
    return _alpha_drop(F, input, _channels(input) if training else (), p, training, inplace)


@declare_for_dims(1, 2, 3)
def _declare_channelwise(n: int) -> None:
    name = f"dropout{n}d"
    shape = (2, 3, 4, 2, 2)[: n + 2]

    @spatial(name, random=True, samples=lambda: [case(floats(*shape), 0.3)])
    def dropout_nd(F, input, p: float = 0.5, training: bool = True, inplace: bool = False):
        """Set whole channels to zero with probability `p`: `dropout` for a sample or a batch over {dims}."""
        check_dropout_probability(p)
        if input.ndim not in (n + 1, n + 2):
            message = f"{name}: Expected {n + 1}D or {n + 2}D input, but received a {input.ndim}D input."
            if n == 1:
                raise RuntimeError(message)
            warn(f"{message} Use dropout for other inputs.")
        if n == 2 and input.ndim == 3:
            warn("dropout2d: a 3D input is taken as (N, C, L); use dropout1d for that.")
        batched = input.ndim != n + 1 or n == 2
        shape = _channels(input) if batched else (input.shape[0], *(1,) * n)
        return _drop(F, input, shape, p, training, inplace)
