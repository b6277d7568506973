"""Devices: their names, the way from a name to a backend, and what happens where there is no CUDA."""

from __future__ import annotations

import copy
import os
import pickle
import re
import subprocess
import sys
import textwrap
import threading
from typing import Any

import pytest

import gradcore as gc
from gradcore.backends import find, register, registry
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.errors import Unavailable

# -- the value -------------------------------------------------------------------------------------------------


def test_a_device_equals_its_string() -> None:
    assert gc.device("cuda:1") == "cuda:1"
    assert gc.device("cuda:1") == gc.device("cuda", 1) == gc.device(1)
    assert gc.device("cpu") != "cuda"
    assert gc.device("cuda") != gc.device("cuda:0")
    assert {gc.device("cpu"): 1}["cpu"] == 1
    assert gc.device("cpu") != 3
    assert str(gc.device("cuda", 1)) == "cuda:1"
    assert repr(gc.device("cuda:1")) == "device(type='cuda', index=1)"
    assert repr(gc.device("cpu")) == "device(type='cpu')"
    assert (gc.device("cuda:1").type, gc.device("cuda:1").index, gc.device("cpu").index) == ("cuda", 1, None)


def test_a_device_is_a_key_as_its_string_is() -> None:
    assert hash(gc.device("cuda:1")) == hash("cuda:1")
    assert {"cuda:1": "found"}[gc.device("cuda:1")] == "found"
    assert {gc.device("meta"): "found"}["meta"] == "found"


@pytest.mark.parametrize("name", ["cpu", "cuda", "cuda:7", "meta"])
def test_there_is_one_object_for_each_device(name: str) -> None:
    one = gc.device(name)
    for other in (gc.device(name), gc.device(one), copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert other is one


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (("cuda:x",), RuntimeError, "Invalid device string: 'cuda:x'"),
        (("cpu:01",), RuntimeError, "Invalid device string: 'cpu:01'"),
        (("cuda:\u0661",), RuntimeError, "Invalid device string: 'cuda:\u0661'"),
        (("cuda:-1",), RuntimeError, "Invalid device string: 'cuda:-1'"),
        (("",), RuntimeError, "Invalid device string: ''"),
        (("cuda 1",), RuntimeError, "Invalid device string: 'cuda 1'"),
        (("cuda:1", 1), RuntimeError, r"type \(string\) must not include an index because index was passed: cuda:1"),
        (("cuda", -1), RuntimeError, "Device index must not be negative, got -1"),
        ((None,), TypeError, "must be a string, an int or a device, not None"),
        ((True,), TypeError, "must be a string, an int or a device, not True"),
    ],
)
def test_what_is_no_device(arguments: tuple[Any, ...], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        gc.device(*arguments)


# -- the default -----------------------------------------------------------------------------------------------


def test_default_device() -> None:
    assert gc.get_default_device() == "cpu"
    with gc.device("meta"):
        assert gc.zeros(2).is_meta
        with gc.device("cpu"):
            assert gc.zeros(2).is_cpu
        assert gc.tensor([1.0]).is_meta
    assert gc.ones(2).is_cpu
    gc.set_default_device("meta")
    try:
        assert gc.zeros(2).is_meta
        with gc.device("cpu"):
            assert gc.zeros(2).is_cpu
    finally:
        gc.set_default_device(None)
    assert gc.zeros(2).is_cpu


def test_the_default_is_left_when_an_error_is_raised() -> None:
    with pytest.raises(KeyError), gc.device("meta"):
        raise KeyError
    assert gc.get_default_device() == "cpu"


def test_a_context_is_of_its_thread() -> None:
    seen: list[Any] = []
    with gc.device("meta"):
        thread = threading.Thread(target=lambda: seen.append(gc.get_default_device()))
        thread.start()
        thread.join()
    assert seen == ["cpu"]


# -- from a name to a backend ----------------------------------------------------------------------------------


class TwoDevices(NumpyBackend):
    """Two devices that are the CPU."""

    type = "twin"

    def device_count(self) -> int:
        return 2

    def current_index(self) -> int:
        return 1


@pytest.fixture(scope="module")
def twin() -> str:
    register("twin", TwoDevices)
    return "twin"


def test_an_index_that_does_not_exist(twin: str) -> None:
    assert gc.zeros(2, device="twin:0").device == "twin:0"
    assert gc.zeros(2, device="twin").device == "twin:1"  # the current one
    with pytest.raises(
        RuntimeError, match="Invalid device 'twin:2': 2 devices of type 'twin' are available, with index 0 to 1"
    ):
        gc.zeros(2, device="twin:2")


def test_devices_without_index() -> None:
    assert gc.zeros(2, device="meta:3").device == "meta"
    assert gc.zeros(2, device="cpu:0").device is gc.device("cpu")


def test_a_type_that_is_not_registered() -> None:
    with pytest.raises(RuntimeError, match="Device 'xpu:1' cannot be used: no backend of that type is registered"):
        gc.zeros(2, device="xpu:1")
    with pytest.raises(RuntimeError, match=r"known: .*'cpu', 'cuda', 'meta'"):
        find("xpu")


def test_a_further_backend() -> None:
    calls = []

    class Verbose(NumpyBackend):
        type = "verbose_test"

        def exp(self, x: Any) -> Any:
            calls.append(x.shape)
            return self.xp.exp(x)

    register("verbose_test", Verbose)
    x = gc.zeros(2, device="verbose_test", requires_grad=True)
    out = x.exp().sum()
    out.backward()
    assert calls == [(2,)]
    assert (repr(out.device), out.item()) == ("device(type='verbose_test')", 2.0)
    assert x.grad is not None
    assert x.grad.device == "verbose_test"
    with pytest.raises(ValueError, match="the backend of device type 'verbose_test' is in use and cannot be replaced"):
        register("verbose_test", Verbose)


def test_a_backend_that_cannot_be_used() -> None:
    def connect() -> Any:
        raise Unavailable("the card is in another castle")

    register("castle", connect)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Device 'castle' cannot be used: the card is in another castle"):
            gc.zeros(2, device="castle")
    assert registry.unavailable("castle") == "the card is in another castle"
    register("castle", type("Castle", (NumpyBackend,), {"type": "castle"}))
    assert gc.zeros(2, device="castle").device == "castle"


def test_mixed_devices(twin: str) -> None:
    here, there, meta = gc.ones(2), gc.ones(2, device="twin:0"), gc.ones(2, device="meta")
    for a, b in ((here, there), (there, meta), (gc.ones(2, device="twin:1"), there)):
        with pytest.raises(
            RuntimeError, match="Expected all tensors to be on the same device, but found at least two"
        ) as e:
            a + b
        assert {str(a.device), str(b.device)} <= set(str(e.value).replace(",", " ").replace("!", " ").split())
    assert (there + gc.ones(())).device == (gc.ones(()) + there).device == "twin:0"
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        gc.cat([here, there])
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        here + gc.ones((), device="twin:0")


# -- without CUDA ----------------------------------------------------------------------------------------------

#: CuPy is not there.
MISSING = """
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("cupy", "cupyx", "cupy_backends"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
"""

#: CuPy is there; asking for the number of devices does what `{answer}` says.
PRESENT = """
import types
def count():
    {answer}
class ndarray: ...
cupy = types.ModuleType("cupy")
cupy.ndarray = ndarray
cupy.cuda = types.SimpleNamespace(
    runtime=types.SimpleNamespace(getDeviceCount=count, getDevice=lambda: 0), get_allocator=lambda: None,
    set_allocator=lambda malloc: None,
)
cupy.get_default_memory_pool = lambda: types.SimpleNamespace(malloc=1)
cupy.zeros = lambda shape, dtype: ndarray()
sys.modules["cupy"] = cupy
"""
NO_DRIVER = PRESENT.format(answer="raise RuntimeError('cudaErrorNoDevice: driver is missing')")
NO_DEVICE = PRESENT.format(answer="return 0")
ONE_DEVICE = PRESENT.format(answer="return 1")


def run(setup: str, code: str, **environment: str) -> str:
    """Run code in a new interpreter, and return its output."""
    program = "import sys, warnings\n" + setup + "import gradcore as gc\n" + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **environment},
        check=False,
    )
    assert not done.returncode, done.stderr
    return done.stdout


FALL_BACK = """
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    tensors = [gc.zeros(2, device=d) for d in ("cuda", "cuda:1", "cuda")] + [gc.ones(2).cuda()]
print([str(t.device) for t in tensors], gc.cuda.is_available(), gc.cuda.device_count())
print([(w.category.__name__, w.filename) for w in seen])
print(*[w.message for w in seen])
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("setup", "reason", "remedy"),
    [
        (MISSING, "CuPy is not installed", "pip install '.[cuda13]'"),
        (
            NO_DRIVER,
            "CuPy finds no usable NVIDIA driver (cudaErrorNoDevice: driver is missing)",
            "install or update the driver",
        ),
        (NO_DEVICE, "there is a driver but no CUDA device", "CUDA_VISIBLE_DEVICES"),
    ],
    ids=["no CuPy", "no driver", "no device"],
)
def test_the_cpu_is_used_with_one_warning(setup: str, reason: str, remedy: str) -> None:
    devices, kinds, text = run(setup, FALL_BACK).splitlines()
    assert devices == "['cpu', 'cpu', 'cpu', 'cpu'] False 0"
    assert kinds == "[('DeviceFallbackWarning', '<string>')]"  # one, and it names the user's line
    assert text.startswith(f"device='cuda' cannot be used, so the CPU is used instead: {reason}")
    assert remedy in text
    assert "GRADCORE_CUDA_FALLBACK=error" in text


def test_a_broken_cupy() -> None:
    setup = MISSING.replace(
        'raise ModuleNotFoundError(f"No module named {name!r}", name=name)', "raise ImportError('libnvrtc.so')"
    )
    text = run(setup, FALL_BACK)
    assert "CuPy is installed but cannot be imported (libnvrtc.so); re-install CuPy" in text


def test_silence() -> None:
    code = """
    warnings.simplefilter("error")
    print(gc.zeros(2, device="cuda").device, gc.cuda_fallback())
    """
    assert run(MISSING, code, GRADCORE_CUDA_FALLBACK="silent") == "cpu silent\n"


def test_an_error() -> None:
    code = """
    gc.set_cuda_fallback("error")
    for call in (lambda: gc.zeros(2, device="cuda"), gc.cuda.current_device, gc.cuda.synchronize):
        try:
            call()
        except RuntimeError as error:
            print(error)
    """
    lines = run(MISSING, code).splitlines()
    assert lines[0].startswith(
        "Device 'cuda' cannot be used: CuPy is not installed; install CuPy for your CUDA version"
    )
    assert all(line.startswith("Device type 'cuda' cannot be used: CuPy is not installed") for line in lines[1:])
    assert len(lines) == 3


def test_a_policy_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="must be one of 'warn', 'error', 'silent', but got 'maybe'"):
        gc.set_cuda_fallback("maybe")  # type: ignore[arg-type]
    code = "print('imported')"
    with pytest.raises(
        AssertionError, match="GRADCORE_CUDA_FALLBACK must be one of 'warn', 'error', 'silent', but got 'maybe'"
    ):
        run("", code, GRADCORE_CUDA_FALLBACK="maybe")


def test_an_index_that_does_not_exist_is_an_error_where_there_is_cuda() -> None:
    code = """
    print(gc.cuda.is_available(), gc.cuda.device_count(), gc.cuda.current_device())
    for call in (lambda: gc.zeros(2, device="cuda:3"), lambda: gc.cuda.synchronize(3)):
        try:
            call()
        except RuntimeError as error:
            print(error)
    """
    assert run(ONE_DEVICE, code).splitlines() == [
        "True 1 0",
        "Invalid device 'cuda:3': 1 device of type 'cuda' is available, with index 0",
        "Invalid device 'cuda:3': 1 CUDA devices are available",
    ]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_is_told_why_it_has_no_cuda() -> None:
    code = """
    import os
    print(gc.cuda.is_available(), flush=True)
    if not os.fork():
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            print(gc.cuda.is_available(), gc.zeros(2, device="cuda").device, *[w.message for w in seen], flush=True)
        os._exit(0)
    os.wait()
    print(gc.cuda.is_available())
    """
    before, child, after = run(ONE_DEVICE, code).splitlines()
    assert (before, after) == ("True", "True")
    assert child.startswith(
        "False cpu device='cuda' cannot be used, so the CPU is used instead: the process was forked after"
    )
    assert "multiprocessing.set_start_method('spawn')" in child


def test_show_config() -> None:
    code = "print(gc.show_config())"
    text = run(MISSING, code)
    assert "not available: CuPy is not installed" in text
    for word in ("gradcore", "Python", "NumPy", "SciPy", "ml_dtypes", "CuPy", "device='cuda' without CUDA"):
        assert word in text
    assert re.search(r"threads +\d+ for operations", text)
    assert re.search(r"BLAS +\S+.* (in \d+ thread|not gradcore's to choose)", text)
    assert re.search(r"compiled kernels +(not built|built for another|switched off|used)", text)
