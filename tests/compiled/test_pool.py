"""The threads that compiled kernels share work with: results do not depend on them, and nothing waits for ever."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.compiled import rows, steps
from gradcore.backends.numpy import threads
from gradcore.backends.portable.optimizers import Batch
from tests.backends.test_tiles import derivative, numbers, same_bits
from tests.compiled.apart import run

SIZE = 300_000


@pytest.fixture(autouse=True)
def _many_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(rows, "_WORTH_A_THREAD", 2000)
    monkeypatch.setattr(steps, "_WORTH_A_THREAD", 2000)
    before = gc.get_num_threads()
    yield
    gc.set_num_threads(before)


def matrix(seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal((300, 1000)).astype("f4")


def elementwise(backend: Any) -> Any:
    return backend.compute_by_loop(derivative("gelu"), (numbers(0, size=SIZE), numbers(1, size=SIZE), "none"))


def strided(backend: Any) -> Any:
    return backend.compute_by_loop(derivative("gelu"), (matrix(0)[:, ::2], matrix(1)[:, ::-2], "none"))


def softmax(backend: Any) -> Any:
    return backend.softmax_product(matrix(0), backend.softmax_along(matrix(1), 1), 1)


def layer_norm(backend: Any) -> Any:
    x, weight = matrix(0), matrix(1)[0]
    y, mean, var = backend.native_layer_norm(x, weight, None, 1, 1e-5)
    grads = backend.layer_norm_backward(y, None, None, x, weight, mean, var, 1e-5, (True, True, True), 1)
    return np.concatenate([y, grads[0], *(g[None] for g in grads[1:])])


def group_norm(backend: Any) -> Any:
    x = matrix(0).reshape(10, 30, 10, 100)
    y, mean, var = backend.native_group_norm(x, None, None, 3, 1e-5)
    return backend.group_norm_backward(y, None, None, x, None, mean, var, 1e-5, (True, True, True), 3)[0]


def step(backend: Any) -> Any:
    batch = Batch([matrix(0), matrix(1)[:7, :9].copy()], [np.zeros(SIZE + 63, "f4")])
    batch.grads = [matrix(2), matrix(3)[:7, :9].copy()]
    settings = {
        "lr": 0.1,
        "momentum": 0.9,
        "grad_factor": None,
        "weight_decay": 0,
        "nesterov": False,
        "maximize": False,
    }
    for _ in range(3):
        backend.optimizer_step(gc.optim.SGD.formula, batch, settings)
    return np.concatenate([batch.params[0].ravel(), batch.params[1].ravel(), batch.states[0]])


def sums(backend: Any) -> Any:
    x = matrix(0)
    found = [
        backend.sum_over(x, (0,)),
        backend.sum_over(x, (1,)),
        backend.sum_to_size(x, (1000,)),
        backend.sum_to_size(x, (300, 1)),
        backend.sum_to_size(x[:, :300].copy(), (300, 1)),
        backend.sum_over(x),
        backend.max_over(x),
        backend.logsumexp_over(x, (1,), False),
    ]
    for dims in (None, (0,), (1,)):
        found += backend.var_mean_over(x, dims, 1.0)
    return np.concatenate([each.reshape(-1) for each in found])


def dots(backend: Any) -> Any:
    x, y = matrix(0), matrix(1)
    found = [backend.product_to_size(x, y, shape) for shape in ((), (1000,), (300, 1))]
    found += [backend.product_to_size(x, y[:1], (300, 1)), backend.product_to_size(x, y[:, :1].copy(), (1000,))]
    return np.concatenate([each.reshape(-1) for each in (*found, backend.sum_over(x[:, :300].copy(), (1,)))])


def without_loop(backend: Any) -> Any:
    """Formulas whose functions the library has no loops for, and kernels that backends call by name."""
    x, y = matrix(0), matrix(1)
    cosine, one = derivative("sin"), np.broadcast_to(np.float32(0.7), x.shape)
    found = [backend.evaluate_tiled(cosine, *given) for given in ((x, y), (one, y), (x.T, y.T), (x[:, ::2], y[:, ::2]))]
    found += [backend.exp(x.T), backend.tanh(x), backend.mul(x, 0.3), backend.sub(x, y[:, :1]), backend.mul(x[:1], y)]
    return np.concatenate([each.reshape(-1) for each in (*found, backend.mul(x[:, :1], y[0]), backend.pow(x, 3))])


def functions(backend: Any) -> Any:
    """Those of NumPy, and one with operands of different shapes."""
    x, y = matrix(0), matrix(1)
    sine, add, less = (backend.kernel_of(name) for name in ("sin", "add", "lt"))
    return np.concatenate([sine(x), add(x, y), add(x, y[:1]), add(x.T, y.T).T, less(x, y).astype("f4")])


WORK: list[Callable[[Any], Any]] = [
    elementwise, strided, softmax, layer_norm, group_norm, step, sums, functions, dots, without_loop,
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("work", WORK)
def test_results_do_not_depend_on_the_number_of_threads(compiled: Any, work: Callable[[Any], Any]) -> None:
    gc.set_num_threads(1)
    expected = work(compiled)
    for count in (2, 5, 3, 1, 4):  # the pool grows, and then is larger than what is asked for
        gc.set_num_threads(count)
        for _ in range(5):
            assert same_bits(work(compiled), expected)


def test_a_parameter_that_is_there_twice_steps_twice(compiled: Any) -> None:
    gc.set_num_threads(3)
    p, g = np.zeros(SIZE, "f4"), np.ones(SIZE, "f4")
    batch = Batch([p, p], [])
    settings = {"lr": 1.0, "momentum": 0, "grad_factor": None, "weight_decay": 0, "nesterov": False, "maximize": False}
    for _ in range(50):
        batch.grads = [g, g]
        compiled.optimizer_step(gc.optim.SGD.formula, batch, settings)
    np.testing.assert_array_equal(p, -100)


@pytest.mark.slow
def test_threads_of_the_program_work_at_the_same_time(compiled: Any) -> None:
    """One of them has the pool at a time; the others work alone."""
    gc.set_num_threads(3)
    expected = [work(compiled) for work in WORK]
    wrong: list[str] = []

    def some(first: int) -> None:
        for i in range(first, first + 30):
            work, right = WORK[i % len(WORK)], expected[i % len(WORK)]
            wrong.extend([] if same_bits(work(compiled), right) else [work.__name__])

    users = [threading.Thread(target=some, args=(i,)) for i in range(4)]
    for user in users:
        user.start()
    for user in users:
        user.join(60)
    assert not any(user.is_alive() for user in users)
    assert not wrong


def test_work_within_work_stays_in_its_thread(compiled: Any) -> None:
    gc.set_num_threads(2)
    expected, found, counts = softmax(compiled), [], []

    def work(start: int, stop: int) -> None:
        counts.append(threads.available())
        found.append(softmax(compiled))

    threads.spread(work, 2)
    assert counts.count(1) >= 1  # in the thread that is not the caller's
    assert threads.available() == 2
    assert all(same_bits(f, expected) for f in found)


def test_functions_of_numpy_give_their_bits(compiled: Any) -> None:
    """Also into memory that is given, with an operand without dims, and with operands that are not contiguous."""
    gc.set_num_threads(3)
    x, y, one = matrix(0), matrix(1), np.float32(0.7) * np.ones((), "f4")
    for name in ("sin", "neg", "add", "sub", "lt", "atan2"):
        kernel, function = compiled.kernel_of(name), compiled.small_kernel_of(name)
        assert isinstance(function, np.ufunc)
        for a, b in ((x, y), (x, one), (x[::2], y[::2]), (x.T, y.T), (x.astype("f8"), y), (x, y[:1])):
            given = (a, b)[: function.nin]
            found, expected = kernel(*given), function(*given)
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape), name
            assert np.array_equal(found, expected), name
        if name in ("add", "sub"):
            given, out = (x, y)[: function.nin], np.empty_like(x)
            assert kernel(*given, out=out) is out
            assert np.array_equal(out, function(*given))


def drain(numbers: Iterator[int]) -> None:
    list(numbers)


def test_threads_that_look_for_work_stop_for_others(compiled: Any) -> None:
    """Whoever wakes threads of his own tells the library's; these work again later."""
    gc.set_num_threads(3)
    expected = softmax(compiled)
    for _ in range(50):
        threads.share(drain, 8)
        assert same_bits(softmax(compiled), expected)


@pytest.mark.slow
def test_pauses_between_calls(compiled: Any) -> None:
    """The threads look for work, then sleep, and are woken again."""
    gc.set_num_threads(2)
    expected = softmax(compiled)
    for pause in (0, 5e-5, 2e-4, 2.5e-4, 3e-4, 1.9e-3, 2.1e-3, 0.02):
        for _ in range(10):
            threading.Event().wait(pause)
            assert same_bits(softmax(compiled), expected)


PROGRAM = """
import os, sys, threading
import gradcore as gc
gc.set_num_threads(3)
x = gc.linspace(-3, 3, 300_000).view(300, 1000)
def work():
    return gc.nn.functional.gelu(x).softmax(1)
expected = work()
"""


@pytest.mark.slow
def test_the_end_of_the_process(library_variables: dict[str, str]) -> None:
    """It ends while threads look for work, while they sleep, and while a thread of the program has them at work."""
    for code in (
        "",
        "import time; time.sleep(0.01)",
        "threading.Thread(target=lambda: [work() for _ in iter(int, 1)], daemon=True).start()",
    ):
        done = run("-c", PROGRAM + code, **library_variables)
        assert (done.returncode, done.stderr) == (0, ""), code


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_children_have_threads_of_their_own(library_variables: dict[str, str]) -> None:
    """Also if another thread has the pool at work while the process forks, and in children of children."""
    code = """
stop = threading.Event()
def busy():
    while not stop.is_set():
        work()
other = threading.Thread(target=busy, daemon=True)
other.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        right = gc.equal(work(), expected)
        grandchild = os.fork()
        if grandchild == 0:
            os._exit(0 if gc.equal(work(), expected) else 1)
        os._exit(0 if right and os.waitpid(grandchild, 0)[1] == 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
other.join()
assert gc.equal(work(), expected)
print("done")
"""
    done = run("-W", "ignore", "-c", PROGRAM + code, **library_variables)
    assert done.stdout.strip() == "done", done.stderr
