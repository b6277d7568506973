"""Operations that `from_kernel` creates from expressions, CuPy's elementwise kernels or CUDA source."""

from __future__ import annotations

import itertools
import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradcore.backends.base import Backend
from gradcore.backends.codegen.trace import Tracer
from gradcore.backends.cupy.kernels import CudaKernels
from gradcore.backends.vmap import calls
from gradcore.backends.vmap.backend import BatchedBackend
from gradcore.core.tracebacks import generated_file, shorten_errors
from gradcore.kernels.evaluation import check_functions, differential, evaluate
from gradcore.kernels.parsing import Program, Unparsable, parse
from gradcore.kernels.raw import RawKernel
from gradcore.kernels.signatures import read_signature
from gradcore.ops.declare.parameters import Parameter, names_of
from gradcore.ops.declare.table import OPS, Op, elementwise, general
from gradcore.tensor.installation import register_op

__all__ = ["operation"]

_numbers = itertools.count()

#: Settings of declarations: `from_kernel` returns the operation, so that no public function or method is needed.
_HIDDEN = {"function": False, "method": False}


@shorten_errors
def operation(
    forward: Any,
    backward: Any,
    reference: Any,
    name: str | None,
    inputs: Sequence[str] | None,
    of_source: dict[str, Any],
) -> Callable[..., Any]:
    """Create the operation of a kernel, and return the function that calls it; see `from_kernel` for the arguments.

    `of_source` has the arguments that are only allowed for CUDA source; they are None if not given.
    """
    kernel = None if isinstance(forward, str) else forward
    source = forward if kernel is None else getattr(kernel, "code", None)
    unique = f"kernel_{next(_numbers)}_{name or 'kernel'}"
    node = _node_name(name or "kernel")
    if source is not None and (kernel is not None or "__global__" in source):
        signature = read_signature(source, getattr(kernel, "name", None))
        source_settings = {key: value for key, value in of_source.items() if value is not None}
        defaults = source_settings.pop("settings", {})
        return _register(_raw_op(RawKernel(signature, reference, **source_settings), backward, defaults, unique, node))
    source_only = [key for key, value in of_source.items() if value is not None]
    if source_only:
        raise ValueError(f"{', '.join(source_only)}: only for kernels of CUDA source, not for expressions")
    if kernel is None:
        program = _parse(source, None)
        assert program is not None
        _check_outputs(program)
        return _register(_elementwise_op(program, None, backward, reference, inputs or program.reads, unique, node))
    if not hasattr(kernel, "operation"):
        raise ValueError(f"expected an expression, CUDA source or a kernel of CuPy, but got {type(kernel).__name__}")
    if kernel.nout != 1 or any(p.raw for p in kernel.in_params):
        raise ValueError(
            f"the kernel {kernel.name!r} has {kernel.nout} outputs, or raw parameters: only elementwise kernels with "
            "one output are operations; use CUDA source for the others"
        )
    program = _parse(kernel.operation, reference)
    names = [p.name for p in kernel.in_params]
    return _register(_elementwise_op(program, kernel, backward, reference, names, unique, node))


def _node_name(name: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"\W+|_", name)) + "Backward0"


def _register(op: Op) -> Callable[..., Any]:
    """Register an operation, and return the function that calls it."""
    call = register_op(op)
    call.op = op  # type: ignore[attr-defined]
    return call


def _check_outputs(program: Program) -> None:
    """Raise if an expression has more than one output."""
    *earlier, (output, _) = program.assignments
    unread = [
        name
        for i, (name, _) in enumerate(earlier)
        if not any(name in _names(t) for _, t in program.assignments[i + 1 :])
    ]
    if unread:
        raise ValueError(
            f"an expression has one output, its last name ({output}), and nothing reads {', '.join(unread)}: use CUDA "
            "source for several outputs"
        )


def _names(tree: Any) -> set[str]:
    """Return the names in an expression."""
    if tree[0] == "name":
        return {tree[1]}
    return set().union(*(_names(subtree) for subtree in tree[1:] if isinstance(subtree, tuple)))


def _parse(text: Any, reference: Any) -> Program | None:
    """Parse an expression and return its program, or None if that fails and there is a reference to call instead."""
    try:
        program = parse(text)
        check_functions(program)
    except Unparsable as error:
        if reference is not None:
            return None
        raise ValueError(f"{error}; give reference=, a function of NumPy arrays, or use simpler expressions") from None
    return program


# -- elementwise ----------------------------------------------------------------------------------------------------


def _elementwise_op(
    program: Program | None,
    kernel: Any,
    backward: Any,
    reference: Any,
    names: Sequence[str],
    unique: str,
    node: str,
) -> Op:
    """Return an elementwise operation, from an expression, or from a kernel with a reference.

    The reference is an expression or a function.
    """
    if program is not None and set(program.reads) - set(names):
        missing = ", ".join(sorted(set(program.reads) - set(names)))
        raise ValueError(f"the kernel reads {missing}, which is not among its inputs {', '.join(names)}")

    def compute(K: Any, *values: Any) -> Any:
        if isinstance(K, BatchedBackend):
            return calls.call_elementwise(K.level, K.inner.kernels[unique], *values)
        if kernel is not None and isinstance(K, CudaKernels):
            return kernel(*values)
        if reference is not None and (program is None or not isinstance(K, (CudaKernels, Tracer))):
            return reference(*values)
        assert program is not None
        return evaluate(K, program, dict(zip(names, values, strict=True)))

    body = _name_parameters(("K", *names), compute)
    op = elementwise(
        name=unique,
        path=unique,
        node=node,
        promotion="float",
        accepts_scalars=tuple(names),
        inplace=False,
        constant=_constants(backward),
        **_HIDDEN,
    )(body)
    if kernel is not None or program is None:
        Backend.elementwise.pop(unique)  # the kernel itself runs, not one that is generated from its reference
    _check_keys(backward, names)
    for each in names:
        if each not in op.constant:
            op.derivative(each)(_elementwise_formula(program, backward, each, names) or _missing(node, each))
    return op


def _elementwise_formula(program: Program | None, backward: Any, name: str, names: Sequence[str]) -> Any:
    """Return the formula of the differential by the input `name`, or None if there is none."""
    gradient_source = backward
    if isinstance(backward, Mapping):
        gradient_source = backward.get(name)
        if gradient_source is None:
            return None
    elif backward is not None and len(names) > 1:
        raise ValueError(f"the kernel has the inputs {', '.join(names)}: give a dict with a gradient for each")
    if gradient_source is None:
        if program is None:
            return None
        reads = tuple(n for n in names if n in program.reads)
        return _name_parameters(
            ("F", "t", *reads),
            lambda F, t, *values: differential(F, program, dict(zip(reads, values, strict=True)), name, t),
        )
    if not isinstance(gradient_source, str):
        return _formula_of(gradient_source)
    try:
        gradient = parse(gradient_source)
        check_functions(gradient)
    except Unparsable as error:
        raise ValueError(f"backward: {error}; give a formula (F, grad, ...) instead") from None
    output = program.assignments[-1][0] if program is not None else ""
    saved = {n: "result" if n == output else n for n in gradient.reads if n != "grad"}
    unknown = [n for n in saved if n not in names and saved[n] != "result"]
    if unknown:
        raise ValueError(f"backward reads {', '.join(unknown)}, which is neither an input, the output nor grad")

    def formula(F: Any, t: Any, *values: Any) -> Any:
        return evaluate(F, gradient, {"grad": t} | dict(zip(saved, values, strict=True)))

    return _name_parameters(("F", "t", *saved.values()), formula)


# -- source ---------------------------------------------------------------------------------------------------------


def _raw_op(raw: RawKernel, backward: Any, defaults: Mapping[str, Any], unique: str, node: str) -> Op:
    """Declare and return the operation of a kernel that is written in CUDA source."""
    kinds = {"f": "float", "b": "bool", "i": "int", "u": "int", "T": "float", "c": "complex"}
    parameters = [Parameter("K"), *(Parameter(p.name) for p in raw.inputs)]
    for p in raw.settings:
        kind = kinds["T" if p.dtype == "T" else p.dtype[0]]
        parameters.append(Parameter(p.name, defaults.get(p.name, Parameter.empty), kind))

    def body(K: Any, *values: Any) -> Any:
        return raw(K, *values)

    body.__signature__ = parameters  # type: ignore[attr-defined]
    body.__doc__ = f"Run the CUDA kernel `{raw.name}`."
    several = len(raw.outputs) > 1
    outputs = tuple(p.name for p in raw.outputs) if several else ("result",)
    op = general(
        name=unique,
        path=unique,
        node=node,
        outputs=outputs,
        constant=_constants(backward),
        computes_half_in_float=any(p.dtype == "T" for p in raw.inputs),
        **_HIDDEN,
    )(body)
    names = [p.name for p in raw.inputs]
    if backward is not None and not isinstance(backward, Mapping):
        backward = {names[0] if len(names) == 1 else tuple(names): backward}
    _check_keys(backward, names)
    covered: set[str] = set()
    for key, gradient in (backward or {}).items():
        if isinstance(gradient, str):
            raise ValueError(
                "backward: expressions are for elementwise kernels; give a formula (F, grad, ...) or a kernel"
            )
        keys = (key,) if isinstance(key, str) else tuple(key)
        covered.update(keys)
        if gradient is None:
            continue
        op.vjp(*keys)(_formula_of(gradient) if len(keys) == 1 else _one_for_each(_formula_of(gradient), keys))
    for each in names:
        if each not in covered:
            op.vjp(each)(_missing(raw.name, each))
    return op


def _constants(backward: Any) -> dict[str, str]:
    """Return the inputs whose gradient was given as None, with the reason why they have no gradient."""
    keys = backward if isinstance(backward, Mapping) else {}
    return {name: "its gradient was given as None" for name, gradient in keys.items() if gradient is None}


def _check_keys(backward: Any, names: Sequence[str]) -> None:
    """Raise if there is a gradient for something that is not an input."""
    keys = backward if isinstance(backward, Mapping) else ()
    unknown = [n for key in keys for n in ((key,) if isinstance(key, str) else key) if n not in names]
    if unknown:
        raise ValueError(f"backward: {', '.join(unknown)} is not among the kernel's inputs {', '.join(names)}")


def _missing(node: str, name: str) -> Callable[..., Any]:
    """Return a formula that raises an error, because no derivative with respect to `name` was given."""

    def raising(F: Any, grad: Any) -> Any:
        raise RuntimeError(
            f"{node}: the kernel has no derivative with respect to '{name}'. Give it by backward= of from_kernel, or "
            "call the kernel with a tensor that does not require grad (tensor.detach())."
        )

    return raising


def _one_for_each(formula: Callable[..., Any], keys: tuple[str, ...]) -> Callable[..., Any]:
    """Wrap a formula of several gradients to check that it returns one for each of `keys`."""

    def wrapper(*values: Any) -> Any:
        result = formula(*values)
        if not isinstance(result, (tuple, list)) or len(result) != len(keys):
            actual = len(result) if isinstance(result, (tuple, list)) else type(result).__name__
            raise RuntimeError(
                f"backward of {', '.join(keys)}: expected a tuple of {len(keys)} gradients, but got {actual}"
            )
        return result

    return _name_parameters(names_of(formula), wrapper)


def _formula_of(function: Any) -> Callable[..., Any]:
    """Return a gradient formula for a function, or for an operation that another kernel computes.

    The parameters of the formula are ``F``, ``grad`` and the names of the values that it reads.
    """
    kernel_op = getattr(function, "op", None)
    if not isinstance(kernel_op, Op) or OPS.get(kernel_op.name) is not kernel_op:
        return function  # type: ignore[no-any-return]
    if "grad" not in kernel_op.names:
        raise ValueError(f"the kernel for the gradient has no input named grad: {', '.join(kernel_op.names)}")
    reads = tuple(n for n in kernel_op.names if n != "grad")
    key = kernel_op.name

    def formula(F: Any, grad: Any, *values: Any) -> Any:
        named_values = {"grad": grad} | dict(zip(reads, values, strict=True))
        return getattr(F, key)(*[named_values[n] for n in kernel_op.names])

    return _name_parameters(("F", "grad", *reads), formula)


def _name_parameters(names: Sequence[str], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a wrapper of `function` whose parameters are called `names`, because formulas receive values by name."""
    for each in names:
        if not each.isidentifier() or keyword.iskeyword(each) or names.count(each) > 1:
            raise ValueError(f"an operand cannot be named {each!r}")
    listed = ", ".join(names)
    text = f"lambda {listed}: _function({listed})"
    code = compile(text, generated_file(__name__, text), "eval")
    result: Callable[..., Any] = eval(code, {"_function": function})
    return result
