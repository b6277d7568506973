"""The number of threads that the OpenBLAS libraries of NumPy and SciPy use.

Each of the two has threads of its own, which keep their cores busy for some 30 ms after their last work. So they are in
the way of each other, and of threads that call them: heads of attention took ten times as long, and a factorisation of
128 by 128 numbers, whose derivative multiplies matrices, twenty-five times.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from gradcore.core.interrupts import run_despite_interrupts

__all__ = ["NUMPY", "SCIPY", "OneThread", "has_avx512"]


class Library(NamedTuple):
    """The OpenBLAS that a package brings.

    Attributes
    ----------
    read, write : callable
        The number of threads.
    loaded : CDLL
    prefix, suffix : str
        What the names of its functions begin and end with. ``"64_"`` says that their integers have 64 bits.
    """

    read: Callable[[], int]
    write: Callable[[int], Any]
    loaded: ctypes.CDLL
    prefix: str
    suffix: str


def _library(package: str) -> Library | None:
    """Return the OpenBLAS that a package brings, or None."""
    from glob import glob

    folder = os.path.dirname(importlib.import_module(package).__file__ or "")
    for path in glob(f"{folder}.libs/*openblas*") + glob(f"{folder}/.dylibs/*openblas*"):
        library = ctypes.CDLL(path)
        for prefix in ("scipy_", ""):
            for suffix in ("64_", ""):
                names = (f"{prefix}openblas_{verb}_num_threads{suffix}" for verb in ("get", "set"))
                read, write = (getattr(library, name, None) for name in names)
                if read is not None and write is not None:
                    return Library(read, write, library, prefix, suffix)
    return None


def has_avx512() -> bool:
    """Return whether NumPy, and so OpenBLAS, detects AVX-512."""
    umath = sys.modules.get("numpy._core._multiarray_umath")
    return bool(getattr(umath, "__cpu_features__", {}).get("AVX512_SKX"))


class OneThread:
    """Control over the threads of a package's OpenBLAS: it uses one as long as somebody is in the context `alone`.

    Parameters
    ----------
    package : str
        ``"numpy"`` or ``"scipy"``; imported when the context is first entered.
    """

    def __init__(self, package: str) -> None:
        self.package = package
        self.forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Reset all state, as in the child of a fork, where the threads that were inside do not exist."""
        #: (An RLock, as the garbage collector may find one that left unseen while another one enters.)
        self.lock = threading.RLock()
        self.users: set[int] = set()
        self.before: int | None = None

    @functools.cached_property
    def library(self) -> Library | None:
        """The package's OpenBLAS, or None."""
        return _library(self.package)

    def function(self, name: str) -> tuple[int, bool] | None:
        """Return the address of a function of CBLAS and whether its integers have 64 bits, or None."""
        library = self.library
        if library is None:
            return None
        function = getattr(library.loaded, f"{library.prefix}cblas_{name}{library.suffix}", None)
        if function is None:
            return None
        return ctypes.cast(function, ctypes.c_void_p).value or 0, library.suffix == "64_"

    def allow(self, number: int) -> None:
        """Set the number of threads that the library uses outside of the context."""
        library = self.library
        with self.lock:
            if self.users:
                self.before = number
            elif library is not None:
                library.write(number)

    def alone(self) -> _Alone:
        """Return a context in which the library uses one thread."""
        return _Alone(self)

    def enter(self, user: int) -> None:
        """Make the library use one thread, as long as `user` is inside."""
        library = self.library
        with self.lock:
            first = not self.users
            self.users.add(user)
            if first and library is not None:
                self.before = library.read()
                library.write(1)

    def leave(self, user: int) -> None:
        """Restore the number of threads if no other user is inside.

        The user is removed last: until then, all of this can be repeated after an interrupt.
        """
        with self.lock:
            if self.users <= {user} and self.before is not None and self.library is not None:
                self.library.write(self.before)
                self.before = None
            self.users.discard(user)


class _Left:
    """A context of `OneThread.alone` that was left. It has no ``__del__``, in which Python would drop an interrupt."""

    __slots__ = ("of",)

    of: OneThread


class _Alone(_Left):
    """The context of `OneThread.alone`, which is left also if Ctrl-C comes while it is entered or left."""

    __slots__ = ()

    def __init__(self, of: OneThread) -> None:
        self.of = of

    def __enter__(self) -> None:
        try:
            self.of.enter(id(self))
        except BaseException:
            run_despite_interrupts(self._leave)
            raise

    def __exit__(self, *_: object) -> None:
        try:
            self.of.leave(id(self))
        except BaseException:
            run_despite_interrupts(self._leave)
            raise
        self.__class__ = _Left  # type: ignore[assignment]

    def _leave(self) -> None:
        of = getattr(self, "of", None)  # which Ctrl-C may have come before
        if of is not None and id(self) in of.users:
            of.leave(id(self))
        self.__class__ = _Left  # type: ignore[assignment]

    __del__ = _leave


NUMPY, SCIPY = OneThread("numpy"), OneThread("scipy")
