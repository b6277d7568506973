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

from gradcore.ops.declare.names import RESULTS
from gradcore.ops.declare.table import OPS
from gradcore.tensor.namespaces import read_names


def _operations() -> dict[str, str]:
    """Return the names of the operations that have named tuples, by the names of these."""
    return dict(read_names(RESULTS)) | {op.output_name: op.name for op in OPS.further().values() if op.fields}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    operation = _operations().get(name)
    if operation is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return OPS[operation].output_type


def __dir__() -> list[str]:
    return sorted(_operations())
