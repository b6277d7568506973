"""The Python code in README.md and in the documents under docs/ runs and prints what it says.

The blocks of a document run in order, in one namespace, as a reader would type them. A block with ``>>>``
is a doctest; in any other, the comment behind a ``print(...)`` is what that call has to print.
"""

import doctest
import re
from pathlib import Path

import pytest

from gradcore.errors import DeviceFallbackWarning

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
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
    """Run `code` in `names` and compare what it prints with its comments."""
    exec(compile(code, where, "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    if expected := COMMENT.findall(code):
        assert printed == expected


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
@pytest.mark.filterwarnings(f"ignore::{DeviceFallbackWarning.__module__}.{DeviceFallbackWarning.__name__}")
def test_code_of_document(path, capsys, tmp_path, monkeypatch):
    """Every block of the document does what the document says, with or without a GPU."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for block in BLOCK.finditer(text := path.read_text(encoding="utf-8")):
        line = text.count("\n", 0, block.start(1)) + 1
        code = "\n" * (line - 1) + block[1]  # tracebacks name the document's own lines
        if ">>> " in code:
            run_doctest(code, names, str(path))
        else:
            run_script(code, names, str(path), capsys)


def test_readme_has_code():
    """The pattern above finds the blocks: a README without any would pass in silence."""
    assert len(BLOCK.findall(DOCUMENTS[0].read_text(encoding="utf-8"))) >= 2
