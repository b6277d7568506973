"""GCC's sanitizers see nothing wrong in the library: no address, no undefined behaviour, no race."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from gradcore.compiled import loops
from tests.compiled.apart import COMPARED, digest_sources, run, store_library, write_compiler

#: What each needs to be known to Python from the start, and its options.
RUNTIMES = {"address,undefined": "libasan.so", "thread": "libtsan.so"}
IDS = "address", "thread"
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0",
    "TSAN_OPTIONS": "halt_on_error=1 exitcode=66 ignore_noninstrumented_modules=1 die_after_fork=0",
    "PYTHONMALLOC": "malloc",
}
#: A kernel that reads beyond its array, and threads that write to one place.
WRONG = """
#include <thread>
extern "C" int gradcore_wrong(int* x, int n) {
    std::thread other([=] { x[0] += 1; });
    x[0] += 2;
    other.join();
    return x[n];
}
"""
CALL = """
import ctypes, sys
import numpy as np
library, x = ctypes.CDLL(sys.argv[1]), np.ones(1000, "i4")
library.gradcore_wrong(ctypes.c_void_p(x.ctypes.data), 1000)
"""


def runtime(kind: str) -> dict[str, str]:
    """Return the environment in which Python loads a sanitizer's runtime, or skip if there is none."""
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    names = RUNTIMES[kind], "libstdc++.so"
    commands = [["g++", f"-print-file-name={name}"] for name in names]
    found = [subprocess.run(c, capture_output=True, text=True, check=True).stdout.strip() for c in commands]
    if not all(Path(path).is_absolute() for path in found):
        pytest.skip("GCC's sanitizers are not installed")
    return {"LD_PRELOAD": ":".join(found), **OPTIONS}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kind", "says"),
    [("address,undefined", "heap-buffer-overflow"), ("thread", "data race")],
    ids=IDS,
)
def test_what_is_wrong_is_reported(tmp_path: Path, kind: str, says: str) -> None:
    environment = runtime(kind)
    (tmp_path / "wrong.cpp").write_text(WRONG)
    options = f"-fsanitize={kind}", "-g", "-shared", "-fPIC", "-pthread"
    subprocess.run(["g++", *options, "wrong.cpp", "-o", "wrong.so"], cwd=tmp_path, check=True)
    done = run("-c", CALL, str(tmp_path / "wrong.so"), **environment)
    assert done.returncode != 0
    assert says in done.stderr


def sanitized(kind: str, folder: Path) -> Path:
    """Return the library, for any CPU and watched by a sanitizer, in a folder of its own.

    It is compiled once for all runs of the tests.
    """
    generic = "-march=x86-64 " if platform.machine() == "x86_64" else ""
    options = f"-O0 -g1 {generic}-fsanitize={kind} -fno-sanitize-recover=all"
    version = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout
    made_of = digest_sources(), options, version
    kept = Path(os.environ["GRADCORE_TEST_CACHE"], f"sanitized-{sha256(repr(made_of).encode()).hexdigest()[:24]}.so")
    if not kept.exists():
        compiler = write_compiler(options, "g++")
        built = run("-m", "gradcore.compiled", CXX=str(compiler), GRADCORE_CACHE=str(folder / "built"))
        assert built.returncode == 0, built.stderr
        (path,) = (folder / "built").iterdir()
        partial = kept.with_suffix(f".{os.getpid()}")
        shutil.copy(path, partial)
        partial.rename(kept)
    return store_library(kept.read_bytes(), folder / "cache")


def test_a_changed_loop_needs_another_library(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = set()
    for name in "loop_0", "loop_1":
        monkeypatch.setattr(loops, "sources", lambda name=name: {name: ""})
        digests.add(digest_sources.__wrapped__())
    assert len(digests) == 2


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "function"), [("address,undefined", b"__asan_"), ("thread", b"__tsan_")], ids=IDS)
def test_the_library(tmp_path: Path, kind: str, function: bytes) -> None:
    """The sources and all loops, for any CPU: so the formulas are used where others have instructions."""
    environment = runtime(kind)
    path = sanitized(kind, tmp_path)
    assert function in path.read_bytes()
    done = run(*COMPARED, EVERY="61", GRADCORE_TEST_LIBRARY=str(path.parent), **environment)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout
    assert f"kernels of {path}\n" in done.stdout
