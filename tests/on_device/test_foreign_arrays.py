"""Arrays and allocators of other libraries: known by CUDA's protocols, not by CuPy's classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import gradcore as gc
from gradcore.backends.cupy.memory import allocator

cupy: Any = pytest.importorskip("cupy")


class Foreign:
    """An array of another library, whose `device` is what that library makes of it."""

    def __init__(self, array: Any, device: Any) -> None:
        self.array, self.device = array, device
        self.__cuda_array_interface__ = array.__cuda_array_interface__


@pytest.mark.parametrize("device", ["cuda:0", None, SimpleNamespace(type="cuda", index=0), 0], ids=str)
@pytest.mark.parametrize("make", [gc.as_tensor, gc.tensor, gc.asarray])
def test_arrays_of_other_libraries(make: Callable[..., Any], device: Any) -> None:
    for size in (6, 0):
        array = cupy.arange(float(size))
        t = make(Foreign(array, device))
        assert (str(t.device), t.tolist()) == ("cuda:0", array.tolist())


def test_arrays_of_the_other_device() -> None:
    if gc.cuda.device_count() < 2:
        pytest.skip("there is one device")
    with cupy.cuda.Device(1):
        array = cupy.arange(3.0)
    assert str(gc.as_tensor(Foreign(array, "cuda:0")).device) == "cuda:1"


def test_an_index_on_another_device() -> None:
    """It would be copied to the host with a wait that nobody sees; one of the host goes anywhere."""
    index = gc.tensor([1], device="cuda")
    x = gc.arange(6.0, device="cpu")
    for run in (lambda: x[index], lambda: x.__setitem__(index, 1.0), lambda: x.index_put_((index,), gc.zeros(1))):
        with pytest.raises(RuntimeError, match=r"indices should be either on (cpu|the CPU) or on the same device"):
            run()
    assert gc.arange(6.0, device="cuda")[index.cpu()].tolist() == [1.0]


@pytest.fixture(params=["MemoryError", "CuPy's"])
def exhausted(request: pytest.FixtureRequest) -> Iterator[list[bool]]:
    """Set another library's allocator after gradcore has used CUDA, and let it run out of memory on request."""
    before, empty = cupy.cuda.get_allocator(), [False]
    kinds = {"MemoryError": lambda size: MemoryError("std::bad_alloc"),
             "CuPy's": lambda size: cupy.cuda.memory.OutOfMemoryError(size, 0, 0)}  # fmt: skip

    def malloc(size: int) -> Any:
        if empty[0]:
            raise kinds[request.param](size)
        return before(size)

    cupy.cuda.set_allocator(malloc)
    yield empty
    cupy.cuda.set_allocator(before)


RUNS: dict[str, Callable[[Any], Any]] = {
    "factory": lambda x: gc.ones(1000, device="cuda"),
    "empty": lambda x: gc.empty(1000, device="cuda"),
    "addition": lambda x: x + x,
    "product": lambda x: x @ x,
    "softmax": lambda x: x.softmax(-1),
    "sum": lambda x: x.sum(0),
    "index": lambda x: x[x > 0],
    "sort": lambda x: x.sort(),
    "inverse": lambda x: gc.linalg.inv(x),
    "copy": lambda x: x.clone(),
    "another dtype": lambda x: x.double(),
    "another device": lambda x: x.detach().cpu().cuda(),
    "random numbers": lambda x: gc.randn(20, device="cuda"),
    "random numbers, in place": lambda x: x.detach().clone().normal_(),
    "random integers": lambda x: gc.randint(5, (20,), device="cuda"),
    "permutation": lambda x: gc.randperm(20, device="cuda"),
    "Jacobian": lambda x: gc.func.jacrev(lambda y: y)(x.detach()),
}


@pytest.mark.parametrize("name", RUNS)
def test_no_memory_is_one_error_under_every_allocator(exhausted: list[bool], name: str) -> None:
    x = gc.eye(20, device="cuda").requires_grad_().exp()
    expected = x.detach().cpu()
    exhausted[0] = True
    try:
        with pytest.raises(gc.OutOfMemoryError):
            RUNS[name](x)
    finally:
        exhausted[0] = False
    assert gc.equal(x.detach().cpu(), expected)
    assert RUNS[name](x) is not NotImplemented


def test_no_memory_without_a_pool() -> None:
    """CuPy's allocator without a pool raises errors of the runtime, of which others than of memory stay as they are."""
    backend: Any = gc.ones(1, device="cuda").device.backend
    allocate = allocator(backend, cupy.cuda.memory._malloc)
    with pytest.raises(gc.OutOfMemoryError, match="Tried to allocate"):
        allocate(1 << 40)

    def refuse(size: int) -> Any:
        raise cupy.cuda.runtime.CUDARuntimeError(1)  # cudaErrorInvalidValue

    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="cudaErrorInvalidValue"):
        allocator(backend, refuse)(8)
    assert allocate(8).mem.size == 8


@pytest.mark.parametrize("name", ["backward", "gradients", "step"])
def test_no_memory_while_training_is_one_error_under_every_allocator(exhausted: list[bool], name: str) -> None:
    x = gc.linspace(0, 1, 20, device="cuda", requires_grad=True)
    loss, optimizer = x.exp().square().sum(), gc.optim.SGD([x], lr=0.1, momentum=0.9)
    x.grad = x.detach().clone()
    run = {
        "backward": lambda: loss.backward(retain_graph=True),
        "gradients": lambda: gc.autograd.grad(loss, x, retain_graph=True),
        "step": optimizer.step,
    }[name]
    before = x.detach().cpu(), x.grad.cpu()
    exhausted[0] = True
    try:
        with pytest.raises(gc.OutOfMemoryError):
            run()
    finally:
        exhausted[0] = False
    assert gc.equal(x.detach().cpu(), before[0])
    assert gc.equal(x.grad.cpu(), before[1])
    run()
