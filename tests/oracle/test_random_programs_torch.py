"""Random programs of operations, views and writes in place, in PyTorch and in gradcore."""

import pytest

pytest.importorskip("torch")

from tests.autograd.programs import check_peer, draw


@pytest.mark.parametrize("block", range(10))
def test_the_same_errors_gradients_and_order(block):
    assert sum(check_peer(draw(seed)) for seed in range(30 * block, 30 * block + 30)) > 2
