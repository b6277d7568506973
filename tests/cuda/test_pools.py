"""Memory of graphs: it is counted with all other, keeps to the limit, and goes back when nothing is in it."""

from __future__ import annotations

from typing import Any

import pytest

import gradcore as gc
from gradcore.backends import registry
from gradcore.backends.cupy.memory import allocator
from gradcore.errors import OutOfMemoryError
from tests.cuda.fake_runtime import LOG, Runtime

#: What the fake runtime says of the default pool.
USED, RESERVED, CAPACITY = 1024, 4096, 80 << 30


def numbers(device: int = 0) -> tuple[int, int]:
    return gc.cuda.memory_allocated(device), gc.cuda.memory_reserved(device)


def recorded(cuda: Runtime, *sizes: int, pool: Any = None) -> tuple[Any, list[Any]]:
    """Return a graph whose pool has allocated blocks of these sizes, and the blocks."""
    g = gc.cuda.CUDAGraph()
    with gc.cuda.graph(g, pool):
        return g, [cuda.allocator(size) for size in sizes]


def test_memory_of_graphs_is_counted(cuda: Runtime) -> None:
    g, held = recorded(cuda, 500, 250)
    assert numbers() == (USED + 750, RESERVED + 750)
    held.pop()  # free for the graph, and for no other
    assert numbers() == (USED + 500, RESERVED + 750)
    other, more = recorded(cuda, 50)
    shared = recorded(cuda, 100, pool=g.pool())[0]
    assert numbers() == (USED + 550, RESERVED + 800)
    stats = gc.cuda.memory_stats()
    assert (stats["allocated_bytes.all.current"], stats["reserved_bytes.all.current"]) == numbers()
    assert f"{USED + 550:,} bytes in use, {RESERVED + 800:,} reserved" in gc.cuda.memory_summary()
    del g, held, more, other
    assert numbers() == (USED, RESERVED + 800)  # the driver would wait for the device wherever Python collects a graph
    gc.cuda.empty_cache()
    assert numbers() == (
        USED,
        RESERVED + 750,
    )  # two graphs had that pool, and the other one uses it when it is replayed
    del shared
    assert numbers() == (USED, RESERVED + 750)
    gc.cuda.empty_cache()
    assert numbers() == (USED, RESERVED)


def test_devices_are_counted_apart(cuda: Runtime) -> None:
    with gc.cuda.device(1):
        g, held = recorded(cuda, 300)
    assert numbers(0) == (USED, RESERVED)
    assert numbers(1) == (USED + 300, RESERVED + 300)
    del g
    gc.cuda.empty_cache()
    assert numbers(1) == (USED + 300, RESERVED + 300)
    del held
    gc.cuda.empty_cache()
    assert numbers(1) == (USED, RESERVED)


def test_results_that_outlive_their_graph_are_counted(cuda: Runtime) -> None:
    g, held = recorded(cuda, 500, 250)
    g.reset()
    assert numbers() == (USED + 750, RESERVED + 750)
    del g, held[1]
    gc.cuda.empty_cache()
    assert numbers() == (USED + 500, RESERVED + 500)
    held.clear()
    assert numbers() == (USED, RESERVED + 500)
    gc.cuda.graph_pool_handle()  # as empty_cache, whoever makes a pool sees to what is left of others
    assert numbers() == (USED, RESERVED)


def test_nothing_is_given_back_while_work_is_recorded(cuda: Runtime) -> None:
    first, held = recorded(cuda, 500)
    second = gc.cuda.CUDAGraph()
    with gc.cuda.graph(second):
        first.reset()
        held.clear()
        assert numbers() == (USED, RESERVED + 500)
        assert "freed" not in LOG
    gc.cuda.empty_cache()
    assert numbers() == (USED, RESERVED)


def test_peaks_are_those_of_all_pools(cuda: Runtime) -> None:
    gc.cuda.reset_peak_memory_stats()
    g, held = recorded(cuda, 500, 250)
    del g
    held.clear()
    gc.cuda.empty_cache()
    assert numbers() == (USED, RESERVED)
    assert gc.cuda.max_memory_allocated() == USED + 750
    assert gc.cuda.max_memory_reserved() == RESERVED + 750
    gc.cuda.reset_peak_memory_stats()
    assert (gc.cuda.max_memory_allocated(), gc.cuda.max_memory_reserved()) == (USED, RESERVED)


def test_pools_keep_to_one_limit(cuda: Runtime) -> None:
    allocate = allocator(registry.find("cuda"), cuda.pool.malloc)
    gc.cuda.set_per_process_memory_fraction((RESERVED + 1000) / CAPACITY)
    g, held = recorded(cuda, 600)
    with pytest.raises(OutOfMemoryError):
        allocate(500)
    held.append(allocate(400))
    with pytest.raises(RuntimeError, match="CUDA out of memory"):
        recorded(cuda, 1, pool=g.pool())
    assert gc.cuda.memory_reserved() == RESERVED + 1000
    del g
    held.clear()
    gc.cuda.empty_cache()
    assert gc.cuda.memory_reserved() == RESERVED
    assert allocate(1000) == 1000
    gc.cuda.set_per_process_memory_fraction(0)
    assert gc.cuda.get_per_process_memory_fraction() == 0
    with pytest.raises(OutOfMemoryError):
        allocate(2000)
    assert gc.cuda.get_per_process_memory_fraction(1) == 1


def test_limits_that_cupy_was_told(cuda: Runtime) -> None:
    cuda.pool.set_limit(size=CAPACITY // 4)
    assert gc.cuda.get_per_process_memory_fraction() == 0.25
    assert recorded(cuda, 600)[1] == [600]
    assert cuda.pool.get_limit() == CAPACITY // 4


def test_errors_count_all_pools(cuda: Runtime) -> None:
    g, held = recorded(cuda, 5 << 20, 3 << 20)
    del held[0]
    allocate = allocator(registry.find("cuda"), cuda.pool.malloc)
    cuda.full = True
    text = "3.00 GiB is free. 3.00 MiB is in use by arrays and 5.00 MiB is reserved but unallocated"
    with pytest.raises(OutOfMemoryError, match=text):
        allocate(1 << 30)
    gc.cuda.set_per_process_memory_fraction(0.5)
    with pytest.raises(OutOfMemoryError, match=r"3.00 GiB is free. 40.00 GiB allowed; 3.00 MiB is in use"):
        allocate(1 << 30)
    del g


def test_full_devices_get_back_what_is_left_of_graphs(cuda: Runtime) -> None:
    g, held = recorded(cuda, 600)
    gc.cuda.set_per_process_memory_fraction((RESERVED + 1000) / CAPACITY)
    del g
    held.clear()
    assert gc.cuda.memory_reserved() == RESERVED + 600
    assert allocator(registry.find("cuda"), cuda.pool.malloc)(1000) == 1000


def test_random_numbers_of_graphs_have_memory_that_is_counted(cuda: Runtime) -> None:
    using, held = cuda.using_allocator, []

    def noting(malloc: Any) -> Any:
        held.append(malloc(48))
        return using(malloc)

    cuda.using_allocator = noting  # type: ignore[method-assign]
    registry.find("cuda").place_memory()
    assert numbers() == (USED + 48, RESERVED + 48)
    held.clear()
    gc.cuda.empty_cache()
    assert numbers() == (USED, RESERVED)
