"""Installation of methods in `Tensor` and of functions in `gradcore.functional`, by tables of names and modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import ModuleType
from typing import Any

from gradcore import dispatch, functional
from gradcore.autograd import batch_dims
from gradcore.core.tracebacks import shorten_errors
from gradcore.ops.declare import checks
from gradcore.ops.declare import names as operation_names
from gradcore.ops.declare.table import OPS, Op
from gradcore.tensor import (
    Tensor,
    creation,
    foreach,
    indexing,
    inplace_views,
    is_differentiated,
    layouts,
    legacy_types,
    predicates,
    random,
    setitem,
    sharing,
    storage,
    subclasses,
    to,
)
from gradcore.tensor.creation import data, filled
from gradcore.tensor.namespaces import Function, LazyAttribute, LazyMethod, read_names
from gradcore.tensor.operators import operator_methods
from gradcore.tensor.random import drawing, filling
from gradcore.tensor.random import functions as random_functions

__all__ = ["inplace_method_names", "install", "method_names", "register_op"]

#: A module, or a dict of functions, and the names taken from it: ``name=function`` where they differ, all by default.
Row = tuple[ModuleType | Mapping[str, Any], str]

#: Functions that are methods of tensors.
METHODS: tuple[Row, ...] = (
    (data, "new_tensor"),
    (filled, "new_empty new_full new_ones new_zeros"),
    (indexing, "__getitem__=getitem"),
    (setitem, "__setitem__=setitem"),
    (inplace_views, "as_strided_ squeeze_ swapaxes_=transpose_ swapdims_=transpose_ t_ transpose_ unsqueeze_"),
    (layouts.METHODS, ""),
    (legacy_types.CONVERSIONS, ""),
    (legacy_types, "type=type_ new=new_ new_empty_strided is_same_size is_set_to is_pinned pin_memory"),
    (legacy_types, "resize_ resize_as_ set_ apply_ map_ map2_ record_stream resize resize_as"),
    (legacy_types, "__long__=to_int __nonzero__=to_bool __div__=divide __rdiv__=divide_reflected"),
    (legacy_types, "__idiv__=divide_in_place __array_wrap__=array_wrap __setstate__=set_state"),
    (legacy_types, "_reduce_ex_internal=reduce_ex __delitem__=delete_item"),
    (sharing, "is_shared share_memory_"),
    (storage, "storage storage_type untyped_storage"),
    (subclasses, "as_subclass"),
    (to, "astype copy to"),
)
#: Methods whose tracebacks are shortened where errors leave gradcore. Other methods do this themselves, or check
#: nothing.
SHORTENED_METHODS: tuple[Row, ...] = (
    (setitem, "copy_ fill_ fill_diagonal_ index_put_ zero_"),
    (filling.METHODS, ""),
)
#: Functions that are attributes of tensors.
ATTRIBUTES: tuple[Row, ...] = (
    (inplace_views, "H=adjoint_matrix T=transpose_all mH=adjoint_matrices mT=transpose_matrix"),
)
CLASS_METHODS: tuple[Row, ...] = ((subclasses, "__init_subclass__=enlist __torch_function__=torch_function"),)
STATIC_METHODS: tuple[Row, ...] = ((subclasses, "_make_subclass=make_subclass"),)
#: Functions that formulas, composites and modules find in `gradcore.functional` besides the operations.
FUNCTIONS: tuple[Row, ...] = (
    (batch_dims, "has_batches_of repeat_per_sample"),
    (checks, "check_reduction"),
    (creation, "as_tensor empty empty_like full full_like ones ones_like tensor zeros zeros_like"),
    (drawing, "drawn_like"),
    (filled, "number_as_tensor"),
    (foreach, "move_statistics_"),
    (indexing, "index_tensor"),
    (layouts, "rows_with_sparse_gradient"),
    (predicates, "broadcast_shapes holds_anywhere is_batched is_tensor"),
    (random, "rand randn"),
    (random_functions, "bernoulli_mask draw_dropout dropout_noise dropped_by_kernel log_standard_gamma"),
    (setitem, "copy_ fill_ zero_"),
    (to, "to"),
)


def install() -> None:
    """Install all methods of tensors that are not written in the class, and all functions in `functional`."""
    for name, function in iterate_table(FUNCTIONS):
        setattr(functional, name, function)
    functional.detach, functional.is_differentiated = Tensor.detach, is_differentiated
    functional.new_zeros = lambda input, size: filled.new_zeros(input, tuple(size))
    functional.find_operation = _find_operation
    Op.make = _make_function
    for name, defined in read_names(operation_names.METHODS):
        setattr(Tensor, name, LazyMethod(name, _find_method, defined))
    for name, defined in read_names(operation_names.INPLACE_METHODS):
        setattr(Tensor, name, LazyMethod(name, _find_function, defined))
    for name in operation_names.ATTRIBUTES.split():
        setattr(Tensor, name, LazyAttribute(name, _make_attribute, name))
    for name, make, operator in operator_methods():
        setattr(Tensor, name, LazyMethod(name, make, operator))
    for table, wrap in (
        (METHODS, None),
        (SHORTENED_METHODS, shorten_errors),
        (ATTRIBUTES, property),
        (CLASS_METHODS, classmethod),
        (STATIC_METHODS, staticmethod),
    ):
        for name, function in iterate_table(table):
            if not function.__qualname__.startswith("Tensor."):
                function.__name__, function.__qualname__ = name, f"Tensor.{name}"
            setattr(Tensor, name, function if wrap is None else wrap(function))
    for name, attribute in layouts.ATTRIBUTES.items():
        setattr(Tensor, name, attribute)
    setattr(Tensor, "_cdata", property(id, doc="A number that identifies the tensor."))  # noqa: B010


def iterate_table(table: tuple[Row, ...]) -> Iterator[tuple[str, Function]]:
    """Yield the names and functions of a table."""
    for source, names in table:
        values = source if isinstance(source, Mapping) else vars(source)
        for each in names.split() or values:
            name, _, defined = each.partition("=")
            yield name, values[defined or name]


def register_op(op: Op) -> Function:
    """Create the function and the methods of an operation declared with `gradcore.ops.declare.table`.

    The operations of gradcore have theirs. Call this function for operations that a program declares.

    Parameters
    ----------
    op : Op
        The operation that a decorator of `gradcore.ops.declare.table` returned, with all of its formulas.

    Returns
    -------
    callable
        The function. The methods are attributes of `gradcore.Tensor` from here on, and formulas find it in ``F``.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.ops.declare.table import elementwise
    >>> @gradcore.register_op
    ... @elementwise(lambda F, t, self: t * (3 * self * self), method=False)
    ... def cube_doctest(K, self):
    ...     return self * self * self
    >>> x = gradcore.tensor(2.0, requires_grad=True)
    >>> cube_doctest(x).backward()
    >>> x.grad
    tensor(12.)
    """
    _register(op)
    return op.call


def _register(op: Op) -> None:
    """Register how the methods are created when they are first looked up."""
    if op.attribute:
        setattr(Tensor, op.name, _make_attribute(op.name))
    for name in method_names(op):
        setattr(Tensor, name, LazyMethod(name, _make_method, op))
    for name in inplace_method_names(op):
        setattr(Tensor, name, LazyMethod(name, _find_function, op.name + "_"))


def method_names(op: Op) -> tuple[str, ...]:
    """Return the names of an operation's method."""
    if isinstance(op.method, str):
        return (op.method,)
    return (op.name, *(alias for alias in op.aliases if "." not in alias)) if op.method else ()


def inplace_method_names(op: Op) -> tuple[str, ...]:
    """Return the names of an operation's in-place method."""
    if not op.inplace or "." in op.path:
        return ()
    names = method_names(op) or ((op.name,) if op.function else ())  # none if only operations call it
    return tuple(name + "_" for name in names)


def _find_operation(name: str) -> Function | None:
    """Return the function of the operation `name`, or of the in-place operation if it ends in an underscore."""
    if name in OPS:
        return OPS[name].call
    if name.endswith("_") and name[:-1] in OPS and OPS[name[:-1]].inplace:
        return dispatch.make_inplace(OPS[name[:-1]])
    return None


def _find_function(name: str) -> Function:
    function: Function = getattr(functional, name)
    return function


def _find_method(name: str) -> Function:
    return _make_method(OPS[name])


def _make_attribute(name: str) -> property:
    method = dispatch.make_function(OPS[name], method=True)
    return property(method, _setter(method))


def _make_function(op: Op) -> Function:
    function = dispatch.make_function(op, method=False)
    return dispatch.set_names(dispatch.spread(function, op), op, op.name, False) if op.varargs else function


@cache
def _make_method(op: Op) -> Function:
    """Return the method of an operation, the same object under each of its names."""
    return dispatch.make_function(op, method=True)


def _setter(method: Function) -> Callable[[Any, Any], None]:
    """Return the setter of an attribute that is a view."""

    def assign(self: Any, value: Any) -> None:
        functional.copy_(method(self), value)

    return assign
