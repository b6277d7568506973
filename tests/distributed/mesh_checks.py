"""Meshes of four processes, against sums that one process computes."""

from __future__ import annotations

import numpy as np
import pytest

import gradcore as gc
import gradcore.distributed as dist
from gradcore.distributed.fsdp import fully_shard


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
    with pytest.raises(NotImplementedError, match="mesh of one dimension"):
        fully_shard(gc.nn.Linear(4, 2), mesh=mesh)
