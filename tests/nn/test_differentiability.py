"""No module loses a gradient in silence: by each parameter, each buffer and each input, in training and evaluation."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore import nn

STEP = 1e-6
F64 = gc.float64


def _random(*shape: int, seed: int = 0) -> Any:
    return gc.tensor(np.random.default_rng(seed).uniform(0.2, 0.9, shape))


#: Modules and what they are called with; numbers from 0.2 to 0.9.
MODULES: dict[str, tuple[Callable[[], Any], tuple[Any, ...]]] = {
    "BatchNorm1d": (lambda: nn.BatchNorm1d(3), (_random(4, 3),)),
    "BatchNorm1d without affine": (lambda: nn.BatchNorm1d(3, affine=False), (_random(4, 3, 2),)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(2), (_random(3, 2, 2, 2),)),
    "BatchNorm3d": (lambda: nn.BatchNorm3d(2), (_random(2, 2, 2, 1, 2),)),
    "BatchNorm1d, cumulative": (lambda: nn.BatchNorm1d(3, momentum=None), (_random(4, 3),)),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(2, affine=True, track_running_stats=True), (_random(2, 2, 4),)),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(2, track_running_stats=True), (_random(2, 2, 2, 2),)),
    "LayerNorm": (lambda: nn.LayerNorm(3), (_random(2, 3),)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (_random(2, 4, 3),)),
    "RMSNorm": (lambda: nn.RMSNorm(3), (_random(2, 3),)),
    "CrossEntropyLoss": (lambda: nn.CrossEntropyLoss(_random(3)), (_random(4, 3), gc.tensor([0, 2, 1, 2]))),
    "CrossEntropyLoss, smoothed": (
        lambda: nn.CrossEntropyLoss(_random(3), ignore_index=1, label_smoothing=0.2),
        (_random(4, 3), gc.tensor([0, 2, 1, 2])),
    ),
    "CrossEntropyLoss of probabilities": (
        lambda: nn.CrossEntropyLoss(_random(3)), (_random(4, 3), _random(4, 3, seed=1)),
    ),
    "NLLLoss": (lambda: nn.NLLLoss(_random(3), reduction="sum"), (_random(2, 3, 2), gc.tensor([[0, 2], [1, 2]]))),
    "BCELoss": (lambda: nn.BCELoss(_random(3)), (_random(4, 3), _random(4, 3, seed=1))),
    "BCEWithLogitsLoss": (
        lambda: nn.BCEWithLogitsLoss(_random(3), pos_weight=_random(3, seed=2)),
        (_random(4, 3), _random(4, 3, seed=1)),
    ),
    "MultiMarginLoss": (lambda: nn.MultiMarginLoss(weight=_random(3)), (_random(4, 3), gc.tensor([0, 2, 1, 2]))),
    "MultiLabelSoftMarginLoss": (
        lambda: nn.MultiLabelSoftMarginLoss(_random(3)), (_random(4, 3), _random(4, 3, seed=1)),
    ),
    "PReLU": (lambda: nn.PReLU(3), (_random(2, 3) - 0.5,)),
    "Linear": (lambda: nn.Linear(3, 2), (_random(4, 3),)),
    "Bilinear": (lambda: nn.Bilinear(2, 3, 2), (_random(4, 2), _random(4, 3, seed=1))),
    "Conv2d": (lambda: nn.Conv2d(2, 2, 2), (_random(1, 2, 3, 3),)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(2, 2, 2), (_random(1, 2, 3),)),
    "Embedding": (lambda: nn.Embedding(4, 2), (gc.tensor([0, 3, 3]),)),
    "EmbeddingBag": (
        lambda: nn.EmbeddingBag(4, 2, mode="sum"),
        (gc.tensor([0, 3, 3]), gc.tensor([0, 1]), _random(3)),
    ),
    "LSTM": (lambda: nn.LSTM(2, 3), (_random(3, 1, 2), (_random(1, 1, 3), _random(1, 1, 3, seed=1)))),
    "GRU": (lambda: nn.GRU(2, 3), (_random(3, 1, 2), _random(1, 1, 3))),
    "RNNCell": (lambda: nn.RNNCell(2, 3), (_random(1, 2), _random(1, 3))),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(4, 2), (_random(2, 1, 4), _random(3, 1, 4), _random(3, 1, 4))),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(4, 2, 4, dropout=0.0), (_random(2, 1, 4),)),
    "CosineSimilarity": (nn.CosineSimilarity, (_random(2, 3), _random(2, 3, seed=1))),
    "weight_norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)), (_random(4, 3),)),
    "GaussianNLLLoss": (nn.GaussianNLLLoss, (_random(3), _random(3, seed=1), _random(3, seed=2))),
    "TripletMarginLoss": (nn.TripletMarginLoss, (_random(3, 2), _random(3, 2, seed=1), _random(3, 2, seed=2))),
}  # fmt: skip


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for each in value for leaf in _leaves(each)]
    return [value] if isinstance(value, gc.Tensor) else []


def _filled(value: Any, queue: list[Any]) -> Any:
    if isinstance(value, tuple):
        return tuple(_filled(each, queue) for each in value)
    return queue.pop(0) if isinstance(value, gc.Tensor) else value


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str, training: bool) -> None:
    make, inputs = MODULES[name]
    gc.manual_seed(0)
    module = make().to(F64).train(training)
    state = {key: t.detach().clone() for key, t in [*module.named_parameters(), *module.named_buffers()]}
    given = {f"input {i}": t for i, t in enumerate(_leaves(inputs))}
    for key, value in {**state, **given}.items():
        if not value.is_floating_point():
            continue
        direction = gc.tensor(np.random.default_rng(1).standard_normal(tuple(value.shape)))

        def compute(t: Any, key: str = key) -> list[Any]:
            tensors = {k: v.clone() for k, v in state.items()}
            arguments = {k: v.clone() for k, v in given.items()}
            (tensors if key in tensors else arguments)[key] = t
            gc.manual_seed(0)
            out = gc.func.functional_call(module, tensors, _filled(inputs, list(arguments.values())))
            return [o for o in _leaves(out if isinstance(out, tuple) else (out,)) if o.is_floating_point()]

        leaf = value.clone().requires_grad_()
        try:
            # In training, statistics are written in place, which a leaf does not allow.
            outs = compute(leaf * 1.0)
        except RuntimeError as error:
            if "not differentiable with respect to" not in str(error):
                raise
            continue
        tracked = [o for o in outs if o.requires_grad]
        grad = gc.autograd.grad([o.sin().sum() for o in tracked], leaf, allow_unused=True)[0] if tracked else None
        found = 0.0 if grad is None else float((grad * direction).sum())
        with gc.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sides = [sum(float(o.sin().sum()) for o in compute(value + s * STEP * direction)) for s in (1, -1)]
        np.testing.assert_allclose(found, (sides[0] - sides[1]) / (2 * STEP), rtol=2e-4, atol=2e-5, err_msg=key)
