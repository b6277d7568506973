"""Events as files for other programs: traces for browsers, stacks for flame graphs."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

__all__ = ["write_chrome_trace", "write_stacks"]


def write_chrome_trace(events: Any, path: Any) -> None:
    """Write the events in Chrome's trace format, compressed if the name ends in ``.gz``."""
    process = os.getpid()
    records = []
    for event in events:
        interval = event.time_range
        args: dict[str, Any] = {"Sequence number": event.sequence_nr}
        if event.input_shapes:
            args["Input Dims"] = event.input_shapes
        if event.stack:
            args["Call stack"] = ";".join(event.stack)
        records.append(
            {
                "name": event.name,
                "ph": "X",
                "cat": "user_annotation" if event.scope == 7 else "cpu_op",
                "ts": interval.start,
                "dur": interval.elapsed_us(),
                "tid": event.thread,
                "pid": process,
                "args": args,
            }
        )
    text = json.dumps({"traceEvents": records, "displayTimeUnit": "ms"})
    if str(path).endswith(".gz"):
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write(text)
    else:
        Path(path).write_text(text, encoding="utf-8")


def write_stacks(events: Any, path: Any, metric: str) -> None:
    """Write ``outermost;...;innermost microseconds`` for each call stack."""
    times: dict[str, float] = {}
    for event in events:
        if event.stack:
            stack = ";".join(line.replace(" ", "_") for line in reversed(event.stack))
            times[stack] = times.get(stack, 0.0) + getattr(event, metric)
    lines = [f"{stack} {int(time)}" for stack, time in times.items() if int(time) > 0]
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
