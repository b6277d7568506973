"""Handles by which hooks are removed."""

from __future__ import annotations

import itertools
from typing import Any

__all__ = ["RemovableHandle"]

_ids = itertools.count()


class RemovableHandle:
    """Returned when a hook is registered; ``remove()`` takes the hook away, also when used as a context manager.

    Parameters
    ----------
    table : dict
        The hooks, in order of registration; the handle adds `fn` to it.
    fn : callable
        The hook.
    """

    def __init__(self, table: dict[int, Any], fn: Any) -> None:
        self._table: dict[int, Any] | None = table
        self.id = next(_ids)
        table[self.id] = fn

    def remove(self) -> None:
        """Remove the hook; removing it twice does nothing."""
        if self._table is not None:
            self._table.pop(self.id, None)
            self._table = None

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()
