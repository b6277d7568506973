"""Judgement whether user code that backward calls (hooks, `Function.backward`) can run once more without effect."""

from __future__ import annotations

import builtins
import dis
import functools
import itertools
import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Collection, Mapping, Sequence, Set
from weakref import ref

import numpy as np

from gradcore.autograd.function import FunctionCtx
from gradcore.autograd.variables import Variable
from gradcore.core.device import device
from gradcore.core.dtypes import dtype

__all__ = ["is_asynchronous", "is_repeatable", "reach"]

#: Packages whose functions and classes code may use; what gradcore's functions change is looked at elsewhere.
_TRUSTED = ("cmath", "gradcore", "math", "numpy")
#: Instructions that change a variable or attribute that outlives the call, besides those of free variables.
_STORING = frozenset(("DELETE_ATTR", "DELETE_GLOBAL", "DELETE_NAME", "STORE_ATTR", "STORE_GLOBAL", "STORE_NAME"))
#: Beginnings of instructions, and names of methods, that may change an object or move an iterator on.
_CHANGING = ("BEFORE_", "CONTAINS_", "DELETE_S", "DICT_", "FOR_", "GET_", "LIST_", "LOAD_SPECIAL", "SEND", "SET_",
             "STORE_S", "UNPACK_", "YIELD_")  # fmt: skip
_CHANGING_NAMES = frozenset(
    ("attrgetter", "delattr", "getattr", "join", "methodcaller", "setattr", "vars"),
).union(*map(dir, (OrderedDict, bytearray, deque, list, set))) - {*dir(Mapping), *dir(Sequence), *dir(Set), "copy"}
#: Builtins that do not.
_UNCHANGING = frozenset(
    ("abs", "bool", "complex", "float", "int", "isinstance", "len", "range", "round", "str", "type")
)
#: Types of values that only functions of gradcore change, besides its own classes.
_UNCHANGEABLE = (
    Variable, bool, int, float, complex, str, bytes, range, slice, types.NoneType, types.EllipsisType, dtype, device,
    np.dtype, np.generic, np.ufunc, tuple, frozenset, types.FunctionType, types.CodeType, FunctionCtx,
)  # fmt: skip


@functools.cache
def is_repeatable(code: types.CodeType) -> bool | None:
    """Return whether user code may run once more: None if it depends on whether objects from outside are in reach."""
    if code.co_name == "__enter__":  # `__exit__` and handlers also run if the code is stopped.
        return False
    instructions = list(dis.get_instructions(code))
    for each, following in itertools.pairwise(instructions):
        if each.opname == "PUSH_EXC_INFO" and following.opname != "WITH_EXCEPT_START":
            return False
    is_changing, before = any(name[:2] == "__" or name in _CHANGING_NAMES for name in code.co_names), None
    for each in instructions:
        name, value = each.opname, each.argval
        of_variable = name in ("DELETE_DEREF", "STORE_DEREF") and value in code.co_freevars
        if name in _STORING or of_variable or (name == "IMPORT_NAME" and value not in sys.modules):
            return False
        is_changing |= name == "BINARY_OP" and each.argrepr[-1] == "="
        is_changing |= name.startswith(_CHANGING) and before != "saved_tensors"
        is_changing |= name == "LOAD_GLOBAL" and value in vars(builtins).keys() - _UNCHANGING
        before = value
    return None if is_changing else True


def reach(value: object, names: Collection[str], depth: int = 4) -> int:
    """Return what code with these names can do with a value: change nothing (0), change objects (1), or unknown (2)."""
    cls = type(value)
    inner: list[object] = []
    root = getattr(value, "__name__" if cls is types.ModuleType else "__module__", None)
    is_trusted = str(root).partition(".")[0] in _TRUSTED
    if isinstance(value, (types.BuiltinFunctionType, types.ModuleType, type)) and not is_trusted:
        if root in sys.stdlib_module_names or cls is types.BuiltinFunctionType:
            return 2 * (root != "builtins" or value.__name__ not in _UNCHANGING)
    elif isinstance(value, types.MethodType):
        inner = [value.__self__, value.__func__]
    elif isinstance(value, (tuple, list, set, frozenset, dict)):
        inner = [*(value.values() if isinstance(value, dict) else value)]
    is_users = str(cls.__module__).partition(".")[0] not in (*_TRUSTED, *sys.stdlib_module_names)
    for found in (getattr(value, "__dict__", {}), vars(cls) if is_users else {}):
        inner += [found[name] for name in names if name in found]
    is_kind = isinstance(value, (type, types.BuiltinFunctionType, types.ModuleType))
    result = int(not (isinstance(value, _UNCHANGEABLE) or (is_trusted and (is_kind or str(root)[:9] == "gradcore."))))
    if result and not (is_kind or isinstance(value, types.MethodType)):
        is_of_c = callable(value) and not isinstance(getattr(cls, "__call__", None), types.FunctionType)  # noqa: B004
        result += is_of_c or hasattr(cls, "__next__") or isinstance(value, (np.ndarray, defaultdict))
    return max([result, *(reach(each, names, depth - 1) for each in inner)]) if depth else max(result, 2 * bool(inner))


def is_asynchronous(frame: types.FrameType) -> bool:
    """Return whether no code has called a frame's code: a finalizer, a signal handler, or a callback of a weakref."""
    back, code = frame.f_back, frame.f_code
    if code.co_filename.startswith("<gradcore"):  # Its variables may share a name, which `f_locals` would mix up.
        return False
    found = [value for name, value in frame.f_locals.items() if name in code.co_varnames]  # the arguments
    found += [each for values in found if type(values) is tuple for each in values]
    is_finalizer = code.co_name == "__del__" and (back is None or "__del__" not in back.f_code.co_names)
    # By `type`: sizes that stand for ints have no class before they are initialized.
    return is_finalizer or any(each is back or (issubclass(type(each), ref) and each() is None) for each in found)
