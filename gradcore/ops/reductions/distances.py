"""Distances and similarities of vectors."""

from __future__ import annotations

from gradcore.core import dtypes
from gradcore.ops.declare.annotations import Scalar
from gradcore.ops.declare.checks import cpp_type
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import composite


@composite(
    path="nn.functional.normalize",
    samples=lambda: [
        case(floats(3, 4)),
        case(floats(2, 3, 4), p=1.0, dim=-1),
        case(floats(3, low=0.5), p=3.0, dim=0),
    ],
)
def normalize(F, input, p: Scalar = 2.0, dim: int = 1, eps: Scalar = 1e-12, out=None):
    """Divide by the p-norm over `dim`, or by `eps` where the norm is smaller.

    Returns
    -------
    Tensor
        Result of the same shape as the input.

    Examples
    --------
    >>> gc.nn.functional.normalize(gc.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    result = input / F.clamp_min(F.norm(input, p, dim, True), eps)
    return result if out is None else out.copy_(result)


@composite(
    path="nn.functional.cosine_similarity",
    aliases=(".cosine_similarity",),
    samples=lambda: [
        case(floats(3, 4), floats(3, 4)),
        case(floats(2, 3, 4), floats(3, 1), dim=0),
        case(floats(4), floats(4), dim=-1, eps=10.0),
    ],
    autocast="float32:cuda",
)
def cosine_similarity(F, x1, x2, dim: int = 1, eps: float = 1e-8):
    """Return the cosine of the angle between vectors along `dim`; norms are at least `eps`.

    Returns
    -------
    Tensor
        Result of the broadcast shape without `dim`.

    Examples
    --------
    >>> gc.nn.functional.cosine_similarity(gc.tensor([[1.0, 0.0]]), gc.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """
    dtype = dtypes.promote_types(x1.dtype, x2.dtype)
    if not dtype.is_floating_point:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {dtype.scalar_name}")
    if eps < 0:
        raise RuntimeError(f"eps must be non-negative, got: {eps:g}")
    x1, x2 = F.to(x1, dtype), F.to(x2, dtype)
    if x1.shape != x2.shape:
        x1, x2 = F.broadcast_tensors(x1, x2)
    unit1, unit2 = (x / F.clamp_min(F.norm(x, 2, dim, True), eps) for x in (x1, x2))
    return F.sum(unit1 * unit2, dim)


@composite(
    path="nn.functional.pairwise_distance",
    aliases=(".pairwise_distance",),
    samples=lambda: [
        case(floats(3, 4), floats(3, 4)),
        case(floats(3, 4), floats(4), p=1.0, keepdim=True),
        case(floats(4), floats(4), p=3.0),
    ],
)
def pairwise_distance(F, x1, x2, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False):
    """Return the p-norm of ``x1 - x2 + eps`` over the last dim.

    Returns
    -------
    Tensor
        Result of the broadcast shape without its last dim.

    Examples
    --------
    >>> gc.nn.functional.pairwise_distance(gc.tensor([[0.0, 0.0]]), gc.tensor([[3.0, 4.0]]))
    tensor([5.0000])
    """
    return F.norm(x1 - x2 + eps, p, -1, keepdim)


@composite(
    path="nn.functional.bilinear",
    aliases=(".bilinear",),
    samples=lambda: [
        case(floats(3, 2), floats(3, 4), floats(5, 2, 4), floats(5)),
        case(floats(2, 3, 2), floats(2, 3, 3), floats(1, 2, 3)),
    ],
    autocast="widest:cuda",
)
def bilinear(F, input1, input2, weight, bias=None):
    """Compute ``input1 @ weight[k] @ input2``, for every `k`, plus `bias`.

    Returns
    -------
    Tensor
        Result of shape ``(*, out_features)``.

    Examples
    --------
    >>> gc.nn.functional.bilinear(gc.tensor([[1.0, 2.0]]), gc.tensor([[3.0]]), gc.ones(1, 2, 1))
    tensor([[9.]])
    """
    if input1.ndim != input2.ndim:
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {input1.ndim} and {input2.ndim}")
    for i in range(input1.ndim - 1):
        if input1.shape[i] != input2.shape[i]:
            raise RuntimeError(
                f"bilinear(): input batch dimensions do not match at dim {i}: got {input1.shape[i]} and "
                f"{input2.shape[i]}"
            )
    for k, x in ((1, input1), (2, input2)):
        if x.shape[-1] != weight.shape[k]:
            raise RuntimeError(
                f"bilinear(): input{k} size does not match weight size: got {x.shape[-1]} but expected "
                f"{weight.shape[k]}"
            )
    operands = {"input1": input1, "input2": input2, "weight": weight, "bias": bias}
    if any(t is not None and t.dtype is not input1.dtype for t in operands.values()):
        names = (f"{name}: {cpp_type(t.dtype)}" for name, t in operands.items() if t is not None)
        raise RuntimeError(f"All tensors must have the same dtype, got {', '.join(names)}")
    outputs = weight.shape[0]
    if bias is not None and bias.shape[0] != outputs:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias.shape[0]} but expected {outputs}"
        )
    left, right = F.reshape(input1, (-1, input1.shape[-1])), F.reshape(input2, (-1, input2.shape[-1]))
    # (k, n, j): the first input times each matrix, then the inner product with the second.
    out = F.contiguous(F.transpose(F.sum(F.matmul(left, weight) * right, -1), 0, 1))
    out = F.reshape(out, (*input1.shape[:-1], outputs))
    return out if bias is None else out + bias
