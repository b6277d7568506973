"""Attention."""

from __future__ import annotations

from math import sqrt
from typing import Any

from gradcore.backends.kernel_rules import native_body
from gradcore.backends.random.generator import DropoutDraw
from gradcore.core import dtypes
from gradcore.ops.declare.annotations import Tensor
from gradcore.ops.declare.checks import check_implemented, cpp_type
from gradcore.ops.declare.geometry import broadcast_shape
from gradcore.ops.declare.samples import bools, case, floats
from gradcore.ops.declare.table import composite, constant, general
from gradcore.ops.nn.dropout import check_dropout_probability


def _scores(F: Any, query: Tensor, key: Tensor, mask: Tensor, scale: float) -> Any:
    scores = F.matmul(query * scale, F.transpose(key, -2, -1))
    return scores if mask is None else scores + mask


@general(
    lambda F, grad, result: F.softmax_backward(grad, result, result.ndim - 1),
    node="SafeSoftmaxBackward0",
    function=False,
    method=False,
)
def softmax_or_zero(self):
    """Return the softmax over the last dim, or zeros for a row of minus infinity."""


@softmax_or_zero.jvp("self")
def _(F, t, result):
    return F.softmax_backward(t, result, result.ndim - 1)


# The weights are an output with a derivative, so that formulas may read them. They rarely have a gradient.


@general(
    outputs=("result", "weights"),
    seen_outputs=(0,),
    node="ScaledDotProductFlashAttentionForCpuBackward0",
    function=False,
    method=False,
    broadcasts=True,
    materialize=False,
)
def attention(self, key, value, mask=None, scale: float = 1.0, causal: bool = False):
    """Return the softmax of ``self @ key.T * scale + mask``, and its product with `value`.

    A row of minus infinity has the softmax zero.

    If `causal`, query i sees the keys up to i only.
    """


@attention.vjp("self", "key", "value", "mask")
def _(F, grads, self, key, value, weights, scale, causal, needs):
    return F.attention_backward(*grads, self, key, value, weights, scale, causal, needs)


@composite(function=False, method=False)
@native_body
def attention_backward(
    F, grad, grad_weights, query, key, value, weights, scale: float, causal: bool, needs: tuple[bool, ...]
):
    """Return the gradients of `attention`."""
    to_query = to_key = to_value = None
    if grad is not None:
        if needs[2]:
            to_value = F.matmul(F.transpose(weights, -2, -1), grad)
        if needs[0] or needs[1] or needs[3]:
            of_value = F.matmul(grad, F.transpose(value, -2, -1))
            if of_value.shape != weights.shape:  # several values share the weights
                of_value = F.sum_to_size(of_value, weights.shape)
            grad_weights = of_value if grad_weights is None else grad_weights + of_value
    if not (needs[0] or needs[1] or needs[3]):
        return None, None, to_value, None
    scores = F.softmax_backward(grad_weights, weights, weights.ndim - 1)
    if needs[0]:
        to_query = F.matmul(scores, key) * scale
    if needs[1]:
        to_key = F.matmul(F.transpose(scores, -2, -1), query) * scale
    return to_query, to_key, to_value, scores if needs[3] else None


def _propagate_tangents(
    F: Any, t_scores: Tensor, value: Tensor, weights: Tensor, dropout: DropoutDraw | None = None
) -> tuple[Any, Any]:
    """Return the tangents of the result and of the weights, from the tangent of the scores."""
    t_weights = F.softmax_backward(t_scores, weights, weights.ndim - 1)
    return F.matmul(_drop(F, t_weights, dropout), value), t_weights


@attention.jvp("self")
def _(F, t, key, value, weights, scale):
    return _propagate_tangents(F, F.matmul(t * scale, F.transpose(key, -2, -1)), value, weights)


@attention.jvp("key")
def _(F, t, self, value, weights, scale):
    return _propagate_tangents(F, F.matmul(self * scale, F.transpose(t, -2, -1)), value, weights)


@attention.jvp("value")
def _(F, t, weights):
    return F.matmul(weights, t), None


@attention.jvp("mask")
def _(F, t, value, weights):
    return _propagate_tangents(F, F.expand(t, weights.shape), value, weights)


# Large attention does not save the weights. Kernels compute them again from the saved logarithms of their sums. With
# dropout, they also compute again which weights were kept.


@constant(constant="only its dtype is read", function=False, method=False)
def weight_factors(K, self, dropout: DropoutDraw):
    """Return the factors of dropout, in the dtype of `self`."""
    return K.dropout_factors(dropout, self.dtype)


def _drop(F: Any, weights: Tensor, dropout: DropoutDraw | None) -> Any:
    """Return the attention weights after dropout."""
    return weights if dropout is None else weights * F.weight_factors(weights, dropout)


@general(
    outputs=("result", "logsumexp"),
    differentiable=(0,),
    node="ScaledDotProductFlashAttentionForCpuBackward0",
    function=False,
    method=False,
    broadcasts=True,
    half_on_cuda="attention",
)
def flash_attention(
    K, self, key, value, mask=None, scale: float = 1.0, causal: bool = False, dropout: DropoutDraw | None = None
):
    """Return the result of `attention`, and the logarithm of each row's sum of exponentials.

    If `dropout` (a `DropoutDraw`) is given, weights are dropped.
    """
    scores = _scores(K, self, key, mask, scale)
    if causal:
        scores = K.where(K.tril(K.ones_like(scores)) == 1, scores, float("-inf"))
    weights = _drop(K, K.softmax_or_zero(scores), dropout)
    return K.matmul(weights, value), K.logsumexp(scores, (scores.ndim - 1,), True)


@flash_attention.vjp("self", "key", "value", "mask")
def _(F, grad, self, key, value, mask, result, logsumexp, scale, causal, dropout, needs):
    inputs = self, key, value, mask
    return F.flash_attention_backward(grad, *inputs, result, logsumexp, scale, causal, dropout, needs)


@composite(function=False, method=False)
def flash_attention_backward(
    F,
    grad,
    query,
    key,
    value,
    mask,
    result,
    logsumexp,
    scale: float,
    causal: bool,
    dropout: DropoutDraw | None,
    needs: tuple[bool, ...],
):
    """Return the gradients of `flash_attention`, by computing the weights again."""
    weights = F.attention(query, key, value, mask, scale, causal)[1]
    if dropout is None:
        return F.attention_backward(grad, None, query, key, value, weights, scale, causal, needs)
    to_value = F.matmul(F.transpose(_drop(F, weights, dropout), -2, -1), grad) if needs[2] else None
    grad_weights = _drop(F, F.matmul(grad, F.transpose(value, -2, -1)), dropout)
    others = needs[0], needs[1], False, needs[3]
    gradients = F.attention_backward(None, grad_weights, query, key, value, weights, scale, causal, others)
    return gradients[0], gradients[1], to_value, gradients[3]


@flash_attention.jvp("self")
def _(F, t, self, key, value, mask, scale, causal, dropout):
    weights = F.attention(self, key, value, mask, scale, causal)[1]
    return _propagate_tangents(F, F.matmul(t * scale, F.transpose(key, -2, -1)), value, weights, dropout)[0]


@flash_attention.jvp("key")
def _(F, t, self, key, value, mask, scale, causal, dropout):
    weights = F.attention(self, key, value, mask, scale, causal)[1]
    return _propagate_tangents(F, F.matmul(self * scale, F.transpose(t, -2, -1)), value, weights, dropout)[0]


@flash_attention.jvp("value")
def _(F, t, self, key, value, mask, scale, causal, dropout):
    return F.matmul(_drop(F, F.attention(self, key, value, mask, scale, causal)[1], dropout), t)


@flash_attention.jvp("mask")
def _(F, t, self, key, value, mask, scale, causal, dropout):
    weights = F.attention(self, key, value, mask, scale, causal)[1]
    return _propagate_tangents(F, F.expand(t, weights.shape), value, weights, dropout)[0]


def _keeps_weights(query: Tensor, key: Tensor, mask: Tensor) -> bool:
    scores = query.numel() // max(query.shape[-1], 1) * key.shape[-2]
    keeps: bool = query.device.backend.keeps_weights(scores, query.dtype.name)
    return keeps or (mask is not None and mask.dtype is not query.dtype)


def attend(F: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scale: float, causal: bool = False) -> Any:
    """Return the result of attention, by a kernel that saves the attention weights or by one that does not."""
    attention = F.attention if _keeps_weights(query, key, mask) else F.flash_attention
    return attention(query, key, value, mask, scale, causal)[0]


def attend_and_drop(
    F: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scale: float, causal: bool, p: float
) -> Tensor | None:
    """Return the result of attention whose weights are dropped with probability `p`, by a kernel that does both.

    Return None, and draw no random numbers, if the device has no such kernel. The numbers are those that `dropout` of
    the weights draws, and so is the error for a wrong probability.
    """
    check_dropout_probability(p)
    if _keeps_weights(query, key, mask):
        return None
    lead = broadcast_shape([x.shape[:-2] for x in (query, key, mask) if x is not None])
    if broadcast_shape([lead, value.shape[:-2]]) != lead:  # several results share their weights
        return None
    dropout = F.draw_dropout(query, (*lead, query.shape[-2], key.shape[-2]), p)
    return None if dropout is None else F.flash_attention(query, key, value, mask, scale, causal, dropout)[0]


def _is_grouped(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Return whether keys and values have equally many heads, and queries a multiple of that."""
    heads = key.shape[-3]
    return bool(heads == value.shape[-3] and 0 < heads < query.shape[-3] and query.shape[-3] % heads == 0)


def _attended_in_groups(
    F: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scale: float, causal: bool, p: float
) -> Tensor | None:
    """Return the result of attention where several query heads share a key and a value, with dropout if `p` is not 0.

    Keys and values are not repeated. As in `attend_and_drop`, the result may be None.
    """
    groups = key.shape[-3], query.shape[-3] // key.shape[-3]
    if mask is not None and mask.ndim > 2:
        mask = F.unsqueeze(mask, -3) if mask.shape[-3] == 1 else F.unflatten(mask, -3, groups)
    query, key, value = F.unflatten(query, -3, groups), F.unsqueeze(key, -3), F.unsqueeze(value, -3)
    if p:
        out = attend_and_drop(F, query, key, value, mask, scale, causal, p)
    else:
        out = F.flash_attention(query, key, value, mask, scale, causal)[0]
    return None if out is None else F.flatten(out, -4, -3)


def _check(query: Tensor, key: Tensor, value: Tensor, attn_mask: Any, is_causal: bool) -> None:
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{query.ndim} key.dim: {key.ndim} and value.dim: {value.ndim} instead."
        )
    if not query.dtype is key.dtype is value.dtype:
        names = [cpp_type(t.dtype) for t in (query, key, value)]
        raise RuntimeError(
            f"Expected query, key, and value to have the same dtype, but got query.dtype: {names[0]} key.dtype: "
            f"{names[1]} and value.dtype: {names[2]} instead."
        )
    check_implemented("softmax_lastdim_kernel_impl", query, "bic")
    if attn_mask is not None:
        if attn_mask.dtype not in (dtypes.bool_, dtypes.float32, query.dtype):
            raise RuntimeError(
                "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
                f"{cpp_type(attn_mask.dtype)} and  query.dtype: {cpp_type(query.dtype)} instead."
            )
        if is_causal:
            raise RuntimeError(
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
            )


def _additive(F: Any, query: Tensor, key: Tensor, mask: Tensor, is_causal: bool) -> Any:
    """Return the attention mask as numbers that are added to the scores."""
    if is_causal:
        mask = F.tril(F.ones(query.shape[-2], key.shape[-2], device=query.device)) == 1
    if mask is not None and mask.dtype.name == "bool":
        return F.where(mask, 0.0, float("-inf")).to(query.dtype)
    return mask


def _samples():
    return [
        case(floats(2, 3, 4), floats(2, 5, 4), floats(2, 5, 2)),
        case(floats(2, 3, 4, 2), floats(2, 3, 4, 2), floats(2, 3, 4, 3), is_causal=True),
        case(floats(3, 4), floats(5, 4), floats(5, 2), floats(3, 5), scale=0.3),
        case(floats(2, 1, 3, 4), floats(1, 5, 4), floats(5, 2), bools(3, 5)),
        case(floats(3, 4), floats(1, 5, 4), floats(2, 3, 5, 2), floats(1, 5)),
        case(floats(1, 4, 3, 2), floats(1, 2, 3, 2), floats(1, 2, 3, 2), enable_gqa=True),
    ]


@composite(path="nn.functional.scaled_dot_product_attention", samples=_samples, autocast="lower")
def scaled_dot_product_attention(
    F,
    query,
    key,
    value,
    attn_mask=None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
):
    """Compute ``softmax(query @ key.T * scale + attn_mask) @ value``.

    Parameters
    ----------
    query, key, value : Tensor
        ``(*, queries, width)``, ``(*, keys, width)`` and ``(*, keys, value width)``.
    attn_mask : Tensor, optional
        Broadcasts with ``(*, queries, keys)``: what is added to the scores, or (bool) which keys a query may see. A
        query that sees none gives zeros.
    dropout_p : float
        The probability with which weights are dropped.
    is_causal : bool
        Whether query i sees the keys up to i only.
    scale : float, optional
        The factor of the scores, by default ``1 / sqrt(width)``.
    enable_gqa : bool
        Whether `query` may have more heads (dim -3) than `key` and `value`, a multiple, which then share theirs.

    Returns
    -------
    Tensor
        Result of shape ``(*, heads, targets, value_dim)``.

    Examples
    --------
    >>> query, key, value = gc.tensor([[1.0, 0.0]]), gc.tensor([[1.0, 0.0], [0.0, 1.0]]), gc.tensor([[0.0], [1.0]])
    >>> gc.nn.functional.scaled_dot_product_attention(query, key, value)
    tensor([[0.3302]])
    >>> gc.nn.functional.scaled_dot_product_attention(
    ...     gc.ones(2, 4, 3, 8), gc.ones(2, 4, 5, 8), gc.ones(2, 4, 5, 6)
    ... ).shape
    torch.Size([2, 4, 3, 6])
    """
    _check(query, key, value, attn_mask, is_causal)
    if scale is None:
        scale = 1 / sqrt(query.shape[-1] or 1)
    if enable_gqa:
        if key.shape[-2] and _is_grouped(query, key, value):
            mask = _additive(F, query, key, attn_mask, False)
            if not _keeps_weights(query, key, mask):
                result = _attended_in_groups(F, query, key, value, mask, scale, is_causal, dropout_p)
                if result is not None:
                    return result
        key, value = (
            t if t.shape[-3] == query.shape[-3] else F.repeat_interleave(t, query.shape[-3] // t.shape[-3], -3)
            for t in (key, value)
        )
    if not key.shape[-2]:  # nothing to attend to: zeros, and zeros as gradients
        return F.matmul(F.matmul(query, F.transpose(key, -1, -2)), value)
    mask = _additive(F, query, key, attn_mask, False)
    if not dropout_p:
        return attend(F, query, key, value, mask, scale, is_causal)
    result = attend_and_drop(F, query, key, value, mask, scale, is_causal, dropout_p)
    if result is not None:
        return result
    if is_causal:
        mask = _additive(F, query, key, None, True)
    weights = F.softmax_or_zero(_scores(F, query, key, mask, scale))
    return F.matmul(F.dropout(weights, dropout_p), value)
