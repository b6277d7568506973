"""Finding the operation whose backward failed: every node remembers where it was recorded."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from gradcore.autograd.modes import ANOMALY, GRAD, State, local
from gradcore.autograd.origins import Origin, explain_failure, explain_forward, first_not_finite, is_finite, users_frame
from gradcore.autograd.variables import Variable, tick
from gradcore.backends.vmap import all_samples

__all__ = ["detect_anomaly", "explain", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_detect_anomaly"]


def note(node: Any, inputs: Sequence[Any] = (), outputs: Sequence[Any] = ()) -> None:
    """Keep on a node, which has just been made, where in the user's code that happened, and what went in and out."""
    node._metadata = {"traceback_": Origin(users_frame(), local.state.evaluated, inputs, outputs)}


def noted(op: Any, args: tuple[Any, ...], state: State) -> Any:
    """A call as without anomaly detection, of which the node is noted afterwards; None where that cannot be done.

    (Where dtypes differ there are nodes of conversions to note, too.)
    """
    inputs = [a for a in args if isinstance(a, Variable)]
    if op.sequence or op.varargs or not inputs or any(t._dtype is not inputs[0]._dtype for t in inputs):
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


def watched(node: Any, grad: Any, compute: Callable[[], Any]) -> Any:
    """The gradients that `compute` finds for the edges of `node`; an error or a nan is traced to where it was recorded.

    Raises
    ------
    RuntimeError
        If a gradient contains nan, where that is checked. Its notes are what `explain_failure` finds out.
    """
    state = local.state
    before, state.evaluated = state.evaluated, node
    try:
        pieces = compute()
        if state.check_nan:
            for i, piece in enumerate(pieces):
                if piece is not None:
                    _check(node, i, grad, piece)
    except Exception as error:
        try:
            _report(node)
        except Warning as warning:  # where warnings are errors, the error that they are about still comes first
            error.add_note(str(warning))
        raise
    finally:
        state.evaluated = before
    return pieces


def _check(node: Any, i: int, grad: Any, piece: Any) -> None:
    """Raise if the gradient for edge `i` has nan; remember the first that is not finite."""
    array = all_samples(getattr(piece, "_array", piece))
    if is_finite(array):
        return
    notes = local.state.task.notes
    first = notes.setdefault(_FIRST, (node, i))
    if _has_nan(array, node._device.backend):
        error = RuntimeError(f"Function '{type(node).__name__}' returned nan values in its {i}th output.")
        error.add_note(explain_failure(node, i, grad, piece, first))
        raise error


#: Under this key the notes of a backward call have the node and the edge of the first gradient that was not finite.
_FIRST = object()


def explain(t: Any) -> str:
    """Which operation made a value infinite or nan first: the one behind `t` whose result was not finite.

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


def _has_nan(array: Any, backend: Any) -> bool:
    return array.dtype.kind in "fcV" and bool((array != array).any())


def _report(node: Any) -> None:
    """Warn where a node whose backward failed was recorded, and where the nodes were that this happened in."""
    what = f"Error detected in {type(node).__name__}."
    of = "that caused the error"
    while node is not None:
        trace = node.metadata.get("traceback_")
        if trace is None:
            warnings.warn(
                f"{what} No forward pass information available. Enable detect anomaly during forward pass for more "
                "information.",
                stacklevel=2,
            )
            return
        warnings.warn(f"{what} Traceback of forward call {of}:\n{trace}", stacklevel=2)
        node = trace.parent
        what = f"\n\nPrevious calculation was induced by {type(node).__name__}."
        of = "that induced the previous calculation"


def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is on in this thread.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.is_anomaly_enabled()
    False
    """
    return bool(local.state.mode & ANOMALY)


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly detection, where it is on, takes nan in a gradient for an error.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.is_anomaly_check_nan_enabled()
    True
    """
    return local.state.check_nan


def _switch(on: bool, check_nan: bool) -> tuple[int, bool]:
    """Switch anomaly detection; returns what `_restore` needs."""
    state = local.state
    before = state.mode & ANOMALY, state.check_nan
    state.mode, state.check_nan = state.mode | ANOMALY if on else state.mode & ~ANOMALY, check_nan
    return before


def _restore(before: tuple[int, bool]) -> None:
    state = local.state
    state.mode, state.check_nan = state.mode & ~ANOMALY | before[0], before[1]


class set_detect_anomaly:
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

    def __exit__(self, *exc: object) -> None:
        _restore(self._before)


class detect_anomaly:
    """Inside, an error or nan in backward is reported with the place where its operation was recorded.

    For debugging: operations and backward take longer. What is known of a nan (the line, shapes and dtypes, which value
    and which gradient were not finite first) is in the error's notes, which Python prints below its message.

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

    def __exit__(self, *exc: object) -> None:
        _restore(self._before)
