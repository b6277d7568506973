"""Functions that make tensors: the keywords that they share, as signatures show them and as calls take them."""

from __future__ import annotations

import array
import inspect
from typing import Any

import numpy as np
import pytest

import gradcore as gc

#: Calls of functions that share their keywords, without these.
CALLS: dict[str, tuple[Any, ...]] = {
    "arange": (3,), "eye": (2,), "full": ((2,), 3.0), "linspace": (0, 1, 3), "logspace": (0, 1, 3), "range": (0, 2),
    "empty_strided": ((2,), (1,)), "scalar_tensor": (2.0,),
}  # fmt: skip
SHARED = ["dtype", "device", "requires_grad", "layout", "pin_memory"]
HAVE_OUT = [name for name in CALLS if name not in ("empty_strided", "scalar_tensor")]
every_call = pytest.mark.parametrize("name", CALLS)


@every_call
def test_signatures_show_every_keyword(name: str) -> None:
    parameters = inspect.signature(getattr(gc, name)).parameters
    keywords = {n: p for n, p in parameters.items() if p.kind is p.KEYWORD_ONLY}
    assert list(keywords) == [*SHARED, *(["out"] if name in HAVE_OUT else [])]
    assert all(p.kind is not p.VAR_KEYWORD for p in parameters.values())
    assert {n: p.default for n, p in keywords.items() if p.default is not None} == {
        "requires_grad": False,
        "pin_memory": False,
    }


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 50])
@pytest.mark.parametrize(("start", "end"), [(0, 1), (-0.0, 0.3), (2.5, 2.5), (7, -3), (1e-300, 1e300), (-1e308, 7e307)])
def test_linspace_is_that_of_numpy_bit_for_bit(start: float, end: float, steps: int) -> None:
    with np.errstate(all="ignore"):
        expected = np.linspace(np.asarray(start, float), np.asarray(end, float), steps)
    assert gc.linspace(start, end, steps, dtype=gc.float64).numpy().tobytes() == expected.tobytes()


@every_call
def test_keywords_do_what_they_say(name: str) -> None:
    function, args = getattr(gc, name), CALLS[name]
    made = function(*args, dtype=gc.float64, device="cpu", requires_grad=True, layout=gc.strided, pin_memory=False)
    assert made.dtype is gc.float64
    assert made.requires_grad
    assert made.is_leaf
    assert not function(*args).requires_grad
    assert function(*args, device="meta").is_meta
    if name in HAVE_OUT:
        out = gc.empty(0, dtype=gc.float64)
        assert function(*args, out=out) is out
        np.testing.assert_allclose(out, function(*args), rtol=1e-6)


@every_call
def test_unknown_keywords_are_refused(name: str) -> None:
    with pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected keyword argument 'shape'"):
        getattr(gc, name)(*CALLS[name], shape=3)
    if name not in HAVE_OUT:
        with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
            getattr(gc, name)(*CALLS[name], out=gc.zeros(2))


@every_call
def test_modes_see_the_call(name: str) -> None:
    seen = []

    class Mode(gc.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append((func, args, kwargs))
            return func(*args, **(kwargs or {}))

    with Mode():
        made = getattr(gc, name)(*CALLS[name], dtype=gc.float64, device=None)
    assert seen[0] == (getattr(gc, name), CALLS[name], {"dtype": gc.float64})
    assert made.dtype is gc.float64


def test_a_spacing_that_is_differentiated_takes_the_keywords() -> None:
    start, out = gc.tensor(1.0, requires_grad=True), gc.empty(3)
    assert gc.linspace(start, 2, 3, out=out) is out
    (grad,) = gc.autograd.grad(gc.logspace(start, 2, 3, dtype=gc.float32).sum(), start)
    assert grad.item() == pytest.approx(np.log(10) * (10 + 10**1.5 / 2), rel=1e-5)


@pytest.mark.parametrize("start", [0.0, -0.0, np.float64(0), np.float32(0), gc.tensor(0.0), None, 0, False], ids=repr)
def test_a_start_of_zero_keeps_its_type(start: Any) -> None:
    expected = gc.float32 if isinstance(start, (float, np.floating, gc.Tensor)) else gc.int64
    assert gc.arange(start, 3).dtype is gc.arange(start=start, end=3).dtype is expected


@pytest.mark.parametrize("name", ["rand", "randn", "zeros", "ones", "empty"])
@pytest.mark.filterwarnings("ignore")
def test_outputs_are_resized(name: str) -> None:
    for out in (gc.tensor(()), gc.zeros(2), gc.zeros(5, 5), gc.zeros(1, dtype=gc.float64)):
        dtype = out.dtype
        assert getattr(gc, name)(3, 2, out=out) is out
        assert (out.shape, out.dtype) == ((3, 2), dtype)
    with pytest.raises(RuntimeError, match="does not match dtype of out parameter"):
        getattr(gc, name)(3, dtype=gc.float64, out=gc.zeros(3))


def test_numbers_of_a_sequence_have_the_precision_of_the_output() -> None:
    out = gc.empty(7, dtype=gc.float64)
    assert gc.linspace(0, 1, 7, out=out).tolist() == np.linspace(0, 1, 7).tolist()


def test_buffers_share_memory() -> None:
    memory = bytearray(np.arange(3.0).tobytes())
    for buffer in (memory, memoryview(memory)):
        t = gc.asarray(buffer, dtype=gc.float64)
        assert t.tolist() == [0.0, 1.0, 2.0]
        t[0] = 5.0
        assert np.frombuffer(memory)[0] == 5.0
        t[0] = 0.0
        assert gc.asarray(buffer, dtype=gc.float64, copy=True).data_ptr() != t.data_ptr()
    assert gc.asarray(array.array("i", [1, 2])).tolist() == [1, 2]
    x = gc.ones(2)
    assert gc.asarray(x.__dlpack__()).data_ptr() == x.data_ptr()


def test_python_asks_complex_tensors_for_numbers() -> None:
    assert int(gc.tensor(2 + 0j)) == float(gc.tensor([2 + 0j])) == 2
    assert complex(gc.tensor(2 + 1j)) == 2 + 1j
    for kind in (int, float):
        with pytest.raises(RuntimeError, match="without overflow"):
            kind(gc.tensor(2 + 1j))


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_reversed_is_that_of_sequences(ndim: int) -> None:
    x = gc.arange(2.0**ndim).reshape((2,) * ndim).requires_grad_()
    assert reversed(x).tolist() == list(reversed(x.tolist()))
    (reversed(x) * x.detach()).sum().backward()
    assert x.grad.tolist() == list(reversed(x.tolist()))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,), (2, 0, 3), (2, 3, 0, 4)], ids=repr)
def test_strides_of_no_elements(shape: tuple[int, ...]) -> None:
    assert gc.empty(shape).stride() == gc.empty([max(n, 1) for n in shape]).stride()


@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "rand", "randn", "randint", "full"])
def test_functions_of_another_tensor_name_themselves_in_errors(name):
    numbers = [3] if name in ("randint", "full") else []
    with pytest.raises(
        TypeError, match=rf"^{name}_like\(\): argument 'input' \(position 1\) must be Tensor, not ndarray"
    ):
        getattr(gc, f"{name}_like")(np.ones(2), *numbers)


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64"])
def test_sequences_of_integers_begin_and_step_with_whole_numbers(name: str) -> None:
    """Bounds and steps are cut off before they are used, not the numbers after; the values are PyTorch's."""
    dtype = getattr(gc, name)
    assert gc.arange(0.9, 6.1, 1.5, dtype=dtype).tolist() == ([0, 1, 2, 3] if name != "int64" else [0, 1, 2, 3, 4, 5])
    assert gc.linspace(4.3, 0.2, 5, dtype=dtype).tolist() == [4, 3, 2, 1, 0]
    assert gc.linspace(4.9, 0, 1, dtype=dtype).tolist() == [4]
    assert gc.logspace(1.31, 0, 1, dtype=dtype).tolist() == [20]
    assert gc.logspace(1.9, 3.9, 3, base=2.0, dtype=dtype).tolist() == [2, 4, 8]
    with pytest.warns(UserWarning, match="range is deprecated"):
        assert gc.range(0.5, 3, 1.5, dtype=dtype).tolist() == [0, 1, 2, 3]
    with pytest.raises(
        RuntimeError, match=f"converted to type {'int' if name == 'int32' else name + '_t'} without overflow"
    ):
        gc.linspace(0, float("inf"), 3, dtype=dtype)


@pytest.mark.parametrize("start", [0, 0.0])
@pytest.mark.parametrize("step", [-1, -1.0, -0.5])
def test_arange_of_negative_steps_begins_with_positive_zero(start: float, step: float) -> None:
    assert (1 / gc.arange(start, -3, step, dtype=gc.float32))[0] == float("inf")


def test_a_step_below_one_is_no_step_of_int64() -> None:
    with pytest.raises(RuntimeError, match="step must be nonzero"):
        gc.arange(0, 1, 0.3, dtype=gc.int64)
