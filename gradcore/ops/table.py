"""The table of operations and the decorators that declare them.

A declaration is a function. Its name, signature and docstring are the operation's; a first parameter ``F`` means that
the function's body is the forward computation, written against a namespace; without it the kernel of the same name is
a backend's own. Parameters without annotation are tensors (``tensors: Arrays`` a sequence of them), annotated ones are
settings. The decorator says which *kind* of derivative the operation has:

==============  ===========================================================================================
`elementwise`   per tensor input the differential, ``(F, t, ...) -> linear in t``: both modes follow
`linear`        jointly linear in the tensors that have an adjoint: forward mode is the operation itself
`bilinear`      linear in each of its tensors: one adjoint per tensor
`general`       vector-Jacobian products, and Jacobian-vector products where they are worth writing
`constant`      results that carry no derivative
`composite`     the body runs on tensors and is differentiated through the operations it calls
==============  ===========================================================================================

A formula's further parameters name what it reads: inputs (``self``), outputs (``result``), settings (``dim``),
``<input>_shape``, and ``needs`` (which inputs want a gradient). Only what is named is saved.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable
from typing import Any

from gradcore.backends.base import Backend
from gradcore.ops.parameters import parameters_of
from gradcore.ops.promotion import converts_no_floats

__all__ = ["OPS", "Formula", "Op", "bilinear", "composite", "constant", "elementwise", "general", "linear"]


OPS: dict[str, Op] = {}


class Formula:
    """A derivative formula: the function, and the names of the saved values that it reads."""

    __slots__ = ("function", "names")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        code = function.__code__
        self.names = code.co_varnames[2 : code.co_argcount]  # after F and the (co)tangent


class Op:
    """One operation: its declaration and everything that is derived from it.

    Attributes
    ----------
    name : str
        Unique name in the table.
    path : str
        Where users find it, for example ``"nn.functional.relu"``.
    parameters : tuple of Parameter
        The public signature, without ``F``.
    tensors : tuple of int
        Positions of the tensor parameters.
    sequence : bool
        Whether the first parameter is a sequence of tensors.
    outputs : tuple of str
        Names of the outputs: ``("result",)`` for a single one.
    differentiable : tuple of int
        Positions of the outputs that carry derivatives.
    vjps, differentials, jvps : dict
        Formulas by input name; a `vjps` key may be a tuple of names whose formula returns one gradient for each.
    """

    def __init__(self, kind: str, function: Callable[..., Any], /, **options: Any) -> None:
        parameters = parameters_of(function)
        has_body = bool(parameters) and parameters[0].name == "F"
        if has_body:
            parameters = parameters[1:]
        self.kind = kind
        self.name: str = options.pop("name", function.__name__)
        #: The module that declares it: its family.
        self.module: str = function.__module__ or ""
        #: The kernel of the general call, where settings make it another one than that of the plain call.
        self.kernel: str = options.pop("kernel", self.name)
        self.doc = function.__doc__ or ""
        self.parameters = tuple(parameters)
        self.names = tuple(p.name for p in parameters)
        self.position = {name: i for i, name in enumerate(self.names)}
        self.sequence = bool(parameters) and parameters[0].annotation == "Arrays"
        self.tensors = tuple(
            i for i, p in enumerate(parameters) if p.annotation is p.empty or (i == 0 and self.sequence)
        )
        #: Positions of settings that hold tuples of index tensors: never differentiated, raw in kernels, kept
        #: unchanged.
        self.indices = tuple(i for i, p in enumerate(parameters) if p.annotation == "Indices")
        self.edge_of = {position: i for i, position in enumerate(self.tensors)}
        self.body = _all_positional(function) if has_body else None
        self.path: str = options.pop("path", self.name)
        self.outputs: tuple[str, ...] = tuple(options.pop("outputs", ("result",)))
        self.output_type: str | None = options.pop("output_type", None)
        self.variadic: bool = options.pop("variadic_outputs", False)
        self.differentiable: tuple[int, ...] = tuple(options.pop("differentiable", range(len(self.outputs))))
        #: Whether the function takes the tensors of its first parameter as separate arguments, too.
        self.varargs: bool = options.pop("varargs", False)
        self.view: bool = options.pop("view", False)
        self.multi_view: bool = self.view and self.variadic
        #: Whether there is a method ``name_``; ``"function"``: a function too, as for every operation of one tensor.
        self.inplace: bool | str = options.pop("inplace", kind == "elementwise")
        #: Whether the method is an attribute (which can be assigned to).
        self.attribute: bool = options.pop("attribute", False)
        self.function: bool = options.pop("function", True)
        self.method: bool | str = options.pop("method", "." not in self.path)
        self.aliases: tuple[str, ...] = tuple(options.pop("aliases", ()))
        self.promotion: str = options.pop("promotion", "default")
        #: Whether tensors of one floating-point dtype are what is computed with.
        self.plain = kind == "elementwise" and converts_no_floats(self.promotion)
        #: Positions of tensors that keep their own dtype (a condition, say).
        self.unpromoted = frozenset(self.position[n] for n in options.pop("unpromoted", ()))
        #: Positions of tensors in whose place Python numbers are taken: by default all but the first.
        numbers = options.pop("numbers", tuple(self.names[i] for i in self.tensors[1:]))
        self.numbers = frozenset(self.position[n] for n in numbers)
        self.node_name: str | Callable[..., str] = options.pop("node", camel_case(self.name) + "Backward0")
        #: The node's name where a view operation had to copy.
        self.copies: str | None = options.pop("copies", None)
        self.upcast: bool = options.pop("upcast", not self.view)
        self.samples: Any = options.pop("samples", None)
        self.domain: tuple[float, float] = options.pop("domain", (-2.0, 2.0))
        #: Whether gradients may come back with broadcast dimensions, which the engine sums away.
        self.broadcasts: bool = options.pop("broadcasts", kind == "elementwise")
        #: Whether gradients of outputs that were not used come as zeros, or (False) as None.
        self.materialize: bool = options.pop("materialize", True)
        #: Whether the shape of the result depends on the data.
        self.data_dependent: bool = options.pop("data_dependent", False)
        #: For views of a part: the key of that part, a function of the tensor's shape and the settings.
        self.place: Callable[..., Any] | None = options.pop("place", None)
        #: Whether the result depends on how the elements lie in memory.
        self.layout_dependent: bool = options.pop("layout_dependent", False)
        self.random: bool = options.pop("random", False)
        self.vjps: dict[str | tuple[str, ...], Formula] = {}
        self.differentials: dict[str, Formula] = {}
        self.jvps: dict[str, Formula] = {}
        #: Makes the public function; set where tensors are known.
        self.make: Callable[[], Callable[..., Any]]
        if options:
            raise TypeError(f"{self.name}: unknown options {sorted(options)}")

    @property
    def call(self) -> Callable[..., Any]:
        """The public function, which is made when it is first asked for."""
        made = vars(self).get("_call")
        return made or vars(self).setdefault("_call", self.make())  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<{self.kind} op {self.path}>"

    # -- formulas, as decorators for those that do not fit on the declaration's line -----------------------------

    def derivative(self, *inputs: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare the differential (elementwise) with respect to an input."""
        return self._formula(self.differentials, inputs)

    def vjp(self, *inputs: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare the vector-Jacobian product with respect to one input, or jointly to several (it returns a tuple)."""
        return self._formula(self.vjps, inputs)

    adjoint = vjp

    def jvp(self, *inputs: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare the Jacobian-vector product with respect to one input."""
        return self._formula(self.jvps, inputs)

    def _formula(self, table: dict[Any, Formula], inputs: tuple[str, ...]) -> Callable[..., Any]:
        unknown = [name for name in inputs if name not in self.names]
        if unknown:
            raise TypeError(f"{self.name} has no parameter {', '.join(unknown)}")

        def declare(function: Callable[..., Any]) -> Callable[..., Any]:
            table[inputs[0] if len(inputs) == 1 else inputs] = Formula(function)
            return function

        return declare


def camel_case(name: str) -> str:
    """``log_softmax`` as it stands in a node's name: ``LogSoftmax`` (and ``log1p``: ``Log1P``)."""
    return re.sub(r"(^|_|\d)([a-z])", lambda match: match[1].strip("_") + match[2].upper(), name)


def _all_positional(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its keyword-only parameters made positional, as kernels are called."""
    code = function.__code__
    if not code.co_kwonlyargcount:
        return function
    last = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    code = code.replace(co_argcount=code.co_argcount + code.co_kwonlyargcount, co_kwonlyargcount=0)
    defaults = (*(function.__defaults__ or ()), *((function.__kwdefaults__ or {}).get(name) for name in last))
    return types.FunctionType(code, function.__globals__, function.__name__, defaults, function.__closure__)


def _declare(kind: str, function: Callable[..., Any], options: dict[str, Any]) -> Op:
    op = Op(kind, function, **options)
    if op.name in OPS:
        raise TypeError(f"the operation {op.name} is declared twice")
    OPS[op.name] = op
    if op.body is not None:
        Backend.bodies[op.kernel] = op.body
    if op.data_dependent:
        Backend.reading.add(op.kernel)
    if kind == "elementwise":
        Backend.elementwise[op.kernel] = op.names
    return op


def _split(options: dict[str, Any], function: Callable[..., Any]) -> dict[str, Formula]:
    """Take the formulas, given by input name, out of the options."""
    names = [p.name for p in parameters_of(function) if p.name in options]
    return {name: Formula(options.pop(name)) for name in names}


def elementwise(differential: Callable[..., Any] | None = None, /, **options: Any) -> Callable[..., Op]:
    """Declare an operation whose Jacobian is diagonal (after broadcasting its inputs).

    Parameters
    ----------
    differential : callable, optional
        ``(F, t, ...)`` for the first input; those of further inputs are given by name.
    **options
        See `Op`; `promotion` names the rule for the result's dtype.
    """

    def declare(function: Callable[..., Any]) -> Op:
        formulas = _split(options, function)
        op = _declare("elementwise", function, options)
        if differential is not None:
            op.differentials[op.names[0]] = Formula(differential)
        op.differentials.update(formulas)
        return op

    return declare


def linear(adjoint: Callable[..., Any] | None = None, /, **options: Any) -> Callable[..., Op]:
    """Declare an operation that is linear in all tensors with an adjoint together; `adjoint` is that of the first."""

    def declare(function: Callable[..., Any]) -> Op:
        formulas = _split(options, function)
        op = _declare("linear", function, options)
        if adjoint is not None:
            op.vjps[op.names[0]] = Formula(adjoint)
        op.vjps.update(formulas)
        return op

    return declare


def bilinear(**options: Any) -> Callable[..., Op]:
    """Declare an operation that is linear in each tensor that has an adjoint, given by name."""

    def declare(function: Callable[..., Any]) -> Op:
        formulas = _split(options, function)
        op = _declare("bilinear", function, options)
        op.vjps.update(formulas)
        return op

    return declare


def general(vjp: Callable[..., Any] | None = None, /, **options: Any) -> Callable[..., Op]:
    """Declare an operation with vector-Jacobian products written out (`vjp` for the first input, others by name).

    Forward mode uses the `jvp` formulas where there are any, and else transposes the vector-Jacobian products.
    """

    def declare(function: Callable[..., Any]) -> Op:
        formulas = _split(options, function)
        op = _declare("general", function, options)
        if vjp is not None:
            op.vjps[op.names[0]] = Formula(vjp)
        op.vjps.update(formulas)
        return op

    return declare


def constant(**options: Any) -> Callable[[Callable[..., Any]], Op]:
    """Declare an operation whose results carry no derivative (comparisons, indices, rounding to integers)."""
    return lambda function: _declare("constant", function, {"differentiable": (), **options})


def composite(**options: Any) -> Callable[[Callable[..., Any]], Op]:
    """Declare an operation by the operations it is made of: its body runs with tensors."""
    return lambda function: _declare("composite", function, options)


def find(names: Iterable[str]) -> list[Op]:
    """The operations of these names."""
    return [OPS[name] for name in names]
