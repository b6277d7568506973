"""Warnings: from the user's line, once in a process or each time, and errors where a filter makes errors of them."""

import itertools
import warnings

import numpy as np
import pytest

import gradcore as gc


def _read_only():
    array = np.ones(3)
    array.flags.writeable = False
    return array


COMPLEX = {
    "to": lambda: gc.ones(3, dtype=gc.complex64).to(gc.float32),
    "float": lambda: gc.ones(3, dtype=gc.complex64).float(),
    "int": lambda: gc.ones(3, dtype=gc.complex128).int(),
    "type": lambda: gc.ones(3, dtype=gc.complex64).type(gc.float64),
    "half": lambda: gc.ones(3, dtype=gc.complex64).half(),
    "copy_": lambda: gc.ones(3).copy_(gc.ones(3, dtype=gc.complex64)),
    "setitem": lambda: gc.ones(3).__setitem__(0, gc.ones((), dtype=gc.complex64)),
    "sum": lambda: gc.ones(3, dtype=gc.complex64).sum(dtype=gc.float32),
    "mean": lambda: gc.ones(3, dtype=gc.complex64).mean(dtype=gc.float32),
}
ONCE = {
    **{f"complex: {name}": call for name, call in COMPLEX.items()},
    "T": lambda: gc.ones(2, 3, 4).T,
    "T of a scalar": lambda: gc.ones(()).T,
    "mT of a scalar": lambda: gc.ones(()).mT,
    "H of a scalar": lambda: gc.ones(()).H,
    "mH of a scalar": lambda: gc.ones(()).mH,
    "meshgrid": lambda: gc.meshgrid(gc.ones(2), gc.ones(3)),
    "from_numpy": lambda: gc.from_numpy(_read_only()),
    "as_tensor": lambda: gc.as_tensor(_read_only()),
    "asarray": lambda: gc.asarray(_read_only()),
    "frombuffer": lambda: gc.frombuffer(b"12345678", dtype=gc.float32),
    "cross": lambda: gc.cross(gc.ones(3), gc.ones(3)),
    "bytes as a condition": lambda: gc.where(gc.ones(3, dtype=gc.uint8), 1.0, gc.zeros(3)),
    "bytes as a method's condition": lambda: gc.ones(3).where(gc.ones(3, dtype=gc.uint8), gc.zeros(3)),
}
EACH_TIME = {
    "std": lambda: gc.ones(1).std(),
    "cov": lambda: gc.cov(gc.ones(1)),
    "bytes": lambda: gc.ones(3)[gc.ones(3, dtype=gc.uint8)],
    "bytes written to": lambda: gc.ones(3).__setitem__(gc.ones(3, dtype=gc.uint8), 0),
    "index_put": lambda: gc.ones(3).index_put((gc.ones(3, dtype=gc.uint8),), gc.tensor(0.0)),
    "upsample": lambda: gc.nn.functional.upsample(gc.ones(1, 1, 4), scale_factor=2),
    "upsample_nearest": lambda: gc.nn.functional.upsample_nearest(gc.ones(1, 1, 4, 4), scale_factor=2),
    "upsample_bilinear": lambda: gc.nn.functional.upsample_bilinear(gc.ones(1, 1, 4, 4), scale_factor=2),
    "no_grad": lambda: gc.no_grad()(type("Net", (), {})),
    "enable_grad": lambda: gc.enable_grad()(type("Net", (), {})),
    "inference_mode": lambda: gc.inference_mode()(type("Net", (), {})),
}
QUIET = {
    "complex to bool": lambda: gc.ones(3, dtype=gc.complex64).bool(),
    "complex to complex": lambda: gc.ones(3, dtype=gc.complex64).to(gc.complex128),
    "real": lambda: gc.ones(3, dtype=gc.complex64).real.double(),
    "T": lambda: (gc.ones(2, 3).T, gc.ones(2, 3, 4).mT, gc.ones(2, 3).H),
    "meshgrid": lambda: gc.meshgrid(gc.ones(2), gc.ones(3), indexing="xy"),
    "tensor": lambda: gc.tensor(_read_only()),
    "from_numpy": lambda: gc.from_numpy(np.ones(3)),
    "frombuffer": lambda: gc.frombuffer(bytearray(8), dtype=gc.float32),
    "cross": lambda: (gc.cross(gc.ones(2, 3), gc.ones(2, 3), dim=1), gc.linalg.cross(gc.ones(3), gc.ones(3))),
    "index": lambda: gc.ones(3)[gc.ones(3, dtype=gc.bool)],
    "gradients of a cast": lambda: gc.ones(3, requires_grad=True).to(gc.complex64).abs().sum().backward(),
    "gradients of a product": lambda: (gc.ones(3, requires_grad=True) * (1 + 1j)).abs().sum().backward(),
}


def _heard(call):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        call()
    return heard


@pytest.mark.parametrize("name", ONCE)
def test_what_is_said_once(name):
    call = ONCE[name]
    (warning,) = _heard(call)
    assert warning.filename == __file__, "the line is the user's"
    assert not _heard(call)
    gc.set_warn_always(True)
    try:
        assert _heard(call)
    finally:
        gc.set_warn_always(False)


@pytest.mark.parametrize("name", EACH_TIME)
def test_what_is_said_each_time(name):
    for _ in range(2):
        assert [w.filename for w in _heard(EACH_TIME[name])] == [__file__]


@pytest.mark.parametrize("name", [*ONCE, *EACH_TIME])
def test_a_warning_that_is_an_error_is_raised_each_time(name):
    call = {**ONCE, **EACH_TIME}[name]
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(Warning):
                call()


@pytest.mark.parametrize("name", QUIET)
def test_what_is_not_warned_of(name):
    assert not _heard(QUIET[name])


@pytest.mark.parametrize("name", ["std", "var", "std_mean", "var_mean"])
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 1), (0, 3), (2, 1, 4), (5,)])
def test_degrees_of_freedom(name, shape):
    x = gc.ones(shape)
    for n, correction in itertools.product(range(len(shape) + 1), (0, 1, 2, 4, 5)):
        for dim in itertools.combinations(range(len(shape)), n):
            reduced = dim or range(len(shape))
            kept = gc.Size(size for i, size in enumerate(shape) if i not in reduced).numel()
            heard = _heard(lambda: getattr(gc, name)(x, dim or None, correction=correction))  # noqa: B023
            expected = [f"{name}(): degrees"] if x.numel() // max(1, kept) <= correction else []
            assert [str(w.message)[: len(name) + 11] for w in heard] == expected, (dim, correction)
