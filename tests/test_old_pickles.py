"""Pickles and programs from before modules moved into rooms: the old paths of modules are known."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import warnings
from typing import Any

import pytest

from tests.old_objects import FILE, OBJECTS

PICKLES: dict[str, bytes] = pickle.loads(FILE.read_bytes())


def describe(value: Any) -> str:
    """Return the text of an object without the addresses of memory."""
    return re.sub(r"0x[0-9a-f]+", "", f"{type(value)} {value!r}")


def test_there_is_a_pickle_of_each_object() -> None:
    assert PICKLES.keys() == OBJECTS.keys()


@pytest.mark.parametrize("name", OBJECTS)
def test_an_old_pickle_gives_the_object(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is old in PyTorch too
        assert describe(pickle.loads(PICKLES[name])) == describe(OBJECTS[name]())


def test_old_pickles_load_first_of_all() -> None:
    """In a process in which nothing has been imported but what the pickles name."""
    program = f"import pickle; [pickle.loads(each) for each in pickle.load(open({str(FILE)!r}, 'rb')).values()]"
    program += "\nimport gradcore as gc; assert gc.device('cpu') == 'cpu' and gc.tensor(1.0).item() == 1.0"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=FILE.parents[1])
