"""Lazy namespaces: functions and methods of operations are created when they are first looked up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial, wraps
from typing import Any, TypeAlias

from gradcore import functional
from gradcore.dispatch.torch_function import argument_error, takes_over
from gradcore.ops.declare.names import FUNCTIONS
from gradcore.ops.declare.table import OPS, Op
from gradcore.tensor import Tensor
from gradcore.torch_names import paths

__all__ = ["LazyAttribute", "LazyMethod", "function_names", "functions", "lazy_attributes", "read_names"]


#: A function or method of an operation.
Function: TypeAlias = Callable[..., Any]


class LazyMethod:
    """Descriptor that creates a method when it is first looked up, and replaces itself in the class.

    Parameters
    ----------
    name : str
    make : callable
        Returns the method for `argument`.
    argument : object
    home : callable
        Returns the class.
    """

    __slots__ = ("argument", "home", "make", "name")

    def __init__(self, name: str, make: Function, argument: object, home: Callable[[], type] = lambda: Tensor) -> None:
        self.name, self.make, self.argument, self.home = name, make, argument, home

    def __get__(self, instance: object, owner: Any = None) -> Any:
        method, home = self.make(self.argument), self.home()
        if vars(home).get(self.name) is self:  # and not a method that a program has put there
            setattr(home, self.name, method)
        return method.__get__(instance, owner)


class LazyAttribute(LazyMethod):
    """Descriptor that creates a property when it is first looked up or set, and replaces itself in the class."""

    __slots__ = ()

    def __set__(self, instance: object, value: object) -> None:
        self.__get__(None, Tensor).__set__(instance, value)

    def __delete__(self, instance: object) -> None:
        self.__get__(None, Tensor).__delete__(instance)


#: Methods that are functions too.
METHODS = (
    "as_strided_", "detach", "detach_", "get_device", "index_put_", "is_distributed", "is_same_size", "resize_as_",
    "zero_",
)  # fmt: skip


@cache
def _make_function(name: str) -> Function:
    """Return a method of tensors as a function that raises TypeError for anything but a tensor."""
    method = getattr(Tensor, name)

    @wraps(method)
    def function(input: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(input, Tensor) and not takes_over(type(input)):
            raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
        try:
            return method(input, *args, **kwargs)
        except AttributeError as error:
            raise argument_error(method, (input, *args), {}) or error from None

    function.__module__, function.__name__, function.__qualname__ = "gradcore", name, name
    return function


def functions(path: str) -> dict[str, Callable[[], Function]]:
    """Return the functions that create the entries of a namespace (``""``, ``"linalg"``, ...), by name.

    An alias without a dot is in the namespace of the function. An alias with a dot is a full path, as ``".conv2d"``.
    """
    result = {name: partial(_make_function, name) for name in METHODS} if not path else {}
    names = dict(read_names(FUNCTIONS.get(path, ""))) | function_names(OPS.further().values()).get(path, {})
    return result | {name: partial(getattr, functional, defined) for name, defined in names.items()}


def read_names(text: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a text such as ``"add absolute=abs"``: a name, and the name by which it is defined."""
    for each in text.split():
        name, _, defined = each.partition("=")
        yield name, defined or name


def function_names(ops: Iterable[Op]) -> dict[str, dict[str, str]]:
    """Return the names of functions in each namespace, with the names by which operations define them."""
    results: dict[str, dict[str, str]] = {}
    for op in ops:
        if op.function:
            op_path = op.path.rpartition(".")[0]
            has_inplace = op.inplace and (op.inplace == "function" or (op.kind == "elementwise" and len(op.names) == 1))
            for each in (op.path, *op.aliases):
                path, dot, name = each.rpartition(".")
                namespace = path if dot else op_path
                names = results.setdefault(namespace, {})
                names[name] = op.name
                if has_inplace and namespace in ("", "nn.functional"):
                    names[name + "_"] = op.name + "_"
    return results


def lazy_attributes(
    makers: dict[str, Callable[[], Any]], scope: dict[str, Any]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a module whose functions are created when first looked up.

    Parameters
    ----------
    makers : dict
        As `functions` returns them.
    scope : dict
        The globals of the module, where functions that were made stay.
    """
    namespaces = paths.further(scope["__name__"])

    def module_getattr(name: str) -> Any:
        if name not in makers:
            return namespaces(name)
        return scope.setdefault(name, makers[name]())

    return module_getattr, lambda: sorted(scope["__all__"])
