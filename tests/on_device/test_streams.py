"""Streams, copies and memory of a device: nothing is read before it is there, or overwritten before it is read.

With ``CUPY_HOST_LATE=1`` the rig does work as late as the program lets it.
"""

from __future__ import annotations

import gc as garbage
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc


@pytest.mark.parametrize("non_blocking", [False, True])
def test_page_locked_memory_may_be_written_to_after_a_blocking_copy(non_blocking: bool) -> None:
    source = gc.ones(1 << 16, device="cpu").pin_memory()
    x = source.to("cuda", non_blocking=non_blocking)
    if non_blocking:
        gc.cuda.current_stream().synchronize()
    source.zero_()
    assert x.sum().item() == 1 << 16


PARTS: dict[str, Callable[[Any], Any]] = {
    "columns": lambda x: x[:, 1:3],
    "steps": lambda x: x[::2, ::2],
    "transposed": lambda x: x.T,
    "expanded": lambda x: x[:1].expand(4, 5),
    "strided": lambda x: x.as_strided((3, 2), (5, 2), 1),
    "one number": lambda x: x[2, 3],
    "nothing": lambda x: x[:0],
}


@pytest.mark.parametrize("side", [False, True], ids=["default", "side"])
@pytest.mark.parametrize("part", PARTS)
def test_parts_of_tensors_between_devices(part: str, side: bool) -> None:
    if gc.cuda.device_count() < 2:
        pytest.skip("one device")
    whole = gc.arange(20.0, device="cuda:0", requires_grad=True)
    with gc.cuda.stream(gc.cuda.Stream("cuda:1") if side else None):
        there = PARTS[part]((whole * 1).view(4, 5)).to("cuda:1")
        there.square().sum().backward()
    x = gc.arange(20.0, device="cpu", requires_grad=True)
    here = PARTS[part](x.view(4, 5))
    here.square().sum().backward()
    np.testing.assert_array_equal(there.detach().numpy(), here.detach().numpy())
    np.testing.assert_array_equal(whole.grad.numpy(), x.grad.numpy())


TRANSFORMS: dict[str, Callable[[], Any]] = {
    "vmap of grad": lambda: gc.func.vmap(gc.func.grad(lambda x: (x**3).sum()))(gc.ones(2, 3)),
    "hessian": lambda: gc.func.hessian(lambda x: (x**3).sum())(gc.ones(3)),
    "jacobian": lambda: gc.func.jacrev(lambda x: x.exp() * x.sum())(gc.ones(3)),
    "tangents of gradients": lambda: gc.func.jvp(gc.func.grad(lambda x: (x**3).sum()), (gc.ones(3),), (gc.ones(3),))[1],
    "jacobian, several rows at once": lambda: gc.autograd.functional.jacobian(
        lambda x: x**2, gc.ones(3), vectorize=True
    ),
    "gradients of several": lambda: gc.autograd.grad(
        (leaf := gc.ones(3, requires_grad=True)) ** 2, leaf, gc.eye(3), is_grads_batched=True
    )[0],
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_once_a_stream_was_chosen(name: str) -> None:
    before = TRANSFORMS[name]()
    with gc.cuda.stream(gc.cuda.Stream()):
        inside = TRANSFORMS[name]()
    gc.cuda.synchronize()
    after = TRANSFORMS[name]()
    for found in (inside, after):
        np.testing.assert_array_equal(found.detach().numpy(), before.detach().numpy())


def test_backward_of_work_in_several_streams() -> None:
    first, second = gc.cuda.Stream(), gc.cuda.Stream()
    x = gc.linspace(0, 1, 1 << 12, requires_grad=True)
    for stream in (first, second):
        stream.wait_stream(gc.cuda.current_stream())
    with gc.cuda.stream(first):
        a = (x * 2).exp()
    second.wait_stream(first)
    with gc.cuda.stream(second):
        b = a.square() + x
        a.record_stream(second)
    gc.cuda.current_stream().wait_stream(second)
    b.sum().backward()
    t = gc.linspace(0, 1, 1 << 12, device="cpu", requires_grad=True)
    ((t * 2).exp().square() + t).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(), rtol=1e-4)


@pytest.mark.parametrize("wait", ["stream", "device"])
def test_a_bad_index_of_a_stream_is_told_after_another_stream_was_read(wait: str) -> None:
    x, y, index = gc.arange(3.0), gc.ones(2), gc.tensor([9])
    gc.cuda.synchronize()
    side = gc.cuda.Stream()
    with gc.cuda.stream(side):
        found = x[index]
    try:
        assert y.sum().item() == 2  # the check may have been made, or not
        side.synchronize()
        with pytest.raises(IndexError, match="index 9 is out of bounds for dimension 0 with size 3"):
            gc.cuda.synchronize() if wait == "device" else found.cpu()
    except IndexError as error:
        assert "index 9 is out of bounds for dimension 0 with size 3" in str(error)  # noqa: PT017
    gc.cuda.synchronize()
    backend: Any = x.device.backend
    assert backend._watches[0].is_empty()


@pytest.mark.parametrize("kind", ["indexing", "cross entropy"])
def test_a_bad_index_is_told_although_another_thread_read_the_stream_before_the_launch(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y, index = gc.ones(2, 3), gc.ones(2), gc.tensor([9, 9])
    gc.cuda.synchronize()
    backend: Any = x.device.backend
    reader = threading.Thread(target=y.tolist)

    def after_reading(launch: Any) -> Any:
        def read_and_launch(*args: Any) -> Any:
            if reader.ident is None:  # after the first launch it is the reader that is told
                reader.start()
                reader.join()
            return launch(*args)

        return read_and_launch

    if kind == "indexing":
        monkeypatch.setattr(backend, "note_bad_index", after_reading(backend.note_bad_index))
        x[0, index]
    else:
        find = backend._loss_kernel
        monkeypatch.setattr(backend, "_loss_kernel", lambda *args: after_reading(find(*args)))
        gc.nn.functional.cross_entropy(x, index)
    monkeypatch.undo()
    with pytest.raises(IndexError, match="9 is out of bounds"):
        gc.cuda.synchronize()
    assert backend._watches[0].is_empty()


def test_peaks_are_those_of_all_threads() -> None:
    garbage.collect()
    gc.cuda.reset_peak_memory_stats()

    def work() -> None:
        gc.ones(1 << 20, device="cuda")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    garbage.collect()  # what was freed late counts at neither time
    assert gc.cuda.max_memory_allocated() - gc.cuda.memory_allocated() >= 4 << 20


def test_streams_and_ranges_of_other_tools() -> None:
    """Without a warning, which the tests make an error."""
    side = gc.cuda.Stream()
    with gc.cuda.stream(gc.cuda.ExternalStream(side.cuda_stream)):
        y = gc.ones(3) * 2
    side.synchronize()
    assert y.sum().item() == 6
    gc.cuda.nvtx.range_end(gc.cuda.nvtx.range_start("a"))
    with gc.cuda.nvtx.range("epoch {}", 1):
        gc.cuda.nvtx.mark("b")
