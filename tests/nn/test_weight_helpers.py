"""Helpers of `nn.utils`: lengths and directions of weights, modules without first values, former names."""

import copy

import pytest

import gradcore as gc
from gradcore import nn


@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated")
@pytest.mark.parametrize(("dim", "shape"), [(0, (3, 1)), (1, (1, 2)), (-1, ()), (None, ())])
def test_weight_norm_trains_lengths_and_directions(dim, shape):
    layer = nn.Linear(2, 3)
    before = layer.weight.detach().clone()
    assert nn.utils.weight_norm(layer, dim=dim) is layer
    assert sorted(layer.state_dict()) == ["bias", "weight_g", "weight_v"]
    assert layer.weight_g.shape == shape
    assert gc.allclose(layer.weight, before)
    with gc.no_grad():
        layer.weight_g *= 2
        layer.weight_v *= 5
    layer(gc.ones(2)).sum().backward()
    assert gc.allclose(layer.weight, 2 * before)
    assert layer.weight_g.grad is not None
    assert gc.allclose((layer.weight_v.grad * layer.weight_v).sum(), gc.tensor(0.0), atol=1e-5)  # it only turns
    nn.utils.remove_weight_norm(layer)
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    assert gc.allclose(layer(gc.ones(2)), 2 * before.sum(1) + layer.bias)
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found in Linear"):
        nn.utils.remove_weight_norm(layer)


def test_weight_norm_is_deprecated_and_not_applied_twice():
    with pytest.warns(FutureWarning, match="in favor of `torch.nn.utils.parametrizations.weight_norm`"):
        layer = nn.utils.weight_norm(nn.Linear(2, 3))
    with pytest.warns(FutureWarning), pytest.raises(RuntimeError, match="Cannot register two weight_norm hooks"):
        nn.utils.weight_norm(layer)


def test_modules_without_first_values():
    layer = nn.utils.skip_init(nn.Linear, 3, 2, bias=False)
    assert layer.weight.shape == (2, 3)
    assert layer.weight.device.type == "cpu"
    assert layer.bias is None
    assert nn.utils.skip_init(nn.Linear, 3, 2, device="meta").weight.is_meta
    with pytest.raises(RuntimeError, match="Expected a Module"):
        nn.utils.skip_init(int)
    with pytest.raises(RuntimeError, match="must support a 'device' arg"):
        nn.utils.skip_init(nn.ReLU)


def test_the_former_place_of_functional_call():
    layer = nn.Linear(2, 1)
    with pytest.warns(FutureWarning, match="Please use `torch.func.functional_call` instead"):
        y = nn.utils.stateless.functional_call(layer, {"weight": gc.ones(1, 2), "bias": gc.zeros(1)}, gc.ones(2))
    assert y.tolist() == [2.0]


@pytest.mark.parametrize(
    ("values", "message"), [({"bias": 3}, "3 is not an instance of"), ({"in_features": gc.ones(1)}, "`in_features`: 2")]
)
def test_only_tensors_are_replaced_by_tensors(values, message):
    with pytest.raises(TypeError, match=message):
        gc.func.functional_call(nn.Linear(2, 1), values, gc.ones(2))


def test_the_former_name_of_clip_grad_norm_():
    p = gc.zeros(2, requires_grad=True)
    p.grad = gc.tensor([3.0, 4.0])
    with pytest.warns(FutureWarning, match="deprecated in favor of `torch.nn.utils.clip_grad_norm_`"):
        assert nn.utils.clip_grad_norm([p], 1.0).item() == 5.0
    assert gc.allclose(p.grad, gc.tensor([0.6, 0.8]))


def test_vectors_of_parameters_are_on_one_device():
    with pytest.raises(TypeError, match="two parameters on different devices"):
        nn.utils.parameters_to_vector([gc.ones(1), gc.ones(1, device="meta")])


def test_normalization_is_fused_into_a_transposed_convolution():
    conv, norm = nn.ConvTranspose2d(2, 3, 2).eval(), nn.BatchNorm2d(3)
    norm(gc.randn(8, 3, 2, 2) * 2 + 1)
    x = gc.randn(1, 2, 4, 4)
    fused = nn.utils.fuse_conv_bn_eval(conv, norm.eval(), transpose=True)
    assert gc.allclose(fused(x), norm(conv(x)), atol=1e-5)


def test_normalization_without_statistics_is_not_fused():
    norm = nn.BatchNorm1d(3, track_running_stats=False).eval()
    with pytest.raises(AssertionError, match=r"bn\.running_mean and bn\.running_var must not be None"):
        nn.utils.fuse_linear_bn_eval(nn.Linear(2, 3).eval(), norm)


def test_copies_of_parametrized_modules():
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    twins = copy.deepcopy([layer, layer])
    assert twins[0] is twins[1]
    assert type(twins[0]) is type(layer)
    assert nn.utils.parametrize.type_before_parametrizations(twins[0]) is nn.Linear
    assert nn.utils.parametrize.type_before_parametrizations(nn.ReLU()) is nn.ReLU
    assert gc.equal(twins[0].weight, layer.weight)
    twins[0].weight = gc.ones(3, 2)
    assert not gc.equal(twins[0].weight, layer.weight)
