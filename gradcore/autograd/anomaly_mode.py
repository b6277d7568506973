"""Finding the operation whose backward failed: every node remembers where it was recorded."""

from __future__ import annotations

import linecache
import sys
import warnings
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

from gradcore.autograd.modes import ANOMALY, local, set_flag

__all__ = ["detect_anomaly", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_detect_anomaly"]


class Traceback:
    """Where a node was recorded: code objects and line numbers, of which text is made when it is asked for."""

    __slots__ = ("parent", "places")

    def __init__(self, frame: FrameType | None, parent: Any) -> None:
        places: list[tuple[CodeType, int]] = []
        while frame is not None:
            places.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        self.places = places[::-1]
        #: The node during whose backward this one was recorded, or None.
        self.parent = parent

    def __iter__(self) -> Iterator[str]:
        for code, line in self.places:
            text = linecache.getline(code.co_filename, line).strip()
            yield f'  File "{code.co_filename}", line {line}, in {code.co_name}\n' + (f"    {text}\n" if text else "")

    def __str__(self) -> str:
        return "".join(self)


def note(node: Any) -> None:
    """Keep on a node, which has just been made, where in the user's code that happened."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("gradcore."):
        frame = frame.f_back
    node.metadata["traceback_"] = Traceback(frame, local.state.evaluated)


def watched(node: Any, compute: Callable[[], Any]) -> Any:
    """The gradients that `compute` finds for the edges of `node`; an error or a nan is traced to where it was recorded.

    Raises
    ------
    RuntimeError
        If a gradient contains nan, where that is checked.
    """
    state = local.state
    before, state.evaluated = state.evaluated, node
    try:
        pieces = compute()
        if state.check_nan:
            for i, piece in enumerate(pieces):
                if piece is not None and _has_nan(getattr(piece, "_array", piece), node._device.backend):
                    raise RuntimeError(f"Function '{type(node).__name__}' returned nan values in its {i}th output.")
    except Exception:
        _explain(node)
        raise
    finally:
        state.evaluated = before
    return pieces


def _has_nan(array: Any, backend: Any) -> bool:
    return array.dtype.kind in "fcV" and bool((array != array).any())


def _explain(node: Any) -> None:
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
    """Whether anomaly detection is on in this thread."""
    return bool(local.state.mode & ANOMALY)


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly detection, where it is on, takes nan in a gradient for an error."""
    return local.state.check_nan


class set_detect_anomaly:
    """Switch anomaly detection on or off in this thread, at once; as a context manager, switch back at the end.

    Parameters
    ----------
    mode : bool
        Whether operations remember where they were recorded, for the report of an error in backward.
    check_nan : bool
        Whether nan in a gradient is an error.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = is_anomaly_enabled(), local.state.check_nan
        set_flag(ANOMALY, bool(mode))
        local.state.check_nan = bool(check_nan)

    def __enter__(self) -> None: ...

    def __exit__(self, *exc: object) -> None:
        on, local.state.check_nan = self._before
        set_flag(ANOMALY, on)


class detect_anomaly:
    """Inside, an error or nan in backward is reported with the place where its operation was recorded.

    For debugging: operations and backward take longer.

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
    ...         (x.sqrt() * 0).sum().backward()
    Traceback (most recent call last):
    RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self._switch = set_detect_anomaly(True, self.check_nan)

    def __exit__(self, *exc: object) -> None:
        self._switch.__exit__(*exc)
