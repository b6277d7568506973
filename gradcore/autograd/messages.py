"""What errors about the graph say: in PyTorch's words, so that searching for them finds answers."""

from __future__ import annotations

import warnings
from typing import Any

from gradcore import config
from gradcore.autograd.modes import ANOMALY, local
from gradcore.autograd.variables import Edge, type_name, version_counter
from gradcore.errors import caller_depth

__all__ = [
    "FREED",
    "INFERENCE_SAVED",
    "history_lost",
    "modified_in_place",
    "not_differentiable",
    "operation_of",
    "refusal",
]

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
    "saved tensors after calling backward."
)

INFERENCE_SAVED = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
    "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in "
    "autograd, or use `gradcore.no_grad()` instead of `gradcore.inference_mode()`."
)


def operation_of(node: Any) -> str:
    """A node's name without ``Backward0``, as error messages have it: ``Exp``, ``Sum1``."""
    name, _, number = type(node).__name__.rpartition("Backward")
    return f"{name}{number}".removesuffix("0") if name else number


#: Why a view must not be written to in place, by the way in which it was made.
_REASONS = {
    "multi": (
        "This view is the output of a function that returns multiple views. Such functions do not allow the output "
        "views to be modified inplace. You should replace the inplace operation by an out-of-place one."
    ),
    "custom": (
        "This view was created inside a custom Function (or because an input was returned as-is) and the autograd "
        "logic to handle view+inplace would override the custom backward associated with the custom Function, leading "
        "to incorrect gradients. This behavior is forbidden. You can fix this by cloning the output of the custom "
        "Function."
    ),
}


def refusal(view: Any, what: str = "is being") -> RuntimeError:
    """The error for a write in place to a view that does not allow it; `what` says who was written to."""
    creation, edge = view._meta.creation, view._edge
    mode = creation if creation in ("no_grad", "inference") else "no_grad"
    normal = "with grad mode enabled" if mode == "no_grad" else "in normal mode"
    made = "" if edge is None else f"Output {edge[1]} of {operation_of(edge[0])} is a view"
    if creation == mode or not made:
        made = f"{made} of a view which was created in" if made else "A view was created in"
        header = f"{made} {mode} mode and {what} modified inplace {normal}."
    else:
        header = f"{made} and {what} modified inplace."
    reason = _REASONS.get(creation) or (
        "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving "
        f"both the view and the inplace either both inside the {mode if mode == 'no_grad' else 'inference_mode'} block "
        "(if you don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked)."
    )
    return RuntimeError(f"{header} {reason}")


#: Dtypes that are younger than the classes of tensors, ``torch.FloatTensor`` and so on, that messages name.
_WITHOUT_CLASS = ("bfloat16", "bool", "complex64", "complex128")


def _type_of(t: Any) -> str:
    if t._dtype.name in _WITHOUT_CLASS:
        return f"{t._device.type.upper()}{t._dtype.scalar_name}Type"
    return type_name(t)


def modified_in_place(t: Any, edge: Edge | None, expected: int) -> RuntimeError:
    """The error for a saved tensor (with its history `edge`) that is no longer at version `expected`."""
    source = ""
    if edge is not None and not edge[0].is_accumulator:
        source = f", which is output {edge[1]} of {operation_of(edge[0])},"
    if local.state.mode & ANOMALY:
        hint = (
            "the backtrace further above shows the operation that failed to compute its gradient. The variable in "
            "question was changed in there or anywhere later. Good luck!"
        )
    else:
        hint = (
            "enable anomaly detection to find the operation that failed to compute its gradient, with "
            "gradcore.autograd.set_detect_anomaly(True, check_nan=False)."
        )
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{_type_of(t)} {list(t._array.shape)}]{source} is at version {version_counter(t).version}; "
        f"expected version {expected} instead. Hint: {hint}"
    )


def not_differentiable(op: Any, position: int) -> RuntimeError:
    """The error for a tensor that requires grad, or has a tangent, where the operation has no derivative by it."""
    return RuntimeError(
        f"The function '{op.name}' is not differentiable with respect to argument '{op.names[position]}'. This input "
        "cannot have requires_grad True."
    )


#: Conversions that drop a tensor's history: what to do instead, and whether they are an error by default.
_LOSSES = {
    "number": (
        "Converting a tensor with requires_grad=True to a scalar loses its history. Use tensor.item() for the number, "
        "or functions of gradcore, which are differentiated (gradcore.sin, not math.sin).",
        False,
    ),
    "element": (
        "Writing a tensor with requires_grad=True into an element of an array loses its history. Write into a tensor "
        "or collect tensors in a list for gradcore.stack, or write tensor.item() for the number.",
        True,
    ),
    "copy": (
        "A new tensor of a tensor with requires_grad=True has none of its history. Use tensor.clone() to be "
        "differentiated, or tensor.detach().clone(), rather than gradcore.tensor(tensor).",
        False,
    ),
    "container": (
        "A Function got a tensor with requires_grad=True inside a list, tuple or dict, to which no gradient will flow. "
        "Pass tensors one by one to Function.apply, or tensor.detach().",
        False,
    ),
    "sequence": (
        "A tensor of a sequence of tensors with requires_grad=True has none of their histories. Use gradcore.stack to "
        "be differentiated, or tensor.item() for numbers.",
        True,
    ),
}


def history_lost(how: str) -> None:
    """Raise, or warn, of a conversion that drops the history of a tensor that requires grad.

    Parameters
    ----------
    how : str
        A key of `_LOSSES`.
    """
    text, raises = _LOSSES[how]
    policy = config.history_loss()
    if policy == "error" or (policy == "default" and raises):
        raise RuntimeError(f"{text} gradcore.set_history_loss('warn') makes this error a warning.")
    warnings.warn(f"{text} gradcore.set_history_loss('error') makes this warning an error.", stacklevel=caller_depth())
