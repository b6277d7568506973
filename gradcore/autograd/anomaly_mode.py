"""Anomaly detection: nodes store the call that recorded them, and errors in backward report that call."""

from __future__ import annotations

import linecache
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType, FrameType
from typing import Any

import numpy as np

from gradcore.autograd.modes import ANOMALY, GRAD, State, local
from gradcore.autograd.variables import Variable, tick
from gradcore.backends.vmap import all_samples
from gradcore.core.typing import AnyTensor

__all__ = ["detect_anomaly", "explain", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_detect_anomaly"]


class Origin(Sequence[str]):
    """The call that recorded a node. Iterating over it yields the lines of the traceback of that call.

    Attributes
    ----------
    parent : Node or None
        The node during whose backward this one was recorded.
    inputs, outputs : tuple
        Shape and dtype of each tensor.
    finite : object
        Whether the outputs had neither infinities nor nan: a bool or, on another device, their sum.
    suspects : tuple of int
        If they had: which of the inputs had, too.
    """

    __slots__ = ("finite", "frames", "inputs", "outputs", "parent", "suspects")

    def __init__(self, frame: FrameType | None, parent: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        frames: list[Any] = []
        while frame is not None:
            frames += frame.f_code, frame.f_lasti
            frame = frame.f_back
        #: The code and the offset of each frame, the innermost first.
        self.frames = frames
        self.parent = parent
        self.inputs, self.outputs = _kinds(inputs), _kinds(outputs)
        self.finite: Any = True
        self.suspects: tuple[int, ...] = ()
        for t in outputs:
            finite = _finite_later(t)
            if finite is not True:
                self.finite = finite
                if finite is False:
                    self.suspects = tuple(i for i, t in enumerate(inputs) if _finite_later(t) is False)
                break

    def __iter__(self) -> Iterator[str]:
        """Yield the lines of the traceback of the call, the outermost call first."""
        for i in range(len(self.frames) - 2, -1, -2):
            code, line, text = self.line(i)
            yield f'  File "{code.co_filename}", line {line}, in {code.co_name}\n' + (f"    {text}\n" if text else "")

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]

    def __len__(self) -> int:
        return len(self.frames) // 2

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, (Origin, list)) else NotImplemented

    def __repr__(self) -> str:
        return repr(list(self))

    def __str__(self) -> str:
        return "".join(self)

    def line(self, i: int = 0) -> tuple[CodeType, int, str]:
        """Return the code object, line number and source text of frame `i`, by default the user's innermost frame."""
        code, offset = self.frames[i], self.frames[i + 1]
        line = next((n for start, end, n in code.co_lines() if start <= offset < end and n), code.co_firstlineno)
        return code, line, linecache.getline(code.co_filename, line).strip()

    @property
    def was_finite(self) -> bool:
        """Whether the outputs were finite."""
        return self.finite if isinstance(self.finite, bool) else math.isfinite(float(self.finite))


#: The prefixes of the file names of gradcore's code, including code that is generated at run time.
_OWN = (os.path.dirname(os.path.dirname(__file__)), "<gradcore")


def users_frame() -> FrameType | None:
    """Return the innermost frame outside of gradcore."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return frame


def _kinds(tensors: Iterable[Any]) -> tuple[Any, ...]:
    return tuple([(t._array.shape, t._dtype) for t in tensors if isinstance(t, Variable)])


def _finite_later(t: AnyTensor) -> Any:
    """Return whether all elements of `t` are finite as a bool, or on a GPU the sum of the elements as an array.

    Reading a bool from a GPU would make the host wait; the sum is read later, and is not finite if an element is not.
    """
    if not isinstance(t, Variable) or not t._dtype.is_differentiable:
        return True
    array = all_samples(t._array)
    if array.__class__ is np.ndarray:
        return is_finite(array)
    return array.real.sum() if t._device.type == "cuda" else True


def is_finite(array: Any) -> bool:
    """Return whether an array has neither infinities nor nan. If so, this takes one pass and no temporary array."""
    kind = array.dtype.kind
    if kind == "f":
        total = array.item() if array.size == 1 else local.state.run(array.sum)
        if math.isfinite(total):
            return True
    elif kind not in "cV":
        return True
    return bool(local.state.run(_exactly_finite, array))


def _exactly_finite(array: Any) -> Any:
    return (array - array == 0).all()


def origin_of(node: Any) -> Origin | None:
    """Return the `Origin` of a node; None if anomaly mode was off when it was recorded."""
    result = node.metadata.get("traceback_")
    return result if isinstance(result, Origin) else None


# -- recording and running ---------------------------------------------------------------------------------------------


def note(node: Any, inputs: Sequence[Any] = (), outputs: Sequence[Any] = ()) -> None:
    """Store the `Origin` of a node that has just been recorded: the traceback, inputs and outputs of the call."""
    node._metadata = {"traceback_": Origin(users_frame(), local.state.evaluated, inputs, outputs)}


def call_and_note(op: Any, args: tuple[Any, ...], state: State) -> Any:
    """Call `op` by its fast path, store the `Origin` of the node that it records, and return the result.

    Return None if the general path is needed, because conversions of dtypes record further nodes.
    """
    inputs = [a for a in args if isinstance(a, Variable)]
    if op.sequences or op.varargs or not inputs or any(t._dtype is not inputs[0]._dtype for t in inputs):
        return None
    keywords = op.__dict__.get("keywords")
    if keywords is None:
        keywords = op.keywords = tuple(p.name for p in op.parameters if p.kind is p.KEYWORD_ONLY)
    n = len(args) - len(keywords)
    before, state.mode = tick(), GRAD
    try:
        out = op.call(*args[:n], **dict(zip(keywords, args[n:], strict=True))) if keywords else op.call(*args)
    finally:
        state.mode = GRAD | ANOMALY
    outputs = out if isinstance(out, tuple) else (out,)
    edge = next((t._edge for t in outputs if t._edge is not None), None)
    if edge is not None and edge[0]._seq > before:
        note(edge[0], inputs, outputs)
    return out


def trace_errors(node: Any, grad: Any, compute: Callable[[], Any]) -> Any:
    """Return the gradients for the edges of `node`. In case of an error or nan, report the line that recorded `node`.

    Raises
    ------
    RuntimeError
        If a gradient contains nan and `check_nan` is on. The notes of the error are the result of `explain_failure`.
    """
    state = local.state
    before, state.evaluated = state.evaluated, node
    try:
        pieces = compute()
        if state.check_nan:
            for i, gradient in enumerate(pieces):
                if gradient is not None:
                    _check(node, i, grad, gradient)
    except Exception as error:
        try:
            _report(node)
        except Warning as warning:
            # The program turned warnings into errors. `error` must still be the exception that is raised.
            error.add_note(str(warning))
        raise
    finally:
        state.evaluated = before
    return pieces


def _check(node: Any, i: int, grad: Any, piece: Any) -> None:
    """Raise if the gradient for edge `i` contains nan. Remember the first gradient that is not finite."""
    piece = getattr(piece, "stored", piece)  # the values of a sparse tensor
    array = all_samples(getattr(piece, "_array", piece))
    if is_finite(array):
        return
    first = local.state.task.local_data.setdefault(_FIRST, (node, i))
    if _has_nan(array, node._device.backend):
        error = RuntimeError(f"Function '{type(node).__name__}' returned nan values in its {i}th output.")
        error.add_note(explain_failure(node, i, grad, piece, first))
        raise error


#: The key in `GraphTask.local_data` of the node and the edge of the first gradient that was not finite.
_FIRST = object()


def _has_nan(array: Any, backend: Any) -> bool:
    return array.dtype.kind in "fcV" and bool((array != array).any())


def _report(node: Any) -> None:
    """Warn with the forward traceback of a node whose backward failed, and of its parents (see `Origin.parent`)."""
    message = f"Error detected in {type(node).__name__}."
    of = "that caused the error"
    while node is not None:
        trace = node.metadata.get("traceback_")
        if trace is None:
            warnings.warn(
                f"{message} No forward pass information available. Enable detect anomaly during forward pass for more "
                "information.",
                stacklevel=2,
            )
            return
        warnings.warn(f"{message} Traceback of forward call {of}:\n{trace}", stacklevel=2)
        node = trace.parent
        message = f"\n\nPrevious calculation was induced by {type(node).__name__}."
        of = "that induced the previous calculation"


# -- text -------------------------------------------------------------------------------------------------------------


def first_not_finite(nodes: Iterable[Any]) -> Any:
    """Return the earliest node reachable from `nodes` whose result was not finite, or None."""
    seen = set(nodes)
    stack = list(seen)
    result = None
    while stack:
        node = stack.pop()
        origin = origin_of(node)
        if origin is not None and not origin.was_finite and (result is None or node._seq < result._seq):
            result = node
        for edge in node._edges:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                stack.append(edge[0])
    return result


def describe(node: Any) -> list[str]:
    """Return lines of text that describe the call that recorded `node`, for the notes of an error."""
    origin = origin_of(node)
    if origin is None:
        return [f"{type(node).__name__}, recorded where anomaly detection was off"]
    code, line, text = origin.line() if origin.frames else (None, 0, "")
    location = "" if code is None else f", recorded at {code.co_filename}:{line} in {code.co_name}"
    shapes = [
        ", ".join(f"{dtype.name}{list(shape)}" for shape, dtype in each) for each in (origin.inputs, origin.outputs)
    ]
    lines = [f"{type(node).__name__}{location}", *([f"    {text}"] if text else [])]
    if shapes[0] or shapes[1]:
        lines.append(f"  ({shapes[0]}) -> ({shapes[1]})")
    return lines


def _describe_non_finite(array: Any) -> str:
    """Return the first element of an array that is not finite, its index, and the count of such elements."""
    array = getattr(array, "_array", array)
    host = np.asarray(array.get() if hasattr(array, "get") else array)
    not_finite = ~local.state.run(lambda: host - host == 0)
    index = tuple(int(i) for i in np.argwhere(not_finite)[0]) if host.ndim else ()
    value = host[index]
    count = int(not_finite.sum())
    return f"{value} at index {index}" + (f", and {count - 1} more elements are not finite" if count > 1 else "")


def explain_forward(node: Any) -> list[str]:
    """Return lines of text that describe the first result that was not finite, the output of `node`."""
    origin = origin_of(node)
    lines = ["The first value that was not finite is the result of", *describe(node)]
    if origin is not None and origin.suspects:
        positions = ", ".join(map(str, origin.suspects))
        lines.append(f"  whose input {positions} was not finite: it was made before, or is not recorded.")
    elif origin is not None and origin.inputs:
        lines.append("  whose inputs were finite.")
    return lines


def explain_failure(node: Any, i: int, grad: Any, piece: Any, first_infinite: Any) -> str:
    """Return a text that explains a nan for edge `i` of `node` by the first value that was not finite."""
    lines = [*describe(node), f"  The gradient for input {i} is {_describe_non_finite(piece)}."]
    arrived = [g for g in (grad if type(grad) is list else [grad]) if g is not None]
    not_finite = [g for g in arrived if not is_finite(getattr(g, "_array", g))]
    if not_finite:
        lines.append(f"  The gradient that arrived was not finite either: {_describe_non_finite(not_finite[0])}.")
    else:
        lines.append("  The gradient that arrived was finite: the derivative itself is not, at these inputs.")
    if first_infinite is not None and first_infinite[0] is not node:
        lines += [f"The first gradient that was not finite is that for input {first_infinite[1]} of"]
        lines += describe(first_infinite[0])
    culprit = first_not_finite([node])
    if culprit is not None:
        lines += explain_forward(culprit)
    else:
        lines.append("All values that were recorded before were finite.")
    return "\n".join(lines)


def explain(t: AnyTensor) -> str:
    """Describe the operation that first produced an infinity or nan: the oldest one that `t` depends on.

    Parameters
    ----------
    t : Tensor or Node
        Recorded while anomaly detection was on, for example a loss that is nan.

    Returns
    -------
    str
        The operation, the user's line that called it, shapes and dtypes, and whether its inputs were finite.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.tensor([1.0, 0.0], requires_grad=True)
    >>> with gradcore.autograd.set_detect_anomaly(True):
    ...     loss = (x.log() * x).sum()
    >>> print(gradcore.autograd.explain(loss))  # doctest: +ELLIPSIS
    The first value that was not finite is the result of
    LogBackward0, recorded at ...
      (float32[2]) -> (float32[2])
      whose inputs were finite.
    """
    node = t.grad_fn if isinstance(t, Variable) else t  # type: ignore[attr-defined]
    if node is None:
        return "Nothing was recorded: the tensor is a leaf, or does not require grad."
    culprit = first_not_finite([node])
    if culprit is None:
        return "All results that were recorded under anomaly detection were finite."
    return "\n".join(explain_forward(culprit))


# -- the switch --------------------------------------------------------------------------------------------------------


def is_anomaly_enabled() -> bool:
    """Return whether anomaly detection is on in this thread.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.is_anomaly_enabled()
    False
    """
    return bool(local.state.mode & ANOMALY)


def is_anomaly_check_nan_enabled() -> bool:
    """Return whether anomaly detection, where it is on, takes nan in a gradient for an error.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.is_anomaly_check_nan_enabled()
    True
    """
    return local.state.check_nan


def _switch(on: bool, check_nan: bool) -> tuple[int, bool]:
    """Switch anomaly detection on or off, and return the former mode bit and `check_nan` setting."""
    state = local.state
    before = state.mode & ANOMALY, state.check_nan
    state.mode, state.check_nan = state.mode | ANOMALY if on else state.mode & ~ANOMALY, check_nan
    return before


class _Anomaly:
    """Base class of context managers that restore the settings of anomaly detection."""

    _before: tuple[int, bool]

    def __exit__(self, *exc: object) -> None:
        state = local.state
        state.mode, state.check_nan = state.mode & ~ANOMALY | self._before[0], self._before[1]  # without a call, too


class set_detect_anomaly(_Anomaly):
    """Switch anomaly detection on or off in this thread, at once; as a context manager, switch back at the end.

    Parameters
    ----------
    mode : bool
        Whether operations remember where they were recorded, for the report of an error in backward.
    check_nan : bool
        Whether nan in a gradient is an error.

    Examples
    --------
    >>> import gradcore as gc
    >>> with gc.autograd.set_detect_anomaly(True):
    ...     print(gc.is_anomaly_enabled())
    True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = _switch(bool(mode), bool(check_nan))

    def __enter__(self) -> None: ...


class detect_anomaly(_Anomaly):
    """Context manager in which errors and nan in backward are reported with the line that recorded the operation.

    It is meant for debugging, because operations and backward take longer. The notes of the error, which Python prints
    below its message, describe a nan: line, shapes and dtypes, and the first value and gradient that were not finite.

    Parameters
    ----------
    check_nan : bool
        Whether nan in a gradient is an error.

    Examples
    --------
    >>> import warnings
    >>> import gradcore
    >>> x = gradcore.tensor([1.0, 0.0], requires_grad=True)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     with gradcore.autograd.detect_anomaly():
    ...         try:
    ...             (x.sqrt() * 0).sum().backward()
    ...         except RuntimeError as error:
    ...             print(error)
    ...             print(error.__notes__[0].splitlines()[-2])
    Function 'SqrtBackward0' returned nan values in its 0th output.
      The gradient that arrived was finite: the derivative itself is not, at these inputs.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        state = local.state
        self._before = state.mode & ANOMALY, state.check_nan
        state.mode, state.check_nan = state.mode | ANOMALY, self.check_nan  # without a call: see `grad_mode`
