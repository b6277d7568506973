"""Loops that keep graphs alive are found, and loops that need theirs are left alone."""

import warnings

import pytest

import gradcore as gc
from gradcore import nn, viz

LIMIT = 10


def weights(*shape):
    return gc.rand(*shape, requires_grad=True)


def appended(rounds):
    w, losses = weights(3), []
    for _ in range(rounds):
        loss = (w * gc.rand(3)).sum()
        losses.append(loss)
    return losses


def appended_after_backward(rounds):
    w, losses = weights(3), []
    for _ in range(rounds):
        loss = (w * gc.rand(3)).exp().sum()
        loss.backward()
        losses.append(loss)
    return losses


def summed(rounds):
    w, total = weights(3), 0
    for _ in range(rounds):
        loss = (w * gc.rand(3)).exp().sum()
        loss.backward()
        total += loss
    return total


def summed_in_a_tensor(rounds):
    w, total = weights(3), gc.zeros(())
    for _ in range(rounds):
        total += (w * gc.rand(3)).exp().sum()
    return total


def outputs_kept(rounds):
    net, outputs = nn.Sequential(nn.Linear(3, 4), nn.Tanh()), {}
    for i in range(rounds):
        outputs[i] = net(gc.rand(2, 3))
    return outputs


def shared_part(rounds):
    w = weights(3).exp()
    return [(w * gc.rand(3)).sum() for _ in range(rounds)]


@pytest.mark.parametrize(
    ("program", "grows", "source"),
    [
        (appended, False, "loss = (w * gc.rand(3)).sum()"),
        (appended_after_backward, False, "loss = (w * gc.rand(3)).exp().sum()"),
        (summed, True, "total += loss"),
        (summed_in_a_tensor, True, "total += (w * gc.rand(3)).exp().sum()"),
        (outputs_kept, False, "outputs[i] = net(gc.rand(2, 3))"),
        (shared_part, False, "return [(w * gc.rand(3)).sum() for _ in range(rounds)]"),
    ],
)
def test_found(program, grows, source):
    with viz.watch_graphs(limit=LIMIT, warn=False) as watch:
        kept = program(5 * LIMIT)
    assert any(found.grows == grows and found.line.text == source for found in watch.found), watch.found
    assert all(found.graphs >= LIMIT for found in watch.found)
    del kept


def clean_training(rounds):
    w, losses, total = weights(3), [], 0.0
    for _ in range(rounds):
        loss = (w * gc.rand(3)).exp().sum()
        loss.backward()
        losses.append(loss.item())
        total += loss.detach()
    return losses, total


def recurrent(rounds):
    w, u = weights(3, 3), weights(3, 3)
    h, outputs = gc.zeros(1, 3), []
    for _ in range(rounds):
        a = gc.rand(1, 3) @ w
        h = gc.tanh(a + h @ u)
        outputs.append(h)
    return gc.cat(outputs).sum()


def recurrent_in_one_line(rounds):
    w, u, h = weights(3, 3), weights(3, 3), gc.zeros(1, 3)
    for _ in range(rounds):
        h = gc.tanh(gc.rand(1, 3) @ w + h @ u)
    return h


def steps_of_an_integrator(rounds):
    w = weights(3)
    x = gc.ones(3)
    for _ in range(rounds):
        x = x + 0.1 * (w * x).sin()
    return x


def unrolled_optimisation(rounds):
    w = weights(3)
    for _ in range(rounds):
        loss = (w * w).sum()
        (g,) = gc.autograd.grad(loss, w, create_graph=True)
        w = w - 0.1 * g
    return w


def deep(rounds):
    x = weights(3)
    for _ in range(rounds):
        x = x.sin()
    return x


def training_with_penalties(rounds):
    net = nn.Sequential(nn.Conv1d(1, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.Linear(24, 1))
    for _ in range(rounds):
        x = gc.rand(4, 1, 8).requires_grad_()
        out = net(x).sum()
        (g,) = gc.autograd.grad(out, x, create_graph=True)
        loss = out.square() + ((g.norm() - 1) ** 2) + sum((p * p).sum() for p in net.parameters())
        net.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        with gc.no_grad():
            for p in net.parameters():
                p -= 0.01 * p.grad
    return net


def penalties(rounds):
    parameters = [weights(3) for _ in range(rounds)]
    norms = [p.norm() for p in parameters]
    return norms, sum((p * p).sum() for p in parameters)


def sequences(rounds):
    net = nn.LSTM(3, 4, 2, bidirectional=True)
    for _ in range(rounds // 10):
        outputs, _ = net(gc.rand(12, 2, 3))
        outputs.square().mean().backward()
    return net


def unrecorded(rounds):
    w = weights(3)
    with gc.no_grad():
        return [(w * gc.rand(3)).sum() for _ in range(rounds)]


@pytest.mark.parametrize(
    "program",
    [
        clean_training, training_with_penalties, sequences, penalties, recurrent,
        recurrent_in_one_line, steps_of_an_integrator, unrolled_optimisation, deep,
        unrecorded,
    ],
)  # fmt: skip
def test_left_alone(program):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with viz.watch_graphs(limit=LIMIT) as watch:
            kept = program(5 * LIMIT)
    assert not watch.found
    del kept


def test_the_warning_names_line_and_cure_once():
    with (
        pytest.warns(UserWarning, match=r"test_watching.py:\d+ .*10 separate graphs") as caught,
        viz.watch_graphs(LIMIT),
    ):
        appended(60)
    assert len(caught) == 1
    assert "loss.item()" in str(caught[0].message)
    assert "keeping" in str(caught[0].message)


def test_a_larger_limit_lets_sums_of_samples_be():
    with viz.watch_graphs(limit=100, warn=False) as watch:
        sum(appended(60)).backward()
    assert not watch.found


def test_nothing_is_watched_outside():
    watch = viz.watch_graphs(limit=LIMIT)
    appended(30)
    assert not watch.found
    with pytest.raises(ValueError, match="at least 2"):
        viz.watch_graphs(limit=1)


def test_watching_keeps_nothing_alive():
    import weakref

    with viz.watch_graphs(limit=LIMIT):
        x = weights(3).exp()
        node = weakref.ref(x.grad_fn)
        del x
        assert node() is None
