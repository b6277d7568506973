"""The native target: runs of calls become C++ functions, built while the Python target serves.

`lowering` (`products`, `rows`, `images`) makes steps of calls, `groups` loops of steps, `source` C++ of loops,
`segments` splits programs, `rolling` finds what repeats, `segment_source` writes a segment, `building` compiles and
loads them, and `hot_swap` lets a program's function call them.
"""

from gradcore.compiler.targets.native.hot_swap import describe, runnable, swap

__all__ = ["describe", "runnable", "swap"]
