"""Prints what of the process's state `import gradcore`, and then a small computation, have changed."""

import atexit
import builtins
import copyreg
import ctypes
import decimal
import faulthandler
import gc
import glob
import locale
import logging
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np


class Heap(ctypes.Structure):
    """The result of mallinfo2."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"
    ))  # fmt: skip


def mapped() -> int:
    """How many mappings of its own a large array is given: one, unless the C library was told otherwise."""
    try:
        read = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError, TypeError):  # another C library
        return 1
    read.restype = Heap
    before = read().hblks
    held = np.empty(1 << 26, np.uint8)
    return int(read().hblks) - before + len(held[:0])


def blas_threads() -> list[int]:
    """Return the numbers of threads of NumPy's OpenBLAS libraries."""
    libraries = [ctypes.CDLL(path) for path in glob.glob(f"{os.path.dirname(np.__file__)}.libs/*openblas*")]
    return [library.scipy_openblas_get_num_threads64_() for library in libraries]


def placement() -> dict[str, Any]:
    """Return the threads of the process, and the cores on which each may run."""
    if not os.path.isdir("/proc/self/task"):
        return {}
    return {name: os.sched_getaffinity(int(name)) for name in os.listdir("/proc/self/task")}


STATE: dict[str, Callable[[], Any]] = {
    "environment": lambda: dict(os.environ),
    "working directory": os.getcwd,
    "locale": lambda: locale.setlocale(locale.LC_ALL),
    "warnings": lambda: (list(warnings.filters), warnings.showwarning, warnings.formatwarning),
    "hooks": lambda: (sys.excepthook, sys.unraisablehook, sys.displayhook, sys.breakpointhook, threading.excepthook),
    "functions of Python": lambda: dict(vars(builtins)),
    "functions of NumPy": lambda: {name: id(value) for name, value in vars(np).items()},
    "functions of ctypes": lambda: [name for name in vars(ctypes.pythonapi) if not name.startswith("_")],
    "imports": lambda: (
        [finder for finder in sys.meta_path if not type(finder).__module__.startswith("gradcore.")],
        list(sys.path_hooks),
        list(sys.path),
    ),
    "pickling": lambda: dict(copyreg.dispatch_table),
    "streams": lambda: (sys.stdin, sys.stdout, sys.stderr),
    "signals": lambda: {number: signal.getsignal(number) for number in signal.valid_signals()},
    "faults": faulthandler.is_enabled,
    "collector": lambda: (
        gc.isenabled(),
        gc.get_threshold(),
        gc.get_freeze_count(),
        list(gc.callbacks),
        gc.get_debug(),
    ),
    "interpreter": lambda: (sys.getrecursionlimit(), sys.getswitchinterval(), sys.gettrace(), sys.getprofile()),
    "functions at exit": getattr(atexit, "_ncallbacks", int),
    "logging": lambda: (list(logging.root.handlers), logging.root.level, sorted(logging.root.manager.loggerDict)),
    "random numbers": lambda: (random.getstate(), repr(np.random.get_state())),
    "decimals": lambda: repr(decimal.getcontext()),
    "errors of NumPy": lambda: (np.geterr(), np.geterrcall(), np.getbufsize()),
    "printing of NumPy": np.get_printoptions,
    "denormals": lambda: (float(np.float32(1e-40) * np.float32(1.5)) > 0, 5e-324 * 1.5 > 0),
    "threads": lambda: (threading.active_count(), placement(), blas_threads()),
    "files": lambda: sorted(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else [],
    "memory": mapped,
}


def read() -> dict[str, Any]:
    """All of the state."""
    return {name: look() for name, look in STATE.items()}


def tell(when: str, before: dict[str, Any]) -> None:
    """Print what differs."""
    for name, value in read().items():
        if value != before[name]:
            print(f"{when}: {name}: {before[name]} -> {value}")


def main() -> None:
    """Import gradcore and compute a little."""
    read()  # what looking changes
    before = read()

    import gradcore

    tell("import", before)
    x = gradcore.ones(3, 3, requires_grad=True)
    ((x @ x).exp() / x.softmax(0)).log().sum().backward()
    gradcore.rand(3)
    tell("small computation", before)
    repr(x.grad)

    for finder in sys.meta_path:
        if type(finder).__module__.startswith("gradcore.") and finder.find_spec("colorsys") is not None:
            print("a finder of gradcore's finds modules of others")
    if "large" in sys.argv:
        gradcore.ones(1 << 20).exp()
        print("large:", *(name for name, value in read().items() if value != before[name]))


if __name__ == "__main__":
    main()
