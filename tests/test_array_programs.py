"""Array programs of many kinds have gradients after two changed imports, and the numbers of HIPS autograd."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

import gradcore as gc
import gradcore.numpy as gnp
from tests.array_programs import PROGRAMS

NAMES = ["checkpoint", "elementwise_grad", "grad", "hessian", "jacobian", "value_and_grad"]
OURS = SimpleNamespace(**{name: getattr(gc.func, name) for name in NAMES})


def _arrays(value: Any) -> Iterator[Any]:
    """Yield the arrays of a result, in the order of its containers."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _arrays(each)
    else:
        yield numpy.asarray(value)


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_are_those_of_hips_autograd(name: str) -> None:
    theirs = pytest.importorskip("autograd")
    import autograd.numpy as anp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = list(_arrays(PROGRAMS[name](anp, SimpleNamespace(**{n: getattr(theirs, n) for n in NAMES}))))
    found = list(_arrays(PROGRAMS[name](gnp, OURS)))
    assert len(found) == len(wanted)
    for ours, reference in zip(found, wanted, strict=True):
        assert ours.dtype == reference.dtype
        numpy.testing.assert_allclose(ours, reference, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_run(name: str) -> None:
    assert all(numpy.isfinite(a).all() for a in _arrays(PROGRAMS[name](gnp, OURS)))


def test_scipy_takes_values_and_gradients() -> None:
    optimize = pytest.importorskip("scipy.optimize")
    both = gc.func.value_and_grad(lambda x: gnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))
    found = optimize.minimize(both, numpy.zeros(4), jac=True, method="BFGS")
    numpy.testing.assert_allclose(found.x, 1, atol=1e-4)


def test_nested_containers_of_arrays_go_in_and_come_out() -> None:
    params = {"a": numpy.array([1.0, 2.0]), "b": [numpy.float64(3.0), (gc.ones(2, dtype=gc.float64),)]}

    def f(p: Any) -> Any:
        return gnp.sum(p["a"] ** 2) * p["b"][0] + gnp.sum(p["b"][1][0])

    value, slope = gc.func.value_and_grad(f)(params)
    assert value.item() == 17.0
    assert slope["a"].tolist() == [6.0, 12.0]
    assert slope["b"][0].item() == 5.0
    assert slope["b"][1][0].tolist() == [1.0, 1.0]
    (value, aux), slope = gc.func.value_and_grad(lambda x: (gnp.sum(x * x), {"x": x}), has_aux=True)(params["a"])
    assert (value.item(), aux["x"].tolist(), slope.tolist()) == (5.0, [1.0, 2.0], [2.0, 4.0])


def test_vmap_takes_arrays() -> None:
    rows = numpy.arange(6.0).reshape(2, 3)
    found = gc.vmap(lambda row, p: {"norm": gnp.linalg.norm(row * p["scale"])}, in_dims=(0, None))(rows, {"scale": 2.0})
    numpy.testing.assert_allclose(found["norm"], 2 * numpy.linalg.norm(rows, axis=1))
    slopes = gc.vmap(gc.func.grad(lambda row: gnp.sum(row**2)))(rows)
    numpy.testing.assert_allclose(slopes, 2 * rows)


def test_checkpointed_functions_run_again_in_backward() -> None:
    runs = []

    def f(x: Any) -> Any:
        runs.append(None)
        return gnp.sum(gnp.sin(x) * gnp.cos(x))

    x = numpy.linspace(0, 1, 5)
    saved = gc.func.grad(gc.func.checkpoint(f))(x)
    assert len(runs) == 2
    numpy.testing.assert_allclose(saved, numpy.cos(2 * x))
    numpy.testing.assert_allclose(
        gc.func.hessian(gc.func.checkpoint(f))(x), numpy.diag(-2 * numpy.sin(2 * x)), atol=1e-12
    )
    numpy.testing.assert_allclose(
        gc.func.jacobian(gc.func.checkpoint(gnp.sin))(x), numpy.diag(numpy.cos(x)), atol=1e-12
    )
