"""`gradcore.scipy.fft` against SciPy, and its derivatives."""

from __future__ import annotations

import itertools
from inspect import signature
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.scipy import fft
from tests.scipy_functions.comparing import check_derivatives, check_values, expressions

pytest.importorskip("scipy", minversion="1.17")
import scipy.fft


def arrays() -> dict[str, Any]:
    rng = np.random.default_rng(2)
    return {
        "A": rng.uniform(-1, 1, (4, 5)),
        "V": rng.uniform(-1, 1, 8),
        "C": rng.uniform(-1, 1, (3, 4)) + 1j * rng.uniform(-1, 1, (3, 4)),
        "F": rng.uniform(-1, 1, 6).astype(np.float32),
        "I": rng.integers(0, 9, 6),
    }


CALLS = """
fft: A; C, 6, 0; V, norm="ortho"; F; I
ifft: A; C, norm="forward"
rfft: A; V, 5
irfft: C; C, 5, 0
hfft: C
ihfft: V
fft2: A; C, (2, 3)
ifft2: A
rfft2: A
irfft2: C
hfft2: C
ihfft2: A
fftn: A; C, 5; A, axes=0; A, (2, 3), (1, 0)
ifftn: C
rfftn: A
irfftn: C
hfftn: C
ihfftn: A
fftshift: A; A, 0
ifftshift: A
fftfreq: 5, 0.5
rfftfreq: 6
dct: A; A, 3, axis=0; V, 2, 5; V, 1, 11; C, 4; F; I
idct: A; A, 3, axis=0; C, 2, 6
dst: A; A, 3, axis=0; F, 4; V, 1, 5
idst: A; A, 2, axis=0
dctn: A; A, 3, (3, 7); A, 2, axes=0; A, 4, norm="ortho"
idctn: A; A, 3, [6], [1]
dstn: A; A, 1
idstn: A; A, 2, (5, 5)
fht: V, 0.1, 0.5; A, 0.2, 1.5, 0.1, 0.3
ifht: V, 0.1, 0.5; A, 0.2, 1.5, 0.1, 0.3
next_fast_len: 97
prev_fast_len: 97, True
"""
SETTINGS = list(itertools.product((1, 2, 3, 4), (None, "ortho", "forward"), (None, True, False)))


@pytest.mark.parametrize("expression", expressions(CALLS))
def test_values(expression: str) -> None:
    check_values(expression, "fft", arrays())


@pytest.mark.parametrize(("type", "norm", "orthogonalize"), SETTINGS)
def test_types_and_norms(type: int, norm: Any, orthogonalize: Any) -> None:
    for name in ("dct", "idct", "dst", "idst"):
        call = f"{name}(V, {type}, norm={norm!r}, orthogonalize={orthogonalize!r})"
        check_values(call, "fft", arrays())


@pytest.mark.parametrize(
    "expression", [e for e in expressions(CALLS) if e[e.index("(") + 1] in "AVC" and "fft2" not in e]
)
def test_derivatives(expression: str) -> None:
    check_derivatives(expression, "fft", arrays(), second=False)


def test_offsets_of_hankel_transforms() -> None:
    assert fft.fhtoffset(0.1, 0.5) == scipy.fft.fhtoffset(0.1, 0.5)


def test_second_derivatives() -> None:
    x = gc.tensor(arrays()["V"], requires_grad=True)
    for kind, number in itertools.product((fft.dct, fft.dst), (1, 2, 3, 4)):
        assert gc.autograd.gradgradcheck(lambda x, f=kind, n=number: f(x, n) ** 2, x, fast_mode=True, atol=1e-4)


def test_every_function_is_there_with_scipys_parameters() -> None:
    assert set(fft.__all__) | set(fft.LEFT_OUT) == set(scipy.fft.__all__)
    for name in fft.__all__:
        theirs = signature(getattr(scipy.fft, name)).parameters
        assert [*signature(getattr(fft, name)).parameters] == [*theirs] or name == "dctn", name


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("fft(V, norm='no')", ValueError),
        ("fft(V, 0)", ValueError),
        ("fftn(A, (1, 2, 3))", ValueError),
        ("fftn(A, (1, 2), (0,))", ValueError),
        ("dct(V, 5)", ValueError),
        ("dct(V[:1], 1)", (ValueError, RuntimeError)),
        ("dct(V, n=0)", ValueError),
    ],
)
def test_errors_are_scipys(expression: str, error: Any) -> None:
    with pytest.raises(error):
        eval(f"f.{expression}", {"f": scipy.fft, **arrays()})
    with pytest.raises(error):
        eval(f"f.{expression}", {"f": fft, **arrays()})
