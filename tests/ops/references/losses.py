"""References of losses, distances, normalisations and attention, from their formulas."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from tests.ops.references.reductions import vector_norm

Array = Any
Reference = Callable[..., Any]


def reduced(values: Array, reduction: str, total: Any = None) -> Array:
    if reduction == "batchmean":
        return values.sum() / len(values)
    if reduction == "mean":
        return values.sum() / (values.size if total is None else total)
    return values.sum() if reduction == "sum" else values


def loss(formula: Callable[..., Array]) -> Reference:
    """Return a loss with reductions from a function of the single elements or samples."""

    def compute(*args: Any, reduction: str = "mean", **settings: Any) -> Array:
        return reduced(formula(*args, **settings), reduction)

    return compute


def log_softmax(x: Array, axis: int) -> Array:
    return special.log_softmax(x, axis)


def smooth_l1(x: Array, y: Array, beta: float) -> Array:
    d = abs(x - y)
    return np.where(d < beta, d**2 / (2 * beta), d - beta / 2)


def huber(x: Array, y: Array, delta: float) -> Array:
    return delta * smooth_l1(x, y, delta)


def poisson_nll(x: Array, y: Array, log_input: bool = True, full: bool = False) -> Array:
    values = np.exp(x) - y * x if log_input else x - y * np.log(x + 1e-8)
    stirling = np.where(y > 1, y * np.log(np.abs(y)) - y + np.log(2 * np.pi * np.abs(y)) / 2, 0)
    return values + stirling if full else values


def gaussian_nll(x: Array, y: Array, var: Array, full: bool = False) -> Array:
    var = var[..., None] if var.ndim < x.ndim else var
    return (np.log(var) + (x - y) ** 2 / var + (math.log(2 * np.pi) if full else 0)) / 2


def nll_loss(x: Array, y: Array, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> Array:
    return class_loss(x, y, weight, ignore_index, reduction, 0.0)


def class_loss(x: Array, y: Array, weight: Any, ignore_index: int, reduction: str, smoothing: float) -> Array:
    """Of log-probabilities with the classes in dim 1 (0 without a batch), one place after another."""
    rows = np.moveaxis(x, 1 if x.ndim > 1 else 0, -1)
    weight = np.ones(rows.shape[-1]) if weight is None else weight
    values, total = np.zeros(y.shape), 0.0
    for place in np.ndindex(y.shape):
        if y[place] != ignore_index:
            row, k = rows[place], y[place]
            smooth = smoothing / len(row) * (weight * row).sum()
            values[place] = -(1 - smoothing) * weight[k] * row[k] - smooth
            total += weight[k]
    return reduced(values, reduction, total)


def cross_entropy(
    x: Array,
    y: Array,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Array:
    axis = 1 if x.ndim > 1 else 0
    logs = log_softmax(x, axis)
    if y.dtype.kind != "f":
        return class_loss(logs, y, weight, ignore_index, reduction, label_smoothing)
    n = x.shape[axis]
    y = (1 - label_smoothing) * y + label_smoothing / n
    shape = [1] * x.ndim
    shape[axis] = n
    values = -(logs * y * (1 if weight is None else weight.reshape(shape))).sum(axis)
    return reduced(values, reduction, x.size // n)


def linear_cross_entropy(x: Array, weight: Array, y: Array, linear_bias: None = None, **settings: Any) -> Array:
    scores = np.tensordot(x, weight, ([-1], [-1]))  # samples, classes, further dims
    return cross_entropy(scores, y, **settings)


def binary_cross_entropy(x: Array, y: Array, weight: Any = None) -> Array:
    return -(y * np.log(x) + (1 - y) * np.log(1 - x)) * (1 if weight is None else weight)


def binary_cross_entropy_with_logits(x: Array, y: Array, weight: Any = None) -> Array:
    return (np.logaddexp(0, x) - x * y) * (1 if weight is None else weight)


def weighted_cross_entropy_with_logits(
    x: Array, y: Array, weight: Any = None, size_average: None = None, reduce: None = None, reduction: str = "mean",
    pos_weight: Any = 1.0,
) -> Array:  # fmt: skip
    losses = pos_weight * y * np.logaddexp(0, -x) + (1 - y) * np.logaddexp(0, x)
    return reduced(losses * (1 if weight is None else weight), reduction)


def kl_div(x: Array, y: Array, log_target: bool = False) -> Array:
    return np.exp(y) * (y - x) if log_target else special.xlogy(y, y) - y * x


def multilabel_soft_margin(x: Array, y: Array, weight: Any = None) -> Array:
    return binary_cross_entropy_with_logits(x, y, weight).mean(-1)


def hinge_embedding(x: Array, y: Array, margin: float = 1.0) -> Array:
    return np.where(y != -1, x, 0) + np.where(y != 1, np.maximum(0, margin - x), 0)


def margin_ranking(a: Array, b: Array, y: Array, margin: float = 0) -> Array:
    return np.maximum(0, -y * (a - b) + margin)


def cosine_embedding(a: Array, b: Array, y: Array, margin: float = 0) -> Array:
    epsilon = 1e-12
    cosine = (a * b).sum(-1) / np.sqrt(((a**2).sum(-1) + epsilon) * ((b**2).sum(-1) + epsilon))
    return np.where(y == 1, 1 - cosine, 0) + np.where(y == -1, np.maximum(0, cosine - margin), 0)


def pairwise_distance(a: Array, b: Array, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Array:
    return vector_norm(a - b + eps, p, -1, keepdim)


def triplet(distance: Reference) -> Reference:
    def compute(
        a: Array, positive: Array, negative: Array, margin: float = 1.0, swap: bool = False, **kw: Any
    ) -> Array:
        far = distance(a, negative, **kw)
        far = np.minimum(far, distance(positive, negative, **kw)) if swap else far
        return np.maximum(0, margin + distance(a, positive, **kw) - far)

    return compute


def triplet_with_distance(*args: Array, distance_function: Any = None, **settings: Any) -> Array:
    """Compute the triplet loss. The distance function of the samples is the squared distance."""
    distance = pairwise_distance if distance_function is None else lambda a, b: ((a - b) ** 2).sum(-1)
    return triplet(distance)(*args, **settings)


def multi_margin(x: Array, y: Array, p: int = 1, margin: float = 1.0, weight: Any = None) -> Array:
    if x.ndim == 1:
        return multi_margin(x[None], y[None], p, margin, weight)[0]
    weight = np.ones(x.shape[1]) if weight is None else weight
    found = [
        sum(weight[k] * max(0, margin - row[k] + other) ** p for j, other in enumerate(row) if j != k) / len(row)
        for row, k in zip(x, y, strict=True)
    ]
    return np.array(found)


def multilabel_margin(x: Array, y: Array) -> Array:
    if x.ndim == 1:
        return multilabel_margin(x[None], y[None])[0]
    found = []
    for row, labels in zip(x, y, strict=True):
        own = list(itertools.takewhile(lambda k: k >= 0, labels))
        rest = [k for k in range(len(row)) if k not in own]
        found.append(sum(max(0, 1 - row[k] + row[j]) for k in own for j in rest) / len(row))
    return np.array(found)


def ctc_loss(x: Array, targets: Array, lengths: Any, sizes: Any, blank: int = 0, reduction: str = "mean") -> Array:
    """By going through every path of symbols."""
    single = x.ndim == 2
    x = x[:, None] if single else x
    starts = np.cumsum([0, *sizes])
    losses = []
    for b, (length, size) in enumerate(zip(lengths, sizes, strict=True)):
        wanted = list(targets[b, :size] if targets.ndim == 2 else targets[starts[b] : starts[b] + size])
        total = 0.0
        for path in itertools.product(range(x.shape[2]), repeat=length):
            if [k for k, _ in itertools.groupby(path) if k != blank] == wanted:
                total += math.exp(sum(x[t, b, k] for t, k in enumerate(path)))
        losses.append(-math.log(total) if total else math.inf)
    found = np.array(losses)
    if reduction == "mean":
        return (found / np.maximum(sizes, 1)).mean()
    return reduced(found[0] if single else found, reduction)


def normalize(x: Array, p: float = 2.0, dim: int = 1) -> Array:
    return x / np.maximum(vector_norm(x, p, dim, keepdim=True), 1e-12)


def cosine_similarity(a: Array, b: Array, dim: int = 1, eps: float = 1e-8) -> Array:
    a, b = np.broadcast_arrays(a, b)
    return (a * b).sum(dim) / (np.maximum(vector_norm(a, 2, dim), eps) * np.maximum(vector_norm(b, 2, dim), eps))


def bilinear(a: Array, b: Array, weight: Array, bias: Any = 0) -> Array:
    return np.einsum("...i,kij,...j->...k", a, weight, b) + bias


def standardized(x: Array, axis: Any, eps: float, centered: bool = True) -> Array:
    x = x - x.mean(axis, keepdims=True) if centered else x
    return x / np.sqrt((x**2).mean(axis, keepdims=True) + eps)


def per_channel(x: Array, weight: Any, bias: Any) -> Array:
    """Channels stand in dim 1."""
    shape = (-1, *[1] * (x.ndim - 2))
    return x * (1 if weight is None else weight.reshape(shape)) + (0 if bias is None else bias.reshape(shape))


def layer_norm(x: Array, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Array:
    out = standardized(x, tuple(range(-len(shape), 0)), eps)
    return out * (1 if weight is None else weight) + (0 if bias is None else bias)


def rms_norm(x: Array, shape: Any, weight: Any = None, eps: Any = None) -> Array:
    eps = np.finfo(x.dtype).eps if eps is None else eps
    return standardized(x, tuple(range(-len(shape), 0)), eps, False) * (1 if weight is None else weight)


def group_norm(x: Array, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Array:
    return per_channel(standardized(x.reshape(len(x), groups, -1), -1, eps).reshape(x.shape), weight, bias)


def batch_norm(
    x: Array, mean: Any, var: Any, weight: Any = None, bias: Any = None, training: bool = False, eps: float = 1e-5
) -> Array:  # fmt: skip
    if not training:
        return per_channel(per_channel(x, 1 / np.sqrt(var + eps), -mean / np.sqrt(var + eps)), weight, bias)
    return per_channel(standardized(x, (0, *range(2, x.ndim)), eps), weight, bias)


def instance_norm(
    x: Array, mean: Any = None, var: Any = None, weight: Any = None, bias: Any = None, use_input_stats: bool = True,
    eps: float = 1e-5,
) -> Array:  # fmt: skip
    if not use_input_stats:
        return batch_norm(x, mean, var, weight, bias, eps=eps)
    return per_channel(standardized(x, tuple(range(2, x.ndim)), eps), weight, bias)


def local_response_norm(x: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Array:
    out = np.empty_like(x)
    for c in range(x.shape[1]):
        near = x[:, max(c - size // 2, 0) : c + (size - 1) // 2 + 1]
        out[:, c] = x[:, c] / (k + alpha * (near**2).sum(1) / size) ** beta
    return out


def attention(
    q: Array, k: Array, v: Array, mask: Any = None, is_causal: bool = False, scale: Any = None, enable_gqa: bool = False
) -> Array:  # fmt: skip
    if enable_gqa:
        k, v = (np.repeat(a, q.shape[-3] // a.shape[-3], -3) for a in (k, v))
    scores = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    mask = np.tri(*scores.shape[-2:], dtype=bool) if is_causal else mask
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    return special.softmax(scores, -1) @ v


def multi_head_attention(
    query: Array, key: Array, value: Array, width: int, heads: int, weight: Array, bias: Array, _k: None, _v: None,
    _zero: bool, _dropout: float, out_weight: Array, out_bias: Array, need_weights: bool = True,
) -> Any:  # fmt: skip
    parts = zip((query, key, value), np.split(weight, 3), np.split(bias, 3), strict=True)
    # from (length, batch, width) to (batch, heads, length, width of a head); without a batch, from (length, width)
    q, k, v = (np.moveaxis((x @ w.T + b).reshape(*x.shape[:-1], heads, -1), 0, -2) for x, w, b in parts)
    out = np.moveaxis(attention(q, k, v), -2, 0).reshape(query.shape) @ out_weight.T + out_bias
    shares = special.softmax(q @ k.swapaxes(-1, -2) / math.sqrt(width // heads), -1).mean(-3)
    return (out, shares) if need_weights else (out, None)


LOSSES: dict[str, Reference] = {
    "mse_loss": loss(lambda x, y: (x - y) ** 2),
    "l1_loss": loss(lambda x, y: abs(x - y)),
    "smooth_l1_loss": loss(smooth_l1),
    "huber_loss": loss(huber),
    "poisson_nll_loss": loss(poisson_nll),
    "gaussian_nll_loss": loss(gaussian_nll),
    "nll_loss": nll_loss,
    "cross_entropy": cross_entropy,
    "linear_cross_entropy": linear_cross_entropy,
    "binary_cross_entropy": loss(binary_cross_entropy),
    "binary_cross_entropy_with_logits": weighted_cross_entropy_with_logits,
    "kl_div": loss(kl_div),
    "soft_margin_loss": loss(lambda x, y: np.logaddexp(0, -x * y)),
    "multilabel_soft_margin_loss": loss(multilabel_soft_margin),
    "hinge_embedding_loss": loss(hinge_embedding),
    "margin_ranking_loss": loss(margin_ranking),
    "cosine_embedding_loss": loss(cosine_embedding),
    "triplet_margin_loss": loss(triplet(pairwise_distance)),
    "triplet_margin_with_distance_loss": loss(triplet_with_distance),
    "multi_margin_loss": loss(multi_margin),
    "multilabel_margin_loss": loss(multilabel_margin),
    "ctc_loss": ctc_loss,
}

LAYERS: dict[str, Reference] = {
    "normalize": normalize,
    "cosine_similarity": cosine_similarity,
    "pairwise_distance": pairwise_distance,
    "bilinear": bilinear,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "group_norm": group_norm,
    "batch_norm": batch_norm,
    "instance_norm": instance_norm,
    "local_response_norm": local_response_norm,
    "scaled_dot_product_attention": attention,
    "multi_head_attention_forward": multi_head_attention,
}
