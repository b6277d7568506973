"""`backward` and `grad`: the doors to the engine."""

from __future__ import annotations

from typing import Any

from gradcore.autograd.engine import keep, run_backward
from gradcore.autograd.formulas import TENSORS
from gradcore.autograd.nodes import Node, gradient_edge
from gradcore.autograd.variables import Variable, wrap

__all__ = ["backward", "grad"]

Tensors = Any


def _tuple(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, Variable) or value is None else tuple(value)


def _edge_of(t: Any, what: str, i: int) -> tuple[Node, int]:
    if not isinstance(t, Variable):
        node = getattr(t, "node", None)  # a GradientEdge
        if isinstance(node, Node):
            return node, t.output_nr
        raise TypeError(f"element {i} of {what} must be a Tensor, but got {type(t).__name__}")
    edge = gradient_edge(t)
    if edge is None:
        raise RuntimeError(f"element {i} of {what} does not require grad and does not have a grad_fn")
    return edge


def _roots(outputs: tuple[Any, ...], grads: tuple[Any, ...], create_graph: bool) -> list[tuple[Node, int, Any]]:
    """The nodes to start from, with checked gradients; ones for outputs of one element that have none."""
    if len(grads) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(grads)} gradients")
    roots = []
    for i, (output, grad) in enumerate(zip(outputs, grads, strict=True)):
        edge = _edge_of(output, "tensors", i)
        if grad is None:
            if not isinstance(output, Variable):
                raise RuntimeError(
                    "grad can be implicitly created only for scalar outputs: give one for a GradientEdge"
                )
            if output._array.size != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            if output._dtype.is_complex:
                raise RuntimeError(
                    "grad can be implicitly created only for real scalar outputs but got " + repr(output._dtype)
                )
            grad = _one(output)
        elif not isinstance(grad, Variable):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(grad).__name__}")
        elif isinstance(output, Variable):
            grad = _checked(output, grad, i)
        roots.append((*edge, grad))
    return roots


def _one(output: Any) -> Any:
    """The gradient of an output of one element with respect to itself."""
    device, array = output._device, output._array
    if device.guarded:
        with device.backend.use_index(device.index):
            ones = device.backend.xp.ones(array.shape, array.dtype)
    else:
        ones = device.backend.xp.ones(array.shape, array.dtype)
    return wrap(ones, device, output._dtype)


def _checked(output: Any, grad: Any, i: int) -> Any:
    if grad._array.shape != output._array.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{i}] has a shape of {_size(grad)} and output[{i}] has a shape of "
            f"{_size(output)}."
        )
    if output._dtype.is_complex != grad._dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
            f"grad_output[{i}] has a dtype of {grad._dtype!r} and output[{i}] has a dtype of {output._dtype!r}."
        )
    if grad._device.real is not output._device.real:
        raise RuntimeError(
            f"grad_output[{i}] lies on {grad._device} and output[{i}] on {output._device}; move it with .to()"
        )
    return grad if grad._dtype is output._dtype else TENSORS.to(grad, output._dtype)


def _size(t: Any) -> str:
    return f"torch.Size({list(t._array.shape)})"


def backward(
    tensors: Tensors,
    grad_tensors: Tensors = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Tensors = None,
    inputs: Tensors = None,
) -> None:
    """Compute the gradients of the leaves that `tensors` depend on and add them to ``.grad``.

    Parameters
    ----------
    tensors : Tensor, GradientEdge or sequence of them
        What to differentiate.
    grad_tensors : Tensor or sequence of Tensor or None, optional
        Upstream gradients (the vector of the vector-Jacobian product), with the shapes of `tensors`. None stands
        for ones and is allowed for tensors of one element.
    retain_graph : bool, optional
        Whether to keep what the graph has saved, for another backward; by default if `create_graph`.
    create_graph : bool
        Whether to record backward itself, for higher-order derivatives.
    inputs : Tensor or sequence of Tensor, optional
        Accumulate only into these.

    Raises
    ------
    RuntimeError
        If a tensor does not require grad, if a gradient is missing or has the wrong shape, or if the graph has been
        freed by an earlier backward.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.tensor([1.0, 2.0], requires_grad=True)
    >>> gradcore.autograd.backward(x * x, gradcore.tensor([1.0, 10.0]))
    >>> x.grad
    tensor([ 2., 40.])
    """
    if grad_tensors is None and inputs is None and grad_variables is None and isinstance(tensors, Variable):
        retain = create_graph if retain_graph is None else retain_graph
        run_backward(_roots((tensors,), (None,), create_graph), retain_graph=retain, create_graph=create_graph)
        return
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError("`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`")
        grad_tensors = grad_variables
    outputs = tuple(tensors) if isinstance(tensors, (list, tuple)) and not hasattr(tensors, "node") else (tensors,)
    grads = (None,) * len(outputs) if grad_tensors is None else _tuple(grad_tensors)
    captures: dict[Node, list[tuple[int, int]]] | None = None
    wanted: tuple[Any, ...] = ()
    if inputs is not None:
        wanted = (inputs,) if isinstance(inputs, Variable) or hasattr(inputs, "node") else tuple(inputs)
        if not wanted:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        captures = {}
        for i, t in enumerate(wanted):
            node, number = _edge_of(t, "inputs", i)
            captures.setdefault(node, []).append((number, i))
    found = run_backward(
        _roots(outputs, grads, create_graph),
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        captures=captures,
    )
    for i, t in enumerate(wanted):
        if isinstance(t, Variable) and not t.is_leaf and not t.retains_grad and found.get(i) is not None:  # type: ignore[attr-defined]
            keep(t, found[i])


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Tensors = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of `outputs` with respect to `inputs`; ``.grad`` stays as it is.

    Parameters
    ----------
    outputs, inputs : Tensor or sequence of Tensor
        What to differentiate, and with respect to what.
    grad_outputs : Tensor or sequence of Tensor or None, optional
        Upstream gradients, as in `backward`.
    retain_graph, create_graph : bool
        As in `backward`.
    allow_unused : bool, optional
        Whether inputs that `outputs` do not depend on are allowed (their gradient is None). By default as
        `materialize_grads`.
    is_grads_batched : bool
        Whether `grad_outputs` have a leading batch dim, one vector-Jacobian product for each entry; so have the
        results.
    materialize_grads : bool
        Whether gradients that would be None are zeros.

    Returns
    -------
    tuple of Tensor or None

    Raises
    ------
    RuntimeError
        As `backward`, and if an input was not used and that is not allowed.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.tensor(3.0, requires_grad=True)
    >>> (dy,) = gradcore.autograd.grad(x**3, x, create_graph=True)
    >>> gradcore.autograd.grad(dy, x)
    (tensor(18.),)
    """
    outs, ins = _tuple_of_edges(outputs), _tuple_of_edges(inputs)
    if not ins:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    if materialize_grads:
        if allow_unused is False:
            raise ValueError(
                "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
                "allow_unused=False."
            )
        allow_unused = True
    grads = (None,) * len(outs) if grad_outputs is None else _tuple(grad_outputs)
    if is_grads_batched:
        return _batched(outs, ins, grads, retain_graph, create_graph, allow_unused, materialize_grads)
    captures: dict[Node, list[tuple[int, int]]] = {}
    for i, t in enumerate(ins):
        if isinstance(t, Variable) and gradient_edge(t) is None:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
        node, number = _edge_of(t, "inputs", i)
        captures.setdefault(node, []).append((number, i))
    found = run_backward(
        _roots(outs, grads, create_graph),
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        captures=captures,
        accumulate=False,
    )
    results = [found.get(i) for i in range(len(ins))]
    for i, g in enumerate(results):
        if g is None and not allow_unused:
            raise RuntimeError(
                f"The differentiated Tensor at index {i} appears to not have been used in the graph. Set "
                "allow_unused=True if this is the desired behavior."
            )
    if materialize_grads:
        results = [TENSORS.zeros_like(t) if g is None else g for t, g in zip(ins, results, strict=True)]
    return tuple(results)


def _tuple_of_edges(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, Variable) or hasattr(value, "node") else tuple(value)


def _batched(
    outs: tuple[Any, ...],
    ins: tuple[Any, ...],
    grads: tuple[Any, ...],
    retain: bool | None,
    create: bool,
    allow_unused: bool | None,
    materialize: bool,
) -> tuple[Any, ...]:
    sizes = {len(g) for g in grads if g is not None}
    if len(sizes) != 1:
        raise RuntimeError("is_grads_batched=True needs grad_outputs that share the size of their first dim")
    n = sizes.pop()
    keep = create if retain is None else retain
    rows = [
        grad(
            outs, ins, [None if g is None else g[k] for g in grads], keep or k < n - 1, create, True, allow_unused,
            False, materialize,
        )
        for k in range(n)
    ]  # fmt: skip
    return tuple(None if column[0] is None else TENSORS.stack(list(column)) for column in zip(*rows, strict=True))
