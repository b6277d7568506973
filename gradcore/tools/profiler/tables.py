"""Events as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["format_time", "table"]

_WIDTH = 12


def format_time(us: float) -> str:
    """Return a time in microseconds, in the unit that suits it."""
    if us >= 1e6:
        return f"{us / 1e6:.3f}s"
    if us >= 1e3:
        return f"{us / 1e3:.3f}ms"
    return f"{us:.3f}us"


def _memory(size: float) -> str:
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(size) >= factor:
            return f"{size / factor:.2f} {unit}"
    return f"{size} B"


def _percent(part: float, whole: float) -> str:
    return "NaN" if not whole else f"{100 * part / whole:.2f}%"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def table(
    everything: Any,
    events: Sequence[Any],
    widths: dict[str, int],
    header: str | None,
    use_device: str | None,
    memory: bool,
) -> str:
    """Return a table of `events` as text; percentages refer to the total times of `everything`.

    Parameters
    ----------
    everything : EventList
    events : sequence of FunctionEvent or FunctionEventAvg
    widths : dict
        The largest number of characters in the columns ``"name"``, ``"shapes"``, ``"source"``.
    header : str or None
    use_device : str or None
        The device whose times were recorded, in addition to the CPU.
    memory : bool
        Whether to show columns for the bytes of results.
    """
    total = sum(event.self_cpu_time_total for event in everything)
    device_total = sum(event.self_device_time_total for event in everything)
    rows = [_row(event, total, device_total, widths, use_device, memory) for event in events]
    if not rows:
        return ""
    columns = [name for name in rows[0] if name not in _OPTIONAL or any(row[name] for row in rows)]
    widest = {name: max(_WIDTH, len(name), *(len(row[name]) for row in rows)) for name in columns}
    rule = "  ".join("-" * widest[name] for name in columns) + "  "
    lines = [rule, "  ".join(name.rjust(widest[name]) for name in columns) + "  ", rule]
    lines += ["  ".join(row[name].rjust(widest[name]) for name in columns) + "  " for row in rows]
    lines += [rule, f"Self CPU time total: {format_time(total)}"]
    if use_device is not None:
        lines.append(f"Self {use_device.upper()} time total: {format_time(device_total)}")
    if header is not None:
        lines.insert(0, header)
    return "\n".join(lines) + "\n"


#: Columns that are shown only if one of their fields is not empty.
_OPTIONAL = ("Input Shapes", "Source Location")


def _row(
    event: Any, total: float, device_total: float, widths: dict[str, int], use_device: str | None, memory: bool
) -> dict[str, str]:
    row = {
        "Name": _cut(event.key, widths["name"]),
        "Self CPU %": _percent(event.self_cpu_time_total, total),
        "Self CPU": event.self_cpu_time_total_str,
        "CPU total %": _percent(event.cpu_time_total, total),
        "CPU total": event.cpu_time_total_str,
        "CPU time avg": event.cpu_time_str,
    }
    if use_device is not None:
        name = use_device.upper()
        row |= {
            f"Self {name}": event.self_device_time_total_str,
            f"Self {name} %": _percent(event.self_device_time_total, device_total),
            f"{name} total": event.device_time_total_str,
            f"{name} time avg": event.device_time_str,
        }
    if memory:
        row |= {"CPU Mem": _memory(event.cpu_memory_usage), "Self CPU Mem": _memory(event.self_cpu_memory_usage)}
        if use_device is not None:
            name = use_device.upper()
            row[f"{name} Mem"] = _memory(event.device_memory_usage)
            row[f"Self {name} Mem"] = _memory(event.self_device_memory_usage)
    row["# of Calls"] = str(event.count)
    row["Input Shapes"] = _cut(str(event.input_shapes), widths["shapes"]) if event.input_shapes else ""
    row["Source Location"] = _cut(event.stack[0], widths["source"]) if event.stack else ""
    return row
