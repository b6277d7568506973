"""Ranges for NVIDIA's profilers, on a runtime that notes them."""

from __future__ import annotations

import re

import pytest

import gradcore as gc
from gradcore.autograd import profiler
from gradcore.cuda import nvtx
from gradcore.profiler import ProfilerActivity
from tests.cuda.fake_runtime import LOG, Runtime


def ranges() -> list[str]:
    """Return the nested ranges as text in brackets."""
    text = "".join("]" if e == "pop" else f"[{e[1]}" for e in LOG if e == "pop" or e[0] == "push")
    return re.sub(r"\d+", "n", text)


def test_ranges_and_marks(cuda: Runtime) -> None:
    assert (nvtx.range_push("a"), nvtx.range_push("b")) == (0, 1)
    assert (nvtx.range_pop(), nvtx.range_pop()) == (1, 0)
    nvtx.range_end(nvtx.range_start("c"))
    nvtx.mark("d")

    @nvtx.range("step {} of {n}", 1, n=3)
    def step() -> None:
        LOG.append("inside")

    step()
    assert LOG == [
        ("push", "a"), ("push", "b"), "pop", "pop", ("start", "c"), ("end", 7), ("mark", "d"), ("push", "step 1 of 3"),
        "inside", "pop",
    ]  # fmt: skip


def test_ranges_end_with_errors(cuda: Runtime) -> None:
    with pytest.raises(ZeroDivisionError), nvtx.range("a"):
        1 / 0  # noqa: B018
    assert LOG == [("push", "a"), "pop"]


def test_operations_and_nodes_are_ranges(cuda: Runtime) -> None:
    x = gc.ones(3, device="cuda", requires_grad=True)
    LOG.clear()
    with profiler.emit_nvtx(), profiler.record_function("part"):
        (x * 2).sum().backward()
    assert ranges() == (
        "[part[aten::mul][aten::sum][SumBackwardn, seq = n][MulBackwardn, seq = n]"
        "[torch::autograd::AccumulateGrad, seq = n]]"
    )
    LOG.clear()
    x * 2
    assert not LOG


def test_ranges_with_shapes(cuda: Runtime) -> None:
    x = gc.ones(3, 2, device="cuda")
    LOG.clear()
    with profiler.emit_nvtx(record_shapes=True):
        x.sum(1)
    assert ("push", "aten::sum, sizes = [[3, 2], [], [], []]") in LOG


def test_ranges_of_failed_operations_end(cuda: Runtime) -> None:
    with profiler.emit_nvtx(), pytest.raises(RuntimeError):
        gc.ones(3, device="cuda") @ gc.ones(4, device="cuda")
    assert sum(e == "pop" for e in LOG) == sum(e[0] == "push" for e in LOG)


def test_one_profiler_at_a_time(cuda: Runtime) -> None:
    context = profiler.emit_nvtx()
    with context, pytest.raises(RuntimeError, match="Profiler is already enabled"), profiler.profile():
        pass
    with pytest.raises(RuntimeError, match="not reentrant"), context:
        pass
    with profiler.emit_nvtx(enabled=False), profiler.profile():
        pass


def test_supported_activities(cuda: Runtime) -> None:
    assert gc.profiler.supported_activities() == {ProfilerActivity.CPU, ProfilerActivity.CUDA}
    assert gc.profiler.kineto_available()
    assert profiler.kineto_available()


def test_without_cuda() -> None:
    if gc.cuda.is_available():
        pytest.skip("there is CUDA")
    assert gc.profiler.supported_activities() == {ProfilerActivity.CPU}
    for call in (nvtx.range_pop, lambda: nvtx.mark("a"), lambda: nvtx.range("a").__enter__()):
        with pytest.raises(RuntimeError, match=r"NVTX functions not installed\. Are you sure you have a CUDA build\?"):
            call()
    with pytest.raises(RuntimeError, match="cannot be used"), profiler.emit_nvtx():
        pass
