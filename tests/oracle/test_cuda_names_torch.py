"""Names of PyTorch's cuda and profiler that are there, and their parameters."""

from __future__ import annotations

import inspect

import pytest

import gradcore

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

SAME = [
    "manual_seed", "manual_seed_all", "seed", "seed_all", "initial_seed", "get_rng_state", "get_rng_state_all",
    "set_rng_state", "set_rng_state_all", "is_bf16_supported", "is_tf32_supported", "get_device_properties",
    "device_of", "StreamContext", "stream", "is_current_stream_capturing", "is_initialized", "init",
    "max_memory_reserved", "get_per_process_memory_fraction", "device_memory_used", "get_stream_from_external",
    "memory_cached", "graph_pool_handle", "make_graphed_callables",
    "max_memory_cached", "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_memory_stats",
]  # fmt: skip
#: What counts processes, reads sensors, or belongs to PyTorch's own allocator and compiler.
ABSENT = {
    "BFloat16Storage", "BoolStorage", "ByteStorage", "CUDAPluggableAllocator", "CharStorage", "ComplexDoubleStorage",
    "ComplexFloatStorage", "CudaError", "DeferredCudaCallError", "DoubleStorage", "FloatStorage", "GreenContext",
    "HalfStorage", "IntStorage", "LongStorage", "MemPool", "ShortStorage", "caching_allocator_alloc",
    "caching_allocator_delete", "caching_allocator_disabled", "caching_allocator_enable", "change_current_allocator",
    "check_error", "clock_rate", "cudaStatus", "cudart", "current_blas_handle", "current_solver_handle",
    "get_allocator_backend", "get_arch_list", "get_gencode_flags", "has_half",
    "has_magma", "host_memory_stats", "host_memory_stats_as_nested_dict", "jiterator",
    "list_gpu_processes", "memory_snapshot", "memory_stats_as_nested_dict", "memory_usage",
    "nccl", "power_draw", "profiler", "reset_accumulated_host_memory_stats", "reset_accumulated_memory_stats",
    "reset_peak_host_memory_stats", "sparse", "temperature", "tunable", "use_mem_pool", "utilization",
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
    "IntTensor",
    "LongTensor", "ShortTensor",
}  # fmt: skip
#: What belongs to PyTorch's own allocator and its tools.
ABSENT_OF_GRAPHS = {"get_graph_data"}


def names(function):
    return [(p.name, p.default is p.empty) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("name", SAME)
def test_parameters(name):
    assert names(getattr(gradcore.cuda, name)) == names(getattr(torch.cuda, name))


def test_graphs():
    ours, theirs = gradcore.cuda.CUDAGraph, torch.cuda.CUDAGraph
    assert {n for n in dir(theirs) if not n.startswith("_") and not hasattr(ours, n)} == ABSENT_OF_GRAPHS
    assert names(gradcore.cuda.graph)[:4] == names(torch.cuda.graph)[:4]


def test_nothing_else_is_absent():
    assert {n for n in torch.cuda.__all__ if not hasattr(gradcore.cuda, n)} - ABSENT == set()


@pytest.mark.parametrize("name", ["range_push", "range_pop", "range_end", "mark", "range"])
def test_ranges(name):
    assert names(getattr(gradcore.cuda.nvtx, name)) == names(getattr(torch.cuda.nvtx, name))


@pytest.mark.parametrize("name", ["emit_nvtx", "EnforceUnique"])
def test_profiler(name):
    ours, theirs = (getattr(library.autograd.profiler, name) for library in (gradcore, torch))
    assert names(ours) == names(theirs)
    assert {"kineto_available", "supported_activities"} <= set(dir(gradcore.profiler))


def test_unique_keys():
    def message(library):
        unique = library.autograd.profiler.EnforceUnique()
        unique.see("a", 1)
        unique.see("a", 2)
        with pytest.raises(RuntimeError) as raised:
            unique.see("a", 1)
        return str(raised.value)

    assert message(gradcore) == message(torch)
