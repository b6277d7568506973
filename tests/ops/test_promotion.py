"""The dtype of a result: what operands of several dtypes, numbers among them, are computed in."""

from __future__ import annotations

import operator
from typing import Any

import pytest

import gradcore as gc

ORDER = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
ORDER += ["complex64", "complex128"]
INTEGERS = ORDER[1:6]


def make(dtype: str, *shape: int) -> gc.Tensor:
    return gc.ones(shape or (2,), dtype=getattr(gc, dtype))


def scalar(dtype: str) -> gc.Tensor:
    return gc.ones((), dtype=getattr(gc, dtype))


def name(t: gc.Tensor) -> str:
    return str(t.dtype).removeprefix("torch.").removeprefix("gradcore.")


def join(a: str, b: str) -> str:
    """Return the smallest dtype that holds both."""
    pair = {a, b}
    if pair in ({"uint8", "int8"},):
        return "int16"
    if pair == {"float16", "bfloat16"}:
        return "float32"
    if pair == {"float64", "complex64"}:
        return "complex128"
    return max(pair, key=ORDER.index)


@pytest.mark.parametrize("a", ORDER)
@pytest.mark.parametrize("b", ORDER)
def test_tensors_with_dims(a: str, b: str) -> None:
    found = [make(a) + make(b), gc.mul(make(a), make(b)), gc.where(gc.tensor([True, False]), make(a), make(b))]
    assert [name(t) for t in found] == [join(a, b)] * 3
    assert gc.promote_types(getattr(gc, a), getattr(gc, b)) is getattr(gc, join(a, b))


def category(dtype: str) -> int:
    return sum(dtype not in names for names in (["bool"], ["bool", *INTEGERS], ORDER[:10]))


@pytest.mark.parametrize("dims", ORDER)
@pytest.mark.parametrize("zero", ORDER)
def test_tensor_without_dims(dims: str, zero: str) -> None:
    """Its category counts where that is the higher one, but floating-point numbers with dims keep their precision."""
    expected = dims if category(dims) >= category(zero) else join(dims, zero)
    if (category(dims), category(zero)) == (2, 3):
        expected = "complex128" if dims == "float64" else "complex64"
    assert name(make(dims) * scalar(zero)) == expected
    assert name(scalar(zero) * make(dims)) == expected


NUMBERS: list[tuple[str, Any, str]] = [
    ("bool", True, "bool"),
    ("bool", 2, "int64"),
    ("bool", 1.5, "float32"),
    ("bool", 2j, "complex64"),
    ("uint8", True, "uint8"),
    ("uint8", 2, "uint8"),
    ("int16", 1.5, "float32"),
    ("int64", 2j, "complex64"),
    ("float16", 2, "float16"),
    ("float16", 1.5, "float16"),
    ("bfloat16", 1e30, "bfloat16"),
    ("bfloat16", 2j, "complex64"),
    ("float32", 2, "float32"),
    ("float32", 1e300, "float32"),
    ("float32", 2j, "complex64"),
    ("float64", 1.5, "float64"),
    ("float64", 2j, "complex128"),
    ("complex64", 1.5, "complex64"),
    ("complex128", 2j, "complex128"),
]


@pytest.mark.parametrize(("dtype", "number", "expected"), NUMBERS)
@pytest.mark.parametrize("shape", [(2,), ()], ids=["dims", "zero-dims"])
def test_numbers(dtype: str, number: Any, expected: str, shape: tuple[int, ...]) -> None:
    t = gc.ones(shape, dtype=getattr(gc, dtype))
    assert [name(t * number), name(number * t), name(gc.mul(t, number)), name(t + number)] == [expected] * 4


@pytest.fixture
def double() -> Any:
    gc.set_default_dtype(gc.float64)
    yield
    gc.set_default_dtype(gc.float32)


@pytest.mark.usefixtures("double")
def test_the_default_dtype_is_that_of_integers_made_floating() -> None:
    t = make("int32")
    assert [name(t * 1.5), name(t / 2), name(gc.sin(t)), name(t * 2j)] == ["float64"] * 3 + ["complex128"]


@pytest.mark.parametrize("dtype", ORDER)
def test_division_of_integers_gives_floats(dtype: str) -> None:
    t = make(dtype)
    assert name(t / t) == (dtype if category(dtype) > 1 else "float32")


@pytest.mark.parametrize("dtype", ORDER[1:10])
@pytest.mark.parametrize("function", [operator.floordiv, operator.mod, gc.fmod])
def test_whole_quotients_keep_integers(dtype: str, function: Any) -> None:
    assert name(function(make(dtype), make(dtype))) == dtype


@pytest.mark.parametrize(
    ("a", "b", "floor", "remainder", "trunc", "fmod"),
    [(7, 2, 3, 1, 3, 1), (-7, 2, -4, 1, -3, -1), (7, -2, -4, -1, -3, 1), (-7, -2, 3, -1, 3, -1)],
)
def test_signs_of_whole_quotients(a: int, b: int, floor: int, remainder: int, trunc: int, fmod: int) -> None:
    for make_one in (int, float):
        x, y = gc.tensor([make_one(a)]), gc.tensor([make_one(b)])
        assert (x // y).item() == gc.div(x, y, rounding_mode="floor").item() == floor
        assert (x % y).item() == gc.remainder(x, y).item() == remainder
        assert gc.div(x, y, rounding_mode="trunc").item() == trunc
        assert gc.fmod(x, y).item() == fmod


@pytest.mark.parametrize("dtype", INTEGERS)
def test_division_of_integers_by_zero(dtype: str) -> None:
    t = make(dtype)
    for function in (operator.floordiv, operator.mod, gc.fmod):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            function(t, 0)
    assert (t / 0).tolist() == [float("inf")] * 2


COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


@pytest.mark.parametrize("compare", COMPARISONS)
@pytest.mark.parametrize("dtype", ORDER)
def test_comparisons_give_bools(dtype: str, compare: Any) -> None:
    if category(dtype) == 3 and compare not in (operator.eq, operator.ne):
        with pytest.raises(RuntimeError, match="not implemented for 'Complex"):
            compare(make(dtype), 1)
        return
    assert name(compare(make(dtype), 1)) == name(compare(make(dtype), make("int16"))) == "bool"
    assert compare(make(dtype), 1).tolist() == [compare(1, 1)] * 2


def test_comparisons_use_the_common_dtype() -> None:
    assert (gc.tensor([1]) < 1.5).tolist() == [True]
    assert (gc.tensor([16777217]) == gc.tensor([16777216.0])).tolist() == [True]  # equal in float32
    assert (gc.tensor([0.1], dtype=gc.float64) == 0.1).tolist() == [True]
    assert (gc.tensor([0.1]) == 0.1).tolist() == [True]  # the number takes the tensor's precision


IN_PLACE: list[tuple[str, Any, str, str]] = [
    ("int64", 1.5, "Float", "Long"),
    ("int64", gc.tensor(1.5), "Float", "Long"),
    ("int32", gc.tensor([1.5, 2.5], dtype=gc.float64), "Double", "Int"),
    ("uint8", 2j, "ComplexFloat", "Byte"),
    ("float32", 2j, "ComplexFloat", "Float"),
    ("float64", gc.tensor([1j, 2j]), "ComplexDouble", "Double"),
    ("bool", 2, "Long", "Bool"),
    ("bool", gc.tensor([1, 2], dtype=gc.int8), "Char", "Bool"),
    ("bool", 0.5, "Float", "Bool"),
]


@pytest.mark.parametrize(("dtype", "other", "source", "target"), IN_PLACE)
def test_in_place_refuses_a_lower_category(dtype: str, other: Any, source: str, target: str) -> None:
    t = make(dtype)
    before = t.tolist()
    with pytest.raises(RuntimeError, match=f"result type {source} can't be cast to the desired output type {target}"):
        t += other
    with pytest.raises(RuntimeError, match=f"result type {source} can't be cast to the desired output type {target}"):
        t.mul_(other)
    assert (t.tolist(), t._version) == (before, 0)


@pytest.mark.parametrize(
    ("dtype", "other"),
    [
        ("uint8", gc.tensor([1000, 2000])),
        ("float16", gc.tensor([1.0, 2.0], dtype=gc.float64)),
        ("float32", gc.tensor([1, 2])),
        ("complex64", gc.tensor([1.0, 2.0], dtype=gc.float64)),
        ("bool", True),
    ],
)
def test_in_place_keeps_the_dtype(dtype: str, other: Any) -> None:
    t = make(dtype)
    t *= other
    assert name(t) == dtype


def test_in_place_division_of_integers() -> None:
    t = gc.tensor([7, 8])
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        t /= 2
    t //= 2
    assert t.tolist() == [3, 4]


def test_in_place_result_must_fit_its_shape() -> None:
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        make("float32", 2).add_(make("float32", 3, 2))


POWERS: list[tuple[Any, Any, str, list[Any]]] = [
    (gc.tensor([2, 3]), 2, "int64", [4, 9]),
    (gc.tensor([2, 3], dtype=gc.uint8), 2, "uint8", [4, 9]),
    (gc.tensor([2, 3]), 0.5, "float32", [2**0.5, 3**0.5]),
    (gc.tensor([2, 3]), 2.0, "float32", [4, 9]),
    (gc.tensor([2, 3]), gc.tensor([3, 2], dtype=gc.int32), "int64", [8, 9]),
    (gc.tensor([1, -1, 2]), gc.tensor([-1, -3, -2]), "int64", [1, -1, 0]),
    (2, gc.tensor([3, 4]), "int64", [8, 16]),
    (2.0, gc.tensor([3, 4]), "float32", [8, 16]),
    (gc.tensor([True, False]), 2, "int64", [1, 0]),
    (gc.tensor([2.0, 3.0], dtype=gc.float16), 2, "float16", [4, 9]),
    (gc.tensor([4.0, 9.0]), gc.tensor(0.5, dtype=gc.float64), "float32", [2, 3]),
    (gc.tensor([2.0]), 2j, "complex64", [2.0**2j]),
]


@pytest.mark.parametrize(("base", "exponent", "dtype", "values"), POWERS)
def test_powers(base: Any, exponent: Any, dtype: str, values: list[Any]) -> None:
    found = base**exponent
    assert name(found) == dtype
    assert found.tolist() == pytest.approx(values, rel=1e-6)


def test_integers_have_no_negative_powers() -> None:
    with pytest.raises(RuntimeError, match="Integers to negative integer powers are not allowed"):
        gc.tensor([2, 3]) ** -1


FLOATING = [gc.sin, gc.exp, gc.sqrt, gc.sigmoid, gc.log1p, gc.erf, gc.reciprocal, gc.deg2rad]


@pytest.mark.parametrize("function", FLOATING, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ORDER[:10])
def test_functions_of_integers_give_floats(function: Any, dtype: str) -> None:
    assert name(function(make(dtype))) == (dtype if category(dtype) > 1 else "float32")


REDUCED: dict[str, Any] = {
    "sum": lambda d: "int64" if category(d) < 2 else d,
    "prod": lambda d: "int64" if category(d) < 2 else d,
    "cumsum": lambda d: "int64" if category(d) < 2 else d,
    "amax": lambda d: d,
    "argmax": lambda d: "int64",
    "any": lambda d: "uint8" if d == "uint8" else "bool",
    "count_nonzero": lambda d: "int64",
}


@pytest.mark.parametrize("function", REDUCED)
@pytest.mark.parametrize("dtype", ORDER[1:10])
def test_reductions(function: str, dtype: str) -> None:
    assert name(getattr(gc, function)(make(dtype), dim=0)) == REDUCED[function](dtype)


def test_mean_takes_no_integers() -> None:
    with pytest.raises(RuntimeError, match=r"mean\(\): could not infer output dtype. Input dtype must be either"):
        make("int64").mean()
    assert name(make("int64").mean(dtype=gc.float64)) == "float64"


@pytest.mark.parametrize(("function", "dtype", "expected"), [
    (abs, "complex64", "float32"),
    (abs, "complex128", "float64"),
    (abs, "int8", "int8"),
    (gc.angle, "complex128", "float64"),
    (gc.angle, "int32", "float32"),
    (gc.real, "complex64", "float32"),
    (gc.isnan, "float16", "bool"),
    (gc.sgn, "complex64", "complex64"),
])  # fmt: skip
def test_dtypes_of_one_operand(function: Any, dtype: str, expected: str) -> None:
    assert name(function(make(dtype))) == expected


WHERE: list[tuple[Any, Any, str]] = [
    (gc.tensor([1, 2]), 0.5, "float32"),
    (gc.tensor([1, 2], dtype=gc.int8), 7, "int8"),
    (gc.tensor([1.0, 2.0], dtype=gc.float16), gc.tensor([1.0, 2.0]), "float32"),
    (1, 2, "int64"),
    (1.0, 2, "float32"),
    (gc.tensor([1, 2]), gc.tensor(0.5, dtype=gc.float64), "float64"),
]


@pytest.mark.parametrize(("a", "b", "expected"), WHERE)
def test_where(a: Any, b: Any, expected: str) -> None:
    condition = gc.tensor([True, False])
    assert name(gc.where(condition, a, b)) == name(gc.where(condition, b, a)) == expected


def test_concatenation_promotes() -> None:
    assert name(gc.cat([make("int8"), make("uint8"), make("float16")])) == "float16"
    assert name(gc.stack([make("int32"), make("float64")])) == "float64"


def test_products_do_not_promote() -> None:
    with pytest.raises(RuntimeError, match="expected m1 and m2 to have the same dtype, but got: float != double"):
        make("float32", 2, 2) @ make("float64", 2, 2)


def test_gradients_have_the_dtype_of_their_inputs() -> None:
    x = gc.ones(2, dtype=gc.float16, requires_grad=True)
    y = gc.ones(2, dtype=gc.float64, requires_grad=True)
    z = gc.ones(2, dtype=gc.complex64, requires_grad=True)
    (x * y * z).abs().sum().backward()
    assert [name(t.grad) for t in (x, y, z)] == ["float16", "float64", "complex64"]


BEYOND = 1e300
OVERFLOWS: dict[str, Any] = {
    "a number": lambda t: t * BEYOND,
    "a number with float16": lambda t: t.half() * BEYOND,
    "rounding to float16": lambda t: (t * 1000).half() ** 2,
    "a product in float16": lambda t: (t * 1000).half().prod(),
    "data": lambda t: gc.tensor([BEYOND]),
    "a sequence": lambda t: gc.logspace(300, 301, 2),
    "a conversion": lambda t: (t.double() * BEYOND).float(),
    "mixed dtypes": lambda t: t.copy_(t.double() * BEYOND),
    "an assignment": lambda t: (t.__setitem__(slice(None), BEYOND), t)[1],
}


@pytest.mark.parametrize("make_one", OVERFLOWS.values(), ids=list(OVERFLOWS))
def test_what_lies_beyond_the_range_is_infinite_without_a_warning(make_one: Any) -> None:
    assert gc.isinf(make_one(gc.ones(3))).all()
