"""What is recorded in tests/utils/recorded.json is what PyTorch does.

``python -m tests.oracle.test_checkpoint_torch`` records it anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gradcore
from tests.utils.checkpoint_programs import PROGRAMS, outcome

torch = pytest.importorskip("torch.utils.checkpoint") and pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

RECORDED = Path(__file__).parents[1] / "utils" / "recorded.json"


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_recorded(name):
    assert repr(outcome(PROGRAMS[name], torch)) == json.loads(RECORDED.read_text(encoding="utf-8"))[name]


def test_names_are_there():
    absent = {
        "DefaultDeviceType", "GraphExecGroup", "SAC_IGNORED_OPS", "get_device_states", "set_device_states"
    }  # fmt: skip
    missing = {n for n in torch.utils.checkpoint.__all__ if not hasattr(gradcore.utils.checkpoint, n)}
    assert missing == absent


if __name__ == "__main__":
    found = {name: repr(outcome(program, torch)) for name, program in PROGRAMS.items()}
    RECORDED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
