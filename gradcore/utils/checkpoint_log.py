"""Logs of the operations of a checkpointed function, for errors that report how its two computations differ."""

from __future__ import annotations

from typing import Any, Self

from gradcore.core.tracebacks import user_frame
from gradcore.tensor import Tensor
from gradcore.torch_names.overrides import TorchFunctionMode
from gradcore.utils._pytree import tree_leaves
from gradcore.utils.recomputation import CheckpointError

__all__ = ["Log", "explain_difference"]


def _format_values(tree: Any) -> str:
    return ", ".join(f"{t.dtype}{list(t.shape)}" for t in tree_leaves(tree) if isinstance(t, Tensor))


def _source_line() -> str:
    """Return the line outside of gradcore that called the current operation."""
    frame = user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}:{frame.f_code.co_name}"


class Log(TorchFunctionMode):
    """Context manager that logs every operation, and the line that called it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.sources: list[str] = []

    def __enter__(self) -> Self:
        self.lines.clear()
        self.sources.clear()
        return super().__enter__()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.lines.append(f"{func.__name__}({_format_values((args, kwargs))}) -> {_format_values(result)}")
        self.sources.append(_source_line())
        return result


def _lines_of(log: Log) -> str:
    return "\n".join(
        f"  {i}. {line}   {source}" for i, (line, source) in enumerate(zip(log.lines, log.sources, strict=True))
    )


def explain_difference(error: CheckpointError, first: Log, second: Log) -> CheckpointError:
    """Return an error that lists the operations of both computations.

    Parameters
    ----------
    error : CheckpointError
        The error to explain.
    first, second : Log
        The logs of the two computations.
    """
    pairs = zip(first.lines, second.lines, strict=False)
    shorter = min(len(first.lines), len(second.lines))
    count = next((i for i, (a, b) in enumerate(pairs) if a != b), shorter)
    return CheckpointError(
        f"{error}\nERROR: Detected non-determinism while running activation checkpointing\n\n"
        f"Operations executed during the original forward:\n\n{_lines_of(first)}\n\n"
        f"Operations executed during recomputation (it may stop early):\n\n{_lines_of(second)}\n\n"
        f"They are the same up to number {count}."
    )
