"""Every table of `gradcore.core.dtypes` against PyTorch's own, exhaustively."""

import itertools

import numpy as np
import pytest

from gradcore.core import dtypes as D

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

ALL = list(D.DTYPES.values())
FLOATING = [d for d in ALL if d.is_floating_point]
PAIRS = list(itertools.product(ALL, repeat=2))
SCALARS = [True, 3, 1.5, 2j]
each = pytest.mark.parametrize("d", ALL, ids=lambda d: d.name)
each_default = pytest.mark.parametrize("default", FLOATING, ids=lambda d: d.name)


def theirs(d):
    return getattr(torch, d.name)


def ours(torch_dtype):
    """Our type for theirs. We have no complex32; complex64 takes its place."""
    name = str(torch_dtype).removeprefix("torch.")
    return D.complex64 if name == "complex32" else D.DTYPES[name]


def operands(d):
    """Make a tensor with dimensions and one without, each with the keyword of `result_dtype` for it."""
    return [("dims", torch.zeros(2, dtype=theirs(d))), ("zero_dims", torch.zeros((), dtype=theirs(d)))]


@pytest.fixture
def set_default():
    def setter(d):
        torch.set_default_dtype(theirs(d))
        D.set_default_dtype(d)

    yield setter
    setter(D.float32)


def message(function, *args):
    """Call, and return the outcome as text: the result, or the error."""
    try:
        return str(function(*args))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def promoted(function, *args, **kwargs):
    """Return the dtype that a function returns, or the error where PyTorch promotes no wide unsigned integers."""
    try:
        found = function(*args, **kwargs)
    except RuntimeError as error:
        return str(error)
    return ours(found) if isinstance(found, torch.dtype) else found


@each
def test_attributes(d):
    t = theirs(d)
    assert (repr(d), str(d)) == (repr(t), str(t))
    for name in ("itemsize", "is_floating_point", "is_complex", "is_signed"):
        assert getattr(d, name) == getattr(t, name), name
    assert d.to_real() is ours(t.to_real())
    if d.category < 2:
        assert message(d.to_complex) == message(t.to_complex)
    else:
        assert d.to_complex() is ours(t.to_complex())


@each
def test_scalar_name_is_the_one_in_error_messages(d):
    for a, b in ((d, D.bool_), (D.complex128, d)):
        if not D.can_cast(a, b):
            expected = f"result type {a.scalar_name} can't be cast to the desired output type {b.scalar_name}"
            unsigned = d.name in ("uint16", "uint32", "uint64")  # which PyTorch refuses before it casts
            with pytest.raises(RuntimeError, match=f"of type|Promotion|{expected}" if unsigned else expected):
                torch.zeros(2, dtype=theirs(b)).add_(torch.zeros(2, dtype=theirs(a)))


def test_public_names():
    for name, d in (D.DTYPES | D.ALIASES).items():
        assert getattr(torch, name) is theirs(d)
    known = {theirs(d) for d in ALL}
    names = {name for name, value in vars(torch).items() if isinstance(value, torch.dtype) and value in known}
    assert names == set(D.DTYPES) | set(D.ALIASES)


@each_default
def test_python_types(default, set_default):
    set_default(default)
    for python_type in (bool, int, float, complex):
        assert D.as_dtype(python_type) is ours(torch.zeros(1, dtype=python_type).dtype)


@pytest.mark.parametrize("d", [d for d in ALL if d is not D.bfloat16], ids=lambda d: d.name)
def test_from_numpy(d):
    assert D.from_numpy(d.numpy) is ours(torch.from_numpy(np.zeros(1, d.numpy)).dtype)


@pytest.mark.parametrize("name", ["object", "str", "longdouble", "datetime64[s]", ">f4"])
def test_from_numpy_errors(name):
    array = np.zeros(1, name)
    stem = message(torch.from_numpy, array).partition(" The only supported types are")[0]
    assert message(D.from_numpy, array.dtype).startswith(stem)


@each
def test_set_default_dtype(d, set_default):
    if d.is_floating_point:
        set_default(d)
        assert D.get_default_dtype() is ours(torch.get_default_dtype()) is ours(torch.tensor(1.0).dtype)
    else:
        assert message(D.set_default_dtype, d) == message(torch.set_default_dtype, theirs(d))


def test_set_default_dtype_of_other_objects():
    for wrong in (3, float, None):
        assert message(D.set_default_dtype, wrong) == message(torch.set_default_dtype, wrong)


def test_promote_types():
    for a, b in PAIRS:
        assert promoted(D.promote_types, a, b) == promoted(torch.promote_types, theirs(a), theirs(b)), (a, b)


def test_can_cast():
    for a, b in PAIRS:
        assert D.can_cast(a, b) == torch.can_cast(theirs(a), theirs(b)), (a, b)


@each_default
def test_result_of_two_tensors(default, set_default):
    set_default(default)
    for a, b in PAIRS:
        for (kind_a, tensor_a), (kind_b, tensor_b) in itertools.product(operands(a), operands(b)):
            types = {"dims": [], "zero_dims": []}
            types[kind_a].append(a)
            types[kind_b].append(b)
            expected = promoted(torch.result_type, tensor_a, tensor_b)
            if D.bool_ in (a, b) and isinstance(expected, str) and kind_a != kind_b:
                continue  # bools beside one wide unsigned integer: PyTorch promotes them in operations
            assert promoted(D.result_dtype, **types) == expected, (kind_a, a, kind_b, b)


@each_default
def test_result_of_tensor_and_scalar(default, set_default):
    set_default(default)
    for d, scalar in itertools.product(ALL, SCALARS):
        for kind, tensor in operands(d):
            expected = promoted(torch.result_type, tensor, scalar)
            assert promoted(torch.result_type, scalar, tensor) == expected
            assert promoted(D.result_dtype, **{kind: [d]}, scalars=[scalar]) == expected, (kind, d, scalar)
            assert promoted(D.result_dtype, **{kind: [d]}, scalars=[type(scalar)]) == expected, (kind, d, scalar)


@each_default
def test_result_of_two_scalars(default, set_default):
    set_default(default)
    for a, b in itertools.product(SCALARS, repeat=2):
        assert D.result_dtype(scalars=[a, b]) is ours(torch.result_type(a, b)), (a, b)


@pytest.mark.parametrize("scalar", [np.float32(1), np.float64(1), np.int16(1), np.uint8(1)], ids=lambda s: s.dtype.name)
def test_result_of_tensor_and_numpy_scalar(scalar):
    for d in ALL:
        for kind, tensor in operands(d):
            expected = promoted(torch.result_type, tensor, scalar)
            assert promoted(D.result_dtype, **{kind: [d]}, scalars=[scalar]) == expected, (kind, d)


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_result_of_three_tensors():
    """On the meta device an operation with three operands only promotes."""
    small = [d for d in ALL if d.name not in ("uint16", "uint32", "uint64")]
    for a, b, c in itertools.product(small, repeat=3):
        first, third = (torch.empty(shape, dtype=theirs(d), device="meta") for shape, d in ((2, a), ((), c)))
        for shape, types in ((2, ([a, b], [c])), ((), ([a], [b, c]))):
            second = torch.empty(shape, dtype=theirs(b), device="meta")
            expected = ours(torch.addcmul(first, second, third).dtype)
            assert D.result_dtype(*types) is expected, types


def limits(info):
    """Collect all public attributes, with their types."""
    names = [name for name in dir(info) if not name.startswith("_")]
    return {name: (type(getattr(info, name)), getattr(info, name)) for name in names}


@each
@pytest.mark.parametrize("function", ["finfo", "iinfo"])
def test_limits(function, d):
    our_info, their_info = getattr(D, function), getattr(torch, function)
    expected = message(their_info, theirs(d))
    if "TypeError" in expected:
        # PyTorch's message ends in the function's name where it means the type's.
        stem = expected.partition(" to handle ")[0]
        assert message(our_info, d).startswith(stem)
    else:
        assert repr(our_info(d)) == expected
        assert limits(our_info(d)) == limits(their_info(theirs(d)))


@each_default
def test_limits_of_the_default(default, set_default):
    set_default(default)
    assert repr(D.finfo()) == repr(torch.finfo())


def test_limits_compare_as_pytorchs():
    for (a, b), (our_info, their_info) in itertools.product(PAIRS, [(D.finfo, torch.finfo), (D.iinfo, torch.iinfo)]):
        try:
            expected = their_info(theirs(a)) == their_info(theirs(b))
        except TypeError:
            continue
        assert (our_info(a) == our_info(b)) is expected
