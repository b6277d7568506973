"""Named tuples of operations with several results: ``gradcore.return_types.max`` has ``values`` and ``indices``.

An operation's declaration names the fields; its named tuple is made when it is first needed.

Examples
--------
>>> import gradcore
>>> found = gradcore.tensor([1.0, 3.0, 2.0]).max(0)
>>> found
torch.return_types.max(
values=tensor(3.),
indices=tensor(1))
>>> values, indices = found
"""

from __future__ import annotations

from typing import Any

from gradcore.ops.table import OPS

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    for op in OPS.values():
        if op.fields and op.output_name == name:
            return globals().setdefault(name, op.output_type)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({op.output_name for op in OPS.values() if op.fields})
