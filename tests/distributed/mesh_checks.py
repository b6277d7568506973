"""Meshes of four processes, against sums that one process computes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

import gradcore as gc
import gradcore.distributed as dist
from gradcore.distributed.checkpoint_plan import Index
from gradcore.distributed.fsdp import fully_shard
from tests.distributed.ddp_checks import Transformer, drawn, made, mlp, own, rank, size, train


def check_two_dimensions():
    rank = dist.get_rank()
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    grid = np.arange(4).reshape(2, 2)
    assert mesh.mesh.tolist() == grid.tolist()
    row, column = divmod(rank, 2)
    assert mesh.get_coordinate() == [row, column]
    assert (mesh.ndim, mesh.shape, mesh.size(), mesh.size(0)) == (2, (2, 2), 4, 2)
    for name, members, at in (("dp", grid[:, column], row), ("tp", grid[row], column)):
        group = mesh.get_group(name)
        assert dist.get_process_group_ranks(group) == members.tolist()
        assert mesh[name].get_group() is group
        assert mesh[name].mesh_dim_names == (name,)
        assert mesh[name].get_coordinate() == [at]
        assert mesh[name].get_local_rank() == mesh.get_local_rank(name) == dist.get_rank(group) == at
        t = gc.tensor([2.0**rank])
        dist.all_reduce(t, group=group)
        assert t.item() == sum(2.0**member for member in members.tolist())
    assert mesh["dp", "tp"].get_all_groups() == mesh.get_all_groups()
    with pytest.raises(KeyError, match="Invalid mesh_dim_names"):
        mesh["pp"]
    with pytest.raises(RuntimeError, match="`mesh_dim` needs to be specified"):
        mesh.get_group()


def check_fewer_processes_than_there_are():
    mesh = dist.init_device_mesh("cpu", (3,))
    inside = dist.get_rank() < 3
    assert mesh.get_coordinate() == ([dist.get_rank()] if inside else None)
    if inside:
        assert dist.get_process_group_ranks(mesh.get_group()) == [0, 1, 2]
    else:
        with pytest.raises(RuntimeError, match="rank 3 is not in DeviceMesh"):
            mesh.get_group()


def check_errors():
    with pytest.raises(RuntimeError, match="Mesh should not be bigger than default world size 4"):
        dist.init_device_mesh("cpu", (5,))
    with pytest.raises(RuntimeError, match="Each mesh_dim_name must be unique"):
        dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "dp"))
    with pytest.raises(ValueError, match="must grow along each dimension"):
        dist.DeviceMesh("cpu", [[1, 0], [2, 3]])


def check_fully_shard():
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    net = fully_shard(gc.nn.Linear(4, 2, bias=False), mesh=mesh["tp"])
    assert net.weight.numel() == 4
    deep = dist.init_device_mesh("cpu", (2, 2, 1), mesh_dim_names=("dp", "tp", "pp"))
    with pytest.raises(ValueError, match="expects a 1D or 2D DeviceMesh"):
        fully_shard(gc.nn.Linear(4, 2), mesh=deep)


def make_replicated(make, seed):
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    model = made(make, seed)
    for layer in model.children():
        if any(True for _ in layer.parameters()):
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def check_hybrid_sharding_makes_the_steps_of_one_process():
    for make, shape in ((mlp, (6,)), (Transformer, (5, 8))):
        alone, model = made(make, 0), make_replicated(make, rank())  # the values are those of rank 0
        wanted = train(alone, shape, lambda x: x, gc.optim.Adam(alone.parameters(), 0.01))
        losses = train(model, shape, own, gc.optim.Adam(model.parameters(), 0.01))
        dist.all_reduce(losses, dist.ReduceOp.AVG)
        assert gc.allclose(losses, wanted, rtol=1e-7), (losses - wanted).abs().max()
        for p, q in zip(model.parameters(), alone.parameters(), strict=True):
            assert p.numel() == -(-q.numel() // 2)
            assert gc.allclose(p.full_tensor(), q, rtol=1e-6, atol=1e-9)


class Branches(gc.nn.Module):
    """Two layers, of which a forward may leave the second one out."""

    def __init__(self):
        super().__init__()
        self.a, self.b = gc.nn.Linear(3, 3).double(), gc.nn.Linear(3, 3).double()

    def forward(self, x, both):
        return self.a(x) + self.b(x) if both else self.a(x)


def check_replicas_communicate_once_for_several_backwards():
    """Also for parameters that get no gradient in the last one."""
    alone, model = made(Branches, 0), make_replicated(Branches, 0)
    for last, both in ((False, True), (False, True), (True, False)):
        model.set_requires_all_reduce(last)
        model(drawn(4, 3, seed=rank()), both).square().mean().backward()
        if not last:
            assert all(p.grad is None for p in model.parameters())
        for r in range(size()):
            (alone(drawn(4, 3, seed=r), both).square().mean() / size()).backward()
    for p, q in zip(model.parameters(), alone.parameters(), strict=True):
        whole = gc.empty(2 * p.numel(), dtype=p.dtype)
        dist.all_gather_into_tensor(whole, p.grad, p.process_group)
        assert gc.allclose(whole[: p.full_numel].view(p.full_shape), q.grad)
    found, wanted = (gc.nn.utils.clip_grad_norm_(m.parameters(), 0.1) for m in (model, alone))
    assert gc.allclose(found, wanted)


def check_checkpoints_of_replicas_have_each_part_once():
    from gradcore.distributed import checkpoint
    from gradcore.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict

    folder = [tempfile.mkdtemp() if rank() == 0 else None]
    dist.broadcast_object_list(folder)
    model = make_replicated(mlp, 0)
    checkpoint.save({"model": get_model_state_dict(model)}, checkpoint_id=folder[0])
    index = Index.parse((Path(folder[0]) / checkpoint._INDEX).read_text())
    for name, p in model.named_parameters():
        assert [start for _, start in index.files[f"model/{name}"]] == [0, p.numel()]
    assert {rank for parts in index.files.values() for rank, _ in parts} == set(range(4))
    for other in (make_replicated(mlp, 5), fully_shard(made(mlp, 6)), made(mlp, 7)):
        state = {"model": get_model_state_dict(other)}
        checkpoint.load(state, checkpoint_id=folder[0])
        set_model_state_dict(other, state["model"])
        for p, q in zip(other.parameters(), model.parameters(), strict=True):
            assert gc.equal(p.full_tensor() if hasattr(p, "full_tensor") else p.detach(), q.full_tensor())
