"""The C++ function of a native segment: its calls, in loops where they repeat, and an arena for its temporaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from gradcore.backends.codegen.cpp import C_TYPES
from gradcore.compiler.program.arena import Host, arrange
from gradcore.compiler.targets.native.rolling import Invocation, Repeat, roll_repeats
from gradcore.compiler.targets.native.steps import View

__all__ = ["PartSource"]

#: The largest size in bytes of an arena on the stack.
_STACK = 1 << 15


class PartSource:
    """The C++ source of a segment.

    Parameters
    ----------
    invocations : list of Invocation
    is_private : callable
        Function that returns whether only this segment uses a memory, so that it is in the arena.
    owner : callable
        Function that returns the view of a whole memory.
    is_result : callable
        Function that returns whether an argument is uninitialized before the segment writes to it.

    Attributes
    ----------
    arguments : list of int
        The memories that are passed to the segment.
    apart : dict
        The arguments that must not overlap written ones, and whether they are written to.
    repeats : list of Repeat
    scratch : int
        The size in bytes of the arena that the caller passes; zero if the arena is on the stack.
    """

    def __init__(
        self, invocations: list[Invocation], is_private: Callable[[int], bool], owner: Callable[[int], View],
        is_result: Callable[[int], bool] = lambda memory: False,
    ) -> None:  # fmt: skip
        self.owner = owner
        uses: dict[int, list[int]] = {}
        for i, invocation in enumerate(invocations):
            for view in invocation.views:
                uses.setdefault(view.memory, []).append(i)
        self.arguments = sorted(m for m in uses if not is_private(m))
        self.apart: dict[int, bool] = {}
        self.items = roll_repeats(invocations, is_private)
        self.repeats = [item for item in self.items if isinstance(item, Repeat)]
        lifetimes = {m: (positions[0], positions[-1]) for m, positions in uses.items() if is_private(m)}
        pairs = [pair for invocation in invocations for pair in sorted({*invocation.shared})]
        # Large temporaries may use the memory of a result until the segment writes the result.
        hosts = [Host(_name(m), self._span(m), uses[m][0]) for m in self.arguments if is_result(m)]
        self._size, self.slots = arrange(lifetimes, self._span, pairs, hosts)
        self.scratch = self._size if self._size > _STACK else 0
        self._tables = 0

    def text(self, in_threads: bool) -> str:
        """Return the function's source without its name."""
        lines = [f"(const void* given{', i64 threads' if in_threads else ''}) {{"]
        lines.append("(void)given;" if in_threads else "const i64 threads = 1; (void)given; (void)threads;")
        for i, memory in enumerate(self.arguments):
            owner = self.owner(memory)
            shape, strides = (f"{{{', '.join(map(str, each)) or '0'}}}" for each in (owner.shape, owner.strides))
            dims = len(owner.shape)
            lines.append(f"const Array& g{i} = item(given, {i});")
            lines.append(f"if (!fits<{max(dims, 1)}>(g{i}, {shape}, {strides}, {dims})) return 1;")
            lines.append(f"char* const {_name(memory)} = g{i}.data;")
        if self.apart:
            spans = ", ".join(map(self._bounds, self.apart))
            lines += [f"const Span spans[] = {{{spans}}};", f"static thread_local Order<{len(self.apart)}> order;"]
            lines.append("if (!apart(spans, order)) return 1;")
        if self.scratch:
            lines.append(f"char* const arena = item(given, {len(self.arguments)}).data;")
        elif self._size:
            lines.append(f"alignas(64) char arena[{self._size}];")
        for item in self.items:
            if isinstance(item, Invocation):
                lines.append(_emit_call(item, [self._address(view) for view in item.views]))
            else:
                lines += self._loop(item)
        return "\n    ".join([*lines, "return 0;"]) + "\n}"

    def _bounds(self, memory: int) -> str:
        """Return the C++ span of an argument."""
        (low, high), name = self.owner(memory).extent, _name(memory)
        return f"{{{name} + {low}, {name} + {high}, {str(self.apart[memory]).lower()}}}"

    # -- addresses --------------------------------------------------------------------------------------------------

    def _span(self, memory: int) -> int:
        return self.owner(memory).extent[1]

    def _place(self, view: View) -> tuple[str, int]:
        """Return the position of a view's first element: the name of a block, and the bytes from its start."""
        name, start = self.slots.get(view.memory, (_name(view.memory), 0))
        return name, start + view.offset

    def _address(self, view: View) -> str:
        name, offset = self._place(view)
        return _pointer(view, f"{name} + {offset}" if offset else name)

    # -- loops ------------------------------------------------------------------------------------------------------

    def _loop(self, repeat: Repeat) -> list[str]:
        tables: list[str] = []
        calls = []
        for each in zip(*repeat.turns, strict=True):
            addresses = [self._moving(views, tables) for views in zip(*[call.views for call in each], strict=True)]
            calls.append(f"    {_emit_call(each[0], addresses)}")
        return [*tables, f"for (i64 turn = 0; turn < {len(repeat.turns)}; ++turn) {{", *calls, "}"]

    def _moving(self, views: Sequence[View], tables: list[str]) -> str:
        """Return the C++ address of an argument that differs between turns: computed, or from a table."""
        places = [self._place(view) for view in views]
        name, first = places[0]
        offsets = [offset for _, offset in places]
        if any(place_name != name for place_name, _ in places):
            address = f"t{self._tables}[turn]"
            tables.append(f"char* const t{self._tables}[] = {{{', '.join(f'{n} + {o}' for n, o in places)}}};")
        elif len({b - a for a, b in pairwise(offsets)}) == 1:
            step = offsets[1] - first
            return _pointer(views[0], f"{name} + {first}" + (f" + turn * {step}" if step else ""))
        else:
            address = f"{name} + t{self._tables}[turn]"
            tables.append(f"static const i64 t{self._tables}[] = {{{', '.join(map(str, offsets))}}};")
        self._tables += 1
        return _pointer(views[0], address)


def _pointer(view: View, place: str) -> str:
    return f"({C_TYPES[view.dtype.name]}*)({place})"


def _emit_call(invocation: Invocation, addresses: list[str]) -> str:
    text = invocation.text.format(*addresses)
    return f"if (!{text}) return 1;" if invocation.fallible else f"{text};"


def _name(memory: int) -> str:
    """Return the C++ name of an argument's memory; literals have negative numbers."""
    return f"m{memory}" if memory >= 0 else f"ml{-1 - memory}"
