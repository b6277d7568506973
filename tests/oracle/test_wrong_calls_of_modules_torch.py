"""Calls of modules with one thing wrong: an error of PyTorch's kind, without names or words of what is inside."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from tests.nn.module_calls import CALLS, Call, wrong_arguments, wrong_inputs
from tests.ops.test_error_messages import INTERNAL, RAW

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

#: Kinds of errors that stand for PyTorch's. An `AttributeError` of PyTorch's comes from the first line that uses an
#: argument of a wrong type, where gradcore checks the argument.
ALSO = {"AttributeError": (TypeError,)}
#: Errors of another kind, because another check finds the same mistake: module and start of the label.
DIFFERENT = [
    ("Bilinear", "argument 0"), ("ConvTranspose", "input 0: dtype"), ("Unfold", "input 0: no dims"),
    ("Pool", "input 0: no dims"), ("Pool", "argument"), ("Pool", "output_size=-1"), ("MaxUnpool", "argument"),
    ("MaxUnpool", "input 0: no dims"), ("AdaptiveLogSoftmax", "input 1: on meta"),
    ("AdaptiveLogSoftmax", "argument 1: 2.5"), ("Norm", "argument 0: (7, 8, 9)"), ("RMSNorm", "input 0: no dims"),
    ("RNN", "an argument more"), ("Transformer", "one input more"), ("MultiheadAttention", "input"),
    ("EmbeddingBag", "input 1: dim 0 longer"), ("CrossEntropyLoss", "input 0: no dims"), ("CTCLoss", "input"),
    ("BCEWithLogits", "input 0: dtype complex64"), ("MarginLoss", "input 0: dtype bool"),
    ("Upsampl", "scale_factor=0"), ("Upsample", "scale_factor=0"),
]  # fmt: skip
#: Modules that refuse a call which PyTorch takes: kernels without size, indices of less than 32 bits, complex targets,
#: and on CPU and meta at once, where PyTorch's layers of the first kind give a result on meta.
REFUSED = {"MaxUnpool1d", "MaxUnpool2d", "FractionalMaxPool2d", "EmbeddingBag", "BCEWithLogitsLoss"}


def outcome(library: Any, call: Call, inputs: list[Any]) -> Any:
    """Return the result of making and calling the module, or the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call.make(library)(*inputs)
        except Exception as error:
            return error


def judge(module: str, label: str, mine: Any, theirs: Any) -> str:
    """Return what is wrong with the outcome, or ""."""
    if not isinstance(mine, Exception):
        return ""
    message = str(mine)
    if RAW.search(message) and message != str(theirs):
        return f"{label}: {message} (PyTorch: {str(theirs)[:100]})"
    if INTERNAL.intersection(re.findall(r"\w+", message)):
        return f"{label} names what is inside: {message}"
    if isinstance(theirs, Exception) and "array(" not in label:  # arrays stand for tensors
        kinds = {kind.__name__ for kind in type(theirs).__mro__}
        allowed = tuple(each for kind in kinds for each in ALSO.get(kind, ()))
        is_different = any(name in module and label.startswith(start) for name, start in DIFFERENT)
        if not is_different and not isinstance(mine, (type(theirs), *allowed)):
            return f"{label}: {type(mine).__name__}: {message}, PyTorch: {type(theirs).__name__}: {str(theirs)[:100]}"
    return ""


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_wrong_calls(call: Call) -> None:
    right = outcome(gc, call, [gc.tensor(a) for a in call.inputs])
    assert not isinstance(right, Exception), right
    wrong = []
    for (label, ours), (_, others) in zip(wrong_inputs(call, gc), wrong_inputs(call, torch), strict=True):
        mine, theirs = outcome(gc, call, ours), outcome(torch, call, others)
        is_refusal = isinstance(mine, Exception) and not isinstance(theirs, Exception)
        if is_refusal and "meta" not in label and call.name not in REFUSED and "of 0" not in label:
            wrong.append(f"{label} is refused: {mine}")
        wrong.append(judge(call.name, label, mine, theirs))
    for label, changed in wrong_arguments(call):
        if "1099511627776" in label:
            continue  # PyTorch may allocate it
        mine, theirs = (outcome(lib, changed, [lib.tensor(np.array(a)) for a in call.inputs]) for lib in (gc, torch))
        wrong.append(judge(call.name, label, mine, theirs))
    assert not any(wrong), "\n".join(filter(None, wrong))


@pytest.mark.parametrize(
    "make",
    [
        "HuberLoss(delta=1j)", "HuberLoss(delta='a')", "MultiMarginLoss(p=3)", "MultiMarginLoss(weight=T.ones(2, 2))",
        "TripletMarginLoss(margin=0)", "TripletMarginWithDistanceLoss(margin=-1.0)", "Hardtanh(1, 0)",
        "LinearCrossEntropyLoss(3, 2, weight=T.ones(3))", "LinearCrossEntropyLoss(3, 2, label_smoothing=2.0)",
        "FractionalMaxPool2d(2)", "FractionalMaxPool3d(2, 2, 0.5)", "FractionalMaxPool2d(2, output_ratio=(1.5, 0.2))",
        "FractionalMaxPool3d(0, output_ratio=0.5)", "FractionalMaxPool3d(2, output_ratio=(0.5, 0.5, 1))",
        "CircularPad1d(1)(T.ones(1, 2, 3, 4))", "CircularPad2d(1)(T.ones(2, 2))", "CircularPad3d(1)(T.ones(2, 2))",
    ],
)  # fmt: skip
def test_errors_of_constructors(make: str) -> None:
    errors = []
    for lib in (gc, torch):
        with pytest.raises(Exception) as caught:
            eval(f"nn.{make}", {"nn": lib.nn, "T": lib})
        errors.append((caught.type, str(caught.value)))
    assert errors[0] == errors[1]
