"""gradcore's own warnings and exceptions; all other errors have Python's built-in types."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterator
from types import FrameType

from gradcore.core import config
from gradcore.core.tracebacks import is_own, is_raised_by_user
from gradcore.torch_names import flags

__all__ = [
    "DeviceFallbackWarning",
    "LinAlgError",
    "OutOfBoundsError",
    "OutOfMemoryError",
    "Unavailable",
    "caller_depth",
    "history_lost",
    "raise_if_out_of_memory",
    "scipy_advice",
    "use_program_names",
    "warn",
    "warn_deprecated",
    "warn_once",
]


class DeviceFallbackWarning(UserWarning):
    """Warning that a CUDA device was requested but cannot be used, so that the CPU is used."""


class LinAlgError(RuntimeError):
    """Raised for a matrix that cannot be factored, inverted or used in a system of equations.

    Examples
    --------
    >>> import gradcore as gc
    >>> try:
    ...     gc.linalg.inv(gc.zeros(2, 2))
    ... except gc.linalg.LinAlgError as error:
    ...     print(type(error).__name__)
    LinAlgError
    """


class OutOfBoundsError(IndexError, RuntimeError):
    """Raised for an index outside of its dim.

    PyTorch raises IndexError or RuntimeError, depending on the operation.

    Examples
    --------
    >>> import gradcore as gc
    >>> try:
    ...     gc.ones(2)[5]
    ... except IndexError as error:
    ...     print(error)
    index 5 is out of bounds for dimension 0 with size 2
    """


class OutOfMemoryError(RuntimeError, MemoryError):
    """Raised when there is no memory left for an allocation."""


def raise_if_out_of_memory(error: BaseException, function: str) -> None:
    """Raise `OutOfMemoryError` if `error` is the `MemoryError` of an array library; do nothing for any other error.

    An error that user code raises stays as it is, in hooks and closures for example: a program may catch its class.
    """
    if isinstance(error, MemoryError) and not (isinstance(error, OutOfMemoryError) or is_raised_by_user(error)):
        raise OutOfMemoryError(f"{function}(): not enough memory: {error}") from error


class Unavailable(Exception):
    """Raised when a backend cannot be used here; the message says why and what to do."""


def scipy_advice() -> str:
    """Return which function to call instead if a function of SciPy is converting a tensor, else an empty string.

    SciPy's frames above the caller name the module. Those nearest to the user name the function or class.
    """
    frames = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith("scipy."):
            frames.append(frame)
        frame = frame.f_back
    for frame in reversed(frames):
        module = frame.f_globals["__name__"].split(".")[1]
        if module == "sparse":
            return " SciPy's sparse matrices compute with arrays: gradcore.sparse.from_scipy(matrix) has derivatives."
        for name in _names_of(frame):
            path = f"gradcore.scipy.{module}.{name}"
            if _exists(path):
                return f" scipy.{module} computes with arrays, without derivatives: {path} has them."
    return ""


def _names_of(frame: FrameType) -> Iterator[str]:
    """Yield the names under which a frame's function may be known: function, class, method of a distribution."""
    owner, function = frame.f_locals.get("self"), frame.f_code.co_name
    if owner is None:
        yield function
    elif isinstance(getattr(owner, "name", None), str):
        yield f"{owner.name}.{function}"
    else:
        yield type(owner).__name__


def _exists(path: str) -> bool:
    """Return whether a dotted path leads to something public that is not SciPy's, importing its module if necessary."""
    package, library, module, *names = path.split(".")
    try:
        result: object = importlib.import_module(f"{package}.{library}.{module}")
    except ImportError:
        return False
    for name in names:
        result = None if name.startswith("_") else getattr(result, name, None)
    return callable(result) and not str(getattr(result, "__module__", "")).startswith("scipy.")


def use_program_names(text: str) -> str:
    """Return a message with names as the program knows them: ``torch.`` after `as_torch.install`."""
    torch = sys.modules.get("torch")
    return text.replace("gradcore.", "torch.") if torch is not None and torch is sys.modules["gradcore"] else text


def caller_depth() -> int:
    """Return the `stacklevel` with which the caller's warning points to the first line outside of gradcore."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and is_own(frame):
        depth, frame = depth + 1, frame.f_back
    return depth


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points to the user's line."""
    warnings.warn(use_program_names(message), category, stacklevel=caller_depth())


#: The messages of warnings that have been issued and are not repeated.
SAID: set[str] = set()


def warn_once(message: str) -> None:
    """Issue a warning that points to the user's line, once per process.

    While `gradcore.set_warn_always` is on, it is issued each time.
    """
    if message not in SAID or flags.is_warn_always_enabled():
        warn(message)
        SAID.add(message)  # not reached if a filter turns the warning into an error


def warn_deprecated(old: str, new: str, hint: str = "") -> None:
    """Warn once that the function `old` of ``torch`` has been replaced by `new`."""
    warn_once(
        f"torch.{old} is deprecated in favor of torch.{new} and will be removed in a future PyTorch release."
        + (f"\n{hint}" if hint else "")
    )


#: Conversions that drop a tensor's history: what to do instead, and whether they are an error by default.
_LOSSES = {
    "number": (
        "Converting a tensor with requires_grad=True to a scalar loses its history. Use tensor.item() for the number, "
        "or functions that are differentiated (gradcore.sin, not math.sin).",
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
    """Raise an error, or warn, that a conversion drops the history of a tensor that requires grad.

    Parameters
    ----------
    how : str
        A key of `_LOSSES`.
    """
    text, raises = _LOSSES[how]
    policy = config.history_loss()
    if policy == "error" or (policy == "default" and raises):
        raise RuntimeError(use_program_names(f"{text} gradcore.set_history_loss('warn') makes this error a warning."))
    warn(f"{text} gradcore.set_history_loss('error') makes this warning an error.")
