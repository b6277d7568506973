"""Named tuples of operations with several results: ``gradcore.return_types.max`` has ``values`` and ``indices``.

An operation's declaration names the fields. Its named tuple is created on first use.

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

from gradcore.ops.declare.table import OPS


def _result_types() -> dict[str, Any]:
    return {op.output_name: op for op in OPS.values() if op.fields}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    if name not in _result_types():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _result_types()[name].output_type


def __dir__() -> list[str]:
    return sorted(_result_types())
