"""Building, finding and switching off compiled kernels, in processes of their own."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from numpy._core._multiarray_umath import __cpu_features__

import gradcore
from gradcore.backends.compiled.library import HERE as SOURCES
from gradcore.backends.compiled.library import find_packaged
from gradcore.backends.compiled.variants import Variant, choose_variant, variants_of_machine
from tests.compiled.conftest import Run

PACKAGE = Path(gradcore.__file__).parent
USED = "import gradcore; from gradcore import compiled; print(compiled.is_used())"
WORKS = (
    "import gradcore as gc; x = gc.linspace(-1, 1, 100000, requires_grad=True);"
    "gc.nn.functional.gelu(x).sum().backward(); print(round(x.grad.sum().item()))"
)


@pytest.mark.slow
def test_the_command_builds(built: tuple[Path, str]) -> None:
    cache, said = built
    assert len(list(cache.iterdir())) == 1
    assert said.startswith("Built in ")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("switch", "used"), [("auto", "True"), ("1", "True"), ("0", "False")])
def test_the_switch(cache: Path, run: Run, switch: str, used: str) -> None:
    done = run(cache, "-W", "error", "-c", USED, GRADCORE_COMPILED=switch)
    assert (done.stdout.strip(), done.stderr) == (used, "")
    said = run(cache, "-m", "gradcore.compiled", "status", GRADCORE_COMPILED=switch).stdout
    assert ("switched off" if switch == "0" else "are built: ") in said


@pytest.mark.slow
def test_nothing_is_built_or_said_without_being_asked(tmp_path: Path, run: Run) -> None:
    done = run(tmp_path / "cache", "-W", "error", "-c", f"{USED}; {WORKS}")
    assert (done.stdout.split(), done.stderr) == (["False", "50000"], "")
    assert not (tmp_path / "cache").exists()
    assert (
        "not built; to build them: python -m gradcore.compiled"
        in run(tmp_path / "cache", "-m", "gradcore.compiled", "status").stdout
    )


def test_importing_does_not_import_what_is_not_needed(tmp_path: Path, run: Run) -> None:
    code = "import gradcore, sys; print([m for m in sys.modules if m.startswith('gradcore.backends.compiled.')])"
    assert run(tmp_path / "cache", "-c", code).stdout.strip() == "['gradcore.backends.compiled.cache']"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a folder with a copy of the package without libraries."""
    shutil.copytree(PACKAGE, tmp_path / "site" / "gradcore", ignore=shutil.ignore_patterns("variants", "__pycache__"))
    return tmp_path / "site"


@pytest.mark.slow
def test_asking_for_what_is_not_built_warns(tmp_path: Path, package: Path, run: Run) -> None:
    done = run(tmp_path / "cache", "-c", USED, GRADCORE_COMPILED="1", PYTHONPATH=str(package), PYTHONSAFEPATH="1")
    assert done.stdout.strip() == "False"
    assert "GRADCORE_COMPILED is 1, but compiled kernels are not built" in done.stderr


def test_an_unknown_switch_is_refused(tmp_path: Path, run: Run) -> None:
    done = run(tmp_path, "-c", USED, GRADCORE_COMPILED="perhaps")
    assert "GRADCORE_COMPILED must be one of 'auto', '0', '1', 'machine', 'package', but got 'perhaps'" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_a_damaged_library_is_not_loaded(cache: Path, run: Run, damage: str) -> None:
    (library,) = cache.iterdir()
    content = library.read_bytes()
    changed = content[:5000] + b"damage" + content[5006:]
    library.write_bytes({"cut": content[: len(content) // 2], "changed": changed, "empty": b""}[damage])
    done = run(cache, "-c", f"{USED}; {WORKS}")
    assert done.stdout.split() == ["False", "50000"]
    assert "cannot be loaded: the file is damaged. To build them anew: python -m gradcore.compiled" in done.stderr
    assert run(cache, "-W", "error", "-c", USED, GRADCORE_COMPILED="0").returncode == 0


def test_what_is_no_library_is_not_loaded(cache: Path, run: Run) -> None:
    """Although its name fits: something else was written in the first place."""
    import hashlib

    (library,) = cache.iterdir()
    text = b"this is not a library"
    name = library.name.replace(library.stem.rpartition("-")[2], hashlib.sha256(text).hexdigest()[:16])
    library.unlink()
    (cache / name).write_bytes(text)
    done = run(cache, "-c", USED)
    assert done.stdout.strip() == "False"
    assert "Compiled kernels cannot be loaded" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("what", ["folder", "file"])
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_what_others_may_write_to_is_not_loaded(cache: Path, run: Run, what: str, mode: int) -> None:
    (library,) = cache.iterdir()
    changed = cache if what == "folder" else library
    before = changed.stat().st_mode
    changed.chmod(mode)
    done = run(cache, "-c", f"{USED}; {WORKS}")
    assert done.stdout.split() == ["False", "50000"]
    assert f"cannot be loaded: others may write to {changed}" in done.stderr
    changed.chmod(before)
    assert run(cache, "-W", "error", "-c", USED).stdout.strip() == "True"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_belongs_to_another_user_is_not_loaded(cache: Path, run: Run, what: str) -> None:
    (library,) = cache.iterdir()
    changed = cache if what == "folder" else library
    os.chown(changed, 65534, -1)
    done = run(cache, "-c", f"{USED}; {WORKS}")
    assert done.stdout.split() == ["False", "50000"]
    assert f"cannot be loaded: {changed} belongs to another user" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "variables",
    [
        {"GRADCORE_CACHE": "cache"},
        {"GRADCORE_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "here"},
        {"GRADCORE_CACHE": "", "XDG_CACHE_HOME": "caches", "HOME": "/nonexistent"},
    ],
)
def test_no_folder_in_the_working_directory_is_searched(
    tmp_path: Path, run: Run, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("cache", "here/.cache/gradcore", "here/Library/Caches/gradcore", "caches/gradcore"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(gradcore.__file__).parents[1]))
    code = "from gradcore.backends.compiled import cache_folder as f; print(f() is None or f()[0] == '/')"
    done = run(tmp_path, "-c", code, **variables)
    assert done.stdout.strip() == "True", done.stderr
    if variables["GRADCORE_CACHE"]:
        done = run(tmp_path, "-m", "gradcore.compiled", **variables)
        assert done.returncode == 1
        assert "Name an absolute folder by GRADCORE_CACHE" in done.stderr or "no C++ compiler" in done.stderr


@pytest.mark.slow
def test_a_library_without_the_functions_is_not_loaded(cache: Path, run: Run, tmp_path: Path) -> None:
    """Although its name fits, as that is no secret."""
    import hashlib
    import subprocess

    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))))
    for text, said in (
        ("int x;", "it is no library of gradcore"),
        (None, "it lacks the function gradcore_correlate_f"),
    ):
        sources = [tmp_path / "x.cpp"]
        if text is None:
            sources = [Path(SOURCES, "elementwise.cpp"), Path(SOURCES, "pool.cpp"), Path(SOURCES, "memory.cpp")]
        else:
            sources[0].write_text(text)
        made = tmp_path / "x.so"
        flags = ["-std=c++17", "-shared", "-fPIC", "-pthread", f"-I{SOURCES}"]
        subprocess.run([compiler, *flags, *map(str, sources), "-o", str(made)], check=True)
        (library,) = cache.iterdir()
        content = made.read_bytes()
        library.unlink()
        stem, _, _ = library.stem.rpartition("-")
        (cache / f"{stem}-{hashlib.sha256(content).hexdigest()[:16]}.so").write_bytes(content)
        done = run(cache, "-c", f"{USED}; {WORKS}")
        assert done.stdout.split() == ["False", "50000"], done.stderr
        assert f"cannot be loaded: {said}" in done.stderr


@pytest.mark.slow
def test_a_library_of_another_version_is_not_loaded(cache: Path, run: Run) -> None:
    (library,) = cache.iterdir()
    made_of = library.name.split("-")[2]
    library.rename(cache / library.name.replace(made_of, "0" * len(made_of)))
    done = run(cache, "-c", USED)
    assert done.stdout.strip() == "False"
    assert "are built for another version of gradcore, or another CPU" in done.stderr
    assert "Removed: 1" in run(cache, "-m", "gradcore.compiled", "remove").stdout
    assert not list(cache.iterdir())


COPYING = """
import pathlib, shutil, sys
target = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
shutil.copy(sys.argv[0] + ".so", target) if "-shared" in sys.argv else target.touch()
"""


@pytest.mark.slow
def test_a_library_of_another_environment_is_left_alone(cache: Path, tmp_path: Path, run: Run) -> None:
    """It is not loaded, nothing is said of it, and to build another does not delete it."""
    (library,) = cache.iterdir()
    compiler = tmp_path / "compiler"  # which has the same library at once
    compiler.write_text(f"#!{sys.executable}\n{COPYING}")
    compiler.chmod(0o755)
    shutil.copy(library, tmp_path / "compiler.so")
    others = library.rename(cache / library.name.replace(library.name.split("-")[1], "0" * 16))
    done = run(cache, "-W", "error", "-c", USED)
    assert (done.stdout.strip(), done.stderr) == ("False", "")
    assert "are not built" in run(cache, "-m", "gradcore.compiled", "status").stdout
    others.rename(library)
    outdated = library.rename(cache / library.name.replace(library.name.split("-")[2], "0" * 16))
    shutil.copy(outdated, others)
    assert run(cache, "-m", "gradcore.compiled", GRADCORE_COMPILED="0", CXX=str(compiler)).returncode == 0
    assert set(cache.iterdir()) == {library, others}
    assert "Removed: 2" in run(cache, "-m", "gradcore.compiled", "remove").stdout


@pytest.mark.slow
def test_without_a_compiler_the_command_says_so(tmp_path: Path, run: Run) -> None:
    done = run(tmp_path / "cache", "-m", "gradcore.compiled", PATH="", CXX="")
    assert done.returncode == 1
    assert "There is no C++ compiler: c++, g++ and clang++ were not found. Install one" in done.stderr
    done = run(tmp_path / "cache", "-m", "gradcore.compiled", CXX="no-such-compiler")
    assert "CXX is 'no-such-compiler', which was not found" in done.stderr
    assert not (tmp_path / "cache").exists()


@pytest.mark.slow
def test_what_the_compiler_says_is_shown(tmp_path: Path, run: Run) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('out of order')\n")
    compiler.chmod(0o755)
    done = run(tmp_path / "cache", "-m", "gradcore.compiled", "--jobs", "1", CXX=str(compiler))
    assert done.returncode == 1
    assert "The compiler failed: " in done.stderr
    assert "out of order" in done.stderr
    assert not list((tmp_path / "cache").iterdir())


def test_a_folder_that_cannot_be_written(tmp_path: Path, run: Run) -> None:
    if shutil.which("c++") is None:
        pytest.skip("there is no C++ compiler")
    (tmp_path / "file").write_text("")
    done = run(tmp_path / "file" / "cache", "-m", "gradcore.compiled")
    assert done.returncode == 1
    assert "There is no place for the library" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_children_and_threads(cache: Path, run: Run) -> None:
    code = """
import os, threading
import gradcore as gc
from gradcore import compiled
gc.set_num_threads(2)
x = gc.linspace(-3, 3, 3_000_000)
def gradient():
    y = x.clone().requires_grad_()
    (gc.nn.functional.gelu(y[::2]) + gc.nn.functional.softmax(y.view(-1, 300), 1).view(-1)[::2]).sum().backward()
    return y.grad
expected = gradient()
found = []
threads = [threading.Thread(target=lambda: found.append(gradient())) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
assert len(found) == 4 and all(gc.equal(f, expected) for f in found)
child = os.fork()
if child == 0:
    os._exit(0 if compiled.is_used() and gc.equal(gradient(), expected) else 1)
assert os.waitpid(child, 0)[1] == 0
assert gc.equal(gradient(), expected)
print("done")
"""
    done = run(cache, "-c", code)
    assert done.stdout.strip() == "done", done.stderr


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[Callable[[], tuple[subprocess.Popen[str], Path]]]:
    """Return a function that starts a build whose compilers never finish, and returns the process and its folder."""
    compiler, running, started = tmp_path / "compiler", tmp_path / "running", []
    running.mkdir()
    compiler.write_text(f"#!/bin/sh\ntouch {running}/$$\nsleep 100 & wait\n")
    compiler.chmod(0o755)

    def start() -> tuple[subprocess.Popen[str], Path]:
        variables = {**os.environ, "GRADCORE_CACHE": str(tmp_path / "cache"), "CXX": str(compiler)}
        before, others = {*(tmp_path / "cache").glob("*")}, len([*running.iterdir()])
        program = (
            "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import gradcore.compiled as c"
        )
        build = subprocess.Popen(
            [sys.executable, "-c", f"{program}; c.build(2)"], env=variables, stderr=subprocess.PIPE, text=True
        )
        started.append(build)
        for _ in range(6000):
            if len([*running.iterdir()]) == others + 2:
                (folder,) = {*(tmp_path / "cache").glob("*")} - before
                return build, folder
            time.sleep(0.01)
        raise AssertionError("the build did not begin")

    yield start
    for build in started:
        build.kill()
        build.communicate()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="compiled kernels are for Linux and macOS")
def test_an_interrupted_build_ends_and_leaves_nothing(endless: Any, tmp_path: Path) -> None:
    build, folder = endless()
    build.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in build.communicate(timeout=120)[1]
    assert not folder.exists()
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="compiled kernels are for Linux and macOS")
def test_what_a_killed_build_left_goes_and_no_more(endless: Any, tmp_path: Path, run: Run) -> None:
    """To remove the libraries, and to build others, deletes its folder, but not that of a build that is running."""
    killed, left = endless()
    killed.kill()
    killed.wait()
    assert left.exists()
    running, folder = endless()
    assert folder.exists()
    assert not left.exists()
    assert "Removed: 0" in run(tmp_path / "cache", "-m", "gradcore.compiled", "remove").stdout
    assert folder.exists()
    running.kill()
    running.wait()
    assert "Removed: 0" in run(tmp_path / "cache", "-m", "gradcore.compiled", "remove").stdout
    assert not list((tmp_path / "cache").iterdir())


@pytest.fixture
def packaged(cache: Path, package: Path) -> Path:
    """Return a folder with a package that has a library for every instruction set.

    Each is this machine's library under another name: what is compiled for another CPU might not run here.
    """
    from gradcore.backends.compiled.library import variant_name

    folder = package / "gradcore/backends/compiled/variants"
    folder.mkdir()
    (library,) = cache.iterdir()
    for variant in variants_of_machine():
        shutil.copy2(library, folder / variant_name(variant))
    return package


@pytest.mark.skipif(sys.platform != "linux", reason="on other systems the package's libraries export all functions")
def test_the_package_library_exports_functions_of_c_only() -> None:
    """Names of C++, which nothing looks up, would make it larger: those of templates have hundreds of characters."""
    packaged = find_packaged()
    if packaged is None:
        pytest.skip("the package has no library for this CPU: python -m gradcore.compiled variants --this-cpu")
    content = packaged.read_bytes()
    assert b"gradcore_share" in content
    assert b"_ZN8gradcore" not in content


def _variants() -> list[Any]:
    """Return the instruction sets as parameters: the first that this CPU runs in the sample, too."""
    first = choose_variant()
    return [
        pytest.param(each, id=each.name, marks=() if each == first else pytest.mark.slow)
        for each in variants_of_machine()
    ]


@pytest.mark.slow
@pytest.mark.parametrize("variant", _variants())
def test_the_package_carries_every_instruction_set(packaged: Path, tmp_path: Path, run: Run, variant: Variant) -> None:
    """The best that the CPU runs is loaded, and gives what NumPy gives."""
    if not all(__cpu_features__.get(name) for name in variant.features):
        pytest.skip(f"this CPU does not run {variant.name}")
    better = variants_of_machine()[: variants_of_machine().index(variant)]
    lacks = {name for each in better for name in each.features} - {*variant.features}
    code = (
        "from numpy._core._multiarray_umath import __cpu_features__ as features;"
        f"features.update(dict.fromkeys({lacks!r}, False)); {USED};"
        f"from gradcore.backends.compiled import library; print(library.find_packaged().name); {WORKS}"
    )
    environment = {"PYTHONPATH": str(packaged), "PYTHONSAFEPATH": "1", "GRADCORE_COMPILED": "package"}
    used, name, gradient = run(tmp_path, "-W", "error", "-c", code, **environment).stdout.split()
    assert (used, name.partition("-")[0], gradient) == ("True", variant.name, "50000")


@pytest.mark.parametrize(
    ("without", "name"),
    [
        ([], "avx512"),
        (["AVX512_SKX"], "avx2"),
        (["X86_V4"], "avx2"),
        (["AVX512_SKX", "AVX2", "FMA3"], "baseline"),
        (["X86_V3"], "baseline"),
    ],
)
def test_what_numpy_may_not_use_is_not_used(monkeypatch: pytest.MonkeyPatch, without: list[str], name: str) -> None:
    """Of single features, as a CPU lacks them, and of the groups that ``NPY_DISABLE_CPU_FEATURES`` names."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("the instruction sets are those of x86-64")
    for variant in variants_of_machine():
        for feature in variant.features:
            monkeypatch.setitem(__cpu_features__, feature, True)
    for group in ("X86_V3", "X86_V4"):  # which older versions of NumPy do not know
        monkeypatch.setitem(__cpu_features__, group, True)
    for feature in without:
        monkeypatch.setitem(__cpu_features__, feature, False)
    variant = choose_variant()
    assert variant is not None
    assert variant.name == name


@pytest.mark.slow
def test_an_outdated_library_of_the_package_is_not_loaded(packaged: Path, tmp_path: Path, run: Run) -> None:
    site = packaged
    with (site / "gradcore/__init__.py").open("a") as file:
        file.write("# another version\n")
    environment = {"PYTHONPATH": str(site), "PYTHONSAFEPATH": "1", "GRADCORE_COMPILED": "auto"}
    done = run(tmp_path / "cache", "-W", "error", "-c", USED, **environment)
    assert (done.stdout.strip(), done.stderr) == ("False", "")
    status = run(tmp_path / "cache", "-m", "gradcore.compiled", "status", **environment).stdout
    assert "built for another version of gradcore" in status


@pytest.mark.slow
def test_the_package_can_be_imported_from_an_archive(tmp_path: Path) -> None:
    """Its sources are in no folder there: there are no kernels for this CPU, and nothing says what they would be."""
    archive = tmp_path / "gradcore.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in PACKAGE.rglob("*.py"):
            file.write(path, path.relative_to(PACKAGE.parent))
    program = "import gradcore; print(gradcore.__file__, gradcore.ones(2).exp().sum(), gradcore.show_config())"
    for setting in ("0", "auto"):
        variables = {**os.environ, "PYTHONPATH": str(archive), "GRADCORE_COMPILED": setting}
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert str(archive) in done.stdout
