"""Written by gradcore.stubs from the table of operations."""

import builtins
from typing import Any

def get_cpu_capability(*args: Any, **named: Any) -> builtins.str: ...
