"""Array libraries behind one interface: a backend runs every operation of the table on raw arrays."""

from gradcore.backends.base import Backend
from gradcore.backends.registry import find, register

__all__ = ["Backend", "find", "register"]
