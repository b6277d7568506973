"""Backward in several threads at once."""

import sys
import threading
from collections.abc import Iterator

import pytest

import gradcore as gc


@pytest.fixture
def _frequent_switches() -> Iterator[None]:
    """Let threads take turns far more often than usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_frequent_switches")
def test_no_gradient_of_a_shared_leaf_is_lost() -> None:
    leaf = gc.zeros(50_000, requires_grad=True)

    def work() -> None:
        for _ in range(100):
            (leaf * 1.0).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert leaf.grad is not None
    assert leaf.grad.unique().tolist() == [400.0]


def test_modes_belong_to_a_thread() -> None:
    x = gc.ones(2, requires_grad=True)
    seen = []
    with gc.no_grad():
        thread = threading.Thread(target=lambda: seen.append((x * 2).requires_grad))
        thread.start()
        thread.join()
        assert not (x * 2).requires_grad
    assert seen == [True]
