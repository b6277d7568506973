"""Modules, first values and utilities on a device that refuses NumPy."""

import pytest

import gradcore as gc
from gradcore import nn, viz

LAYERS = [
    (lambda device: nn.Linear(6, 3, device=device), (5, 6)),
    (lambda device: nn.Conv2d(4, 2, 3, padding="same", padding_mode="reflect", device=device), (2, 4, 8, 8)),
    (lambda device: nn.ConvTranspose1d(4, 2, 3, device=device), (2, 4, 9)),
    (lambda device: nn.BatchNorm2d(4, device=device), (2, 4, 8, 8)),
    (lambda device: nn.BatchNorm1d(6, momentum=None, device=device), (5, 6)),
    (lambda device: nn.InstanceNorm1d(4, affine=True, track_running_stats=True, device=device), (2, 4, 9)),
    (lambda device: nn.GroupNorm(2, 4, device=device), (2, 4, 9)),
    (lambda device: nn.LayerNorm(6, device=device), (5, 6)),
    (lambda device: nn.RMSNorm(6, device=device), (5, 6)),
    (lambda device: nn.PReLU(device=device), (5, 6)),
    (lambda device: nn.Sequential(nn.MaxPool2d(2), nn.Dropout(), nn.Flatten(), nn.Linear(64, 2, device=device)),
     (2, 4, 8, 8)),
]  # fmt: skip


@pytest.mark.parametrize(("make", "shape"), LAYERS)
def test_layers(make, shape, strict):
    net, x = make(strict), gc.rand(*shape, device=strict, requires_grad=True)
    loss = net(x).square().mean()
    loss.backward()
    assert {str(p.grad.device) for p in [x, *net.parameters()]} == {strict}
    assert {str(b.device) for b in net.buffers()} <= {strict}
    net.cpu()
    assert {str(t.device) for t in [*net.parameters(), *net.buffers()]} == {"cpu"}
    assert all(str(p.grad.device) == "cpu" for p in net.parameters())


def test_recurrent_layers_and_attention(strict):
    x = gc.rand(5, 2, 4, device=strict, requires_grad=True)
    outputs, (h, c) = nn.LSTM(4, 6, 2, bidirectional=True, proj_size=2, device=strict)(x)
    found, weights = nn.MultiheadAttention(4, 2, add_bias_kv=True, device=strict)(x, x, x)
    (outputs.sum() + h.sum() + c.sum() + found.sum() + weights.sum()).backward()
    assert str(x.grad.device) == strict


def test_embedding(strict):
    net = nn.Embedding(5, 3, padding_idx=1, device=strict)
    net(gc.tensor([0, 1, 4], device=strict)).sum().backward()
    assert gc.equal(net.weight.grad.cpu().sum(1), gc.tensor([3.0, 0.0, 0.0, 0.0, 3.0]))
    assert net.weight[1].abs().sum().item() == 0


@pytest.mark.parametrize(
    "name",
    ["uniform_", "normal_", "trunc_normal_", "xavier_normal_", "kaiming_uniform_", "orthogonal_", "eye_", "ones_"],
)
def test_first_values(name, strict):
    gc.manual_seed(0)
    there = getattr(nn.init, name)(gc.empty(4, 3, device=strict))
    gc.manual_seed(0)
    assert gc.allclose(there.cpu(), getattr(nn.init, name)(gc.empty(4, 3)), atol=1e-6)


def test_sparse_first_values(strict):
    t = nn.init.sparse_(gc.empty(10, 3, device=strict), 0.5)
    assert (t.cpu() == 0).sum(0).tolist() == [5, 5, 5]


def test_clipping_moves_one_number_for_each_device(strict):
    from tests.strict.device import COUNTS

    p = [gc.zeros(2, requires_grad=True, device=d) for d in ("cpu", strict, strict, "cpu")]
    for t, values in zip(p, ([3.0, 0.0], [0.0, 4.0], [12.0, 0.0], [0.0, 0.0]), strict=True):
        t.grad = gc.tensor(values, device=t.device)
    COUNTS.clear()
    total = nn.utils.clip_grad_norm_(p, 1.3)
    moves = dict(COUNTS)
    assert float(total) == 13.0
    assert gc.allclose(p[2].grad.cpu(), gc.tensor([1.2, 0.0]))
    assert sum(moves.values()) <= 2, moves
    nn.utils.clip_grad_value_(p, 0.5)
    assert p[2].grad.cpu().tolist() == [0.5, 0.0]


def test_parametrizations_and_state(strict):
    net = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2, device=strict))
    net(gc.ones(1, 3, device=strict)).sum().backward()
    assert {str(p.grad.device) for p in net.parameters()} == {strict}
    other = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    other.load_state_dict(net.state_dict())
    assert gc.allclose(other.weight, net.weight.cpu())


def test_pictures_and_memory(strict):
    x = gc.ones(1000, device=strict, requires_grad=True)
    y = x.exp()
    loss = (y * y).sum()
    assert viz.memory(loss).total == 4000
    assert f"on {strict}" in viz.graph(loss).svg


def test_checkpoints(strict):
    x = gc.rand(50, device=strict, requires_grad=True)
    f = lambda x: nn.functional.dropout(x * x, 0.5).exp()  # noqa: E731
    y = gc.utils.checkpoint.checkpoint(f, x, use_reentrant=False)
    y.sum().backward()
    kept = (y.detach() != 1).cpu()
    assert ((x.grad.cpu() != 0) == kept).all()
