"""Normalization, dropout, embeddings, attention, distances: values by hand, conventions, state, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gradcore as gc
import gradcore.nn.functional as F
from tests.ops.directions import check_derivatives


def tensor(values: Any, grad: bool = False) -> gc.Tensor:
    return gc.tensor(values, dtype=gc.float64, requires_grad=grad)


def draw(*shape: int, grad: bool = False) -> gc.Tensor:
    return gc.tensor(np.random.default_rng(sum(shape)).standard_normal(shape), requires_grad=grad)


def close(found: Any, expected: Any, **tolerance: float) -> None:
    value = found.detach().numpy() if isinstance(found, gc.Tensor) else found
    expected = expected.detach().numpy() if isinstance(expected, gc.Tensor) else expected
    np.testing.assert_allclose(value, expected, **({"rtol": 1e-12, "atol": 1e-12} | tolerance))


def test_every_function_is_listed() -> None:
    assert {"conv2d", "cross_entropy", "relu", "layer_norm"} <= set(F.__all__)
    assert all(getattr(F, name).__name__ for name in F.__all__)
    assert gc.conv2d is F.conv2d


# -- normalization -------------------------------------------------------------------------------------------

NORMS = {
    "layer": (lambda x, w, b: F.layer_norm(x, (3, 4), w, b, 0.1), (3, 4), (2, 3)),
    "batch": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True, eps=0.1), (6,), (0, 2, 3)),
    "group": (lambda x, w, b: F.group_norm(x, 3, w, b, 0.1), (6,), None),
    "instance": (lambda x, w, b: F.instance_norm(x, None, None, w, b, eps=0.1), (6,), (2, 3)),
}


def normalized(x: Any, dims: Any) -> Any:
    if dims is None:
        return normalized(x.reshape(2, 3, -1), (2,)).reshape(x.shape)
    return (x - x.mean(dims, keepdims=True)) / np.sqrt(x.var(dims, keepdims=True) + 0.1)


@pytest.mark.parametrize("name", NORMS)
def test_norms_by_definition(name: str) -> None:
    call, shape, dims = NORMS[name]
    x, w, b = draw(2, 6, 3, 4), draw(*shape), draw(*shape) + 1
    if name != "layer":
        w, b = (t.reshape(6, 1, 1) for t in (w, b))
    expected = normalized(x.numpy(), dims)
    close(call(x, None, None), expected)
    close(call(x, w.reshape(shape), b.reshape(shape)), expected * w.numpy() + b.numpy())


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("with_bias", [False, True])
def test_derivatives_of_norms(name: str, with_bias: bool) -> None:
    """With and without parameters, which the formulas treat apart."""
    call, shape, _ = NORMS[name]
    x, w = draw(2, 6, 3, 4).numpy(), draw(*shape).numpy()
    check_derivatives(lambda t: call(t, None, None), x)
    if with_bias:
        check_derivatives(call, x, w, w + 1)
    else:
        check_derivatives(lambda t, u: call(t, u, None), x, w)


@pytest.mark.parametrize("name", NORMS)
def test_norms_far_from_zero(name: str) -> None:
    """Values with a mean a thousand times their deviation lose three digits, and no more."""
    call, *_ = NORMS[name]
    x = draw(2, 6, 3, 4) + 1000
    exact = x.clone().requires_grad_()
    rough = x.to(gc.float32).requires_grad_()
    up = draw(2, 6, 3, 4)
    outs = call(exact, None, None), call(rough, None, None)
    close(outs[1], outs[0], rtol=0, atol=1e-3)
    grads = [gc.autograd.grad(o, t, up.to(o.dtype))[0] for o, t in zip(outs, (exact, rough), strict=True)]
    close(grads[1], grads[0], rtol=0, atol=1e-3)


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 5), (2, 3, 2, 2)])
def test_running_statistics(shape: tuple[int, ...]) -> None:
    x = draw(*shape)
    mean, var = tensor([1.0, 2.0, 3.0]), tensor([1.0, 1.0, 2.0])
    before = mean.numpy().copy(), var.numpy().copy()
    F.batch_norm(x, mean, var, training=True, momentum=0.25)
    dims = (0, *range(2, len(shape)))
    close(mean, 0.75 * before[0] + 0.25 * x.numpy().mean(dims))
    close(var, 0.75 * before[1] + 0.25 * x.numpy().var(dims, ddof=1))
    assert mean._version == 2
    column = (3,) + (1,) * (len(shape) - 2)
    expected = (x.numpy() - mean.numpy().reshape(column)) / np.sqrt(var.numpy().reshape(column) + 1e-5)
    close(F.batch_norm(x, mean, var), expected)
    assert mean._version == 2


def test_running_statistics_of_half_precision_are_not_rounded_to_it() -> None:
    x = gc.full((8, 2), 0.5, dtype=gc.float16)
    x[0] += 0.001
    mean = gc.zeros(2)
    out = F.batch_norm(x, mean, gc.ones(2), training=True, momentum=1.0)
    assert out.dtype is gc.float16
    assert mean.tolist() == [x[:, 0].to(gc.float32).mean().item()] * 2


def test_running_statistics_of_instances() -> None:
    x = draw(4, 3, 5)
    mean, var = gc.zeros(3, dtype=gc.float64), gc.ones(3, dtype=gc.float64)
    F.instance_norm(x, mean, var, momentum=1.0)
    close(mean, x.numpy().mean((0, 2)))
    close(var, x.numpy().var(2, ddof=1).mean(0))
    close(F.instance_norm(x, mean, var, use_input_stats=False), F.batch_norm(x, mean, var))


def test_batch_norm_in_evaluation_is_a_linear_map() -> None:
    x, w, b = draw(2, 3, 4).numpy(), draw(3).numpy(), draw(3).numpy() + 1
    mean, var = draw(3), draw(3).abs() + 0.5
    check_derivatives(lambda *t: F.batch_norm(t[0], mean, var, *t[1:]), x, w, b)
    check_derivatives(lambda t: F.batch_norm(t, mean, var), x)


def test_a_channel_without_variance() -> None:
    x, up = gc.full((4, 1), 3.0, requires_grad=True), gc.tensor([[1.0], [2.0], [3.0], [6.0]])
    out = F.batch_norm(x, None, None, training=True)
    assert (out == 0).all()
    close(gc.autograd.grad(out, x, up)[0], np.array([[-2], [-1], [0], [3]]) / math.sqrt(1e-5), rtol=1e-6)


def test_rms_norm() -> None:
    x, w = draw(2, 3), draw(3)
    rms = np.sqrt((x.numpy() ** 2).mean(1, keepdims=True) + 0.1)
    close(F.rms_norm(x, (3,), w, 0.1), x.numpy() / rms * w.numpy())
    assert F.rms_norm(gc.zeros(2, 3), [3]).tolist() == [[0] * 3] * 2


def test_local_response_norm() -> None:
    x = tensor([[[1.0], [2.0], [3.0]]])
    squares = np.array([1 + 4, 1 + 4 + 9, 4 + 9]) / 3
    close(F.local_response_norm(x, 3, alpha=0.5, beta=0.75, k=2)[0, :, 0], [1, 2, 3] / (2 + 0.5 * squares) ** 0.75)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: F.layer_norm(x, (4,)),
            RuntimeError,
            r"Given normalized_shape=\[4\], expected input with shape \[\*, 4\]",
        ),
        (lambda x: F.layer_norm(x, ()), RuntimeError, "Expected normalized_shape to be at least 1-dimensional"),
        (
            lambda x: F.layer_norm(x, (5,), gc.ones(4)),
            RuntimeError,
            "Expected weight to be of same shape as normalized_shape",
        ),
        (
            lambda x: F.group_norm(x, 2),
            RuntimeError,
            "Expected number of channels in input to be divisible by num_groups",
        ),
        (lambda x: F.group_norm(x, 3, gc.ones(4)), RuntimeError, "Expected weight to be a vector of size equal to the"),
        (lambda x: F.batch_norm(x, None, None), RuntimeError, "running_mean must be defined in evaluation mode"),
        (
            lambda x: F.batch_norm(x, gc.ones(4), gc.ones(3)),
            RuntimeError,
            "running_mean should contain 3 elements not 4",
        ),
        (
            lambda x: F.batch_norm(x[:1, :, :1, :1], None, None, training=True),
            ValueError,
            "Expected more than 1 value per",
        ),
        (lambda x: F.batch_norm(x, None, None, training=True, eps=0.0), ValueError, "batch_norm eps must be positive"),
        (lambda x: F.instance_norm(x[:, :, :1, :1]), ValueError, "Expected more than 1 spatial element when training"),
        (lambda x: F.local_response_norm(x[0, 0], 2), ValueError, "Expected 3D or higher dimensionality"),
    ],
)
def test_norms_that_do_not_fit(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call(gc.ones(2, 3, 4, 5))


# -- dropout -------------------------------------------------------------------------------------------------


def test_dropout_scales_what_it_keeps() -> None:
    gc.manual_seed(0)
    x = gc.ones(10000, requires_grad=True)
    out = F.dropout(x, 0.2)
    assert set(out.tolist()) == {0.0, 1.25}
    assert abs((out == 0).sum().item() - 2000) < 200
    (grad,) = gc.autograd.grad(out.sum(), x)
    assert (grad == out).all()
    gc.manual_seed(0)
    assert (F.dropout(x, 0.2) == out).all()


def test_dropout_of_nothing_and_of_everything() -> None:
    x = gc.ones(3, requires_grad=True)
    assert F.dropout(x, 0.0) is x
    assert F.dropout(x, 0.7, training=False) is x
    out = F.dropout(x, 1.0)
    assert out.tolist() == [0, 0, 0]
    assert gc.autograd.grad(out.sum(), x)[0].tolist() == [0, 0, 0]


def test_dropout_in_place() -> None:
    leaf = gc.ones(1000, requires_grad=True)
    x = leaf * 1
    assert F.dropout(x, 0.5, inplace=True) is x
    assert set(x.tolist()) == {0.0, 2.0}
    x.sum().backward()
    assert (leaf.grad == x).all()


@pytest.mark.parametrize(("n", "shape"), [(1, (4, 50, 3)), (1, (50, 3)), (2, (4, 50, 2, 3)), (3, (50, 2, 3, 2))])
def test_dropout_of_channels(n: int, shape: tuple[int, ...]) -> None:
    gc.manual_seed(1)
    out = getattr(F, f"dropout{n}d")(gc.ones(shape), 0.5)
    rows = out.reshape(*shape[: len(shape) - n], -1)
    assert (rows == rows[..., :1]).all()
    assert set(out.flatten().tolist()) == {0.0, 2.0}


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    gc.manual_seed(2)
    x = gc.randn(200000)
    for function in (F.alpha_dropout, F.feature_alpha_dropout):
        out = function(x.reshape(-1, 2), 0.3, training=True)
        assert abs(out.mean().item()) < 0.02
        assert abs(out.var().item() - 1) < 0.02
    assert F.alpha_dropout(x, 0.3) is x


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout", "dropout1d", "dropout2d", "feature_alpha_dropout"])
def test_probabilities_are_checked(name: str) -> None:
    for p in (-0.1, 1.1):
        with pytest.raises(ValueError, match=f"dropout probability has to be between 0 and 1, but got {p}"):
            getattr(F, name)(gc.ones(2, 3, 4, 5), p)


# -- embeddings ----------------------------------------------------------------------------------------------


def test_rows_add_up() -> None:
    w = gc.arange(8.0).reshape(4, 2).requires_grad_()
    out = F.embedding(gc.tensor([[1, 3], [1, 1]]), w)
    assert out.tolist() == [[[2, 3], [6, 7]], [[2, 3], [2, 3]]]
    up = gc.tensor([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]])
    assert gc.autograd.grad(out, w, up)[0].tolist() == [[0, 0], [13, 16], [0, 0], [3, 4]]


def test_padding_has_no_gradient() -> None:
    w = gc.ones(4, 2, requires_grad=True)
    for index in (1, -3):
        out = F.embedding(gc.tensor([1, 2, 1]), w, padding_idx=index)
        (grad,) = gc.autograd.grad(out.sum(), w, create_graph=True)
        assert grad.tolist() == [[0, 0], [0, 0], [1, 1], [0, 0]]
    out = F.embedding(gc.tensor([1, 2, 1]), w, padding_idx=1)
    up = gc.ones(3, 2, requires_grad=True)
    (grad,) = gc.autograd.grad(out, w, up, create_graph=True)
    assert gc.autograd.grad(grad.sum(), up)[0].tolist() == [[0, 0], [1, 1], [0, 0]]


def test_gradients_by_frequency() -> None:
    w = gc.ones(3, 1, requires_grad=True)
    out = F.embedding(gc.tensor([0, 2, 0, 0]), w, scale_grad_by_freq=True)
    up = gc.tensor([[1.0], [2.0], [3.0], [5.0]])
    assert gc.autograd.grad(out, w, up)[0].tolist() == [[3], [0], [2]]


def test_long_rows_are_scaled_in_place() -> None:
    w = gc.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]], requires_grad=True)
    out = F.embedding(gc.tensor([0, 1, 0]), w, max_norm=1.0)
    expected = np.array([[0.6, 0.8], [0.3, 0.4], [6.0, 8.0]])
    close(w, expected, rtol=1e-6)
    close(out, expected[[0, 1, 0]], rtol=1e-6)
    assert w.is_leaf
    assert gc.autograd.grad(out.sum(), w)[0].tolist() == [[2, 2], [1, 1], [0, 0]]


def test_many_rows_are_summed_exactly_as_few() -> None:
    """Large gradients go through a sparse product."""
    rng = np.random.default_rng(0)
    index, up = rng.integers(0, 50, 4000), rng.standard_normal((4000, 16))
    w = gc.zeros(50, 16, dtype=gc.float64, requires_grad=True)
    (grad,) = gc.autograd.grad(F.embedding(gc.tensor(index), w), w, gc.tensor(up))
    expected = np.zeros((50, 16))
    np.add.at(expected, index, up)
    close(grad, expected)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda w: F.embedding(gc.tensor([0, 4]), w), IndexError, "index out of range in self"),
        (lambda w: F.embedding(gc.tensor([0, -1]), w), IndexError, "index out of range in self"),
        (
            lambda w: F.embedding(gc.tensor([0.0]), w),
            RuntimeError,
            "scalar types: Long, Int; but got torch.FloatTensor",
        ),
        (lambda w: F.embedding(gc.tensor([0]), w[0]), RuntimeError, "'weight' must be 2-D"),
        (lambda w: F.embedding(gc.tensor([0]), w, 4), AssertionError, "Padding_idx must be within num_embeddings"),
        (lambda w: F.one_hot(gc.tensor([0, 5]), 3), RuntimeError, "Class values must be smaller than num_classes"),
        (lambda w: F.one_hot(gc.tensor([0, -5])), RuntimeError, "Class values must be non-negative"),
        (lambda w: F.one_hot(gc.tensor([0.0])), RuntimeError, "one_hot is only applicable to index tensor"),
        (lambda w: F.one_hot(gc.zeros(0, dtype=gc.int64)), RuntimeError, "Can not infer total number of classes"),
    ],
)
def test_indices_that_do_not_fit(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call(gc.ones(4, 2))


def test_one_hot() -> None:
    assert F.one_hot(gc.tensor([[2, 0]])).tolist() == [[[0, 0, 1], [1, 0, 0]]]
    assert F.one_hot(gc.tensor(1), 4).tolist() == [0, 1, 0, 0]
    assert F.one_hot(gc.zeros(0, 2, dtype=gc.int64), 3).shape == (0, 2, 3)


BAGS = {
    "sum": ([[4.0, 6.0], [0.0, 0.0], [9.0, 12.0]], [2, 1, 1, 1]),
    "mean": ([[2.0, 3.0], [0.0, 0.0], [3.0, 4.0]], [1 / 2 + 1 / 3, 1 / 3, 1 / 2, 1 / 3]),
    "max": ([[4.0, 5.0], [0.0, 0.0], [6.0, 7.0]], [0, 0, 1, 1]),
}


@pytest.mark.parametrize("mode", BAGS)
def test_bags(mode: str) -> None:
    """A bag with the rows 0 and 2, an empty one, and one with the rows 1, 3 and 0."""
    w = gc.tensor([[0.0, 1.0], [3.0, 4.0], [4.0, 5.0], [6.0, 7.0]], requires_grad=True)
    index, offsets = gc.tensor([0, 2, 1, 3, 0]), gc.tensor([0, 2, 2])
    expected, share = BAGS[mode]
    found = F.embedding_bag(index, w, offsets, mode=mode)
    close(found, expected)
    (grad,) = gc.autograd.grad(found.sum(), w)
    close(grad, np.repeat(share, 2).reshape(4, 2), rtol=1e-6)
    last = F.embedding_bag(index, w, gc.tensor([0, 2, 2, 5]), mode=mode, include_last_offset=True)
    close(last, expected)
    square = F.embedding_bag(gc.tensor([[0, 2], [1, 1]]), w, mode=mode)
    close(square[0], expected[0])


def test_bags_with_padding_and_weights() -> None:
    w = gc.tensor([[1.0], [2.0], [4.0]], requires_grad=True)
    index = gc.tensor([[0, 1, 2], [1, 1, 1]])
    assert F.embedding_bag(index, w, padding_idx=1).tolist() == [[2.5], [0]]
    assert F.embedding_bag(index, w, mode="max", padding_idx=2).tolist() == [[2], [2]]
    factors = gc.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, -1.0]], requires_grad=True)
    out = F.embedding_bag(index, w, mode="sum", per_sample_weights=factors)
    assert out.tolist() == [[17], [0]]
    assert gc.autograd.grad(out.sum(), factors)[0].tolist() == [[1, 2, 4], [2, 2, 2]]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"offsets": gc.tensor([1])}, RuntimeError, r"offsets\[0\] has to be 0"),
        ({"offsets": gc.tensor([0, 9])}, RuntimeError, r"offsets\[-1\] can not be greater than input's length 2"),
        ({}, ValueError, "offsets has to be a 1D Tensor but got None"),
        ({"offsets": gc.tensor([0]), "mode": "median"}, ValueError, "mode has to be one of sum, mean or max"),
        (
            {"offsets": gc.tensor([0]), "per_sample_weights": gc.ones(2)},
            NotImplementedError,
            "only supported for mode='sum'",
        ),
    ],
)
def test_bags_that_do_not_fit(arguments: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        F.embedding_bag(gc.tensor([0, 1]), gc.ones(3, 2), **arguments)


# -- attention -----------------------------------------------------------------------------------------------


def attended(q: Any, k: Any, v: Any, mask: Any = 0.0, scale: float | None = None) -> Any:
    scores = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale) + mask
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ v


def test_attention_by_definition() -> None:
    q, k, v = draw(2, 3, 4, 5), draw(2, 3, 6, 5), draw(2, 3, 6, 2)
    arrays = [t.numpy() for t in (q, k, v)]
    close(F.scaled_dot_product_attention(q, k, v), attended(*arrays))
    close(F.scaled_dot_product_attention(q, k, v, scale=0.3), attended(*arrays, scale=0.3))
    mask = draw(4, 6)
    close(F.scaled_dot_product_attention(q, k, v, mask), attended(*arrays, mask.numpy()))
    visible = np.tril(np.ones((4, 6), bool))
    hidden = np.where(visible, 0, -np.inf)
    close(F.scaled_dot_product_attention(q, k, v, gc.tensor(visible)), attended(*arrays, hidden))
    close(F.scaled_dot_product_attention(q, k, v, is_causal=True), attended(*arrays, hidden))
    shared = F.scaled_dot_product_attention(q, k[:, :1], v[:, :1], enable_gqa=True)
    close(shared, attended(arrays[0], *(a[:, :1] for a in arrays[1:])))


def test_a_query_that_sees_nothing() -> None:
    q = draw(2, 3).requires_grad_()
    mask = gc.tensor([[True, True], [False, False]])
    out = F.scaled_dot_product_attention(q, draw(2, 3), draw(2, 3), mask)
    assert out[1].tolist() == [0, 0, 0]
    assert gc.autograd.grad(out.sum(), q)[0][1].tolist() == [0, 0, 0]


def test_derivatives_of_masks_and_shared_keys() -> None:
    q, k, v, mask = (draw(*s).numpy() for s in ((2, 2, 3, 4), (1, 5, 4), (5, 2), (3, 5)))
    check_derivatives(F.scaled_dot_product_attention, q, k, v, mask)


def test_attention_with_dropout() -> None:
    gc.manual_seed(0)
    q, k = draw(200, 4), draw(50, 4)
    ones = gc.ones(50, 1, dtype=gc.float64)
    out = F.scaled_dot_product_attention(q, k, ones, dropout_p=0.5)
    assert abs(out.mean().item() - 1) < 0.05
    assert out.std().item() > 0.05


def test_multi_head_attention_of_one_head() -> None:
    """With projections that change nothing it is attention of the sequences themselves."""
    q, k = draw(3, 2, 4), draw(5, 2, 4)
    eye = gc.eye(4, dtype=gc.float64)
    weights = (gc.cat([eye] * 3), None, None, None, False, 0.0, eye, None)
    out, shares = F.multi_head_attention_forward(q, k, k, 4, 1, *weights)
    a, b = (t.permute(1, 0, 2).numpy() for t in (q, k))
    close(out.permute(1, 0, 2), attended(a, b, b))
    close(shares.sum(-1), np.ones((2, 3)))
    padding = gc.tensor([[False] * 5, [False, True, True, True, True]])
    out, shares = F.multi_head_attention_forward(q, k, k, 4, 1, *weights, key_padding_mask=padding)
    close(shares[1], [[1, 0, 0, 0, 0]] * 3)
    close(out[:, 1], k[:1, 1].expand(3, 4))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((gc.ones(2, 3), gc.ones(3), gc.ones(2, 3)), "query.dim: 2 key.dim: 1 and value.dim: 2 instead"),
        ((gc.ones(2, 3), gc.ones(2, 3, dtype=gc.float64), gc.ones(2, 3)), "query.dtype: float key.dtype: double"),
        (
            (*(gc.ones(2, 3),) * 3, gc.ones(2, 2, dtype=gc.int64)),
            "got attn_mask.dtype: long int and  query.dtype: float",
        ),
        ((*(gc.ones(2, 3),) * 3, gc.ones(2, 2), 0.0, True), "should not be set when is_causal=True"),
    ],
)
def test_attention_that_does_not_fit(arguments: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        F.scaled_dot_product_attention(*arguments)


# -- distances -----------------------------------------------------------------------------------------------


def test_distances_by_hand() -> None:
    x, y = tensor([[3.0, 4.0], [0.0, 0.0]]), tensor([[4.0, 3.0], [1.0, 0.0]])
    close(F.cosine_similarity(x, y), [24 / 25, 0])
    with pytest.raises(RuntimeError, match="eps must be non-negative"):
        F.cosine_similarity(x, y, eps=-0.5)
    close(F.pairwise_distance(x, y, eps=0), [math.sqrt(2), 1])
    close(F.pairwise_distance(x, y, p=1, eps=0, keepdim=True), [[2], [1]])
    close(F.pdist(tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 8.0]])), [5, 8, 5])
    close(F.normalize(x), [[0.6, 0.8], [0, 0]])
    close(F.normalize(x, p=1, dim=0), [[1, 1], [0, 0]])
    w = tensor([[[1.0, 0.0], [0.0, 2.0]]])
    close(F.bilinear(x, y, w, tensor([0.5])), [[12 + 24 + 0.5], [0.5]])


def test_directions_of_zero_have_no_gradient() -> None:
    x = gc.zeros(1, 3, dtype=gc.float64, requires_grad=True)
    assert gc.autograd.grad(F.cosine_similarity(x, gc.ones(1, 3, dtype=gc.float64)).sum(), x)[0].isfinite().all()
    assert gc.autograd.grad(F.normalize(x).sum(), x)[0].isfinite().all()


def test_bilinear_errors() -> None:
    x, w = gc.ones(3, 2), gc.ones(4, 2, 2)
    for arguments, message in (
        ((x, x[None], w), "input dimensions do not match: got 2 and 3"),
        ((x, x[:2], w), "input batch dimensions do not match at dim 0: got 3 and 2"),
        ((x[:, :1], x, w), "input1 size does not match weight size: got 1 but expected 2"),
        ((x, x, w, gc.ones(3)), "bias size does not match weight size: got 3 but expected 4"),
    ):
        with pytest.raises(RuntimeError, match=message):
            F.bilinear(*arguments)


# -- nodes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("NativeLayerNormBackward0", lambda x: F.layer_norm(x, (4,))),
        ("NativeGroupNormBackward0", lambda x: F.group_norm(x, 1)),
        ("NativeBatchNormBackward0", lambda x: F.batch_norm(x, None, None, training=True)),
        ("NativeBatchNormBackward0", lambda x: F.batch_norm(x, gc.zeros(2), gc.ones(2))),
        ("ViewBackward0", F.instance_norm),
        ("MulBackward0", F.dropout),
        ("AddBackward0", lambda x: F.alpha_dropout(x, 0.5, True)),
        ("EmbeddingBackward0", lambda x: F.embedding(gc.tensor([0]), x[0, 0])),
        ("ScaledDotProductFlashAttentionForCpuBackward0", lambda x: F.scaled_dot_product_attention(x, x, x)),
    ],
)
def test_names_of_nodes(name: str, call: Any) -> None:
    assert call(gc.ones(1, 2, 4, 4, requires_grad=True)).grad_fn.name() == name


@pytest.mark.parametrize("shape", [(0, 4, 3), (2, 4, 0), (2, 0, 3), (0, 0, 0)])
@pytest.mark.parametrize(
    "call",
    [
        lambda x, w, b, *running: F.layer_norm(x.mT, (x.shape[1],), w, b),
        lambda x, w, b, *running: F.layer_norm(x.mT, (x.shape[1],)).mT * w[:, None] + b[:, None],
        lambda x, w, b, *running: F.rms_norm(x.mT, (x.shape[1],), w) + b,
        lambda x, w, b, *running: F.group_norm(x, 1, w, b),
        lambda x, w, b, *running: F.batch_norm(x, *running, w, b),
        lambda x, w, b, *running: F.batch_norm(x, *running, w, b, training=True),
        lambda x, w, b, *running: F.instance_norm(x, *running, w, b),
        lambda x, w, b, *running: F.instance_norm(x, *running, w, b, use_input_stats=False),
    ],
)
def test_norms_of_no_elements_have_gradients(call: Any, shape: tuple[int, ...]) -> None:
    x = gc.zeros(shape, requires_grad=True)
    weight, bias = (gc.ones(shape[1], requires_grad=True) for _ in range(2))
    running = gc.zeros(shape[1]), gc.ones(shape[1])
    grads = gc.autograd.grad(call(x, weight, bias, *running).sum(), (x, weight, bias), create_graph=True)
    assert [grad.shape for grad in grads] == [shape, weight.shape, bias.shape]
    assert (grads[2] == 0).all()
    gc.autograd.grad(sum(grad.sum() for grad in grads[:2]), (x, weight), allow_unused=True)
    assert (running[0] == 0).all()
    assert (running[1] == 1).all()


def test_response_norm_of_integers_is_that_of_whole_means() -> None:
    x = gc.tensor([[[1], [2], [5], [7]]])
    found = F.local_response_norm(x, 2, alpha=3.0, k=1.25)
    assert found.dtype is gc.float32
    means = np.array([0, 2, 14, 37])
    close(found.flatten(), x.flatten().numpy() / (3 * means + 1.25) ** 0.75, rtol=1e-6)
    with pytest.raises(NotImplementedError, match="not implemented for 'Byte'"):
        F.local_response_norm(x.to(gc.uint8), 2)


def _large_norm(name: str, x: Any) -> Any:
    weight = gc.tensor([0.5, -1.0, 1.5, 0.7], dtype=x.dtype, device=x.device)
    calls: dict[str, Any] = {
        "layer": lambda: F.layer_norm(x, (4,), weight), "layer without weight": lambda: F.layer_norm(x, (4,)),
        "rms": lambda: F.rms_norm(x, (4,), weight), "group": lambda: F.group_norm(x, 2, weight),
        "batch": lambda: F.batch_norm(x, None, None, weight, training=True),
        "batch of rows": lambda: F.batch_norm(x[:, :, 0], None, None, weight, training=True),
        "instance": lambda: F.instance_norm(x),
    }  # fmt: skip
    return calls[name]()


@pytest.mark.parametrize("dtype", [gc.float32, gc.float64])
@pytest.mark.parametrize(
    "name", ["layer", "layer without weight", "rms", "group", "batch", "batch of rows", "instance"]
)
def test_gradients_of_norms_where_cubes_of_deviations_overflow(name: str, dtype: Any) -> None:
    """The normalized values do not change with the scale of the input, so gradients are those of small numbers."""
    size = 1e17 if dtype is gc.float32 else 1e150
    small = draw(3, 4, 4)
    t = gc.cos(3 * small)
    for norm in (_large_norm, gc.compile(_large_norm)):
        for create_graph in (False, False, True):
            results = []
            for x in (small.clone().requires_grad_(), (small * size).to(dtype).requires_grad_()):
                y = norm(name, x)
                grad = gc.sin(gc.arange(float(y.numel()), dtype=y.dtype)).reshape(y.shape)
                results += [*gc.autograd.grad(y, x, grad, create_graph=create_graph)]
            close(results[1].double() * size, results[0], rtol=1e-3, atol=1e-4)
    tangents = [gc.func.jvp(lambda x: _large_norm(name, x), (x,), (v.to(x.dtype),))[1]
                for x, v in ((small, t), ((small * size).to(dtype), t * size))]  # fmt: skip
    close(tangents[1].double(), tangents[0], rtol=1e-3, atol=1e-4)
