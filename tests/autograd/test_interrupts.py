"""An interrupt leaves every mode as it was, or comes inside of the block that switches it back."""

import copy
import dis
import functools
import sys

import pytest

import gradcore as gc
from gradcore.autograd import forward_ad
from gradcore.autograd.modes import State, local
from gradcore.overrides import TorchFunctionMode
from gradcore.tensor.transforms import GradLevel, transform_scope


class Watching(TorchFunctionMode):
    """A mode that sees calls and makes them."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


MANAGERS = {
    "no_grad": gc.no_grad,
    "enable_grad": gc.enable_grad,
    "inference_mode": gc.inference_mode,
    "dual_level": forward_ad.dual_level,
    "saved_tensors_hooks": lambda: gc.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    "save_on_cpu": gc.autograd.graph.save_on_cpu,
    "disable_saved_tensors_hooks": lambda: gc.autograd.graph.disable_saved_tensors_hooks("no"),
    "allow_mutation": gc.autograd.graph.allow_mutation_on_saved_tensors,
    "detect_anomaly": gc.autograd.detect_anomaly,
    "autocast": lambda: gc.autocast("cpu"),
    "function mode": Watching,
    "transformation": lambda: transform_scope(GradLevel(), True),
    "device": lambda: gc.device("meta"),
}


def modes():
    state = local.state
    found = {name: getattr(state, name) for name in State.__slots__ if name not in ("run", "autocast")}
    return copy.copy(found), gc.is_autocast_enabled("cpu"), gc.get_default_device()


@functools.cache
def after_calls(code):
    """Return the offsets at which Python checks for signals: the start, and after each call."""
    places, called = set(), True
    for instruction in dis.get_instructions(code):
        if called:
            places.add(instruction.offset)
        called = instruction.opname.startswith(("CALL", "RESUME"))
    return places


class Interrupter:
    """Raises KeyboardInterrupt at the n-th such place of gradcore's own functions that are entered meanwhile."""

    def __init__(self, number):
        self.number, self.seen = number, 0

    def __call__(self, frame, event, arg):
        if "gradcore" not in frame.f_code.co_filename or "tests" in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_lasti in after_calls(frame.f_code):
            self.seen += 1
            if self.seen == self.number:
                raise KeyboardInterrupt
        return self


def entered(manager, number):
    """Enter the manager with an interrupt at place `number`; returns whether there was one."""
    before = sys.gettrace()
    sys.settrace(Interrupter(number))
    try:
        with manager:
            sys.settrace(before)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("make", MANAGERS.values(), ids=MANAGERS)
def test_modes_are_unchanged_after_an_interrupt_of_entering(make):
    start = modes()
    number = 1
    while entered(make(), number):
        assert modes() == start, f"interrupted at place {number}"
        number += 1
        assert number < 500
    assert number > 1
    assert modes() == start
