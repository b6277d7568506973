"""Data types: identity, conversion, defaults, promotion, limits. PyTorch's own tables: oracle/."""

import copy
import enum
import itertools
import pickle
import subprocess
import sys

import numpy as np
import pytest

from gradcore.core import dtypes as D
from tests.imports import ROOT

ALL = list(D.DTYPES.values())
IN_NUMPY = [d for d in ALL if d is not D.bfloat16]
WIDE_UNSIGNED = [D.uint16, D.uint32, D.uint64]
PROMOTED = [d for d in ALL if d not in WIDE_UNSIGNED]
each = pytest.mark.parametrize("d", ALL, ids=lambda d: d.name)


@pytest.fixture(autouse=True)
def restore_default():
    before = D.get_default_dtype()
    yield
    D.set_default_dtype(before)


def run_python(code: str) -> None:
    """Run in a fresh interpreter, since what has been imported is part of the behaviour."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


# Identity


@each
def test_one_object_per_type(d):
    assert copy.copy(d) is d
    assert copy.deepcopy([d])[0] is d
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(d, protocol)) is d
    assert [other for other in ALL if other == d] == [d]


@each
def test_prints_as_pytorch(d):
    assert repr(d) == str(d) == f"torch.{d.name}"


@each
def test_is_immutable(d):
    for name in ("name", "numpy", "new"):
        with pytest.raises(AttributeError, match="not writable"):
            setattr(d, name, 1)
    with pytest.raises(AttributeError, match="not writable"):
        del d.name
    with pytest.raises(AttributeError, match="nonsense"):
        d.nonsense  # noqa: B018


def test_is_final():
    with pytest.raises(TypeError, match=r"cannot create 'gradcore\.dtype' instances"):
        D.dtype()
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("mine", (D.dtype,), {})


def test_public_names():
    for name, d in (D.DTYPES | D.ALIASES).items():
        assert isinstance(d, D.dtype), name
    assert D.ALIASES["bool"] is D.bool_
    assert not hasattr(D, "bool")  # Python's, inside the module
    for name in set(D.DTYPES) - {"bool"}:
        assert getattr(D, name) is D.DTYPES[name]
    assert set(D.__all__) <= set(vars(D))


# Attributes


@pytest.mark.parametrize("d", IN_NUMPY, ids=lambda d: d.name)
def test_attributes_agree_with_numpy(d):
    assert d.numpy == np.dtype(d.name)
    assert d.itemsize == d.numpy.itemsize
    assert d.category == "biufc".index(d.numpy.kind) - (d.numpy.kind in "ufc")
    assert d.is_floating_point == (d.numpy.kind == "f")
    assert d.is_complex == (d.numpy.kind == "c")
    assert d.is_signed == (d.numpy.kind in "ifc")
    assert d.is_reduced == (d is D.float16)


def test_attributes_of_bfloat16():
    d = D.bfloat16
    assert (d.itemsize, d.category) == (2, 2)
    assert (d.is_floating_point, d.is_complex, d.is_signed, d.is_reduced) == (True, False, True, True)


def test_real_and_complex_counterparts():
    assert [d for d in ALL if d.to_real() is not d] == [D.complex64, D.complex128]
    assert D.complex64.to_real() is D.float32
    assert D.complex128.to_real() is D.float64
    for d in (D.float16, D.bfloat16, D.float32, D.complex64):
        assert d.to_complex() is D.complex64
    for d in (D.float64, D.complex128):
        assert d.to_complex() is D.complex128
    with pytest.raises(RuntimeError, match="Unknown Complex ScalarType for Long"):
        D.int64.to_complex()


# Conversion


@pytest.mark.parametrize("d", IN_NUMPY, ids=lambda d: d.name)
def test_every_spelling(d):
    spellings = [d, d.numpy, d.numpy.type, d.name, f"torch.{d.name}", str(d)]
    assert [D.as_dtype(s) for s in spellings] == [d] * len(spellings)
    assert D.from_numpy(d.numpy) is d
    assert D.FROM_NUMPY[d.numpy] is d


def test_c_integers_are_the_sized_ones():
    for c_type in "bhilqBp":
        numpy_dtype = np.dtype(c_type)
        if numpy_dtype.name in D.DTYPES:
            assert D.from_numpy(numpy_dtype) is D.DTYPES[numpy_dtype.name]
    assert D.from_numpy(np.dtype(np.longlong)) is D.int64


def test_python_types_ignore_the_default():
    for default in (D.float32, D.float16):
        D.set_default_dtype(default)
        assert D.as_dtype(bool) is D.bool_
        assert D.as_dtype(int) is D.int64
        assert D.as_dtype(float) is D.float64
        assert D.as_dtype(complex) is D.complex128


@pytest.mark.parametrize(
    "x", ["float", "np.float32", "", None, 3, 1.5, str, object, np.float32(1), [D.float32]], ids=repr
)
def test_not_a_dtype(x):
    with pytest.raises(TypeError, match="dtype must be a gradcore dtype"):
        D.as_dtype(x)


@pytest.mark.parametrize("name", ["object", "str", "datetime64", "V4"])
def test_unsupported_numpy_type(name):
    numpy_dtype = np.dtype(name)
    pattern = rf"can't convert np.ndarray of type numpy.{numpy_dtype.type.__name__}. The only supported types are: "
    with pytest.raises(TypeError, match=pattern) as caught:
        D.from_numpy(numpy_dtype)
    assert all(d.name in str(caught.value) for d in IN_NUMPY)
    with pytest.raises(TypeError, match=pattern):
        D.as_dtype(numpy_dtype)


def test_foreign_byte_order():
    foreign = np.dtype(np.float32).newbyteorder("S")
    with pytest.raises(ValueError, match="byte order different from the native byte order"):
        D.from_numpy(foreign)


def test_bfloat16_through_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert D.bfloat16.numpy == np.dtype(ml_dtypes.bfloat16)
    assert D.bfloat16.numpy is D.bfloat16.numpy
    assert D.as_dtype(ml_dtypes.bfloat16) is D.bfloat16
    assert D.FROM_NUMPY[D.bfloat16.numpy] is D.bfloat16


def test_bfloat16_array_made_before_gradcore_used_it():
    pytest.importorskip("ml_dtypes")
    run_python("""if True:
        import ml_dtypes, numpy as np
        from gradcore import dtypes as D
        assert D.from_numpy(np.zeros(1, ml_dtypes.bfloat16).dtype) is D.bfloat16
    """)


def test_other_small_floats_are_not_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with pytest.raises(TypeError, match=r"can't convert np\.ndarray of type ml_dtypes\.float8_e5m2"):
        D.from_numpy(np.dtype(ml_dtypes.float8_e5m2))


def test_ml_dtypes_is_imported_only_when_needed():
    run_python("""if True:
        import sys
        from gradcore import dtypes as D
        D.finfo(D.bfloat16), D.promote_types(D.bfloat16, D.float32), D.as_dtype("bfloat16"), hash(D.bfloat16)
        assert "ml_dtypes" not in sys.modules
    """)


def test_missing_ml_dtypes_is_explained():
    run_python("""if True:
        import sys
        sys.modules["ml_dtypes"] = None  # importing it fails
        from gradcore import dtypes as D
        try:
            D.bfloat16.numpy
        except ImportError as error:
            assert "pip install ml_dtypes" in str(error)
        else:
            raise AssertionError("no error")
    """)


# Defaults


def test_default_dtype():
    assert (D.get_default_dtype(), D.default_complex()) == (D.float32, D.complex64)
    for d in (D.float16, D.bfloat16, D.float32, D.float64):
        D.set_default_dtype(d)
        assert D.get_default_dtype() is D.scalar_dtype(1.5) is d
        assert D.default_complex() is D.scalar_dtype(1j) is d.to_complex()
        assert D.scalar_dtype(1) is D.int64
        assert D.scalar_dtype(True) is D.bool_


@pytest.mark.parametrize("d", [D.int32, D.bool_, D.complex64, float, "float32", np.float32, None], ids=repr)
def test_default_dtype_must_be_floating(d):
    with pytest.raises(TypeError, match="only floating-point types are supported as the default type"):
        D.set_default_dtype(d)
    assert D.get_default_dtype() is D.float32


def test_scalars_of_every_kind():
    class Colour(enum.IntEnum):
        RED = 1

    assert [D.scalar_dtype(t) for t in (bool, int, float, complex)] == [
        D.bool_,
        D.int64,
        D.float32,
        D.complex64,
    ]
    assert D.scalar_dtype(Colour.RED) is D.int64
    assert D.scalar_dtype(np.bool_(True)) is D.bool_
    assert D.scalar_dtype(np.uint16(3)) is D.int64
    assert D.scalar_dtype(np.float64(1)) is D.scalar_dtype(np.float16(1)) is D.float32
    assert D.scalar_dtype(np.complex128(1)) is D.complex64
    for wrong in ("1", None, [1], str):
        with pytest.raises(TypeError, match="expected a number"):
            D.scalar_dtype(wrong)


# Promotion

PROMOTION = """
b    u8   i8   i16  i32  i64  f16  bf   f32  f64  c64  c128
u8   u8   i16  i16  i32  i64  f16  bf   f32  f64  c64  c128
i8   i16  i8   i16  i32  i64  f16  bf   f32  f64  c64  c128
i16  i16  i16  i16  i32  i64  f16  bf   f32  f64  c64  c128
i32  i32  i32  i32  i32  i64  f16  bf   f32  f64  c64  c128
i64  i64  i64  i64  i64  i64  f16  bf   f32  f64  c64  c128
f16  f16  f16  f16  f16  f16  f16  f32  f32  f64  c64  c128
bf   bf   bf   bf   bf   bf   f32  bf   f32  f64  c64  c128
f32  f32  f32  f32  f32  f32  f32  f32  f32  f64  c64  c128
f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  c128 c128
c64  c64  c64  c64  c64  c64  c64  c64  c64  c128 c64  c128
c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128
"""


def test_promotion_table():
    rows = [line.split() for line in PROMOTION.strip().splitlines()]
    by_short_name = dict(zip(rows[0], PROMOTED, strict=True))  # bool promotes to the other type
    expected = [[by_short_name[word] for word in row] for row in rows]
    assert [[D.promote_types(a, b) for b in PROMOTED] for a in PROMOTED] == expected


def test_promotion_is_associative():
    for a, b, c in itertools.product(PROMOTED, repeat=3):
        assert D.promote_types(D.promote_types(a, b), c) is D.promote_types(a, D.promote_types(b, c))


def test_wide_unsigned_integers_are_promoted_with_floating_point_types_alone():
    for a, b in itertools.product(WIDE_UNSIGNED, ALL):
        if a is b or b.is_floating_point:
            assert D.promote_types(a, b) is D.promote_types(b, a) is b
            continue
        for pair in ((a, b), (b, a)):
            with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64 types is not supported"):
                D.promote_types(*pair)


def test_promotion_and_casting_take_every_spelling():
    assert D.promote_types(float, "int32") is D.float64
    assert D.can_cast("int32", float)
    for function in (D.promote_types, D.can_cast):
        with pytest.raises(TypeError, match="dtype must be a gradcore dtype"):
            function(D.int32, 2)
        with pytest.raises(TypeError, match="dtype must be a gradcore dtype"):
            function([], D.int32)


def test_can_cast_follows_the_category():
    for a, b in itertools.product(PROMOTED, repeat=2):
        assert D.can_cast(a, b) == (D.promote_types(a, b).category == b.category)


@pytest.mark.parametrize(
    ("dims", "zero_dims", "scalars", "expected"),
    [
        ([D.int32, D.float16, D.bfloat16], [], [], D.float32),
        ([D.uint8], [D.int64], [7], D.uint8),
        ([D.float16], [D.float64], [1.5], D.float16),
        ([D.bool_], [D.int8], [7], D.int8),
        ([D.bool_], [], [7], D.int64),
        ([D.int32], [], [1.5], D.float32),
        ([D.int32], [D.float64], [1.5], D.float64),
        ([], [D.float16], [1.5], D.float16),
        ([D.int32], [], [1j], D.complex64),
        ([D.float32], [D.complex128], [1j], D.complex64),
        ([D.float64], [D.complex64], [], D.complex128),
        ([D.float64], [], [1j], D.complex128),
        ([D.float16], [], [1j], D.complex64),
        ([D.int32], [D.float64], [1j], D.complex128),
        ([], [], [True, 2, 3.0], D.float32),
        ([], [], [bool, int], D.int64),
    ],
)
def test_result_dtype(dims, zero_dims, scalars, expected):
    assert D.result_dtype(dims, zero_dims, scalars) is expected
    assert D.result_dtype(iter(dims), iter(zero_dims), iter(scalars)) is expected


def test_result_dtype_follows_the_default():
    D.set_default_dtype(D.float64)
    assert D.result_dtype([D.int32], scalars=[1.5]) is D.float64
    assert D.result_dtype([D.int32], scalars=[1j]) is D.complex128
    assert D.result_dtype([D.float32], scalars=[1.5]) is D.float32


def test_result_dtype_of_nothing():
    with pytest.raises(ValueError, match="at least one operand"):
        D.result_dtype()


# Limits


@pytest.mark.parametrize("d", [D.float16, D.float32, D.float64, D.complex64, D.complex128], ids=lambda d: d.name)
def test_finfo_agrees_with_numpy(d):
    ours, numpys = D.finfo(d), np.finfo(d.numpy)
    for name in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution"):
        assert np.dtype(numpys.dtype).type(getattr(ours, name)) == getattr(numpys, name), name
    assert ours.dtype == d.to_real().name


def test_finfo_agrees_with_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    ours, theirs = D.finfo(D.bfloat16), ml_dtypes.finfo("bfloat16")
    for name in ("bits", "eps", "max", "min", "tiny", "smallest_normal"):
        assert getattr(ours, name) == float(getattr(theirs, name)), name


@pytest.mark.parametrize("d", [D.uint8, D.int8, D.int16, D.int32, D.int64, *WIDE_UNSIGNED], ids=lambda d: d.name)
def test_iinfo_agrees_with_numpy(d):
    ours, numpys = D.iinfo(d), np.iinfo(d.numpy)
    assert (ours.bits, ours.min, ours.max, ours.dtype) == (numpys.bits, numpys.min, numpys.max, d.name)


def test_limits_print_as_pytorch():
    assert repr(D.finfo(D.float16)) == (
        "finfo(resolution=0.001, min=-65504, max=65504, eps=0.000976562, smallest_normal=6.10352e-05, "
        "tiny=6.10352e-05, dtype=float16)"
    )
    assert repr(D.iinfo(D.int32)) == "iinfo(min=-2.14748e+09, max=2.14748e+09, dtype=int32)"


def test_limits_compare_by_type():
    assert D.finfo() == D.finfo(D.float32) == D.finfo(D.complex64)
    assert D.finfo(D.float32) != D.finfo(D.float64)
    assert D.iinfo(D.int8) == D.iinfo(D.int8) != D.iinfo(D.uint8)
    assert D.iinfo(D.int8) != "int8"
    with pytest.raises(TypeError, match="unhashable"):
        hash(D.finfo())


def test_limits_of_the_wrong_category():
    for d in (D.bool_, D.int32):
        with pytest.raises(TypeError, match=r"requires a floating point input type\. Use torch\.iinfo to handle"):
            D.finfo(d)
    for d in (D.float32, D.complex64):
        with pytest.raises(TypeError, match=r"requires an integer input type\. Use torch\.finfo to handle"):
            D.iinfo(d)
    with pytest.raises(TypeError, match=r"torch\.bool is not supported by torch\.iinfo"):
        D.iinfo(D.bool_)
    with pytest.raises(TypeError, match="dtype must be a gradcore dtype"):
        D.finfo(3)
