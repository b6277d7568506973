"""`compile(verify=n)`: what a program does otherwise than eager execution is found, and nothing is done twice."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.compiler import VerificationError, verification
from gradcore.compiler.capture import guards
from gradcore.compiler.capture.guards import Guards
from gradcore.compiler.verification import Leaf, Snapshot, Uncopyable, find_differences


class Config:
    """An object with attributes."""

    def __init__(self) -> None:
        self.scale = 2.0
        self.steps = 0


def without_guard(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """Leave out the guards of which the text has these words: a hole, made on purpose."""
    plain = Guards.require

    def require(self: Guards, condition: str, text: str, passing: bool = False) -> None:
        plain(self, "True" if words in text else condition, text, passing)

    monkeypatch.setattr(Guards, "require", require)


def run(function: Callable[..., Any], *args: Any, n: int = 4) -> Any:
    for _ in range(n):
        found = function(*args)
    return found


def test_a_guard_that_is_missing_is_found_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    config, x = Config(), gc.ones(3)
    without_guard(monkeypatch, "scale ==")
    function = lambda x: x * config.scale  # noqa: E731
    stale, verified = gc.compile(function, verify=0), gc.compile(function, verify=1)
    assert run(stale, x).tolist() == run(verified, x).tolist() == [2.0] * 3
    config.scale = 3.0
    assert stale(x).tolist() == [2.0] * 3  # the hole is one
    with pytest.raises(VerificationError) as caught:
        verified(x)
    message = str(caught.value)
    differs = "the result: 3 of 3 elements differ, by up to 1 (allowed: 6e-05); first at [0]: eager 3.0, compiled 2.0"
    assert differs in message
    assert "this has changed since the capture, and no guard says so: config of" in message
    assert ".scale == 3.0" in message


def test_every_nth_call_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    config, x = Config(), gc.ones(1)
    without_guard(monkeypatch, "scale ==")
    function = gc.compile(lambda x: x * config.scale, verify=3)
    run(function, x, n=2)  # captured
    config.scale = 3.0
    assert [function(x).item() for _ in range(2)] == [2.0, 2.0]
    with pytest.raises(VerificationError):
        function(x)


def model_and_step() -> tuple[Any, Any]:
    gc.manual_seed(0)
    model = gc.nn.Sequential(gc.nn.Linear(4, 8), gc.nn.BatchNorm1d(8), gc.nn.Dropout(0.2), gc.nn.Linear(8, 1))
    optimizer = gc.optim.Adam(model.parameters(), lr=0.01)
    scheduler = gc.optim.lr_scheduler.StepLR(optimizer, 3)
    count = gc.zeros(1)

    def step(x: gc.Tensor) -> gc.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        scheduler.step()
        count.add_(1)
        return loss + gc.rand(1) * 0

    return step, lambda: [*model.state_dict().values(), count, gc.tensor(scheduler.get_last_lr()),
                          *(p.grad for p in model.parameters()), gc.get_rng_state()]  # fmt: skip


@pytest.mark.parametrize("verify", [1, 2])
def test_effects_happen_once(verify: int) -> None:
    """Parameters, buffers, gradients, states of optimizers and schedulers, and random numbers are as without it."""
    outcomes = []
    for every in (0, verify):
        step, state = model_and_step()
        compiled = gc.compile(step, verify=every, options={"cpp": False})
        losses = [compiled(gc.ones(6, 4) * i).item() for i in range(10)]
        assert compiled._specializations
        outcomes.append((losses, [t.tolist() for t in state()]))
    assert outcomes[0] == outcomes[1]


@pytest.mark.filterwarnings("ignore:compile")  # Effects cannot be captured.
def test_effects_on_the_other_side_of_a_decision_happen_once() -> None:
    log: list[float] = []

    @gc.compile(verify=1)
    def function(x: gc.Tensor) -> gc.Tensor:
        y = x * 2
        if y.sum() > 2:
            log.append(1.0)
        return y

    for value in (0.0, 0.0, 0.0, 2.0, 0.0, 3.0):
        assert function(gc.ones(2) * value).tolist() == [2 * value] * 2
    assert log == [1.0, 1.0]


def test_backends_are_no_state_of_a_function() -> None:
    """The plan of an optimizer's step refers to its backend, whose caches are kept as they are."""
    host, backend = Config(), gc.zeros(()).device.backend
    host.backend = backend  # type: ignore[attr-defined]
    snapshot = Snapshot([host])
    assert any(args[0] is vars(host) for _, args in snapshot.steps)
    assert not any(args[0] is vars(backend) or args[0] is backend for _, args in snapshot.steps)


def test_gradients_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of its own, whose backward reads what no guard covers: the result is right, the gradient is not."""
    config, w = Config(), gc.ones(3, requires_grad=True)
    without_guard(monkeypatch, "scale ==")
    function = gc.compile(lambda x: (w * config.scale).sum() - (w.detach() * config.scale).sum() + x.sum(), verify=1)
    x = gc.ones(3)
    run(function, x)
    config.scale = 3.0
    with pytest.raises(VerificationError, match=r"the gradient of w.*: 3 of 3 elements differ") as caught:
        function(x)
    assert "the result:" not in str(caught.value)


def test_state_that_is_written_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    config, buffer = Config(), gc.zeros(2)
    without_guard(monkeypatch, "scale ==")

    def function(x: gc.Tensor) -> gc.Tensor:
        buffer.add_(config.scale)
        return x * 2

    compiled, x = gc.compile(function, verify=1), gc.ones(1)
    run(compiled, x)
    assert buffer.tolist() == [8.0, 8.0]
    config.scale = 3.0
    with pytest.raises(VerificationError, match=r"buffer.*: 2 of 2 elements differ"):
        compiled(x)


def test_calls_that_a_program_leaves_out_are_found(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    config = Config()
    without_guard(monkeypatch, "scale ==")

    def function(x: gc.Tensor) -> gc.Tensor:
        if config.scale > 2:
            print("large")
        return x * 2

    compiled, x = gc.compile(function, verify=1), gc.ones(1)
    run(compiled, x)
    config.scale = 3.0
    with pytest.raises(VerificationError, match="in eager execution, print is called"):
        compiled(x)
    assert capsys.readouterr().out == "large\n"


def test_errors_are_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config()
    without_guard(monkeypatch, "scale ==")

    def function(x: gc.Tensor) -> gc.Tensor:
        if config.scale > 2:
            raise ValueError("too large")
        return x * 2

    compiled, x = gc.compile(function, verify=1), gc.ones(1)
    run(compiled, x)
    config.scale = 3.0
    with pytest.raises(VerificationError, match="eager execution raises ValueError: too large") as caught:
        compiled(x)
    assert isinstance(caught.value.__cause__, ValueError)


def test_functions_of_the_user_in_schedulers_are_not_called_twice() -> None:
    called: list[int] = []

    def count(epoch: int) -> float:
        called.append(epoch)
        return 1.0

    p = gc.nn.Parameter(gc.ones(1))
    optimizer = gc.optim.SGD([p], lr=1.0)
    scheduler = gc.optim.lr_scheduler.LambdaLR(optimizer, count)

    def step() -> None:
        p.grad = gc.ones(1)
        optimizer.step()
        scheduler.step()

    with pytest.warns(UserWarning, match="are not verified: an optimizer or scheduler runs functions of yours"):
        run(gc.compile(step, verify=1), n=5)
    assert called == [*range(6)]


def test_parts_modules_decisions_and_copies() -> None:
    kept: list[float] = []

    def cut(x: gc.Tensor) -> gc.Tensor:
        y = x * 2
        kept.append(float(y.sum()))
        return y + 1

    net = gc.nn.Linear(2, 1)
    decided: Callable[[gc.Tensor], gc.Tensor] = lambda x: x * 2 if x.sum() > 0 else x - 1  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parts, module, ways = (gc.compile(each, verify=1) for each in (cut, net, decided))
        for value in (1.0, 1.0, 1.0, -1.0, -1.0, 1.0, -1.0):
            x = gc.full((1, 2), value)
            assert gc.equal(parts(x), x * 2 + 1)
            assert gc.equal(ways(x), decided(x))
            assert gc.allclose(module(x), net(x))
    assert len(kept) == 7
    assert all(part._verifier is not None for part in parts._parts)
    assert ways._verifier.calls


@pytest.mark.filterwarnings("error")
def test_a_program_for_tensors_that_share_an_array_is_not_verified_for_others() -> None:
    other = gc.ones(3)
    compiled = gc.compile(lambda x: x * other + x, verify=1)
    for x in (*[other.detach() for _ in range(3)], gc.zeros(3), gc.zeros(3), other.detach(), gc.zeros(3)):
        assert gc.equal(compiled(x), x * other + x)


def test_returned_arguments_are_the_same_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    without_guard(monkeypatch, "is found twice")
    monkeypatch.setattr(guards.Guards, "_identity", lambda *args: None)
    function = gc.compile(lambda x, a, b: (x * 2, b), verify=1)
    one, x = [1.0], gc.ones(1)
    for _ in range(4):
        assert function(x, one, one)[1] is one
    with pytest.raises(VerificationError, match=r"the result\[1\]: eager is argument\[2\], compiled is argument\[1\]"):
        function(x, one, [1.0])


def test_what_is_compared() -> None:
    exact = {"a": Leaf("int", 0.0, np.asarray(3))}
    assert [*find_differences(exact, {"a": Leaf("int", 0.0, np.asarray(4))})] == [
        "a: 1 of 1 elements differ: eager 3, compiled 4"
    ]
    allowed = verification.ALLOWED["float32"]

    def leaf(*values: float) -> dict[str, Leaf]:
        return {"a": Leaf("float32", allowed, np.array(values, "float32"))}

    nan, inf = float("nan"), float("inf")
    for one, other in [((1.0, 1e-9), (1.0, 2e-9)), ((nan, inf, 1.0), (nan, inf, 1.0)), ((0.0,), (-0.0,))]:
        assert not [*find_differences(leaf(*one), leaf(*other))]
    for one, other in [((1.0,), (1.0001,)), ((nan,), (1.0,)), ((inf,), (-inf,)), ((1e30,), (inf,))]:
        assert [*find_differences(leaf(*one), leaf(*other))]
    assert [*find_differences(leaf(1.0), {})] == ["a: eager float32, compiled nothing"]
    gradients = [{"the gradient of a": leaf(*a)["a"], "the gradient of b": leaf(1.0)["a"]} for a in ((1e-9,), (2e-9,))]
    assert not [*find_differences(*gradients)]
    steps = [{"w": leaf(w, 1.0)["a"], "w.grad": leaf(g, 1.0)["a"]} for w, g in ((0.5, 1e-9), (0.6, -1e-9))]
    assert not [*find_differences(*steps)]  # Adam takes whole steps by gradients that are rounding alone
    steps[1]["w"] = leaf(0.6, 1.1)["a"]
    assert [*find_differences(*steps)] == [
        "w: 1 of 2 elements differ, by up to 0.1 (allowed: 2e-05); first at [1]: eager 1.0, compiled 1.100000023841858"
    ]


def test_snapshots() -> None:
    p = gc.nn.Parameter(gc.ones(2))
    view, optimizer = p.detach()[:1], gc.optim.SGD([p], lr=0.5, momentum=0.9)
    p.grad = gc.ones(2)
    optimizer.step()
    before = p.tolist(), optimizer.state_dict(), p._version, p.grad
    before[1]["state"][0]["momentum_buffer"] = optimizer.state[p]["momentum_buffer"].clone()
    saved = Snapshot([p, view, optimizer])
    optimizer.step()
    optimizer.zero_grad()
    optimizer.param_groups[0]["lr"] = 7.0
    gc.rand(3)
    saved.restore()
    assert (p.tolist(), p._version) == (before[0], before[2])
    assert p.grad is before[3]
    assert optimizer.param_groups[0]["lr"] == 0.5
    assert gc.equal(optimizer.state[p]["momentum_buffer"], before[1]["state"][0]["momentum_buffer"])
    with pytest.raises(Uncopyable, match="cannot be copied"):
        Snapshot([{"a": (number for number in range(3))}])


def test_the_setting() -> None:
    for wrong in (-1, True, 1.5, "all"):
        with pytest.raises(RuntimeError, match="verify must be a number of calls"):
            gc.compile(lambda x: x, verify=wrong)  # type: ignore[arg-type]
    text = "import gradcore as gc; print(gc.compile(lambda x: x)._verifier.every, gc.compile(abs, verify=0)._verifier)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True,
                          env={**os.environ, "GRADCORE_COMPILE_VERIFY": "7"})  # fmt: skip
    assert done.stdout == "7 None\n"
