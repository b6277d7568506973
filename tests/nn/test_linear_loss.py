"""Cross entropy of the scores of a linear map."""

import pytest

import gradcore as gc
from gradcore import nn
from gradcore.nn.attention import SDPBackend, sdpa_kernel


@pytest.mark.parametrize("settings", [{}, {"reduction": "sum", "label_smoothing": 0.1}, {"ignore_index": 2}], ids=str)
@pytest.mark.parametrize("bias", [False, True])
def test_it_is_cross_entropy_of_a_linear_map(bias, settings):
    loss = nn.LinearCrossEntropyLoss(5, 4, bias=bias, weight=gc.arange(1.0, 5.0), **settings)
    x, target = gc.randn(6, 5, requires_grad=True), gc.tensor([0, 1, 2, 3, 1, 2])
    expected = nn.functional.cross_entropy(
        loss.linear(x), target, weight=loss.weight, **{"ignore_index": -100, **settings}
    )
    found = loss(x, target)
    assert gc.allclose(found, expected)
    assert gc.allclose(*(gc.autograd.grad(value, x)[0] for value in (found, expected)), atol=1e-6)


def test_targets_of_more_dims():
    loss = nn.LinearCrossEntropyLoss(5, 4, out_features=(2, 3))
    x, target = gc.randn(6, 5), gc.randint(0, 4, (6, 2, 3))
    scores = loss.linear(x).reshape(6, 4, 2, 3)
    assert gc.allclose(loss(x, target), nn.functional.cross_entropy(scores, target))
    assert loss.linear.weight.shape == (24, 5)
    assert "out_features=(2, 3), bias=False" in repr(loss)


def test_ways_to_compute_attention():
    cuda = gc.backends.cuda
    before = cuda.flash_sdp_enabled(), cuda.math_sdp_enabled(), cuda.cudnn_sdp_enabled()
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.CUDNN_ATTENTION]):
        assert (cuda.flash_sdp_enabled(), cuda.math_sdp_enabled(), cuda.cudnn_sdp_enabled()) == (False, True, True)
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            assert (cuda.flash_sdp_enabled(), cuda.math_sdp_enabled()) == (True, False)
        assert not cuda.flash_sdp_enabled()
    assert (cuda.flash_sdp_enabled(), cuda.math_sdp_enabled(), cuda.cudnn_sdp_enabled()) == before
    with pytest.raises(AssertionError, match="Backend must be an instance of SDPBackend"), sdpa_kernel("math"):
        pass
