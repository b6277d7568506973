"""Programs with checkpoints do what PyTorch does with them, as it was recorded."""

import json
from pathlib import Path

import pytest

import gradcore
from tests.utils.checkpoint_programs import PROGRAMS, outcome

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text(encoding="utf-8"))


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_recorded(name):
    assert repr(outcome(PROGRAMS[name], gradcore)) == RECORDED[name]


def test_nothing_else_is_recorded():
    assert RECORDED.keys() == PROGRAMS.keys()
