"""The array API standard of 2024.12, function by function: values, dtypes, shapes and special cases are those of NumPy.

NumPy 2 conforms to the standard. Calls are made of the tables below: each function with every dtype that the standard
has it for, with special values, without dims and without elements.
"""

from __future__ import annotations

import itertools
import operator
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
import gradcore.array_api as xp

pytest.importorskip("numpy", minversion="2.3", reason="older ones conform in part")

SIGNED, UNSIGNED = ("int8", "int16", "int32", "int64"), ("uint8", "uint16", "uint32", "uint64")
INTEGERS, FLOATS, COMPLEX = SIGNED + UNSIGNED, ("float32", "float64"), ("complex64", "complex128")
#: The dtypes of a category of the standard.
KINDS = {
    "bool": ("bool",), "int": INTEGERS, "float": FLOATS, "complex": COMPLEX, "floating": FLOATS + COMPLEX,
    "real": INTEGERS + FLOATS, "numeric": INTEGERS + FLOATS + COMPLEX, "any": ("bool", *INTEGERS, *FLOATS, *COMPLEX),
    "logical": ("bool", *INTEGERS),
}  # fmt: skip

UNARY = {
    "floating": "acos acosh asin asinh atan atanh cos cosh exp expm1 log log10 log1p log2 sin sinh sqrt tan tanh",
    "float": "signbit", "numeric": "abs isfinite isinf isnan negative positive round sign square", "logical":
    "bitwise_invert", "bool": "logical_not", "real": "ceil floor trunc", "complex": "imag", "any": "conj real",
    "floating ": "reciprocal",
}  # fmt: skip
BINARY = {
    "numeric": "add multiply subtract pow", "float": "atan2 copysign hypot logaddexp nextafter", "floating": "divide",
    "logical": "bitwise_and bitwise_or bitwise_xor", "int": "bitwise_left_shift bitwise_right_shift",
    "any": "equal not_equal", "real": "floor_divide greater greater_equal less less_equal maximum minimum remainder",
    "bool": "logical_and logical_or logical_xor",
}  # fmt: skip
ONE = [(name, kind.strip()) for kind, names in UNARY.items() for name in names.split()]
TWO = [(name, kind) for kind, names in BINARY.items() for name in names.split()]

SPECIAL = [
    np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 1e-30, -1e-30, 1e30, -1e30,
    np.pi / 2, 1.5, -1.5, 2.5,
]  # fmt: skip


def values(dtype: str, *, special: bool = True) -> Any:
    """Numbers of a dtype, special ones too."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.array([False, True, True, False])
    if kind in "iu":
        low = np.iinfo(dtype).min if special else 0
        return np.array([0, 1, 2, 3, 7, 100, np.iinfo(dtype).max, low], dtype)
    numbers = SPECIAL if special else [0.25, 1.0, -2.0, 3.5]
    if kind == "c":
        parts = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.5] if special else [0.25, -1.5, 2.0]
        return np.array([complex(a, b) for a, b in itertools.product(parts, parts)], dtype)
    return np.array(numbers, dtype)


def of(array: Any) -> Any:
    return xp.asarray(np.array(array), copy=True)


def found_by(space: Any, path: str) -> Any:
    return operator.attrgetter(path)(space)


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for each in value:
            yield from leaves(each)
    else:
        yield value


def compare(ours: Any, theirs: Any, *, exact: bool = False, text: str = "") -> None:
    """Compare results: dtypes, shapes, numbers, the signs of zeros."""
    mine, other = list(leaves(ours)), list(leaves(theirs))
    assert len(mine) == len(other), text
    for a, b in zip(mine, other, strict=True):
        if not isinstance(b, (np.ndarray, np.generic)):
            assert a == b, text
            continue
        b = np.asarray(b)
        assert isinstance(a, gc.Tensor), (text, type(a))
        assert a.dtype.name == b.dtype.name, (text, a.dtype, b.dtype)
        assert tuple(a.shape) == b.shape, (text, a.shape, b.shape)
        a = a.detach().numpy()
        bound = 0 if exact or b.dtype.kind not in "fc" else 64 * np.finfo(b.dtype).eps
        for x, y in ((a.real, b.real), (a.imag, b.imag)) if b.dtype.kind == "c" else ((a, b),):
            with np.errstate(all="ignore"):
                close = np.isclose(x, y, bound, bound * 4, equal_nan=b.dtype.kind in "fc")
            assert close.all(), (text, x[~close][:3] if x.ndim else x, y[~close][:3] if y.ndim else y)


def silently(function: Any, *args: Any, **named: Any) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*args, **named)


def same_zeros(ours: Any, theirs: Any) -> Any:
    """Where a zero has the other sign."""
    mine = ours.detach().numpy()
    pairs = ((mine.real, theirs.real), (mine.imag, theirs.imag)) if theirs.dtype.kind == "c" else ((mine, theirs),)
    return [(x == 0) & (np.signbit(x) != np.signbit(y)) for x, y in pairs] if theirs.dtype.kind in "fc" else []


@pytest.mark.parametrize(("name", "kind"), ONE)
def test_functions_of_one(name: str, kind: str) -> None:
    for dtype in KINDS[kind]:
        x = values(dtype, special=name != "sign" or "complex" not in dtype)
        theirs = silently(getattr(np, name), x)
        ours = silently(getattr(xp, name), of(x))
        compare(ours, theirs, text=f"{name}({dtype})")
        assert not any(wrong.any() for wrong in same_zeros(ours, theirs)), (name, dtype)
        for shape in ((), (0,), (2, 0), (1, 2)):
            part = np.resize(values(dtype, special=False), shape)
            compare(silently(getattr(xp, name), of(part)), silently(getattr(np, name), part), text=f"{name} {shape}")
            assert isinstance(getattr(xp, name)(of(part)), gc.Tensor)


def pairs_of(kind: str) -> Iterator[tuple[str, str]]:
    """Pairs of dtypes that the standard promotes."""
    for a, b in itertools.product(KINDS[kind], KINDS[kind]):
        kinds = {np.dtype(a).kind, np.dtype(b).kind}
        if len(kinds) == 1 or kinds == {"f", "c"} or (kinds == {"i", "u"} and "uint64" not in (a, b)):
            yield a, b


@pytest.mark.parametrize(("name", "kind"), TWO)
def test_functions_of_two(name: str, kind: str) -> None:
    for a, b in pairs_of(kind):
        x, y = (values(d, special=a == b) for d in (a, b))
        if name in ("bitwise_left_shift", "bitwise_right_shift"):
            y = np.array([0, 1, 2, 3], b)
        if np.dtype(a).kind in "iu" and name in ("floor_divide", "remainder"):
            y = y[y != 0]
        if np.dtype(a).kind in "iu" and name == "pow":
            x, y = x[:4], np.array([0, 1, 2], b)
        if np.dtype(a).kind == "c" or np.dtype(b).kind == "c":
            x, y = (values(d, special=name in ("equal", "not_equal", "add", "subtract")) for d in (a, b))
        x, y = x[:, None], y[None, :]
        theirs, ours = silently(getattr(np, name), x, y), silently(getattr(xp, name), of(x), of(y))
        compare(ours, theirs, text=f"{name}({a}, {b})")
        if a == b and np.dtype(a).kind == "f":
            wrong = same_zeros(ours, theirs)[0] if theirs.dtype.kind == "f" else np.zeros(1, bool)
            assert not wrong.any(), (
                name,
                np.broadcast_to(x, wrong.shape)[wrong],
                np.broadcast_to(y, wrong.shape)[wrong],
            )
    for dtype in KINDS[kind]:
        for shapes in (((), ()), ((0,), (1,)), ((2, 1), (3,)), ((2, 0), ()), ((), (3,))):
            x, y = (np.resize(np.array([1, 1, 1], dtype), shape) for shape in shapes)
            compare(getattr(xp, name)(of(x), of(y)), getattr(np, name)(x, y), text=f"{name} {shapes}")
        if name not in ("copysign", "nextafter", "atan2", "hypot", "logaddexp"):
            for number in {"b": (True,), "i": (1, 2), "u": (1, 2), "f": (2, 0.5), "c": (2, 0.5, 1j)}[
                np.dtype(dtype).kind
            ]:
                x = values(dtype, special=False)
                if name == "pow" and np.dtype(dtype).kind in "iu":
                    x = x[:4]
                compare(silently(getattr(xp, name), of(x), number), silently(getattr(np, name), x, number), text=name)


OPERATORS = {
    "numeric": "add sub mul pow", "floating": "truediv", "real": "floordiv mod lt le gt ge", "any": "eq ne",
    "logical": "and_ or_ xor", "int": "lshift rshift",
}  # fmt: skip


@pytest.mark.parametrize(("name", "kind"), [(n, k) for k, names in OPERATORS.items() for n in names.split()])
def test_operators(name: str, kind: str) -> None:
    for a, b in pairs_of(kind):
        x, y = (np.array([3, 1, 2], d) for d in (a, b))
        if a != b and not {a, b}.isdisjoint(("uint16", "uint32", "uint64")):  # operators are PyTorch's
            with pytest.raises(RuntimeError, match="Promotion for uint16"):
                getattr(operator, name)(of(x), of(y))
            continue
        compare(getattr(operator, name)(of(x), of(y)), getattr(operator, name)(x, y), text=f"{name}({a}, {b})")
        in_place = getattr(operator, f"i{name.rstrip('_')}", None)
        if in_place is not None and np.result_type(a, b) == np.dtype(a):
            compare(in_place(of(x), of(y)), in_place(x.copy(), y), text=f"in place {name}({a}, {b})")
    for dtype in KINDS[kind]:
        x = np.array([1, 1, 0] if np.dtype(dtype).kind == "b" else [3, 1, 2], dtype)
        for number in {"b": (True,), "i": (1, 2), "u": (1, 2), "f": (2, 0.5), "c": (2, 0.5, 1j)}[np.dtype(dtype).kind]:
            f = getattr(operator, name)
            compare(f(of(x), number), f(x, number), text=f"{name} {dtype}")
            compare(f(number, of(x)), f(number, x), text=f"reflected {name} {dtype}")


def test_unary_operators_and_conversions() -> None:
    for dtype in KINDS["numeric"]:
        x = values(dtype, special=False)
        for f in (operator.neg, operator.pos, operator.abs):
            compare(f(of(x)), f(x), text=dtype)
    for dtype in KINDS["logical"]:
        compare(~of(values(dtype)), ~values(dtype), text=dtype)
    for dtype in KINDS["any"]:
        one = of(np.array(1, dtype))
        assert bool(one) is True
        if np.dtype(dtype).kind in "biuf":
            assert (int(one), float(one)) == (1, 1.0)
        assert complex(one) == 1
    assert operator.index(of(np.array(3, "int8"))) == 3
    for convert in (bool, int, float, complex):
        with pytest.raises((TypeError, RuntimeError, ValueError)):
            convert(of([1.0, 2.0]))
    with pytest.raises(TypeError):
        operator.index(of(np.array(1.0)))


#: Calls by name and kind of dtype: A (3, 4), B (4, 3), S square, C (2, 3, 4), V (4,), Z (0, 3), O without dims,
#: I indices, M a mask of A, P positive definite; `xp` is the namespace.
CALLS = """
any all: A; A, axis=0; C, axis=(0, -1); A, keepdims=True; Z; Z, axis=0; O; A, axis=(); C, axis=1, keepdims=True
any any: A; A, axis=0; C, axis=(0, -1); A, keepdims=True; Z; Z, axis=0; O
numeric sum: A; A, axis=1; C, axis=(0, 2), keepdims=True; Z; Z, axis=1; O; A, axis=()
numeric prod: S; S, axis=1; C[:, :2, :2], axis=(0, 2), keepdims=True; Z; Z, axis=1; O
floating mean: A; A, axis=1; C, axis=(0, 2), keepdims=True; O
float std: A; A, axis=1; A, correction=1.0; C, axis=(0, 2), keepdims=True; O
float var: A; A, axis=1; A, correction=1.5; C, axis=(0, 2), keepdims=True; O
real max: A; A, axis=1; C, axis=(0, 2), keepdims=True; O
real min: A; A, axis=1; C, axis=(0, 2), keepdims=True; O
numeric cumulative_sum: V; A, axis=1; A, axis=-2; V, include_initial=True; Z, axis=0; A, axis=0, include_initial=True
numeric cumulative_prod: V; A, axis=1; A, axis=-2; V, include_initial=True; Z, axis=0
any count_nonzero: A; A, axis=1; C, axis=(0, 2); A, keepdims=True; Z; O
numeric diff: V; A; A, axis=0; A, n=2; A, n=0; V, prepend=V; A, axis=0, append=A
real argmax: A; A, axis=1; A, axis=0, keepdims=True; V; O; A, keepdims=True
real argmin: A; A, axis=1; A, axis=0, keepdims=True; V; O
any nonzero: A; V; Z; C
real searchsorted: xp.sort(V), V; xp.sort(V), A, side="right"; xp.sort(V), O
any where: M, A, A; M, A, O; M[0], A, V
real sort: A; A, axis=0; A, stable=False; Z; V
real argsort: A, stable=True; A, axis=0, stable=True; V, stable=True
any unique_values: I; Z
any unique_counts: I
any unique_inverse: I
any unique_all: I
any take: A, xp.asarray([0, 2]), axis=0; V, xp.asarray([3, 1, 1]); A, xp.asarray([[0, 1], [2, 2]]), axis=1
any take_along_axis: A, xp.asarray([[0, 2]]), axis=1; A, xp.asarray([[0, 2, 1, 0]]), axis=0
any broadcast_to: V, (3, 4); O, (2, 2); A, (2, 3, 4); Z, (1, 0, 3)
any broadcast_arrays: A, V; O, A; Z, O
any concat: (A, A); (A, A), axis=1; (A, V), axis=None; (Z, Z), axis=0
any stack: (A, A); (A, A), axis=-1; [V, V, V], axis=1
any unstack: A; A, axis=1; C, axis=-1
any expand_dims: A, axis=0; A, axis=-1; O, axis=0
any squeeze: A[:1], axis=0; C[:1, :, :1], axis=(0, 2); Z, axis=()
any flip: A; A, axis=0; C, axis=(0, -1); Z; O
any roll: A, 1; A, 2, axis=1; A, (1, -1), axis=(0, 1); Z, 1; V, -7
any reshape: A, (4, 3); A, (-1,); A, (2, -1); Z, (3, 0); O, (1, 1); A, (2, 6), copy=True
any permute_dims: A, (1, 0); C, (2, 0, 1); O, ()
any moveaxis: C, 0, -1; C, (0, 1), (1, 0)
any repeat: V, 2; A, 2, axis=1; V, xp.asarray([0, 1, 2, 1]); A, xp.asarray([1, 0, 2]), axis=0
any tile: V, (2,); A, (2, 1); A, (2, 1, 1); O, (3,); A, (2,)
any matrix_transpose: A; C; Z
numeric matmul: A, B; V, V; C, B; A, V; V, B; Z, xp.matrix_transpose(Z)
numeric vecdot: V, V; A, V; A, A, axis=0; C, A
numeric tensordot: A, B, axes=1; A, A; A, A, axes=((0, 1), (0, 1)); V, V, axes=0; A, B, axes=((1,), (0,))
numeric linalg.matmul: A, B
numeric linalg.vecdot: A, A
numeric linalg.tensordot: A, B, axes=1
any linalg.matrix_transpose: A
any linalg.diagonal: A; A, offset=1; C, offset=-1
numeric linalg.trace: A; C, offset=1; A, dtype=xp.float64
numeric linalg.outer: V, V
numeric linalg.cross: V[:3], V[:3]; A[:, :3], A[:, :3]; B, B, axis=-1
floating linalg.cholesky: P; P, upper=True
floating linalg.det: S; C[:, :2, :2]; P
floating linalg.inv: P
floating linalg.solve: P, S; P, V
float linalg.eigvalsh: P
floating linalg.matrix_norm: A; A, ord=1; A, ord="nuc"; C, ord=2; A, ord=float("inf"), keepdims=True; A, ord=-2
floating linalg.vector_norm: A; V, ord=1; A, axis=1, ord=3; A, ord=float("inf"); A, axis=(0, 1), keepdims=True; V, ord=0
floating linalg.matrix_power: P, 2; P, 0; P, -1
floating linalg.matrix_rank: A; P; C
floating linalg.pinv: A; P
floating linalg.slogdet: P; C[:, :2, :2]
floating linalg.svdvals: A; C
float astype: A, xp.float64; A, xp.float32; A, xp.int64; A, xp.complex128; A, xp.bool; A, xp.float64, copy=False
int astype: A, xp.float64; A, xp.int8; A, xp.bool; A, xp.complex64
bool astype: A, xp.float64; A, xp.int8; A, xp.bool
complex astype: A, xp.complex128; A, xp.complex64
real clip: A, 1, 2; A, None, V; A, V, None; A, None, None; V, O, None; O, 0, 1
any isin: A, V; A, V, invert=True
any empty_like: Z
any zeros_like: A; A, dtype=xp.int8; O
any ones_like: A; A, dtype=xp.complex64; Z
numeric full_like: A, 3; A, 3, dtype=xp.float64; O, 1
any tril: A; A, k=1; C, k=-1; Z
any triu: A; A, k=1; C, k=-1
real meshgrid: V, V; V, V[:2], indexing="ij"; V; O, V
any asarray: A; A, copy=True; A, dtype=xp.bool
complex fft.fft: V; A, axis=0; A, n=6; A, n=2, norm="ortho"; C, axis=1, norm="forward"
complex fft.ifft: V; A, axis=0; A, n=6; A, norm="ortho"
complex fft.fftn: A; C, axes=(0, 2); C, s=(2, 5), axes=(0, 1); A, norm="ortho"
complex fft.ifftn: A; C, axes=(0, 2); A, norm="forward"
float fft.rfft: V; A, axis=0; A, n=7; A, norm="forward"
complex fft.irfft: V; A, n=5; A, axis=0, n=4; A, norm="ortho"
float fft.rfftn: A; C, axes=(0, 2); C, s=(4, 4), axes=(1, 2)
complex fft.irfftn: A; C, axes=(0, 2); C, s=(4, 5), axes=(1, 2)
complex fft.hfft: V; A, n=5; A, axis=0, norm="ortho"
float fft.ihfft: V; A, n=5; A, axis=0, norm="forward"
floating fft.fftshift: V; A; A, axes=0
floating fft.ifftshift: V; A; A, axes=(0,)
"""
#: Calls without arrays.
CREATION = """
arange: 5; 1, 5; 5, 1, -2; 0, 1, 0.25; 3, dtype=xp.float32; 0; 5.0; 1, 2, dtype=xp.int8; -3, 3, 2
linspace: 0, 1, 5; 0, 1, num=5, endpoint=False; 0, 1, 1; 0, 5, 0; 1, 2, 3, dtype=xp.float32; 0, 1j, 3
eye: 3; 3, 4; 3, k=1; 2, 3, k=-1, dtype=xp.int8; 0; 4, 2, k=-5
zeros: 3; (2, 3); (); (0, 2); 2, dtype=xp.bool
ones: 3; (2, 3); (); (0, 2); 2, dtype=xp.complex64
empty: 0; (0, 2), dtype=xp.uint8
full: 3, 2; (2, 3), 1.5; (), True; 2, 1j; (2,), 3, dtype=xp.uint8; (0,), 1.0
asarray: 1; 1.5; True; 2j; [1, 2]; [[1.0, 2.0]]; [1, 2.5]; [True, False]
asarray: [1, 2j]; []; [1, 2], dtype=xp.float32; (1, (2))
can_cast: xp.int8, xp.int16; xp.float64, xp.float32; xp.bool, xp.int8
can_cast: xp.uint8, xp.int8; xp.float32, xp.complex64
isdtype: xp.int8, "integral"; xp.int8, "signed integer"; xp.uint8, "signed integer"; xp.float32, ("bool", "numeric")
isdtype: xp.complex64, "real floating"; xp.bool, "bool"; xp.int8, xp.int8
fft.fftfreq: 5; 4, d=0.5
fft.rfftfreq: 5; 4, d=0.5
broadcast_shapes: (2, 1), (3,); (), (0,)
"""
TABLE = [
    (*head.split(" "), call) for head, _, calls in (line.partition(": ") for line in CALLS.strip().splitlines())
    for call in calls.split("; ")
]  # fmt: skip
MADE = [
    (name, call) for name, _, calls in (line.partition(": ") for line in CREATION.strip().splitlines())
    for call in calls.split("; ")
]  # fmt: skip


def arrays(dtype: str) -> dict[str, Any]:
    random = np.random.default_rng(5)

    def drawn(*shape: int) -> Any:
        whole = random.permutation(np.arange(int(np.prod(shape)))).reshape(shape) % 7
        kind = np.dtype(dtype).kind
        if kind == "b":
            return whole % 2 == 0
        if kind in "iu":
            return whole.astype(dtype)
        made = whole - 2.75
        return (made + 1j * random.permutation(whole) if kind == "c" else made).astype(dtype)

    square = drawn(3, 3)
    definite = square
    if np.dtype(dtype).kind in "fc":
        definite = (square @ square.conj().T + 9 * np.eye(3)).astype(dtype)
    return {
        "A": drawn(3, 4), "B": drawn(4, 3), "S": square, "C": drawn(2, 3, 4), "V": drawn(4), "Z": drawn(0, 3),
        "O": np.array(drawn(1)[0]), "I": drawn(3, 4), "M": np.arange(12).reshape(3, 4) % 3 == 0,
        "P": definite,
    }  # fmt: skip


def called(path: str, call: str, space: Any, given: dict[str, Any]) -> Any:
    return silently(eval, f"function({call})", {"function": found_by(space, path), "xp": space, **given})


def is_there(path: str) -> bool:
    try:
        found_by(np, path)
    except AttributeError:
        return False
    return True


@pytest.mark.parametrize(("kind", "path", "call"), TABLE)
def test_functions(kind: str, path: str, call: str) -> None:
    if not is_there(path):
        pytest.skip(f"this NumPy has no {path}")
    for dtype in KINDS[kind]:
        given = arrays(dtype)
        if path.startswith("linalg.solve") and call == "P, V":
            given["V"] = given["V"][:3]
        theirs = called(path, call, np, given)
        ours = called(path, call, xp, {name: of(array) for name, array in given.items()})
        if path == "unique_values":  # in any order
            theirs = np.sort(theirs)
        if path == "linalg.slogdet":
            assert ours._fields == ("sign", "logabsdet")
        precise = np.dtype(dtype).kind in "biu" and not path.startswith(("fft", "linalg"))
        compare(ours, theirs, exact=precise, text=f"{path}({call}) of {dtype}")


@pytest.mark.parametrize(("path", "call"), MADE)
def test_creation(path: str, call: str) -> None:
    if not is_there(path):
        pytest.skip(f"this NumPy has no {path}")
    compare(called(path, call, xp, {}), called(path, call, np, {}), text=f"{path}({call})")


KEYS = [
    "0", "-1", "...", "()", "1, 2", "1, 2, 3", ":", "1:", "::-1", "1::2, 0", "..., 0", "0, ...", ":, None, 1", "None",
    "None, ...", "1:1", ":, -3:10", "5:2", "..., ::2, 1", "C > 0", "C[..., 0] > 0",
    "I3", "0, I3", "I3, I3", "I3, I3, I3",
    ":, I3", "..., I3", "I2[:, None], I3", "I0", "I3, 0, I3",
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_indexing(key: str) -> None:
    for dtype in ("int8", "float64", "complex64", "bool"):
        given = {**arrays(dtype), "I3": np.array([0, 1, 1]), "I2": np.array([1, 0]), "I0": np.array(1)}
        if "C" in key and dtype == "complex64":
            continue
        mine = {name: of(array) for name, array in given.items()}
        compare(eval(f"C[{key}]", mine), eval(f"C[{key}]", given), exact=True, text=key)
        for value in ("0", "C[0, 0, 0]"):
            before, after = dict(given, C=given["C"].copy()), dict(mine, C=of(given["C"]))
            exec(f"C[{key}] = {value}", before)
            exec(f"C[{key}] = {value}", after)
            compare(after["C"], before["C"], exact=True, text=key)


@pytest.mark.parametrize("key", ["2", "0, 3", "0, 0, -5", "0, 0, 0, 0", "I9"])
def test_indices_out_of_bounds(key: str) -> None:
    with pytest.raises(IndexError):
        eval(f"C[{key}]", {"C": of(np.zeros((2, 3, 4))), "I9": of([0, 9])})


def test_decompositions() -> None:
    for dtype in KINDS["floating"]:
        given = arrays(dtype)
        a, p = of(given["A"]), of(given["P"])
        bound = 1e-3 if np.finfo(dtype).bits == 32 else 1e-9
        q, r = xp.linalg.qr(a)
        assert xp.linalg.qr(a, mode="complete").Q.shape == (3, 3)
        gc.testing.assert_close(q @ r, a, rtol=bound, atol=bound)
        u, s, vh = xp.linalg.svd(a, full_matrices=False)
        gc.testing.assert_close((u * s) @ vh, a, rtol=bound, atol=bound)
        assert xp.linalg.svd(a).Vh.shape == (4, 4)
        w, v = xp.linalg.eigh(p)
        gc.testing.assert_close(p @ v, v * w, rtol=bound, atol=100 * bound)
        assert (xp.linalg.eigh(p)._fields, xp.linalg.qr(a)._fields) == (("eigenvalues", "eigenvectors"), ("Q", "R"))


def test_the_array() -> None:
    """Attributes and methods of the array object."""
    for shape in ((), (3,), (2, 0), (2, 3)):
        x = xp.zeros(shape)
        assert (x.ndim, tuple(x.shape), x.dtype, str(x.device)) == (len(shape), shape, xp.float64, "cpu")
        assert x.to_device(x.device) is not None
        if x.ndim == 2:
            assert (tuple(x.T.shape), tuple(x.mT.shape)) == (shape[::-1], shape[::-1])
    capsule = xp.ones(3).__dlpack__()
    assert type(capsule).__name__ == "PyCapsule"
    assert xp.ones(3).__dlpack_device__() == (1, 0)
    for dtype in KINDS["any"]:
        compare(xp.from_dlpack(values(dtype)), values(dtype))
        np.testing.assert_array_equal(np.from_dlpack(of(values(dtype))), values(dtype))
    with pytest.raises((BufferError, ValueError)):
        np.from_dlpack(xp.asarray(np.ones(3)), copy=False, device="cuda")
