"""Averages of weights and their learning rates, against PyTorch."""

import numpy as np
import pytest

import gradcore as gc
from gradcore.optim import swa_utils

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.oracle
THEIRS = torch.optim.swa_utils


def _rates(lib, utils, epochs, strategy, base):
    optimizer = lib.optim.SGD([lib.zeros(1, requires_grad=True)], lr=0.3)
    schedulers = [utils.SWALR(optimizer, 0.05, epochs, strategy)]
    if base:
        schedulers.insert(0, lib.optim.lr_scheduler.ExponentialLR(optimizer, 0.9))
    rates = []
    for _ in range(7):
        optimizer.step()
        for scheduler in schedulers:
            scheduler.step()
        rates.append(optimizer.param_groups[0]["lr"])
    return rates


@pytest.mark.parametrize("base", [False, True])
@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 1, 4])
def test_learning_rates(epochs, strategy, base):
    ours, theirs = (_rates(lib, utils, epochs, strategy, base) for lib, utils in ((gc, swa_utils), (torch, THEIRS)))
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize(
    "make", [None, "get_swa_multi_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_ema_avg_fn"]
)
def test_averages(make):
    states = [[np.random.default_rng(i).normal(size=shape) for shape in ((2, 3), (2,))] for i in range(4)]
    found = []
    for lib, utils in ((gc, swa_utils), (torch, THEIRS)):
        model = lib.nn.Linear(3, 2, dtype=lib.float64)
        key = "multi_avg_fn" if make and "multi" in make else "avg_fn"
        averaged = utils.AveragedModel(model, **({key: getattr(utils, make)()} if make else {}))
        for state in states:
            model.load_state_dict({"weight": lib.tensor(state[0]), "bias": lib.tensor(state[1])})
            averaged.update_parameters(model)
        found.append([value.numpy() for value in averaged.state_dict().values()])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
