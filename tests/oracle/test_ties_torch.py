"""PyTorch's samples with elements that tie or are NaN: values and gradients are PyTorch's but for documented cases."""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcore as gc

torch = pytest.importorskip("torch")

from tests.oracle.test_lost_gradients_torch import (  # noqa: E402
    OPERATIONS,
    Unusable,
    _filled,
    _function,
    _taken_over,
)

pytestmark = [pytest.mark.oracle, pytest.mark.sampled(32), pytest.mark.filterwarnings("ignore")]

DOCUMENT = Path(__file__).parents[2] / "docs/pytorch-differences.md"
SECTION = "### Elements that tie or are NaN"


def documented() -> set[str]:
    """Return the operations in the first column of the section `SECTION` of `DOCUMENT`."""
    text = DOCUMENT.read_text(encoding="utf-8").partition(SECTION)[2].partition("\n#")[0]
    rows = [line.partition(" | ")[0] for line in text.splitlines() if line.startswith("| `")]
    return {name for names in rows for name in re.findall(r"`([^`]+)`", names)}


DOCUMENTED = documented()

#: Operations left out: factors of matrices whose elements tie, which are often singular; random numbers; bfloat16.
LEFT_OUT = re.compile(
    r"linalg\.|norm-nuc|(lu|lu_solve|svd|svd_lowrank|pca_lowrank|geqrf|qr|ormqr|logdet|zero_|multinomial|bernoulli|bfloat16)-"
    r"|rand|normal|nn\.functional\.(fractional_max_pool|scaled_dot_product_attention|multi_head_attention)"
)
SAMPLES = 2
#: At most so many elements of a sample, which keeps the sweep fast.
ELEMENTS = 4000

#: Elements that tie with one another, with bounds, margins, zeros; and elements that are NaN.
KINDS: dict[str, Callable[[Any, tuple[int, ...]], Any]] = {
    "ones": lambda rng, shape: np.ones(shape),
    "zeros": lambda rng, shape: np.zeros(shape),
    "two": lambda rng, shape: rng.integers(0, 2, shape).astype(float),
    "three": lambda rng, shape: rng.integers(-1, 2, shape).astype(float),
    "halves": lambda rng, shape: rng.integers(0, 3, shape) / 2,
    "nan": lambda rng, shape: rng.choice([np.nan, 1.0, 0.0], shape),
}


def compute(library: Any, function: Any, args: Any, named: Any, arrays: list[Any], places: list[int]) -> Any:
    """Return the values of all results of a call, and the gradients by the tensors at `places` (zeros for None)."""
    library.manual_seed(0)
    tensors = [library.tensor(array.copy()) for array in arrays]
    for place in places:
        tensors[place].requires_grad_()
    out = function(*_filled(args, tensors), **_filled(named, tensors))
    outs = [each for each in (out if isinstance(out, (tuple, list)) else [out]) if isinstance(each, library.Tensor)]
    rng = np.random.default_rng(0)
    weights = [library.tensor(rng.integers(1, 100, tuple(each.shape)) + 0.0) for each in outs]
    tracked = [(each, weight) for each, weight in zip(outs, weights, strict=True) if each.requires_grad]
    grads = [np.zeros_like(arrays[place]) for place in places]
    if tracked:
        cotangents = [weight.to(each.dtype) for each, weight in tracked]
        leaves = [tensors[place] for place in places]
        found = library.autograd.grad([each for each, _ in tracked], leaves, cotangents, allow_unused=True)
        grads = [old if new is None else new.detach().numpy() for old, new in zip(grads, found, strict=True)]
    return [each.detach().resolve_conj().resolve_neg().numpy() for each in outs], grads


def _bounded(x: Any) -> Any:
    """Return `x` with infinity for numbers so large that only rounding keeps them finite."""
    return np.where(abs(x) > 1e30, np.inf * np.sign(x), x) if x.dtype.kind == "f" else x


def is_same(ours: list[Any], theirs: list[Any]) -> bool:
    """Return whether two lists of arrays have equal shapes, and elements that are close or both NaN."""
    return len(ours) == len(theirs) and all(
        a.shape == b.shape and np.allclose(_bounded(a), _bounded(b), rtol=1e-6, atol=1e-9, equal_nan=True)
        for a, b in zip(ours, theirs, strict=True)
    )


def _theirs(value: Any, tensors: list[Any]) -> Any:
    """Return a sample's argument for PyTorch, with places in `tensors` for tensors, as `_taken_over` does."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return slice(len(tensors) - 1, None, "tensor")
    if type(value) in (list, tuple):
        return type(value)([_theirs(each, tensors) for each in value])
    return {key: _theirs(each, tensors) for key, each in value.items()} if isinstance(value, dict) else value


def _samples(op: Any) -> list[Any]:
    torch.manual_seed(0)
    drawn = list(itertools.islice(op.sample_inputs("cpu", torch.float64, requires_grad=op.supports_autograd), 400))
    order = np.random.default_rng(zlib.crc32(op.name.encode())).permutation(len(drawn))
    return [drawn[number] for number in sorted(order[:SAMPLES])]


@pytest.mark.parametrize(
    "op",
    [op for op in OPERATIONS if op.name not in DOCUMENTED and not LEFT_OUT.match(f"{op.name}-{op.variant_test_name}")],
    ids=lambda op: f"{op.name}-{op.variant_test_name}",
)
def test_elements_that_tie_or_are_nan(op: Any) -> None:
    compared = 0
    for number, sample in enumerate(_samples(op)):
        arrays: list[Any] = []
        tensors: list[Any] = []
        call = (sample.input, *sample.args), dict(sample.kwargs)
        try:
            ours = _taken_over(call, arrays)
        except (Unusable, AttributeError):
            continue
        theirs = _theirs(call, tensors)
        floats = [i for i, array in enumerate(arrays) if array.dtype == np.float64 and array.size]
        if sum(array.size for array in arrays) > ELEMENTS:
            continue
        places = [i for i in floats if tensors[i].requires_grad]
        for kind, draw in KINDS.items() if floats else ():
            rng = np.random.default_rng(zlib.crc32(f"{op.name}{number}{kind}".encode()))
            given = [draw(rng, array.shape) if i in floats else array for i, array in enumerate(arrays)]
            try:
                expected = compute(torch, op.op, *theirs, given, places)
            except (RuntimeError, ValueError, IndexError):
                continue  # values that PyTorch refuses
            found = compute(gc, _function(op.name), *ours, given, places)
            for what, a, b in zip(("values", "gradients"), found, expected, strict=True):
                assert is_same(a, b), f"{what} of sample {number} of {kind}: {given}\n{a}\n{b}"
            compared += 1
    if not compared:
        pytest.skip("no sample that can be taken over")
