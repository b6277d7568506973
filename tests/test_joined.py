"""Joined items run every case, and say which of them failed or were skipped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.imports import ROOT

#: Joins the cases of every function that can be joined, as the sample does.
CONFTEST = """
import pytest
from tests import joined
from tests.joined import pytest_pyfunc_call, pytest_terminal_summary

@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc):
    yield
    definition = metafunc.definition
    metafunc._calls = joined.join(metafunc, metafunc._calls, f"{definition.parent.nodeid}::{definition.name}")
"""
TESTS = """
import pytest

numbers = pytest.mark.parametrize("n", range(5))

@pytest.fixture(scope="module")
def two():
    return 2

@numbers
@pytest.mark.parametrize("m", [1, 2])
def test_passes(n, m, two):
    print(f"ran {n} {m} {two}")

@numbers
def test_fails(n):
    assert n not in (1, 3)

@numbers
def test_fails_once(n):
    assert n != 2

@numbers
def test_skips(n):
    if n:
        pytest.skip("not zero")

@numbers
def test_skips_all(n):
    pytest.skip("no number")

@numbers
def test_has_a_fixture_of_its_own(n, tmp_path):
    assert not list(tmp_path.iterdir())

@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.skip)])
def test_has_marks(n):
    pass

@pytest.fixture(scope="module")
def doubled(n):
    return 2 * n

@pytest.mark.parametrize("n", [1, 2], scope="module")
def test_has_a_fixture_made_of_its_argument(n, doubled):
    assert doubled == 2 * n
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the output of pytest for `TESTS`."""
    folder: Path = tmp_path_factory.mktemp("joined")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-v", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", str(folder)]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False, cwd=folder).stdout


@pytest.mark.slow
def test_all_cases_are_run(said: str) -> None:
    assert "test_passes[10 cases]" in said
    assert all(f"ran {n} {m} 2" in said for n in range(5) for m in (1, 2))


@pytest.mark.slow
def test_each_failure_is_shown_with_its_case(said: str) -> None:
    assert "2 of 5 cases fail" in said
    assert all(f"This case alone: pytest 'test_it.py::test_fails[{n}]'" in said for n in (1, 3))
    assert "This case alone: pytest 'test_it.py::test_fails_once[2]'" in said
    assert "test_fails[0]" not in said


def test_skips_are_counted(said: str) -> None:
    assert "SKIPPED [4] test_it.py::test_skips: not zero" in said
    assert "test_skips_all[5 cases] SKIPPED (no number)" in said


def test_cases_that_share_something_are_not_joined(said: str) -> None:
    assert "test_has_a_fixture_of_its_own[4] PASSED" in said
    assert "test_has_marks[2] SKIPPED" in said
    assert "test_has_a_fixture_made_of_its_argument[2] PASSED" in said
