"""Dispatch of operations: the functions and methods that are built from their declarations, and how a call runs."""

from gradcore.dispatch.general import apply, call_composite, elementwise
from gradcore.dispatch.inplace import (
    apply_inplace,
    check_inplace,
    check_own_memory,
    copy_to_out,
    out_of,
    write,
)
from gradcore.dispatch.operands import (
    NUMBERS,
    Number,
    common_device,
    constant,
    index_array,
    shape_error,
    type_error,
)
from gradcore.dispatch.signatures import (
    NUMPY_NAMES,
    REQUIRED,
    make_function,
    make_inplace,
    set_names,
    spread,
)

__all__ = [
    "NUMBERS",
    "NUMPY_NAMES",
    "REQUIRED",
    "Number",
    "apply",
    "apply_inplace",
    "call_composite",
    "check_inplace",
    "check_own_memory",
    "common_device",
    "constant",
    "copy_to_out",
    "elementwise",
    "index_array",
    "make_function",
    "make_inplace",
    "out_of",
    "set_names",
    "shape_error",
    "spread",
    "type_error",
    "write",
]
