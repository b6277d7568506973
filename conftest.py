"""Examples in docstrings say `gc` for gradcore and leave every setting as it was; the CPU is NumPy."""

import contextlib
import gc
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _pytest.doctest import DoctestModule

# Also where there are compiled kernels, unless the variable says otherwise: tests/compiled has the tests of these.
os.environ.setdefault("GRADCORE_COMPILED", "0")
# Compilers would take the time of the tests; tests/compiler/test_native.py has those of programs that become C++.
os.environ["GRADCORE_COMPILE_CPP"] = "0"

import gradcore
import gradcore.distributions
import gradcore.nn
import gradcore.optim
import gradcore.utils.checkpoint
from gradcore.autograd.modes import local
from gradcore.backends.switches import Switch, Switches
from tests import changed, devices
from tests.joined import begin_case

TESTS = Path(__file__).parent / "tests"

for _name in gradcore.__all__:  # in this order, so that an example of two names is always found below the same one
    getattr(gradcore, _name)

#: How to read the settings of the process or the thread, by name.
SETTINGS: dict[str, Callable[[], Any]] = {
    "default dtype": gradcore.get_default_dtype,
    "default device": gradcore.get_default_device,
    "threads": gradcore.get_num_threads,
    "print options": gradcore.printing.get_printoptions,
    "deterministic algorithms": gradcore.get_deterministic_debug_mode,
    "precision of products": gradcore.get_float32_matmul_precision,
    "history loss": gradcore.history_loss,
    "CUDA fallback": gradcore.cuda_fallback,
    "traceback": gradcore.get_traceback,
    "index checks": gradcore.cuda.index_checks,
    "fusion": gradcore.cuda.fusion,
    "synchronization debugging": gradcore.cuda.get_sync_debug_mode,
    "warnings each time": gradcore.is_warn_always_enabled,
    "subnormal numbers": lambda: _of("gradcore.backends.numpy.thread_state", "is_flushing")(),
    "modes": lambda: tuple(
        getattr(local.state, name) for name in local.state.__slots__ if name not in ("autocast", "enter")
    ),
    "autocast": lambda: [(gradcore.is_autocast_enabled(d), gradcore.get_autocast_dtype(d)) for d in ("cpu", "cuda")],
    "autocast cache": gradcore.is_autocast_cache_enabled,
    "switches": lambda: {
        (name, switch): getattr(module, switch)
        for name, module in list(sys.modules.items())
        if isinstance(module, Switches)
        for switch in dir(type(module))
        if isinstance(getattr(type(module), switch), Switch)
    },
    "hooks on all modules": lambda: _lengths("gradcore.nn.module_hooks", "_Everywhere"),
    "hooks on all optimizers": lambda: _lengths("gradcore.optim.optimizer", "_global_pre_hooks", "_global_post_hooks"),
    "checkpointing": lambda: dict(vars(_of("gradcore.utils.checkpoint", "_Chosen"))),
    "checks of distributions": lambda: _of("gradcore.distributions.distribution", "Distribution")._validate_args,
    "safe globals": lambda: list(gradcore.serialization.get_safe_globals()),
    "attention": lambda: (
        gradcore.backends.cuda.flash_sdp_enabled(),
        gradcore.backends.cuda.mem_efficient_sdp_enabled(),
        gradcore.backends.cuda.math_sdp_enabled(),
        gradcore.backends.cuda.cudnn_sdp_enabled(),
    ),
    "environment": lambda: {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"},
    "floating-point errors": np.geterr,
    "NumPy's print options": lambda: np.get_printoptions() | {"formatter": None},
    "excepthook": lambda: sys.excepthook,
}


#: Days after which a compiled kernel that no test has used is deleted.
KEPT_DAYS = 14


def pytest_configure(config: pytest.Config) -> None:
    """Name the folder of what tests compile, for all workers and for the programs that tests start.

    The names of the files in it are digests of all that they are made of, so later runs use them too.
    """
    # The tests of slow scopes are collected first, those of docstrings last: so all workers end at about the same time.
    config.option.loadscopereorder = False
    if "PYTEST_XDIST_WORKER" not in os.environ:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        kept = Path(os.environ.setdefault("GRADCORE_TEST_CACHE", str(caches / "gradcore-tests")))
        if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
            os.environ["PYTHONPYCACHEPREFIX"] = str(kept / "bytecode")
        _delete_unused(kept)


def _delete_unused(folder: Path) -> None:
    """Delete the files of a folder that have not been read for `KEPT_DAYS` days; once a day."""
    looked_at = folder / "looked-at"
    if looked_at.exists() and time.time() - looked_at.stat().st_mtime < 86400:
        return
    folder.mkdir(parents=True, exist_ok=True)
    looked_at.touch()
    oldest = time.time() - KEPT_DAYS * 86400
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file() and max(path.stat().st_atime, path.stat().st_mtime) < oldest:
                path.unlink()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files in which nothing runs, those of the package too, of which tests/conftest.py is not asked."""
    on_device, selection = config.getoption("device", None) == "cuda", config.stash.get(changed.SELECTION, None)
    if (on_device and devices.is_left_out(collection_path)) or (selection and selection.is_left_out(collection_path)):
        return True
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, Any, Any]:
    """Look for examples in docstrings of tests only where there are some: each worker looked for seconds."""
    collectors = yield
    if TESTS not in file_path.parents or b">>>" in file_path.read_bytes():
        return collectors
    return [each for each in collectors if not isinstance(each, DoctestModule)]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Keep the collector from the tests themselves: a pass over all of them takes more than a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Let what a module draws when it is imported not depend on the modules before it."""
    begin_case()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
    """Give the memory of freed arrays back after each file, or a worker keeps what the largest of all tests took."""
    result = yield
    if nextitem is None or nextitem.path != item.path:
        gradcore.empty_cache()
    return result


def _of(module: str, name: str) -> Any:
    """Return an object of a module."""
    return getattr(sys.modules[module], name)


def _lengths(module: str, *names: str) -> list[int]:
    tables = [_of(module, name) for name in names]
    found = [v for t in tables for v in ([t] if isinstance(t, dict) else vars(t).values()) if isinstance(v, dict)]
    return [len(table) for table in found if table]


@pytest.fixture(autouse=True)
def _gc_in_examples(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace["gc"] = gradcore


@pytest.fixture(autouse=True)
def _begun_alike() -> None:
    begin_case()


@pytest.fixture(autouse=True)
def _examples_restore_settings(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check that an example leaves every setting as it was, for what follows it in a reader's session."""
    if not isinstance(request.node, pytest.DoctestItem):
        yield
        return
    before = {name: read() for name, read in SETTINGS.items()}
    yield
    changed = {name: (before[name], after) for name, read in SETTINGS.items() if (after := read()) != before[name]}
    assert not changed, f"the example leaves changed: {changed}"
