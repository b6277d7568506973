"""Programs on several streams and devices, in which whatever must happen before something else is made to do so.

An `Order` watches: a test fails if an access to memory is not ordered, or if memory may be used again too soon.
"""

from __future__ import annotations

import gc as collector
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore import nn
from gradcore.backends import registry, streams
from gradcore.backends.cupy.memory import allocator
from gradcore.backends.streams import Streams
from gradcore.tensor import legacy_types
from tests.cuda.fake_runtime import LOG, OutOfMemory, Runtime
from tests.cuda.host import needs_compiler
from tests.cuda.ordering import Order
from tests.cuda.test_runtime import _pinned

current = gc.cuda.current_stream


def vector(device: str = "cuda", **named: Any) -> Any:
    return gc.full((3,), 2.0, device=device, **named)


# -- what is watched ---------------------------------------------------------------------------------------------------


def test_a_missing_wait_is_seen(order: Order) -> None:
    x, side = vector(), gc.cuda.Stream()
    with gc.cuda.stream(side):
        x * 2
    assert "reads float32[3], written by stream 0 of device 0" in order.violations.pop()
    side.wait_stream(current())
    with gc.cuda.stream(side):
        x * 2
    assert not order.violations
    x.fill_(1)
    assert "writes to float32[3], read by stream 2 of device 0" in order.violations.pop()


def test_memory_that_is_used_again_too_soon_is_seen(order: Order) -> None:
    x, side = vector(), gc.cuda.Stream()
    side.wait_stream(current())
    with gc.cuda.stream(side):
        y = x * 2
    del x
    vector()
    assert "memory that stream 0 of device 0 has freed" in order.violations.pop()
    del y


@pytest.mark.parametrize("forgotten", ["to wait", "to come back"])
def test_recordings_of_streams_that_are_not_joined_are_seen(order: Order, forgotten: str) -> None:
    side, x = gc.cuda.Stream(), vector()
    with gc.cuda.graph(gc.cuda.CUDAGraph()):
        if forgotten == "to come back":
            side.wait_stream(current())
        with gc.cuda.stream(side):
            x * 2
    wanted = {"to wait": "work is queued in stream 2", "to come back": "stream 2 of device 0 was not joined"}
    assert any(wanted[forgotten] in text for text in order.violations)
    order.violations.clear()


# -- backward ----------------------------------------------------------------------------------------------------------


def loss_in(side: Any, x: Any) -> Any:
    """Compute a loss in another stream."""
    y = x * 2
    side.wait_stream(current())
    with gc.cuda.stream(side):
        return (y.sin() * y).sum()


def test_forward_in_two_streams(order: Order) -> None:
    side, x = gc.cuda.Stream(), vector(requires_grad=True)
    loss = loss_in(side, x)
    current().wait_stream(side)
    loss.backward()
    x.grad * 2


def test_backward_from_a_third_stream(order: Order) -> None:
    side, third, x = gc.cuda.Stream(), gc.cuda.Stream(), vector(requires_grad=True)
    loss = loss_in(side, x)
    third.wait_stream(side)
    with gc.cuda.stream(third):
        loss.backward()
        x.grad * 2


@pytest.mark.parametrize("accumulated", [False, True])
def test_memory_of_gradients_after_backward(order: Order, accumulated: bool) -> None:
    """What the side stream made, and the present one used, is not used again by the side stream."""
    side, x = gc.cuda.Stream(), vector(requires_grad=True)
    for _ in range(1 + accumulated):
        loss = loss_in(side, x)
        current().wait_stream(side)
        loss.backward()
    x.grad * 2
    x.grad = None
    del loss
    with gc.cuda.stream(side):
        vector() * 2


def test_second_derivatives_and_batches(order: Order) -> None:
    side, x = gc.cuda.Stream(), vector(requires_grad=True)
    loss = loss_in(side, x)
    current().wait_stream(side)
    (slope,) = gc.autograd.grad(loss, x, create_graph=True)
    slope.sum().backward()
    y = vector(requires_grad=True)
    side.wait_stream(current())
    with gc.cuda.stream(side):
        z = y.exp()
    current().wait_stream(side)
    (rows,) = gc.autograd.grad(z, y, gc.eye(3, device="cuda"), is_grads_batched=True)
    del slope, loss
    assert gc.allclose(rows.cpu(), gc.full((3,), 2.0).exp().diag())


def test_nodes_of_other_threads(order: Order) -> None:
    """Each thread has its streams; backward of all is called from one."""
    x, parent, made = vector(requires_grad=True), order.host(), {}
    begin = threading.Barrier(2)

    def work(i: int) -> None:
        order.started(parent)
        side = gc.cuda.Stream()
        side.wait_stream(gc.cuda.default_stream())
        with gc.cuda.stream(side):
            begin.wait()
            made[i] = (x * (i + 1)).square().sum()
            begin.wait()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
        order.started(("host", thread.ident))
    for i in range(2):
        made[i].backward()
    assert x.grad.tolist() == [20.0] * 3


def test_choices_of_streams_are_forgotten_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_MOST_CHOICES", 8)
    monkeypatch.setattr(streams, "_FEW_CHOICES", 8)
    kept = Streams()
    ticks = iter(range(100))
    kept.clock = lambda: next(ticks)
    for stream in range(20):
        kept.choose(stream, device=0)
    assert kept.at(19, 0) == [19]
    assert kept.at(15, 0) == [15]
    assert kept.at(3, 0) == kept.at(50, 1) == []


# -- several devices ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", [(), (0,), (1,), (0, 1)])
@pytest.mark.parametrize("device", [0, 1])
def test_copies_between_devices(order: Order, chosen: tuple[int, ...], device: int) -> None:
    """Whichever streams are chosen, and whichever device is current."""
    first, second = (gc.cuda.Stream(i) if i in chosen else None for i in range(2))
    with gc.cuda.stream(first), gc.cuda.stream(second), gc.cuda.device(device):
        x = vector("cuda:0", requires_grad=True)
        y = (x * 2).to("cuda:1")
        (y * y).sum().backward()
        assert x.grad.device == "cuda:0"
        x.grad * 1
        vector("cuda:0") * vector("cuda:0")


def test_a_stream_of_another_device(order: Order) -> None:
    """It is not that of nodes which were made on the first device meanwhile."""
    x = vector("cuda:0", requires_grad=True)
    with gc.cuda.stream(gc.cuda.Stream("cuda:1")):
        loss = (x * x).sum()
    loss.backward()
    assert x.grad.tolist() == [4.0] * 3


def test_events_and_default_streams_of_another_device(order: Order) -> None:
    side, default = gc.cuda.Stream("cuda:1"), gc.cuda.default_stream("cuda:1")
    with gc.cuda.stream(side):
        x = vector("cuda:1")
    default.wait_stream(side)  # while the first device is current
    with gc.cuda.stream(default):
        y = x * 2
    side.wait_event(default.record_event())
    with gc.cuda.stream(side):
        y * 2
    default.synchronize()
    event = gc.cuda.Event()
    assert event.query()
    event.wait(side)
    event.synchronize()
    with pytest.raises(ValueError, match="must be recorded before calculating elapsed time"):
        event.elapsed_time(gc.cuda.Event())
    event.record(side)
    with pytest.raises(RuntimeError, match="Event device cuda:1 does not match recording stream's device cuda:0"):
        event.record(current(0))


def test_data_parallel_in_side_streams(order: Order) -> None:
    model = nn.DataParallel(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).to("cuda:0"))
    optimizer = gc.optim.SGD(model.parameters(), lr=0.1)
    for first, second in ((None, None), (0, None), (None, 1), (0, 1)):
        chosen = [None if i is None else gc.cuda.Stream(i) for i in (first, second)]
        for side in chosen:
            if side is not None:
                side.wait_stream(gc.cuda.default_stream(side.device))
        with gc.cuda.stream(chosen[1]), gc.cuda.stream(chosen[0]), gc.cuda.device(0):
            for _ in range(2):
                optimizer.zero_grad()
                model(gc.randn(5, 4).to("cuda:0")).square().sum().backward()
                optimizer.step()
            if chosen[0] is not None:
                gc.cuda.default_stream(0).wait_stream(chosen[0])


# -- memory ------------------------------------------------------------------------------------------------------------


def test_record_stream_keeps_memory(order: Order) -> None:
    x, side = vector(), gc.cuda.Stream()
    part = x[1:]
    side.wait_stream(current())
    part.record_stream(side)
    part.record_stream(side)
    del x
    with gc.cuda.stream(side):
        y = part * 2
    del part
    waiting = registry.find("cuda").lifetimes.waiting
    assert len(waiting) == 1
    vector()
    side.synchronize()
    registry.find("cuda").lifetimes.release()
    assert not registry.find("cuda").lifetimes.waiting
    with pytest.raises(NotImplementedError, match="for CUDA tensors only"):
        gc.ones(2).record_stream(side)
    del y


def test_memory_that_is_waited_for_when_there_is_no_other(cuda: Runtime, order: Order) -> None:
    backend, side = registry.find("cuda"), gc.cuda.Stream()
    asked: list[int] = []

    def malloc(size: int) -> int:
        asked.append(len(backend.lifetimes.waiting))
        if backend.lifetimes.waiting:
            raise OutOfMemory
        return size

    x = vector()
    x.record_stream(side)
    del x
    assert allocator(backend, malloc)(8) == 8
    assert asked == [1, 0]


def test_a_batch_is_fetched_in_another_stream(order: Order) -> None:
    side, weight = gc.cuda.Stream(), vector(requires_grad=True)
    for i in range(3):
        with gc.cuda.stream(side):
            batch = gc.full((3,), float(i)).to("cuda", non_blocking=True)
        current().wait_stream(side)
        batch.record_stream(current())
        (weight * batch).sum().backward()
        del batch


@pytest.fixture
def pinned(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(shape: Any, dtype: Any) -> Any:
        array = _pinned(shape, dtype)
        order.host_made(array)
        return array

    monkeypatch.setattr(legacy_types, "empty_pinned", made)


def test_pinned_memory_that_is_dropped_at_once(order: Order, pinned: None) -> None:
    for i in range(4):
        batch = gc.full((3,), float(i)).pin_memory().to("cuda", non_blocking=True)
        batch * 2
    assert len(registry.find("cuda")._pending_copies) == 4
    current().synchronize()
    gc.ones(3).pin_memory().to("cuda", non_blocking=True)
    assert len(registry.find("cuda")._pending_copies) == 1
    assert batch.tolist() == [3.0] * 3


def test_pinned_memory_that_is_copied_into_a_tensor(order: Order, pinned: None) -> None:
    """The host does not wait, and the memory is kept."""
    there = vector()
    with gc.cuda.sync_debug_mode("error"):
        for i in range(3):
            there.copy_(gc.full((3,), float(i), dtype=gc.float64).pin_memory(), non_blocking=True)
    assert len(registry.find("cuda")._pending_copies) == 3
    assert there.tolist() == [2.0] * 3


def test_pinned_memory_that_is_written_too_soon(order: Order, pinned: None) -> None:
    """As in PyTorch, that is for the program to see to: by an event, for example."""
    host = gc.ones(3).pin_memory()
    host.to("cuda", non_blocking=True)
    order.host_writes(host._array)
    assert "writes to page-locked memory, read by stream 0" in order.violations.pop()
    host.to("cuda", non_blocking=True)
    current().record_event().synchronize()
    order.host_writes(host._array)


def test_pinned_memory_from_several_threads(cuda: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legacy_types, "empty_pinned", _pinned)
    monkeypatch.setattr("tests.cuda.fake_runtime.FakeEvent.done", False)
    backend = registry.find("cuda")

    def work() -> None:
        for _ in range(50):
            gc.ones(3).pin_memory().to("cuda", non_blocking=True)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(backend._pending_copies) == 200


def test_checks_of_indices_in_two_streams(order: Order) -> None:
    def pick() -> Any:
        return vector()[gc.tensor([0, 2], device="cuda")]

    with gc.cuda.stream(gc.cuda.Stream()):
        pick()
    pick()


# -- training, graphs --------------------------------------------------------------------------------------------------


class Training:
    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3)).to("cuda")
        self.optimizer = gc.optim.AdamW(self.model.parameters(), fused=True, capturable=True)
        self.scaler = gc.amp.GradScaler("cuda")

    def step(self, x: Any) -> Any:
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        gc.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()


def batches() -> list[Any]:
    return [gc.randn(5, 4) for _ in range(3)]


def test_steps_of_training(order: Order) -> None:
    training, side = Training(), gc.cuda.Stream()
    for x in batches():
        training.step(x.to("cuda"))
        side.wait_stream(current())
        with gc.cuda.stream(side):
            training.step(x.to("cuda")).item()
        current().wait_stream(side)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("eager", [False, True])
def test_a_captured_step(order: Order, eager: bool) -> None:
    training, side = Training(), gc.cuda.Stream()
    captured = gc.cuda.graph(training.step)
    for x in batches():
        captured(x.to("cuda"))
        if eager:
            training.step(x.to("cuda"))
    side.wait_stream(current())
    with gc.cuda.stream(side):
        captured(x.to("cuda")).item()


def test_a_captured_step_in_two_streams(order: Order) -> None:
    side, x, g = gc.cuda.Stream(), vector(requires_grad=True), gc.cuda.CUDAGraph()
    with gc.cuda.graph(g):
        main, y = current(), x * 2
        side.wait_stream(main)
        with gc.cuda.stream(side):
            z = y.sin()
        main.wait_stream(side)
        (z * y).sum().backward()
    g.replay()
    expected = gc.full((3,), 2.0, requires_grad=True)
    ((expected * 2).sin() * expected * 2).sum().backward()
    assert gc.allclose(x.grad.cpu(), expected.grad)


def test_backward_is_captured_after_forward_has_run(order: Order) -> None:
    with gc.cuda.stream(gc.cuda.Stream()):
        pass  # so that streams are looked at
    x, g = vector(requires_grad=True), gc.cuda.CUDAGraph()
    loss = (x * x).sum()
    with gc.cuda.graph(g):
        (slope,) = gc.autograd.grad(loss, x)
    g.replay()
    assert slope.tolist() == [4.0] * 3


def test_graphed_parts(order: Order) -> None:
    body = nn.Sequential(nn.Linear(4, 8), nn.Tanh()).to("cuda")
    body = gc.cuda.make_graphed_callables(body, (gc.zeros(5, 4, device="cuda"),))
    weight = gc.ones(8, device="cuda", requires_grad=True)
    for x in batches():
        (body(x.to("cuda")) * weight).sum().backward()


def test_captured_products_in_two_streams(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each goes to its own stream, with a workspace of its own."""
    needs_compiler()
    from tests.strict.blas import FakeBindings

    side = gc.cuda.Stream()
    monkeypatch.setattr(type(gc.zeros(1, device="cuda").device.backend), "cublas_library", FakeBindings())
    used = []
    plain = FakeBindings.gemm_ex

    def multiply(self: Any, *args: Any) -> None:
        used.append((current().cuda_stream, self.streams[-1], self.workspace))
        plain(self, *args)

    monkeypatch.setattr(FakeBindings, "gemm_ex", multiply)
    a, g = gc.ones(4, 4, device="cuda"), gc.cuda.CUDAGraph()
    with gc.cuda.graph(g):
        main = current()
        b = a @ a
        side.wait_stream(main)
        with gc.cuda.stream(side):
            c = a @ a
        d = b @ a
        main.wait_stream(side)
        e = c @ d
    g.replay()
    assert e.sum().item() == 4.0**2 * 4**4
    assert [here for here, _, _ in used] == [there for _, there, _ in used]
    assert len({workspace for _, _, workspace in used}) == 2


# -- drawn programs ----------------------------------------------------------------------------------------------------


OPS: dict[str, Callable[..., Any]] = {
    "mul": lambda a, b: a * b,
    "sin": lambda a, b: a.sin() + b,
    "sum": lambda a, b: a.sum() * b,
    "flip": lambda a, b: a.flip(0) - b[:1],
    "inplace": lambda a, b: (a * 0.5).add_(b),
}


class Drawn:
    """A program on streams of two devices that waits, and keeps memory, as it must; and the same without them."""

    def __init__(self, seed: int, on_devices: bool) -> None:
        self.draw, self.on_devices = random.Random(seed), on_devices
        self.streams = [[None], [None]]
        if on_devices:
            self.streams = [[gc.cuda.default_stream(i), gc.cuda.Stream(i), gc.cuda.Stream(i)] for i in range(2)]

    def run(self) -> list[Any]:
        start = [gc.linspace(0.1 * (i + 1), 1.0, 3) for i in range(2)]
        leaves = [(t.to(f"cuda:{i}") if self.on_devices else t).requires_grad_() for i, t in enumerate(start)]
        known = [(t, 0) for t in leaves]  # with the number of the stream in which it was made
        for _ in range(8):
            op, device, number = self.draw.choice(list(OPS)), self.draw.randrange(2), self.draw.randrange(3)
            operands = [self.draw.choice(known) for _ in range(2)]
            known.append((self.apply(OPS[op], device, number, operands), number))
            if len(known) > 5 and self.draw.random() < 0.5:
                del known[self.draw.randrange(2, len(known))]
            del operands
        caller = self.draw.randrange(3)
        known = [*known[-2:], *((t, 0) for t in leaves)]
        total = self.apply(lambda *tensors: sum(t.sum() for t in tensors), 0, caller, known)
        del known
        if not self.on_devices:
            total.backward()
            return [t.grad for t in leaves]
        with gc.cuda.stream(self.streams[1][0]), gc.cuda.stream(self.streams[0][caller]), gc.cuda.device(0):
            total.backward()
            del total
            found = [t.grad * 1 for t in leaves]
            for t in leaves:
                t.grad = None
        for each in self.streams[0] + self.streams[1]:  # memory is handed out again
            with gc.cuda.stream(each):
                gc.ones(3, device=each.device)
        return found

    def apply(self, op: Any, device: int, number: int, operands: Any) -> Any:
        if not self.on_devices:
            return op(*(t for t, _ in operands))
        stream, moved = self.streams[device][number], []
        for t, made_in in operands:
            source = self.streams[t.device.index][made_in]
            stream.wait_stream(source)
            if t.device.index == device:
                t.record_stream(stream)
            with gc.cuda.stream(source), gc.cuda.stream(stream):
                moved.append(t.to(f"cuda:{device}"))
        with gc.cuda.stream(stream):
            return op(*moved)


@pytest.mark.parametrize("seed", range(40))
def test_drawn_programs(order: Order, seed: int) -> None:
    found, expected = Drawn(seed, True).run(), Drawn(seed, False).run()
    collector.collect()
    gc.cuda.synchronize(0)
    gc.cuda.synchronize(1)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.cpu().numpy(), b.numpy(), rtol=1e-5)
    assert len([entry for entry in LOG if entry[0] == "wait"]) > 10
