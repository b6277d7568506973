"""No operation loses a gradient in silence.

Every tensor parameter is in one of three states: it has a derivative formula, the declaration says why the results are
constant in it, or it refuses to require grad. The first test reads that from the table. The others call every
operation with each of its tensors in turn as the only one that requires grad.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.ops.declare.table import OPS, Op
from tests.ops.cases import ALL, Drawn, Symmetric

STEP = 1e-6

#: What a refusal says.
REFUSALS = r"not differentiable with respect to|derivative .*not implemented"


#: Calls at places without a derivative.
UNDEFINED = {
    "histc-2": "all elements are on a bound of a bin",
    "pca_lowrank-1": "the rank is less than q: some vectors are arbitrary",
}


def state_of(op: Op, position: int) -> str:
    """In which of the three states a tensor parameter is."""
    name = op.names[position]
    if name in op.differentiable_inputs:
        return "differentiable"
    if isinstance(op.constant, str) or name in op.constant or position in op.keeps_dtype:
        return "constant"
    return "refused"


def test_every_tensor_parameter_is_in_one_of_three_states() -> None:
    states: Counter[str] = Counter()
    for op in OPS.values():
        if op.kind == "composite":
            assert not op.differentiable_inputs, f"{op.name}: a composite is differentiated through what it calls"
            continue
        reasons = {"": op.constant} if isinstance(op.constant, str) else op.constant
        assert all(len(reason.split()) > 1 for reason in reasons.values()), op.name
        if isinstance(op.constant, dict):
            assert set(op.constant) <= {op.names[p] for p in op.tensors}, op.name
            assert not op.differentiable_inputs & op.constant.keys(), op.name
        else:
            assert not op.differentiable_inputs, f"{op.name}: declared constant, with formulas"
            assert not op.refused_inputs
        for p in op.tensors:
            state = state_of(op, p)
            assert (state == "refused") == (p in op.refused_inputs), (op.name, op.names[p])
            states[state] += 1
    assert states["differentiable"] > 450, states
    assert states["constant"] > 80, states
    assert states["refused"] > 30, states


class Given:
    """One call of which a single tensor, number `position`, may require grad."""

    def __init__(self, case: Drawn, position: int, dtype: str | None = None) -> None:
        self.case, self.position = case, position
        self.arrays = case.arrays()
        if dtype is not None:
            self.arrays[position] = self.arrays[position].astype(dtype) + 0.37  # between steps
        rng = np.random.default_rng(position)
        shape = self.arrays[position].shape
        self.direction: Any = rng.standard_normal(shape)
        if self.arrays[position].dtype.kind == "c":
            self.direction = self.direction + 1j * rng.standard_normal(shape)
        if isinstance(self.arrays[position], Symmetric):
            self.direction = self.direction + self.direction.swapaxes(-1, -2)

    def run(self, change: float = 0.0, leaf: Any = None) -> list[gc.Tensor]:
        """Return the floating-point outputs with the tensor moved along the direction, or replaced by `leaf`."""
        made = []
        for i, array in enumerate(self.arrays):
            moved = np.asarray(array + change * self.direction) if i == self.position and change else np.array(array)
            made.append(gc.tensor(moved) if i != self.position or leaf is None else leaf)
        gc.manual_seed(0)
        return [out for out in self.case.outputs(made) if out.is_floating_point() or out.is_complex()]

    def leaf(self) -> Any:
        return gc.tensor(np.array(self.arrays[self.position]), requires_grad=True)

    def weights(self, outs: list[Any]) -> list[Any]:
        rng = np.random.default_rng(7)
        found = []
        for out in outs:
            weight: Any = rng.standard_normal(tuple(out.shape))
            found.append(weight + 1j * rng.standard_normal(tuple(out.shape)) if out.is_complex() else weight)
        return found

    def difference(self) -> float:
        """How the weighted sum of all outputs moves along the direction."""
        sides = []
        for sign in (1, -1):
            outs = self.run(sign * STEP)
            pairs = zip(self.weights(outs), outs, strict=True)
            sides.append(
                sum(float(np.sum((np.conj(w) * np.array(out.resolve_conj().numpy())).real)) for w, out in pairs)
            )
        return (sides[0] - sides[1]) / (2 * STEP)

    def reverse(self) -> float | None:
        """Return the derivative by backward, or None if no output requires grad."""
        leaf = self.leaf()
        outs = self.run(leaf=leaf)
        chosen = [(out, gc.tensor(w, dtype=out.dtype)) for out, w in zip(outs, self.weights(outs), strict=True)]
        chosen = [pair for pair in chosen if pair[0].requires_grad]
        if not chosen:
            return None
        (grad,) = gc.autograd.grad([o for o, _ in chosen], [leaf], [w for _, w in chosen], allow_unused=True)
        return 0.0 if grad is None else float(np.sum((np.conj(np.array(grad.resolve_conj())) * self.direction).real))

    def forward(self) -> float:
        """Return the derivative by forward mode."""
        primal = gc.tensor(np.array(self.arrays[self.position]))
        tangent = gc.tensor(self.direction, dtype=primal.dtype)
        outs, tangents = gc.func.jvp(lambda t: tuple(self.run(leaf=t)), (primal,), (tangent,))
        pairs = zip(self.weights(list(outs)), tangents, strict=True)
        return sum(float(np.sum((np.conj(w) * np.array(t.resolve_conj())).real)) for w, t in pairs)


def _each(kinds: str) -> Any:
    drawn = []
    for case in ALL:
        for i, array in enumerate(case.arrays()):
            if array.dtype.kind in kinds and array.size:
                drawn.append(pytest.param(case, i, id=f"{case.label}-{i}"))
    return pytest.mark.parametrize(("case", "position"), drawn)


def _follows(given: Given) -> None:
    """Check that the derivative in both modes is that of finite differences, or is refused in both."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not given.run():
            pytest.skip("the results are whole numbers or bools")
        try:
            found = given.reverse()
        except (RuntimeError, NotImplementedError) as error:
            message = str(error)
            assert "not differentiable with respect to" in message or "is not implemented" in message, message
            with pytest.raises((RuntimeError, NotImplementedError), match=REFUSALS):
                given.forward()
            return
        expected = given.difference()
        if given.case.label not in UNDEFINED and np.isfinite(expected):
            np.testing.assert_allclose(0.0 if found is None else found, expected, rtol=2e-4, atol=2e-5)
            np.testing.assert_allclose(given.forward(), expected, rtol=2e-4, atol=2e-5)


@_each("fc")
def test_every_float_tensor_passes_its_gradient_on_or_refuses(case: Drawn, position: int) -> None:
    _follows(Given(case, position))


@_each("iu")
def test_integers_given_as_floats_lose_nothing(case: Drawn, position: int) -> None:
    """Tensors of which the samples are integers: as floats they are an error, or follow the same rule."""
    given = Given(case, position, "float64")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given.run()
    except Exception:
        pytest.skip("takes integers")
    _follows(given)


def _numbers() -> Any:
    """Every number of every call: its place among the positional arguments, or its name."""
    drawn = []
    for case in ALL:
        places = [*enumerate(case.args), *case.settings.items()]
        drawn += [
            pytest.param(case, key, id=f"{case.label}-{key}") for key, value in places if type(value) in (int, float)
        ]
    return pytest.mark.parametrize(("case", "key"), drawn)


@_numbers()
def test_numbers_given_as_tensors_lose_nothing(case: Drawn, key: Any) -> None:
    """A tensor in a number's place is an error where it requires grad, or its gradient is right."""
    value = float(case.settings[key] if isinstance(key, str) else case.args[key])

    def compute(number: Any) -> list[Any]:
        args, settings = list(case.args), dict(case.settings)
        if isinstance(key, str):
            settings[key] = number
        else:
            args[key] = number
        gc.manual_seed(0)
        changed = case._replace(args=tuple(args), settings=settings)
        outs = changed.outputs([gc.tensor(np.array(a)) for a in case.arrays()])
        return [out for out in outs if out.is_floating_point()]

    leaf = gc.tensor(value, dtype=gc.float64, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            outs = compute(leaf)
        except Exception:
            pytest.skip("an error")
        try:
            compute(value + STEP)
        except TypeError:
            pytest.skip("with a tensor it is another function")
    sides = [[np.array(out.detach()) for out in compute(value + sign * STEP)] for sign in (1, -1)]
    tracked = [out for out in outs if out.requires_grad]
    found = 0.0
    if tracked:
        (grad,) = gc.autograd.grad([out.sum() for out in tracked], leaf, allow_unused=True)
        found = 0.0 if grad is None else grad.item()
    expected = sum(float(a.sum() - b.sum()) for a, b in zip(*sides, strict=True)) / (2 * STEP)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)
