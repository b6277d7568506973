"""Calls of CUDA that fail, one after another: the error is told, nothing is half changed, and work goes on after it."""

from __future__ import annotations

import ctypes
import gc as collector
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import gradcore as gc
from gradcore.backends import registry
from gradcore.backends.cupy.memory import allocator
from gradcore.backends.cupy.memory_pools import PrivatePool

cupy: Any = pytest.importorskip("cupy")

#: Kinds of calls, as the rig numbers them. Where the driver refuses an allocation once, the pool gives back what it has
#: and asks again: no error is raised. "memory" is an array for which there is no memory then either.
KINDS = {"allocation": 0, "launch": 1, "library": 2, "memory": 3}

#: The most calls of a kind that a run makes.
MOST = 400


@pytest.fixture
def fail_at() -> Iterator[Callable[[int, int], None]]:
    process = ctypes.CDLL(None)
    if not hasattr(process, "cupyhost_fail_at"):
        pytest.skip("a GPU's calls do not fail on demand; the rig's do")
    before, malloc, left = cupy.cuda.get_allocator(), cupy.get_default_memory_pool().malloc, [0]

    def allocate(size: int) -> Any:
        """Allocate memory of the pool, but fail at the array that was asked for, and when it is tried again."""
        left[0] -= 1
        if left[0] in (0, -1) and size:
            raise cupy.cuda.memory.OutOfMemoryError(size, 0, 0)
        return malloc(size)

    def fail(kind: int, n: int) -> None:
        if kind == KINDS["memory"]:
            left[0] = n or -2
        else:
            process.cupyhost_fail_at(kind, n)

    backend: Any = gc.ones(1, device="cuda").device.backend
    fail(KINDS["memory"], 0)
    cupy.cuda.set_allocator(allocator(backend, allocate))
    yield fail
    cupy.cuda.set_allocator(before)
    for kind in KINDS.values():
        fail(kind, 0)


def training() -> tuple[Callable[[], Any], Callable[[], list[Any]]]:
    """Backward of a small model, and its parameters."""
    gc.manual_seed(0)
    model = gc.nn.Sequential(gc.nn.Linear(5, 7), gc.nn.LayerNorm(7), gc.nn.GELU(), gc.nn.Linear(7, 3)).to("cuda")
    x = gc.randn(4, 5, device="cuda")

    def run() -> Any:
        model.zero_grad()
        loss = gc.nn.functional.cross_entropy(model(x), gc.tensor([0, 1, 2, 0], device="cuda"))
        loss.backward()
        return gc.cat([p.grad.flatten() for p in model.parameters()])

    return run, lambda: list(model.parameters())


def algebra() -> tuple[Callable[[], Any], Callable[[], list[Any]]]:
    """Factorisations of a batch, with gradients."""
    gc.manual_seed(0)
    a = (gc.randn(3, 4, 4, device="cuda") + 5 * gc.eye(4, device="cuda")).requires_grad_()

    def run() -> Any:
        s = a @ a.mT
        found = gc.linalg.inv(a).sum() + gc.linalg.solve(a, s).sum() + gc.linalg.cholesky(s).sum()
        (slope,) = gc.autograd.grad(found + gc.linalg.eigvalsh(s).sum() + gc.linalg.svdvals(a).sum(), a)
        return slope

    return run, lambda: [a]


def in_place() -> tuple[Callable[[], Any], Callable[[], list[Any]]]:
    """Sorting, indexing, sums: of a copy."""
    x = gc.linspace(-1, 1, 60, device="cuda").reshape(6, 10)

    def run() -> Any:
        y = x.sin().sort(-1).values.cumsum(0)
        y[gc.tensor([0, 2], device="cuda")] += 1
        return y.softmax(-1) @ x.mT + x.argmax(-1)

    return run, lambda: [x]


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda p: gc.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: gc.optim.Adam(p, lr=0.1, amsgrad=True),
    **{
        name: getattr(gc.optim, name)
        for name in ("AdamW", "RMSprop", "Adagrad", "NAdam", "RAdam", "Rprop", "ASGD", "Adadelta", "Adamax")
    },
    **{
        f"{name}, counted on the device": lambda p, name=name: getattr(gc.optim, name)(p, lr=0.1, capturable=True)
        for name in ("Adam", "AdamW", "RMSprop", "NAdam", "RAdam", "Rprop", "ASGD", "Adadelta", "Adamax")
    },
}


def error_of_step(optimizer: Any, fail_at: Callable[[int, int], None], kind: str, n: int) -> Exception | None:
    """Step an optimizer while the `n`-th call of a kind fails, and return the error, or None if none was raised."""
    fail_at(KINDS[kind], n)
    try:
        optimizer.step()
    except Exception as error:
        return error
    finally:
        fail_at(KINDS[kind], 0)
    return None


@pytest.mark.parametrize("kind", ["launch", "memory"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_that_fails_is_not_counted(fail_at: Callable[[int, int], None], name: str, kind: str) -> None:
    """Taken again it is the step that it would have been, also if it is the first one."""

    def begin(steps: int) -> tuple[Any, list[Any]]:
        gc.manual_seed(0)
        params = [gc.nn.Parameter(gc.randn(n, device="cuda")) for n in (5, 70, 3)]
        optimizer = OPTIMIZERS[name](params)
        for p in params:
            p.grad = p.detach().cos()
        for _ in range(steps):
            optimizer.step()
        return optimizer, params

    failed = 0
    for steps in (0, 2):
        for n in range(1, MOST):
            optimizer, params = begin(steps)
            raised = error_of_step(optimizer, fail_at, kind, n)
            if raised is not None:
                failed += 1
                assert isinstance(raised, gc.OutOfMemoryError) == (kind == "memory"), f"call {n}: {raised!r}"
                optimizer.step()
            expected, wanted = begin(steps + 1)
            assert all(gc.equal(p, e) for p, e in zip(params, wanted, strict=True)), f"after a failure of call {n}"
            counts = [float(optimizer.state.get(p, {}).get("step", 0)) for p in params]
            assert counts == [float(expected.state.get(p, {}).get("step", 0)) for p in wanted]
            if raised is None:
                break
        assert n < MOST - 1
    assert failed or (name, kind) == ("Adagrad", "memory")  # (its state is made with it)


#: Optimizers that update parameters one by one, by several operations.
OF_MATRICES: dict[str, Callable[[Any], Any]] = {
    "Adafactor": lambda p: gc.optim.Adafactor(p, lr=0.1),
    "Adafactor, decay": lambda p: gc.optim.Adafactor(p, lr=0.1, weight_decay=0.1),
    "Muon": lambda p: gc.optim.Muon(p, lr=0.1),
}


def begin_of_matrix(name: str, shape: tuple[int, ...], steps: int) -> tuple[Any, Any]:
    """Return an optimizer of one parameter with a gradient, after some steps, and the parameter."""
    gc.manual_seed(0)
    param = gc.nn.Parameter(gc.randn(shape, device="cuda"))
    optimizer = OF_MATRICES[name]([param])
    param.grad = param.detach().cos()
    for _ in range(steps):
        optimizer.step()
    return optimizer, param


def are_same_state(a: Any, b: Any) -> bool:
    return a.keys() == b.keys() and all(gc.equal(a[key], b[key]) for key in a)


@pytest.mark.parametrize("kind", ["launch", "memory"])
@pytest.mark.parametrize(
    ("name", "shape"),
    [("Adafactor", (5, 4)), ("Adafactor, decay", (5, 4)), ("Adafactor, decay", (5,)), ("Muon", (5, 4))],
)
def test_a_step_of_a_matrix_that_fails_changes_nothing(
    fail_at: Callable[[int, int], None], name: str, shape: tuple[int, ...], kind: str
) -> None:
    """Taken again it is the step that it would have been, also if it is the first one."""
    failed = 0
    for steps in (0, 1):
        before, param_before = begin_of_matrix(name, shape, steps)
        after, param_after = begin_of_matrix(name, shape, steps + 1)
        for n in range(1, MOST):
            optimizer, param = begin_of_matrix(name, shape, steps)
            raised = error_of_step(optimizer, fail_at, kind, n)
            if raised is not None:
                failed += 1
                assert gc.equal(param, param_before), f"after a failure of call {n}"
                if steps:
                    assert are_same_state(optimizer.state[param], before.state[param_before]), f"call {n}"
                optimizer.step()
            assert gc.equal(param, param_after), f"after a failure of call {n}"
            assert are_same_state(optimizer.state[param], after.state[param_after]), f"call {n}"
            if raised is None:
                break
        assert n < MOST - 1
    assert failed


@pytest.mark.parametrize("name", OF_MATRICES)
def test_steps_of_matrices_with_infinite_gradients_are_left_out(name: str) -> None:
    """By a scaler, which finds the infinity: parameter and state stay, and the next step is the next one."""
    optimizer, param = begin_of_matrix(name, (5, 4), 1)
    expected, param_expected = begin_of_matrix(name, (5, 4), 2)
    scaler = gc.amp.GradScaler("cuda", init_scale=4.0)
    kept, state = param.detach().clone(), {key: value.clone() for key, value in optimizer.state[param].items()}
    gradient = param.grad
    param.grad = gradient.clone()
    param.grad[1, 2] = gc.inf
    for found in (True, False):
        scaler.scale(gc.ones((), device="cuda"))
        scaler.step(optimizer)
        scaler.update()
        assert gc.equal(param, kept) == found
        assert are_same_state(optimizer.state[param], state) == found
        param.grad = gradient * scaler.get_scale()
    assert gc.equal(param, param_expected)
    assert are_same_state(optimizer.state[param], expected.state[param_expected])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("made", [training, algebra, in_place])
@pytest.mark.filterwarnings("ignore")
def test_each_call_that_fails(fail_at: Callable[[int, int], None], made: Callable[[], Any], kind: str) -> None:
    run, kept = made()
    expected = run().cpu()
    before = [t.detach().cpu() for t in kept()]
    failed = 0
    for n in range(1, MOST):
        if kind == "allocation":
            gc.cuda.empty_cache()
        fail_at(KINDS[kind], n)
        try:
            found: Any = run().cpu()
        except Exception as error:
            found = error
        fail_at(KINDS[kind], 0)
        if not isinstance(found, Exception):
            assert gc.equal(found, expected), f"call {n} failed, and the result is another"
            if kind != "allocation" or n > 30:  # (memory is asked for again once what is unused has been given back)
                break
            continue
        failed += 1
        assert isinstance(found, gc.OutOfMemoryError) == (kind == "memory"), f"call {n}: {found!r}"
        assert str(found), f"call {n}: {found!r}"
        assert all(gc.equal(t.detach().cpu(), b) for t, b in zip(kept(), before, strict=True))
        assert gc.equal(run().cpu(), expected), f"after a failure of call {n}"
    assert n < MOST - 1
    assert bool(failed) == (kind != "allocation")


@pytest.mark.parametrize("made", [algebra, in_place])
@pytest.mark.filterwarnings("ignore")
def test_an_error_keeps_no_memory(fail_at: Callable[[int, int], None], made: Callable[[], Any]) -> None:
    """Compare the allocated memory before a call that fails and after its error is handled, without a collection."""
    run, _ = made()
    run()
    collector.collect()
    collector.disable()
    try:
        before = gc.cuda.memory_allocated()
        for n in range(1, MOST):
            fail_at(KINDS["memory"], n)
            failed = False
            try:
                run()
            except gc.OutOfMemoryError:
                failed = True
            fail_at(KINDS["memory"], 0)
            assert gc.cuda.memory_allocated() == before, f"after a failure of call {n}"
            if not failed:
                break
        assert 1 < n < MOST - 1
    finally:
        collector.enable()


def test_memory_for_the_random_numbers_of_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their place is in a pool of its own, whose errors are those of other memory."""
    backend: Any = registry.find("cuda")

    def malloc(self: PrivatePool, size: int) -> Any:
        raise cupy.cuda.memory.OutOfMemoryError(size, 0, 0)

    monkeypatch.setattr(PrivatePool, "malloc", malloc)
    with pytest.raises(gc.OutOfMemoryError, match="Tried to allocate 48 bytes"):
        backend.place_memory()
