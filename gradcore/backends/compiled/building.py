"""Compilation of the library from hand-written sources and generated loops."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

from gradcore.backends.compiled.cache import cache_folder
from gradcore.backends.compiled.library import FLAGS, HERE, NATIVE, PHILOX, libraries, name_of, variant_name
from gradcore.backends.compiled.variants import FOLDER, Variant, variants_of_machine
from gradcore.backends.compiled.workplaces import workplace

__all__ = ["SOURCES", "BuildError", "build", "build_variants", "find_compiler"]

#: The sources written by hand, with options of their own. Those that take longest come first, so that the last
#: compilers end at about the same time.
SOURCES: dict[str, tuple[str, ...]] = {
    "rows.cpp": (), "recurrent.cpp": ("-ffp-contract=fast",), "reductions.cpp": (), "indexing.cpp": (),
    "matrices.cpp": (), "convolution.cpp": ("-ffp-contract=fast",), "conversions.cpp": (), "ctc.cpp": (),
    "halves.cpp": (), "elementwise.cpp": (), "pool.cpp": (), "sorting.cpp": (), "steps.cpp": (),
    "products.cpp": ("-ffp-contract=fast",), "fourier.cpp": ("-ffp-contract=fast",), "narrow.cpp": (),
    "pooling.cpp": (), "random.cpp": (), "attention.cpp": (), "factors.cpp": ("-ffp-contract=fast",),
    "memory.cpp": (),
}  # fmt: skip
#: Linker script for the package's libraries: functions of C++ (`_Z...`) are not exported.
_EXPORTS = "{ local: _Z*; };\n"
#: Function that is called with one line of text when a file has been compiled.
Report = Callable[[str], object]


class BuildError(RuntimeError):
    """Raised if the library cannot be built. The message says why."""


def find_compiler() -> str:
    """Return the path of a C++ compiler: that of ``CXX``, or else c++, g++ or clang++.

    Raises
    ------
    BuildError
        If there is none.
    """
    if os.name != "posix":
        raise BuildError("Compiled kernels are for Linux and macOS.")
    chosen = os.environ.get("CXX")
    for name in (chosen,) if chosen else ("c++", "g++", "clang++"):
        path = shutil.which(name)
        if path:
            return path
    looked_for = f"CXX is {chosen!r}, which was not found" if chosen else "c++, g++ and clang++ were not found"
    hint = "xcode-select --install" if sys.platform == "darwin" else "for example: apt install g++"
    raise BuildError(f"There is no C++ compiler: {looked_for}. Install one ({hint}), or name one by CXX.")


def build(loops: Iterable[str], parts: int, report: Report | None = None) -> Path:
    """Compile the library for this machine's CPU into the user's folder.

    Parameters
    ----------
    loops : iterable of str
        Sources of loops.
    parts : int
        How many compilers run at a time.
    report : callable, optional
        Called with a line of text when a file has been compiled.

    Returns
    -------
    Path
        The library.

    Raises
    ------
    BuildError
        If there is no compiler, or if it fails.
    """
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
        (library,) = _compile(compiler, folder, loops, parts, {"library": NATIVE}, report)
        old, target = libraries(), cache / name_of(library.read_bytes())
        os.replace(library, target)
    for path in old:
        if path != target:
            path.unlink(missing_ok=True)
    return target


def build_variants(
    loops: Iterable[str],
    parts: int,
    folder: Path = Path(FOLDER),
    variants: Iterable[Variant] | None = None,
    report: Report | None = None,
) -> list[Path]:
    """Compile one library for each instruction set into the package or another folder.

    Parameters
    ----------
    loops : iterable of str
        Sources of loops.
    parts : int
        How many compilers run at a time.
    folder : Path
        The folder for the libraries. Libraries of other sources are deleted from it.
    variants : iterable of Variant, optional
        The instruction sets; by default all of this architecture.
    report : callable, optional
        Called with a line of text when a file has been compiled.

    Returns
    -------
    list of Path
        The libraries. Those that are there already are not compiled again.

    Raises
    ------
    BuildError
        If there is no compiler, or if it fails.
    """
    flags_by_name = {
        variant_name(variant): variant.flags for variant in (variants_of_machine() if variants is None else variants)
    }
    current = {variant_name(variant) for variant in variants_of_machine()}
    folder.mkdir(exist_ok=True)
    missing = {name: flags for name, flags in flags_by_name.items() if not (folder / name).exists()}
    if missing:
        compiler = find_compiler()
        with tempfile.TemporaryDirectory() as temporary:
            for library in _compile(compiler, Path(temporary), loops, parts, missing, report, is_packaged=True):
                copied = shutil.copy2(library, folder / f"{library.name}.new")
                os.replace(copied, folder / library.name)
    for path in folder.iterdir():
        if path.name not in current:
            path.unlink()
    return [folder / name for name in flags_by_name]


def _compile(
    compiler: str,
    folder: Path,
    loops: Iterable[str],
    parts: int,
    variants: dict[str, tuple[str, ...]],
    report: Report | None,
    is_packaged: bool = False,
) -> list[Path]:
    """Compile the libraries with these names and further options in a folder.

    With `is_packaged`, libraries for Linux have no names but those of exported functions.
    """
    linker_options: list[str] = []
    if is_packaged and sys.platform == "linux":
        script = folder / "exports.map"
        script.write_text(_EXPORTS)
        linker_options = ["-Wl,--strip-all", f"-Wl,--version-script={script}"]
    pieces = list(loops)
    sources = [Path(HERE, name) for name in SOURCES]
    for i in range(parts):
        path = folder / f"loops{i}.cpp"
        path.write_text("\n".join(['#include "elements.h"', "namespace gradcore {", *pieces[i::parts], "}", ""]))
        sources.insert(i, path)
    objects = {name: [str(folder / f"{name}-{source.stem}.o") for source in sources] for name in variants}
    compiling = {
        f"{name.partition('-')[0]}: {source.name}": [
            compiler, *FLAGS, *flags, *SOURCES.get(source.name, ()), f"-I{HERE}",
            f"-I{os.path.dirname(PHILOX)}", "-c", str(source), "-o", compiled
        ]
        for name, flags in variants.items()
        for source, compiled in zip(sources, objects[name], strict=True)
    }  # fmt: skip
    _run_all(compiling, parts, report)
    linking = {
        name: [compiler, "-shared", *linker_options, *objects[name], "-o", str(folder / name)] for name in variants
    }
    _run_all(linking, parts, report)
    for name in variants:
        (folder / name).chmod(0o755)  # Libraries that other users can write to are not loaded.
    return [folder / name for name in variants]


def _run_all(commands: dict[str, list[str]], parts: int, report: Report | None) -> None:
    """Run named commands, `parts` at a time, and report each one that has ended.

    If an exception ends this function (Ctrl-C, say), the commands and their child processes end too.
    """
    from concurrent.futures import ThreadPoolExecutor, wait  # slow to import

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
        started = [pool.submit(run, command) for command in commands.values()]
        for number, (name, future) in enumerate(zip(commands, started, strict=True), 1):
            while not future.done():
                wait((future,), 0.2)  # Python handles Ctrl-C between these waits.
            future.result()
            if report is not None:
                report(f"[{number}/{len(commands)}] {name}")
    finally:
        ended = True
        for process in running:
            _kill(process)
        pool.shutdown(cancel_futures=True)


def _kill(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
