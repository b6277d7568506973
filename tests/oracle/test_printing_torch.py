"""Printing: random tensors under random options print as PyTorch prints them, character for character."""

import numpy as np
import pytest

from gradcore.tensor import printing

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

NUMPY_DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]
# NumPy has these through ml_dtypes only; the integer dtype is used to carry their bits over.
ML_DTYPES = {"bfloat16": "int16", "float8_e4m3fn": "int8", "float8_e5m2": "int8"}
CASES_PER_TEST = 30


def real_values(rng, size):
    """Draw float64 values of one of the kinds that printing tells apart, some with specials mixed in."""
    normal = rng.standard_normal(size)
    whole = rng.integers(-50, 50, size).astype(float)
    kinds = [
        normal,
        whole,
        rng.integers(0, 10, size).astype(float),
        np.zeros(size),
        whole / 2,
        whole * 10.0 ** rng.integers(0, 9),
        normal * 10.0 ** rng.integers(-12, 12),
        normal * 10.0 ** rng.integers(-3, 3, size),
        np.sign(normal) * 10.0 ** rng.integers(-6, 6, size),
        np.sign(normal) * 10.0 ** rng.uniform(-300, 300, size),
        rng.choice([1.0, 1000.0, 1001.0, 999.5, 1e-4, 9.9e-5, 1e8, 1e8 + 8], size),
        rng.choice([1.0, 1000.0], size) * rng.choice([0.5, 1.0]),
        rng.choice([0.99995, 9.99995, 99.99995, 0.00005, 0.5, 2.5], size),
    ]
    values = kinds[rng.integers(len(kinds))]
    if rng.random() < 0.4:
        specials = rng.choice([np.inf, -np.inf, np.nan, 0.0, -0.0], size)
        values = np.where(rng.random(size) < rng.choice([0.1, 0.5, 1.0]), specials, values)
    return values


def random_array(rng, dtype, shape):
    size = int(np.prod(shape))
    if dtype == "bool":
        return (rng.random(shape) < rng.random()).reshape(shape)
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        high = min(info.max, 10 ** int(rng.integers(1, 20)))
        low = max(info.min, -high if rng.random() < 0.7 else 0)
        return rng.integers(low, high, shape, dtype=dtype, endpoint=True)
    with np.errstate(over="ignore"):
        values = real_values(rng, size)
        if np.dtype(dtype).kind == "c":
            complex_values = np.empty(size, dtype)
            complex_values.real, complex_values.imag = values, real_values(rng, size)
            values = complex_values
        return values.astype(dtype).reshape(shape)


def random_shape(rng):
    shapes = [
        lambda: (),
        lambda: (rng.integers(0, 40),),
        lambda: rng.integers(0, 6, rng.integers(2, 4)),
        lambda: rng.integers(1, 12, 2),
        lambda: rng.integers(1, 4, rng.integers(4, 7)),
        lambda: (rng.integers(990, 1500),),
        lambda: (rng.integers(998, 1003),),
        lambda: (rng.integers(1, 9), rng.integers(150, 1200)),
        lambda: rng.integers(5, 13, 3),
        lambda: (rng.integers(2, 9), 1, rng.integers(5, 9), 7, 3),
    ]
    return tuple(int(size) for size in shapes[rng.integers(len(shapes))]())


def random_options(rng):
    options = {
        "precision": lambda: int(rng.integers(0, 9)),
        "threshold": lambda: int(rng.choice([0, 5, 30, 200])),
        "edgeitems": lambda: int(rng.integers(0, 6)),
        "linewidth": lambda: int(rng.choice([1, 20, 40, 79, 81, 120, 200])),
        "profile": lambda: str(rng.choice(["default", "short", "full"])),
        "sci_mode": lambda: bool(rng.integers(2)),
    }
    return {name: draw() for name, draw in options.items() if rng.random() < 0.25}


def pair(rng, dtype):
    """Return the same random values as a NumPy array and as a tensor of `dtype`."""
    shape = random_shape(rng)
    if dtype not in ML_DTYPES:
        array = random_array(rng, dtype, shape)
        return array, torch.from_numpy(np.array(array))
    ml_dtypes = pytest.importorskip("ml_dtypes")
    tensor = torch.from_numpy(np.array(random_array(rng, "float32", shape))).to(getattr(torch, dtype))
    bits = tensor.view(getattr(torch, ML_DTYPES[dtype])).numpy()
    return bits.view(getattr(ml_dtypes, dtype)), tensor


def our_text(array, tensor, suffixes=()):
    name, default = str(tensor.dtype), str(torch.get_default_dtype())
    shown = name if printing.shows_dtype(name, default, tensor.numel()) else None
    return printing.tensor_str(array, dtype_name=shown, suffixes=suffixes)


@pytest.fixture(params=["float32", "float64", "float16"])
def default_dtype(request):
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, request.param))
    yield
    torch.set_default_dtype(before)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("dtype", [*NUMPY_DTYPES, *ML_DTYPES])
def test_default_options(dtype, seed):
    rng = np.random.default_rng([seed, *dtype.encode()])
    for _ in range(CASES_PER_TEST):
        array, tensor = pair(rng, dtype)
        assert our_text(array, tensor) == repr(tensor)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("dtype", [*NUMPY_DTYPES, *ML_DTYPES])
def test_random_options(dtype, seed):
    rng = np.random.default_rng([2, seed, *dtype.encode()])
    for _ in range(CASES_PER_TEST):
        array, tensor = pair(rng, dtype)
        options = random_options(rng)
        with printing.printoptions(**options), torch._tensor_str.printoptions(**options):
            assert printing.get_printoptions() == torch._tensor_str.get_printoptions()
            assert our_text(array, tensor) == repr(tensor), (options, tensor.shape)


@pytest.mark.parametrize("dtype", [name for name in NUMPY_DTYPES if name.startswith(("float", "complex"))])
def test_suffixes(dtype):
    rng = np.random.default_rng([*dtype.encode()])
    for _ in range(CASES_PER_TEST):
        array, tensor = pair(rng, dtype)
        with (
            printing.printoptions(**(options := random_options(rng))),
            torch._tensor_str.printoptions(**options),
        ):
            leaf = tensor.requires_grad_()
            assert our_text(array, leaf, ["requires_grad=True"]) == repr(leaf)
            result = leaf.view_as(leaf)
            assert our_text(array, result, ["grad_fn=<ViewBackward0>"]) == repr(result)


@pytest.mark.usefixtures("default_dtype")
@pytest.mark.parametrize("shape", [(2,), (0,), (0, 3)])
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_dtypes_that_are_shown(dtype, shape):
    array = np.zeros(shape, dtype)
    tensor = torch.from_numpy(array)
    assert our_text(array, tensor) == repr(tensor)
    tensor = tensor.to("meta")
    name = str(tensor.dtype)
    shown = name if printing.shows_dtype(name, str(torch.get_default_dtype()), 0) else None
    assert printing.meta_str(shape, shown) == repr(tensor)


def test_strided_views_and_subclasses():
    class Weight(torch.Tensor):
        pass

    array = np.arange(4000.0).reshape(50, 80).T[::3, ::-2]
    tensor = torch.from_numpy(array.copy())
    assert our_text(array, tensor) == repr(tensor)
    text = printing.tensor_str(array, indent_prefix="Weight(", dtype_name="torch.float64")
    assert text == repr(tensor.as_subclass(Weight))
