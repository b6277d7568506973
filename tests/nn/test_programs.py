"""Programs with modules do what PyTorch does with them, as it was recorded."""

import json
from pathlib import Path

import pytest

import gradcore
from tests.nn import helper_programs, lazy_programs, module_programs, weight_programs
from tests.nn.outcomes import outcome

PROGRAMS = module_programs.PROGRAMS | helper_programs.PROGRAMS | weight_programs.PROGRAMS | lazy_programs.PROGRAMS
RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_recorded(name):
    assert outcome(PROGRAMS[name], gradcore) == RECORDED[name]


def test_nothing_else_is_recorded():
    assert RECORDED.keys() == PROGRAMS.keys()
