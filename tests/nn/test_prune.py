"""Pruned parameters: masks, gradients, states, several methods on one parameter."""

import copy

import pytest

import gradcore as gc
from gradcore import nn
from gradcore.nn.utils import prune


def _layer():
    layer = nn.Linear(4, 3)
    with gc.no_grad():
        layer.weight.copy_(gc.arange(1.0, 13.0).reshape(3, 4) * gc.tensor([1.0, -1.0, 1.0, -1.0]))
    return layer


def _zeros(layer):
    return (layer.weight == 0).nonzero().tolist()


def test_the_smallest_elements_go():
    layer = prune.l1_unstructured(_layer(), "weight", 3)
    assert _zeros(layer) == [[0, 0], [0, 1], [0, 2]]
    assert sorted(layer.state_dict()) == ["bias", "weight_mask", "weight_orig"]
    assert [name for name, _ in layer.named_parameters()] == ["bias", "weight_orig"]
    assert prune.is_pruned(nn.Sequential(layer))


def test_a_share_of_them():
    assert len(_zeros(prune.l1_unstructured(_layer(), "weight", 0.25))) == 3
    gc.manual_seed(0)
    assert len(_zeros(prune.random_unstructured(_layer(), "weight", 0.5))) == 6


def test_whole_slices():
    rows = prune.ln_structured(_layer(), "weight", 1, 2, 0)
    assert _zeros(rows) == [[0, 0], [0, 1], [0, 2], [0, 3]]
    columns = prune.ln_structured(_layer(), "weight", 0.5, "fro", -1)
    assert _zeros(columns) == [[i, j] for i in range(3) for j in (0, 1)]
    at_random = prune.random_structured(_layer(), "weight", 2, 0)
    assert (at_random.weight == 0).all(1).sum().item() == 2


def test_by_other_scores():
    layer = prune.l1_unstructured(_layer(), "weight", 2, importance_scores=gc.arange(12.0, 0, -1).reshape(3, 4))
    assert _zeros(layer) == [[2, 2], [2, 3]]


def test_pruned_elements_get_no_gradient_and_training_keeps_them():
    layer = prune.l1_unstructured(_layer(), "weight", 6)
    layer(gc.ones(2, 4)).sum().backward()
    assert gc.equal(layer.weight_orig.grad == 0, layer.weight_mask == 0)
    before = layer.weight.detach().clone()
    gc.optim.SGD(layer.parameters(), lr=0.1).step()
    layer(gc.ones(1, 4))  # makes the attribute anew
    assert gc.equal(layer.weight == 0, before == 0)
    assert not gc.equal(layer.weight, before)


def test_several_methods_on_one_parameter():
    layer = prune.l1_unstructured(_layer(), "weight", 2)
    prune.ln_structured(layer, "weight", 1, 1, 1)  # of the columns, among which the first has become smallest
    assert _zeros(layer) == [[0, 0], [0, 1], [1, 0], [2, 0]]
    prune.l1_unstructured(layer, "weight", 1)  # of what is left
    assert [0, 2] in _zeros(layer)
    assert len(layer._forward_pre_hooks) == 1
    ((hook,),) = [list(layer._forward_pre_hooks.values())]
    assert len(hook.call) == 3
    assert [type(m).__name__ for m in hook.call] == ["L1Unstructured", "LnStructured", "L1Unstructured"]


def test_rows_that_are_gone_are_not_pruned_again():
    layer = prune.ln_structured(_layer(), "weight", 1, 2, 0)
    prune.ln_structured(layer, "weight", 1, 2, 0)
    assert (layer.weight == 0).all(1).tolist() == [True, True, False]


def test_masks_of_ones_own():
    mask = gc.eye(3, 4)
    layer = prune.custom_from_mask(_layer(), "weight", mask)
    assert gc.equal(layer.weight != 0, mask == 1)
    assert _zeros(prune.identity(_layer(), "weight")) == []


def test_over_several_modules():
    first, second = _layer(), _layer()
    with gc.no_grad():
        second.weight.mul_(10)
    prune.global_unstructured(((first, "weight"), (second, "weight")), prune.L1Unstructured, amount=0.5)
    assert len(_zeros(first)) == 11
    assert len(_zeros(second)) == 1


def test_by_scores_of_ones_own():
    scores = gc.arange(12.0).reshape(3, 4)
    assert _zeros(prune.l1_unstructured(_layer(), "weight", 2, importance_scores=scores)) == [[0, 0], [0, 1]]
    rows = prune.ln_structured(_layer(), "weight", 1, 2, 0, importance_scores=-scores.flip(0))
    assert (rows.weight == 0).all(1).tolist() == [False, False, True]
    first, second = _layer(), _layer()
    pairs = [(first, "weight"), (second, "weight")]
    own = {pairs[0]: scores + 100, pairs[1]: scores}
    prune.global_unstructured(pairs, prune.L1Unstructured, own, amount=12)
    assert (len(_zeros(first)), len(_zeros(second))) == (0, 12)


def test_removing():
    layer = prune.l1_unstructured(_layer(), "weight", 3)
    pruned = layer.weight.detach().clone()
    prune.remove(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter)
    assert gc.equal(layer.weight, pruned)
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    assert not prune.is_pruned(layer)


def test_copies_and_states():
    layer = prune.l1_unstructured(_layer(), "weight", 3)
    with pytest.raises(RuntimeError, match="created explicitly by the user"):
        copy.deepcopy(layer)  # the product has a history, as in PyTorch
    other = prune.identity(nn.Linear(4, 3), "weight")
    other.load_state_dict(layer.state_dict())
    x = gc.randn(2, 4)
    assert gc.equal(other(x), layer(x))


def test_tensors_without_a_module():
    t = gc.tensor([3.0, -1.0, 2.0])
    assert prune.L1Unstructured(1).prune(t).tolist() == [3.0, 0.0, 2.0]
    assert prune.L1Unstructured(1).prune(t, default_mask=gc.tensor([0.0, 1.0, 1.0])).tolist() == [0.0, 0.0, 2.0]


def test_methods_of_ones_own():
    class EverySecond(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    layer = _layer()
    EverySecond.apply(layer, "bias")
    assert layer.bias[[0, 2]].tolist() == [0.0, 0.0]
    prune.remove(layer, "bias")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: prune.l1_unstructured(m, "weight", -1), ValueError, "amount=-1 should either be a float"),
        (lambda m: prune.l1_unstructured(m, "weight", 1.5), ValueError, "amount=1.5 should either be a float"),
        (lambda m: prune.l1_unstructured(m, "weight", 100), ValueError, "amount=100 should be smaller than"),
        (lambda m: prune.l1_unstructured(m, "weight", "a"), TypeError, "Invalid type for amount: a"),
        (lambda m: prune.l1_unstructured(m, "no", 1), AttributeError, "has no attribute 'no'"),
        (lambda m: prune.ln_structured(m, "bias", 1, 2, 0), ValueError, "only be applied to multidimensional"),
        (lambda m: prune.ln_structured(m, "weight", 1, 2, 5), IndexError, "Invalid index 5"),
        (lambda m: prune.remove(m, "weight"), ValueError, "has to be pruned before pruning can be removed"),
        (
            lambda m: prune.global_unstructured([(m, "weight")], prune.RandomStructured, amount=1),
            TypeError,
            'Only "unstructured" PRUNING_TYPE supported',
        ),
        (
            lambda m: prune.l1_unstructured(m, "weight", 1, importance_scores=gc.ones(2)),
            AssertionError,
            "should have the same shape",
        ),
        (lambda m: prune.PruningContainer(3), TypeError, "is not a BasePruningMethod subclass"),
        (
            lambda m: prune.L1Unstructured(1).prune(m.weight, importance_scores=gc.ones(2)),
            AssertionError,
            "importance_scores should have the same shape as tensor t",
        ),
        (
            lambda m: prune.PruningContainer(*(prune.Identity.apply(m, name) for name in ("weight", "bias"))),
            ValueError,
            "acting on the parameter named 'weight' .* Found 'bias'",
        ),
    ],
)
def test_misuse(call, error, message):
    with pytest.raises(error, match=message):
        call(_layer())
