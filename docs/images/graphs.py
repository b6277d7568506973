"""Draws the pictures of docs/seeing-graphs.md: ``python docs/images/graphs.py``, into the folder of this file."""

import sys
from pathlib import Path

import gradcore as gc
from gradcore import nn, viz
from gradcore.nn import functional as F


def residual_block():
    block = nn.ModuleDict({"first": nn.Linear(8, 8), "norm": nn.LayerNorm(8), "second": nn.Linear(8, 8)})
    x, target = gc.zeros(16, 8, requires_grad=True), gc.zeros(16, dtype=gc.int64)
    with viz.record():
        hidden = F.relu(block["first"](x))
        out = x + block["second"](block["norm"](hidden))
        loss = F.cross_entropy(out, target)
    return viz.graph(loss, {"x": x, **dict(block.named_parameters())}, engine="own")


def recurrent_network():
    w, u = gc.zeros(4, 4, requires_grad=True), gc.zeros(4, 4, requires_grad=True)
    state, states = gc.zeros(1, 4), []
    with viz.record():
        for _ in range(100):
            inflow = gc.zeros(1, 4) @ w
            state = gc.tanh(inflow + state @ u)
            states.append(state)
        loss = gc.cat(states).square().mean()
    return viz.graph(loss, {"w": w, "u": u}, engine="own")


def main(folder):
    """Write the pictures."""
    for draw in (residual_block, recurrent_network):
        draw().save(folder / f"{draw.__name__}.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
