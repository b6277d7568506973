"""The programs of `tests.compiler.training_programs`, compiled: each of 20 training steps equals the eager one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gradcore as gc
from gradcore.compiler.targets.native import plans
from tests.compiler import training_programs
from tests.compiler.training_programs import PROGRAMS


@pytest.mark.slow
@pytest.mark.usefixtures("quick_builds")
@pytest.mark.parametrize("cpp", [False, "wait"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_steps_are_those_of_eager_execution(
    program: Callable[[Any], Any], cpp: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[Any] = []
    declined: list[Any] = []
    monkeypatch.setattr(plans, "_call_from_python", lambda *arguments: declined.append(arguments))

    def compiles(function: Any) -> Any:
        call: Any = gc.compile(function, options={"cpp": cpp})
        compiled.append(getattr(call, "_compiled_call_impl", call))
        return call

    runs = [training_programs.train(gc, program, each) for each in (compiles, lambda function: function)]
    states: list[Any] = [None, None]
    for step in range(20):
        found = []
        for i, run in enumerate(runs):
            if states[i] is not None:
                gc.set_rng_state(states[i])
            found.append([each.clone() for each in next(run)])
            states[i] = gc.get_rng_state()
        assert gc.equal(states[0], states[1])
        for one, other in zip(*found, strict=True):
            close = gc.equal(one, other) if not cpp else gc.allclose(one, other, rtol=1e-3, atol=1e-4)
            assert close, (step, one, other)
    assert all(each._specializations or each._parts for each in compiled)
    assert not declined, "a native function took none of its arguments"
