"""On the samples of PyTorch's database of operations, each tensor in turn requires grad: no gradient is lost."""

from __future__ import annotations

import importlib.util
import itertools
import sys
import types
import unittest
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc

torch = pytest.importorskip("torch")
if importlib.util.find_spec("expecttest") is None:  # of which the database needs a class to inherit from
    sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase)  # type: ignore[assignment]
database = pytest.importorskip("torch.testing._internal.common_methods_invocations")

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

STEP = 1e-6
SAMPLES = 2

#: Operations whose derivative is not that of the numbers they return, by convention.
CONVENTIONS = {
    "normal": "samples do not move with parameters; distributions.Normal.rsample does",
    "empty_like": "elements are uninitialised",
    "new_empty": "elements are uninitialised",
    "new_empty_strided": "elements are uninitialised",
    "empty": "elements are uninitialised",
    "nn.functional.max_unpool1d": "samples write several elements into one place",
    "nn.functional.max_unpool2d": "samples write several elements into one place",
    "nn.functional.max_unpool3d": "samples write several elements into one place",
}

#: What takes its arguments in another order than a sample has them.
ORDERS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "einsum": lambda f: lambda operands, equation: f(equation, *operands),
    "where": lambda f: lambda x, condition, other, **k: f(condition, x, other, **k),
    "polygamma": lambda f: lambda x, n, **k: f(n, x, **k),
    "special.polygamma": lambda f: lambda x, n, **k: f(n, x, **k),
    "nn.functional.embedding": lambda f: lambda weight, index, **k: f(index, weight, **k),
    "nn.functional.embedding_bag": lambda f: lambda weight, index, **k: f(index, weight, **k),
}


def _function(name: str) -> Any:
    """Return gradcore's function or method of a name, or None if there is neither."""
    found: Any = gc
    for part in name.split("."):
        found = getattr(found, part, None)
    if callable(found):
        return ORDERS.get(name, lambda f: f)(found)
    if hasattr(gc.Tensor, name):
        return lambda x, *args, **named: m(*args, **named) if callable(m := getattr(x, name)) else m
    return None


OPERATIONS = [
    op
    for op in database.op_db
    if op.name not in CONVENTIONS
    and not op.name.startswith(
        ("_refs", "sparse", "ops.", "_", "to_sparse", "jiterator", "torch.ops", "nn.functional.rrelu")
    )
    and op.supports_dtype(torch.float64, "cpu")
    and _function(op.name) is not None
    and "dropout" not in op.name
]


class Unusable(Exception):
    """A sample that cannot be taken over."""


def _taken_over(value: Any, arrays: list[Any]) -> Any:
    """Copy a sample's argument, moving its tensors to `arrays` and leaving their positions."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.is_meta:
            raise Unusable
        arrays.append(value.detach().resolve_conj().resolve_neg().numpy().copy())
        return slice(len(arrays) - 1, None, "tensor")
    if isinstance(value, (list, tuple)):
        return type(value)([_taken_over(each, arrays) for each in value]) if type(value) in (list, tuple) else value
    if isinstance(value, dict):
        return {key: _taken_over(each, arrays) for key, each in value.items()}
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        return getattr(gc, str(value).rpartition(".")[2])
    if "torch" in type(value).__module__ and not isinstance(value, torch.device):
        raise Unusable
    return str(value) if isinstance(value, torch.device) else value


def _filled(value: Any, tensors: list[Any]) -> Any:
    if isinstance(value, slice) and value.step == "tensor":
        return tensors[value.start]
    if isinstance(value, (list, tuple)):
        return type(value)([_filled(each, tensors) for each in value])
    return {k: _filled(v, tensors) for k, v in value.items()} if isinstance(value, dict) else value


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        return [leaf for each in value for leaf in _leaves(each)]
    return [value] if isinstance(value, gc.Tensor) and value.dtype in (gc.float64, gc.complex128) else []


def _inner(weights: list[Any], outs: list[Any]) -> float:
    arrays = [np.array(out.detach().resolve_conj().numpy()) for out in outs]
    return sum(float(np.sum((np.conj(w) * a).real)) for w, a in zip(weights, arrays, strict=True))


def _draw(rng: Any, shape: tuple[int, ...], is_complex: bool) -> Any:
    values = rng.standard_normal(shape)
    return values + 1j * rng.standard_normal(shape) if is_complex else values


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: f"{op.name}-{op.variant_test_name}")
def test_each_tensor_in_turn(op: Any) -> None:
    function, wrapper = _function(op.name), op.gradcheck_wrapper
    torch.manual_seed(0)
    drawn = list(itertools.islice(op.sample_inputs("cpu", torch.float64, requires_grad=op.supports_autograd), 400))
    order = np.random.default_rng(zlib.crc32(op.name.encode())).permutation(len(drawn))
    tried = 0
    for number in sorted(order[:SAMPLES]):
        sample, arrays = drawn[number], []
        try:
            args, named = _taken_over(((sample.input, *sample.args), dict(sample.kwargs)), arrays)
        except (Unusable, AttributeError):
            continue

        def compute(tensors: list[Any], args: Any = args, named: Any = named, sample: Any = sample) -> list[Any]:
            gc.manual_seed(0)
            given, options = _filled(args, tensors), _filled(named, tensors)
            simple = wrapper.__name__ in ("<lambda>", "wrapper_set_seed") or "masked" in wrapper.__name__
            out = function(*given, **options) if simple else wrapper(function, *given, **options)
            return _leaves(sample.output_process_fn_grad(out))

        for i, array in enumerate(arrays):
            if array.dtype not in (np.float64, np.complex128) or not array.size:
                continue
            try:
                before = compute([gc.tensor(a.copy()) for a in arrays])
            except Exception:
                continue  # this is about gradients
            if not before:
                continue
            tried += 1
            _follows(compute, arrays, i)
    if not tried:
        pytest.skip("no sample that can be taken over")


def _follows(compute: Any, arrays: list[Any], i: int) -> None:
    """Check that the gradient by tensor `i` is that of finite differences, or refused."""
    leaf = gc.tensor(arrays[i].copy(), requires_grad=True)
    rng = np.random.default_rng(0)
    try:
        outs = compute([leaf * 1 if k == i else gc.tensor(a.copy()) for k, a in enumerate(arrays)])
        weights = [_draw(rng, tuple(out.shape), out.is_complex()) for out in outs]
        tracked = [(out, gc.tensor(w)) for out, w in zip(outs, weights, strict=True) if out.requires_grad]
        grad = None
        if tracked:
            (grad,) = gc.autograd.grad([o for o, _ in tracked], leaf, [w for _, w in tracked], allow_unused=True)
    except (RuntimeError, NotImplementedError) as error:
        if not any(
            text in str(error) for text in ("not differentiable with respect to", "not implemented", "require grad")
        ):
            raise
        return
    direction = _draw(rng, arrays[i].shape, arrays[i].dtype.kind == "c")
    sides = []
    for sign in (1, -1):
        moved = [gc.tensor(a + sign * STEP * direction if k == i else a.copy()) for k, a in enumerate(arrays)]
        sides.append(compute(moved))
    if [[tuple(o.shape) for o in side] for side in sides] != [[tuple(o.shape) for o in outs]] * 2:
        return  # the shape depends on the data
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        expected = (_inner(weights, sides[0]) - _inner(weights, sides[1])) / (2 * STEP)
        found = 0.0 if grad is None else _inner([np.array(grad.resolve_conj().numpy())], [gc.tensor(direction)])
    if np.isfinite(expected) and np.isfinite(found):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
