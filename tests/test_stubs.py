"""The stub files say what the table says, and type checkers understand programs by them."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import gradcore
from gradcore.tools import stubs

PACKAGE = Path(gradcore.__file__).parent
ROOT = PACKAGE.parent

needs_mypy = pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is not installed")


def mypy(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run mypy with the project's settings."""
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    """Return the stub files by path, from a process in which no test has declared operations."""
    program = "import json; from gradcore.tools.stubs import stubs; print(json.dumps(stubs()))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_stub_files_are_what_the_table_gives(generated: dict[str, str]) -> None:
    written = {str(path.relative_to(PACKAGE)): path.read_text() for path in PACKAGE.rglob("*.pyi")}
    assert written.keys() == generated.keys()
    stale = [path for path, text in generated.items() if written[path] != text]
    assert not stale, "write them anew: python -m gradcore.tools.stubs"


def test_functions_and_methods_are_declared(generated: dict[str, str]) -> None:
    root, methods = (
        set(re.findall(r"def (\w+)\(", generated[path])) for path in ("__init__.pyi", "tensor/methods.pyi")
    )
    assert {"add", "sum", "where", "matmul"} <= root
    assert {"add", "add_", "sum", "__add__", "__eq__", "__getitem__", "__ge__"} <= methods
    missing = {name for name in methods if not hasattr(gradcore.Tensor, name)}
    assert not missing


def test_lines_are_not_too_long(generated: dict[str, str]) -> None:
    lines = [line for text in generated.values() for line in text.splitlines()]
    assert max(map(len, lines)) <= stubs.WIDTH


@pytest.mark.slow
@needs_mypy
@pytest.mark.parametrize("program", ["usage.py", "results.py"])
def test_a_program_type_checks(program: str) -> None:
    done = mypy(f"tests/typing/{program}")
    assert done.returncode == 0, done.stdout + done.stderr


def test_results_are_known(generated: dict[str, str]) -> None:
    """Only what depends on the call in several ways, or has no meaning here, may be anything."""
    anything = {path: len(re.findall(r"-> Any: \.\.\.", text)) for path, text in generated.items()}
    assert anything["linalg.pyi"] == anything["special.pyi"] == anything["masked.pyi"] == 0
    assert anything["nn/functional.pyi"] <= 10
    assert anything["__init__.pyi"] <= 16
    assert anything["tensor/methods.pyi"] <= 75


def test_named_results_have_their_fields(generated: dict[str, str]) -> None:
    declared = dict(
        re.findall(r"class (\w+)\(NamedTuple\):\n((?:    \w+: Tensor\n)+)", generated["functions/return_types.pyi"])
    )
    types = {n: getattr(gradcore.return_types, n) for n in dir(gradcore.return_types)}
    assert {n: tuple(re.findall(r"(\w+):", fields)) for n, fields in declared.items()} == {
        n: t._fields for n, t in types.items()
    }


@pytest.mark.slow
@needs_mypy
def test_wrong_programs_do_not_type_check(tmp_path: Path) -> None:
    program = tmp_path / "wrong.py"
    program.write_text(
        "import gradcore\n"
        "x = gradcore.ones(2)\n"
        "x.no_such_method()\n"
        "gradcore.no_such_function(x)\n"
        "gradcore.tanh('text')\n"
        "flag: bool = x == x\n"
    )
    done = mypy(str(program))
    found = re.findall(r"wrong\.py:(\d+): error: .*\[([\w-]+)\]", done.stdout)
    assert found == [("3", "attr-defined"), ("4", "attr-defined"), ("5", "arg-type"), ("6", "assignment")]
