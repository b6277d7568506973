"""Ctrl-C at random times in everything that waits: it ends, and nothing is left half-done."""

from __future__ import annotations

import gc as gc_of_python
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import gradcore as gc
from gradcore.autograd.modes import State, local
from gradcore.backends.numpy import openblas, threads
from gradcore.backends.numpy.thread_pool import Helper, Pool, works_in_parts
from gradcore.core.locks import new_lock
from gradcore.utils import data
from tests.interrupts import interrupt, interrupt_everywhere, interrupt_often


@pytest.fixture(autouse=True)
def _several_threads():
    before = gc.get_num_threads()
    gc.set_num_threads(3)
    yield
    gc.set_num_threads(before)


@pytest.fixture(autouse=True)
def _frequent_switches():
    """Let interrupts come between any two steps."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def check_threads(pool: Pool) -> None:
    """All helpers are free, and can work."""
    assert pool.free == pool.helpers
    together, done = threading.Barrier(pool.size + 1, timeout=120), []

    def work() -> None:
        together.wait()  # which breaks unless all of them come
        done.append(threading.get_ident())

    pool.run(work, pool.size)
    assert len(done) == len(set(done)) == pool.size + 1
    assert not works_in_parts()


def test_shared_work() -> None:
    pool = Pool(2)

    def program() -> None:
        caller, helpers = threading.get_ident(), set()

        def work() -> None:
            if threading.get_ident() != caller:  # which an interrupt ends anywhere
                helpers.add(threading.get_ident())
            for _ in range(20):
                time.sleep(0)
            helpers.discard(threading.get_ident())

        try:
            pool.run(work, 2)
        finally:
            assert not helpers  # nobody sees a result that a thread writes into

    interrupt_often(program, 300, 0.01)
    check_threads(pool)


def test_callers_of_one_pool() -> None:
    """Several at once, each interrupted."""
    pool = Pool(2)
    callers = [
        threading.Thread(target=interrupt_often, args=(lambda: pool.run(lambda: time.sleep(0), 2), 60, 0.01, seed))
        for seed in range(3)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    check_threads(pool)


def threads_of_libraries() -> list[int]:
    """Return the numbers of threads of NumPy's and SciPy's OpenBLAS."""
    return [each.library.read() for each in (openblas.NUMPY, openblas.SCIPY) if each.library is not None]


def modes() -> list[object]:
    """Return the modes of this thread, and all other state that a context can change."""
    state = {name: getattr(local.state, name) for name in State.__slots__ if name not in ("enter", "enclose")}
    kinds = ("cudnn", "flash", "math", "mem_efficient")
    attention = [getattr(gc.backends.cuda, f"{kind}_sdp_enabled")() for kind in kinds]
    drawn = gc.get_rng_state().tolist()
    return [state, gc.get_default_dtype(), attention, drawn, threads.works_in_parts(), threads_of_libraries()]


OPERATIONS = {
    "elementwise": lambda: gc.nn.functional.gelu(gc.ones(700_000)),
    "decomposition": lambda: gc.linalg.qr(gc.ones(2, 80, 80)),
    "product": lambda: gc.ones(8, 200, 200) @ gc.ones(8, 200, 200),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_in_threads(name: str) -> None:
    OPERATIONS[name]()
    before = threads_of_libraries()
    interrupt_often(OPERATIONS[name], 60, 0.03)
    check_threads(threads._pool)
    gc_of_python.collect()  # an interrupt as a context begins to end: it ends with the traceback
    assert threads_of_libraries() == before


def step() -> None:
    weight = gc.ones(3, 3, requires_grad=True)
    optimizer = gc.optim.Adam([weight])
    (weight @ weight).tanh().sum().backward()
    optimizer.step()


def contexts() -> None:
    x = gc.ones(2, requires_grad=True)
    with gc.no_grad():
        x * 2
    with gc.inference_mode(), gc.enable_grad():
        x * 2
    with gc.device("cpu"), gc.nn.attention.sdpa_kernel(gc.nn.attention.SDPBackend.MATH), gc.random.fork_rng():
        x * 2
    with gc.autograd.detect_anomaly(), gc.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        (x * x).sum().backward()
    with gc.autograd.forward_ad.dual_level():
        gc.autograd.forward_ad.make_dual(x.detach(), x.detach()).sin()


def autocast() -> None:
    with gc.autocast("cpu"), gc.autocast("cpu", enabled=False), gc.autocast("cpu"):
        (gc.ones(2, 2, requires_grad=True) @ gc.ones(2, 2)).sum().backward()


def checkpointed() -> None:
    x = gc.ones(2, requires_grad=True)
    gc.utils.checkpoint.checkpoint(gc.sin, x, use_reentrant=False).sum().backward()


def transforms() -> None:
    x = gc.ones(2, 3)
    gc.func.vmap(gc.func.grad(lambda v: gc.func.jvp(gc.sin, (v,), (v,))[1].sum()))(x)


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize(
    "program",
    [*OPERATIONS.values(), step, contexts, autocast, checkpointed, transforms],
    ids=[*OPERATIONS, "step", "contexts", "autocast", "checkpoint", "transforms"],
)
def test_an_interrupt_at_any_step_leaves_everything_as_it_was(program: Callable[[], object]) -> None:
    program()
    before = modes()

    def check(where: str) -> None:
        assert modes() == before, where
        assert threads._pool.free == threads._pool.helpers, where

    assert interrupt_everywhere(program, check, 300) > 20
    check_threads(threads._pool)


def test_a_lock_is_free_wherever_an_interrupt_arrives() -> None:
    lock, taken = new_lock(), list[bool]()

    def program() -> None:
        for _ in range(500):
            with lock, lock:
                pass

    interrupt_often(program, 300, 0.01)
    other = threading.Thread(target=lambda: taken.append(lock.acquire(timeout=5)))
    other.start()
    other.join()
    assert taken == [True]


# An interrupt inside of `ZipFile.__init__` leaves an object whose finalizer fails, and Python reports that. A file that
# was just opened by a `with` statement is left to its finalizer, too, in Python 3.14.
@pytest.mark.filterwarnings("ignore:Exception ignored (in|while final).*:pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_of_a_save_leaves_neither_a_file_nor_a_descriptor(tmp_path: Path) -> None:
    path, module = tmp_path / "net.pt", gc.nn.Linear(3, 2)
    gc.save(module.state_dict(), path)
    content, folder = path.read_bytes(), Path("/proc/self/fd")

    def descriptors() -> int:
        return len(list(folder.iterdir())) if folder.exists() else 0

    before = descriptors()

    def check(where: str) -> None:
        assert [p.name for p in tmp_path.iterdir()] == ["net.pt"], where
        assert path.read_bytes() == content, where
        assert descriptors() == before, where

    assert interrupt_everywhere(lambda: gc.save(module.state_dict(), path), check, 300, (zipfile.__file__,)) > 100


def test_contexts_that_were_left_have_no_finalizer_to_drop_an_interrupt() -> None:
    for library in (openblas.NUMPY, openblas.SCIPY):
        context = library.alone()
        with context:
            pass
        assert not hasattr(context, "__del__")
        with pytest.raises(KeyError), (abandoned := library.alone()):
            raise KeyError
        assert not hasattr(abandoned, "__del__")


def test_an_interrupt_leaves_a_module_its_own_parameters() -> None:
    module = gc.nn.Sequential(gc.nn.Linear(2, 2), gc.nn.BatchNorm1d(2))
    own = {name: id(t) for name, t in module.state_dict(keep_vars=True).items()}
    values = {name: gc.zeros_like(t) for name, t in module.named_parameters()}
    x = gc.ones(2, 2)

    def check(where: str) -> None:
        assert {name: id(t) for name, t in module.state_dict(keep_vars=True).items()} == own, where

    assert interrupt_everywhere(lambda: gc.func.functional_call(module, values, (x,)), check, 300) > 20


def test_an_interrupt_that_comes_right_after_the_helper_is_done() -> None:
    class Interrupted:
        def __init__(self, lock: object) -> None:
            self.lock, self.first, self.release = lock, True, lock.release

        def acquire(self) -> None:
            self.lock.acquire()
            if self.first:
                self.first = False
                raise KeyboardInterrupt

    helper, begun = Helper(), threading.Event()
    helper.done = Interrupted(helper.done)
    helper.give(lambda: begun.set() or time.sleep(0.1))
    begun.wait(20)
    assert isinstance(helper.wait(), KeyboardInterrupt)
    helper.give(None)


def test_no_further_part_is_begun_after_an_interrupt() -> None:
    begun, me = [], threading.get_ident()

    def work(numbers) -> None:
        for i in numbers:
            begun.append(i)
            if threading.get_ident() == me:
                raise KeyboardInterrupt
            time.sleep(0.05)

    with pytest.raises(KeyboardInterrupt):
        threads.share(work, 1000)
    assert len(begun) < 10


class Deep(gc.autograd.Function):
    """The identity; its backward runs another one within it, and the last of them `inside`."""

    @staticmethod
    def forward(ctx, x, depth, inside):
        ctx.depth, ctx.inside = depth, inside
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        if not ctx.depth:
            ctx.inside()
        else:
            with gc.enable_grad():
                Deep.apply(gc.ones(1, requires_grad=True), ctx.depth - 1, ctx.inside).sum().backward()
        return grad, None, None


def test_backward_in_other_threads_is_interrupted() -> None:
    """An interrupt reaches the innermost of the threads that wait for each other."""
    reached = threading.Event()
    seen = []

    def forever() -> None:
        reached.set()
        while True:
            time.sleep(0.001)

    def run() -> None:
        try:
            Deep.apply(gc.ones(1, requires_grad=True), 300, forever).sum().backward()
        except BaseException as error:
            seen.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert reached.wait(60)
    assert sum(each.name == "backward" for each in threading.enumerate()) > 1
    interrupt(thread)
    thread.join(60)
    assert not thread.is_alive()
    assert isinstance(seen[0], KeyboardInterrupt)
    assert not any(each.name == "backward" for each in threading.enumerate())


# -- the loader -------------------------------------------------------------------------------------------------------


class Blocking(data.Dataset):
    """Numbers, of which the second never comes."""

    def __init__(self) -> None:
        self.end = threading.Event()

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> int:
        if i == 1:
            self.end.wait()
        return i


@pytest.fixture
def blocking():
    dataset = Blocking()
    yield dataset
    dataset.end.set()


@pytest.mark.parametrize("persistent", [False, True])
def test_a_worker_that_does_not_come_back_is_waited_for_as_long_as_is_said(blocking: Blocking, persistent) -> None:
    loader = data.DataLoader(blocking, None, num_workers=2, timeout=1.5, persistent_workers=persistent)
    for _ in range(2):  # and then the loader can be used again
        batches, begin = iter(loader), time.monotonic()
        assert next(batches) == 0
        with pytest.raises(RuntimeError, match=r"timed out after 1\.5 seconds"):
            next(batches)
        assert time.monotonic() - begin < 60


def test_a_loop_that_ends_early_does_not_wait_for_ever(blocking: Blocking) -> None:
    begin = time.monotonic()
    for _ in data.DataLoader(blocking, None, num_workers=2):
        break
    assert time.monotonic() - begin < 60


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_ends_a_program_whose_worker_does_not_come_back() -> None:
    program = (
        "import signal, time; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from gradcore.utils import data\n"
        "class Slow(data.Dataset):\n"
        "    def __len__(self): return 4\n"
        "    def __getitem__(self, i): print('begun', flush=True); time.sleep(1000)\n"
        "next(iter(data.DataLoader(Slow(), num_workers=2)))\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert running.stdout.readline().startswith("begun")
        running.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in running.communicate(timeout=120)[1]
    finally:
        running.kill()
        running.communicate()


# -- forks ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_child_does_not_wait_for_what_its_parents_threads_held() -> None:
    """Forks while other threads draw, accumulate and share work."""
    program = """
import os, signal, threading, time
import gradcore as gc
gc.set_num_threads(2)
leaf, end = gc.ones(1, requires_grad=True), False

def work():
    while not end:
        (leaf * gc.rand(1)).sum().backward()
        gc.nn.functional.gelu(gc.ones(300_000))

gc.nn.functional.gelu(gc.ones(300_000))
(leaf * gc.rand(1)).sum().backward()  # a fork while a module is imported is Python's own trouble
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
for _ in range(40):
    child = os.fork()
    if not child:
        signal.alarm(20)
        leaf.grad = None
        (leaf * gc.rand(1)).sum().backward()
        gc.nn.functional.gelu(gc.ones(300_000))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    time.sleep(0.005)
print("done", flush=True)
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.endswith("done\n"), done.stderr
