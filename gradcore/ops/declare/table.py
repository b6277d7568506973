"""The table of operations and the decorators that declare them.

A declaration is a function. Its name, signature and docstring are those of the operation. The body is the forward
computation, and the first parameter is the namespace that it uses. A function without such a parameter has no body:
each backend has a kernel of the same name. The name of the parameter chooses one of two namespaces:

=====  ===========================================================================================================
``F``  the operations of the table, on arrays or on tensors: for formulas, and for the bodies of composites
``K``  a backend, on arrays: operations, further kernels, the array library ``K.xp``: for the bodies of all others
=====  ===========================================================================================================

A body that uses operations only may take ``F`` too. Parameters without annotation are tensors (``tensors: Arrays`` is
a sequence of tensors), annotated parameters are settings. The decorator declares the *kind* of derivative:

==============  ===========================================================================================
`elementwise`   per tensor input the differential, ``(F, t, ...) -> linear in t``: both modes follow
`linear`        jointly linear in the tensors that have an adjoint: forward mode is the operation itself
`bilinear`      linear in each of its tensors: one adjoint per tensor
`general`       vector-Jacobian products, and Jacobian-vector products where they are worth writing
`constant`      results that carry no derivative
`composite`     the body runs on tensors and is differentiated through the operations it calls
==============  ===========================================================================================

A tensor without a formula must not require grad, unless ``constant`` gives the reason why results do not depend on it.

The further parameters of a formula name the values that it reads: inputs (``self``), outputs (``result``), settings
(``dim``), ``<input>_shape``, and ``needs`` (the inputs that need a gradient). Only these values are saved.
"""

from __future__ import annotations

import re
import types
from collections import namedtuple
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from gradcore.backends.base import Backend
from gradcore.backends.kernel_rules import MODULES, OPERATIONS, BatchRule, Declared, declare
from gradcore.core.dtypes import dtype
from gradcore.ops.declare.names import DECLARED
from gradcore.ops.declare.parameters import Parameter, names_of, parameters_of
from gradcore.ops.declare.promotion import converts_no_floats, results_of_dtypes

__all__ = [
    "OPS",
    "Formula",
    "Op",
    "bilinear",
    "composite",
    "constant",
    "elementwise",
    "general",
    "linear",
    "not_implemented",
    "same",
    "times",
]


#: The operations by name. The module that declares one is imported when it is first looked up.
OPS: Declared[Op] = OPERATIONS
MODULES.update((name, f"gradcore.ops.{family}") for family, names in DECLARED.items() for name in names.split())

#: Names of the first parameter of a declaration that has a body.
NAMESPACES = ("F", "K")


class Formula:
    """A derivative formula.

    Parameters
    ----------
    function : callable
        ``(F, t, ...)``.
    name : str
        Its name in tracebacks and profiles: ``"mul_vjp_other"``.

    Attributes
    ----------
    names : tuple of str
        The saved values that it reads.
    """

    __slots__ = ("function", "names")

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        code = function.__code__
        self.function = (
            _copy_function(function, name) if code.co_name in _NAMELESS and function is not same else function
        )
        factor = getattr(function, "factor", None)
        self.names = (factor,) if factor else code.co_varnames[2 : code.co_argcount]  # after F and the (co)tangent

    @property
    def is_identity(self) -> bool:
        """Whether the formula is `same`, the derivative of an identity."""
        return self.function is same

    @property
    def is_product(self) -> bool:
        """Whether the formula was created by `times`, so that it multiplies by one value."""
        return hasattr(self.function, "factor")


#: Names of functions that have no name of their own: lambdas, decorated functions, and results of `times`.
_NAMELESS = ("<lambda>", "_", "formula")


def _copy_function(function: Any, name: str) -> Callable[..., Any]:
    """Return a copy of `function` with the name `name`."""
    code = function.__code__.replace(co_name=name, co_qualname=name)
    copy = types.FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
    copy.__dict__.update(function.__dict__)
    return copy


def same(F: Any, t: Any) -> Any:
    """Return `t`. The engine recognizes this formula of an identity, and does not call it."""
    return t


def times(name: str) -> Callable[..., Any]:
    """Return the formula of a product: the gradient or tangent times the value called `name`.

    Where the input was broadcast, the engine computes the sum of the product without the product.
    """

    def formula(F: Any, t: Any, factor: Any) -> Any:
        return t * factor

    formula.factor = name  # type: ignore[attr-defined]
    return formula


_T = TypeVar("_T")


class _Option(cached_property[_T]):
    """Descriptor of an option of a declaration; its default is computed from other options when it is first read."""


class Op:
    """An operation: its declaration and everything that is derived from it.

    Attributes
    ----------
    kind : str
        The name of the decorator that declares the operation.
    name : str
        Unique name in the table.
    names : tuple of str
        The parameters' names, without the namespace (``K`` or ``F``).
    has_body : bool
        Whether the declaration's body computes the result.
    vjps, differentials, jvps : dict
        Formulas by input name; a `vjps` key may be a tuple of names whose formula returns one gradient for each.
    """

    def __init__(self, kind: str, function: Callable[..., Any], /, **options: Any) -> None:
        unknown = options.keys() - _OPTIONS
        if unknown:
            raise TypeError(f"{function.__name__}: unknown options {sorted(unknown)}")
        names = names_of(function)
        self.declaration = function
        self.kind = kind
        self.name: str = function.__name__
        #: The module that declares it: its family.
        self.module: str = function.__module__ or ""
        self.doc = function.__doc__ or ""
        self.has_body = bool(names) and names[0] in NAMESPACES
        self.names = names[self.has_body :]
        vars(self).update(options)
        for by_name in ("accepts_scalars", "keeps_dtype"):
            if by_name in options:
                vars(self)[by_name] = frozenset(self.position[name] for name in options[by_name])
        self.vjps: dict[str | tuple[str, ...], Formula] = {}
        self.differentials: dict[str, Formula] = {}
        self.jvps: dict[str, Formula] = {}

    #: Makes the public function of an operation; set where tensors are known.
    make: ClassVar[Callable[[Op], object]]

    # -- options and their defaults -------------------------------------------------------------------------------

    #: Further public paths; one without a dot is a name in the module of the function.
    aliases: tuple[str, ...] = ()
    #: The dtype in which autocasting computes: ``"lower"``, ``"float32"``, ``"widest"`` (the widest dtype of the
    #: arguments), or ``"refused"`` (an error). ``"float32:cpu widest:cuda"`` is for devices that differ, and a function
    #: of the call's arguments for a dtype that depends on these. Without it, autocasting changes nothing.
    autocast: str | Callable[..., str] = ""
    #: Whether the method is an attribute, which can be assigned to.
    attribute: bool = False
    #: Names of inputs whose gradient has a derivative of zero with respect to them, where a constant would have none.
    connected: tuple[str, ...] = ()
    #: Names of inputs: if one of these requires grad, recorded gradients of all inputs require grad, because PyTorch
    #: computes these gradients by one function of all these inputs.
    joint: tuple[str, ...] = ()
    #: The node's name if a view operation had to copy.
    copy_node: str | None = None
    #: Whether the arguments of Python's operator may be swapped.
    commutative: bool = False
    #: For an operation without a body: how `vmap` runs its kernel on a batch (`gradcore.backends.kernel_rules`).
    batch: BatchRule | None = None
    #: Whether the shape of the result depends on the data.
    data_dependent: bool = False
    domain: tuple[float, float] = (-2.0, 2.0)
    #: The fields of the named tuple of results, separated by spaces; "" for a tensor or a plain tuple.
    fields: str = ""
    #: Whether the operation writes one value to all elements. Then elements of an in-place target may share memory.
    fills: bool = False
    function: bool = True
    #: The message of the ValueError for an empty sequence of tensors; by default a RuntimeError is raised.
    if_empty: str = ""
    #: Whether the result depends on the memory layout of the input.
    layout_dependent: bool = False
    #: Whether formulas get the gradients of unused outputs as zeros, or (False) as None.
    materialize: bool = True
    #: Rule for tensors of different dtypes: a function of the operation and the call's arguments. It raises, or
    #: returns the dtype to compute in, or None. For None, elementwise operations promote, and others do not convert.
    mixed: Callable[..., Any] | None = None
    #: For views of a part: a function of the tensor's shape and the settings that returns the key of that part.
    view_key: Callable[..., Any] | None = None
    #: For type checkers, if the result's type depends on the call: the parameters after the first, and the result.
    overloads: tuple[tuple[str, str], ...] = ()
    #: Whether numbers are also accepted by position, before the tensors that they multiply, with a warning.
    numbers_first: bool = False
    promotion: str = "default"
    random: bool = False
    #: For type checkers: the type of the result, if the samples do not show it.
    returns: str = ""
    samples: Any = None
    #: Positions of tensors that keep their own dtype (a condition, say); declared by name.
    keeps_dtype: frozenset[int] = frozenset()
    #: Whether computing an element takes long enough for splitting arrays among threads.
    slow: bool = False
    #: The family of CUDA kernels (`gradcore.core.config.cuda_kernels`) that compute float16 and bfloat16 in float32
    #: internally, and round once. With ``forward`` appended, whole derivatives are computed in float32.
    half_on_cuda: str = ""
    #: For an operation without a body: shape and dtype of its results on the device ``meta``, if the kernel cannot run
    #: on arrays without data (see `gradcore.backends.kernel_rules.shaped`).
    shaped: Callable[..., Any] | None = None
    #: Whether the function also takes the tensors of its first parameter as separate arguments.
    varargs: bool = False
    #: Whether the number of outputs depends on the call.
    variadic: bool = False
    view: bool = False
    #: Outputs that stay in float32 for operands of float16 or bfloat16: sums that could overflow in half precision.
    wide: tuple[str, ...] = ()

    @_Option
    def also(self) -> dict[str, str]:
        """Further names of parameters, such as ``{"split_size": "split_size_or_sections"}``, in addition to NumPy's."""
        return {}

    @_Option
    def broadcasts(self) -> bool:
        """Return whether gradients may come back with broadcast dimensions, which the engine sums away."""
        return self.kind == "elementwise"

    @_Option
    def constant(self) -> str | dict[str, str]:
        """Reason why results do not depend on a tensor, by the tensor's name; a string holds for all tensors."""
        rules = self.promotion.split()
        return "results are bools" if "compare" in rules else "tensors are of integers" if "-float" in rules else {}

    @_Option
    def contiguous(self) -> bool:
        """Return whether results lie in memory in the order of their indices, however the inputs lie."""
        return self.kind != "elementwise" and not self.view

    @_Option
    def differentiable(self) -> tuple[int, ...]:
        """Positions of the outputs that carry derivatives."""
        return tuple(range(len(self.outputs)))

    @_Option
    def seen_outputs(self) -> tuple[int, ...]:
        """Positions of the outputs whose gradients are passed to hooks; the other outputs serve formulas only."""
        return self.differentiable

    @_Option
    def edges(self) -> dict[str, tuple[str, ...]]:
        """Return the inputs to which the edges of a node lead, in order, keyed by the name of the node.

        By default they are all inputs that have a formula.
        """
        return {}

    @_Option
    def inplace(self) -> bool | str:
        """Return whether there is a method ``name_``; ``"function"`` if there is a function of that name, too."""
        return self.kind == "elementwise"

    @_Option
    def kernel(self) -> str:
        """Return the name of the kernel that the general path calls, which may differ from that of the fast path."""
        return self.name

    @_Option
    def method(self) -> bool | str:
        """Return whether there is a method, or the name of the method if it differs."""
        return "." not in self.path

    @_Option
    def node(self) -> str | Callable[..., str]:
        """Return the name of the operation's nodes.

        It can be a function of the arguments and shapes that its parameters name.
        """
        return camel_case(self.name) + "Backward0"

    @_Option
    def accepts_scalars(self) -> frozenset[int]:
        """Positions of tensors that may be Python numbers instead; declared by name."""
        return frozenset(self.tensors[1:])

    @_Option
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs, for formulas; by default those of the fields."""
        return tuple(self.fields.split()) if self.fields and self.kind != "composite" else ("result",)

    @_Option
    def path(self) -> str:
        """Public path, for example ``"nn.functional.relu"``."""
        return self.name

    @_Option
    def saved(self) -> dict[str, Any] | Callable[[str], dict[str, Any]]:
        """Return the names ``_saved_<name>`` of nodes that PyTorch names otherwise than the declaration does.

        A node shows the values that formulas read, and the settings. ``{"kernel_size": "kernel"}`` renames,
        ``{"size": None}`` hides, ``{"numel": lambda self_shape: prod(self_shape)}`` adds a function of declared names,
        ``{"exponent": 2}`` a constant. A function of the node's name, where nodes of several names differ.
        """
        return {}

    @_Option
    def computes_half_in_float(self) -> bool:
        """Return whether formulas compute float16 and bfloat16 in float32."""
        return not self.view

    # -- properties derived from the declaration, computed on first access -----------------------------------------

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The public signature, without the namespace."""
        return tuple(parameters_of(self.declaration)[self.has_body :])

    @cached_property
    def position(self) -> dict[str, int]:
        """Positions of the parameters, by name."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def sequences(self) -> tuple[int, ...]:
        """Positions of sequences of tensors: none, or that of the first parameter."""
        return (0,) if self.parameters and self.parameters[0].annotation == "Arrays" else ()

    @cached_property
    def tensors(self) -> tuple[int, ...]:
        """Positions of the tensor parameters."""
        positions = tuple(i for i, p in enumerate(self.parameters) if p.annotation is p.empty)
        return (*self.sequences, *positions)

    @cached_property
    def numeric_settings(self) -> tuple[int, ...]:
        """Positions of settings that are numbers to compute with: bounds, factors, exponents."""
        return tuple(i for i, p in enumerate(self.parameters) if p.annotation in ("Number", "Number | None"))

    @cached_property
    def factors(self) -> tuple[int, ...]:
        """Positions of the numbers `alpha` and `beta`, which multiply tensors."""
        return tuple(i for i in self.numeric_settings if self.names[i] in ("alpha", "beta"))

    @cached_property
    def edge_index(self) -> dict[int, int]:
        """Index of the edge that leads to a tensor, keyed by the position of the tensor among the parameters."""
        return {position: i for i, position in enumerate(self.tensors)}

    @cached_property
    def differentiable_inputs(self) -> frozenset[str]:
        """Names of the tensors that have a derivative formula."""
        keys = self.vjps or self.differentials
        return frozenset(name for key in keys for name in ((key,) if isinstance(key, str) else key))

    @cached_property
    def refused_inputs(self) -> frozenset[int]:
        """Positions of tensors that must not require grad: results depend on them, but there is no formula."""
        if self.kind == "composite" or isinstance(self.constant, str):
            return frozenset()
        without = (p for p in self.tensors if self.names[p] not in self.differentiable_inputs | self.constant.keys())
        return frozenset(without) - self.keeps_dtype

    @cached_property
    def indices(self) -> tuple[int, ...]:
        """Positions of tuples of index tensors: never differentiated, raw in kernels, kept unchanged."""
        return tuple(i for i, p in enumerate(self.parameters) if p.annotation == "Indices")

    @cached_property
    def tensor_like(self) -> tuple[int, ...]:
        """Positions of all parameters that hold tensors: single ones, sequences, and tuples of index tensors."""
        return (*self.tensors, *self.indices)

    @cached_property
    def same_dtype_ok(self) -> bool:
        """Whether the kernel takes tensors of one real floating-point dtype unchanged, without promotion."""
        return self.kind == "elementwise" and converts_no_floats(self.promotion)

    @cached_property
    def results_of_dtypes(self) -> dict[dtype, dtype]:
        """The dtype of the result, by the dtype of bools and integers that the kernel takes without promotion."""
        return results_of_dtypes(self) if self.kind == "elementwise" else {}

    @property
    def output_name(self) -> str:
        """The name of `output_type` in `gradcore.return_types`, as PyTorch's: ``linalg_eigh``."""
        return self.path.replace(".", "_")

    @cached_property
    def output_type(self) -> Any:
        """The named tuple of the results; None where there are no fields."""
        return _named_tuple(self.output_name, self.path, self.fields) if self.fields else None

    @cached_property
    def body(self) -> Callable[..., Any] | None:
        """The forward computation on arrays, ``(K, *arguments)``."""
        return _all_positional(self.declaration) if self.has_body else None

    @property
    def call(self) -> Callable[..., Any]:
        """The public function, which is created on first access."""
        function = vars(self).get("_call")
        return function or vars(self).setdefault("_call", self.make())  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<{self.kind} op {self.path}>"

    # -- decorators that add formulas to a declaration -----------------------------------------------------------

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

        product = "vjp" if table is self.vjps else "jvp"

        def declare(function: Callable[..., Any]) -> Callable[..., Any]:
            name = f"{self.name}_{product}_{'_'.join(inputs)}"
            table[inputs[0] if len(inputs) == 1 else inputs] = Formula(function, name)
            return function

        return declare


#: Options that a declaration may have: the attributes of `Op` with default values, and the name.
_OPTIONS = {"name", *Op.__annotations__, *(name for name, value in vars(Op).items() if isinstance(value, _Option))}
_OPTIONS.remove("make")


def camel_case(name: str) -> str:
    """Return an operation's name as it stands in a node's name: ``LogSoftmax`` for ``log_softmax``."""
    return re.sub(r"(^|_|\d)([a-z])", lambda match: match[1].strip("_") + match[2].upper(), name)


def _named_tuple(name: str, path: str, fields: str) -> Any:
    make: Any = namedtuple
    result = make(name, fields, module="gradcore.return_types")
    result.__repr__ = result.__str__ = _format_results
    result.__doc__ = f"Results of `gradcore.{path}`: {', '.join(fields.split())}."
    return result


def _format_results(results: Any) -> str:
    fields = ",\n".join(f"{name}={value!r}" for name, value in zip(results._fields, results, strict=True))
    return f"torch.return_types.{type(results).__name__}(\n{fields})"  # as PyTorch's, like the tensors inside


def _all_positional(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with its keyword-only parameters made positional, as kernels are called."""
    code = function.__code__
    if not code.co_kwonlyargcount:
        return function
    last = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    code = code.replace(co_argcount=code.co_argcount + code.co_kwonlyargcount, co_kwonlyargcount=0)
    defaults = (*(function.__defaults__ or ()), *((function.__kwdefaults__ or {}).get(name) for name in last))
    result = types.FunctionType(code, function.__globals__, function.__name__, defaults, function.__closure__)
    vars(result).update(vars(function))
    return result


def _declare(
    kind: str,
    function: Callable[..., Any],
    options: dict[str, Any],
    formulas: str | None = None,
    first: Callable[..., Any] | None = None,
) -> Op:
    """Add an operation to the table.

    `formulas` is the name of its table of formulas, whose entries are among the options.
    """
    formulas_by_name: dict[str, Any] = {}
    if formulas is not None:
        names = names_of(function)
        formulas_by_name = {name: options[name] for name in names if name in options}
        options = {name: option for name, option in options.items() if name not in formulas_by_name}
        if first is not None:
            formulas_by_name = {names[names[0] in NAMESPACES]: first, **formulas_by_name}
    if kind == "composite" and names_of(function)[:1] == ("K",):
        raise TypeError(f"{function.__name__}: a composite runs on tensors, so its first parameter must be F, not K")
    op = Op(kind, function, **options)
    for name, formula in formulas_by_name.items():
        product = "vjp" if formulas == "vjps" else "jvp"
        getattr(op, formulas or "")[name] = Formula(formula, f"{op.name}_{product}_{name}")
    of_kernel: dict[str, object] = {
        "bodies": op.body,
        "synchronizing": op.data_dependent,
        "declared_batch_rules": op.batch,
        "declared_shape_rules": op.shaped,
        "slow": op.slow,
        "elementwise": op.names if kind == "elementwise" else None,
    }
    entries = [(getattr(Backend, table), op.kernel, value) for table, value in of_kernel.items() if value]
    declare(op.module, op.name, [*entries, (OPS, op.name, op)])
    return op


def elementwise(
    differential: Callable[..., Any] | None = None, /, **options: Any
) -> Callable[[Callable[..., Any]], Op]:
    """Declare an operation whose Jacobian is diagonal (after broadcasting its inputs).

    Parameters
    ----------
    differential : callable, optional
        ``(F, t, ...)`` for the first input; those of further inputs are given by name.
    **options
        See `Op`; `promotion` names the rule for the result's dtype.
    """
    return lambda function: _declare("elementwise", function, options, "differentials", differential)


def linear(adjoint: Callable[..., Any] | None = None, /, **options: Any) -> Callable[[Callable[..., Any]], Op]:
    """Declare an operation that is linear in all tensors with an adjoint together; `adjoint` is that of the first."""
    return lambda function: _declare("linear", function, options, "vjps", adjoint)


def bilinear(**options: Any) -> Callable[[Callable[..., Any]], Op]:
    """Declare an operation that is linear in each tensor that has an adjoint, given by name."""
    return lambda function: _declare("bilinear", function, options, "vjps")


def general(vjp: Callable[..., Any] | None = None, /, **options: Any) -> Callable[[Callable[..., Any]], Op]:
    """Declare an operation with vector-Jacobian products written out (`vjp` for the first input, others by name).

    Forward mode uses the `jvp` formulas where there are any, and else transposes the vector-Jacobian products.
    """
    return lambda function: _declare("general", function, options, "vjps", vjp)


def constant(**options: Any) -> Callable[[Callable[..., Any]], Op]:
    """Declare an operation whose results carry no derivative (comparisons, indices, rounding to integers)."""
    if not isinstance(options.get("constant"), str):
        raise TypeError("constant= has to say why the results carry no derivative")
    return lambda function: _declare("constant", function, {"differentiable": (), **options})


def composite(**options: Any) -> Callable[[Callable[..., Any]], Op]:
    """Declare an operation whose body calls other operations and runs on tensors."""
    return lambda function: _declare("composite", function, options)


def not_implemented(what: str) -> Callable[..., Any]:
    """Return a formula that raises NotImplementedError, for a derivative that does not exist yet."""

    def formula(F: Any, t: Any) -> Any:
        raise NotImplementedError(f"the derivative for '{what}' is not implemented.")

    return formula
