"""Optimisers with shared state, and checkpoints, in real processes."""

from __future__ import annotations

import tempfile

import pytest

import gradcore as gc
import gradcore.distributed as dist
from gradcore import nn
from gradcore.distributed import checkpoint
from gradcore.distributed.optim import ZeroRedundancyOptimizer
from gradcore.nn.parallel import DistributedDataParallel as DDP

KINDS = {
    "sgd": (gc.optim.SGD, {"lr": 0.05, "momentum": 0.9}),
    "adam": (gc.optim.Adam, {"lr": 0.01}),
    "adamw": (gc.optim.AdamW, {"lr": 0.01, "amsgrad": True}),
}


def rank():
    return dist.get_rank()


def size():
    return dist.get_world_size()


def drawn(*shape, seed=0):
    return gc.randn(*shape, generator=gc.Generator().manual_seed(seed), dtype=gc.float64)


def mlp():
    gc.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 3)).double()


def grouped(model):
    return [{"params": model[0].parameters(), "lr": 0.02}, {"params": [model[2].weight, model[2].bias]}]


def train(model, optimizer, first, last, part):
    for step in range(first, last):
        optimizer.zero_grad()
        x = drawn(4 * size(), 6, seed=step)
        model(part(x)).square().mean().backward()
        optimizer.step()


def own(x):
    return x[rank() :: size()]


def whole(x):
    return x


def folder():
    """A folder that all processes know."""
    name = [tempfile.mkdtemp() if rank() == 0 else None]
    dist.broadcast_object_list(name, src=0)
    return name[0]


def close(a, b):
    return all(gc.allclose(p, q, rtol=1e-6, atol=1e-9) for p, q in zip(a.parameters(), b.parameters(), strict=True))


def check_trajectories_with_shared_state():
    for cls, options in KINDS.values():
        alone = mlp()
        wanted = cls(grouped(alone), **options)
        train(alone, wanted, 0, 100, whole)
        module = mlp()
        optimizer = ZeroRedundancyOptimizer(grouped(module), cls, **options)
        train(DDP(module), optimizer, 0, 100, own)
        assert close(module, alone)
        numbers = [None] * size()
        dist.all_gather_object(numbers, sum(t.numel() for s in optimizer.state.values() for t in s.values()))
        total = sum(t.numel() for s in wanted.state.values() for t in s.values())
        assert sum(numbers) == total  # nothing is kept twice
        assert max(numbers) < total
        optimizer.consolidate_state_dict(to=0)
        if rank() == 0:
            found, expected = optimizer.state_dict(), wanted.state_dict()
            assert found["state"].keys() == expected["state"].keys()
            assert found["param_groups"][0]["lr"] == expected["param_groups"][0]["lr"] == 0.02
            plain = cls(grouped(mlp()), **options)
            plain.load_state_dict(found)  # one process goes on
        else:
            with pytest.raises(RuntimeError, match="not been consolidated"):
                optimizer.state_dict()


def check_states_are_shared_out_when_loaded():
    cls, options = KINDS["adam"]
    alone = mlp()
    wanted = cls(grouped(alone), **options)
    train(alone, wanted, 0, 10, whole)
    module = mlp()
    module.load_state_dict(alone.state_dict())
    optimizer = ZeroRedundancyOptimizer(grouped(module), cls, **options)
    optimizer.load_state_dict(wanted.state_dict())
    train(DDP(module), optimizer, 10, 20, own)
    train(alone, wanted, 10, 20, whole)
    assert close(module, alone)


def check_schedulers_and_more_groups():
    alone, module = mlp(), mlp()
    wanted = gc.optim.SGD(alone[0].parameters(), lr=0.1)
    optimizer = ZeroRedundancyOptimizer(module[0].parameters(), gc.optim.SGD, lr=0.1)
    for each, model in ((wanted, alone), (optimizer, module)):
        each.add_param_group({"params": list(model[2].parameters()), "lr": 0.05})
    pairs = [(wanted, alone, whole), (optimizer, DDP(module), own)]
    for each, model, part in pairs:
        scheduler = gc.optim.lr_scheduler.StepLR(each, 2, 0.5)
        for step in range(5):
            train(model, each, step, step + 1, part)
            scheduler.step()
    assert close(module, alone)


def check_checkpoints_of_any_number_of_processes():
    path = folder()
    cls, options = KINDS["adam"]
    module = mlp()
    optimizer = ZeroRedundancyOptimizer(grouped(module), cls, **options)
    train(DDP(module), optimizer, 0, 5, own)
    state = {"model": module.state_dict(), "optimizer": optimizer.local_state_dict(), "epoch": 5, "names": ["a", 1.5]}
    checkpoint.save(state, checkpoint_id=path)
    checkpoint.save(state, checkpoint_id=path)  # once more, over it
    alone = mlp()
    plain = cls(grouped(alone), **options)
    train(alone, plain, 0, 5, whole)
    other = mlp()
    for p in other.parameters():
        p.detach().zero_()
    kept = {str(i): {k: gc.zeros_like(v) for k, v in s.items()} for i, s in plain.state_dict()["state"].items()}
    found = {"model": other.state_dict(), "optimizer": {"state": kept}, "epoch": 0, "names": [None, None]}
    checkpoint.load(found, checkpoint_id=path)  # each process reads all, as one alone would
    assert close(other, alone)
    assert (found["epoch"], found["names"]) == (5, ["a", 1.5])
    for i, s in plain.state_dict()["state"].items():
        for name, value in s.items():
            assert gc.allclose(kept[str(i)][name].double(), value.double(), rtol=1e-6, atol=1e-12)
    with pytest.raises(KeyError, match="lacks more"):
        checkpoint.load({"more": 1}, checkpoint_id=path)
    with pytest.raises(ValueError, match="shape"):
        checkpoint.load({"model": {"0.weight": gc.ones(2, 2)}}, checkpoint_id=path)
    dist.barrier()
    with pytest.raises(ValueError, match=r"'t' is \(1,\) float32"):
        checkpoint.save({"t": gc.ones(1 + rank())}, checkpoint_id=path)
    with pytest.raises(FileNotFoundError, match="no whole checkpoint"):
        checkpoint.load({"t": gc.ones(1)}, checkpoint_id=path + "/nothing")
