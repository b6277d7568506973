"""A world of one process, which needs no MPI."""

from __future__ import annotations

import sys

import pytest

import gradcore as gc
import gradcore.distributed as dist


@pytest.fixture
def world():
    dist.init_process_group("mpi")
    yield dist.group.WORLD
    dist.destroy_process_group()


def test_queries_before_anything_is_initialized():
    assert dist.is_available()
    assert not dist.is_initialized()
    assert (dist.get_rank(), dist.get_world_size()) == (0, 1)
    with pytest.raises(ValueError, match="has not been initialized"):
        dist.all_reduce(gc.ones(1))
    with pytest.raises(ValueError, match="has not been initialized"):
        dist.destroy_process_group()


def test_every_collective(world):
    t = gc.tensor([1.0, 2.0])
    dist.all_reduce(t, dist.ReduceOp.AVG)
    dist.reduce(t, dst=0)
    dist.broadcast(t, src=0)
    for call in (
        lambda out: dist.all_gather([out], t),
        lambda out: dist.all_gather_into_tensor(out, t),
        lambda out: dist.gather(t, [out], dst=0),
        lambda out: dist.scatter(out, [t], src=0),
        lambda out: dist.reduce_scatter(out, [t]),
        lambda out: dist.reduce_scatter_tensor(out, t),
        lambda out: dist.all_to_all([out], [t]),
        lambda out: dist.all_to_all_single(out, t),
    ):
        out = gc.zeros(2)
        call(out)
        assert out.tolist() == [1, 2]
    assert dist.new_group([0]).size() == 1
    dist.barrier()
    with pytest.raises(ValueError, match="twice"):
        dist.init_process_group("mpi")


def test_numbers_are_rounded_as_they_are_with_others(world):
    t = gc.tensor([1.0]).half()
    dist.all_reduce(t)
    assert t.tolist() == [1]


def test_names_of_engines():
    with pytest.raises(ValueError, match="Invalid backend"):
        dist.init_process_group("smoke signals")
    with pytest.raises(ValueError, match="carries tensors of cpu"):
        dist.init_process_group("cuda:mpi")
    with pytest.raises(TypeError, match="timedelta"):
        dist.init_process_group("mpi", timeout=3)
    if not gc.cuda.is_available():
        with pytest.warns(UserWarning, match="falls back to 'mpi'"):
            dist.init_process_group("nccl")
        dist.destroy_process_group()
    dist.init_process_group("gloo")
    assert dist.get_backend() == "gloo"
    dist.destroy_process_group()


def test_a_world_without_mpi_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(dist.DistNetworkError, match=r"gradcore\[mpi\]"):
        dist.init_process_group("mpi", world_size=2, rank=0)


def test_variables_of_launchers(monkeypatch):
    from gradcore.distributed import environment

    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "PMI_RANK", "SLURM_STEP_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SLURM_PROCID", "3")
    assert environment.rank() is None  # of the job, not of a step of it
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    assert environment.rank() == 3
    monkeypatch.setenv("PMI_RANK", "2")
    assert environment.rank() == 2
    assert dist.get_node_local_rank(7) == 7
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert dist.get_node_local_rank() == 1


def test_data_parallel_of_one_process(world):
    from gradcore.distributed.algorithms.ddp_comm_hooks import default_hooks
    from gradcore.nn.parallel import DistributedDataParallel

    plain = gc.nn.Linear(3, 2)
    for hook in (None, default_hooks.allreduce_hook):
        net = DistributedDataParallel(gc.nn.Linear(3, 2), gradient_as_bucket_view=True)
        net.module.load_state_dict(plain.state_dict())
        if hook is not None:
            net.register_comm_hook(None, hook)
        plain.zero_grad()
        with net.join():
            for module in (net, plain):
                module(gc.ones(4, 3)).square().sum().backward()
        assert gc.equal(net.module.weight.grad, plain.weight.grad)
        with net.no_sync():
            net(gc.ones(4, 3)).square().sum().backward()
        assert gc.equal(net.module.weight.grad, 2 * plain.weight.grad)
    assert len(net._get_ddp_logging_data()) == 3
