"""The examples that are written for PyTorch's interface, run with gradcore; their own assertions check the results."""

import runpy
import warnings
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
PROGRAMS = ("maml", "neural_ode", "poisson", "influence", "score_matching")


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_example(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]()
    assert result
