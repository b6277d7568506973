"""Written by gradcore.stubs from the table of operations."""

import builtins
from typing import Any

allow_tf32: Any
benchmark: Any
benchmark_limit: Any
conv: Any
deterministic: Any
enabled: Any
fp32_precision: Any
rnn: Any

def flags(*args: Any, **named: Any) -> Any: ...
def is_acceptable(*args: Any, **named: Any) -> builtins.bool: ...
def is_available(*args: Any, **named: Any) -> builtins.bool: ...
def version(*args: Any, **named: Any) -> Any: ...
