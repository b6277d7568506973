"""The table of what is tested of autograd names tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "autograd-coverage.md"
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", PAGE.read_text())))


def test_every_row_names_tests():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and "---" not in line]
    rows = [line for line in rows if line != "| feature | tests |"]
    assert len(rows) > 30
    assert all("`tests/" in line for line in rows)


@pytest.mark.parametrize("name", NAMED)
def test_the_test_exists(name):
    path, _, function = name.partition("::")
    tree = ast.parse((ROOT / path).read_text())
    found = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test")}
    assert found
    assert not function or function in found
