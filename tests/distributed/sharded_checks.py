"""Optimisers with shared state, and checkpoints, in real processes."""

from __future__ import annotations

import tempfile

import pytest

import gradcore as gc
import gradcore.distributed as dist
from gradcore import nn
from gradcore.distributed import checkpoint
from gradcore.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from gradcore.distributed.fsdp import fully_shard
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
    """Return a folder that all processes share."""
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


def check_each_process_reads_and_writes_its_parts_alone():
    from gradcore.distributed.checkpoint import Shard

    path, opened = folder(), []
    each = 1000
    own = Shard(gc.arange(each, dtype=gc.float64) + each * rank(), (each * size() - 3,), each * rank())
    checkpoint.save({"part": own, "whole": gc.ones(3)}, checkpoint_id=path)
    plain = checkpoint.read

    def note(file, **settings):
        opened.append((file.name.rpartition("-")[2], settings))
        return plain(file, **settings)

    checkpoint.read = note
    try:
        found = Shard(gc.zeros(each, dtype=gc.float64), own.shape, own.start)
        checkpoint.load({"part": found}, checkpoint_id=path)
        assert opened == [(f"{rank():05d}.pt", {"mmap": True})], opened
        assert gc.equal(found.values, own.values)
        opened.clear()
        half = Shard(gc.zeros(500, dtype=gc.float64), own.shape, 750)
        checkpoint.load({"part": half}, checkpoint_id=path)
        assert [file for file, _ in opened] == ["00000.pt", "00001.pt"]
        assert gc.equal(half.tensor, gc.arange(500, dtype=gc.float64) + 750)
    finally:
        checkpoint.read = plain
    whole = gc.zeros(each * size() - 3, dtype=gc.float64)
    checkpoint.load({"part": whole}, checkpoint_id=path)
    assert gc.equal(whole, gc.arange(each * size() - 3, dtype=gc.float64))
    # parts that are not equal, and names that some processes have alone
    lengths = [5 + 2 * r for r in range(size())]
    start = sum(lengths[: rank()])
    own = Shard(gc.arange(lengths[rank()]) + start, (sum(lengths),), start)
    checkpoint.save({"part": own, f"of {rank()}": rank(), "both": gc.ones(2)}, checkpoint_id=path)
    state = {"part": gc.zeros(sum(lengths), dtype=gc.int64), "of 1": None, "both": gc.zeros(2)}
    checkpoint.load(state, checkpoint_id=path)
    assert gc.equal(state["part"], gc.arange(sum(lengths)))
    assert state["of 1"] == 1
    assert gc.equal(state["both"], gc.ones(2))


def check_objects_with_state_dicts_are_saved_and_loaded():
    class App(checkpoint.Stateful):
        def __init__(self, model, optimizer):
            self.model, self.optimizer = model, optimizer

        def state_dict(self):
            return dict(zip(("model", "optimizer"), get_state_dict(self.model, self.optimizer), strict=True))

        def load_state_dict(self, state):
            set_state_dict(
                self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
            )

    path, apps, plain = folder(), [], []
    for seed in (1, 2):
        gc.manual_seed(seed)
        model = fully_shard(gc.nn.Linear(3, 2))
        apps.append(App(model, gc.optim.Adam(model.parameters())))
        plain.append(gc.nn.BatchNorm1d(3))
    for _ in range(3):
        apps[0].model(gc.ones(4, 3) + rank()).sum().backward()
        apps[0].optimizer.step()
        plain[0](gc.arange(6.0).view(2, 3))
    checkpoint.save({"app": apps[0], "norm": plain[0], "epoch": 3}, checkpoint_id=path)
    state = {"app": apps[1], "norm": plain[1], "epoch": 0}
    checkpoint.load(state, checkpoint_id=path)
    assert state == {"app": apps[1], "norm": plain[1], "epoch": 3}
    for a, b in zip(plain[0].state_dict().values(), plain[1].state_dict().values(), strict=True):
        assert gc.equal(a, b)
    for p, q in zip(apps[0].model.parameters(), apps[1].model.parameters(), strict=True):
        assert gc.equal(p.full_tensor(), q.full_tensor())
        assert gc.equal(apps[0].optimizer.state[p]["exp_avg"], apps[1].optimizer.state[q]["exp_avg"])
    written = checkpoint.async_save({"norm": plain[0]}, checkpoint_id=path)
    written.result(timeout=60)
    plain[1].reset_running_stats()
    checkpoint.load({"norm": plain[1]}, checkpoint_id=path)
    assert plain[1].num_batches_tracked.item() == 3


def check_training_goes_on_while_a_checkpoint_is_written():
    path = folder()
    t = gc.full((1000,), float(rank()))
    state = {"t": t, "list": [1, rank()]}
    written = checkpoint.async_save({f"{rank()}": state}, checkpoint_id=path)
    t.fill_(-1.0)
    state["list"][1] = -1
    for _ in range(20):
        dist.all_reduce(gc.ones(10))  # calls of the program do not mix with those of the thread
    written.result(timeout=60)
    found = {f"{rank()}": {"t": gc.zeros(1000), "list": [0, 0]}}
    checkpoint.load(found, checkpoint_id=path)
    assert gc.equal(found[f"{rank()}"]["t"], gc.full((1000,), float(rank())))
    assert found[f"{rank()}"]["list"] == [1, rank()]
    with pytest.raises(ValueError, match="in one process and"):
        checkpoint.async_save({"t": gc.ones(1 + rank())}, checkpoint_id=path).result(timeout=60)
