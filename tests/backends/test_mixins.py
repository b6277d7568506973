"""The classes that a backend is made of share one namespace: none takes a name away from another by accident."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import textwrap
from collections.abc import Iterator

import pytest

from gradcore.backends.base import Backend
from gradcore.backends.compiled.backend import CompiledBackend
from gradcore.backends.cupy.backend import CupyBackend
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
    """What a class defines: in its body, or as an attribute of `self` in a method."""
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
