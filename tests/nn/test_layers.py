"""Recurrent layers and attention: against their definitions, and their gradients."""

import math

import pytest

import gradcore as gc
from gradcore import nn

CELLS = [(nn.RNN, nn.RNNCell), (nn.LSTM, nn.LSTMCell), (nn.GRU, nn.GRUCell)]


@pytest.mark.parametrize(("layer", "cell"), CELLS)
def test_a_layer_is_a_cell_step_by_step(layer, cell):
    gc.manual_seed(0)
    net, step = layer(3, 4), cell(3, 4)
    step.load_state_dict({name.removesuffix("_l0"): t for name, t in net.state_dict().items()})
    x = gc.rand(6, 2, 3)
    outputs, last = net(x)
    state = None
    for t in range(6):
        state = step(x[t], state)
        hidden = state[0] if isinstance(state, tuple) else state
        assert gc.allclose(outputs[t], hidden, atol=1e-6)
    assert gc.allclose(last[0] if isinstance(last, tuple) else last, hidden[None], atol=1e-6)


@pytest.mark.parametrize("settings", [{}, {"bidirectional": True}, {"num_layers": 2, "bias": False}], ids=str)
@pytest.mark.parametrize("layer", [nn.RNN, nn.LSTM, nn.GRU])
def test_gradients_of_recurrent_layers(layer, settings):
    net = layer(2, 3, **settings).double()
    names = [name for name, _ in net.named_parameters()]

    def run(x, *parameters):
        return gc.func.functional_call(net, dict(zip(names, parameters, strict=True)), x)[0]

    x = gc.rand(3, 2, 2, dtype=gc.float64, requires_grad=True)
    assert gc.autograd.gradcheck(run, (x, *(p.detach().requires_grad_() for p in net.parameters())), fast_mode=True)


def test_backwards_is_forwards_on_the_turned_sequence():
    net = nn.GRU(2, 3, bidirectional=True).double()
    x = gc.rand(5, 1, 2, dtype=gc.float64)
    one = nn.GRU(2, 3).double()
    one.load_state_dict({n.removesuffix("_reverse"): t for n, t in net.state_dict().items() if n.endswith("_reverse")})
    assert gc.allclose(net(x)[0][..., 3:], one(x.flip(0))[0].flip(0))


def test_long_sequences_have_gradients():
    net, x = nn.LSTM(2, 3), gc.rand(2000, 1, 2, requires_grad=True)
    net(x)[0].sum().backward()
    assert bool(x.grad.isfinite().all())


def test_attention_by_hand():
    gc.manual_seed(0)
    net, x = nn.MultiheadAttention(6, 2, bias=False, batch_first=True), gc.rand(3, 4, 6)
    out, weights = net(x, x, x, average_attn_weights=False)
    q, k, v = (t.unflatten(-1, (2, 3)).transpose(1, 2) for t in (x @ net.in_proj_weight.T).chunk(3, -1))
    expected = (q @ k.transpose(-1, -2) / math.sqrt(3)).softmax(-1)
    assert gc.allclose(weights, expected, atol=1e-6)
    joined = (expected @ v).transpose(1, 2).flatten(-2)
    assert gc.allclose(out, joined @ net.out_proj.weight.T, atol=1e-6)


@pytest.mark.parametrize("make", [lambda: nn.MultiheadAttention(6, 4), lambda: nn.MultiheadAttention(0, 1)])
def test_sizes_of_attention(make):
    with pytest.raises((AssertionError, ValueError), match=r"divisible by num_heads|greater than 0"):
        make()


def test_running_statistics_follow_batches():
    net, x = nn.BatchNorm1d(2, momentum=None), gc.rand(10, 2)
    net(x)
    net(x + 2)
    assert gc.allclose(net.running_mean, x.mean(0) + 1, atol=1e-6)
    assert int(net.num_batches_tracked) == 2
    y = net.eval()(x)
    assert gc.allclose(y, (x - net.running_mean) / (net.running_var + 1e-5).sqrt(), atol=1e-5)
    assert int(net.num_batches_tracked) == 2


def test_state_from_before_batches_were_counted():
    net = nn.BatchNorm1d(2)
    state = {name: t for name, t in net.state_dict().items() if name != "num_batches_tracked"}
    assert net.load_state_dict(state).missing_keys == []


def test_dropout_is_off_in_evaluation():
    net, x = nn.Dropout(0.5), gc.ones(1000)
    assert 300 < int((net(x) == 0).sum()) < 700
    assert gc.equal(net.eval()(x), x)


def test_given_vectors():
    vectors = gc.rand(5, 3)
    table = nn.Embedding.from_pretrained(vectors)
    assert not table.weight.requires_grad
    assert gc.equal(table(gc.tensor([4, 0])), vectors[gc.tensor([4, 0])])
    vectors[4] = 7.0
    assert table.weight[4, 0] == 7


def test_normalization_across_maps_is_that_of_local_responses():
    x = gc.rand(2, 6, 3, 3)
    for settings in ((3,), (2, 0.1), (5, 0.5, 0.3, 2)):
        assert gc.equal(nn.CrossMapLRN2d(*settings)(x), nn.LocalResponseNorm(*settings)(x))


BATCH_NORMS = {
    "1d": (gc.nn.BatchNorm1d, (3, 2)),
    "2d": (gc.nn.BatchNorm2d, (3, 2, 2, 2)),
    "3d": (gc.nn.BatchNorm3d, (3, 2, 2, 2, 2)),
    "lazy": (lambda n, **named: gc.nn.LazyBatchNorm1d(**named), (3, 2)),
}


@pytest.mark.parametrize("kind", BATCH_NORMS)
@pytest.mark.parametrize("momentum", [None, 0.1])
@pytest.mark.parametrize("tracked", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("training", [True, False])
def test_batches_are_counted_where_their_statistics_are_kept(kind, momentum, tracked, training):
    made, shape = BATCH_NORMS[kind]
    layer = made(2, momentum=momentum, track_running_stats=tracked[0])
    gc.manual_seed(0)
    first, second = gc.randn(*shape), gc.randn(*shape)
    layer(first)
    layer.track_running_stats = tracked[1]
    layer.train(training)
    before = None if layer.running_mean is None else layer.running_mean.clone()
    count = None if layer.num_batches_tracked is None else int(layer.num_batches_tracked)
    layer(second)
    if before is None:
        assert count is None
        return
    kept = tracked[1] and training
    assert int(layer.num_batches_tracked) == count + kept
    assert gc.equal(layer.running_mean, before) is not kept
    if kept and momentum is None:
        dims = [d for d in range(first.ndim) if d != 1]
        assert gc.allclose(layer.running_mean, (first.mean(dims) + second.mean(dims)) / 2, atol=1e-6)
