"""A plugin of pytest, ``-p tests.compiled.guard_pages``, for tests that run in a process of their own.

With ``GUARD=end``, NumPy's arrays end at a page that nobody may touch, with ``GUARD=start`` they begin after one: an
access beyond an array, of whichever kernel, ends the process. ``EVERY=5`` leaves one of five tests.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

#: The number of `PyDataMem_SetHandler` in NumPy's table of functions.
_SET_HANDLER = 304


def install(start: bool) -> None:
    """Let NumPy allocate so in this context from now on."""
    umath: Any = np._core._multiarray_umath  # type: ignore[attr-defined]
    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype = ctypes.POINTER(ctypes.c_void_p)
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_New.restype = ctypes.py_object
    api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    place = api.PyCapsule_GetPointer(umath._ARRAY_API, None)[_SET_HANDLER]
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(place or 0)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/guard_pages.so"
        source = Path(__file__).with_suffix(".c")
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", str(source), "-o", path], check=True)
        library = ctypes.CDLL(path)
    library.handler.restype, library.handler.argtypes = ctypes.c_void_p, [ctypes.c_int]
    set_handler(api.PyCapsule_New(library.handler(start), b"mem_handler", None))
    assert np._core.multiarray.get_handler_name(np.empty(3)) == "guard pages"  # type: ignore[attr-defined]


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Leave a part of the tests."""
    items[:] = items[:: int(os.environ.get("EVERY", "1"))]


if "GUARD" in os.environ:
    install(os.environ["GUARD"] == "start")
