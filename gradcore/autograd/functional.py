"""Jacobians and Hessians of functions of tensors, and their products with vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradcore import functional
from gradcore.autograd.batch_dims import BatchBackward0, basis, map_samples
from gradcore.autograd.grad_mode import enable_grad
from gradcore.autograd.gradients import grad
from gradcore.autograd.jacobians import unit
from gradcore.autograd.modes import local
from gradcore.autograd.node import AccumulateGrad
from gradcore.autograd.op_node import OpNode
from gradcore.autograd.variables import Variable
from gradcore.autograd.views import gradient_edge, requires_grad
from gradcore.torch_names import paths

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = tuple[Any, ...]


# -- arguments and results ------------------------------------------------------------------------------------------


def _tensors(value: Any, what: str, where: str) -> tuple[bool, Tensors]:
    """Return ``(is_tuple, tensors)`` for `value`, a tensor or a tuple of tensors; raise for anything else."""
    is_tuple = isinstance(value, tuple)
    tensors = value if is_tuple else (value,)
    for i, t in enumerate(tensors):
        if not isinstance(t, Variable):
            subject = f"value at index {i}" if is_tuple else f"given {what}"
            raise TypeError(
                f"The {what} given to {where} must be either a Tensor or a tuple of Tensors but the {subject} has type "
                f"{type(t)}."
            )
    return is_tuple, tensors


def _inputs(tensors: Tensors, create_graph: bool) -> Tensors:
    """Return the arguments as inputs of a new graph: as views if ``create_graph=True``, else as detached leaves."""
    if local.state.transforms and not create_graph:
        raise RuntimeError(
            "You are attempting to call Tensor.requires_grad_() (or perhaps using autograd.functional.* APIs) inside "
            "of a function being transformed by a functorch transform. This is unsupported, please attempt to use the "
            "transforms of func (e.g. grad, vjp, jacrev, jacfwd, hessian), or pass create_graph=True. Without it, the "
            "result has no derivative."
        )
    return tuple(
        functional.view_as(t, t) if create_graph and requires_grad(t) else t.detach().requires_grad_() for t in tensors
    )


def _results(tensors: Sequence[Any], several: bool, create_graph: bool) -> Any:
    result = tuple(t if create_graph else t.detach() for t in tensors)
    return result if several else result[0]


def _vector(v: Any, like: Tensors, several: bool, where: str, missing: str) -> Tensors:
    """Return `v` as a tuple of tensors with the shapes of `like`. None stands for ones, for a single element only."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if {missing} a single Tensor with a single element.")
        return (functional.ones_like(like[0]),)
    _, vs = _tensors(v, "v", where)
    if len(vs) != len(like):
        if several:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(vs)}.")
        raise RuntimeError("The given v should contain a single Tensor.")
    for i, (vector, t) in enumerate(zip(vs, like, strict=True)):
        if vector.shape != t.shape:
            entry = f"Entry {i} in " if several else ""
            raise RuntimeError(f"{entry}v has invalid size: should be {t.size()} but got {vector.size()}.")
    return vs


def _check_outputs(outputs: Tensors, strict: bool) -> None:
    for i, out in enumerate(outputs):
        if strict and not requires_grad(out):
            raise RuntimeError(
                f"Output {i} of the user-provided function does not require gradients. The outputs must be computed in "
                "a differentiable manner from the input when running in strict mode."
            )


def _scalar(outputs: Tensors, several: bool, where: str) -> None:
    if several:
        raise RuntimeError(f"The function given to {where} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {where} should contain a single element")


def _compute_vjp(
    outputs: Sequence[Any], inputs: Tensors, v: Sequence[Any] | None, create_graph: bool, retain: bool | None = None
) -> list[Any]:
    """Return the vector-Jacobian product for each input, or None for an input on which no output depends."""
    pairs = [
        (out, None if v is None else v[i]) for i, out in enumerate(outputs) if out is not None and requires_grad(out)
    ]
    if not pairs:
        return [None] * len(inputs)
    outs, vs = zip(*pairs, strict=True)
    return list(grad(outs, inputs, vs, retain_graph=retain, create_graph=create_graph, allow_unused=True))


def _fill_missing(
    gradients: Sequence[Any], like: Tensors, strict: bool, create_graph: bool, what: str, derivative: str = ""
) -> list[Any]:
    """Return `gradients` with zeros in place of None.

    In strict mode, raise for None, and with ``create_graph=True`` also for a gradient that requires no grad.
    """
    for i, t in enumerate(gradients):
        if strict and t is None:
            missing = (
                what if "{i}" in what else what + " is independent of input {i}. This is not allowed in strict mode."
            )
            raise RuntimeError(missing.format(i=i))
        if strict and create_graph and not requires_grad(t):
            raise RuntimeError(
                f"{derivative} is independent of input {i}. This is not allowed in strict mode when create_graph=True."
            )
    return [functional.zeros_like(ref) if t is None else t for t, ref in zip(gradients, like, strict=True)]


def _check_gradient(gradients: Sequence[Any], strict: bool) -> None:
    for i, g in enumerate(gradients):
        if strict and not requires_grad(g):
            raise RuntimeError(
                f"While computing the hessian, found that the jacobian of the user-provided function with respect to "
                f"input {i} is independent of the input. This is not allowed in strict mode. You should ensure that "
                "your function is twice differentiable and that the jacobian depends on the inputs (this would be "
                "violated by a linear function for example)."
            )


OUTPUT = "The output of the user-provided function"
JACOBIAN = "The jacobian of the user-provided function"
HESSIAN = "The hessian of the user-provided function"
BACK_TRICK = (
    "The gradient with respect to the input is independent of entry {i} in the grad_outputs when using the double "
    "backward trick to compute forward mode gradients. This is not allowed in strict mode."
)
DOUBLE_BACK_TRICK = (
    "The hessian of the user-provided function is independent of entry {i} in the grad_jacobian. This is not allowed "
    "in strict mode as it prevents from using the double backward trick to replace forward mode AD."
)


# -- products with vectors ------------------------------------------------------------------------------------------


def vjp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return the vector-Jacobian product: `v` times the Jacobian of `func`.

    Parameters
    ----------
    func : callable
        Takes tensors and returns a tensor or a tuple of tensors.
    inputs : Tensor or tuple of Tensor
        Where to differentiate.
    v : Tensor or tuple of Tensor, optional
        Has the shapes of the outputs. May be left out for a single output of one element.
    create_graph : bool
        Whether the results can be differentiated further.
    strict : bool
        Whether an input that no output depends on is an error (the result is zero otherwise).

    Returns
    -------
    tuple
        ``(outputs, products)``; the products have the shapes of `inputs`.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.tensor([1.0, 2.0])
    >>> gradcore.autograd.functional.vjp(lambda x: x * x, x, gradcore.tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    with enable_grad():
        is_tuple, ins = _tensors(inputs, "inputs", "vjp")
        ins = _inputs(ins, create_graph)
        several_outs, outs = _tensors(func(*ins), "outputs of the user-provided function", "vjp")
        _check_outputs(outs, strict)
        v = _vector(v, outs, several_outs, "vjp", "the user-provided function returns")
        products = _fill_missing(_compute_vjp(outs, ins, v, create_graph), ins, strict, create_graph, OUTPUT, JACOBIAN)
    return _results(outs, several_outs, create_graph), _results(products, is_tuple, create_graph)


def jvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return the Jacobian-vector product: the Jacobian of `func` times `v`, from two backward passes.

    `gradcore.func.jvp` computes it in forward mode, which costs less.

    Parameters
    ----------
    func : callable
        Takes tensors and returns a tensor or a tuple of tensors.
    inputs : Tensor or tuple of Tensor
        Where to differentiate.
    v : Tensor or tuple of Tensor, optional
        Has the shapes of `inputs`. May be left out for a single input of one element.
    create_graph : bool
        Whether the results can be differentiated further.
    strict : bool
        Whether an output that does not depend on the inputs is an error (the result is zero otherwise).

    Returns
    -------
    tuple
        ``(outputs, products)``; the products have the shapes of the outputs.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.tensor([1.0, 2.0])
    >>> gradcore.autograd.functional.jvp(lambda x: (x * x).sum(), x, gradcore.tensor([1.0, 10.0]))
    (tensor(5.), tensor(42.))
    """
    with enable_grad():
        is_tuple, ins = _tensors(inputs, "inputs", "jvp")
        v = _vector(v, ins, is_tuple, "jvp", "the input to the user-provided function is")
        ins = _inputs(ins, create_graph)
        several_outs, outs = _tensors(func(*ins), "outputs of the user-provided function", "jvp")
        _check_outputs(outs, strict)
        upstream = tuple(functional.zeros_like(out).requires_grad_() for out in outs)
        pulled = _compute_vjp(outs, ins, upstream, True)
        _fill_missing(pulled, ins, strict, False, OUTPUT)
        products = _fill_missing(
            _compute_vjp(pulled, upstream, v, create_graph), outs, strict, create_graph, BACK_TRICK, JACOBIAN
        )
    return _results(outs, several_outs, create_graph), _results(products, several_outs, create_graph)


def vhp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return the product of `v` with the Hessian of a scalar function.

    Parameters
    ----------
    func : callable
        Takes tensors and returns a tensor of one element.
    inputs : Tensor or tuple of Tensor
        Where to differentiate.
    v : Tensor or tuple of Tensor, optional
        Has the shapes of `inputs`. May be left out for a single input of one element.
    create_graph : bool
        Whether the results can be differentiated further.
    strict : bool
        Whether an input that the derivative does not depend on is an error (the result is zero otherwise).

    Returns
    -------
    tuple
        ``(output, products)``; the products have the shapes of `inputs`.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.tensor([1.0, 2.0])
    >>> gradcore.autograd.functional.vhp(lambda x: (x**3).sum(), x, gradcore.tensor([1.0, 10.0]))
    (tensor(9.), tensor([  6., 120.]))
    """
    return _second(func, inputs, v, create_graph, strict, "vhp", backwards=True)


def hvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return the product of the Hessian of a scalar function with `v`.

    If all derivatives are gradcore's own, the matrix is symmetric and `vhp` is computed. If not, or if `strict`, one
    more backward is needed.

    Parameters
    ----------
    func, inputs, v, create_graph, strict
        As for `vhp`.

    Returns
    -------
    tuple
        ``(output, products)``; the products have the shapes of `inputs`.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.tensor([1.0, 2.0])
    >>> gradcore.autograd.functional.hvp(lambda x: (x**3).sum(), x, gradcore.tensor([1.0, 10.0]))
    (tensor(9.), tensor([  6., 120.]))
    """
    return _second(func, inputs, v, create_graph, strict, "hvp", backwards=False)


def _second(
    func: Callable[..., Any], inputs: Any, v: Any, create_graph: bool, strict: bool, where: str, *, backwards: bool
) -> Any:
    with enable_grad():
        is_tuple, ins = _tensors(inputs, "inputs", where)
        v = _vector(v, ins, is_tuple, where, "the input to the user-provided function is")
        ins = _inputs(ins, create_graph)
        several_outs, outs = _tensors(func(*ins), "outputs of the user-provided function", where)
        _check_outputs(outs, strict)
        _scalar(outs, several_outs, where)
        gradient = _fill_missing(_compute_vjp(outs, ins, None, True), ins, strict, False, OUTPUT)
        _check_gradient(gradient, strict)
        if backwards or (not strict and _is_symmetric(outs, ins)):
            products = _fill_missing(
                _compute_vjp(gradient, ins, v, create_graph), ins, strict, create_graph, JACOBIAN, HESSIAN
            )
        else:
            upstream = tuple(functional.zeros_like(t).requires_grad_() for t in ins)
            pulled = _compute_vjp(gradient, ins, upstream, True)
            _fill_missing(pulled, ins, strict, False, JACOBIAN)
            products = _compute_vjp(pulled, upstream, v, create_graph)
            products = _fill_missing(products, ins, strict, create_graph, DOUBLE_BACK_TRICK, HESSIAN)
    return _results(outs, several_outs, create_graph), _results(products, is_tuple, create_graph)


def _is_symmetric(outs: Tensors, ins: Tensors) -> bool:
    """Return whether the Hessian is known to be symmetric: inputs are real, and no derivative is user-defined."""
    return not any(t._dtype.is_complex for t in ins) and _runs_unseen(outs)


# -- matrices -------------------------------------------------------------------------------------------------------


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Return the Jacobian of `func`.

    Parameters
    ----------
    func : callable
        Takes tensors and returns a tensor or a tuple of tensors.
    inputs : Tensor or tuple of Tensor
        Where to differentiate.
    create_graph : bool
        Whether the result can be differentiated further.
    strict : bool
        Whether an input that an output does not depend on is an error (the block is zero otherwise).
    vectorize : bool
        Whether to compute all rows or columns at once, whatever the graph contains. If False, several rows are computed
        at a time, but one by one if the graph has hooks or custom functions, which would see the batch.
    strategy : {"reverse-mode", "forward-mode"}
        Row by row (for few outputs), or column by column (for few inputs).

    Returns
    -------
    Tensor or tuple
        A tensor of shape ``output.shape + input.shape``; for several inputs a tuple of them, for several outputs a
        tuple of those.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.autograd.functional.jacobian(lambda x: x * x, gradcore.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs '
            'than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        refused: Any = (("create_graph", create_graph, NotImplementedError), ("strict", strict, RuntimeError))
        for name, value, error in refused:
            if value:
                raise error(
                    f'gradcore.autograd.functional.jacobian: `{name}=True` and `strategy="forward-mode"` are not '
                    f'supported together (yet). Please either set `{name}=False` or `strategy="reverse-mode"`.'
                )
        return _forward_jacobian(func, inputs)
    with enable_grad():
        is_tuple, ins = _tensors(inputs, "inputs", "jacobian")
        ins = _inputs(ins, create_graph)
        several_outs, outs = _tensors(func(*ins), "outputs of the user-provided function", "jacobian")
        _check_outputs(outs, strict)
        step = None if vectorize else _ROWS if _runs_unseen(outs) else 1
        blocks = tuple(_rows(out, i, ins, strict, create_graph, step) for i, out in enumerate(outs))
    blocks = tuple(_results(block, is_tuple, create_graph) for block in blocks)
    return blocks if several_outs else blocks[0]


#: The number of Jacobian rows computed at a time. More rows cost memory and save little time.
_ROWS = 64


def _rows(out: Any, number: int, ins: Tensors, strict: bool, create_graph: bool, step: int | None) -> list[Any]:
    """Return the blocks of the Jacobian for one output, `step` rows at a time (all by default)."""
    subject = f"Output {number} of the user-provided function"
    count = out.numel()
    step = 1 if count == 1 else step

    def pull(*row: Any) -> Sequence[Any]:
        return _fill_missing(
            _compute_vjp([out], ins, row, create_graph, True), ins, strict, create_graph, subject, JACOBIAN
        )

    chunks = []
    for start in range(0, count, step or max(count, 1)):
        stop = min(start + (step or count), count)
        if step == 1:
            chunks.append([functional.unsqueeze(t, 0) for t in pull(unit(out, start))])
        else:
            chunks.append(map_samples(pull, [basis(out, start, stop)], stop - start))
    return [
        functional.reshape(functional.cat([chunk[k] for chunk in chunks]), (*out.shape, *t.shape))
        if chunks
        else functional.new_zeros(t, (*out.shape, *t.shape))
        for k, t in enumerate(ins)
    ]


def _runs_unseen(outs: Tensors) -> bool:
    """Return whether backward from `outs` runs only declared operations, without hooks that could see gradients."""
    stack = list({edge[0] for edge in map(gradient_edge, outs) if edge is not None})
    seen = set(stack)
    while stack:
        node = stack.pop()
        if node._hooks is not None or (isinstance(node, AccumulateGrad) and node.variable._autograd.hooks):
            return False
        if not isinstance(node, (AccumulateGrad, OpNode, BatchBackward0)):
            return False
        for edge in node._edges:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                stack.append(edge[0])
    return True


def _forward_jacobian(func: Callable[..., Any], inputs: Any) -> Any:
    from gradcore.func import jacfwd  # `gradcore.func` imports this package.

    is_tuple, ins = _tensors(inputs, "inputs", "jacobian")
    with enable_grad():
        detached = [t.detach() for t in ins]
        blocks = jacfwd(func, tuple(range(len(ins))))(*detached)
    several_outs = isinstance(blocks[0], tuple)
    result = tuple(_results(block, is_tuple, False) for block in (blocks if several_outs else (blocks,)))
    return result if several_outs else result[0]


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Return the matrix of second derivatives of a scalar function.

    Parameters
    ----------
    func : callable
        Takes tensors and returns a tensor of one element.
    inputs : Tensor or tuple of Tensor
        Where to differentiate.
    create_graph : bool
        Whether the result can be differentiated further.
    strict : bool
        Whether an input that the derivative does not depend on is an error (the block is zero otherwise).
    vectorize : bool
        As in `jacobian`.
    outer_jacobian_strategy : {"reverse-mode", "forward-mode"}
        How to differentiate the gradient.

    Returns
    -------
    Tensor or tuple
        For one input a tensor of shape ``input.shape + input.shape``; for several a tuple of tuples of tensors.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.autograd.functional.hessian(lambda x: (x**3).sum(), gradcore.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    is_tuple, ins = _tensors(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def scalar(*args: Any) -> Any:
        several_outs, outs = _tensors(func(*args), "outputs of the user-provided function", "hessian")
        _check_outputs(outs, strict)
        _scalar(outs, several_outs, "hessian")
        return functional.reshape(outs[0], ())

    def gradient(*args: Any) -> Any:
        if outer_jacobian_strategy == "forward-mode":
            args = tuple(t.requires_grad_() for t in args)
        result = jacobian(scalar, args, create_graph=True)
        _check_gradient(result, strict)
        return result

    blocks = jacobian(gradient, ins, create_graph, strict, vectorize, outer_jacobian_strategy)
    return blocks if is_tuple else blocks[0][0]


paths.show_public(__name__)
