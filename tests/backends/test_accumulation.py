"""Gradients on several devices: summed where they arise, moved once per device, kept on the leaf's device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore as gc
from tests.strict import device as strict_device
from tests.strict.device import COUNTS

VALUES = np.arange(3.0) + 1


@pytest.fixture(autouse=True)
def _devices(strict: str) -> None:
    """Two strict devices, and counts that begin at zero."""


def leaf(device: str = "strict:0") -> gc.Tensor:
    return gc.tensor(VALUES, device=device, requires_grad=True)


def host(t: Any) -> Any:
    return t.detach().cpu().numpy()


def backward(*losses: gc.Tensor, **named: Any) -> None:
    """Backward, with counts that begin at zero."""
    ones = [gc.ones_like(loss) for loss in losses]
    COUNTS.clear()
    gc.autograd.backward(losses, ones, **named)


def check_grad(t: gc.Tensor, expected: Any) -> None:
    assert t.grad is not None
    assert t.grad.device is t.device
    np.testing.assert_allclose(host(t.grad), expected)


@pytest.mark.parametrize("uses", [1, 2, 7])
@pytest.mark.parametrize("own", [0, 1, 3])
def test_one_move_for_each_other_device(uses: int, own: int) -> None:
    """However many contributions arise on another device, their sum is moved."""
    x = leaf()
    there = [(x.to("strict:1") * (i + 1)).sum() for i in range(uses)]
    here = [(x * 10).sum() for _ in range(own)]
    backward(*there, *here)
    assert COUNTS["between devices"] == 1
    assert COUNTS["to host"] == COUNTS["to device"] == COUNTS["sync"] == 0
    check_grad(x, np.full(3, sum(range(1, uses + 1)) + 10.0 * own))


def test_an_inner_tensor() -> None:
    x = leaf()
    inner = x * 2
    losses = [(inner.to("strict:1") * k).sum() for k in (1, 2, 3)]
    backward(*losses, (inner * 4).sum())
    assert COUNTS["between devices"] == 1
    check_grad(x, np.full(3, 2 * (1 + 2 + 3 + 4.0)))


def test_a_node_with_several_outputs() -> None:
    x = gc.tensor(np.arange(6.0).reshape(2, 3), device="strict:0", requires_grad=True)
    first, second = (x * 1).unbind(0)
    losses = [(first.to("strict:1") * k).sum() for k in (1, 2)] + [(second.to("strict:1") * k).sum() for k in (3, 4)]
    backward(*losses, (first * 5).sum())
    assert COUNTS["between devices"] == 2  # one for each output
    check_grad(x, [[8.0] * 3, [7.0] * 3])


def test_a_leaf_on_the_cpu() -> None:
    """From each of two devices one copy to the host."""
    x = leaf("cpu")
    losses = [(x.to(f"strict:{i % 2}") * (i + 1)).sum() for i in range(6)]
    backward(*losses)
    assert (COUNTS["to host"], COUNTS["between devices"]) == (2, 0)
    check_grad(x, np.full(3, 21.0))


def test_a_number_on_the_cpu() -> None:
    """Tensors without dims mix with those of any device; their gradient comes back once."""
    s = gc.tensor(2.0, requires_grad=True)
    x = gc.tensor(VALUES, device="strict:0")
    loss = (x * s).sum() + (x + s).sum() + (s / x).sum()
    assert loss.device == "strict:0"
    backward(loss)
    assert COUNTS["to host"] == 1
    check_grad(s, VALUES.sum() + 3 + (1 / VALUES).sum())


def test_leaves_on_several_devices() -> None:
    a, b, c = leaf("strict:0"), leaf("strict:1"), leaf("cpu")
    for times in (1, 2):
        loss = (a.to("strict:1") * b * c.to("strict:1")).sum()
        assert loss.device == "strict:1"
        backward(loss)
        assert (COUNTS["between devices"], COUNTS["to host"]) == (1, 1)
        for t in (a, b, c):
            check_grad(t, times * VALUES**2)


def test_gradients_asked_for() -> None:
    x = leaf()
    inner = x * 3
    losses = [(inner.to("strict:1") ** 2).sum() for _ in range(3)]
    COUNTS.clear()
    got = gc.autograd.grad(losses, [x, inner], [gc.ones_like(loss) for loss in losses])
    assert COUNTS["between devices"] == 1
    assert [g.device for g in got] == ["strict:0", "strict:0"]
    np.testing.assert_allclose(host(got[0]), 3 * 2 * 9 * VALUES)
    np.testing.assert_allclose(host(got[1]), 3 * 2 * 3 * VALUES)
    assert x.grad is None


def test_higher_order() -> None:
    x = leaf()
    losses = [(x.to("strict:1") ** 3).sum() for _ in range(3)] + [(x**2).sum()]
    ones = [gc.ones_like(loss) for loss in losses]
    COUNTS.clear()
    (first,) = gc.autograd.grad(losses, x, ones, create_graph=True)
    assert COUNTS["between devices"] == 1
    assert first.device == "strict:0"
    np.testing.assert_allclose(host(first), 9 * VALUES**2 + 2 * VALUES)
    backward(first.sum())
    check_grad(x, 18 * VALUES + 2)


def test_each_backward_runs_on_its_own_device() -> None:
    """Strict arrays can be used on their device alone, so success is most of the proof; hooks see the rest."""
    x = leaf()
    there = x.to("strict:1")
    y = there * 2
    back = y.to("strict:0")
    z = back * 3
    seen = []
    for t in (z, back, y, there):
        assert t.grad_fn is not None
        name = t.grad_fn.name()
        t.grad_fn.register_prehook(lambda grads, name=name: seen.append((name, strict_device.current())))
    with strict_device.use(1):
        backward(z.sum())
        assert strict_device.current() == 1
    assert strict_device.current() == 0
    assert seen == [("MulBackward0", 0), ("ToCopyBackward0", 0), ("MulBackward0", 1), ("ToCopyBackward0", 1)]
    check_grad(x, np.full(3, 6.0))


def test_the_current_device_is_restored_after_an_error() -> None:
    x = leaf("strict:1")
    y = x * 2

    def fail(grad: gc.Tensor) -> None:
        raise KeyError("hook")

    y.register_hook(fail)
    with pytest.raises(KeyError, match="hook"):
        backward(y.sum())
    assert strict_device.current() == 0


def test_hooks_see_the_total_on_the_tensors_device() -> None:
    x = leaf()
    inner = x * 1
    seen: list[Any] = []
    for t in (x, inner):
        t.register_hook(lambda grad: seen.append((str(grad.device), host(grad).tolist())))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(str(t.grad.device)))
    backward(*[(inner.to("strict:1") * k).sum() for k in (1, 2)], (inner * 4).sum())
    assert seen == [("strict:0", [7.0] * 3), ("strict:0", [7.0] * 3), "strict:0"]
    check_grad(x, np.full(3, 7.0))


def test_a_hook_may_replace_the_total() -> None:
    x = leaf()
    x.register_hook(lambda grad: grad * 10)
    backward((x.to("strict:1") * 2).sum(), (x * 3).sum())
    check_grad(x, np.full(3, 50.0))


def test_a_hook_must_not_change_the_device() -> None:
    x = leaf()
    (x * 1).register_hook(lambda grad: grad)
    x.register_hook(lambda grad: grad.to("strict:1"))
    with pytest.raises(RuntimeError, match="device"):
        backward((x * 3).sum())


def test_retained_gradients() -> None:
    x = leaf()
    inner = x * 2
    inner.retain_grad()
    backward((inner.to("strict:1") * 5).sum(), (inner * 1).sum())
    check_grad(inner, np.full(3, 6.0))


def test_accumulation_leaves_upstream_gradients_alone() -> None:
    """What the user passes in, or what two edges share, is never written into."""
    x, y = leaf(), leaf()
    upstream = gc.ones(3, dtype=gc.float64, device="strict:0")
    total = x + y  # both edges get the same array
    gc.autograd.backward([total, total], [upstream, upstream])
    check_grad(x, np.full(3, 2.0))
    assert x.grad is not None
    x.grad.add_(1)
    check_grad(y, np.full(3, 2.0))
    np.testing.assert_array_equal(host(upstream), np.ones(3))


def test_dtypes_and_devices_together() -> None:
    x = leaf()
    backward((x.to("strict:1", gc.float32) * 2).sum(), (x.to(gc.float32) * 3).sum())
    assert COUNTS["between devices"] == 1
    assert x.grad is not None
    assert x.grad.dtype is gc.float64
    check_grad(x, np.full(3, 5.0))


def test_values_equal_those_of_one_device() -> None:
    rng = np.random.default_rng(0)
    data = [rng.standard_normal(s) for s in ((4, 5), (5, 6), (6, 3))]

    def gradients(devices: list[str]) -> list[Any]:
        weights = [gc.tensor(a, device=d, requires_grad=True) for a, d in zip(data, devices, strict=True)]
        h = gc.ones(2, 4, dtype=gc.float64, device=devices[0])
        for w in weights:
            h = (h.to(w.device) @ w).tanh()
        (h.to("cpu") ** 2).sum().backward()
        return [host(w.grad) for w in weights]

    for a, b in zip(gradients(["cpu"] * 3), gradients(["strict:0", "strict:1", "strict:0"]), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12)
