"""Facts of code objects, from their names, constants and instructions."""

from __future__ import annotations

import dis
import itertools
import re
import types
from collections.abc import Collection, Iterable
from typing import Any

__all__ = ["BY_NAME", "FORMATTING", "compares_identity", "find_handlers", "names_in", "names_of_values",
           "reads_by_name", "reads_grads"]  # fmt: skip

#: Functions and attributes that access attributes by names that may be computed.
BY_NAME = frozenset((
    "__dict__", "__dir__", "__getattribute__", "attrgetter", "delattr", "getattr", "hasattr", "methodcaller", "setattr",
    "vars",
))  # fmt: skip
#: Methods of strings that read attributes named in the string.
FORMATTING = frozenset(["format", "format_map"])
_CONSTANTS = None, True, False, ...


def names_in(codes: Iterable[types.CodeType]) -> frozenset[str]:
    """Return the attribute names that code may read: the names in it, and its one-line string constants."""
    results: set[str] = set()
    for code in codes:
        results.update(code.co_names)
        for constant in code.co_consts:
            for part in constant if isinstance(constant, (tuple, frozenset)) else (constant,):
                if isinstance(part, str) and "\n" not in part:
                    results.update(part.split("."))
    return frozenset(results)


def reads_by_name(code: types.CodeType) -> bool:
    """Return whether code may read attributes by names that do not occur in it.

    It may call a function in `BY_NAME`, match a pattern ``Class(x)``, which reads attributes that ``__match_args__``
    names, or call `str.format` with a field such as ``"{0.x}"``.
    """
    if not BY_NAME.isdisjoint(code.co_names):
        return True
    may_match = dis.opmap["MATCH_CLASS"] in code.co_code[::2]  # a fast check
    if may_match and any(each.opname == "MATCH_CLASS" and each.arg for each in dis.get_instructions(code)):
        return True
    is_formatting = not FORMATTING.isdisjoint(code.co_names)
    return is_formatting and any(isinstance(c, str) and re.search(r"\{[^{}]*[.\[]", c) for c in code.co_consts)


def reads_grads(codes: Iterable[types.CodeType]) -> bool:
    """Return whether code may read or set an attribute ``grad``; to call a global function `grad` does not count."""
    instructions = (each for code in codes if "grad" in code.co_names for each in dis.get_instructions(code))
    return any(each.argval == "grad" and not each.opname.endswith(("_GLOBAL", "_NAME")) for each in instructions)


def compares_identity(code: types.CodeType) -> bool:
    """Return whether code may compare objects by ``is``, other than with None, a bool or ``...``."""
    instructions = [each for each in dis.get_instructions(code) if each.opname != "CACHE"]
    if not {"is_", "is_not"}.isdisjoint(code.co_names):
        return True
    # LOAD_COMMON_CONSTANT: Python 3.14 asks whether `tuple` in ``tuple(x for x in y)`` is the built-in class.
    constants = [each.opname == "LOAD_COMMON_CONSTANT" or (each.opname == "LOAD_CONST" and each.argval in _CONSTANTS)
                 for each in instructions]  # fmt: skip
    return any(each.opname == "IS_OP" and not constants[i - 1] for i, each in enumerate(instructions))


def names_of_values(codes: Iterable[types.CodeType]) -> frozenset[str]:
    """Return the names of variables and attributes that code uses for more than to read an attribute of them."""
    results: set[str] = set()
    for code in codes:
        instructions = [*dis.get_instructions(code)]
        for each, following in itertools.pairwise(instructions):
            if following.opname not in ("IMPORT_FROM", "LOAD_ATTR", "LOAD_METHOD") or following.argval in BY_NAME:
                results.add(str(each.argval))
    return frozenset(results)


def find_handlers(codes: Collection[types.CodeType]) -> dict[types.CodeType, list[tuple[int, int]]]:
    """Return, for each code object, the offset ranges in which exceptions may be caught."""
    suppressing = any(code.co_name == "__exit__" for code in codes)
    results: dict[types.CodeType, list[tuple[int, int]]] = {}
    for code in codes:
        if not code.co_exceptiontable:
            continue
        names = {each.offset: each.opname for each in dis.get_instructions(code)}
        next_opnames = dict(zip(names, [*names.values()][1:], strict=False))
        bytecode: Any = dis.Bytecode(code)
        for entry in bytecode.exception_entries:
            catches = names.get(entry.target) == "PUSH_EXC_INFO"
            if catches and (suppressing or next_opnames.get(entry.target) != "WITH_EXCEPT_START"):
                results.setdefault(code, []).append((entry.start, entry.end))
    return results
