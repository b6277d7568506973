"""The compiled library: the package's, or one that is built once for all tests, in a folder of their own."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.compiled import library
from gradcore.backends.compiled.building import BuildError, find_compiler
from tests.compiled.apart import digest_sources, store_library, write_compiler

Run = Callable[..., "subprocess.CompletedProcess[str]"]
#: Names and characters of kernels.
Ran = list[tuple[str, str]]
#: Paths of the libraries that tests have loaded.
LOADED: list[str] = []


def python(cache: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python with that folder of libraries."""
    variables = {**os.environ, "GRADCORE_CACHE": str(cache), "GRADCORE_COMPILED": "machine", **environment}
    return subprocess.run(
        [sys.executable, *arguments], env=variables, capture_output=True, text=True, check=False, timeout=1500
    )


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Use two threads in the test."""
    before = gc.get_num_threads()
    gc.set_num_threads(2)
    yield
    gc.set_num_threads(before)


@pytest.fixture
def run() -> Run:
    return python


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the paths of the libraries that tests have loaded, if a library was named."""
    if "GRADCORE_TEST_LIBRARY" in os.environ:
        terminalreporter.line(f"kernels of {', '.join(LOADED) or 'no library'}")


@pytest.fixture(scope="session")
def built() -> tuple[Path, str]:
    """Return a folder with the library of a build, and what the command said, with the place of the library left out.

    If the package has a library of its own, which the tests of the kernels use, this one is compiled without
    optimization, in a quarter of the time.
    """
    try:
        compiler = find_compiler()
    except BuildError as error:
        pytest.skip(str(error))
    import fcntl

    options = "" if library.find_packaged() is None else "-O0"
    # Copies of the project, and environments, run at the same time: a library fits one environment.
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    made_of = digest_sources(), compiler, version, options
    folder = Path(os.environ["GRADCORE_TEST_CACHE"], f"compiled {sha256(repr(made_of).encode()).hexdigest()[:24]}")
    cache, said, kept = folder / f"cache {library._environment()}", folder / "said.txt", folder / "library.so"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock, pytest.MonkeyPatch.context() as patch:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another worker may build it at the moment
        patch.setenv("GRADCORE_CACHE", str(cache))
        if not (kept.exists() and said.exists()):
            shutil.rmtree(cache, ignore_errors=True)
            done = python(cache, "-m", "gradcore.compiled", CXX=str(write_compiler(options, compiler)))
            assert done.returncode == 0, done.stderr
            (path,) = cache.iterdir()
            before, place, after = done.stdout.splitlines()[-1].partition(str(path))
            assert place, done.stdout
            said.write_text(f"{before}{after}")
            shutil.copy(path, folder / "partial")
            (folder / "partial").rename(kept)
        elif library.find() is None or len(list(cache.iterdir())) != 1:
            shutil.rmtree(cache, ignore_errors=True)
            store_library(kept.read_bytes(), cache)
    return cache, said.read_text()


@pytest.fixture(scope="session")
def library_variables(request: pytest.FixtureRequest) -> dict[str, str]:
    """Return the environment variables that make a process use compiled kernels.

    Of the folder that ``GRADCORE_TEST_LIBRARY`` names, as tests by sanitizers do; else of the package, if it was
    installed with those of these sources, so that nothing needs to be compiled.
    """
    if chosen := os.environ.get("GRADCORE_TEST_LIBRARY"):
        return {"GRADCORE_COMPILED": "machine", "GRADCORE_CACHE": chosen}
    if library.find_packaged() is not None:
        return {"GRADCORE_COMPILED": "package"}
    return {"GRADCORE_COMPILED": "machine", "GRADCORE_CACHE": str(request.getfixturevalue("built")[0])}


@pytest.fixture(scope="session")
def compiled(library_variables: dict[str, str]) -> Any:
    """Register the backend with compiled kernels as the device type ``compiled``."""
    from gradcore.backends import register
    from gradcore.backends.compiled.backend import CompiledBackend
    from gradcore.backends.registry import find

    class OnItsOwn(CompiledBackend):
        type = "compiled"
        in_tiles = True

    with pytest.MonkeyPatch.context() as patch:
        for name, value in library_variables.items():
            patch.setenv(name, value)
        loaded = library.load() if "GRADCORE_CACHE" in library_variables else library.load_packaged()
    assert loaded is not None
    LOADED.append(loaded._name)
    register("compiled", lambda: OnItsOwn(loaded))
    return find("compiled")


@contextlib.contextmanager
def with_new_kernels(compiled: Any) -> Iterator[None]:
    """Create kernels anew in the context and after it, since they and their plans keep the limits at their creation."""

    def forget() -> None:
        for stored in (compiled.kernels, compiled.kernels.small, compiled._choices, compiled._plans):
            stored.clear()

    forget()
    yield
    forget()


@pytest.fixture
def new_kernels(compiled: Any) -> Iterator[None]:
    """Create kernels anew in the test, and after it."""
    with with_new_kernels(compiled):
        yield


@pytest.fixture
def cache(library_variables: dict[str, str], tmp_path: Path) -> Path:
    """Return a folder with a library as the command leaves it, which a test may modify."""
    folder = tmp_path / "cache"
    if "GRADCORE_CACHE" in library_variables:
        return Path(shutil.copytree(library_variables["GRADCORE_CACHE"], folder))
    packaged = library.find_packaged()
    assert packaged is not None
    store_library(packaged.read_bytes(), folder)
    return folder


@pytest.fixture
def ran(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Return a list that collects the kernels that run through `CompiledCalls`."""
    from gradcore.backends.compiled.calls import CompiledCalls

    kernels: Ran = []
    find = CompiledCalls._function

    def noting(self: Any, name: str, char: str, *others: Any) -> Any:
        kernels.append((name, char))
        return find(self, name, char, *others)

    monkeypatch.setattr(CompiledCalls, "_function", noting)
    return kernels


@pytest.fixture(autouse=True)
def _silent_and_eager() -> Iterator[Callable[..., bool]]:
    """As operations run their kernels, but with loops also where NumPy is as fast."""
    from gradcore.backends.compiled import elementwise

    usual = elementwise._is_worth_it
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(elementwise, "_is_worth_it", lambda x, exact: True)
        yield usual


@pytest.fixture
def choose_as_usual(_silent_and_eager: Callable[..., bool], monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function after which loops run only where they are faster than NumPy, as in operations."""
    from gradcore.backends.compiled import elementwise

    return lambda: monkeypatch.setattr(elementwise, "_is_worth_it", _silent_and_eager)
