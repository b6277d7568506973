"""What tests of `compile` share: quick builds of programs in C++, and the verification of every call.

``GRADCORE_COMPILE_VERIFY=1`` has every call of a program verified.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gradcore.backends.compiled.building import BuildError, find_compiler
from gradcore.backends.compiled.library import FLAGS, HERE, NATIVE, compute_digest
from gradcore.compiler.program import passes
from gradcore.compiler.program.memory import MemoryPlan
from gradcore.compiler.program.program import Program
from gradcore.compiler.targets.native import building
from gradcore.compiler.targets.python import emitter
from gradcore.core import config as settings
from tests.compiler.program_checks import check_pass, check_plan, check_program


def has_compiler() -> bool:
    """Return whether programs can be compiled to C++ here."""
    try:
        find_compiler()
    except BuildError:
        return False
    return sys.implementation.name == "cpython"


@pytest.fixture(scope="session")
def kept() -> Path:
    """Return the folder of compiled programs that later test runs reuse."""
    folder = Path(os.environ["GRADCORE_TEST_CACHE"]) / "programs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _ingredients() -> tuple[Any, ...]:
    """Return all that a program is compiled from, but not where: another copy of the package, as CI makes, uses it."""
    return [path.read_text() for path in building._HEADERS], compute_digest(), building._compiler(), FLAGS, NATIVE


def _name(ingredients: tuple[Any, ...]) -> str:
    return hashlib.sha256(repr(ingredients).encode()).hexdigest()[:32]


@pytest.fixture(scope="session")
def options(kept: Path) -> tuple[str, ...]:
    """Compiler options with which most programs take a third of the time.

    What is shown is correctness, so there is less optimization; and the header that all programs begin with is compiled
    beforehand.
    """
    lower = tuple("-O1" if option == "-O2" else option for option in building._OPTIONS)
    folders = [f"-I{path.parent}" for path in (Path(HERE, "x"), *building._HEADERS)]
    flags = [flag for flag in FLAGS if flag != "-O3"]
    command = [find_compiler(), *flags, *NATIVE, *lower, *folders, "-x", "c++-header", "program.h"]
    place = kept / f"header-{_name((flags, lower, _ingredients()))}"
    if not place.exists():
        partial = Path(tempfile.mkdtemp(dir=kept))
        shutil.copy(building._HEADERS[0], partial)
        subprocess.run([*command, "-o", "program.h.gch"], cwd=partial, capture_output=True, check=True)
        with suppress(OSError):  # another process may have been faster
            partial.rename(place)
        shutil.rmtree(partial, ignore_errors=True)
    return f"-I{place}", *lower


@pytest.fixture
def quick_builds(request: pytest.FixtureRequest, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile each program once for all runs of the tests, and quickly."""
    if not has_compiler():
        return
    header, *lower = request.getfixturevalue("options")
    monkeypatch.setattr(building, "_OPTIONS", (header, *lower))
    compile_source, ingredients = building._compile, _ingredients()

    def compile_once(source: str, folder: Path) -> bytes:
        path = kept / f"program-{_name((source, lower, ingredients))}"
        if not path.exists():
            partial = path.with_suffix(f".{os.getpid()}")
            partial.write_bytes(compile_source(source, folder))
            partial.rename(path)
        return path.read_bytes()

    monkeypatch.setattr(building, "_compile", compile_once)


@pytest.fixture(autouse=True)
def checked_programs() -> Iterator[None]:
    """Check each program after each pass, and each memory plan."""
    run_passes, plan = passes.run_passes, emitter.memory_plan

    def run_and_check(program: Program) -> Iterator[tuple[str, Program]]:
        check_program(program)
        for name, after in run_passes(program):
            check_pass(program, after)
            program = after
            yield name, after

    def checked(rewrite: Callable[..., Program]) -> Callable[..., Program]:
        def run(program: Program, *args: Any) -> Program:
            after = rewrite(program, *args)
            check_pass(program, after)
            return after

        return run

    def plan_and_check(program: Program) -> MemoryPlan:
        result = plan(program)
        check_plan(program, result)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "run_passes", run_and_check)
        patch.setattr(emitter, "memory_plan", plan_and_check)
        for name in ("fuse_calls", "use_numpy", "list_calls"):
            patch.setattr(emitter, name, checked(getattr(emitter, name)))
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what cannot be seen where programs are verified; what is not verified need not be told."""
    if not settings.COMPILE_VERIFY:
        return
    for item in items:
        if "tests/compiler/" in item.nodeid:
            item.add_marker(pytest.mark.filterwarnings("ignore:compile.*are not verified:UserWarning"))
            mark = item.get_closest_marker("unverified")
            if mark is not None:
                item.add_marker(pytest.mark.skip(reason=mark.args[0]))
