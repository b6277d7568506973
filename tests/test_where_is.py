"""docs/where-is.md names files, and functions and classes in them, that exist."""

from __future__ import annotations

import ast
import re

import pytest

from tests.imports import ROOT

TEXT = (ROOT / "docs/where-is.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (.+) \| `(gradcore/[\w/]+\.py)` \| `([\w.]+)` \|$", re.MULTILINE)
ANSWERS = ROW.findall(TEXT)


def defines(body: list[ast.stmt], name: str) -> bool:
    """Return whether statements define a function or class of this name, or a class with that member."""
    first, _, inner = name.partition(".")
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == first:
            return not inner or (isinstance(node, ast.ClassDef) and defines(node.body, inner))
    return False


def test_every_row_is_read() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith(("| where", "| ---"))]
    assert len(rows) == len(ANSWERS) >= 30


@pytest.mark.parametrize(("question", "file", "name"), ANSWERS, ids=[question for question, _, _ in ANSWERS])
def test_the_answer_exists(question: str, file: str, name: str) -> None:
    path = ROOT / file
    assert path.exists(), f"where is {question}? There is no {file}"
    assert defines(ast.parse(path.read_bytes()).body, name), f"where is {question}? {file} does not define {name}"


def test_the_reader_of_definitions_sees_them() -> None:
    body = ast.parse("class A:\n    def f(self): pass\ndef g(): pass\n").body
    assert [defines(body, name) for name in ("A", "A.f", "g", "f", "A.g", "g.f")] == [True, True, True] + [False] * 3
