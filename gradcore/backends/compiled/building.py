"""How the compiled library is made: sources written by hand, and generated loops beside them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from pathlib import Path

from gradcore.backends.compiled import cache_folder
from gradcore.backends.compiled.library import FLAGS, HERE, libraries, name_of
from gradcore.backends.compiled.workplaces import workplace

__all__ = ["SOURCES", "BuildError", "build", "find_compiler"]

#: The sources written by hand, with options of their own.
SOURCES: dict[str, tuple[str, ...]] = {
    "convolution.cpp": ("-ffp-contract=fast",), "elementwise.cpp": (), "pool.cpp": (), "products.cpp": (),
    "rows.cpp": (), "steps.cpp": (),
}  # fmt: skip


class BuildError(RuntimeError):
    """The library cannot be built; the message says why, in words."""


def find_compiler() -> str:
    """The path of a compiler of C++: that of ``CXX``, or c++, g++ or clang++.

    Raises
    ------
    BuildError
        If there is none.
    """
    chosen = os.environ.get("CXX")
    for name in (chosen,) if chosen else ("c++", "g++", "clang++"):
        path = shutil.which(name)
        if path:
            return path
    looked_for = f"CXX is {chosen!r}, which was not found" if chosen else "c++, g++ and clang++ were not found"
    hint = "xcode-select --install" if sys.platform == "darwin" else "for example: apt install g++"
    raise BuildError(f"There is no C++ compiler: {looked_for}. Install one ({hint}), or name one by CXX.")


def build(loops: Iterable[str], parts: int) -> Path:
    """Compile the sources and generated loops.

    Parameters
    ----------
    loops : iterable of str
        Sources of loops.
    parts : int
        How many compilers run at a time.

    Returns
    -------
    Path
        The library.

    Raises
    ------
    BuildError
        If there is no compiler, or if it fails.
    """
    if os.name != "posix":
        raise BuildError("Compiled kernels are for Linux and macOS.")
    compiler, kept_in = find_compiler(), cache_folder()
    if kept_in is None:
        raise BuildError("There is no place for the library. Name an absolute folder by GRADCORE_CACHE.")
    cache = Path(kept_in)
    with ExitStack() as stack:
        try:
            cache.mkdir(mode=0o755, parents=True, exist_ok=True)
            folder = stack.enter_context(workplace(cache))
        except OSError as error:
            raise BuildError(f"There is no place for the library: {error}. Name a folder by GRADCORE_CACHE.") from None
        pieces = list(loops)
        sources = [HERE / name for name in SOURCES]
        for i in range(parts):
            path = folder / f"loops{i}.cpp"
            path.write_text("\n".join(['#include "elements.h"', "namespace gradcore {", *pieces[i::parts], "}", ""]))
            sources.append(path)
        objects = [str(folder / f"{source.stem}.o") for source in sources]
        commands = [
            [compiler, *FLAGS, *SOURCES.get(source.name, ()), f"-I{HERE}", "-c", str(source), "-o", compiled]
            for source, compiled in zip(sources, objects, strict=True)
        ]
        _run_all(commands, parts)
        library = folder / "library.so"
        _run_all([[compiler, "-shared", *objects, "-o", str(library)]], 1)
        library.chmod(0o755)  # a library that others may write to is not loaded
        old, target = libraries(), cache / name_of(library.read_bytes())
        os.replace(library, target)
    for path in old:
        if path != target:
            path.unlink(missing_ok=True)
    return target


def _run_all(commands: list[list[str]], parts: int) -> None:
    """Run these, so many at a time. Whatever ends this, as Ctrl-C does, ends them, and what they have started."""
    running: list[subprocess.Popen[str]] = []
    ended = False

    def run(command: list[str]) -> None:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, process_group=0
        )
        running.append(process)
        if ended:
            _kill(process)
        _, errors = process.communicate()
        if process.returncode:
            raise BuildError(f"The compiler failed: {' '.join(command)}\n{errors[:4000]}")

    pool = ThreadPoolExecutor(parts)
    try:
        for done in [pool.submit(run, command) for command in commands]:
            while not done.done():
                wait((done,), 0.2)  # and then there is a step at which Ctrl-C is noticed
            done.result()
    finally:
        ended = True
        for process in running:
            _kill(process)
        pool.shutdown(cancel_futures=True)


def _kill(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
