"""Collectives of real processes against NumPy."""

from __future__ import annotations

import os
from datetime import timedelta

import numpy as np
import pytest

import gradcore as gc
import gradcore.distributed as dist
from gradcore.distributed import ReduceOp

DTYPES = [gc.float16, gc.bfloat16, gc.float32, gc.float64, gc.complex64, gc.complex128, gc.bool, gc.uint8, gc.int8,
          gc.int16, gc.int32, gc.int64, gc.uint16, gc.uint32, gc.uint64]  # fmt: skip
SHAPES = [(3, 4), (), (0,), (2, 0, 3), (1000,)]
REDUCTIONS = {
    ReduceOp.SUM: np.add, ReduceOp.PRODUCT: np.multiply, ReduceOp.MIN: np.minimum, ReduceOp.MAX: np.maximum,
    ReduceOp.BAND: np.bitwise_and, ReduceOp.BOR: np.bitwise_or, ReduceOp.BXOR: np.bitwise_xor,
}  # fmt: skip


def rank():
    return dist.get_rank()


def size():
    return dist.get_world_size()


def values(dtype, shape, seed):
    """Small integers, which every dtype holds exactly, as do their sums and products."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, 3, shape)
    if dtype.is_complex:
        numbers = numbers + 1j * rng.integers(0, 3, shape)
    return gc.tensor(numbers).to(dtype)


def as_numpy(t):
    return (t.float() if t.dtype is gc.bfloat16 else t).numpy()


def inputs(dtype, shape, seed=0):
    """Return the tensors of all ranks."""
    return [values(dtype, shape, seed + i) for i in range(size())]


def same(found, wanted):
    assert np.array_equal(as_numpy(found), np.asarray(wanted)), (found, wanted)


def reduced(op, tensors):
    arrays = [as_numpy(t) for t in tensors]
    total = arrays[0]
    for array in arrays[1:]:
        total = REDUCTIONS[op](total, array)
    return total


def by_nccl():
    return dist.get_backend() == "nccl"


def supported(op, dtype):
    if dtype.is_complex:
        return op is ReduceOp.SUM
    bits = op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
    if by_nccl() and (dtype in (gc.int16, gc.uint16) or (bits and (dtype is not gc.bool or op is ReduceOp.BXOR))):
        return False
    return not (dtype.is_floating_point and bits)


def check_all_reduce_of_every_dtype_and_reduction():
    for dtype in DTYPES:
        for op in REDUCTIONS:
            if not supported(op, dtype):
                continue
            for shape in SHAPES:
                tensors = inputs(dtype, shape)
                t = tensors[rank()].clone()
                version = t._version
                assert dist.all_reduce(t, op) is None
                same(t, reduced(op, tensors))
                assert t.dtype is dtype
                assert t._version > version


def check_mean():
    for dtype in (gc.float16, gc.bfloat16, gc.float32, gc.float64, gc.complex64, gc.complex128):
        tensors = inputs(dtype, (5,))
        t = tensors[rank()].clone()
        dist.all_reduce(t, ReduceOp.AVG)
        wide = sum(as_numpy(each).astype(np.complex128) for each in tensors) / size()
        assert np.allclose(as_numpy(t), wide, rtol=t.dtype.to_real().itemsize and 1e-2 if dtype.is_reduced else 1e-6)


def check_halves_are_summed_in_float32():
    if by_nccl():
        return  # which rounds as it likes
    for dtype in (gc.float16, gc.bfloat16):
        t = gc.tensor([1.0 if rank() == 0 else 2.0**-13]).to(dtype)
        wanted = gc.tensor([1.0 + (size() - 1) * float(gc.tensor(2.0**-13).to(dtype))]).to(dtype)
        dist.all_reduce(t)
        assert gc.equal(t, wanted)


def check_what_cannot_be_reduced():
    with pytest.raises(ValueError, match=r"MAX.* on complex"):
        dist.all_reduce(gc.ones(2, dtype=gc.complex64), ReduceOp.MAX)
    with pytest.raises(ValueError, match="BAND"):
        dist.all_reduce(gc.ones(2), ReduceOp.BAND)
    with pytest.raises(ValueError, match="AVG"):
        dist.all_reduce(gc.ones(2, dtype=gc.int64), ReduceOp.AVG)
    with pytest.raises(TypeError, match="ReduceOp"):
        dist.all_reduce(gc.ones(2), "sum")


def check_strided_tensors():
    whole = [values(gc.float32, (4, 6), i) for i in range(size())]
    for view in (lambda t: t.T, lambda t: t[:, ::2], lambda t: t[1:3], lambda t: t[::-1] if False else t.flip(0)):
        t = whole[rank()].clone()
        part = view(t)
        dist.all_reduce(part)
        same(part, sum(view(each).numpy() for each in whole))
    t = whole[rank()].clone()
    dist.all_reduce(t[:, 1])  # the base sees it
    wanted = whole[rank()].numpy().copy()
    wanted[:, 1] = sum(each.numpy()[:, 1] for each in whole)
    same(t, wanted)
    with pytest.raises(RuntimeError, match="single memory location"):
        dist.all_reduce(gc.ones(1).expand(3))


def check_unaligned_tensors():
    """Tensors of mapped files may begin at any byte."""
    if dist.get_backend() == "nccl":
        return  # memory of devices is aligned

    def unaligned(value):
        t = gc.from_numpy(np.full(41, 0, np.uint8)[1:].view(np.float64))
        return t.fill_(value)

    assert not unaligned(0)._array.flags.aligned
    t = unaligned(rank() + 1)
    dist.all_reduce(t)
    assert t.tolist() == [size() * (size() + 1) / 2] * 5
    t = unaligned(rank())
    dist.broadcast(t, src=size() - 1)
    assert t.tolist() == [size() - 1] * 5
    parts = [unaligned(-1) for _ in range(size())]
    dist.all_gather(parts, unaligned(rank()))
    assert [part[0].item() for part in parts] == list(range(size()))
    if rank() == 0:
        dist.send(unaligned(7), 1)
    elif rank() == 1:
        dist.recv(t, 0)
        assert t.tolist() == [7] * 5


def check_reduce_and_broadcast_from_every_rank():
    for root in range(size()):
        for dtype in DTYPES:
            tensors = inputs(dtype, (2, 3), root)
            t = tensors[rank()].clone()
            if supported(ReduceOp.SUM, dtype):
                dist.reduce(t, dst=root)
                same(t, reduced(ReduceOp.SUM, tensors) if rank() == root else as_numpy(tensors[rank()]))
            t = tensors[rank()].clone()
            dist.broadcast(t, src=root)
            same(t, as_numpy(tensors[root]))
            t = tensors[rank()].T.clone()
            dist.broadcast(t, group_src=root)
            same(t, as_numpy(tensors[root].T))


def check_all_gather():
    for dtype in DTYPES:
        for shape in SHAPES:
            tensors = inputs(dtype, shape)
            found = [gc.empty(shape, dtype=dtype) for _ in tensors]
            dist.all_gather(found, tensors[rank()])
            for a, b in zip(found, tensors, strict=True):
                same(a, as_numpy(b))
    tensors = inputs(gc.float32, (2, 3))
    for shape, join in (((2 * size(), 3), np.concatenate), ((size(), 2, 3), np.stack)):
        out = gc.empty(shape)
        dist.all_gather_into_tensor(out, tensors[rank()])
        same(out, join([as_numpy(t) for t in tensors]))
    out = gc.empty(3, 2 * size()).T
    dist.all_gather_into_tensor(out, tensors[rank()])
    same(out, np.concatenate([as_numpy(t) for t in tensors]))


def check_all_gather_in_place():
    """Check that the input may be this process's part of the output."""
    for dtype in (gc.float32, gc.bfloat16, gc.complex64, gc.bool):
        out = gc.full((size(), 3), 1, dtype=dtype)
        out[rank()] = gc.tensor([rank(), 0, 2], dtype=dtype)
        dist.all_gather_into_tensor(out, out[rank()])
        expected = [gc.tensor([source, 0, 2], dtype=dtype) for source in range(size())]
        assert gc.equal(out, gc.stack(expected)), out


def check_uneven_and_empty():
    tensors = [values(gc.complex64, (i, 2), i) for i in range(size())]  # rank 0 gives nothing
    found = [gc.empty(i, 2, dtype=gc.complex64) for i in range(size())]
    dist.all_gather(found, tensors[rank()])
    for a, b in zip(found, tensors, strict=True):
        same(a, as_numpy(b))
    found = [gc.empty(i, 2, dtype=gc.complex64) for i in range(size())] if rank() == 1 else None
    dist.gather(tensors[rank()], found, dst=1)
    for a, b in zip(found or (), tensors, strict=rank() == 1):
        same(a, as_numpy(b))
    t = gc.empty(rank(), 2, dtype=gc.complex64)
    dist.scatter(t, tensors if rank() == 1 else None, src=1)
    same(t, as_numpy(tensors[rank()]))
    lists = [[values(gc.float64, (j,), 10 * i + j) for j in range(size())] for i in range(size())]
    t = gc.empty(rank(), dtype=gc.float64)
    dist.reduce_scatter(t, lists[rank()])
    same(t, sum(as_numpy(each[rank()]) for each in lists))


def check_gather_and_scatter_from_every_rank():
    for root in range(size()):
        for dtype in DTYPES:
            tensors = inputs(dtype, (2, 3), root)
            found = [gc.empty(2, 3, dtype=dtype) for _ in tensors] if rank() == root else None
            dist.gather(tensors[rank()], found, dst=root)
            for a, b in zip(found or (), tensors, strict=rank() == root):
                same(a, as_numpy(b))
            t = gc.empty(3, 2, dtype=dtype).T
            dist.scatter(t, tensors if rank() == root else None, src=root)
            same(t, as_numpy(tensors[rank()]))


def check_reduce_scatter():
    for dtype in DTYPES:
        for op in (ReduceOp.SUM, ReduceOp.MAX):
            if not supported(op, dtype):
                continue
            lists = [[values(dtype, (2, 2), 10 * i + j) for j in range(size())] for i in range(size())]
            t = gc.empty(2, 2, dtype=dtype)
            dist.reduce_scatter(t, lists[rank()], op)
            wanted = reduced(op, [each[rank()] for each in lists])
            same(t, wanted)
            t = gc.empty(2, 2, dtype=dtype)
            dist.reduce_scatter_tensor(t, gc.cat(lists[rank()]), op)
            same(t, wanted)
    t = gc.empty(2)
    dist.reduce_scatter_tensor(t, gc.ones(2 * size()), ReduceOp.AVG)
    same(t, np.ones(2))


def check_all_to_all():
    for dtype in DTYPES:
        lists = [[values(dtype, (2, 2), 10 * i + j) for j in range(size())] for i in range(size())]
        found = [gc.empty(2, 2, dtype=dtype) for _ in range(size())]
        dist.all_to_all(found, lists[rank()])
        for a, row in zip(found, lists, strict=True):
            same(a, as_numpy(row[rank()]))
        out = gc.empty(2 * size(), 2, dtype=dtype)
        dist.all_to_all_single(out, gc.cat(lists[rank()]))
        same(out, np.concatenate([as_numpy(row[rank()]) for row in lists]))
    rows = [[(i + j) % 3 for j in range(size())] for i in range(size())]  # some send nothing
    whole = [values(gc.float32, (sum(row), 5), i) for i, row in enumerate(rows)]
    out = gc.empty(sum(row[rank()] for row in rows), 5)
    dist.all_to_all_single(out, whole[rank()], [row[rank()] for row in rows], rows[rank()])
    parts = [np.split(as_numpy(t), np.cumsum(row)[:-1]) for t, row in zip(whole, rows, strict=True)]
    same(out, np.concatenate([part[rank()] for part in parts]))


def check_asynchronous_calls():
    tensors = [inputs(dtype, (50,), k) for k, dtype in enumerate(DTYPES) if supported(ReduceOp.SUM, dtype)]
    mine = [each[rank()].clone() for each in tensors]
    works = [dist.all_reduce(t, async_op=True) for t in mine]
    for work, t, each in zip(works[::-1], mine[::-1], tensors[::-1], strict=True):  # in any order
        assert work.wait()
        assert work.is_completed()
        assert work.is_success()
        assert work.result()[0] is t
        same(t, reduced(ReduceOp.SUM, each))
    t = gc.ones(4).bfloat16()
    future = dist.all_reduce(t, async_op=True).get_future().then(lambda f: f.value()[0] * 2)
    same(future.wait(), np.full(4, 2.0 * size()))
    work = dist.barrier(async_op=True)
    while not work.is_completed():
        pass
    out = gc.empty(size(), 2)
    dist.all_gather_into_tensor(out, gc.full((2,), float(rank())), async_op=True).wait()
    same(out, np.arange(float(size()))[:, None] + np.zeros(2))


def check_a_large_call_goes_on_without_its_caller():
    import time

    t = gc.ones(2_000_000)
    work = dist.all_reduce(t, async_op=True)
    time.sleep(1.0)  # somebody else moves the data
    work.wait()
    same(t, np.full(2_000_000, float(size())))


def check_messages():
    after, before = (rank() + 1) % size(), (rank() - 1) % size()
    for dtype in DTYPES:
        t, out = values(dtype, (3, 2), rank()), gc.empty(2, 3, dtype=dtype).T
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, t, after), dist.P2POp(dist.irecv, out, before)])
        for work in works:
            work.wait()
        same(out, as_numpy(values(dtype, (3, 2), before)))
    big = gc.full((300_000,), float(rank()))
    out = gc.empty(300_000)
    if rank() % 2 == 0 and rank() + 1 < size():
        dist.send(big, rank() + 1)
        assert dist.recv(out, rank() + 1) == rank() + 1
        same(out, np.full(300_000, rank() + 1.0))
    elif rank() % 2:
        assert dist.recv(out, rank() - 1) == rank() - 1
        dist.send(big, rank() - 1)
    dist.barrier()
    with pytest.raises(ValueError, match="this process itself"):
        dist.send(gc.ones(1), rank())
    if by_nccl():  # it has no tags, and receives from those that are named
        return
    if rank() == 0:
        found = []
        for _ in range(size() - 1):
            t = gc.empty(1)
            found.append((dist.recv(t), t.item()))
        assert sorted(found) == [(i, float(i)) for i in range(1, size())]
    else:
        dist.send(gc.full((1,), float(rank())), 0)
    dist.barrier()
    if rank() == 0:  # tags choose
        dist.isend(gc.ones(1), 1, tag=5)
        dist.isend(gc.zeros(1), 1, tag=6)
    if rank() == 1:
        a, b = gc.empty(1), gc.empty(1)
        dist.recv(b, 0, tag=6)
        dist.recv(a, 0, tag=5)
        assert (a.item(), b.item()) == (1, 0)


def check_objects():
    found = [None] * size()
    dist.all_gather_object(found, {"rank": rank(), "t": gc.arange(rank())})
    assert [each["rank"] for each in found] == list(range(size()))
    assert [each["t"].tolist() for each in found] == [list(range(i)) for i in range(size())]
    objects = ["a", (1, 2.5), None] if rank() == 1 else [None] * 3
    dist.broadcast_object_list(objects, src=1)
    assert objects == ["a", (1, 2.5), None]
    found = [None] * size() if rank() == 0 else None
    dist.gather_object(rank() ** 2, found, dst=0)
    assert found is None or found == [i**2 for i in range(size())]
    out = [None]
    dist.scatter_object_list(out, [f"for {i}" for i in range(size())] if rank() == 0 else None, src=0)
    assert out == [f"for {rank()}"]


def check_objects_that_could_run_code_are_refused():
    import os
    import pickle

    with pytest.raises(pickle.UnpicklingError, match="add_safe_globals"):
        dist.all_gather_object([None] * size(), os.system)


def check_groups():
    ends = dist.new_group([0, size() - 1])
    if rank() in (0, size() - 1):
        t = gc.full((2,), float(rank()))
        dist.all_reduce(t, group=ends)
        same(t, np.full(2, size() - 1.0))
        assert dist.get_world_size(ends) == 2
        assert dist.get_global_rank(ends, 1) == size() - 1
        assert dist.get_group_rank(ends, size() - 1) == 1
        assert dist.get_process_group_ranks(ends) == [0, size() - 1]
        t = gc.full((1,), float(rank()))
        dist.broadcast(t, src=size() - 1, group=ends)
        assert t.item() == size() - 1
        dist.destroy_process_group(ends)
    else:
        assert ends == dist.GroupMember.NON_GROUP_MEMBER
        assert dist.get_rank(ends) == -1
        with pytest.warns(UserWarning, match="not part of the group"):
            dist.all_reduce(gc.ones(1), group=ends)
    everybody = dist.new_group()
    t = gc.ones(1)
    dist.all_reduce(t, group=everybody)
    assert t.item() == size()
    with pytest.raises(ValueError, match="must be different"):
        dist.new_group([0, 0])
    assert dist.group.WORLD.size() == size()
    assert dist.get_backend() in ("mpi", "nccl")


def check_wrong_arguments_are_errors_before_anything_is_sent():
    with pytest.raises(TypeError, match=r"torch\.Tensor"):
        dist.all_reduce([1.0])
    with pytest.raises(ValueError, match="ranks"):
        dist.all_gather([gc.empty(1)] * (size() + 1), gc.ones(1))
    with pytest.raises(ValueError, match="different dtypes"):
        dist.all_gather([gc.empty(1, dtype=gc.float64)] * size(), gc.ones(1))
    with pytest.raises(ValueError, match="elements"):
        dist.all_gather_into_tensor(gc.empty(1), gc.ones(2))
    with pytest.raises(ValueError, match="does not divide"):
        dist.all_to_all_single(gc.empty(size() + 1), gc.ones(size() + 1))
    with pytest.raises(ValueError, match="destination"):
        dist.gather(gc.ones(1), [gc.empty(1)] * size() if rank() != 0 else None, dst=0)
    with pytest.raises(ValueError, match="not part of group"):
        dist.broadcast(gc.ones(1), src=99)
    with pytest.raises(RuntimeError, match="vmap"):
        gc.func.vmap(lambda t: dist.all_reduce(t))(gc.ones(3))
    with pytest.raises(RuntimeError, match="meta"):
        dist.all_reduce(gc.ones(3, device="meta"))


def check_history():
    p = gc.nn.Parameter(gc.full((2,), float(rank())))
    dist.broadcast(p, src=0)  # a leaf is data
    same(p.detach(), np.zeros(2))
    loss = (p * 2).sum()
    with pytest.warns(UserWarning, match="history does not know"):
        dist.all_reduce(loss)
    saved = gc.ones(2, requires_grad=True).exp()
    y = saved.exp().sum()
    with gc.no_grad():
        dist.all_reduce(saved)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def check_debug_mode_names_both_sides():
    os.environ["GRADCORE_DISTRIBUTED_DEBUG"] = "DETAIL"
    try:
        dist.all_reduce(gc.ones(2))
        dist.all_to_all_single(gc.empty(size()), gc.ones(size()))
        shape = (3,) if rank() == 0 else (4,)
        with pytest.raises(RuntimeError) as error:
            dist.all_reduce(gc.ones(shape))
        for text in (f"rank {rank()} of {size()}", "rank 0: all_reduce(shape (3,)", "rank 1: all_reduce(shape (4,)"):
            assert text in str(error.value), error.value
        with pytest.raises(RuntimeError, match=r"rank 0: broadcast.*rank 1: all_reduce"):
            dist.broadcast(gc.ones(2), src=0) if rank() == 0 else dist.all_reduce(gc.ones(2))
        with pytest.raises(RuntimeError, match=r"float64.*float32|float32.*float64"):
            dist.all_reduce(gc.ones(2, dtype=gc.float64 if rank() else gc.float32))
        sizes = [1] * size()
        with pytest.raises(RuntimeError, match=r"rank 0 sends 2 elements to rank 1, which receives 1"):
            dist.all_to_all(
                [gc.empty(1) for _ in sizes], [gc.ones(2 if (rank(), i) == (0, 1) else 1) for i in range(size())]
            )
        dist.all_reduce(gc.ones(2))  # nothing was sent, so everybody goes on
    finally:
        del os.environ["GRADCORE_DISTRIBUTED_DEBUG"]


def check_different_calls_are_an_error_that_names_both():
    if dist.get_backend() == "nccl":
        return  # its calls are compared only where MPI is there, too
    n, first = size(), rank() == 0
    ranks = range(n)
    later = {"async_op": True}
    calls = {
        "dtypes": lambda g: dist.all_reduce(gc.ones(2, dtype=gc.float32 if first else gc.float64), group=g),
        "categories": lambda g: dist.all_reduce(gc.ones(2, dtype=gc.float32 if first else gc.int32), group=g),
        "sizes": lambda g: dist.all_reduce(gc.ones(4 if first else 6), group=g),
        "reductions": lambda g: dist.all_reduce(gc.ones(2), dist.ReduceOp.SUM if first else dist.ReduceOp.MAX, g),
        "roots": lambda g: dist.broadcast(gc.ones(2), group=g, group_src=0 if first else 1),
        "kinds": lambda g: dist.barrier(g) if first else dist.all_reduce(gc.ones(2), group=g),
        "objects": lambda g: (
            dist.all_gather_object([None] * n, 1, g) if first else dist.broadcast_object_list([1], 0, g)
        ),
        "an object": lambda g: (
            dist.all_gather_object([None] * n, 1, g) if first else dist.all_reduce(gc.ones(1), group=g)
        ),
        "later calls": lambda g: [w.wait() for w in [
            dist.all_reduce(gc.ones(k), group=g, **later) for k in ((2, 3) if first else (3, 2))
        ]],
    }  # fmt: skip
    for what, call in calls.items():
        group = dist.new_group(timeout=timedelta(seconds=20))
        with pytest.raises(dist.DistBackendError, match=r"make different calls: rank 0: .*; rank 1: ") as error:
            call(group)
        assert f"rank {rank()} of {n}" in str(error.value), what
    parts = {
        "lists": lambda g: dist.all_gather([gc.empty(2 if first or i else 1) for i in ranks], gc.ones(2), g),
        "rows": lambda g: dist.all_to_all_single(
            gc.empty(n), gc.ones(n + first), None, [1 + (first and i == 1) for i in ranks], g
        ),
    }
    for what, call in parts.items():
        group = dist.new_group(timeout=timedelta(seconds=20))
        with pytest.raises(dist.DistBackendError, match=r"rank 0 sends 2 elements to rank 1, which receives 1"):
            call(group)
        with pytest.raises(dist.DistBackendError, match="cannot be used after a failure"):
            dist.barrier(group)
        assert what
    dist.all_reduce(gc.ones(3))  # other groups go on


def check_shapes_may_differ_beside_the_number_of_elements():
    t = gc.ones(6).reshape((2, 3) if rank() else (6,))
    dist.all_reduce(t)
    same(t, np.full(t.shape, float(size())))


def check_comparisons_can_be_switched_off():
    os.environ["GRADCORE_DISTRIBUTED_DEBUG"] = "NONE"
    try:
        t = gc.ones(2)
        dist.all_reduce(t)
        same(t, np.full(2, float(size())))
    finally:
        del os.environ["GRADCORE_DISTRIBUTED_DEBUG"]


def check_profiler_has_ranges():
    from gradcore.autograd import profiler

    with profiler.profile() as prof:
        dist.all_reduce(gc.ones(2), async_op=True).wait()
    assert {"gradcore::all_reduce", "gradcore::wait"} <= {event.name for event in prof.function_events}
