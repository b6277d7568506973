"""Control over the number of threads that the OpenBLAS libraries of NumPy and SciPy use.

Each of the two libraries has threads of its own, which keep their cores busy for some 30 ms after their last work. They
slow down each other and the threads that call them. Because of this, heads of attention took ten times as long, and a
factorisation of 128 by 128 numbers, whose derivative multiplies matrices, twenty-five times.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from gradcore.core.interrupts import run_despite_interrupts
from gradcore.core.locks import new_lock
from gradcore.core.typing import NamedTuple

__all__ = ["NUMPY", "SCIPY", "OneThread", "has_avx512"]


class Library(NamedTuple):
    """OpenBLAS library that a package contains.

    Attributes
    ----------
    read, write : callable
        Functions that return and set the number of threads.
    loaded : CDLL
        The library.
    prefix, suffix : str
        First and last part of the names of its functions. The suffix ``"64_"`` says that their integers have 64 bits.
    """

    read: Callable[[], int]
    write: Callable[[int], Any]
    loaded: ctypes.CDLL
    prefix: str
    suffix: str


def _library(package: str) -> Library | None:
    """Load and return the OpenBLAS library that a package contains, or None if it has none."""
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
    """Control over the threads of a package's OpenBLAS: it uses one while any thread is inside the context `alone`.

    Parameters
    ----------
    package : str
        ``"numpy"`` or ``"scipy"``, which is imported when the context is first entered.
    """

    def __init__(self, package: str) -> None:
        self.package = package
        self.forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Reset all state, as in the child of a fork, where the threads that were inside do not exist."""
        # An RLock, because the garbage collector may make a dropped context leave while this thread enters another.
        self.lock = new_lock()
        self.users: set[int] = set()
        self.before: int | None = None

    @functools.cached_property
    def library(self) -> Library | None:
        """The package's OpenBLAS library, or None if it has none."""
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
        """Make the library use one thread until `user`, the id of a context, has left."""
        library = self.library
        with self.lock:
            first = not self.users
            self.users.add(user)
            if first and library is not None:
                self.before = library.read()
                library.write(1)

    def leave(self, user: int) -> None:
        """Restore the number of threads if no user other than `user` is inside.

        The user is removed in the last step. Until then, the method can be called again after an interrupt.
        """
        with self.lock:
            if self.users <= {user} and self.before is not None and self.library is not None:
                self.library.write(self.before)
                self.before = None
            self.users.discard(user)


class _Left:
    """Context of `OneThread.alone` that was left. It has no ``__del__``, in which Python would drop an interrupt."""

    __slots__ = ("of",)

    of: OneThread


class _Alone(_Left):
    """Context of `OneThread.alone`, which is always left, even after Ctrl-C while it is entered or left."""

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
        of = getattr(self, "of", None)  # None if Ctrl-C interrupted `__init__`
        if of is not None and id(self) in of.users:
            of.leave(id(self))
        self.__class__ = _Left  # type: ignore[assignment]

    __del__ = _leave


NUMPY, SCIPY = OneThread("numpy"), OneThread("scipy")
