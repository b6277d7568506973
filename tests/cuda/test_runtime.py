"""Streams, events, graphs, memory and what makes the host wait, on a runtime that notes what it is told."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends import registry, streams, sync_debug
from gradcore.backends.cupy.memory import allocator
from gradcore.backends.pinned import is_pinned
from gradcore.errors import OutOfMemoryError
from gradcore.tensor import legacy_types
from tests.cuda.fake_runtime import LOG, Runtime
from tests.cuda.host import needs_compiler
from tests.strict.blas import CALLS, FakeBindings

# -- streams ----------------------------------------------------------------------------------------------------------


def test_work_is_queued_in_the_chosen_stream(cuda: Runtime) -> None:
    side = gc.cuda.Stream()
    assert gc.cuda.current_stream() == gc.cuda.default_stream() != side
    with gc.cuda.stream(side):
        assert gc.cuda.current_stream() == side
        with gc.cuda.stream(None):
            assert gc.cuda.current_stream() == side
    assert gc.cuda.current_stream() == gc.cuda.default_stream()
    with side as entered, side:
        assert entered is side
        assert gc.cuda.current_stream() == side
    assert gc.cuda.current_stream() == gc.cuda.default_stream()


def test_waiting_for_streams_and_events(cuda: Runtime) -> None:
    a, b = gc.cuda.Stream(), gc.cuda.Stream()
    b.wait_stream(a)
    assert LOG[-1] == ("wait", b.cuda_stream, a.cuda_stream)
    event = a.record_event()
    assert event.query()
    event.wait(b)
    assert LOG[-1] == ("wait", b.cuda_stream, a.cuda_stream)
    event.synchronize()
    a.synchronize()
    assert LOG[-2:] == [("synchronize", "event"), ("synchronize", a.cuda_stream)]
    first, last = (a.record_event(gc.cuda.Event(enable_timing=True)) for _ in range(2))
    assert first.elapsed_time(last) == 2.5


def test_streams_are_equal_by_handle(cuda: Runtime) -> None:
    side = gc.cuda.Stream()
    other = gc.cuda.ExternalStream(side.cuda_stream)
    assert side == other
    assert hash(side) == hash(other)
    assert side != "cuda:0"
    assert repr(side) == f"<gradcore.cuda.Stream device=cuda:0 cuda_stream={side.cuda_stream:#x}>"


def test_set_stream(cuda: Runtime) -> None:
    side = gc.cuda.Stream()
    gc.cuda.set_stream(None)
    gc.cuda.set_stream(side)
    assert gc.cuda.current_stream() == side


def test_backward_runs_in_the_stream_of_forward(cuda: Runtime) -> None:
    """A node made in another stream waits for the gradient, and the present stream for the node."""
    x = gc.ones(3, device="cuda", requires_grad=True)
    side = gc.cuda.Stream()
    seen = []
    y = x * 2
    with gc.cuda.stream(side):
        z = y * 3
        z.grad_fn.register_prehook(lambda g: seen.append(gc.cuda.current_stream()))
    y.grad_fn.register_prehook(lambda g: seen.append(gc.cuda.current_stream()))
    LOG.clear()
    z.sum().backward()
    assert seen == [side, gc.cuda.default_stream()]
    waits = [entry for entry in LOG if entry[0] == "wait"]
    assert waits[:2] == [("wait", side.cuda_stream, 0), ("wait", 0, side.cuda_stream)]
    assert x.grad.tolist() == [6.0, 6.0, 6.0]


def test_streams_cost_backward_nothing_until_one_is_chosen(cuda: Runtime) -> None:
    x = gc.ones(3, device="cuda", requires_grad=True)
    (x * 2).sum().backward()
    assert not LOG
    assert not streams.STREAMS.used


def test_streams_need_cuda() -> None:
    if gc.cuda.is_available():
        pytest.skip("there is CUDA")
    for make in (gc.cuda.Stream, gc.cuda.current_stream, gc.cuda.memory_allocated, gc.cuda.mem_get_info):
        with pytest.raises(RuntimeError, match="Device type 'cuda' cannot be used"):
            make()


# -- graphs -----------------------------------------------------------------------------------------------------------


def test_a_captured_function(cuda: Runtime) -> None:
    calls = []

    def f(x: Any, scale: float) -> Any:
        calls.append(1)
        return {"y": x * scale}

    step = gc.cuda.graph(f, warmup=2)
    out = step(gc.ones(3, device="cuda"), 2.0)
    assert len(calls) == 3
    assert out["y"].tolist() == [2.0, 2.0, 2.0]
    assert step(gc.ones(3, device="cuda"), 2.0) is out
    assert len(calls) == 3
    assert [e for e in LOG if e[0] == "launch"] == [("launch", 0)] * 2
    with pytest.raises(RuntimeError, match="another shape or dtype"):
        step(gc.ones(4, device="cuda"), 2.0)
    with pytest.raises(RuntimeError, match=r"called with 3.0 instead of 2.0"):
        step(gc.ones(3, device="cuda"), 3.0)
    with pytest.raises(RuntimeError, match="arguments of another structure"):
        step(gc.ones(3, device="cuda"))


def _graph_of_products() -> tuple[Any, Any, Any]:
    """Return the result, the input and the weight of a captured layer."""
    weight, bias = gc.full((3, 5), 0.5, device="cuda"), gc.ones(3, device="cuda")
    x = gc.arange(10.0).reshape(2, 5).to("cuda")
    return gc.cuda.graph(lambda x: gc.nn.functional.linear(x, weight, bias).relu(), warmup=1)(x), x, weight


def test_products_are_captured_by_the_own_kernel(cuda: Runtime) -> None:
    """The own kernel serves where cuBLAS is not found, as CuPy refuses to call it then."""
    needs_compiler()
    CALLS.clear()
    y, x, weight = _graph_of_products()
    assert CALLS["gemmEx"] == 1  # before
    np.testing.assert_allclose(y.cpu().numpy(), (x.cpu().numpy() @ weight.cpu().numpy().T + 1).clip(0))


def test_products_are_captured_by_cublas(cuda: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a handle of its own, whose workspace is set after its stream, which would forget it."""
    bindings = FakeBindings()
    backend = gc.zeros(1, device="cuda").device.backend
    monkeypatch.setattr(type(backend), "cublas_library", bindings)
    monkeypatch.setattr(type(backend), "_is_for_epilogue", lambda self, a, b: False)
    CALLS.clear()
    y, x, weight = _graph_of_products()
    assert bindings.streams == [3]  # after that of the first runs

    assert CALLS["gemmEx"] == 1
    assert CALLS["gemm_ex"] == 1
    np.testing.assert_allclose(y.cpu().numpy(), (x.cpu().numpy() @ weight.cpu().numpy().T + 1).clip(0))


def test_what_cannot_be_captured(cuda: Runtime) -> None:
    captured = gc.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        captured.replay()
    with (
        gc.cuda.sync_debug_mode("error"),
        pytest.raises(RuntimeError, match=r"cannot capture this function: called a synchronizing CUDA operation"),
    ):
        captured.capture(lambda: gc.ones(3, device="cuda").sum().item())
    assert gc.cuda.current_stream() == gc.cuda.default_stream()
    captured.capture(lambda: None)
    captured.replay()
    captured.reset()
    with pytest.raises(RuntimeError, match="without a preceding"):
        captured.replay()


# -- what makes the host wait -----------------------------------------------------------------------------------------

WAITS = {
    "item": (lambda x: x.sum().item(), {"to host": 1}),
    "bool": (lambda x: bool((x > 0).all()), {"to host": 1}),
    "numpy": (lambda x: x.cpu().numpy(), {"to host": 1}),
    "print": (lambda x: repr(x), {"to host": 1}),
    "nonzero": (lambda x: x.nonzero(), {"wait": 1}),
    "mask": (lambda x: x[x > 0], {"wait": 1}),
    "unique": (lambda x: x.unique(), {"wait": 1}),
    "to the device": (lambda x: gc.ones(2).to("cuda"), {"to device": 1}),
    "synchronize": (lambda x: gc.cuda.synchronize(), {}),
}


@pytest.mark.parametrize("name", [n for n in WAITS if n != "synchronize"])
def test_waiting_is_counted_reported_and_refused(cuda: Runtime, name: str) -> None:
    call, expected = WAITS[name]
    x = gc.ones(4, device="cuda")
    with gc.cuda.transfers() as counts:
        call(x)
    assert counts == expected
    with gc.cuda.sync_debug_mode("warn"), pytest.warns(UserWarning, match="synchronizing CUDA operation") as caught:
        call(x)
    assert caught[0].filename == __file__
    assert __file__ in str(caught[0].message)
    with gc.cuda.sync_debug_mode("error"), pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
        call(x)


def test_a_training_step_never_waits(cuda: Runtime) -> None:
    gc.manual_seed(0)
    model = gc.nn.Sequential(gc.nn.Linear(4, 8), gc.nn.Tanh(), gc.nn.Linear(8, 3)).to("cuda")
    optimizer = gc.optim.Adam(model.parameters())
    inputs, targets = gc.randn(5, 4).to("cuda"), gc.tensor([0, 1, 2, 1, 0]).to("cuda")

    def step() -> Any:
        optimizer.zero_grad()
        loss = gc.nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss

    step()
    with gc.cuda.sync_debug_mode("error"), gc.cuda.transfers() as counts:
        for _ in range(3):
            step()
    assert counts.total() == 0


def test_modes() -> None:
    for number, name in enumerate(("default", "warn", "error")):
        with gc.cuda.sync_debug_mode(number):
            assert sync_debug.mode() == name
            assert gc.cuda.get_sync_debug_mode() == number
    assert gc.cuda.get_sync_debug_mode() == 0
    with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
        gc.cuda.set_sync_debug_mode("loud")


# -- memory -----------------------------------------------------------------------------------------------------------


def test_numbers_of_the_pool(cuda: Runtime) -> None:
    assert (gc.cuda.memory_allocated(), gc.cuda.memory_reserved()) == (1024, 4096)
    assert gc.cuda.mem_get_info() == (3 << 30, 80 << 30)
    assert gc.cuda.max_memory_allocated() == 4096
    gc.cuda.reset_peak_memory_stats()
    assert gc.cuda.max_memory_allocated() == 1024
    cuda.used = 3000
    allocate = allocator(registry.find("cuda"), cuda.pool.malloc)
    thread = threading.Thread(target=allocate, args=(0,))  # the peak is that of all threads
    thread.start()
    thread.join()
    cuda.used = 2000
    assert gc.cuda.max_memory_allocated() == 3000
    assert gc.cuda.memory_stats()["allocated_bytes.all.peak"] == 3000
    gc.cuda.empty_cache()
    assert LOG == ["freed"] * 3  # on both devices, and of the host
    gc.cuda.set_per_process_memory_fraction(0.5)
    assert cuda.pool.get_limit() == 40 << 30
    with pytest.raises(ValueError, match="Allowed range: 0~1"):
        gc.cuda.set_per_process_memory_fraction(2)


def test_summary_names_tensors(cuda: Runtime) -> None:
    held = [gc.zeros(5, 7, device="cuda") for _ in range(3)]
    text = gc.cuda.memory_summary()
    assert "memory of cuda:0: 1,024 bytes in use, 4,096 reserved" in text
    assert "     3 x             140 bytes  float32 [5, 7]" in text
    del held


def test_out_of_memory_says_what_was_asked_for(cuda: Runtime) -> None:
    allocate = allocator(registry.find("cuda"), cuda.pool.malloc)
    assert allocate(10) == 10
    cuda.full = True
    with pytest.raises(OutOfMemoryError, match=r"Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 80.00 GiB"):
        allocate(3 << 30)
    assert gc.cuda.OutOfMemoryError is OutOfMemoryError
    cuda.full = False
    assert allocate(10) == 10


def test_pinned_memory_needs_cuda() -> None:
    assert not gc.ones(2).is_pinned()
    if not gc.cuda.is_available():
        with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
            gc.ones(2).pin_memory()


def test_copies_from_pinned_memory_are_not_waited_for(cuda: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legacy_types, "empty_pinned", _pinned)
    t = gc.arange(3.0).pin_memory()
    assert t.is_pinned()
    assert t.pin_memory() is t
    assert t[1:].is_pinned()
    backend = registry.find("cuda")
    sources = []
    monkeypatch.setattr(backend, "from_pinned", lambda a: sources.append(a) or backend.xp.asarray(a), raising=False)
    with gc.cuda.transfers() as counts:
        assert t.to("cuda", non_blocking=True).device == "cuda:0"
    assert len(sources) == 1
    assert not counts
    t.to("cuda")
    gc.ones(2).to("cuda", non_blocking=True)
    assert len(sources) == 1


class PinnedMemoryPointer(bytearray):
    """As CuPy's, which NumPy arrays keep as their base."""


def _pinned(shape: Any, dtype: Any) -> Any:
    import numpy as np

    return np.frombuffer(PinnedMemoryPointer(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)


def test_pinned_memory_is_recognised() -> None:
    import numpy as np

    array = _pinned((2, 3), np.dtype("float32"))
    assert is_pinned(array[1:, ::2])
    assert not is_pinned(np.ones((2, 3)))


# -- several devices --------------------------------------------------------------------------------------------------


def test_replicas_on_two_devices_give_the_gradients_of_one(cuda: Runtime) -> None:
    """Every replica runs on its own device; gradients are summed there and moved once for each parameter."""
    gc.manual_seed(0)
    model = gc.nn.Sequential(gc.nn.Linear(4, 8), gc.nn.Tanh(), gc.nn.Linear(8, 3)).to("cuda:0")
    inputs, targets = gc.randn(6, 4).to("cuda:0"), gc.tensor([0, 1, 2, 1, 0, 2]).to("cuda:0")
    loss = gc.nn.functional.cross_entropy(model(inputs), targets, reduction="sum")
    expected = gc.autograd.grad(loss, list(model.parameters()))

    parameters = dict(model.named_parameters())
    parts = []
    for i in range(2):
        place = f"cuda:{i}"
        replica = {name: p.to(place) for name, p in parameters.items()}
        rows = slice(3 * i, 3 * i + 3)
        with gc.cuda.device(1 - i):  # whichever device is current
            out = gc.func.functional_call(model, replica, (inputs[rows].to(place),))
            assert out.device == place
            parts.append(gc.nn.functional.cross_entropy(out, targets[rows].to(place), reduction="sum"))
    (parts[0] + parts[1].to("cuda:0")).backward()
    for p, g in zip(model.parameters(), expected, strict=True):
        assert p.grad.device == "cuda:0"
        assert gc.allclose(p.grad, g, atol=1e-6)
