"""What a recording refuses: each check has a function that it refuses, with its own words, and that runs as it is."""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import pickle
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.compiler.capture import guards
from gradcore.compiler.capture.reasons import Code, Reason
from gradcore.compiler.function import CompiledFunction

FOLDER = Path(guards.__file__).parents[1]
REFUSING = {"stop", "refuse", "_read", "_refuse"}
KEPT: list[Any] = []
COUNTS: list[int] = []
W = gc.ones(3, requires_grad=True)
OWN = gc.optim.SGD([W], lr=0.0)
SCHEDULER = gc.optim.lr_scheduler.StepLR(OWN, 5)
SCALER = gc.amp.GradScaler("cpu")


class Returning(gc.optim.Optimizer):
    def step(self, closure: Any = None) -> Any:
        return 1.0


class Replacing(gc.optim.SGD):
    def step(self, closure: Any = None) -> None:
        W.grad = gc.ones(3)


class Clamping(gc.optim.SGD):
    def step(self, closure: Any = None) -> None:
        pass


CLAMPING = Clamping([W], lr=0.0)
RETURNING, REPLACING = Returning([W], {}), Replacing([W], lr=0.0)


def number_and_complex(x: gc.Tensor) -> Any:
    total = x.sum().item()
    return x + 1, total * 1j


def in_place(x: gc.Tensor) -> gc.Tensor:
    x.add_(1)
    return x * 2 if x.sum() > 0 else x * 3


def replaced(x: gc.Tensor) -> gc.Tensor:
    (W * x).sum().backward()
    REPLACING.step()
    return x


def after_own_code(x: gc.Tensor) -> Any:
    CLAMPING.step()
    return x * 2


def number_after_own_code(x: gc.Tensor) -> Any:
    CLAMPING.step()
    return 2.0


def of_an_argument(x: gc.Tensor) -> gc.Tensor:
    y = x.detach().requires_grad_()
    y.grad = x
    return x + 1


class Raising(gc.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: gc.Tensor) -> gc.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: gc.Tensor) -> gc.Tensor:
        raise RuntimeError("no gradient")


def kept(x: gc.Tensor) -> gc.Tensor:
    KEPT[:] = [x * 2]
    return x + 1


def leaf(x: gc.Tensor) -> gc.Tensor:
    return (x * 2).requires_grad_()


def retained(x: gc.Tensor) -> gc.Tensor:
    y = x * W
    y.retain_grad()
    return y


def grad_of_history(x: gc.Tensor) -> gc.Tensor:
    y = x * W
    y.retain_grad()
    W.grad = y
    return x + 1


def data(x: gc.Tensor) -> gc.Tensor:
    x.data = x.detach() * 2
    return x + 1


def _contexts() -> tuple[Any, Any]:
    return contextlib.nullcontext(), contextlib.nullcontext()


def needing(x: gc.Tensor) -> gc.Tensor:
    x.requires_grad_(not x.requires_grad)
    return x + 1


@gc.compiler.disable
def apart(x: gc.Tensor) -> gc.Tensor:
    return x * 2


def called_with(call: Callable[[], Any]) -> Callable[[gc.Tensor], Any]:
    def function(x: gc.Tensor) -> gc.Tensor:
        call()
        return x + 1

    return function


def with_inference(x: gc.Tensor) -> gc.Tensor:
    with gc.inference_mode():
        return x * 2


def stepping_in_a_mode(x: gc.Tensor) -> gc.Tensor:
    with gc.autocast("cpu"):
        OWN.step()
    return x + 1


def stepping_in_vmap(x: gc.Tensor) -> gc.Tensor:
    def each(y: gc.Tensor) -> gc.Tensor:
        OWN.step()
        return y * 2

    return gc.vmap(each)(x)


def caught(x: gc.Tensor) -> gc.Tensor:
    try:
        return x[gc.tensor([9])]
    except IndexError:
        return x + 1


def catching_late(x: gc.Tensor) -> gc.Tensor:
    x.add_(1)
    try:
        return x[gc.tensor([1])] * 2
    except IndexError:
        return x + 1


DISPATCHED = functools.singledispatch(lambda value: value)


def deleting(x: gc.Tensor) -> gc.Tensor:
    try:
        del OWN.absent
    except AttributeError:
        return x + 1
    return x


CASES: dict[str, tuple[Callable[..., Any], Code, str]] = {
    "mask": (lambda x: x[x > 0] + 1, Code.SIZES, "a mask selects elements, so that sizes depend on values"),
    "pickle": (lambda x: pickle.loads(pickle.dumps(x)) + 1, Code.CALL, "dumps is called"),
    "array": (lambda x: gc.tensor(np.asarray(x)) + 1, Code.ELEMENTS, "data of its array is used"),
    "ufunc": (lambda x: gc.tensor(np.hypot(x._array, x._array)), Code.KERNEL, "NumPy's hypot is called on its array"),
    "function": (lambda x: gc.tensor(np.median(x._array)), Code.KERNEL, "NumPy's median is called on its array"),
    "computed": (
        number_and_complex,
        Code.ELEMENTS,
        "elements of a tensor are computed with, together with what is no number",
    ),
    "half": (lambda x: x.sum().item() * x.half(), Code.ELEMENTS, "or a number with one of 16 bits"),
    "integer": (lambda x: x * x.argmax().item(), Code.ELEMENTS, "an integer is computed with together with a tensor"),
    "divided": (lambda x: (x + 1, 1 / x.sum().item()), Code.ELEMENTS, "numbers are divided by an element of a tensor"),
    "after effects": (
        in_place,
        Code.ELEMENTS,
        "elements of a tensor are read, after something was written in place or called",
    ),
    "item": (lambda x: x + float(x.sum()), Code.ELEMENTS, "elements of a tensor are read"),
    "list": (lambda x: x + x.tolist()[0], Code.ELEMENTS, "elements of a tensor are read"),
    "state": (lambda x: x + OWN.param_groups[0]["lr"], Code.OPTIMIZER, "param_groups of SGD is used"),
    "set": (lambda x: (setattr(OWN, "mark", 1), x + 1)[1], Code.OPTIMIZER, "mark of SGD is set"),
    "changed": (
        lambda x: (COUNTS.append(0), x + len(COUNTS))[1],
        Code.CHANGE,
        "the function changes what it depends on: length of COUNTS",
    ),
    "dispatch": (lambda x: x * DISPATCHED(2.0), Code.CALL, "a function of functools.singledispatch is called"),
    "deleted": (deleting, Code.OPTIMIZER, "absent of SGD is deleted"),
    "returning": (called_with(lambda: RETURNING.step()), Code.OPTIMIZER, "step of Returning returns something"),
    "leaf": (leaf, Code.LEAF, "a result is a leaf that requires grad"),
    "retained": (retained, Code.UNSUPPORTED, "a tensor that the function computes retains its gradient"),
    "inference": (with_inference, Code.RESULT, "a result has tangents, or is of inference mode"),
    "meta": (lambda x: gc.empty(2, device="meta"), Code.RESULT, "a result is no plain tensor of the CPU"),
    "twice": (lambda x: ([x + 1],) * 2, Code.RESULT, "is returned twice"),
    "view": (lambda x: x[0], Code.SHARED, "a result shares memory with an argument or with another result"),
    "object": (lambda x: (x + 1, slice(1)), Code.RESULT, "a result is a slice"),
    "kept": (kept, Code.KEPT, "the function keeps a tensor that it computes, beside what it returns"),
    "gradient with history": (
        grad_of_history,
        Code.TENSOR,
        "a gradient has a history, or is no plain tensor of the CPU",
    ),
    "data": (data, Code.WRITE, "the memory of a tensor is replaced"),
    "requires_grad": (needing, Code.WRITE, "requires_grad of a tensor is changed, or a history is recorded into it"),
    "sizes": (lambda x: x.nonzero() + 1, Code.SIZES, "has a result whose size depends on values"),
    "unique": (lambda x: x.unique() + 1, Code.SIZES, "has a result whose size depends on values"),
    "seed": (
        lambda x: (gc.manual_seed(1), x + gc.rand(3))[1],
        Code.GENERATOR,
        "the state of a generator is read or set",
    ),
    "checkpoint": (
        lambda x: gc.utils.checkpoint.checkpoint(gc.exp, x + 1, use_reentrant=False, context_fn=_contexts),
        Code.CALL,
        "checkpoint() is called with contexts",
    ),
    "cell": (
        lambda x: x * apart.__closure__[0].cell_contents if apart.__closure__ else x * 2,
        Code.STATE,
        "__closure__ of a function or frame is used",
    ),
    "disabled": (lambda x: apart(x) + 1, Code.UNSUPPORTED, "apart is not to be compiled"),
    "time": (lambda x: x + 0 * time.monotonic(), Code.CALL, "monotonic is called"),
    "copied": (lambda x: x + copy.deepcopy({"a": 1.0})["a"] * id(x) * 0, Code.CALL, "id is called"),
    "mode": (stepping_in_a_mode, Code.OPTIMIZER, "step is called in another mode"),
    "own code": (after_own_code, Code.OPTIMIZER, "runs functions of yours, after which something is computed"),
    "number after own code": (
        number_after_own_code,
        Code.OPTIMIZER,
        "runs functions of yours, after which a number is returned",
    ),
    "replaced": (replaced, Code.OPTIMIZER, "a step replaces a gradient"),
    "vmap": (stepping_in_vmap, Code.OPTIMIZER, "step is called within a transformation, or in a backward"),
    "argument": (called_with(lambda: OWN.step(dict)), Code.OPTIMIZER, "is given a"),
    "raising": (lambda x: Raising.apply(W * x), Code.UNSUPPORTED, "the gradients of a result cannot be computed: "),
    "attribute": (lambda x: (setattr(x, "mark", 1), x + 1)[1], Code.WRITE, "an attribute of a tensor is set"),
    "caught": (caught, Code.ERROR, "is caught"),
    "caught late": (catching_late, Code.ERROR, "an error may have to be caught after something was changed"),
    "break": (called_with(lambda: gc.compiler.graph_break("own words")), Code.BREAK, "own words"),
}


def reason_of(function: Callable[..., Any]) -> Reason | None:
    """Return why a function has no program."""
    compiled = CompiledFunction(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(4):
            x, W.grad = gc.full((3,), 1.0 + i), None
            compiled(x)
    return compiled._left


@pytest.mark.parametrize("name", CASES)
def test_checks(name: str) -> None:
    function, code, words = CASES[name]
    reason = reason_of(function)
    assert reason is not None
    assert reason.code is code
    assert words in reason.text


@pytest.mark.parametrize("change", [lambda y: y.mul_(2), lambda y: y[:2].mul_(2)], ids=["all", "a view"])
def test_arguments_with_a_history_that_are_written(change: Callable[[Any], Any]) -> None:
    """Their history is another one then, in which the function's calls are."""

    def function(y: gc.Tensor) -> gc.Tensor:
        noise = gc.rand(3)
        change(y)
        return y + noise

    compiled = CompiledFunction(function)

    def call(function: Any) -> list[Any]:
        gc.manual_seed(0)
        given = [W * float(i + 1) for i in range(4)]
        return [(function(y).tolist(), gc.autograd.grad(y.sum(), W)[0].tolist()) for y in given]

    with pytest.warns(UserWarning, match="an argument with a history is written in place"):
        found = call(compiled)
    assert found == call(function)
    wrong = CompiledFunction(lambda x: (W.mul_(x), 0))
    for _ in range(3):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            wrong(W * 2)


#: Checks that no function of the table comes to, by words in them, and why.
OTHERS = {
    "gradients are computed through the history": "test_observations has it",
    "a tensor in a list or dict that it is given": "test_guards has it",
    "graph_break() is called": "what graph_break says without words",
    "a tensor is pickled": "the watch sees pickle first",
    "the position of a generator is computed with": "of the library's code",
    "found in a way that cannot be checked": "of what guards do not find",
    "the graph of a result is freed in part": "of graphs that several results share",
    "a gradient is no recorded array": "of custom Functions that keep arrays",
    "the gradient of a tensor is set that has a history": "guards refuse such tensors first",
    "an argument with a history is written in place": "test_arguments_with_a_history_that_are_written",
    ", which runs functions of yours, is given a tensor": "of schedulers with functions that are given a metric",
    "the function has not been observed": "of first calls, which never have a program",
    "an optimiser takes a step": "a step that is called by other code of the library",
    "an array is hidden from the recording": "of kernels that call kernels",
    "whether arguments share memory decides": "of kernels that ask whether their arguments share memory",
    "which is no array": "of kernels of other packages",
    "is given to a kernel": "of kernels of other packages",
    "a function with a tensor inside is given to a kernel": "of kernels of other packages",
    "a kernel draws random numbers": "of kernels of other packages",
    "random numbers are drawn from another generator": "guards refuse generators first",
    "results with a history are on several devices": "tests/compiler/test_cuda.py has it",
    "of the device is called": "tests/compiler/test_cuda.py has it",
    "random numbers are repeated that": "test_checkpoint has it",
    "random numbers are drawn in backward": "tests/compiler/test_effects_of_backward.py has it",
    "may change an object from outside": "tests/compiler/test_effects_of_backward.py has it",
    "a tensor may be written in backward": "tests/compiler/test_effects_of_backward.py has it",
}


def sites() -> list[tuple[str, str]]:
    """Each check of a recording: where it is, and the longest words of what it says."""
    found = []
    rooms = (FOLDER, FOLDER / "autograd", FOLDER / "capture")
    files = {file for room in rooms for file in room.glob("*.py")} - {FOLDER / "symbolic_sizes.py"}  # see test_sizes
    for file in sorted(files):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            named = isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", ""))
            if named in REFUSING and isinstance(node, ast.Call):
                text = node.args[min(1, len(node.args) - 1)] if named != "_refuse" else node.args[0]
                parts = [n.value for n in ast.walk(text) if isinstance(n, ast.Constant)]
                words = [each for each in parts if isinstance(each, str)]
                if words:
                    found.append((f"{file.name}:{node.lineno}", max(words, key=len).strip()))
    return found


def test_every_check_is_in_the_table() -> None:
    assert len(sites()) > 35
    known = [words for *_, words in CASES.values()]
    new = [
        (where, words)
        for where, words in sites()
        if not any(words in each or (len(each) > 12 and each in words) for each in known)
        and not any(each in words for each in OTHERS)
    ]
    assert not new
