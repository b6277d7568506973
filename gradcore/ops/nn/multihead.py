"""Multi-head attention: projections, the attention of every head, and a joint projection."""

from __future__ import annotations

from math import sqrt
from typing import Any

from gradcore.ops.declare.checks import check_implemented
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import composite
from gradcore.ops.nn.attention import attend, attend_and_drop


def _projections(
    F: Any,
    inputs: tuple[Any, Any, Any],
    packed: Any,
    separate: tuple[Any, Any, Any] | None,
    bias: Any,
) -> list[Any]:
    """Return query, key and value, each multiplied by its weight, plus its bias."""
    width = inputs[0].shape[-1]
    expected = (("in_proj_weight", packed, (3 * width, width)), ("in_proj_bias", bias, (3 * width,)))
    for name, tensor, shape in expected:
        if tensor is not None and tensor.shape != shape:
            raise RuntimeError(f"{name} must have the shape {list(shape)}, but has {list(tensor.shape)}")
    biases = (None,) * 3 if bias is None else F.chunk(bias, 3)
    if separate is not None:
        return [F.linear(*each) for each in zip(inputs, separate, biases, strict=True)]
    query, key, value = inputs
    if query is key and key is value:  # one product for all
        return list(F.chunk(F.linear(query, packed, bias), 3, -1))
    weights = F.split(packed, width)
    return [F.linear(*each) for each in zip(inputs, weights, biases, strict=True)]


def _additive(F: Any, name: str, mask: Any, like: Any) -> Any:
    """Return a mask as numbers that are added to the scores: minus infinity where the mask is True."""
    if mask is None or mask.dtype.is_floating_point:
        return mask
    if mask.dtype.name != "bool":
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return F.where(mask, float("-inf"), 0.0).to(like.dtype)


def _heads(F: Any, x: Any, heads: int) -> Any:
    """Reshape ``(length, batch, heads * width)`` to ``(batch, heads, length, width)``."""
    length, batch, width = x.shape
    return F.permute(F.reshape(x, (length, batch, heads, width // heads)), (1, 2, 0, 3))


def _masks(F: Any, query: Any, attn_mask: Any, padding: Any, heads: int, keys: int, added: int) -> Any:
    """Combine both masks in one of shape ``(batch or 1, heads or 1, queries or 1, keys)``.

    The `added` further keys are not masked.
    """
    queries, batch = query.shape[:2]
    mask = _additive(F, "attn_mask", attn_mask, query)
    if mask is not None:
        if mask.ndim not in (2, 3):
            raise RuntimeError(f"attn_mask's dimension {mask.ndim} is not supported")
        expected_shape = (queries, keys) if mask.ndim == 2 else (batch * heads, queries, keys)
        if tuple(mask.shape) != expected_shape:
            raise RuntimeError(
                f"The shape of the {mask.ndim}D attn_mask is {mask.shape}, but should be {expected_shape}."
            )
        if mask.ndim == 3:
            mask = F.reshape(mask, (batch, heads, queries, keys))
    padding = _additive(F, "key_padding_mask", padding, query)
    if padding is not None:
        if tuple(padding.shape) != (batch, keys):
            raise AssertionError(f"expecting key_padding_mask shape of {(batch, keys)}, but got {padding.shape}")
        padding = F.reshape(padding, (batch, 1, 1, keys))
        mask = padding if mask is None else mask + padding
    return mask if mask is None or not added else F.constant_pad_nd(mask, (0, added))


def _check(query: Any, key: Any, value: Any, width: int, heads: int) -> None:
    if query.ndim not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D query tensor"
        )
    if key.ndim != query.ndim or value.ndim != query.ndim:
        raise AssertionError(
            f"For {'' if query.ndim == 3 else 'un'}batched ({query.ndim}-D) `query`, expected `key` and `value` to be "
            f"{query.ndim}-D but found {key.ndim}-D and {value.ndim}-D tensors respectively"
        )
    if query.shape[-1] != width:
        raise AssertionError(f"was expecting embedding dimension of {width}, but got {query.shape[-1]}")
    if width % heads:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {heads}")
    if key.shape[:-1] != value.shape[:-1]:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")


def _samples():
    def weights(width: int) -> tuple[Any, ...]:
        return floats(3 * width, width), floats(3 * width), None, None, False, 0.0, floats(width, width), floats(width)

    return [
        case(floats(3, 2, 4), floats(5, 2, 4), floats(5, 2, 4), 4, 2, *weights(4)),
        case(floats(3, 2), floats(2, 2), floats(2, 2), 2, 1, *weights(2), need_weights=False),
    ]


@composite(path="nn.functional.multi_head_attention_forward", samples=_samples, returns="tuple[Tensor, Tensor | None]")
def multi_head_attention_forward(
    F,
    query,
    key,
    value,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight=None,
    in_proj_bias=None,
    bias_k=None,
    bias_v=None,
    add_zero_attn: bool = False,
    dropout_p: float = 0.0,
    out_proj_weight=None,
    out_proj_bias=None,
    training: bool = True,
    key_padding_mask=None,
    need_weights: bool = True,
    attn_mask=None,
    use_separate_proj_weight: bool = False,
    q_proj_weight=None,
    k_proj_weight=None,
    v_proj_weight=None,
    static_k=None,
    static_v=None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
):
    """Compute the attention of several heads, each with its own projections.

    Parameters
    ----------
    query, key, value : Tensor
        ``(length, batch, width)``, or without the batch dim.
    embed_dim_to_check, num_heads : int
        The query's width, and the number of heads that share it.
    in_proj_weight, in_proj_bias : Tensor, optional
        The projections of query, key and value, one below the other.
    bias_k, bias_v : Tensor, optional
        A further key and value for every sequence.
    add_zero_attn : bool
        Whether to add a key and a value of zeros.
    dropout_p : float
        The probability with which weights are dropped, if `training`.
    out_proj_weight, out_proj_bias : Tensor
        The projection of all heads together.
    training : bool
    key_padding_mask : Tensor, optional
        ``(batch, keys)``: which keys are hidden (bool), or numbers that are added to their scores.
    need_weights : bool
        Whether to return the attention's weights.
    attn_mask : Tensor, optional
        ``(queries, keys)`` or ``(batch * heads, queries, keys)``: True hides, numbers are added to the scores.
    use_separate_proj_weight : bool
        Whether `q_proj_weight`, `k_proj_weight` and `v_proj_weight` are used instead of `in_proj_weight`.
    q_proj_weight, k_proj_weight, v_proj_weight : Tensor, optional
    static_k, static_v : Tensor, optional
        Projected keys and values, ``(batch * heads, length, width / heads)``.
    average_attn_weights : bool
        Whether the returned weights are averaged over the heads.
    is_causal : bool
        A hint that `attn_mask` is the causal mask.

    Returns
    -------
    tuple of Tensor
        The result, in the shape of `query`, and the weights or None.

    Examples
    --------
    >>> x = gc.ones(5, 2, 4)
    >>> out, weights = gc.nn.functional.multi_head_attention_forward(
    ...     x, x, x, 4, 2, gc.ones(12, 4), gc.zeros(12), out_proj_weight=gc.eye(4), out_proj_bias=gc.zeros(4)
    ... )
    >>> out.shape, weights.shape
    (torch.Size([5, 2, 4]), torch.Size([2, 5, 5]))
    """
    _check(query, key, value, embed_dim_to_check, num_heads)
    check_implemented("softmax_lastdim_kernel_impl", query, "bic")
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    batched = query.ndim == 3
    if not batched:
        is_self_attention = query is key and key is value
        query, key, value = (F.unsqueeze(t, 1) for t in (query, key, value))
        key, value = (query, query) if is_self_attention else (key, value)
        key_padding_mask = None if key_padding_mask is None else F.unsqueeze(key_padding_mask, 0)
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    required = {"in_proj_weight": in_proj_weight}
    if use_separate_proj_weight:
        required = {"q_proj_weight": q_proj_weight, "k_proj_weight": k_proj_weight, "v_proj_weight": v_proj_weight}
    for name, weight in {**required, "out_proj_weight": out_proj_weight}.items():
        if weight is None:
            raise AssertionError(f"use_separate_proj_weight is {bool(use_separate_proj_weight)} but {name} is None")
    q, k, v = _projections(F, (query, key, value), in_proj_weight, separate, in_proj_bias)
    batch, keys = query.shape[1], key.shape[0]
    if bias_k is not None and bias_v is not None:
        k, v = (F.cat([t, F.expand(extra, (1, *t.shape[1:]))]) for t, extra in ((k, bias_k), (v, bias_v)))
    q, k, v = (_heads(F, t, num_heads) for t in (q, k, v))
    k, v = (
        t if static is None else F.reshape(static, (batch, num_heads, *static.shape[1:]))
        for t, static in ((k, static_k), (v, static_v))
    )
    if add_zero_attn:
        k, v = (F.constant_pad_nd(t, (0, 0, 0, 1)) for t in (k, v))
    if static_k is not None:
        keys = k.shape[2] - bool(add_zero_attn)
    mask = _masks(F, query, attn_mask, key_padding_mask, num_heads, keys, k.shape[2] - keys)
    result, weights, scale = None, None, 1 / sqrt(q.shape[-1])
    if training and dropout_p:
        if not need_weights:
            result = attend_and_drop(F, q, k, v, mask, scale, False, dropout_p)
        if result is None:
            weights = F.dropout(F.attention(q, k, v, mask, scale)[1], dropout_p)
            result = F.matmul(weights, v)
    elif need_weights:
        result, weights = F.attention(q, k, v, mask, scale)
    else:
        result = attend(F, q, k, v, mask, scale)
    result = F.reshape(F.permute(result, (2, 0, 1, 3)), query.shape)
    result = F.linear(result, out_proj_weight, out_proj_bias)
    if not need_weights:
        return result if batched else F.squeeze(result, 1), None
    if average_attn_weights:
        weights = F.mean(weights, 1)
    return (result, weights) if batched else (F.squeeze(result, 1), F.squeeze(weights, 0))
