"""Fusion of batch normalization, in evaluation mode, into the preceding linear or convolution layer."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from gradcore.nn.module import Module
from gradcore.nn.parameter import Parameter
from gradcore.tensor import Tensor
from gradcore.tensor.creation import ones_like, zeros_like

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

M = TypeVar("M", bound=Module)


def _fuse(
    dim: int, weight: Tensor, bias: Tensor | None, mean: Tensor, var: Tensor, eps: float, *affine: Tensor | None
) -> tuple[Parameter, Parameter]:
    """Return the weight and bias of a layer fused with the normalization of its outputs, dim `dim` of the weight."""
    bias = zeros_like(mean) if bias is None else bias
    factor, offset = affine
    factor = ones_like(mean) if factor is None else factor
    offset = zeros_like(mean) if offset is None else offset
    scale = factor * (var + eps).rsqrt()
    shape = [1] * weight.ndim
    shape[dim] = -1
    fused = weight * scale.reshape(shape), (bias - mean) * scale + offset
    return tuple(  # type: ignore[return-value]
        Parameter(new.detach().to(old.dtype), old.requires_grad) for new, old in zip(fused, (weight, bias), strict=True)
    )


def _fused_copy(module: M, bn: Any, dim: int) -> M:
    if module.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    out: Any = copy.deepcopy(module)
    statistics = bn.running_mean, bn.running_var, bn.eps
    out.weight, out.bias = _fuse(dim, out.weight, out.bias, *statistics, bn.weight, bn.bias)
    return out  # type: ignore[no-any-return]


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Return the weight and bias of a convolution that equals a convolution followed by batch normalization.

    Parameters
    ----------
    conv_w : Tensor
        The convolution's weight.
    conv_b : Tensor, optional
        The bias of the convolution.
    bn_rm, bn_rv : Tensor
        Running mean and variance.
    bn_eps : float
    bn_w, bn_b : Tensor, optional
        Factors and offsets of the normalization.
    transpose : bool
        Whether it is a transposed convolution.

    Returns
    -------
    tuple of Parameter

    Examples
    --------
    >>> import gradcore as gc
    >>> w, b = gc.nn.utils.fuse_conv_bn_weights(
    ...     gc.ones(1, 1, 1), None, gc.zeros(1), gc.ones(1), 0.0, gc.full((1,), 2.0), gc.ones(1)
    ... )
    >>> w.flatten().tolist(), b.tolist()
    ([2.0], [1.0])
    """
    return _fuse(int(transpose), conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_conv_bn_eval(conv: M, bn: Module, transpose: bool = False) -> M:
    """Return a convolution that equals `conv` followed by `bn`, both in evaluation mode.

    Parameters
    ----------
    conv : Module
        A convolution.
    bn : Module
        A batch normalization with running statistics.
    transpose : bool
        Whether it is a transposed convolution.

    Returns
    -------
    Module
        A changed copy of `conv`.

    Raises
    ------
    AssertionError
        If one of the modules is in training mode.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore import nn
    >>> conv, bn = nn.Conv2d(3, 4, 3).eval(), nn.BatchNorm2d(4).eval()
    >>> x = gradcore.rand(2, 3, 8, 8)
    >>> gradcore.allclose(nn.utils.fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-5)
    True
    """
    return _fused_copy(conv, bn, int(transpose))


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Return the weight and bias of a linear layer that equals a linear layer followed by batch normalization.

    Parameters
    ----------
    linear_w : Tensor
        The map's weight.
    linear_b : Tensor, optional
        The bias of the linear layer.
    bn_rm, bn_rv : Tensor
        Running mean and variance.
    bn_eps : float
    bn_w, bn_b : Tensor, optional
        Factors and offsets of the normalization.

    Returns
    -------
    tuple of Parameter

    Examples
    --------
    >>> import gradcore as gc
    >>> w, b = gc.nn.utils.fuse_linear_bn_weights(
    ...     gc.ones(1, 1), None, gc.zeros(1), gc.ones(1), 0.0, gc.full((1,), 2.0), gc.ones(1)
    ... )
    >>> w.tolist(), b.tolist()
    ([[2.0]], [1.0])
    """
    return _fuse(0, linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_linear_bn_eval(linear: M, bn: Any) -> M:
    """Return a linear layer that equals `linear` followed by `bn`, both in evaluation mode.

    Parameters
    ----------
    linear : Module
        A `gradcore.nn.Linear`.
    bn : Module
        A batch normalization with running statistics, of as many features or of one.

    Returns
    -------
    Module
        A changed copy of `linear`.

    Raises
    ------
    AssertionError
        If one of the modules is in training mode, or the numbers of features differ.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore import nn
    >>> linear, bn = nn.Linear(3, 4).eval(), nn.BatchNorm1d(4).eval()
    >>> x = gradcore.rand(2, 3)
    >>> gradcore.allclose(nn.utils.fuse_linear_bn_eval(linear, bn)(x), bn(linear(x)), atol=1e-5)
    True
    """
    if bn.num_features not in (1, linear.out_features):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    return _fused_copy(linear, bn, 0)
