"""The Python code in README.md and in the documents under docs/ runs and prints what it says.

The blocks of a document run in order, in one namespace, as a reader would type them. A block with ``>>>``
is a doctest; in any other, the comment behind a ``print(...)`` is what that call has to print. A block behind the
comment ``<!-- needs CUDA -->`` is compiled everywhere, and run where there is a CUDA device.
"""

import ast
import doctest
import linecache
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradcore import Tensor, cuda, distributed, functional
from gradcore.backends import registry
from gradcore.backends.base import Backend
from gradcore.errors import DeviceFallbackWarning
from gradcore.ops.declare.table import OPS

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/reference").glob("*.md"))]
#: How a block of Python may begin, for readers of Markdown.
OPENED = re.compile(r"^[ >]*(?:`{3,}|~{3,})[ {]*(?:py|code)", re.MULTILINE | re.IGNORECASE)
BLOCK = re.compile(r"^(<!-- needs CUDA -->\n+)?```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"^\s*print\(.*\)  # (.*)$", re.MULTILINE)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run_doctest(code, names, where):
    """Run the examples of `code` in `names`; fail with doctest's own report."""
    report = []
    test = doctest.DocTestParser().get_doctest(code, names, where, None, 0)
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append, clear_globs=False)
    names.update(test.globs)
    assert not report, "".join(report)


def run_script(code, names, where, capsys):
    """Run `code` in `names` and compare what it prints with its comments, up to white space and ``...``."""
    linecache.cache[where] = len(code), None, code.splitlines(keepends=True), where  # functions look at their source
    exec(compile(code, where, "exec"), names)
    printed = capsys.readouterr().out
    if expected := COMMENT.findall(code):
        expected = "\n".join(expected)
        assert doctest.OutputChecker().check_output(expected, printed, FLAGS), f"{printed}\nis not\n{expected}"


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Remove what a document declares (operations, methods, backends, a process group) when it ends or fails."""
    tables = [OPS, Backend.bodies, vars(functional), functional.makers, registry._factories, registry._backends]
    before, methods = [dict(table) for table in tables], set(vars(Tensor))
    yield
    for table, content in zip(tables, before, strict=True):
        table.clear()
        table.update(content)
    for name in set(vars(Tensor)) - methods:
        delattr(Tensor, name)
    if distributed.is_initialized():
        distributed.destroy_process_group()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
@pytest.mark.filterwarnings(f"ignore::{DeviceFallbackWarning.__module__}.{DeviceFallbackWarning.__name__}")
@pytest.mark.usefixtures("forgotten")
def test_code_of_document(path, capsys, tmp_path, monkeypatch):
    """Every block of the document does what the document says, with or without a GPU."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for block in BLOCK.finditer(text := path.read_text(encoding="utf-8")):
        line = text.count("\n", 0, block.start(2)) + 1
        code = "\n" * (line - 1) + block[2]  # tracebacks name the document's own lines
        if block[1] and not cuda.is_available():
            compile(code, str(path), "exec")
        elif ">>> " in code:
            run_doctest(code, names, str(path))
        else:
            run_script(code, names, str(path), capsys)


def test_readme_has_code():
    """The pattern above finds the blocks: a README without any would pass in silence."""
    assert len(BLOCK.findall(DOCUMENTS[0].read_text(encoding="utf-8"))) >= 2


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_no_block_of_code_is_left_out(path):
    """A block in a list, or one whose first line is written another way, would not be run, in silence."""
    text = path.read_text(encoding="utf-8")
    assert len(OPENED.findall(text)) == len(BLOCK.findall(text))


def test_engine_from_scratch_is_as_short_as_it_says():
    """Lines of code, without documentation and blank lines, of the engine that is built in a document."""
    text = (ROOT / "docs/autograd-from-scratch.md").read_text(encoding="utf-8")
    code = "\n".join(block for _, block in BLOCK.findall(text) if "gradcore" not in block)
    described = [n.body[0] for n in ast.walk(ast.parse(code)) if getattr(n, "body", None) and _has_docstring(n)]
    documentation = {line for n in described for line in range(n.lineno, n.end_lineno + 1)}
    lines = [line for i, line in enumerate(code.splitlines(), 1) if line.strip() and i not in documentation]
    assert 100 < len(lines) < 150


def _has_docstring(node):
    return isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None
