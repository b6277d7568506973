"""Which first and second gradients exist and require grad, for all inputs and upstream gradients, against PyTorch."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import gradcore as gc
from tests.ops.cases import DIFFERENTIABLE, Drawn
from tests.ops.directions import random

torch = pytest.importorskip("torch")

from tests.oracle.test_dtypes_of_ops_torch import Theirs, their_function, walk  # noqa: E402

pytestmark = pytest.mark.oracle

DOCUMENT = Path(__file__).parents[2] / "docs/pytorch-differences.md"
SECTION = "### Gradients that require grad"
STATES = ("None", "constant", "requires grad")


def documented() -> dict[str, str]:
    """Return by operation whether the section `SECTION` of `DOCUMENT` says that gradcore has more or fewer."""
    text = DOCUMENT.read_text(encoding="utf-8").partition(SECTION)[2].partition("\n#")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return {name: more for names, more, _ in rows for name in re.findall(r"`([^`]+)`", names)}


DOCUMENTED = documented()
CASES = [
    case
    for case in DIFFERENTIABLE
    if (case.op.function or case.op.method) and their_function(case.op) is not None and case.differentiable()
]


def subsets(items: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield all non-empty subsets of up to three items; of more, single items and all."""
    sizes = range(1, len(items) + 1) if len(items) <= 3 else (1, len(items))
    for size in sizes:
        yield from itertools.combinations(items, size)


def states(tensors: Sequence[Any]) -> list[str]:
    """Return of each gradient whether it is missing, a constant, or requires grad."""
    return [STATES[0 if t is None else 2 if t.requires_grad else 1] for t in tensors]


class Program:
    """A call of an operation in one of the two libraries, on the same numbers in both.

    Parameters
    ----------
    library : module
    case : Drawn
        With the function of the library in the place of the operation.
    chosen : tuple of int
        The positions of the inputs that require grad.
    upstream : tuple of int
        The positions of the outputs whose upstream gradients require grad.
    """

    def __init__(self, library: Any, case: Any, chosen: tuple[int, ...], upstream: tuple[int, ...]) -> None:
        self.library = library
        tensors = [library.tensor(np.array(a), requires_grad=i in chosen) for i, a in enumerate(case.arrays())]
        outs = walk(case.call(tensors), library.Tensor)
        self.states = states(outs)
        self.outs = [out for out in outs if out.requires_grad]
        rng = np.random.default_rng(3)
        weights = [random(rng, tuple(o.shape), np.complex128 if o.is_complex() else np.float64) for o in self.outs]
        self.weights = [
            library.tensor(w).to(o.dtype).requires_grad_(i in upstream)
            for i, (w, o) in enumerate(zip(weights, self.outs, strict=True))
        ]
        self.inputs = [tensors[i] for i in chosen]

    def gradients(self, of: Sequence[Any], by: Sequence[Any], weights: Sequence[Any]) -> list[Any]:
        grad = self.library.autograd.grad
        return list(grad(of, by, weights, create_graph=True, retain_graph=True, allow_unused=True))

    def first(self) -> list[Any]:
        """Return the gradients by the inputs."""
        return self.gradients(self.outs, self.inputs, self.weights)

    def second(self, grad: Any) -> list[Any]:
        """Return the gradients of a first gradient by the inputs and by the upstream gradients that require grad."""
        by = [*self.inputs, *(w for w in self.weights if w.requires_grad)]
        return self.gradients([grad], by, [self.library.ones_like(grad)])


class Disagreement(NamedTuple):
    """Gradients of one call of which the two libraries do not say the same."""

    where: str
    ours: list[str]
    theirs: list[str]

    @property
    def is_more(self) -> bool:
        """Whether nothing is missing that PyTorch has."""
        pairs = zip(self.ours, self.theirs, strict=True)
        return all(STATES.index(mine) >= STATES.index(other) for mine, other in pairs)


def disagreements(case: Drawn, chosen: tuple[int, ...], upstream: tuple[int, ...]) -> Iterator[Disagreement]:
    """Yield where the two libraries disagree about the derivatives by the inputs `chosen`."""
    where = f"{case.label}, inputs {chosen}, upstream {upstream}"
    try:
        theirs = Program(torch, case._replace(op=Theirs(case.op)), chosen, upstream)  # type: ignore[arg-type]
        their_first = theirs.first() if theirs.outs else []
    except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
        return  # PyTorch has no kernel
    if not theirs.outs:
        return  # PyTorch has no derivative
    ours = Program(gc, case, chosen, upstream)
    a, b = ours.states, theirs.states
    if a != b:
        yield Disagreement(f"{where}, outputs", a, b)
        return
    our_first = ours.first()
    a, b = states(our_first), states(their_first)
    if a != b:
        yield Disagreement(f"{where}, first", a, b)
        return
    for k, (mine, other) in enumerate(zip(our_first, their_first, strict=True)):
        if other is None or not other.requires_grad:
            continue
        try:
            their_second = theirs.second(other)
        except (RuntimeError, NotImplementedError):
            continue  # PyTorch has no second derivative
        a, b = states(ours.second(mine)), states(their_second)
        if a != b:
            yield Disagreement(f"{where}, second, of {k}", a, b)


def sweep(case: Drawn) -> list[Disagreement]:
    """Return all disagreements of a call, for all subsets of tensors that may require grad."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs = range(len(case.outputs([gc.tensor(np.array(a)) for a in case.arrays()])))
        upstreams = [(), *subsets(outputs)]
        calls = itertools.product(subsets(case.differentiable()), upstreams)
        return [found for chosen, upstream in calls for found in disagreements(case, chosen, upstream)]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.label) for c in CASES])
def test_the_same_gradients_require_grad(case: Drawn) -> None:
    kind = DOCUMENTED.get(case.op.path)
    wrong = [found for found in sweep(case) if kind is None or (kind == "more" and not found.is_more)]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("path", DOCUMENTED)
def test_documented_differences_exist(path: str) -> None:
    found = [line for case in CASES if case.op.path == path for line in sweep(case)]
    assert found
    assert DOCUMENTED[path] == ("more" if all(line.is_more for line in found) else "fewer")
