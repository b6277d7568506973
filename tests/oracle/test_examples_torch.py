"""The example programs, run with PyTorch in gradcore's place: the same source gives the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
#: The settings of short runs, and how far results may be apart where rounding is amplified.
PROGRAMS = {
    "maml": ({"rounds": 3}, 1e-6), "neural_ode": ({"rounds": 3, "steps": 10}, 1e-6), "poisson": ({"rounds": 3}, 1e-6),
    "influence": ({"left_out": 3}, 1e-5), "score_matching": ({"rounds": 3}, 1e-6),
}  # fmt: skip


def result(source: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a program's `main`, without its assertions, which hold for full runs only."""
    lines = [line for line in source.splitlines() if not line.startswith("    assert ")]
    namespace: dict[str, Any] = {"__name__": "program"}
    exec(compile("\n".join(lines), "program", "exec"), namespace)
    return namespace["main"](**settings)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_numbers(name):
    settings, tolerance = PROGRAMS[name]
    torch.set_num_threads(1)
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    ours = result(source, settings)
    theirs = result(
        source.replace("import gradcore as torch", "import torch").replace("from gradcore", "from torch"), settings
    )
    assert ours.keys() == theirs.keys()
    for key, value in ours.items():
        np.testing.assert_allclose(value, theirs[key], rtol=tolerance, atol=1e-9, err_msg=key)
