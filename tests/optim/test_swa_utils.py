"""Averages of weights, and what goes with them."""

import copy

import pytest

import gradcore as gc
from gradcore import nn
from gradcore.optim import swa_utils


def _trained(steps=4):
    """Models as they are after each of some steps."""
    gc.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    optimizer = gc.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(steps):
        optimizer.zero_grad()
        model(gc.randn(8, 3)).square().mean().backward()
        optimizer.step()
        yield model


@pytest.mark.parametrize(
    "settings", [{}, {"avg_fn": swa_utils.get_swa_avg_fn()}, {"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()}]
)
def test_equal_averages(settings):
    seen, averaged = [], None
    for model in _trained():
        averaged = averaged or swa_utils.AveragedModel(model, **settings)
        averaged.update_parameters(model)
        seen.append([p.detach().clone() for p in model.parameters()])
    for mean, values in zip(averaged.parameters(), zip(*seen, strict=True), strict=True):
        assert gc.allclose(mean, gc.stack(values).mean(0))
    assert averaged.n_averaged.item() == 4
    for mine, buffer in zip(averaged.module.buffers(), model.buffers(), strict=True):
        assert gc.equal(mine, buffer)


@pytest.mark.parametrize(
    "make",
    [lambda: {"avg_fn": swa_utils.get_ema_avg_fn(0.8)}, lambda: {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.8)}],
)
def test_exponential_averages_of_buffers_too(make):
    averaged, expected = None, None
    for model in _trained():
        averaged = averaged or swa_utils.AveragedModel(model, use_buffers=True, **make())
        averaged.update_parameters(model)
        state = [t.detach().clone() for t in (*model.parameters(), *model.buffers())]
        expected = (
            state
            if expected is None
            else [
                0.8 * old + 0.2 * new if new.is_floating_point() else new
                for old, new in zip(expected, state, strict=True)
            ]
        )
    found = (*averaged.module.parameters(), *averaged.module.buffers())
    assert all(gc.allclose(mean, value) for mean, value in zip(found, expected, strict=True))


def test_the_average_is_a_model_with_a_state():
    models = [copy.deepcopy(model) for model in _trained(2)]
    averaged = swa_utils.AveragedModel(models[0])
    for model in models:
        averaged.update_parameters(model)
    again = swa_utils.AveragedModel(models[0])
    again.load_state_dict(averaged.state_dict())
    x = gc.randn(5, 3)
    assert gc.equal(averaged.eval()(x), again.eval()(x))
    assert again.n_averaged.item() == 2
    assert not gc.equal(averaged(x), models[0].eval()(x))


@pytest.mark.parametrize("as_pairs", [False, True])
def test_statistics_of_batch_norm_are_computed_anew(as_pairs):
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5)).eval()
    x = gc.randn(12, 3) * 2 + 1
    batches = [(part, None) if as_pairs else part for part in x.split(4)]
    swa_utils.update_bn(batches, model)
    assert gc.allclose(model[0].running_mean, x.mean(0), atol=1e-6)
    assert gc.allclose(model[0].running_var, gc.stack([part.var(0) for part in x.split(4)]).mean(0))
    assert model[0].momentum == 0.1
    assert not model.training


def test_without_batch_norm_nothing_is_computed():
    swa_utils.update_bn(iter([None]), nn.Linear(1, 1))


@pytest.mark.parametrize("strategy", ["cos", "linear"])
def test_the_learning_rate_goes_over_to_the_last_one(strategy):
    optimizer = gc.optim.SGD([{"params": [gc.zeros(1, requires_grad=True)], "lr": lr} for lr in (1.0, 0.1)], lr=1.0)
    scheduler = swa_utils.SWALR(optimizer, [0.2, 0.4], anneal_epochs=4, anneal_strategy=strategy)
    rates = [scheduler.get_last_lr()]
    for _ in range(6):
        optimizer.step()
        scheduler.step()
        rates.append(scheduler.get_last_lr())
    assert rates[2] == pytest.approx([0.6, 0.25])  # half the way
    assert rates[4] == rates[6] == pytest.approx([0.2, 0.4])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m, o: swa_utils.get_ema_avg_fn(1.5), ValueError, "Invalid decay value 1.5"),
        (
            lambda m, o: swa_utils.AveragedModel(
                m, avg_fn=swa_utils.get_ema_avg_fn(), multi_avg_fn=swa_utils.get_ema_multi_avg_fn()
            ),
            AssertionError,
            "Only one of avg_fn and multi_avg_fn",
        ),
        (lambda m, o: swa_utils.SWALR(o, [0.1, 0.2]), ValueError, "swa_lr must have the same length"),
        (lambda m, o: swa_utils.SWALR(o, 0.1, anneal_strategy="x"), ValueError, "must be one of 'cos' or 'linear'"),
        (lambda m, o: swa_utils.SWALR(o, 0.1, -1), ValueError, "must be equal or greater than 0, got -1"),
    ],
)
def test_misuse(call, error, message):
    model = nn.Linear(1, 1)
    with pytest.raises(error, match=message):
        call(model, gc.optim.SGD(model.parameters(), lr=0.1))
