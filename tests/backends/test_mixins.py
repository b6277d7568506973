"""The classes that a backend is made of share one namespace: none takes a name away from another by accident."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from gradcore.backends.base import Backend
from gradcore.backends.compiled.backend import CompiledBackend
from gradcore.backends.cupy.backend import CupyBackend
from gradcore.backends.kernel_methods import kernel_for, packed
from gradcore.backends.meta.backend import MetaBackend
from gradcore.backends.meta.kernels import MetaKernels
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.backends.vmap.backend import BatchedBackend
from gradcore.backends.vmap.kernels import BatchedKernels

BACKENDS = [Backend, NumpyBackend, CompiledBackend, CupyBackend, MetaBackend, BatchedBackend]
#: What stands in the place of kernels of any family.
OF_ALL_FAMILIES = {MetaKernels, BatchedKernels}


@functools.cache
def names(cls: type) -> frozenset[str]:
    """Return the names that a class defines in its body, or assigns as attributes of `self` in methods."""
    found = {name for name in vars(cls) if not (name.startswith("__") and name.endswith("__"))}
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(cls)))):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=attribute, ctx=ast.Store()):
                found.add(attribute)
    return frozenset(found)


def overrides(cls: type, other: type, name: str) -> bool:
    """Whether `cls`, which comes before `other`, defines a name of `other` to take its place."""
    if any(name in names(base) and issubclass(other, base) for base in cls.__mro__[1:-1]):
        return True
    public_of_all = not name.startswith("_") and issubclass(Backend, other)
    return public_of_all and (other is Backend or cls in OF_ALL_FAMILIES)


def clashes(backend: type) -> Iterator[str]:
    """Names that hide those of another class that has nothing to do with the first one."""
    classes = backend.__mro__[:-1]
    for name in sorted(frozenset[str]().union(*map(names, classes))):
        defining = [cls for cls in classes if name in names(cls)]
        for cls, other in itertools.pairwise(defining):
            if not overrides(cls, other, name):
                yield f"{name}: {cls.__name__} hides that of {other.__name__}"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("backend", BACKENDS, ids=lambda cls: cls.__name__)
def test_no_class_hides_what_is_another_ones(backend: type) -> None:
    assert not list(clashes(backend))


# -- what is found ----------------------------------------------------------------------------------------------------


class Family:
    def kernel(self) -> None: ...


class One(Family):
    def __init__(self) -> None:
        self._kept = 1

    def kernel(self) -> None: ...

    def _run(self) -> None: ...

    def _make(self) -> None: ...


class Other(Family):
    def __init__(self) -> None:
        self._kept, self._make = 2, 3

    def kernel(self) -> None: ...

    def _run(self) -> None: ...

    def large(self) -> None: ...


class Heir(One):
    def _run(self) -> None: ...


class Whole(Heir, Other, Backend):
    """Overrides of what is inherited, of a common family, and of what is public in every backend; and three clashes."""


def test_clashes_are_found() -> None:
    assert list(clashes(Whole)) == [f"{name}: One hides that of Other" for name in ("_kept", "_make", "_run")]


# -- kernels for some arguments ---------------------------------------------------------------------------------------


class Window(NamedTuple):
    size: int
    step: int
    padding: int = 0


class Portable(Backend):
    type = "portable"

    def __init__(self) -> None:
        super().__init__(np, np.ndarray)

    def double(self, x: float) -> Any:
        return "portable", x

    @packed(Window)
    def slide(self, x: float, window: Window) -> Any:
        return "portable", x, window


class Faster(Portable):
    @kernel_for(lambda self, x: x > 0)
    def double(self, x: float) -> Any:
        return "faster", x

    @kernel_for(lambda self, x, window: window.size > 2, Window)
    def slide(self, x: float, window: Window) -> Any:
        return "faster", x, window

    @kernel_for(lambda self, x: x.size < 3)
    def tanh(self, x: Any) -> Any:
        return "of a few"

    @kernel_for(lambda self, x: x.size < 3)
    def silu(self, x: Any) -> Any:
        return "of a few"


class Fastest(Faster):
    @kernel_for(lambda self, x: x > 5)
    def double(self, x: float) -> Any:
        return "fastest", *super().double(-x), x


def test_the_kernel_of_the_next_class_runs_for_other_arguments() -> None:
    for backend in (Fastest(), Fastest()):  # each binds its own
        for _ in range(2):
            assert backend.double(7) == ("fastest", "portable", -7, 7)
            assert backend.double(3) == ("faster", 3)
            assert backend.double(-1) == ("portable", -1)
    assert Faster().kernels["double"](6) == ("faster", 6)


def test_settings_are_packed_once() -> None:
    backend, window = Faster(), Window(3, 4, 0)
    assert backend.slide(1, 3, 4) == backend.slide(1, window) == ("faster", 1, window)
    assert backend.slide(1, 2, 5, 6) == ("portable", 1, Window(2, 5, 6))
    assert backend.slide(1, window)[2] is window
    assert Portable().slide(0, 3, 1) == ("portable", 0, Window(3, 1, 0))
    with pytest.raises(TypeError):
        backend.slide(1, 3, 4, 5, 6)


def test_functions_of_the_library_and_bodies_can_be_overridden() -> None:
    backend, x = Faster(), np.array([0.0, 1.0, 9.0])
    assert backend.kernels["tanh"](x[:2]) == backend.kernels["silu"](x[:2]) == "of a few"
    np.testing.assert_array_equal(backend.kernels["tanh"](x), np.tanh(x))
    np.testing.assert_allclose(backend.kernels["silu"](x), x / (1 + np.exp(-x)))
