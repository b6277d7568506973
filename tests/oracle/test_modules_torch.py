"""What is recorded in tests/nn/recorded.json is what PyTorch does.

``python -m tests.oracle.test_modules_torch`` records it anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.nn import helper_programs, lazy_programs, module_programs, weight_programs
from tests.nn.outcomes import outcome

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

PROGRAMS = module_programs.PROGRAMS | helper_programs.PROGRAMS | weight_programs.PROGRAMS | lazy_programs.PROGRAMS
RECORDED = Path(__file__).parents[1] / "nn" / "recorded.json"


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_recorded(name):
    assert outcome(PROGRAMS[name], torch) == json.loads(RECORDED.read_text(encoding="utf-8"))[name]


if __name__ == "__main__":
    found = {name: outcome(program, torch) for name, program in PROGRAMS.items()}
    RECORDED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
