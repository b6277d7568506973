"""Rules for the dtype in which an operation computes, and that of its result.

The declaration of an elementwise operation names its rule, followed by the categories of dtypes that it refuses:
``"float -complex"`` computes integers in the default dtype and has no kernel for complex numbers. Other operations use
`same_dtypes` or `common_dtype` to define how tensors of different dtypes are handled.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any

from gradcore.core import dtypes
from gradcore.core.dtypes import dtype
from gradcore.ops.declare.checks import cpp_type, no_kernel

__all__ = [
    "RULES",
    "common_dtype",
    "converts_no_floats",
    "is_number",
    "keeps_floats",
    "promote",
    "results_of_dtypes",
    "same_dtypes",
]

#: The result of a rule: the dtype to compute in, and that of the result (None for the dtype that the kernel returns).
Dtypes = tuple[dtype, dtype | None]
Rule = Callable[[Any, Sequence[Any], Sequence[Any], tuple[Any, ...]], Dtypes]


_PYTHON_NUMBERS = frozenset((bool, int, float, complex))


def is_number(value: object) -> bool:
    """Return whether `value` is a Python or NumPy number."""
    return value.__class__ in _PYTHON_NUMBERS or isinstance(value, Number)


def promote(tensors: Sequence[Any], numbers: Sequence[Any]) -> dtype:
    """Return the common dtype of tensors and Python numbers, by PyTorch's promotion rules."""
    first: dtype = tensors[0]._dtype
    if not numbers and all(t._dtype is first for t in tensors):
        return first
    if all(t._dtype is first for t in tensors) and all(
        dtypes.scalar_dtype(n).category <= first.category for n in numbers
    ):
        return first
    dims = tuple([t._dtype for t in tensors if t._array.ndim])
    zero_dims = tuple([t._dtype for t in tensors if not t._array.ndim])
    return dtypes.result_dtype(dims, zero_dims, numbers) if numbers else _promote_tensors(dims, zero_dims)


#: The common dtype of tensors, for which Python numbers and the default dtype do not matter.
_promote_tensors = functools.lru_cache(1024)(dtypes.result_dtype)


def default(op: Any, tensors: Sequence[Any], numbers: Sequence[Any], args: tuple[Any, ...]) -> Dtypes:
    common = promote(tensors, numbers)
    return common, common


def floating(op: Any, tensors: Sequence[Any], numbers: Sequence[Any], args: tuple[Any, ...]) -> Dtypes:
    """Compute in the common dtype; replace integer types and bool by the default dtype."""
    common = promote(tensors, numbers)
    if not common.is_differentiable:
        common = dtypes.get_default_dtype()
    return common, common


def to_double(op: Any, tensors: Sequence[Any], numbers: Sequence[Any], args: tuple[Any, ...]) -> Dtypes:
    """Compute in double precision: float64, or complex128 for complex tensors."""
    common = dtypes.complex128 if promote(tensors, numbers).is_complex else dtypes.float64
    return common, common


def comparison(op: Any, tensors: Sequence[Any], numbers: Sequence[Any], args: tuple[Any, ...]) -> Dtypes:
    """Compute in the common dtype; the result is bool."""
    return promote(tensors, numbers), dtypes.bool_


def real_valued(op: Any, tensors: Sequence[Any], numbers: Sequence[Any], args: tuple[Any, ...]) -> Dtypes:
    """Compute in the common dtype; the result for complex tensors has the corresponding real dtype."""
    common = promote(tensors, numbers)
    return common, common.to_real()


def real_float(op: Any, tensors: Sequence[Any], numbers: Sequence[Any], args: tuple[Any, ...]) -> Dtypes:
    """Compute as `floating` does; the result for complex tensors has the corresponding real dtype."""
    common, _ = floating(op, tensors, numbers, args)
    return common, common.to_real()


def numeric(op: Any, tensors: Sequence[Any], numbers: Sequence[Any], args: tuple[Any, ...]) -> Dtypes:
    """Compute in the common dtype; replace bool by int64."""
    common = promote(tensors, numbers)
    return (dtypes.int64, dtypes.int64) if common is dtypes.bool_ else (common, common)


def with_settings(op: Any, tensors: Sequence[Any], numbers: Sequence[Any], args: tuple[Any, ...]) -> Dtypes:
    """Compute in the common dtype of tensors and of settings that are numbers, such as bounds and exponents."""
    settings = [a for i, a in enumerate(args) if i not in op.tensors and is_number(a)]
    common = promote(tensors, [*numbers, *settings])
    return common, common


def power(op: Any, tensors: Sequence[Any], numbers: Sequence[Any], args: tuple[Any, ...]) -> Dtypes:
    """Compute in the common dtype of base and exponent; refuse negative integer powers of integers."""
    compute, result = with_settings(op, tensors, numbers, args)
    if not compute.is_differentiable and args[op.position["exponent"]] < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    return compute, result


def division(op: Any, tensors: Sequence[Any], numbers: Sequence[Any], args: tuple[Any, ...]) -> Dtypes:
    """Compute in floating point, or in the common dtype if `rounding_mode` is given."""
    if args[op.position["rounding_mode"]] is None:
        return floating(op, tensors, numbers, args)
    return RULES["default -complex"](op, tensors, numbers, args)


def with_alpha(op: Any, tensors: Sequence[Any], numbers: Sequence[Any], args: tuple[Any, ...]) -> Dtypes:
    """Compute in the common dtype; refuse an `alpha` whose category is higher."""
    common = promote(tensors, numbers)
    alpha = args[op.position["alpha"]]
    if alpha is True and common is not dtypes.bool_:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if isinstance(alpha, float) and not common.is_differentiable:
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if isinstance(alpha, complex) and not common.is_complex:
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    return common, common


def subtraction(op: Any, tensors: Sequence[Any], numbers: Sequence[Any], args: tuple[Any, ...]) -> Dtypes:
    """Compute as `with_alpha` does; refuse bool tensors."""
    if any(t._dtype is dtypes.bool_ for t in tensors):
        several = len(tensors) > 1 and all(t._dtype is dtypes.bool_ for t in tensors)
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. "
            "Use the `^` or `logical_xor()` operator instead."
            if several
            else "Subtraction, the `-` operator, with a bool tensor is not supported. "
            "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
        )
    return with_alpha(op, tensors, numbers, args)


def negation(op: Any, tensors: Sequence[Any], numbers: Sequence[Any], args: tuple[Any, ...]) -> Dtypes:
    if tensors[0]._dtype is dtypes.bool_:
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. "
            "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
        )
    return default(op, tensors, numbers, args)


def where(op: Any, tensors: Sequence[Any], numbers: Sequence[Any], args: tuple[Any, ...]) -> Dtypes:
    """Compute in the common dtype of the alternatives; refuse a condition that is not bool."""
    condition = args[0]
    if condition._dtype is not dtypes.bool_:
        raise RuntimeError(
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{condition._dtype.scalar_name}"
        )
    return default(op, tensors[1:] or tensors, numbers, args)


def same_dtype(op: Any, tensors: Sequence[Any], numbers: Sequence[Any], args: tuple[Any, ...]) -> Dtypes:
    """Compute in the dtype of the tensors; refuse tensors of different dtypes."""
    first: dtype = tensors[0]._dtype
    if any(t._dtype is not first for t in tensors):
        raise RuntimeError(f"{op.name} is not yet implemented for tensors with different dtypes.")
    return first, first


def make_complex(op: Any, tensors: Sequence[Any], numbers: Sequence[Any], args: tuple[Any, ...]) -> Dtypes:
    """Compute in the real dtype of both tensors; the result has the corresponding complex dtype."""
    first, second = tensors
    for t in tensors:
        if t._dtype is dtypes.bfloat16 or not t._dtype.is_floating_point:
            raise RuntimeError(
                "Expected both inputs to be Half, Float or Double tensors but got "
                f"{first._dtype.scalar_name} and {second._dtype.scalar_name}"
            )
    if second._dtype is not first._dtype:
        raise RuntimeError(
            f"Expected object of scalar type {first._dtype.scalar_name} but got scalar type "
            f"{second._dtype.scalar_name} for second argument"
        )
    result = first._dtype.to_complex()
    return result.to_real(), result


def refusing(rule: Rule, categories: frozenset[int]) -> Rule:
    """Return `rule` with a check that raises if the dtype to compute in is of one of `categories`."""

    def check_and_promote(op: Any, tensors: Sequence[Any], numbers: Sequence[Any], args: tuple[Any, ...]) -> Dtypes:
        compute, result = rule(op, tensors, numbers, args)
        if compute.category in categories:
            raise no_kernel(f"{op.name}_{tensors[0]._device.type}", compute)
        return compute, result

    return check_and_promote


_CATEGORIES = {
    "-bool": dtypes.BOOL, "-integer": dtypes.INTEGER, "-float": dtypes.FLOATING, "-complex": dtypes.COMPLEX
}  # fmt: skip


class _Rules(dict[str, Rule]):
    """Dictionary of rules by name, which builds rules such as ``"float -complex"`` when they are first looked up."""

    def __missing__(self, name: str) -> Rule:
        base, *refused = name.split()
        if not refused:
            raise KeyError(f"there is no promotion rule {name!r}")
        rule = self[name] = refusing(self[base], frozenset(_CATEGORIES[word] for word in refused))
        return rule


#: The rules by the name that a declaration uses.
RULES: dict[str, Rule] = _Rules(
    default=default,
    float=floating,
    double=to_double,
    compare=comparison,
    real=real_valued,
    real_float=real_float,
    numeric=numeric,
    settings=with_settings,
    power=power,
    divide=division,
    add=with_alpha,
    subtract=subtraction,
    negate=negation,
    where=where,
    same_dtype=same_dtype,
    complex=make_complex,
)


def keeps_floats(name: str) -> bool:
    """Return whether the rule of that name computes tensors of one real floating-point dtype in that dtype."""
    base, *refused = name.split()
    return base in _KEEP_FLOATS and "-float" not in refused


def converts_no_floats(name: str) -> bool:
    """Return whether the rule leaves real numbers, and tensors of one real floating-point dtype, unchanged."""
    base, *refused = name.split()
    return base in _CONVERT_NO_FLOATS and "-float" not in refused


class _Sample:
    """A tensor's dtype, number of dims and device, as far as promotion rules read them."""

    ndim, type = 1, "cpu"

    def __init__(self, of: dtype) -> None:
        self._dtype, self._array, self._device = of, self, self


def results_of_dtypes(op: Any) -> dict[dtype, dtype]:
    """Return the dtypes of integers and bools that an elementwise operation computes without conversion.

    Returns
    -------
    dict of dtype to dtype
        For each dtype of all tensors, if they have the same one, the dtype of the result. The operation's settings must
        be small integers, or None where the default is None: a float would convert tensors, and not all integers fit.
    """
    results = {}
    settings = [p.default if p.default is None else 1 for p in op.parameters]
    for of in (dtypes.bool_, dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64):
        if of is dtypes.bool_ and op.numeric_settings:
            continue
        tensors = {p: _Sample(dtypes.bool_ if p in op.keeps_dtype else of) for p in op.tensors}
        args = tuple(tensors.get(i, setting) for i, setting in enumerate(settings))
        try:
            compute, result = RULES[op.promotion](op, [*tensors.values()], [], args)
        except (RuntimeError, NotImplementedError):  # the rule refuses the dtype
            continue
        if compute is of and result is not None and not result.is_differentiable:
            results[of] = result
    return results


_KEEP_FLOATS = {"default", "float", "real", "real_float", "numeric", "divide", "add", "subtract", "negate"}
_CONVERT_NO_FLOATS = _KEEP_FLOATS | {"compare", "power", "settings", "where"}


# -- tensors of different dtypes in operations that are not elementwise -----------------------------------------------


class _Names:
    """Names of a dtype for format strings of messages: ``{self}`` is Float, ``{self.cpp}`` is float."""

    __slots__ = ("cpp", "scalar")

    def __init__(self, of: dtype) -> None:
        self.scalar, self.cpp = of.scalar_name, cpp_type(of)

    def __format__(self, spec: str) -> str:
        return self.scalar


def same_dtypes(*messages: str) -> Callable[[Any, Sequence[Any]], None]:
    """Return a rule for the option `mixed` that refuses tensors of different dtypes with one of `messages`.

    Parameters
    ----------
    *messages : str
        Checked in order. The tensors that a message names, as ``{weight}`` or ``{weight.cpp}``, must have one dtype
        (where it names none, all of them); a message that names a tensor which is not given does not count.
    """
    names_of_messages = [set(re.findall(r"{(\w+)", message)) for message in messages]

    def refuse(op: Any, args: Sequence[Any]) -> None:
        together = [p for p in op.tensors if p not in op.keeps_dtype and hasattr(args[p], "_dtype")]
        dtypes_by_name = {op.names[p]: args[p]._dtype for p in together}
        for message, names in zip(messages, names_of_messages, strict=True):
            if names <= dtypes_by_name.keys() and len({dtypes_by_name[name] for name in names or dtypes_by_name}) > 1:
                raise RuntimeError(message.format_map({name: _Names(dtypes_by_name[name]) for name in names}))

    return refuse


def common_dtype(op: Any, args: Sequence[Any]) -> dtype:
    """Return the rule of an operation that computes in the common dtype of its tensors."""
    return promote([args[p] for p in op.tensors if p not in op.keeps_dtype and args[p] is not None], ())
