"""Modules: what they register, save, load, print and call."""

import copy
import pickle

import pytest

import gradcore as gc
from gradcore import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(4, 2))
        self.scale = nn.Parameter(gc.ones(2))
        self.register_buffer("steps", gc.zeros((), dtype=gc.int64))
        self.register_buffer("scratch", gc.zeros(1), persistent=False)

    def forward(self, x):
        return self.rest(self.first(x)) * self.scale


def test_names_in_order():
    net = Net()
    names = ["scale", "first.weight", "first.bias", "rest.1.weight", "rest.1.bias"]
    assert [n for n, _ in net.named_parameters()] == names
    assert [n for n, _ in net.named_buffers()] == ["steps", "scratch"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "rest", "rest.0", "rest.1"]
    assert list(net.state_dict()) == [
        "scale", "steps", "first.weight", "first.bias", "rest.1.weight", "rest.1.bias"
    ]  # fmt: skip


def test_a_shared_parameter_is_listed_once():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    assert len(list(net.parameters())) == 3
    assert len(list(net.named_parameters(remove_duplicate=False))) == 4


def test_printing():
    assert repr(Net()) == (
        "Net(\n"
        "  (first): Linear(in_features=3, out_features=4, bias=True)\n"
        "  (rest): Sequential(\n"
        "    (0): ReLU()\n"
        "    (1): Linear(in_features=4, out_features=2, bias=True)\n"
        "  )\n"
        ")"
    )
    assert repr(nn.LeakyReLU(0.2, inplace=True)) == "LeakyReLU(negative_slope=0.2, inplace=True)"
    assert repr(nn.ParameterList([gc.ones(2, 3)])) == (
        "ParameterList(  (0): Parameter containing: [torch.float32 of size 2x3])"
    )


def test_state_round_trip():
    a, b = Net(), Net()
    assert repr(b.load_state_dict(a.state_dict())) == "<All keys matched successfully>"
    x = gc.randn(5, 3)
    assert bool((a(x) == b(x)).all())


def test_loading_what_does_not_fit_loads_the_rest_and_says_what_is_wrong():
    net = Net()
    wrong = {**{k: v + 1 for k, v in net.state_dict().items()}, "first.weight": gc.zeros(1), "more": gc.zeros(1)}
    del wrong["scale"]
    weight, bias = net.first.weight.detach().clone(), net.first.bias.detach().clone()
    with pytest.raises(
        RuntimeError, match=r'(?s)Missing key.*"scale".*Unexpected key.*"more".*size mismatch for first'
    ):
        net.load_state_dict(wrong)
    assert gc.equal(net.first.weight, weight)
    assert gc.equal(net.first.bias, bias + 1)


def test_not_strict_reports_the_keys():
    keys = Net().load_state_dict({"more": gc.zeros(1)}, strict=False)
    assert keys.unexpected_keys == ["more"]
    assert "scale" in keys.missing_keys


def test_to_converts_floating_point_only_and_keeps_the_objects():
    net = Net()
    weight = net.first.weight
    net(gc.ones(1, 3)).sum().backward()
    net.double()
    assert net.first.weight is weight
    assert weight.dtype is weight.grad.dtype is gc.float64
    assert net.steps.dtype is gc.int64


def test_modes_and_freezing():
    net = Net().eval()
    assert not any(m.training for m in net.modules())
    assert all(m.training for m in net.train().modules())
    net.requires_grad_(False)
    assert not net(gc.ones(1, 3)).requires_grad


def test_zero_grad():
    net = Net()
    net(gc.ones(1, 3)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert all(float(p.grad.abs().sum()) == 0 for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_forward_hooks_see_and_replace():
    net, seen = nn.Linear(2, 2), []
    pre = net.register_forward_pre_hook(lambda m, args: (args[0] * 0,))
    post = net.register_forward_hook(lambda m, args, out: seen.append(args[0]) or out + 1)
    with gc.no_grad():
        out = net(gc.ones(2))
        assert bool((out == net.bias + 1).all())
    assert bool((seen[0] == 0).all())
    pre.remove()
    post.remove()
    assert bool((net(gc.zeros(2)) == net.bias).all())


def test_full_backward_hooks():
    net, seen = nn.Linear(2, 3), []
    net.register_full_backward_pre_hook(lambda m, grad_output: seen.append(("pre", grad_output[0].shape)))
    net.register_full_backward_hook(
        lambda m, grad_input, grad_output: (
            seen.append((grad_input[0].shape, grad_output[0].shape)) or (grad_input[0] * 2,)
        )
    )
    x = gc.ones(1, 2, requires_grad=True)
    net(x).sum().backward()
    assert seen == [("pre", (1, 3)), ((1, 2), (1, 3))]
    assert bool(gc.allclose(x.grad, 2 * net.weight.detach().sum(0, keepdim=True)))


def test_backward_hooks_without_an_input_that_requires_grad():
    net, seen = nn.Linear(2, 3), []
    net.register_full_backward_hook(lambda m, grad_input, grad_output: seen.append((grad_input, len(grad_output))))
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        net(gc.ones(1, 2)).sum().backward()
    assert seen == [((None,), 1)]


def test_copies_are_independent():
    net = Net()
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert isinstance(twin.scale, nn.Parameter)
        assert twin.scale is not net.scale
        assert bool((twin.first.weight == net.first.weight).all())


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (lambda net: setattr(net, "first", 3), TypeError),
        (lambda net: setattr(net, "scale", gc.ones(2)), TypeError),
        (lambda net: net.register_parameter("a.b", None), KeyError),
        (lambda net: net.register_buffer("first", gc.ones(1)), KeyError),
        (lambda net: net.add_module("x", 3), TypeError),
        (lambda net: net.get_submodule("rest.7"), AttributeError),
        (lambda net: net.nothing, AttributeError),
        (lambda net: nn.Module()(1), NotImplementedError),
    ],
)
def test_errors(action, error):
    with pytest.raises(error):
        action(Net())


def test_assignment_before_init():
    class Early(nn.Module):
        def __init__(self):
            self.p = nn.Parameter(gc.ones(1))

    with pytest.raises(AttributeError, match="before Module"):
        Early()


def test_containers():
    layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])
    layers.insert(1, nn.Sigmoid())
    assert [type(m).__name__ for m in layers] == ["ReLU", "Sigmoid", "Tanh"]
    del layers[0]
    assert list(layers._modules) == ["0", "1"]
    net = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Sigmoid())
    assert repr(net[1:]) == "Sequential(\n  (1): Tanh()\n  (2): Sigmoid()\n)"
    table = nn.ModuleDict({"a": nn.ReLU()})
    table["b"] = nn.Tanh()
    assert list(table) == ["a", "b"]
    assert "a" in table
    assert len(table) == 2


def test_losses_and_activations_are_the_functions():
    x, target = gc.randn(4, 3), gc.tensor([0, 2, 1, 1])
    assert float(nn.CrossEntropyLoss()(x, target)) == float(nn.functional.cross_entropy(x, target))
    assert bool((nn.Softmax(dim=1)(x) == x.softmax(1)).all())
    weighted = nn.CrossEntropyLoss(weight=gc.tensor([1.0, 2.0, 3.0]))
    assert list(weighted.state_dict()) == ["weight"]
