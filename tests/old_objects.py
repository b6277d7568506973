"""Objects that programs pickle, as `old_objects.pickle` holds them from before modules moved into rooms.

``python -m tests.old_objects`` writes the file anew. Do so only to add objects: what the file is for is old paths.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradcore as gc

FILE = Path(__file__).with_suffix(".pickle")


def _trained() -> Any:
    weight = gc.nn.Parameter(gc.tensor([1.0, 2.0]))
    optimizer = gc.optim.Adam([weight], lr=0.1)
    (weight * weight).sum().backward()
    optimizer.step()
    return optimizer


#: Makers of objects, by name.
OBJECTS: dict[str, Callable[[], Any]] = {
    "tensor": lambda: gc.tensor([[1.0, 2.0]], requires_grad=True),
    "tensor of bfloat16": lambda: gc.tensor([1.0, 2.0], dtype=gc.bfloat16),
    "tensor without data": lambda: gc.empty(2, 3, device="meta"),
    "sparse tensor": lambda: gc.sparse_coo_tensor([[0, 1]], [3.0, 4.0], (2,)),
    "parameter": lambda: gc.nn.Parameter(gc.tensor([1.0])),
    "uninitialized parameter": lambda: gc.nn.parameter.UninitializedParameter(),
    "module": lambda: gc.nn.Sequential(gc.nn.Linear(2, 1), gc.nn.BatchNorm1d(1), gc.nn.Dropout(0.5)),
    "dtypes": lambda: list(gc.dtypes.DTYPES.values()),
    "device": lambda: gc.device("cpu"),
    "size": lambda: gc.Size([2, 3]),
    "layouts": lambda: [gc.strided, gc.sparse_coo, gc.channels_last],
    "generator": lambda: gc.Generator().manual_seed(3),
    "storage": lambda: gc.tensor([1.0, 2.0]).untyped_storage(),
    "typed storage": lambda: gc.tensor([1.0, 2.0]).storage(),
    "named results": lambda: gc.tensor([[3.0, 1.0]]).max(dim=1),
    "distribution": lambda: gc.distributions.Normal(gc.tensor([0.0]), gc.tensor([1.0])),
    "transformed distribution": lambda: gc.distributions.LogNormal(0.0, 1.0),
    "optimizer": _trained,
    "optimizer state": lambda: _trained().state_dict(),
    "scheduler state": lambda: gc.optim.lr_scheduler.StepLR(_trained(), 2).state_dict(),
    "scaler": lambda: gc.amp.GradScaler("cpu").state_dict(),
    "limits": lambda: gc.finfo(gc.float32),
    "errors": lambda: [gc.linalg.LinAlgError("singular"), gc.cuda.OutOfMemoryError("full")],
    "functions": lambda: [gc.sin, gc.nn.functional.relu, gc.tensor, gc.linalg.solve, gc.fft.fft],
    "classes": lambda: [gc.Tensor, gc.Size, gc.device, gc.nn.Linear, gc.Generator, gc.autograd.Function],
    "data set": lambda: gc.utils.data.TensorDataset(gc.arange(3)),
}


def write() -> None:
    """Write the pickles of all objects."""
    FILE.write_bytes(pickle.dumps({name: pickle.dumps(make()) for name, make in OBJECTS.items()}))


if __name__ == "__main__":
    write()
