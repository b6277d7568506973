"""States of optimizers that are loaded have the shapes that steps need."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import gradcore as gc

SHAPES = [(5, 6), (4,), (2, 3, 4)]


def trained(name: str, shape: tuple[int, ...]) -> Any:
    """Return an optimizer of a parameter of that shape after two steps, or skip where it takes no such parameters."""
    param = gc.nn.Parameter(gc.linspace(-1, 1, gc.Size(shape).numel()).reshape(shape))
    options = {"lr": 0.01, **({"momentum": 0.9} if name in ("SGD", "RMSprop") else {})}
    try:
        optimizer = getattr(gc.optim, name)([param], **options)
    except ValueError as error:
        pytest.skip(str(error))
    for _ in range(2):
        optimizer.zero_grad()
        loss = gc.nn.functional.embedding(gc.tensor([0, 1]), param, sparse=True) if name == "SparseAdam" else param
        loss.square().sum().backward()
        optimizer.step()
    return optimizer


NAMES = sorted(
    name
    for name in gc.optim.__all__
    if isinstance(getattr(gc.optim, name), type)
    and issubclass(getattr(gc.optim, name), gc.optim.Optimizer)
    and name not in ("Optimizer", "LBFGS")
)


@pytest.mark.parametrize("name", NAMES)
def test_states_of_other_shapes_are_refused(name: str) -> None:
    for shape in SHAPES[:1] if name == "SparseAdam" else SHAPES:
        optimizer = trained(name, shape)
        saved = optimizer.state_dict()
        optimizer.load_state_dict(copy.deepcopy(saved))
        checked = 0
        for key, value in saved["state"][0].items():
            if not isinstance(value, gc.Tensor) or not value.ndim:
                continue
            for wrong in (gc.ones(1), gc.ones(shape[-1], 7), gc.ones(()), gc.ones(*shape, 1)):
                if wrong.shape == value.shape:
                    continue
                changed = copy.deepcopy(saved)
                changed["state"][0][key] = wrong
                with pytest.raises(RuntimeError, match=f"the state {key!r} of shape"):
                    optimizer.load_state_dict(changed)
                checked += 1
        assert checked or not any(isinstance(v, gc.Tensor) and v.ndim for v in saved["state"][0].values())
