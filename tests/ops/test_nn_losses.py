"""Losses: values worked out by hand, conventions, numbers at the edge, errors."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import gradcore as gc
import gradcore.nn.functional as F
from gradcore.ops.declare.table import OPS
from tests.ops.cases import Drawn, cases
from tests.ops.directions import check_derivatives

LOG2 = math.log(2)


def tensor(values: Any, grad: bool = False) -> gc.Tensor:
    return gc.tensor(values, dtype=gc.float64, requires_grad=grad)


def gradient(loss: gc.Tensor, x: gc.Tensor) -> Any:
    return gc.autograd.grad(loss, x)[0].numpy()


def close(found: Any, expected: Any, **tolerance: float) -> None:
    value = found.detach().numpy() if isinstance(found, gc.Tensor) else found
    np.testing.assert_allclose(value, expected, **({"rtol": 1e-12, "atol": 1e-14} | tolerance))


# -- reduction -----------------------------------------------------------------------------------------------

REDUCIBLE = {
    "mse_loss": ([1.0, 4.0], 2.5, 5.0),
    "l1_loss": ([1.0, 2.0], 1.5, 3.0),
    "smooth_l1_loss": ([0.5, 1.5], 1.0, 2.0),
    "huber_loss": ([0.5, 1.5], 1.0, 2.0),
}


@pytest.mark.parametrize("name", REDUCIBLE)
def test_reductions(name: str) -> None:
    loss, (each, mean, total) = getattr(F, name), REDUCIBLE[name]
    x, y = tensor([3.0, 1.0]), tensor([2.0, 3.0])
    close(loss(x, y, reduction="none"), each)
    close(loss(x, y), mean)
    close(loss(x, y, reduction="sum"), total)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"size_average": True}, "mean"),
        ({"size_average": False}, "sum"),
        ({"reduce": True}, "mean"),
        ({"reduce": False}, "none"),
        ({"reduce": True, "size_average": False}, "sum"),
        ({"reduce": False, "size_average": False}, "none"),
    ],
)
def test_older_arguments_name_the_reduction(old: dict[str, bool], new: str) -> None:
    x, y = tensor([3.0, 1.0]), tensor([2.0, 3.0])
    with pytest.warns(UserWarning, match=f"please use reduction='{new}' instead"):
        found = F.mse_loss(x, y, **old)
    close(found, F.mse_loss(x, y, reduction=new).numpy())


@pytest.mark.parametrize("name", [op.name for op in OPS.values() if "size_average" in op.names])
def test_warnings_of_older_arguments_point_to_the_users_line(name: str) -> None:
    sample = cases(OPS[name])[0]
    older = Drawn(sample.op, sample.label, sample.args, {**sample.settings, "size_average": True})
    with pytest.warns(UserWarning, match="size_average and reduce args will be deprecated") as record:
        older.call([gc.from_numpy(array) for array in sample.arrays()])
    assert [each.filename for each in record if "size_average" in str(each.message)] == [__file__]


def test_unknown_reductions_are_refused() -> None:
    with pytest.raises(ValueError, match="average is not a valid value for reduction"):
        F.mse_loss(tensor([1.0]), tensor([1.0]), reduction="average")
    with pytest.raises(ValueError, match="batchmean is not a valid value for reduction"):
        F.mse_loss(tensor([1.0]), tensor([1.0]), reduction="batchmean")


def test_shapes_that_broadcast_are_warned_of() -> None:
    x = tensor([[1.0], [2.0]], grad=True)
    with pytest.warns(UserWarning, match="Using a target size .* is different to the input size") as record:
        loss = F.mse_loss(x, tensor([0.0, 1.0]))
    assert record[0].filename == __file__
    close(loss, (1 + 0 + 4 + 1) / 4)
    close(gradient(loss, x), [[0.5], [1.5]])


def test_weighted_losses() -> None:
    x, y, w = tensor([3.0, 1.0]), tensor([2.0, 3.0]), tensor([1.0, 3.0])
    close(F.mse_loss(x, y, weight=w), (1 + 12) / 4)
    close(F.l1_loss(x, y, weight=w), (1 + 6) / 4)
    close(F.huber_loss(x, y, weight=w), (0.5 + 4.5) / 2)
    with pytest.raises(ValueError, match="same size"):
        F.mse_loss(x, y, weight=tensor(1.0))


@pytest.mark.parametrize("loss", [F.mse_loss, F.smooth_l1_loss, F.huber_loss, F.soft_margin_loss])
def test_nothing_to_reduce(loss: Any) -> None:
    empty = gc.ones(0, 3, requires_grad=True)
    assert math.isnan(loss(empty, gc.ones(0, 3)).item())
    total = loss(empty, gc.ones(0, 3), reduction="sum")
    assert total.item() == 0
    assert gradient(total, empty).shape == (0, 3)


# -- differences ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "slope"), [(-3.0, -1), (-0.5, -1), (-0.2, -0.4), (0.0, 0), (0.5, 1), (7.0, 1)])
def test_smooth_l1_is_linear_beyond_beta(d: float, slope: float) -> None:
    x = tensor([d], grad=True)
    loss = F.smooth_l1_loss(x, tensor([0.0]), beta=0.5)
    close(loss, abs(d) - 0.25 if abs(d) > 0.5 else d * d)
    close(gradient(loss, x), [slope])


def test_huber_is_smooth_l1_times_delta() -> None:
    x, y = gc.randn(50, dtype=gc.float64), gc.randn(50, dtype=gc.float64)
    close(F.huber_loss(x, y, delta=0.7), 0.7 * F.smooth_l1_loss(x, y, beta=0.7).numpy())


def test_without_width() -> None:
    x, y = tensor([3.0, 1.0]), tensor([2.0, 3.0])
    close(F.smooth_l1_loss(x, y, beta=0), F.l1_loss(x, y).numpy())
    with pytest.raises(RuntimeError, match="negative values for beta"):
        F.smooth_l1_loss(x, y, beta=-1)
    with pytest.raises(RuntimeError, match="non-positive values for delta"):
        F.huber_loss(x, y, delta=0)


def test_l1_has_no_slope_at_zero() -> None:
    x = tensor([0.0, 2.0], grad=True)
    close(gradient(F.l1_loss(x, tensor([0.0, 0.0]), reduction="sum"), x), [0, 1])


@pytest.mark.parametrize("loss", [F.mse_loss, F.huber_loss, F.smooth_l1_loss])
def test_infinite_and_undefined_differences(loss: Any) -> None:
    x = tensor([math.inf, math.nan, 1.0], grad=True)
    found = loss(x, tensor([0.0, 0.0, 1.0]), reduction="none")
    assert found[0] == math.inf
    assert math.isnan(found[1].item())
    assert found[2] == 0


def test_dtypes_are_promoted() -> None:
    assert F.mse_loss(gc.ones(2), gc.ones(2, dtype=gc.float64)).dtype is gc.float64
    assert F.mse_loss(gc.ones(2), gc.ones(2, dtype=gc.int64)).dtype is gc.float32


def test_gaussian_variances() -> None:
    x, y = tensor([[1.0, 2.0], [0.0, 1.0]]), tensor([[0.0, 2.0], [0.0, 3.0]])
    expected = 0.5 * (np.log([[4.0], [1.0]]) + np.array([[0.25, 0], [0, 4]]))
    for var in (tensor([4.0, 1.0]), tensor([[4.0], [1.0]]), tensor([[4.0, 4.0], [1.0, 1.0]])):
        close(F.gaussian_nll_loss(x, y, var, reduction="none"), expected)
    close(F.gaussian_nll_loss(x, y, 1.0, full=True), 5 / 8 + 0.5 * math.log(2 * math.pi))


def test_small_variances_pass_their_gradient_on() -> None:
    var = tensor([1e-9], grad=True)
    loss = F.gaussian_nll_loss(tensor([1.0]), tensor([0.0]), var, eps=0.5)
    close(loss, 0.5 * (math.log(0.5) + 2))
    close(gradient(loss, var), [0.5 * (2 - 4)])
    assert var.item() == 1e-9


def test_wrong_variances() -> None:
    x = tensor([[1.0, 2.0]])
    for var in (-1.0, tensor([[-1.0, 1.0]])):
        with pytest.raises(ValueError, match="negative entry"):
            F.gaussian_nll_loss(x, x, var)
    with pytest.raises(ValueError, match="incorrect size"):
        F.gaussian_nll_loss(x, x, tensor([1.0, 1.0, 1.0]))


def test_poisson() -> None:
    x, y = tensor([1.0, 2.0]), tensor([0.5, 3.0])
    close(F.poisson_nll_loss(x, y, reduction="none"), np.exp([1, 2]) - np.array([0.5, 6]))
    stirling = 3 * math.log(3) - 3 + 0.5 * math.log(6 * math.pi)
    found = F.poisson_nll_loss(x, y, log_input=False, full=True, eps=0, reduction="none")
    close(found, [1.0, 2 - 3 * math.log(2) + stirling])


# -- classes -------------------------------------------------------------------------------------------------


def test_cross_entropy_by_hand() -> None:
    x = tensor([[0.0, 0.0], [math.log(3), 0.0]], grad=True)
    target = gc.tensor([0, 1])
    loss = F.cross_entropy(x, target)
    close(loss, (LOG2 + math.log(4)) / 2)
    close(gradient(loss, x), np.array([[-0.5, 0.5], [0.75, -0.75]]) / 2)
    close(F.cross_entropy(x, target, reduction="none"), [LOG2, math.log(4)])
    close(F.cross_entropy(x, target, tensor([1.0, 3.0])), (LOG2 + 3 * math.log(4)) / 4)


def test_cross_entropy_is_nll_of_log_softmax() -> None:
    x = gc.randn(3, 4, 2, 5, dtype=gc.float64, requires_grad=True)
    target = gc.randint(0, 4, (3, 2, 5))
    target[0, 0, :3] = -100
    weight = gc.rand(4, dtype=gc.float64)
    for reduction in ("mean", "sum", "none"):
        one = F.cross_entropy(x, target, weight, reduction=reduction)
        two = F.nll_loss(F.log_softmax(x, 1), target, weight, reduction=reduction)
        close(one, two.detach().numpy())
        up = gc.ones_like(two)
        close(gc.autograd.grad(one, x, up)[0], gc.autograd.grad(two, x, up)[0].numpy())


@pytest.mark.parametrize("function", [gc.nn.functional.cross_entropy, gc.nn.functional.nll_loss])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(4, 3), (3,), (2, 3, 2)])
def test_classes_may_be_uint8(function: Any, reduction: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    scores = rng.standard_normal(shape)
    classes = rng.integers(0, 3, shape[:1] + shape[2:] if len(shape) > 1 else ())
    for weight in (None, gc.tensor([1.0, 2.0, 3.0], dtype=gc.float64)):
        for ignore_index in (-100, 1):
            results = []
            for dtype in (gc.int64, gc.uint8):
                x, target = gc.tensor(scores, requires_grad=True), gc.tensor(classes, dtype=dtype)
                loss = function(x, target, weight=weight, ignore_index=ignore_index, reduction=reduction)
                loss.sum().backward()
                results.append((loss.tolist(), x.grad.tolist()))
            assert str(results[0]) == str(results[1])  # the mean of no losses is NaN


def test_cross_entropy_of_probabilities_and_classes_agree() -> None:
    x, target = gc.randn(5, 3, 2, dtype=gc.float64), gc.randint(0, 3, (5, 2))
    certain = F.one_hot(target, 3).permute(0, 2, 1).to(gc.float64)
    for options in ({}, {"label_smoothing": 0.3}, {"weight": tensor([1.0, 2.0, 0.5]), "reduction": "none"}):
        close(F.cross_entropy(x, certain, **options), F.cross_entropy(x, target, **options).numpy())


def test_label_smoothing_by_hand() -> None:
    x = tensor([[math.log(3), 0.0]])
    own, other = math.log(4 / 3), math.log(4)
    close(F.cross_entropy(x, gc.tensor([0]), label_smoothing=0.2), 0.9 * own + 0.1 * other)
    with pytest.raises(RuntimeError, match=r"label_smoothing must be between 0.0 and 1.0. Got: 2"):
        F.cross_entropy(x, gc.tensor([0]), label_smoothing=2)


def test_ignored_targets_have_no_part() -> None:
    x = tensor([[1.0, 2.0], [math.nan, math.inf], [3.0, 1.0]], grad=True)
    for ignored in (-100, 1):
        target = gc.tensor([0, ignored, 0])
        loss = F.cross_entropy(x, target, ignore_index=ignored)
        close(loss, (math.log(1 + math.e) + math.log(1 + math.exp(-2))) / 2)
    wide = tensor([[1.0, 2.0], [5.0, 6.0], [3.0, 1.0]], grad=True)
    found = gradient(F.cross_entropy(wide, gc.tensor([0, -100, 0])), wide)
    assert (found[1] == 0).all()
    assert (found[0] != 0).all()


def test_all_targets_ignored() -> None:
    x, target = gc.ones(2, 3, requires_grad=True), gc.full((2,), -100)
    loss = F.cross_entropy(x, target)
    assert math.isnan(loss.item())
    assert (gradient(loss, x) == 0).all()
    assert F.cross_entropy(x, target, reduction="sum").item() == 0


@pytest.mark.parametrize("offset", [0.0, 1e4, -1e4])
def test_cross_entropy_of_large_scores(offset: float) -> None:
    """A constant added to all scores changes nothing, and no accuracy is lost for scores far from zero."""
    scores = np.array([[0.0, 1.0, -200.0], [3.0, 2.0, 1.0]], np.float32) + np.float32(offset)
    x = gc.tensor(scores, requires_grad=True)
    loss = F.cross_entropy(x, gc.tensor([1, 0]), reduction="none")
    p = 1 / (1 + math.exp(-1)), 1 / (1 + math.exp(-1) + math.exp(-2))
    close(loss, -np.log(p), rtol=2e-7, atol=0)
    found = gc.autograd.grad(loss.sum(), x)[0].numpy()
    close(found[0], [1 - p[0], p[0] - 1, 0], rtol=1e-6, atol=1e-30)


def test_moderate_scores_take_a_shorter_way() -> None:
    """Many scores of moderate size are not shifted before they are exponentiated."""
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((64, 100)).astype("f")
    target = gc.tensor(rng.integers(0, 100, 64))
    results = []
    for shift in (0.0, 100.0):
        x = gc.tensor(scores.astype("d") + shift, requires_grad=True)
        loss = F.cross_entropy(x, target)
        results.append((loss.item(), gradient(loss, x)))
    close(results[0][0], results[1][0], rtol=1e-12)
    close(results[0][1], results[1][1], rtol=1e-11)


def test_impossible_classes() -> None:
    x = tensor([[0.0, -math.inf], [0.0, 1.0]], grad=True)
    loss = F.cross_entropy(x, gc.tensor([0, 0]), reduction="sum")
    close(loss, math.log(1 + math.e))
    close(gradient(loss, x)[0], [0, 0])
    assert F.cross_entropy(x, gc.tensor([1, 0])).item() == math.inf


def test_classes_without_a_batch() -> None:
    x = tensor([0.0, 0.0], grad=True)
    for target in (gc.tensor(1), gc.tensor([1])):
        loss = F.cross_entropy(x, target)
        close(loss, LOG2)
        close(gradient(loss, x), [0.5, -0.5])


@pytest.mark.parametrize("function", [F.cross_entropy, F.nll_loss])
@pytest.mark.parametrize(
    ("shape", "target", "error", "message"),
    [
        ((3, 5), [0, 1], ValueError, r"Expected input batch_size \(3\) to match target batch_size \(2\)\."),
        ((3, 5), [0, 1, 5], IndexError, r"Target 5 is out of bounds\."),
        ((3, 5), [0, 1, -1], IndexError, r"Target -1 is out of bounds\."),
        ((3, 5), [[0], [1], [2]], RuntimeError, "0D or 1D target tensor expected, multi-target not supported"),
        ((3, 5, 4), [[0] * 3] * 3, RuntimeError, r"Expected target size \[3, 4\], got \[3, 3\]"),
        ((3, 5), [0.0, 1.0, 2.0], RuntimeError, "expected target dtype to be Long or Byte, but got Float"),
        ((5,), [0, 1], ValueError, "For 1D input, 1D target must have size 1, but got target size: 2"),
        ((), 0, (ValueError, RuntimeError), "1 or more dimensions|floating point type"),
    ],
)
def test_targets_that_do_not_fit(function: Any, shape: Any, target: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        function(gc.ones(shape), gc.tensor(target))


def test_weights_that_do_not_fit() -> None:
    with pytest.raises(RuntimeError, match="either for all 5 classes or no classes but got weight tensor of shape"):
        F.nll_loss(gc.ones(3, 5), gc.tensor([0, 1, 2]), gc.ones(4))
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        F.cross_entropy(gc.ones(3, 5), gc.tensor([0, 1, 2]), gc.ones(5, dtype=gc.float64))
    with pytest.raises(RuntimeError, match="ignore_index is not supported for floating point target"):
        F.cross_entropy(gc.ones(3, 5), gc.ones(3, 5), ignore_index=1)


def test_linear_cross_entropy() -> None:
    x, w, b = (gc.randn(*s, dtype=gc.float64) for s in ((4, 5), (3, 2, 5), (3, 2)))
    target = gc.randint(0, 3, (4, 2))
    scores = gc.einsum("ni,cdi->ncd", x, w) + b
    close(F.linear_cross_entropy(x, w, target, linear_bias=b), F.cross_entropy(scores, target).numpy())


# -- two classes, distributions ------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "name"), [(gc.uint8, "Byte"), (gc.int64, "Long"), (gc.bool, "Bool")])
def test_binary_cross_entropy_of_whole_numbers_is_refused(dtype: Any, name: str) -> None:
    x = tensor([0, 1]).to(dtype)
    with pytest.raises(NotImplementedError, match=f"\"binary_cross_entropy\" not implemented for '{name}'"):
        F.binary_cross_entropy(x, x)


def test_binary_cross_entropy_of_certainties() -> None:
    """Logarithms are at least -100, and a gradient divides by at least 1e-12."""
    p = tensor([0.0, 1.0, 0.25], grad=True)
    loss = F.binary_cross_entropy(p, tensor([1.0, 1.0, 0.0]), reduction="none")
    close(loss, [100, 0, -math.log(0.75)])
    close(gradient(loss.sum(), p), [-1e12, 0, 4 / 3])


def test_logits_of_any_size() -> None:
    x = tensor([-1000.0, 1000.0, 0.0, 1000.0], grad=True)
    loss = F.binary_cross_entropy_with_logits(x, tensor([0.0, 1.0, 0.5, 0.0]), reduction="none")
    close(loss, [0, 0, LOG2, 1000])
    close(gradient(loss.sum(), x), [0, 0, 0, 1])


def test_logits_and_probabilities_agree() -> None:
    x, y, w = (gc.rand(20, dtype=gc.float64) for _ in range(3))
    expected = F.binary_cross_entropy(x.sigmoid(), y, w)
    close(F.binary_cross_entropy_with_logits(x, y, w), expected.numpy())


def test_pos_weight_repeats_positive_examples() -> None:
    x, y = gc.randn(3, 4, dtype=gc.float64, requires_grad=True), gc.randint(0, 2, (3, 4)).to(gc.float64)
    p = tensor([1.0, 2.0, 0.5, 3.0])
    found = F.binary_cross_entropy_with_logits(x, y, pos_weight=p, reduction="sum")
    s = x.detach().sigmoid()
    expected = -(p * y * s.log() + (1 - y) * (1 - s).log()).sum()
    close(found, expected.numpy())
    close(gradient(found, x), ((1 - y) * s - p * y * (1 - s)).numpy())
    check_derivatives(
        lambda a, b: F.binary_cross_entropy_with_logits(a, b, pos_weight=p), x.detach().numpy(), np.full((3, 4), 0.3)
    )


def test_binary_errors() -> None:
    half = gc.full((2,), 0.5)
    with pytest.raises(ValueError, match=r"Using a target size \(torch.Size\(\[1\]\)\) that is different"):
        F.binary_cross_entropy(half, half[:1])
    with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
        F.binary_cross_entropy(half * 3, half)
    with pytest.raises(RuntimeError, match="all elements of target should be between 0 and 1"):
        F.binary_cross_entropy(half, half - 1)
    with pytest.raises(ValueError, match=r"Target size \(torch.Size\(\[1\]\)\) must be the same as input size"):
        F.binary_cross_entropy_with_logits(half, half[:1])


def test_divergence() -> None:
    p, q = tensor([[0.5, 0.5], [1.0, 0.0]]), tensor([[0.25, 0.75], [0.5, 0.5]])
    rows = np.array([0.5 * math.log(2) + 0.5 * math.log(2 / 3), LOG2])
    close(F.kl_div(q.log(), p, reduction="batchmean"), rows.mean())
    close(F.kl_div(q.log(), p, reduction="sum"), rows.sum())
    close(F.kl_div(q[:1].log(), p[:1].log(), reduction="sum", log_target=True), rows[0])
    with pytest.warns(UserWarning, match="batchmean"):
        close(F.kl_div(q.log(), p), rows.sum() / 4)


# -- margins -------------------------------------------------------------------------------------------------


def test_margins_by_hand() -> None:
    x = tensor([0.5, -2.0, 3.0])
    close(F.hinge_embedding_loss(x, gc.tensor([1, -1, -1]), reduction="none"), [0.5, 3, 0])
    close(F.margin_ranking_loss(x, tensor([1.0, 0.0, 0.0]), tensor([1.0, -1.0, -1.0]), reduction="none"), [0.5, 0, 3])
    close(F.soft_margin_loss(x, tensor([1.0, 1.0, -1.0]), reduction="sum"), np.log1p(np.exp([-0.5, 2, 3])).sum())
    close(F.soft_margin_loss(tensor([-800.0, 800.0]), tensor([1.0, 1.0]), reduction="none"), [800, 0])
    near, far = tensor([[3.0, 4.0]]), tensor([[0.0, 1.0]])
    zero = gc.zeros(1, 2, dtype=gc.float64)
    close(F.triplet_margin_loss(zero, near, far, eps=0), 5)
    close(F.triplet_margin_loss(zero, near, far, margin=7, p=1, eps=0), 13)
    close(F.triplet_margin_loss(zero, far, near, margin=5, eps=0, swap=True), 1 + 5 - math.hypot(3, 3))
    close(F.cosine_embedding_loss(near, tensor([[4.0, 3.0]]), gc.tensor([1])), 1 - 24 / 25, rtol=1e-10)
    close(F.cosine_embedding_loss(near, tensor([[4.0, 3.0]]), gc.tensor([-1]), margin=0.5), 24 / 25 - 0.5, rtol=1e-10)


def test_class_margins_by_hand() -> None:
    x = tensor([[0.1, 0.2, 0.4, 0.8]], grad=True)
    close(F.multi_margin_loss(x, gc.tensor([3])), (0.3 + 0.4 + 0.6) / 4)
    close(F.multi_margin_loss(x, gc.tensor([3]), p=2), (0.09 + 0.16 + 0.36) / 4)
    close(gradient(F.multi_margin_loss(x, gc.tensor([3])), x), [[0.25, 0.25, 0.25, -0.75]])
    close(F.multilabel_margin_loss(x, gc.tensor([[3, 0, -1, 1]])), (0.4 + 0.6 + 1.1 + 1.3) / 4)
    target = tensor([[1.0, 0.0, 0.0, 1.0]])
    expected = F.binary_cross_entropy_with_logits(x, target)
    close(F.multilabel_soft_margin_loss(x, target), expected.detach().numpy())


def test_margin_errors() -> None:
    x = gc.ones(2, 3)
    with pytest.raises(ValueError, match="margin must be greater than 0, got 0"):
        F.triplet_margin_loss(x, x, x, margin=0)
    with pytest.raises(RuntimeError, match="the same number of dimensions, but got: anchor 2D, positive 2D"):
        F.triplet_margin_loss(x, x, x[0])
    with pytest.raises(ValueError, match="only p == 1 and p == 2 supported"):
        F.multi_margin_loss(x, gc.tensor([0, 1]), p=3)
    with pytest.raises(RuntimeError, match="1D target tensor expects 2D input tensors"):
        F.cosine_embedding_loss(x[0], x[0], gc.ones(2))
    with pytest.raises(RuntimeError, match="inconsistent target size"):
        F.multilabel_margin_loss(x, gc.tensor([0, 1]))


# -- alignments ----------------------------------------------------------------------------------------------


def _collapsed(path: tuple[int, ...]) -> list[int]:
    return [label for label, _ in itertools.groupby(path) if label]


@pytest.mark.parametrize("labels", [[1, 2], [1, 1], [2], []])
def test_ctc_sums_over_all_alignments(labels: list[int]) -> None:
    steps, classes = 4, 3
    log_probs = np.log(np.random.default_rng(0).dirichlet(np.ones(classes), steps))
    total = sum(
        math.exp(sum(log_probs[t, c] for t, c in enumerate(path)))
        for path in itertools.product(range(classes), repeat=steps)
        if _collapsed(path) == labels
    )
    target = gc.tensor([labels], dtype=gc.int64)
    found = F.ctc_loss(gc.tensor(log_probs[:, None]), target, [steps], [len(labels)], reduction="sum")
    close(found, -math.log(total), rtol=1e-12)


def test_ctc_lengths() -> None:
    """Steps and labels beyond a sequence's length have no part in its loss; targets may stand in a row."""
    x = gc.randn(6, 2, 4, dtype=gc.float64, requires_grad=True)
    log_probs = x.log_softmax(2)
    padded, flat = gc.tensor([[1, 2, 3], [3, 1, 1]]), gc.tensor([1, 2, 3, 3])
    found = F.ctc_loss(log_probs, padded, gc.tensor([6, 4]), gc.tensor([3, 1]), reduction="none")
    close(F.ctc_loss(log_probs, flat, (6, 4), (3, 1), reduction="none"), found.detach().numpy())
    single = F.ctc_loss(log_probs[:4, 1], gc.tensor([3]), [4], [1], reduction="none")
    close(found[1], single.detach().numpy())
    close(F.ctc_loss(log_probs, flat, (6, 4), (3, 1)), (found[0] / 3 + found[1]).item() / 2)
    assert (gradient(found.sum(), x)[4:, 1] == 0).all()


def test_ctc_without_an_alignment() -> None:
    log_probs = gc.zeros(2, 1, 3, dtype=gc.float64, requires_grad=True)
    arguments = (log_probs, gc.tensor([[1, 1]]), [2], [2])
    assert F.ctc_loss(*arguments).item() == math.inf
    loss = F.ctc_loss(*arguments, zero_infinity=True)
    assert loss.item() == 0
    assert (gradient(loss, log_probs) == 0).all()


@pytest.mark.parametrize("labels", [0, 3])
def test_ctc_of_probabilities_that_are_zero(labels: int) -> None:
    log_probs = np.log(np.random.default_rng(0).dirichlet(np.ones(4), (7, 2)))
    log_probs[3, 0, 1:] = -np.inf
    x, targets = gc.tensor(log_probs, requires_grad=True), gc.tensor([[1, 2, 3], [3, 3, 1]])[:, :labels]
    losses = F.ctc_loss(x, targets, [7, 6], [labels, labels], reduction="none")
    losses.sum().backward()
    assert x.grad is not None
    assert bool(x.grad.isfinite().all())
    assert bool((x.grad[3, 0, 1:] == 0).all())
    assert bool((x.grad[6, 1] == 0).all())
    if not labels:
        close(losses, -np.array([log_probs[:, 0, 0].sum(), log_probs[:6, 1, 0].sum()]))


def test_ctc_errors() -> None:
    log_probs, targets = gc.zeros(4, 2, 3), gc.tensor([[1, 2], [1, 2]])
    for lengths, sizes, blank, message in (
        ([4], [2, 2], 0, "input_lengths must be of size batch_size"),
        ([4, 4], [2], 0, "target_lengths must be of size batch_size"),
        ([4, 4], [2, 2], 3, "blank must be in label range"),
        ([5, 4], [2, 2], 0, "Expected input_lengths to have value at most 4, but got value 5"),
        ([4, 4], [2, 3], 0, "Expected tensor to have size at least 3 at dimension 1"),
    ):
        with pytest.raises(RuntimeError, match=message):
            F.ctc_loss(log_probs, targets, lengths, sizes, blank)


# -- nodes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("MseLossBackward0", lambda x: F.mse_loss(x, gc.ones(2, 3))),
        ("SmoothL1LossBackward0", lambda x: F.smooth_l1_loss(x, gc.ones(2, 3))),
        ("HuberLossBackward0", lambda x: F.huber_loss(x, gc.ones(2, 3))),
        ("MeanBackward0", lambda x: F.l1_loss(x, gc.ones(2, 3))),
        ("NllLossBackward0", lambda x: F.nll_loss(x, gc.tensor([0, 1]))),
        ("NllLossBackward0", lambda x: F.cross_entropy(x, gc.tensor([0, 1]))),
        ("NllLoss2DBackward0", lambda x: F.cross_entropy(x[..., None], gc.tensor([[0], [1]]))),
        ("BinaryCrossEntropyBackward0", lambda x: F.binary_cross_entropy(x.sigmoid(), gc.ones(2, 3))),
        ("BinaryCrossEntropyWithLogitsBackward0", lambda x: F.binary_cross_entropy_with_logits(x, gc.ones(2, 3))),
        ("SoftMarginLossBackward0", lambda x: F.soft_margin_loss(x, gc.ones(2, 3))),
    ],
)
def test_names_of_nodes(name: str, call: Any) -> None:
    assert call(gc.ones(2, 3, requires_grad=True)).grad_fn.name() == name
