"""What docs/conventions.md says about PyTorch is true."""

import pytest

from tests.conventions import CONVENTIONS, Convention, evaluate

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore:var")]


@pytest.mark.parametrize("line", CONVENTIONS, ids=lambda line: f"{line.expression} at {line.point}")
def test_pytorch_is_as_documented(line: Convention) -> None:
    assert evaluate(torch, line) == (line.ours if line.theirs == "same" else line.theirs)
