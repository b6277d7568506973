"""Lines of the user's code: where operations were called."""

from __future__ import annotations

import linecache
import sys
from types import CodeType, FrameType
from typing import Any, NamedTuple

from gradcore.autograd.anomaly_mode import Origin
from gradcore.core.tracebacks import is_own, line_name

__all__ = ["SourceLine", "here", "line_of_node"]


class SourceLine(NamedTuple):
    """A line of source code."""

    filename: str
    line: int
    function: str

    @property
    def text(self) -> str:
        """The source of the line; empty where it cannot be read."""
        return linecache.getline(self.filename, self.line).strip()

    def __str__(self) -> str:
        return line_name(self.filename, self.line)


def _source_line(code: CodeType, line: int) -> SourceLine:
    return SourceLine(code.co_filename, line, code.co_name)


def here() -> SourceLine:
    """Return the innermost line outside gradcore that is being run."""
    frame: FrameType = sys._getframe(1)
    while frame.f_back is not None and is_own(frame):
        frame = frame.f_back
    return _source_line(frame.f_code, frame.f_lineno)


def line_of_node(node: Any) -> SourceLine | None:
    """Return the source line at which a node was recorded, if `record` or anomaly mode noted it."""
    notes = getattr(node, "_metadata", None)
    if not notes:
        return None
    line: SourceLine | None = notes.get("line")
    origin = notes.get("traceback_")
    if line is None and isinstance(origin, Origin) and origin.frames:
        line = _source_line(*origin.line()[:2])
    return line
