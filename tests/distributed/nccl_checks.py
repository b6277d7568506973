"""What NCCL needs besides: streams, devices, memory, in processes of the rig."""

from __future__ import annotations

import ctypes
import sys

import numpy as np
import pytest

import gradcore as gc
import gradcore.distributed as dist
from gradcore.distributed import ReduceOp
from gradcore.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from gradcore.nn.parallel import DistributedDataParallel as DDP

cupy = sys.modules.get("cupy")  # there in the rig, where these run


def rank():
    return dist.get_rank()


def size():
    return dist.get_world_size()


def engine():
    return dist.group.WORLD.engines["cuda"]


def check_what_nccl_cannot_do():
    with pytest.raises(ValueError, match="NCCL has no BAND"):
        dist.all_reduce(gc.ones(2, dtype=gc.int64), ReduceOp.BAND)
    with pytest.raises(ValueError, match="NCCL has no BXOR"):
        dist.all_reduce(gc.ones(2, dtype=gc.bool), ReduceOp.BXOR)
    with pytest.raises(ValueError, match="does not reduce int16"):
        dist.all_reduce(gc.ones(2, dtype=gc.int16))
    with pytest.raises(ValueError, match=f"works with cuda:{rank()}"):
        dist.all_reduce(gc.ones(2, device=f"cuda:{1 - rank()}"))
    with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
        dist.all_reduce(gc.ones(2, device="cpu"))
    dist.barrier()


def check_another_device_is_current():
    t = gc.full((3, 4), float(rank()))
    with gc.cuda.device(1 - rank()):
        dist.all_reduce(t.T)
        works = [dist.all_gather_into_tensor(out := gc.empty(6, 4, device=t.device), t, async_op=True)]
        works[0].wait()
        found = [gc.empty(3, 4, device=t.device).T for _ in range(size())]
        dist.all_gather(found, t.T)
        dist.all_to_all_single(gc.empty(4, 3, device=t.device), t.T)
        objects = [None] * size()
        dist.all_gather_object(objects, rank())
    assert objects == list(range(size()))
    assert out.unique().tolist() == [1.0]


def check_means_are_those_of_nccl():
    comm, given = engine()._comm, []
    plain = comm.allReduce
    comm.allReduce = lambda *args: (given.append(args[4]), plain(*args))
    try:
        for dtype in (gc.float32, gc.float64, gc.bfloat16, gc.complex64):
            t = gc.full((5,), rank() + 1.0, dtype=dtype)
            dist.all_reduce(t, ReduceOp.AVG)
            assert t.real.tolist() == [(size() + 1) / 2] * 5
    finally:
        del comm.allReduce
    assert given == [sys.modules["cupy.cuda.nccl"].NCCL_AVG] * 4
    out = gc.empty(3)
    dist.reduce_scatter_tensor(out, gc.arange(3.0 * size()) * (rank() + 1), ReduceOp.AVG)
    assert out.tolist() == [(3 * rank() + i) * (size() + 1) / 2 for i in range(3)]


def check_a_step_does_not_wait_for_the_device():
    waits = ctypes.CDLL(None).cupyhost_waits
    waits.restype = ctypes.c_longlong
    for settings in ({}, {"find_unused_parameters": True}, {"static_graph": True}):
        model = DDP(gc.nn.Sequential(gc.nn.Linear(4, 4), gc.nn.ReLU(), gc.nn.Linear(4, 2)), **settings)
        optimizer = gc.optim.SGD(model.parameters(), 0.1)
        x, found = gc.ones(3, 4), []
        for _ in range(5):
            dist.barrier()
            before = waits()
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
            found.append(waits() - before)
        assert found[-2:] == [0, 0], (settings, found)


def check_parts_are_on_the_host_while_a_module_computes_on_the_device():
    def make(policy):
        gc.manual_seed(3)
        norm = gc.nn.BatchNorm1d(8) if policy is None else gc.nn.LayerNorm(8)
        return gc.nn.Sequential(gc.nn.Linear(4, 8), norm, gc.nn.Linear(8, 2))

    x = gc.arange(20.0).reshape(5, 4) / 10
    for policy in (None, MixedPrecisionPolicy(gc.bfloat16, gc.float32)):
        for begins in ("cuda", "cpu", "meta"):
            plain, offloaded = make(policy), make(policy).to(begins)
            for model, settings in ((plain, {}), (offloaded, {"offload_policy": CPUOffloadPolicy()})):
                fully_shard([model[0], model[1]], mp_policy=policy, **settings)
                fully_shard(model, mp_policy=policy, **settings)
            if begins == "meta":
                offloaded.to_empty(device="cpu")
                for p, q in zip(offloaded.parameters(), plain.parameters(), strict=True):
                    p.data.copy_(q.data)
                for a, b in zip(offloaded.buffers(), plain.buffers(), strict=True):
                    a.data = b.clone()
            losses = []
            for model in (plain, offloaded):
                optimizer = gc.optim.SGD(model.parameters(), 0.1, momentum=0.9)
                for _ in range(3):
                    optimizer.zero_grad()
                    loss = model(x.to(gc.float32)).float().square().mean()
                    loss.backward()
                    norm = gc.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    losses.append((loss.item(), norm.item()))
            assert np.allclose(losses[:3], losses[3:], rtol=1e-5), losses
            for p, q in zip(offloaded.parameters(), plain.parameters(), strict=True):
                assert p.device.type == p.grad.device.type == "cpu"
                assert all(t.device.type == "cpu" for t in optimizer.state[p].values())
                assert q.device.type == "cuda"
                assert p.full_tensor().device.type == "cuda"
                assert gc.allclose(p.full_tensor(), q.full_tensor(), rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeError, match="materialized on CPU when enabling CPU offloading"):
        fully_shard(gc.nn.Linear(4, 2, device="meta"), offload_policy=CPUOffloadPolicy()).to_empty(device="cuda")(x)


def check_side_streams():
    side = gc.cuda.Stream()
    side.wait_stream(gc.cuda.current_stream())
    with gc.cuda.stream(side):
        t = gc.full((1000,), rank() + 1.0)
        work = dist.all_reduce(t, async_op=True)
        work.wait()
        total = t * 2
    gc.cuda.current_stream().wait_stream(side)
    assert total.unique().tolist() == [6.0]


def check_memory_is_kept_until_the_device_has_finished():
    for _ in range(50):  # nobody holds the handles, nor the tensors
        dist.all_reduce(gc.ones(1000), async_op=True)
        gc.full((1000,), 7.0)
    t = gc.ones(1000)
    dist.all_reduce(t)
    assert t.unique().tolist() == [2.0]


def check_groups_have_streams_of_their_own():
    other = dist.new_group()
    a, b = engine(), other.engines["cuda"]
    assert len({a._stream.ptr, b._stream.ptr, cupy.cuda.get_current_stream().ptr}) == 3
    model = DDP(gc.nn.Linear(3, 2))
    assert model.process_group.engines["cuda"]._stream.ptr not in (a._stream.ptr, b._stream.ptr)
    t = gc.ones(3)
    works = [dist.all_reduce(t, group=group, async_op=True) for group in (None,)]
    u = gc.ones(3)
    works.append(dist.all_reduce(u, group=other, async_op=True))
    for work in works[::-1]:
        work.wait()
    assert (t + u).tolist() == [4.0] * 3
    dist.destroy_process_group(other)


def check_the_stand_in_refuses_what_it_should():
    from tests.distributed import nccl_stand_in as stand_in

    comm, stream, n = engine()._comm, engine()._stream, stand_in.cupy.cuda.nccl
    with cupy.cuda.Device(rank()):
        x = cupy.ones(4, np.float32)
        with pytest.raises(stand_in.NcclError, match="default stream"):
            comm.allReduce(x.data.ptr, x.data.ptr, 4, n.NCCL_FLOAT32, n.NCCL_SUM, 0)
        with pytest.raises(stand_in.NcclError, match="has not waited"):
            comm.allReduce(x.data.ptr, x.data.ptr, 4, n.NCCL_FLOAT32, n.NCCL_SUM, stream.ptr)
        with cupy.cuda.Device(1 - rank()):
            there, other = cupy.ones(4, np.float32), cupy.cuda.Stream(non_blocking=True)
        with pytest.raises(stand_in.NcclError, match="memory of device"):
            comm.allReduce(there.data.ptr, there.data.ptr, 4, n.NCCL_FLOAT32, n.NCCL_SUM, stream.ptr)
        with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="invalid resource handle"):
            comm.allReduce(x.data.ptr, x.data.ptr, 4, n.NCCL_FLOAT32, n.NCCL_SUM, other.ptr)
        event = cupy.cuda.Event(disable_timing=True)
        event.record(cupy.cuda.get_current_stream())
        stream.wait_event(event)
        comm.allReduce(x.data.ptr, x.data.ptr, 4, n.NCCL_FLOAT32, n.NCCL_SUM, stream.ptr)
        early = np.isnan(x.get()).all()  # not written yet, or already
        stream.synchronize()
        assert early or (x.get() == size()).all()
        assert (x.get() == size()).all()
    dist.barrier()
