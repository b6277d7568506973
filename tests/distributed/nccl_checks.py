"""What NCCL needs besides: streams, devices, memory, in processes of the rig."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import gradcore as gc
import gradcore.distributed as dist
from gradcore.distributed import ReduceOp
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
