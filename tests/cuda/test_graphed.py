"""PyTorch's interface of CUDA graphs, and `make_graphed_callables`, on a runtime that runs recorded work later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gradcore as gc
from gradcore import nn
from tests.cuda.fake_runtime import LOG, Runtime

# -- graphs -----------------------------------------------------------------------------------------------------------


def test_work_is_recorded_in_a_context(cuda: Runtime, tmp_path: Path) -> None:
    x, g = gc.ones(3, device="cuda"), gc.cuda.CUDAGraph(keep_graph=True)
    y = gc.zeros(3, device="cuda")
    with gc.cuda.graph(g, capture_error_mode="relaxed"):
        assert gc.cuda.is_current_stream_capturing()
        y.copy_(x * 2)
    assert not gc.cuda.is_current_stream_capturing()
    assert y.tolist() == [0.0, 0.0, 0.0]
    g.instantiate()
    for value in (1.0, 5.0):
        x.fill_(value)
        g.replay()
        assert y.tolist() == [2 * value] * 3
    assert (g.raw_cuda_graph(), g.raw_cuda_graph_exec()) == (11, 13)
    g.debug_dump(str(tmp_path / "graph.dot"))
    assert (tmp_path / "graph.dot").read_text() == "digraph 1"


def test_work_that_is_made_ready_again(cuda: Runtime) -> None:
    x, g = gc.ones(3, device="cuda"), gc.cuda.CUDAGraph(keep_graph=True)
    with gc.cuda.graph(g):
        y = x + 1
    g.instantiate()
    first = g.raw_cuda_graph_exec()
    g.instantiate()
    assert list(cuda.executables) == [g.raw_cuda_graph_exec()] != [first]  # the first one is destroyed
    g.replay()
    assert y.tolist() == [2.0, 2.0, 2.0]
    g.reset()
    assert not cuda.executables
    plain = gc.cuda.CUDAGraph()
    with gc.cuda.graph(plain):
        y = x + 1
    with pytest.raises(RuntimeError, match="only when keep_graph=true"):
        plain.instantiate()


def test_descriptions_are_written_when_they_are_asked_for(cuda: Runtime, tmp_path: Path) -> None:
    path, g = tmp_path / "graph.dot", gc.cuda.CUDAGraph()
    with gc.cuda.graph(g):
        gc.ones(3, device="cuda")
    with pytest.warns(UserWarning, match="CUDA Graphs debug not enabled"):
        g.debug_dump(str(path))
    assert not path.exists()
    g.enable_debug_mode()
    g.debug_dump(str(path))
    assert path.read_text() == "digraph 1"


def test_one_graph_is_recorded_at_a_time(cuda: Runtime) -> None:
    x, outer, inner = gc.ones(3, device="cuda"), gc.cuda.CUDAGraph(), gc.cuda.CUDAGraph()
    side = gc.cuda.Stream()
    with gc.cuda.graph(inner):
        gc.ones(3, device="cuda")
    with gc.cuda.graph(outer):
        for each in (outer, gc.cuda.CUDAGraph()):
            with gc.cuda.stream(side), pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
                each.capture_begin()
        with pytest.raises(RuntimeError, match="Cannot prepare for replay during capturing"):
            inner.replay()
        y = x + 1
    outer.replay()
    assert y.tolist() == [2.0, 2.0, 2.0]


def test_what_is_reset_can_be_used_again(cuda: Runtime) -> None:
    x, g, side = gc.ones(3, device="cuda"), gc.cuda.CUDAGraph(), gc.cuda.Stream()
    with gc.cuda.stream(side):
        g.capture_begin()
        x.add_(1)
        g.reset()
        assert not gc.cuda.is_current_stream_capturing()
        with pytest.raises(RuntimeError, match="Capture must end on the same stream"):
            g.capture_end()
    assert x.tolist() == [1.0, 1.0, 1.0]
    for _ in range(2):
        with gc.cuda.graph(g):
            y = x + 1
        g.replay()
        assert y.tolist() == [2.0, 2.0, 2.0]
        g.reset()
        assert y.tolist() == [2.0, 2.0, 2.0]
        with pytest.raises(RuntimeError, match="CUDAGraph::replay without a preceding successful capture"):
            g.replay()


def test_graphs_are_recorded_in_one_stream(cuda: Runtime) -> None:
    """In which they can share memory, as pools keep that of streams apart."""
    streams = []
    for _ in range(2):
        with gc.cuda.graph(gc.cuda.CUDAGraph()):
            streams.append(gc.cuda.current_stream())
    with gc.cuda.device(1), gc.cuda.graph(gc.cuda.CUDAGraph()):
        assert gc.cuda.current_stream().device.index == 1
    assert streams[0] == streams[1] != gc.cuda.current_stream()


def test_recording_by_begin_and_end(cuda: Runtime) -> None:
    x, first, second = gc.ones(3, device="cuda"), gc.cuda.CUDAGraph(), gc.cuda.CUDAGraph()
    side = gc.cuda.Stream()
    with gc.cuda.stream(side):
        first.capture_begin()
        y = x + 1
        first.capture_end()
        second.capture_begin(pool=first.pool())
        z = y * 3
        second.capture_end()
    assert first.pool() is second.pool()
    first.replay()
    second.replay()
    assert z.tolist() == [6.0, 6.0, 6.0]
    with gc.cuda.stream(side), pytest.raises(RuntimeError, match="already owns a captured graph"):
        first.capture_begin()
    first.reset()
    with gc.cuda.stream(side):
        first.capture_begin(gc.cuda.graph_pool_handle(), "relaxed")
        first.capture_end()


def test_errors_of_recording(cuda: Runtime) -> None:
    g = gc.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="must be captured on a non-default stream"):
        g.capture_begin()
    with pytest.raises(RuntimeError, match="Expected `global`, `thread_local`, or `relaxed`, got strict"):
        g.capture_begin(capture_error_mode="strict")
    for mode in ("global", "thread_local"):  # taken as "relaxed"
        ones = gc.cuda.graph(lambda: gc.ones(1, device="cuda"), capture_error_mode=mode)()
        assert ones.shape == (1,)
    assert not gc.cuda.is_current_stream_capturing()
    with pytest.raises(RuntimeError, match="Capture must end on the same stream it began on"):
        g.capture_end()
    with gc.cuda.stream(gc.cuda.Stream()):
        g.capture_begin()
        with gc.cuda.stream(gc.cuda.Stream()), pytest.raises(RuntimeError, match="end on the same stream"):
            g.capture_end()
        g.capture_end()
    with pytest.raises(RuntimeError, match="unless CUDAGraph was initialized with keep_graph=true"):
        g.raw_cuda_graph()
    empty = gc.cuda.CUDAGraph(keep_graph=True)
    for call, message in (
        (empty.replay, "without a preceding successful capture"),
        (empty.pool, "without a preceding successful capture"),
        (empty.instantiate, r"capture_end\(\) must have been called before calling instantiate"),
        (empty.raw_cuda_graph, r"until capture_end\(\) has been called"),
        (empty.raw_cuda_graph_exec, r"until instantiate\(\) has been called"),
    ):
        with pytest.raises(RuntimeError, match=message):
            call()


def test_a_recording_that_fails_is_dropped(cuda: Runtime) -> None:
    g, x = gc.cuda.CUDAGraph(), gc.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match="cannot capture this function"), gc.cuda.graph(g):
        x.sum().item()
    assert gc.cuda.current_stream() == gc.cuda.default_stream()
    with pytest.raises(RuntimeError, match="without a preceding"):
        g.replay()
    for error in (KeyboardInterrupt, ValueError):
        with pytest.raises(error, match="mine"), gc.cuda.graph(g):
            raise error("mine")
    with gc.cuda.graph(g):
        y = x + 1
    g.replay()
    assert y.tolist() == [2.0, 2.0, 2.0]


# -- functions and modules --------------------------------------------------------------------------------------------


def layers(device: str) -> tuple[Any, Any]:
    gc.manual_seed(0)
    first = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.LayerNorm(8)).to(device)
    return first, nn.Linear(8, 3).to(device)


def trained(device: str, graphed: bool) -> list[Any]:
    """Parameters and losses of a program of which a module and a function may be graphs, and the rest is not."""
    first, last = layers(device)

    def scaled(x: Any, scale: Any) -> dict[str, Any]:
        return {"y": (x * scale).sin(), "scale": scale + 0}

    scale = gc.ones(8, device=device, requires_grad=True)
    body, between = first, scaled
    if graphed:
        sample = gc.zeros(5, 4, device=device), gc.zeros(5, 8, device=device, requires_grad=True)
        body, between = gc.cuda.make_graphed_callables(
            (first, scaled), ((sample[0],), (sample[1], gc.ones(8, device=device, requires_grad=True)))
        )
        assert body is first
    params = [*first.parameters(), *last.parameters(), scale]
    optimizer = gc.optim.SGD(params, lr=0.1, momentum=0.9)
    gc.manual_seed(1)
    losses = []
    for _ in range(4):
        x = gc.randn(5, 4).to(device)
        optimizer.zero_grad()
        out = between(body(x), scale)
        loss = last(out["y"] * out["scale"]).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().cpu())
    return [*losses, *(p.detach().cpu() for p in params)]


def test_graphed_parts_of_a_program(cuda: Runtime) -> None:
    LOG.clear()
    found = trained("cuda", graphed=True)
    assert len([entry for entry in LOG if entry[0] == "launch"]) == 4 * 4  # a forward and a backward for two parts
    for a, b in zip(found, trained("cpu", graphed=False), strict=True):
        assert gc.allclose(a, b, rtol=1e-4, atol=1e-5)


def test_a_graphed_step_never_waits(cuda: Runtime) -> None:
    body = gc.cuda.make_graphed_callables(layers("cuda")[0], (gc.zeros(5, 4, device="cuda"),))
    x = gc.ones(5, 4, device="cuda")
    with gc.cuda.sync_debug_mode("error"):
        body(x).sum().backward()


def test_a_module_in_another_mode_is_called_itself(cuda: Runtime) -> None:
    body = gc.cuda.make_graphed_callables(layers("cuda")[0], (gc.zeros(5, 4, device="cuda"),))
    body.eval()
    LOG.clear()
    assert body(gc.ones(2, 4, device="cuda")).shape == (2, 8)
    assert not LOG


def test_results_without_gradients(cuda: Runtime) -> None:
    double = gc.cuda.make_graphed_callables(lambda x: x * 2, (gc.zeros(3, device="cuda"),))
    assert double(gc.ones(3, device="cuda")).tolist() == [2.0, 2.0, 2.0]
    assert not double(gc.ones(3, device="cuda")).requires_grad


def test_inputs_that_are_not_used(cuda: Runtime) -> None:
    def first(x: Any, y: Any) -> Any:
        return x * 2

    samples = tuple(gc.zeros(3, device="cuda", requires_grad=True) for _ in range(2))
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        gc.cuda.make_graphed_callables(first, samples)
    graphed = gc.cuda.make_graphed_callables(first, samples, allow_unused_input=True)
    x, y = (gc.ones(3, device="cuda", requires_grad=True) for _ in range(2))
    graphed(x, y).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    assert y.grad is None


def test_second_derivatives_are_refused(cuda: Runtime) -> None:
    square = gc.cuda.make_graphed_callables(lambda x: x * x, (gc.zeros(3, device="cuda", requires_grad=True),))
    x = gc.ones(3, device="cuda", requires_grad=True)
    (slope,) = gc.autograd.grad((square(x) * x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


def test_what_cannot_be_graphed(cuda: Runtime) -> None:
    x = gc.zeros(5, 4, device="cuda")
    module = layers("cuda")[0]
    with pytest.raises(AssertionError, match="must contain only Tensors"):
        gc.cuda.make_graphed_callables(module, (x, 3))
    with gc.autocast("cuda"), pytest.raises(RuntimeError, match="does not support the autocast caching"):
        gc.cuda.make_graphed_callables(module, (x,))
    handle = module.register_forward_hook(lambda *args: None)
    with pytest.raises(AssertionError, match="must not have hooks registered"):
        gc.cuda.make_graphed_callables(module, (x,))
    handle.remove()
    module.register_buffer("scale", gc.ones(1, device="cuda", requires_grad=True))
    with pytest.raises(AssertionError, match="only parameters may be trainable"):
        gc.cuda.make_graphed_callables(module, (x,))
