"""Written by gradcore.stubs from the table of operations."""

import builtins
from typing import Any

def is_available(*args: Any, **named: Any) -> builtins.bool: ...
