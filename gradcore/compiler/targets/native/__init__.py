"""The native target: runs of calls become C++ functions, built while the Python target is in use.

`lowering` (with `products`, `rows`, `images`) translates calls into steps, `groups` fuses steps into loops, `source`
emits C++ for loops, `segments` splits programs, `rolling` finds repeated calls, `segment_source` emits a segment,
`building` compiles and loads libraries, and `hot_swap` replaces the code of a program's function.
"""

from gradcore.compiler.targets.native.hot_swap import describe, runnable, swap

__all__ = ["describe", "runnable", "swap"]
