"""The pictures in the documentation are what its program draws."""

import runpy
from pathlib import Path

import pytest

IMAGES = Path(__file__).parents[2] / "docs" / "images"


@pytest.mark.parametrize("name", ["residual_block", "recurrent_network"])
def test_pictures_are_current(name):
    draw = runpy.run_path(str(IMAGES / "graphs.py"))[name]
    assert draw().svg == (IMAGES / f"{name}.svg").read_text(encoding="utf-8"), "python docs/images/graphs.py"
