"""Items that run several cases of a test: for generated cases, pytest itself takes longer than most cases do.

The sample and ``--rest`` join cases (see `conftest.py`). Named files and ``--whole`` run each case as an item of its
own.
"""

from __future__ import annotations

import dataclasses
import random
import shlex
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore import errors

#: The cases of each joined item, by its node id.
CASES = pytest.StashKey[dict[str, list[Any]]]()
#: Fixtures that are the same for all cases of a test.
SHARED = {
    "_begun_alike", "_examples_restore_settings", "_gc_in_examples", "_silent", "_silent_and_eager", "_strict_device",
    "checked_programs", "device", "request", "strict",
}  # fmt: skip
#: Folders whose conftest looks at the parameters of each item.
SINGLE = ("tests/cuda/",)


def begin_case() -> None:
    """Begin a case like any other: all default generators are seeded, no warning and no transfer has been yet.

    So no result depends on chance, or on the cases before it.
    """
    errors.SAID.clear()
    if "tests.strict.device" in sys.modules:
        sys.modules["tests.strict.device"].COUNTS.clear()
    gc.manual_seed(0)
    random.seed(0)
    np.random.seed(0)


def join(metafunc: pytest.Metafunc, calls: list[Any], nodeid: str) -> list[Any]:
    """Return the one call that stands for all of a function's calls, or the calls themselves if they cannot be joined.

    Parameters
    ----------
    metafunc : Metafunc
        What pytest knows of the function.
    calls : list
        The chosen cases.
    nodeid : str
        The node id of the function.
    """
    if len(calls) < 2 or not can_join(metafunc, calls):
        return calls
    name = f"{len(calls)} cases"
    metafunc.config.stash.setdefault(CASES, {})[f"{nodeid}[{name}]"] = calls
    return [dataclasses.replace(calls[0], _idlist=[name])]


def can_join(metafunc: pytest.Metafunc, calls: list[Any]) -> bool:
    """Return whether the cases differ in arguments only, and share nothing that a case could change for the next one.

    So no fixture may be made anew for each case, or be made of a case's argument.
    """
    definition = metafunc.definition
    if definition.nodeid.startswith(SINGLE) or hasattr(metafunc.function, "hypothesis"):
        return False
    if any(call.marks for call in calls) or definition.get_closest_marker("xfail"):
        return False
    if "request" in definition._fixtureinfo.argnames or {*metafunc._params_directness.values()} != {"direct"}:
        return False
    arguments = calls[0].params.keys()
    return not any(
        fixture.scope == "function" or arguments & {*fixture.argnames}
        for name, fixtures in metafunc._arg2fixturedefs.items()
        if name not in SHARED and name not in arguments
        for fixture in fixtures
    )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run the cases of a joined item, all of them, and fail if any of them fails."""
    cases = pyfuncitem.config.stash.get(CASES, {}).get(pyfuncitem.nodeid)
    if cases is None:
        return None
    arguments = pyfuncitem._fixtureinfo.argnames
    shared = {name: pyfuncitem.funcargs[name] for name in arguments if name not in cases[0].params}
    function = pyfuncitem.nodeid.removesuffix(f"[{pyfuncitem.callspec.id}]")
    failures: list[BaseException] = []
    skipped: Counter[str] = Counter()
    for case in cases:
        begin_case()
        try:
            pyfuncitem.obj(**shared, **case.params)
        except pytest.skip.Exception as reason:
            skipped[str(reason)] += 1
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(f"This case alone: pytest {shlex.quote(f'{function}[{case.id}]')}")
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} of {len(cases)} cases fail", failures)
    if skipped.total() == len(cases):
        pytest.skip("; ".join(skipped))
    pyfuncitem.user_properties += [("skipped", f"[{n}] {function}: {reason}") for reason, n in skipped.items()]
    return True


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Show which cases of joined items were skipped."""
    found = [
        text
        for report in terminalreporter.stats.get("passed", ())
        for name, text in report.user_properties
        if name == "skipped"
    ]
    if found:
        terminalreporter.section("skipped cases of tests that passed")
    for line in found:
        terminalreporter.line(f"SKIPPED {line}")
