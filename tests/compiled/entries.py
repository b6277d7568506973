"""A plugin of pytest, ``-p tests.compiled.entries``: the run fails if a function of the compiled library never ran.

The functions are those that the library exports: loops, kernels of each dtype, and the templates that they are made of.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from gradcore.backends.compiled import library

#: The names of the functions that are watched, in their order there, and what watches them.
_names: list[str] = []
_watching: list[ctypes.CDLL] = []
#: No kernels: C++'s own functions, what gives threads their parts, and what runs when the library is opened.
_OTHERS = re.compile(r"_ZN?K?St|_ZZ?N8gradcore6spread|gradcore_(share|describe|place_threads)$")


def _symbols(path: Path) -> dict[str, tuple[str, int]]:
    """Return the exported symbols of a library: name, kind, and address relative to the library."""
    command = ["nm", "--dynamic", "--defined-only", str(path)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = (line.split() for line in lines)
    return {name: (kind, int(place, 16)) for place, kind, name in found}


def _functions(loaded: ctypes.CDLL, path: Path) -> dict[int, str]:
    """Map the addresses of a library's functions, some of which are exported as pointers, to their names."""
    symbols = _symbols(path)
    known: Any = loaded.gradcore_describe
    origin = (ctypes.cast(known, ctypes.c_void_p).value or 0) - symbols["gradcore_describe"][1]
    found: dict[int, str] = {}
    for name, (kind, place) in symbols.items():
        if kind in "TW" and not _OTHERS.match(name):
            found[origin + place] = name
        elif kind == "D" and not name.startswith("_Z"):  # no variable
            found[ctypes.c_void_p.from_address(origin + place).value or 0] = name
    return found


def _watch(loaded: ctypes.CDLL, path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        built = f"{folder}/entries.so"
        source = Path(__file__).with_suffix(".c")
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", str(source), "-o", built], check=True)
        watching = ctypes.CDLL(built)
    functions = _functions(loaded, path)
    places = (ctypes.c_void_p * len(functions))(*functions)
    assert watching.watch(places, ctypes.c_int64(len(functions)))
    _watching.append(watching)
    _names.extend(functions.values())


_open = library.open_library


def _opened(path: Path) -> ctypes.CDLL:
    loaded = _open(path)
    if not _watching:
        _watch(loaded, path)
    return loaded


def pytest_configure() -> None:
    """Watch the library from when it is opened on."""
    library.open_library = _opened


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many functions were watched, and name those that were not entered."""
    left = _not_entered()
    terminalreporter.write_line(f"{len(_names)} functions were watched, {len(_names) - len(left)} ran")
    for name in left:
        terminalreporter.write_line(f"never ran: {name}")


def pytest_sessionfinish(session: Any) -> None:
    """Fail if there are any."""
    if not _names or _not_entered():
        session.exitstatus = 1


def _not_entered() -> list[str]:
    return [name for i, name in enumerate(_names) if not _watching[0].was_entered(ctypes.c_int64(i))]
