"""Transformations in reverse mode: `grad`, `grad_and_value`, `vjp`, `jacrev`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from gradcore import functional
from gradcore.func.arguments import (
    Argnums,
    check_real,
    check_results,
    pick_args,
    replace_args,
    select_args,
    split_aux,
)
from gradcore.tensor import Tensor
from gradcore.tensor.creation import zeros_like
from gradcore.tensor.transforms import GradLevel, basis, vectorize
from gradcore.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

__all__ = ["grad", "grad_and_value", "jacrev", "vjp"]


def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the gradient of `func` and its value.

    Parameters
    ----------
    func : callable
        Returns a tensor without dims; with `has_aux`, a tuple of that and anything else.
    argnums : int or tuple of int
        The positional arguments with respect to which to differentiate; these may be nested containers of tensors.
    has_aux : bool

    Returns
    -------
    callable
        Called as `func`, it returns ``(gradient, value)``, or ``(gradient, (value, aux))``.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.tensor([1.0, 2.0])
    >>> gradcore.func.grad_and_value(lambda x: (x * x).sum())(x)
    (tensor([2., 4.]), tensor(5.))
    """
    api = "grad_and_value(f)(*args)"

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with GradLevel() as level:
            leaves, structure = tree_flatten(pick_args(args, argnums))
            inputs = [level.enter(leaf) for leaf in leaves]
            level_args = replace_args(args, argnums, tree_unflatten(inputs, structure))
            with level.recording():
                output, aux = split_aux(func(*level_args, **kwargs), has_aux, api)
            if not isinstance(output, Tensor):
                raise RuntimeError(f"{api}: Expected f(*args) to return a Tensor, got {type(output)}")
            if output.ndim:
                raise RuntimeError(
                    f"{api}: Expected f(*args) to return a scalar Tensor, got tensor with {output.ndim} dims. Maybe "
                    "you wanted to use the vjp or jacrev APIs instead?"
                )
            gradients, value = level.gradients_and_value(output, inputs)
            gradient = tree_unflatten(gradients, structure)
            return gradient, (value, tree_map(level.leave, aux)) if has_aux else value

    return wrapper


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the gradient of `func`; nest it for higher derivatives.

    Parameters
    ----------
    func : callable
        Returns a tensor without dims; with `has_aux`, a tuple of that and anything else.
    argnums : int or tuple of int
        The positional arguments with respect to which to differentiate; these may be nested containers of tensors.
    has_aux : bool

    Returns
    -------
    callable
        Called as `func`, it returns the gradient, or ``(gradient, aux)``.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.func.grad(gradcore.func.grad(lambda x: x**3))(gradcore.tensor(2.0))
    tensor(12.)
    """
    gradient_and_value = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = gradient_and_value(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return the output of `func` and the function that multiplies vectors with its Jacobian from the left.

    Parameters
    ----------
    func : callable
        Takes and returns tensors, or nested containers of them; with `has_aux`, returns a tuple of that and anything
        else.
    *primals : Tensor or containers of Tensor
        The arguments at which to differentiate.
    has_aux : bool

    Returns
    -------
    tuple
        ``(output, vjp_fn)`` or ``(output, vjp_fn, aux)``; ``vjp_fn(cotangents)``, where `cotangents` are structured as
        the output, returns a tuple with one result for each of `primals`.

    Examples
    --------
    >>> import gradcore
    >>> y, vjp_fn = gradcore.func.vjp(lambda x: x * x, gradcore.tensor([1.0, 2.0]))
    >>> vjp_fn(gradcore.tensor([1.0, 10.0]))
    (tensor([ 2., 40.]),)
    """
    output, pull, aux = _vjp(func, primals, None, has_aux)
    return (output, pull, aux) if has_aux else (output, pull)


def _vjp(
    func: Callable[..., Any], primals: tuple[Any, ...], argnums: Argnums | None, has_aux: bool
) -> tuple[Any, Callable[..., Any], Any]:
    api = "vjp(f, *primals)"
    with GradLevel() as level:
        inputs = tree_map(level.enter, primals if argnums is None else select_args(primals, argnums))
        with level.recording():
            result = func(*(inputs if argnums is None else replace_args(primals, argnums, inputs)))
        output, aux = split_aux(result, has_aux, api)
        flat_outputs, out_structure = tree_flatten(output)
        check_results(flat_outputs, api)
        for out in flat_outputs:
            if not (out.is_floating_point() or out.is_complex()):
                raise RuntimeError(
                    "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
                    f"{out.dtype!r}"
                )
        flat_inputs, in_structure = tree_flatten(inputs)
        flat_outputs = [level.keep_history(out) for out in flat_outputs]
        left, aux = tree_map(level.leave, output), tree_map(level.leave, aux)

    def pull_back(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        """Return the product of the cotangents, which have the structure of the output, with the Jacobian."""
        flat, structure = tree_flatten(cotangents)
        if structure != out_structure:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {structure!r}, primal output: {out_structure!r}"
            )
        return tree_unflatten(level.gradients(flat_outputs, flat_inputs, flat, retain_graph), in_structure)

    return left, pull_back, aux


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `func` by rows: for fewer outputs than inputs.

    Parameters
    ----------
    func : callable
        Returns tensors, or nested containers of them; with `has_aux`, a tuple of that and anything else.
    argnums : int or tuple of int
        The positional arguments with respect to which to differentiate; these may be nested containers of tensors.
    has_aux : bool
    chunk_size : int, optional
        The number of rows to compute at a time, which bounds the required memory; by default all of them. With 1, rows
        are no batch, and what backward calls need not run on batches.

    Returns
    -------
    callable
        Called as `func`, it returns the Jacobian: for every output (structured as the output) and every input
        (structured as the arguments) a tensor of shape ``output.shape + input.shape``.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.func.jacrev(lambda x: x * x)(gradcore.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapper(*args: Any) -> Any:
        check_real(tree_leaves(args), "jacrev", "inputs")
        output, pull_back, aux = _vjp(func, args, argnums, has_aux)
        outs, out_structure = tree_flatten(output)
        check_real(outs, "jacrev", "outputs")
        ins, in_structure = tree_flatten(select_args(args, argnums))
        blocks = []
        for k, out in enumerate(outs):

            def pull(row: Any, k: int = k) -> list[Any]:
                rows = [row if j == k else zeros_like(o) for j, o in enumerate(outs)]
                return tree_leaves(pull_back(tree_unflatten(rows, out_structure)))

            columns = [
                _join_rows(column, out, t)
                for column, t in zip(_pull_in_chunks(pull, out, ins, chunk_size), ins, strict=True)
            ]
            blocks.append(tree_unflatten(columns, in_structure))
        jacobian = tree_unflatten(blocks, out_structure)
        return (jacobian, aux) if has_aux else jacobian

    return wrapper


def _pull_in_chunks(pull: Any, out: Tensor, ins: Sequence[Tensor], chunk_size: int | None) -> list[list[Tensor]]:
    """Return for each input the rows of the Jacobian of one output, `chunk_size` of them at a time."""
    count = out.numel()
    step = chunk_size or max(count, 1)
    chunks = []
    for start in range(0, count, step):
        rows = basis(out, start, min(start + step, count))
        if chunk_size == 1 or count == 1:  # not batched: backward may need functions without batches
            chunks.append([functional.unsqueeze(t, 0) for t in pull(functional.select(rows, 0, 0))])
        else:
            chunks.append(vectorize(pull, [rows], rows.shape[0], "error"))
    return [list(column) for column in zip(*chunks, strict=True)] if chunks else [[] for _ in ins]


def _join_rows(rows: Sequence[Tensor], out: Tensor, t: Tensor) -> Tensor:
    """Return the rows of one block of a Jacobian as a tensor of shape ``out.shape + t.shape``."""
    shape = (*out.shape, *t.shape)
    if not rows:
        return functional.new_zeros(t, shape)  # type: ignore[no-any-return]
    return functional.reshape(rows[0] if len(rows) == 1 else functional.cat(rows), shape)  # type: ignore[no-any-return]
