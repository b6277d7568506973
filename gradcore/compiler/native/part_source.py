"""The C++ function of a native part: its calls, in loops where they repeat, and the arena of what only it sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from gradcore.backends.codegen.cpp import C_TYPES
from gradcore.compiler.native.rolling import Invocation, Repeat, rolled, slots
from gradcore.compiler.native.steps import View

__all__ = ["PartSource"]

#: Bytes of memory that a part has on its stack.
_STACK = 1 << 15


class PartSource:
    """The source of a part.

    Parameters
    ----------
    invocations : list of Invocation
    is_private : callable
        Whether only this part sees a memory: it is in the arena.
    owner : callable
        The view of all of a memory.

    Attributes
    ----------
    arguments : list of int
        The memories that it is given.
    repeats : list of Repeat
    scratch : int
        The bytes of the arena that it is given beside; zero if it is on the stack.
    """

    def __init__(
        self, invocations: list[Invocation], is_private: Callable[[int], bool], owner: Callable[[int], View]
    ) -> None:
        self.owner = owner
        uses: dict[int, list[int]] = {}
        for i, invocation in enumerate(invocations):
            for view in invocation.views:
                uses.setdefault(view.memory, []).append(i)
        self.arguments = sorted(m for m in uses if not is_private(m))
        self.items = rolled(invocations, is_private)
        self.repeats = [item for item in self.items if isinstance(item, Repeat)]
        self._size = self._arrange({m: found for m, found in uses.items() if is_private(m)})
        self.scratch = self._size if self._size > _STACK else 0
        self._tables = 0

    def text(self, in_threads: bool) -> str:
        """The function, but for its name."""
        lines = [f"(const void* given{', i64 threads' if in_threads else ''}) {{"]
        lines.append("(void)given;" if in_threads else "const i64 threads = 1; (void)given; (void)threads;")
        for i, memory in enumerate(self.arguments):
            known = self.owner(memory)
            shape, strides = (f"{{{', '.join(map(str, each)) or '0'}}}" for each in (known.shape, known.strides))
            dims = len(known.shape)
            lines.append(f"const Array& g{i} = item(given, {i});")
            lines.append(f"if (!fits<{max(dims, 1)}>(g{i}, {shape}, {strides}, {dims})) return 1;")
            lines.append(f"char* const {_name(memory)} = g{i}.data;")
        if self.scratch:
            lines.append(f"char* const arena = item(given, {len(self.arguments)}).data;")
        elif self._size:
            lines.append(f"alignas(64) char arena[{self._size}];")
        for item in self.items:
            if isinstance(item, Invocation):
                lines.append(_called(item, [self._address(view) for view in item.views]))
            else:
                lines += self._loop(item)
        return "\n    ".join([*lines, "return 0;"]) + "\n}"

    # -- addresses --------------------------------------------------------------------------------------------------

    def _arrange(self, uses: dict[int, list[int]]) -> int:
        """Give memories places in the arena, by the time in which they are used; returns the size of all."""
        rows = slots(self.repeats, uses, self._span)
        rows += [([m], True) for m in uses.keys() - {m for row, _ in rows for m in row}]
        lives = [(min(uses[m][0] for m in row), max(uses[m][-1] for m in row), row, one) for row, one in rows]
        self.places: dict[int, int] = {}
        busy: list[tuple[int, int, int]] = []  # start, stop, and the last use
        whole = 0
        for first, last, row, one in sorted(lives):
            size = max(self._span(row[0]), 1)
            size += -size % 64
            needed = size if one else size * len(row)
            busy = sorted(each for each in busy if each[2] >= first)
            start = 0
            for low, high, _ in busy:
                if start + needed <= low:
                    break
                start = max(start, high)
            busy.append((start, start + needed, last))
            self.places.update((m, start if one else start + size * i) for i, m in enumerate(row))
            whole = max(whole, start + needed)
        return whole

    def _span(self, memory: int) -> int:
        return self.owner(memory).extent[1]

    def _place(self, view: View) -> tuple[str, int]:
        """Where a view begins: a name, and bytes from there."""
        place = self.places.get(view.memory)
        return (_name(view.memory), view.offset) if place is None else ("arena", place + view.offset)

    def _address(self, view: View) -> str:
        name, offset = self._place(view)
        return _pointer(view, f"{name} + {offset}" if offset else name)

    # -- loops ------------------------------------------------------------------------------------------------------

    def _loop(self, repeat: Repeat) -> list[str]:
        tables: list[str] = []
        calls = []
        for each in zip(*repeat.turns, strict=True):
            addresses = [self._moving(views, tables) for views in zip(*[call.views for call in each], strict=True)]
            calls.append(f"    {_called(each[0], addresses)}")
        return [*tables, f"for (i64 turn = 0; turn < {len(repeat.turns)}; ++turn) {{", *calls, "}"]

    def _moving(self, views: Sequence[View], tables: list[str]) -> str:
        """The address of what is another view in each turn: arithmetic, or looked up in a table."""
        places = [self._place(view) for view in views]
        name, first = places[0]
        offsets = [offset for _, offset in places]
        if any(other != name for other, _ in places):
            found = f"t{self._tables}[turn]"
            tables.append(f"char* const t{self._tables}[] = {{{', '.join(f'{n} + {o}' for n, o in places)}}};")
        elif len({b - a for a, b in pairwise(offsets)}) == 1:
            step = offsets[1] - first
            return _pointer(views[0], f"{name} + {first}" + (f" + turn * {step}" if step else ""))
        else:
            found = f"{name} + t{self._tables}[turn]"
            tables.append(f"static const i64 t{self._tables}[] = {{{', '.join(map(str, offsets))}}};")
        self._tables += 1
        return _pointer(views[0], found)


def _pointer(view: View, place: str) -> str:
    return f"({C_TYPES[view.dtype.name]}*)({place})"


def _called(invocation: Invocation, addresses: list[str]) -> str:
    text = invocation.text.format(*addresses)
    return f"if (!{text}) return 1;" if invocation.fallible else f"{text};"


def _name(memory: int) -> str:
    """The name of a memory that is given: a value's, or a literal's, whose numbers are negative."""
    return f"m{memory}" if memory >= 0 else f"ml{-1 - memory}"
