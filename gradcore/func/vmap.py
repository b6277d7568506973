"""`vmap`, which runs a function of one sample once for a whole batch."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeGuard

import numpy as np

from gradcore import functional
from gradcore.core.typing import AnyTensor
from gradcore.func.arguments import check_randomness
from gradcore.tensor import Tensor
from gradcore.tensor.random import get_rng_state, set_rng_state
from gradcore.tensor.transforms import VmapLevel, add_batch_dim, batch_scope, is_batched_at, remove_batch_dim
from gradcore.utils._pytree import TreeSpec, _broadcast_to_and_flatten, tree_flatten, tree_is_leaf, tree_unflatten

__all__ = ["vmap"]


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that applies `func` to every sample of a batch, all at once.

    Inside `func` tensors have the shape of one sample. There is no loop over samples: every operation runs once, with
    a batch dim that `func` does not see. Transformations nest: ``vmap(grad(f))`` gives the gradient for each sample.

    Parameters
    ----------
    func : callable
        Takes and returns tensors, or nested containers of them; other arguments pass through where their `in_dims`
        are None.
    in_dims : int, None or nested containers of these
        Along which dim of each input the samples lie; None for inputs that all samples share. One number stands for all
        inputs, or for all tensors in a container.
    out_dims : int, None or nested containers of these
        Along which dim of each output the samples are to lie; None for outputs that are the same for all samples.
    randomness : {"error", "different", "same"}
        Whether random operations in `func` are errors, differ between samples, or are the same for all of them.
    chunk_size : int, optional
        The greatest number of samples at a time, which bounds the memory that is needed. By default all of them.

    Returns
    -------
    callable
        Called as `func`, with all samples in each tensor.

    Raises
    ------
    ValueError
        If `in_dims` or `out_dims` do not fit, or if numbers of samples differ.
    RuntimeError
        If `func` asks for the numbers of a tensor (``item``, ``if``), if the shape of a result would depend on them, or
        if it draws random numbers with ``randomness="error"``.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> gradcore.func.vmap(gradcore.dot)(x, x)
    tensor([ 5., 25.])
    >>> gradcore.func.vmap(gradcore.func.grad(lambda v: v.prod()))(x)
    tensor([[2., 1.],
            [4., 3.]])
    """
    check_randomness(randomness)
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        flat, dims, structure, size = _inputs(func, in_dims, args)
        run = functools.partial(_run, func, out_dims, randomness, structure, kwargs)
        if chunk_size is None or chunk_size >= size:
            return run(flat, dims, size)
        start = get_rng_state() if randomness == "same" else None
        results = []
        for part, count in _chunks(flat, dims, size, chunk_size):
            if start is not None:
                set_rng_state(start)
            results.append(run(part, dims, count))
        return _join_chunks(results, out_dims)

    return wrapper


def _run(
    func: Callable[..., Any],
    out_dims: Any,
    randomness: str,
    structure: TreeSpec | None,
    named: dict[str, Any],
    flat: Sequence[Any],
    dims: Sequence[int | None],
    size: int,
) -> Any:
    level = VmapLevel(size, randomness)
    with batch_scope(level):
        inputs = [t if d is None else add_batch_dim(t, level, d) for t, d in zip(flat, dims, strict=True)]
        result = func(*(inputs if structure is None else tree_unflatten(inputs, structure)), **named)
        if type(out_dims) is int and _is_plain(result):
            return _output(func, result, level, out_dims)
        results, outer = tree_flatten(result)
        dims_of_outputs = _output_dims(out_dims, outer)
        if dims_of_outputs is None or not all(p is None or isinstance(p, int) for p in dims_of_outputs):
            raise _wrong_out_dims(func, out_dims, outer, dims_of_outputs is None)
        return tree_unflatten(
            [_output(func, t, level, d) for t, d in zip(results, dims_of_outputs, strict=True)], outer
        )


def _output(func: Callable[..., Any], t: AnyTensor, level: VmapLevel, dim: int | None) -> Any:
    if not isinstance(t, Tensor):
        if dim is None:
            return t
        raise ValueError(
            f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type {type(t)}. Did you mean to "
            "set out_dims= to None for output?"
        )
    if dim is None:
        if is_batched_at(t, level):
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` can not return a BatchedTensor when out_dim is None"
            )
        return t
    ndim = t.ndim + 1
    if not -ndim <= dim < ndim:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})")
    return remove_batch_dim(t, level, dim % ndim)


# -- inputs and their dims ------------------------------------------------------------------------------------------


def _name(func: Callable[..., Any]) -> str:
    if isinstance(func, functools.partial):
        return f"functools.partial({_name(func.func)}, ...)"
    return getattr(func, "__name__", None) or repr(func)


def _output_dims(out_dims: Any, structure: TreeSpec) -> list[Any] | None:
    """Return the batch dim of each output, or None if `out_dims` does not match the structure of the outputs."""
    if structure.is_leaf() and isinstance(out_dims, tuple) and len(out_dims) == 1:
        return list(out_dims)
    return _broadcast_to_and_flatten(out_dims, structure)


def _is_plain(value: object) -> TypeGuard[Tensor]:
    """Return whether a value is a tensor that is no container of tensors, as sparse ones are."""
    return isinstance(value, Tensor) and tree_is_leaf(value)


def _inputs(func: Callable[..., Any], in_dims: Any, args: tuple[Any, ...]) -> tuple[Any, Any, TreeSpec | None, int]:
    """Return the flat inputs, the batch dim of each, the structure of the arguments and the batch size.

    The structure is None if each argument is a tensor.
    """
    if type(in_dims) is int and args and all(_is_plain(t) and -t.ndim <= in_dims < t.ndim for t in args):
        sizes = [t.shape[in_dims] for t in args]
        if sizes.count(sizes[0]) == len(sizes):
            return list(args), [in_dims % t.ndim for t in args], None, sizes[0]
    name = _name(func)
    where = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): "
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{where}expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, "
            f"got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs. The latter is unsupported."
        )
    flat, structure = tree_flatten(args)
    dims = _broadcast_to_and_flatten(in_dims, structure)
    if dims is None:
        raise ValueError(
            f"{where}in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{tree_flatten(in_dims)[1]!r} but inputs has structure {structure!r}."
        )
    for i, (t, d) in enumerate(zip(flat, dims, strict=True)):
        if d is not None:
            if isinstance(t, np.ndarray):
                t = flat[i] = functional.as_tensor(t)
            dims[i] = _checked_dim(where, t, d)
    sizes = [t.shape[d] for t, d in zip(flat, dims, strict=True) if d is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(size != sizes[0] for size in sizes):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return flat, dims, structure, sizes[0]


def _checked_dim(where: str, t: AnyTensor, dim: Any) -> int:
    if isinstance(dim, bool):
        raise TypeError("size(): argument 'dim' (position 1) must be int, not bool")
    if not isinstance(dim, int):
        raise ValueError(
            f"{where}Got in_dim={dim} for an input but in_dim must be either an integer dimension or None."
        )
    if not isinstance(t, Tensor):
        raise ValueError(
            f"{where}Got in_dim={dim} for an input but the input is of type {type(t)}. We cannot vmap over non-Tensor "
            "arguments, please use None as the respective in_dim"
        )
    if not -t.ndim <= dim < t.ndim:
        raise ValueError(
            f"{where}Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {t.ndim} so "
            f"expected in_dim to satisfy -{t.ndim} <= in_dim < {t.ndim}."
        )
    return dim % t.ndim


def _wrong_out_dims(func: Callable[..., Any], out_dims: Any, outer: TreeSpec, unmatched: bool) -> ValueError:
    if unmatched and isinstance(out_dims, (tuple, list, dict)):
        return ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure "
            f"of `outputs`. out_dims has structure {tree_flatten(out_dims)[1]!r} but outputs has structure {outer!r}."
        )
    return ValueError(
        f"vmap({_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of "
        "ints representing where in the outputs the vmapped dimension should appear."
    )


# -- chunks -----------------------------------------------------------------------------------------------------------


def _chunks(
    flat: Sequence[Any], dims: Sequence[int | None], size: int, chunk_size: int
) -> Iterator[tuple[list[Any], int]]:
    """Yield the inputs of at most `chunk_size` samples at a time, and how many these are."""
    for start in itertools.count(0, chunk_size):
        if start >= size:
            return
        count = min(chunk_size, size - start)
        yield (
            [t if d is None else functional.narrow(t, d, start, count) for t, d in zip(flat, dims, strict=True)],
            count,
        )


def _join_chunks(results: Sequence[Any], out_dims: Any) -> Any:
    """Concatenate the results of the chunks along the batch dims `out_dims`."""
    flat = [tree_flatten(result) for result in results]
    structure = flat[0][1]
    dims_of_outputs = _output_dims(out_dims, structure)
    assert dims_of_outputs is not None
    joined = [
        parts[0] if dim is None else functional.cat(list(parts), dim)
        for dim, *parts in zip(dims_of_outputs, *(leaves for leaves, _ in flat), strict=True)
    ]
    return tree_unflatten(joined, structure)
