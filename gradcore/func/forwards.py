"""Transformations in forward mode: `jvp`, `jacfwd`, `linearize`, and `hessian` in both."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gradcore import functional
from gradcore.autograd.forward_ad import make_dual
from gradcore.func.arguments import (
    Argnums,
    check_randomness,
    check_real,
    check_results,
    replace_args,
    select_args,
    split_aux,
)
from gradcore.func.reverse import jacrev
from gradcore.tensor import Tensor
from gradcore.tensor.creation import zeros_like
from gradcore.tensor.transforms import (
    ForwardLevel,
    GradLevel,
    as_input,
    basis,
    is_within_vmap,
    primal,
    tangent_of,
    transform_scope,
    vectorize,
)
from gradcore.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

__all__ = ["hessian", "jacfwd", "jvp", "linearize"]

API = "jvp(f, primals, tangents)"


def jvp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> tuple[Any, ...]:
    """Return the output of `func` and its derivative in one direction: the Jacobian times `tangents`.

    Parameters
    ----------
    func : callable
        Takes and returns tensors, or nested containers of them; with `has_aux`, returns a tuple of that and anything
        else.
    primals : tuple
        The arguments of `func` at which to differentiate.
    tangents : tuple
        The direction, structured as `primals`.
    strict : bool
        Whether an output that does not depend on the arguments is an error (its derivative is zero otherwise).
    has_aux : bool

    Returns
    -------
    tuple
        ``(output, derivative)`` or ``(output, derivative, aux)``.

    Examples
    --------
    >>> import gradcore
    >>> x, v = gradcore.tensor([1.0, 2.0]), gradcore.tensor([1.0, 10.0])
    >>> gradcore.func.jvp(lambda x: x * x, (x,), (v,))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{API}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    return _jvp(func, primals, primals, tangents, None, strict, has_aux)


def _jvp(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    primals: Any,
    tangents: Any,
    argnums: Argnums | None,
    strict: bool,
    has_aux: bool,
) -> tuple[Any, ...]:
    """Return the results of `jvp` with respect to `primals`, which are all arguments or those at `argnums`."""
    flat_primals, structure = tree_flatten(primals)
    flat_tangents, tangent_structure = tree_flatten(tangents)
    flat_primals, flat_tangents = list(map(as_input, flat_primals)), list(map(as_input, flat_tangents))
    if structure != tangent_structure:
        raise RuntimeError(
            f"{API}: Expected primals and tangents to have the same python structure. For example, if primals is a "
            f"tuple of 3 tensors, tangents also must be. Got primals with structure {structure!r} and tangents with "
            f"structure {tangent_structure!r}"
        )
    for name, values in (("primals", flat_primals), ("tangents", flat_tangents)):
        if not values:
            raise RuntimeError(f"{API}: Expected {name} to contain at least one Tensor.")
        for value in values:
            if not isinstance(value, Tensor):
                raise RuntimeError(f"{API}: Expected {name} to only contain Tensors, got {type(value)}")
    with ForwardLevel() as level, transform_scope(level):
        duals = tree_unflatten([make_dual(p, t) for p, t in zip(flat_primals, flat_tangents, strict=True)], structure)
        result = func(*(duals if argnums is None else replace_args(args, argnums, duals)))
        output, aux = split_aux(result, has_aux, API)
        outs, out_structure = tree_flatten(output)
        check_results(outs, API)
        values = tree_unflatten([primal(out, level) for out in outs], out_structure)
        derivative = tree_unflatten([_tangent(out, level, strict) for out in outs], out_structure)
        flat_aux, aux_structure = tree_flatten(aux)
        aux = tree_unflatten([primal(a, level) if isinstance(a, Tensor) else a for a in flat_aux], aux_structure)
    return (values, derivative, aux) if has_aux else (values, derivative)


def _tangent(out: Tensor, level: ForwardLevel, strict: bool) -> Tensor:
    tangent = tangent_of(out, level)
    if tangent is not None:
        return tangent  # type: ignore[no-any-return]
    if strict:
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed "
            "with strict=True."
        )
    return zeros_like(out)


def jacfwd(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `func` by columns: for fewer inputs than outputs.

    Parameters
    ----------
    func : callable
        Returns tensors, or nested containers of them; with `has_aux`, a tuple of that and anything else.
    argnums : int or tuple of int
        The positional arguments with respect to which to differentiate; these may be nested containers of tensors.
    has_aux : bool
    randomness : {"error", "different", "same"}
        The treatment of random numbers in `func` for the columns, as in `vmap`.

    Returns
    -------
    callable
        A function that takes the arguments of `func` and returns the Jacobian, with the structure that `jacrev` uses.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.func.jacfwd(lambda x: x * x)(gradcore.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    check_randomness(randomness)

    @functools.wraps(func)
    def wrapper(*args: Any) -> Any:
        check_real(tree_leaves(args), "jacfwd", "inputs")
        primals = select_args(args, argnums)
        ins, in_structure = tree_flatten(primals)
        columns: list[list[Tensor]] = []  # by input, output
        outs: list[Tensor] = []
        out_structure, aux = None, None

        def push(column: Any, k: int) -> list[Any]:
            nonlocal outs, out_structure, aux
            tangents = [column if j == k else zeros_like(u) for j, u in enumerate(ins)]
            results = _jvp(func, args, primals, tree_unflatten(tangents, in_structure), argnums, False, has_aux)
            outs, out_structure = tree_flatten(results[0])
            check_real(outs, "jacfwd", "outputs")
            aux = results[2] if has_aux else None
            return tree_leaves(results[1])

        for k, t in enumerate(ins):
            n = t.numel()
            run = functools.partial(push, k=k)
            columns.append(vectorize(run, [basis(t, 0, n)], n, randomness) if n else [])
        if out_structure is None:  # all inputs are empty
            output, aux = split_aux(func(*args), has_aux, API)
            outs, out_structure = tree_flatten(output)
        blocks = [
            tree_unflatten(
                [_last(columns[k][n] if columns[k] else None, out, t) for k, t in enumerate(ins)], in_structure
            )
            for n, out in enumerate(outs)
        ]
        jacobian = tree_unflatten(blocks, out_structure)
        return (jacobian, aux) if has_aux else jacobian

    return wrapper


def _last(columns: Tensor | None, out: Tensor, t: Tensor) -> Tensor:
    """Return the columns of a block of a Jacobian, from the first dim, with the shape ``out.shape + t.shape``."""
    shape = (*out.shape, *t.shape)
    if columns is None:
        return functional.new_zeros(out, shape)  # type: ignore[no-any-return]
    return functional.reshape(functional.movedim(columns, 0, -1), shape)  # type: ignore[no-any-return]


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes the matrix of second derivatives of `func`.

    It applies reverse mode twice. Within `vmap` it is ``jacfwd(jacrev(func))``, which needs fewer batches.

    Parameters
    ----------
    func : callable
        Returns tensors, or nested containers of them.
    argnums : int or tuple of int
        The positional arguments with respect to which to differentiate.

    Returns
    -------
    callable
        Called as `func`, it returns for every output and every pair of inputs a tensor of the shape of the output and
        the two inputs.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.func.hessian(lambda x: (x**3).sum())(gradcore.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    over_reverse, twice = jacfwd(jacrev(func, argnums), argnums), jacrev(jacrev(func, argnums), argnums)

    @functools.wraps(func)
    def wrapper(*args: Any) -> Any:
        return (over_reverse if is_within_vmap() else twice)(*args)

    return wrapper


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Return the output of `func` and its derivative there as a linear function, which does not run `func` again.

    Parameters
    ----------
    func : callable
        Takes and returns tensors, or nested containers of them.
    *primals : Tensor or containers of Tensor
        The arguments at which to differentiate.

    Returns
    -------
    tuple
        ``(output, jvp_fn)``; ``jvp_fn(*tangents)`` is the Jacobian times `tangents`, structured as the output.

    Examples
    --------
    >>> import gradcore
    >>> y, jvp_fn = gradcore.func.linearize(lambda x: x * x, gradcore.tensor([1.0, 2.0]))
    >>> jvp_fn(gradcore.tensor([1.0, 10.0]))
    tensor([ 2., 40.])
    """
    flat_primals, structure = tree_flatten(primals)
    with GradLevel() as level:
        inputs = [level.enter(p) for p in flat_primals]
        with level.recording():
            output = func(*tree_unflatten(inputs, structure))
            outs, out_structure = tree_flatten(output)
            check_results(outs, "linearize(f, *primals)")
            # The vector-Jacobian product is linear in the cotangents; its transpose is the product with the Jacobian.
            cotangents = [level.enter(zeros_like(out)) for out in outs]
            pulled = level.pull_back(outs, inputs, cotangents)
        left = [level.leave(out) for out in outs]

    def jvp_fn(*tangents: Any) -> Any:
        """Return the derivative in the direction `tangents`."""
        flat, tangent_structure = tree_flatten(tangents)
        if tangent_structure != structure:
            raise RuntimeError(
                f"Expected the tangents {tangent_structure!r} to have the same argspec as the primals {structure!r}"
            )
        for i, (t, p) in enumerate(zip(flat, flat_primals, strict=True)):
            for name in ("shape", "device", "dtype"):
                if getattr(t, name) != getattr(p, name):
                    raise RuntimeError(
                        f"tangent:{i} with {name} {getattr(t, name)} in flattened pytree doesn't match the {name} "
                        f"{getattr(p, name)} of the corresponding primal."
                    )
        return tree_unflatten(level.gradients(pulled, cotangents, flat, True), out_structure)

    return tree_unflatten(left, out_structure), jvp_fn
