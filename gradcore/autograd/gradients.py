"""`backward` and `grad`, the public interface of the engine, and the roots that they pass to it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from gradcore import functional
from gradcore.autograd import variables
from gradcore.autograd.batch_dims import map_samples
from gradcore.autograd.engine import final_callbacks, run_backward
from gradcore.autograd.modes import TORCH_FUNCTION_MODE, local
from gradcore.autograd.node import Node
from gradcore.autograd.variables import Variable
from gradcore.autograd.views import gradient_edge
from gradcore.core.errors import raise_if_out_of_memory, warn_once
from gradcore.core.typing import AnyTensor

__all__ = ["ExecutionEngine", "backward", "grad"]

if TYPE_CHECKING:
    from gradcore.tensor import Tensor

_Key = TypeVar("_Key")
Tensors = Any


def _tuple(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, Variable) or value is None else tuple(value)


def _takers(*args: Any) -> list[Any] | None:
    """Return the arguments that override ``__torch_function__``, or None if neither they nor a mode handle the call.

    The list is empty if only a mode handles it. A mode with `sees_formulas` observes the operations inside the call
    instead of the call.
    """
    state = local.state
    watching = state.mode & TORCH_FUNCTION_MODE and not getattr(state.functions[-1], "sees_formulas", False)
    if not watching and not variables.subclasses_used:
        return None
    results: list[Any] = variables.overloaded_args(args)
    return results if results or watching else None


class ExecutionEngine:
    """The type of ``Variable._execution_engine``, PyTorch's interface to the engine."""

    def queue_callback(self, callback: Callable[[], Any]) -> None:
        """Call ``callback()`` at the end of the running backward.

        Raises
        ------
        RuntimeError
            If no backward is running in this thread.
        """
        task = local.state.task
        if task is None:
            raise RuntimeError("Final callbacks can only be installed during backward pass.")
        task.local_data.setdefault(final_callbacks, []).append(callback)


Variable._execution_engine = ExecutionEngine()


#: The warning about ``create_graph=True``.
_CYCLES = (
    "Using backward() with create_graph=True will create a reference cycle between the parameter and its "
    "gradient which can cause a memory leak. We recommend using autograd.grad when creating the graph to "
    "avoid this. If you have to use this function, make sure to reset the .grad fields of your parameters to "
    "None after use to break the cycle and avoid the leak."
)


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
        The outputs to differentiate.
    grad_tensors : Tensor or sequence of Tensor or None, optional
        Upstream gradients (the vector of the vector-Jacobian product), with the shapes of `tensors`. None stands
        for ones and is allowed for tensors of one element.
    retain_graph : bool, optional
        Whether to keep the saved tensors of the graph for another backward. Defaults to `create_graph`.
    create_graph : bool
        Whether to record backward itself, for higher-order derivatives.
    grad_variables
        The former name of `grad_tensors`.
    inputs : Tensor, GradientEdge, or sequence or dict of them, optional
        The tensors whose gradients are accumulated, instead of all leaves.

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
    state = local.state
    if state.transforms:
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use func.grad or func.vjp "
            "instead or call backward() outside of functorch transforms."
        )
    intercepted = variables.subclasses_used or state.mode & TORCH_FUNCTION_MODE
    if intercepted and (takers := _takers(tensors, inputs)) is not None:
        settings = {
            "grad_tensors": grad_tensors, "retain_graph": retain_graph, "create_graph": create_graph, "inputs": inputs
        }  # fmt: skip
        variables.handle_torch_function(backward, takers, (tensors,), settings)
        return
    if create_graph:
        warn_once(_CYCLES)
    if grad_tensors is None and inputs is None and grad_variables is None and isinstance(tensors, Variable):
        retain = create_graph if retain_graph is None else retain_graph
        run_backward((root_of(tensors),), retain_graph=retain, create_graph=create_graph)
        return
    if grad_variables is not None:
        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. Please only "
                "use `grad_tensors`."
            )
        grad_tensors = grad_variables
    outputs = edges_of(tensors)
    grads = (None,) * len(outputs) if grad_tensors is None else _tuple(grad_tensors)
    captures: dict[Node, list[tuple[int, int]]] | None = None
    if inputs is not None:
        edges = edges_of(inputs.values() if isinstance(inputs, dict) else inputs)
        if not edges:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        captures = {}
        for t in edges:
            captures[edge_of(t, "can't retain_grad on Tensor that has requires_grad=False")[0]] = []
            if isinstance(t, Variable):
                t.retain_grad()  # type: ignore[attr-defined]
    run_backward(
        roots_of(outputs, grads),
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        captures=captures,
    )


@overload
def grad(
    outputs: Tensors,
    inputs: dict[_Key, Any],
    grad_outputs: Tensors = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> dict[_Key, Tensor]: ...
@overload
def grad(
    outputs: Tensors,
    inputs: Tensor | Sequence[Tensor] | Any,
    grad_outputs: Tensors = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    *,
    allow_unused: Literal[True],
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]: ...
@overload
def grad(
    outputs: Tensors,
    inputs: Tensor | Sequence[Tensor] | Any,
    grad_outputs: Tensors = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: Literal[False] | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]: ...
@overload
def grad(
    outputs: Tensors,
    inputs: Tensor | Sequence[Tensor] | Any,
    grad_outputs: Tensors = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any: ...
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
) -> Any:
    """Return the gradients of `outputs` with respect to `inputs`, without a change of ``.grad``.

    Parameters
    ----------
    outputs : Tensor, GradientEdge or sequence of them
        The outputs to differentiate.
    inputs : Tensor, GradientEdge, or sequence or dict of them
        The tensors with respect to which to differentiate.
    grad_outputs : Tensor or sequence of Tensor or None, optional
        Upstream gradients, as in `backward`.
    retain_graph, create_graph : bool
        As in `backward`.
    only_inputs : bool
        Ignored: gradients are computed for `inputs` only.
    allow_unused : bool, optional
        Whether inputs that `outputs` do not depend on are allowed (their gradient is None). Defaults to
        `materialize_grads`.
    is_grads_batched : bool
        Whether `grad_outputs` have a leading batch dim. One vector-Jacobian product is computed for each entry, and
        the results have the same leading dim.
    materialize_grads : bool
        Whether to return zeros instead of None.

    Returns
    -------
    tuple of Tensor or None
        One gradient for each of `inputs`; a dict with the same keys if `inputs` is one.

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
    if isinstance(inputs, dict):
        gradients = grad(
            outputs, tuple(inputs.values()), grad_outputs, retain_graph, create_graph, only_inputs, allow_unused,
            is_grads_batched, materialize_grads,
        )  # fmt: skip
        return dict(zip(inputs, gradients, strict=True))
    if (takers := _takers(outputs, inputs)) is not None:
        settings = {
            "grad_outputs": grad_outputs, "retain_graph": retain_graph, "create_graph": create_graph,
            "only_inputs": only_inputs, "allow_unused": allow_unused, "is_grads_batched": is_grads_batched,
            "materialize_grads": materialize_grads,
        }  # fmt: skip
        args = tuple((value,) if isinstance(value, Variable) else value for value in (outputs, inputs))
        return variables.handle_torch_function(grad, takers, args, settings)
    outs, ins = edges_of(outputs), edges_of(inputs)
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of the graph, please use gradcore.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
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
        return _compute_batch(outs, ins, grads, retain_graph, create_graph, allow_unused, materialize_grads)
    roots = roots_of(outs, grads)
    captures: dict[Node, list[tuple[int, int]]] = {}
    for i, t in enumerate(ins):
        node, number = edge_of(t, "One of the differentiated Tensors does not require grad")
        captures.setdefault(node, []).append((number, i))
    captured = run_backward(
        roots,
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        captures=captures,
        accumulate=False,
    )
    results = [captured.get(i) for i in range(len(ins))]
    for i, g in enumerate(results):
        if g is None and not allow_unused:
            raise RuntimeError(
                f"The differentiated Tensor at index {i} appears to not have been used in the graph. Set "
                "allow_unused=True if this is the desired behavior."
            )
    return tuple(_with_zeros(results, ins, create_graph) if materialize_grads else results)


def _with_zeros(results: list[Any], inputs: Iterable[Any], recording: bool) -> list[Any]:
    """Return the gradients, with zeros for those that are None."""
    pairs = list(zip(inputs, results, strict=True))
    if any(g is None and not isinstance(t, Variable) for t, g in pairs):
        raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
    return [functional.zeros_like(t, requires_grad=recording) if g is None else g for t, g in pairs]


def _compute_batch(
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
    for i, (out, g) in enumerate(zip(outs, grads, strict=False)):
        if g is not None and isinstance(out, Variable) and g.shape[1:] != out._array.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                f"output, but a mismatch was detected: grad_output[{i}] has a shape of {g.shape[1:]} and output[{i}] "
                f"has a shape of torch.Size({list(out._array.shape)}). If you only want some tensors in `grad_output` "
                "to be considered batched, consider using vmap."
            )

    def pull(*rows: Any) -> tuple[Any, ...]:
        return grad(outs, ins, rows, retain, create, True, allow_unused, False, materialize)

    return tuple(map_samples(pull, grads, sizes.pop()))


# -- roots -------------------------------------------------------------------------------------------------------------


def edges_of(values: Any) -> tuple[Any, ...]:
    """Return a tensor, a GradientEdge or a sequence of them as a tuple."""
    return (values,) if isinstance(values, Variable) or hasattr(values, "node") else tuple(values)


def edge_of(t: AnyTensor, missing: str) -> tuple[Node, int]:
    """Return the gradient edge ``(node, output number)`` of a tensor or a GradientEdge.

    Raises
    ------
    RuntimeError
        If `t` is something else, or (with the message `missing`) if the tensor does not require grad.
    """
    if not isinstance(t, Variable):
        node = getattr(t, "node", None)
        if isinstance(node, Node):
            return node, t.output_nr
        raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(t).__name__}")
    edge = gradient_edge(t)
    if edge is None:
        raise RuntimeError(missing)
    return edge


def roots_of(outputs: Sequence[Any], grads: Sequence[Any]) -> list[tuple[Node, int, Any, Any]]:
    """Return the roots for `run_backward`: for each output its node, output number, checked gradient and device.

    A gradient of None stands for ones, which is allowed for outputs of one element.
    """
    if len(grads) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(grads)} gradients")
    roots = []
    for i, output in enumerate(outputs):
        edge, grad = None, grads[i]
        kind: tuple[Any, ...] | None
        if isinstance(output, Variable):
            edge, kind = gradient_edge(output), (output._array.shape, output._dtype, output._device)
        else:
            kind = getattr(output, "kind", None)  # (missing in a GradientEdge that the user created)
        if edge is None:
            edge = edge_of(output, f"element {i} of tensors does not require grad and does not have a grad_fn")
        if grad is None:
            roots.append((*edge, *_one(kind)))
            continue
        if not isinstance(grad, Variable):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(grad).__name__}")
        if kind is not None:
            grad = _check_gradient(kind, grad, i)
        roots.append((*edge, grad, grad._device))
    return roots


def root_of(output: Any) -> tuple[Node, int, Any, Any]:
    """Return the root for `run_backward` for a tensor of one element, with a gradient of one."""
    edge = output._edge if output._autograd is None else gradient_edge(output)
    if edge is None:
        return roots_of((output,), (None,))[0]  # This call raises the error.
    return (*edge, *_one((output._array.shape, output._dtype, output._device)))


def _one(kind: tuple[Any, ...] | None) -> tuple[Any, Any]:
    """Return an array of one with the shape and dtype of a one-element output, and the device of the output."""
    if kind is None or (kind[0] and prod(kind[0]) != 1):
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    shape, dtype, device = kind
    if dtype.is_complex:
        raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {dtype!r}")
    if device.guarded:
        try:
            with device.backend.use_index(device.index):
                gradient = device.backend.xp.ones(shape, dtype.numpy)
        except MemoryError as error:
            raise_if_out_of_memory(error, "backward")
            raise
    elif shape:
        gradient = device.backend.xp.ones(shape, dtype.numpy)
    else:
        gradient = device.backend.scalar(1, dtype.numpy)
        if gradient.__class__ is not device.backend.array_type:
            gradient = device.backend.asarray(gradient)
    return gradient, device


def _check_gradient(kind: tuple[Any, ...], grad: Any, i: int) -> Any:
    shape, dtype, device = kind
    if grad._array.shape != shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{i}] has a shape of torch.Size({list(grad._array.shape)}) and output[{i}] "
            f"has a shape of torch.Size({list(shape)})."
        )
    if dtype.is_complex != grad._dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
            f"grad_output[{i}] has a dtype of {grad._dtype!r} and output[{i}] has a dtype of {dtype!r}."
        )
    if grad._device.real is not device.real:
        raise RuntimeError(f"grad_output[{i}] lies on {grad._device} and output[{i}] on {device}; move it with .to()")
    return grad if grad._dtype is dtype else functional.to(grad, dtype)
