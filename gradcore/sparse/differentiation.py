"""`gradcore.autograd.grad` and ``backward`` of sparse tensors, whose values carry the history."""

from __future__ import annotations

from typing import Any

from gradcore.autograd import gradients
from gradcore.sparse.conversion import apply_mask
from gradcore.sparse.indices import are_equal
from gradcore.sparse.tensor import SparseTensor, on
from gradcore.tensor import Tensor

__all__ = ["backward", "grad"]


def _as_list(values: Any) -> list[Any]:
    return [values] if isinstance(values, Tensor) or values is None or hasattr(values, "node") else list(values)


def _upstream(outputs: list[Any], grads: Any) -> Any:
    """Return the upstream gradients of the values of `outputs`, from dense or sparse gradients."""
    if grads is None:
        for out in outputs:
            if isinstance(out, SparseTensor):
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
        return None
    results = []
    for out, grad in zip(outputs, _as_list(grads), strict=True):
        if isinstance(out, SparseTensor) and grad is not None:
            grad = (grad if isinstance(grad, SparseTensor) and _same(grad, out) else apply_mask(grad, out)).stored
        results.append(grad)
    return results


def _same(a: SparseTensor, b: SparseTensor) -> bool:
    return a.layout is b.layout and all(map(are_equal, a.index, b.index))


@on("grad")
def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, **settings: Any) -> Any:
    """Call `gradcore.autograd.grad`, with sparse gradients of sparse inputs."""
    outs, sparse_inputs = _as_list(outputs), _as_list(inputs)
    gradients_of_values = gradients.grad(
        [_values_of(t) for t in outs], [_values_of(t) for t in sparse_inputs], _upstream(outs, grad_outputs), **settings
    )
    return tuple(
        t.gradient(g) if isinstance(t, SparseTensor) and g is not None else g
        for t, g in zip(sparse_inputs, gradients_of_values, strict=True)
    )


@on("backward")
def backward(tensors: Any, grad_tensors: Any = None, inputs: Any = None, **settings: Any) -> None:
    """Call `gradcore.autograd.backward`, with sparse gradients of sparse leaves."""
    outs = _as_list(tensors)
    leaves = None if inputs is None else [_values_of(t) for t in _as_list(inputs)]
    gradients.backward([_values_of(t) for t in outs], _upstream(outs, grad_tensors), inputs=leaves, **settings)


def _values_of(t: Any) -> Any:
    return t.stored if isinstance(t, SparseTensor) else t
