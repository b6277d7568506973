"""Every setting of every operation takes NumPy's scalars and tensors without dims as it takes Python's numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.dispatch.settings import settings_of
from gradcore.ops.declare.table import OPS, Op
from tests.ops.cases import Drawn, cases
from tests.ops.test_every_op import tensors

INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
FLOATS = [np.float16, np.float32, np.float64]
PUBLIC = [op for op in OPS.values() if (op.function or op.method) and not op.random and settings_of(op)]


def twins(value: Any) -> Iterator[tuple[Any, Any]]:
    """Pairs of a Python value and another form of it."""
    if isinstance(value, bool):
        yield from ((value, np.bool_(value)), (value, gc.tensor(value)))
    elif isinstance(value, int):
        yield from ((value, kind(value)) for kind in INTEGERS if np.iinfo(kind).min <= value <= np.iinfo(kind).max)
        yield value, gc.tensor(value)
    elif isinstance(value, float):
        yield from ((float(kind(value)), kind(value)) for kind in FLOATS if np.isfinite(kind(value)))
        yield value, gc.tensor(value, dtype=gc.float64)
    elif isinstance(value, complex):
        yield from ((value, np.complex128(value)), (value, gc.tensor(value, dtype=gc.complex128)))
    elif isinstance(value, (tuple, list)) and value and not isinstance(value[0], (tuple, list, gc.Tensor, str)):
        pairs = zip(*(list(twins(v)) for v in value), strict=False)
        for columns in pairs:
            plain, other = zip(*columns, strict=True)
            yield type(value)(plain), list(other)


def given(case: Drawn) -> dict[int, Any]:
    """Return the settings of a call by position, with defaults for those that it omits."""
    found = {}
    for i, setting in settings_of(case.op).items():
        parameter = case.op.parameters[i]
        if i < len(case.args):
            found[i] = case.args[i]
        elif setting.name in case.settings:
            found[i] = case.settings[setting.name]
        elif parameter.default is not parameter.empty:
            found[i] = parameter.default
    return found


def with_setting(case: Drawn, position: int, value: Any) -> Drawn:
    """Return the call with another value of a setting."""
    args, settings = case.args, dict(case.settings)
    if position < len(args):
        args = (*args[:position], value, *args[position + 1 :])
    else:
        settings[case.op.names[position]] = value
    return Drawn(case.op, case.label, args, settings)


def taken(call: Drawn, value: Any) -> None:
    """Make the call; say which value it took where it raises nothing."""
    call.call(tensors(call))
    pytest.fail(f"{call.op.name} takes {value!r}")


def outcome(case: Drawn, position: int, value: Any) -> Any:
    """Return the values and gradients of a call with that setting, or the class of its error."""
    call = with_setting(case, position, value)
    ins = tensors(call)
    try:
        out = call.call(ins)
    except Exception as error:
        return type(error)
    outs = [t for t in (out if isinstance(out, (tuple, list)) else [out]) if isinstance(t, gc.Tensor)]
    recorded = [t for t in outs if t.requires_grad]
    if recorded:
        gc.autograd.backward(recorded, [gc.ones_like(t) for t in recorded])
    shown = [t.detach().numpy().tobytes() for t in outs] or out
    return shown, [t.grad is not None and t.grad.numpy().tobytes() for t in ins]


@pytest.mark.parametrize("op", PUBLIC, ids=lambda op: op.name)
def test_other_forms_of_numbers(op: Op) -> None:
    """A setting given as a NumPy scalar or a tensor is the Python number, in values, gradients and errors."""
    tried = 0
    for case in cases(op)[:4]:
        for position, value in given(case).items():
            if "Tensor" in {kind.words for kind in settings_of(op)[position].kinds}:
                continue  # tensors stay what they are there
            for plain, other in twins(value):
                expected = outcome(case, position, plain)
                assert outcome(case, position, other) == expected, (case.label, op.names[position], other)
                tried += 1
    if not tried:
        pytest.skip("no setting is a number")


WRONG = ["a", object(), {"a": 1}, {1}, b"1", np.datetime64("2020-01-01"), np.str_("1"), print, ..., [object()], ("2",)]


@pytest.mark.parametrize("op", PUBLIC, ids=lambda op: op.name)
def test_what_means_nothing_is_refused_by_name(op: Op) -> None:
    """What is no number, flag or name at all is a TypeError that names it, and so is a tensor with history."""
    drawn = cases(op)
    if not drawn:
        pytest.skip("no calls are drawn")
    case = drawn[0]
    for position, setting in settings_of(op).items():
        wrong = [gc.ones(2, 2), gc.ones((), requires_grad=True), gc.ones((), requires_grad=True) * 2, *WRONG]
        words = {kind.words for kind in setting.kinds}
        if "str" in words:
            wrong = [value for value in wrong if not isinstance(value, str)]
        if not any("float" in word or word == "Number" for word in words):
            wrong += [1.5, float("nan"), np.float64(1.0), gc.tensor(1.0), 1j, [1.5]]
        if "int" in words and not {"bool", "float"} & words:
            wrong += [np.bool_(True), gc.tensor(True), True, False]
        if words == {"bool"}:
            wrong += [0, 1, None, np.int64(1), gc.tensor(1)]
        for value in wrong:
            if isinstance(value, gc.Tensor) and "Tensor" in words:
                continue  # taken for that, whatever comes of it
            call = with_setting(case, position, value)
            with pytest.raises(TypeError, match=f"argument '{setting.name}'"):
                taken(call, value)
