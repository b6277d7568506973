"""Tracebacks of errors: the user's lines, and of gradcore the place that tells; the source of what is generated."""

from __future__ import annotations

import gc as gc_module
import importlib
import inspect
import linecache
import os
import re
import subprocess
import sys
import textwrap
import traceback
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gradcore as gc
from gradcore import nn
from gradcore.core import tracebacks
from gradcore.nn import functional as F

ROOT = str(Path(gc.__file__).parents[1])


def frames_of(call: Callable[..., object], *args: Any) -> list[traceback.FrameSummary] | None:
    """Return the frames below the call from the traceback of its error, or None if it raises none."""
    try:
        call(*args)
    except Exception as error:
        return traceback.extract_tb(error.__traceback__)[1:]
    return None


def own(frames: list[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    package = os.path.dirname(gc.__file__)
    return [frame for frame in frames if frame.filename.startswith((package, "<gradcore"))]


def x() -> gc.Tensor:
    return gc.ones(2, 3, requires_grad=True)


def backward_twice() -> None:
    loss = (x() * x()).sum()
    loss.backward()
    loss.backward()


CALLS: dict[str, Callable[[], object]] = {
    "operator": lambda: x() @ x(),
    "reflected operator": lambda: 2 ** gc.ones(2, requires_grad=True).numpy(),
    "function": lambda: gc.add(x(), gc.ones(7)),
    "composite": lambda: F.cross_entropy(x(), x()[0]),
    "method": lambda: x().view(7),
    "several tensors": lambda: gc.einsum("ij,jk", x(), x()),
    "in place": lambda: x().add_(1),
    "read": lambda: x()["a"],
    "write": lambda: x().__setitem__(0, 1.0),
    "creation": lambda: gc.tensor(["a"]),
    "random": lambda: gc.rand("a"),
    "device": lambda: x().to("nope"),
    "backward": lambda: x().backward(),
    "backward twice": backward_twice,
    "grad": lambda: gc.autograd.grad(x().sum(), gc.ones(2)),
    "module": lambda: nn.Sequential(nn.Linear(3, 2), nn.Sequential(nn.ReLU(), nn.Linear(4, 2)))(x()),
    "recurrent": lambda: nn.LSTM(3, 4)(gc.ones(2, 5)),
    "optimiser": lambda: gc.optim.AdamW([3]),
    "distribution": lambda: gc.distributions.HalfNormal(-1.0),
    "transform": lambda: gc.func.grad(lambda a: a * 2)(x()),
    "batches": lambda: gc.vmap(lambda a: a @ a)(x().expand(2, 2, 3)),
    "decomposition": lambda: gc.linalg.cholesky(-gc.eye(3)),
}


@pytest.mark.parametrize("name", CALLS)
def test_at_most_three_frames_are_gradcores(name: str) -> None:
    frames = frames_of(CALLS[name])
    assert frames is not None
    assert len(own(frames)) <= 3, frames
    assert all(frame.line for frame in frames)


# -- every public name ------------------------------------------------------------------------------------------------

MODULES = (
    "", "autograd", "distributions", "fft", "linalg", "masked", "nn", "nn.functional", "nn.init", "optim", "special",
)  # fmt: skip
WRONG: Any = ((None,), ("a",), (gc.ones(2, 3), "a"), (gc.ones(2, 3), 99), (gc.ones(2), gc.ones(3)))
#: What sets something, or waits.
LEFT_OUT = ("set_", "save", "load", "manual_seed", "use_deterministic", "register", "as_torch", "empty_cache")


def public() -> Iterator[tuple[str, Callable[..., object]]]:
    for path in MODULES:
        module = importlib.import_module(f"gradcore.{path}" if path else "gradcore")
        for name in dir(module):
            value = getattr(module, name)
            if callable(value) and not name.startswith(("_", *LEFT_OUT)) and "gradcore" in str(value.__module__):
                yield f"{path}.{name}", value
    for name in dir(gc.Tensor):
        value = getattr(gc.Tensor, name)
        if callable(value) and not name.startswith("_") and "gradcore" in str(value.__module__):
            yield f"Tensor.{name}", value


@pytest.mark.filterwarnings("ignore")
def test_wrong_calls_of_every_public_function() -> None:
    """Of those that raise nearly all show three frames of gradcore or fewer, and none many."""
    raised, longer = 0, {}
    for name, function in public():
        for args in WRONG:
            frames = frames_of(function, *args)
            if frames is not None:
                raised += 1
                if len(own(frames)) > 3:
                    longer[name] = [(frame.filename, frame.name) for frame in frames]
                assert len(own(frames)) <= 6, (name, args, frames)
    assert raised > 4000
    assert len(longer) < 60, longer


# -- users' frames stay -----------------------------------------------------------------------------------------------


def test_frames_of_users_stay_wherever_they_are() -> None:
    class Inner(nn.Module):
        def forward(self, t: gc.Tensor) -> gc.Tensor:
            return (t @ t).register_hook(fail)

    def fail(grad: gc.Tensor) -> None:
        raise KeyError("hook")

    def run() -> None:
        nn.Sequential(nn.ReLU(), Inner())(x())

    frames = frames_of(run)
    assert [frame.name for frame in frames or ()][:2] == ["run", "forward"]
    assert len(own(frames or [])) == 1

    def hooked() -> None:
        y = x() * 2
        y.register_hook(fail)
        y.sum().backward()

    assert [frame.name for frame in frames_of(hooked) or ()] == ["hooked", "fail"]


def test_the_layer_that_failed_is_shown() -> None:
    frames = frames_of(nn.Sequential(nn.Linear(3, 2), nn.Linear(4, 2)), x())
    assert (frames or [])[0].filename.endswith("linear.py")


def test_causes_are_short_too() -> None:
    try:
        gc.ones(2)["a":"b"]
        gc.tensor([object()])
    except Exception as error:
        each: BaseException | None = error
        while each is not None:
            assert len(traceback.extract_tb(each.__traceback__)) <= 4
            each = each.__cause__ or each.__context__


@pytest.fixture
def _full() -> Iterator[None]:
    gc.set_traceback("full")
    yield
    gc.set_traceback("short")


@pytest.mark.usefixtures("_full")
def test_all_frames_on_request_and_each_with_its_source() -> None:
    assert gc.get_traceback() == "full"
    for name in ("operator", "composite", "method", "module"):
        frames = frames_of(CALLS[name]) or []
        assert len(own(frames)) >= 3
        assert all(frame.line for frame in frames), frames
    with pytest.raises(ValueError, match="must be one of 'short', 'full'"):
        gc.set_traceback("none")


# -- where errors are shown -------------------------------------------------------------------------------------------

SCRIPT = """
import gradcore as gc

class Net(gc.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = gc.nn.Sequential(gc.nn.Linear(3, 4), gc.nn.Linear(5, 2))

    def forward(self, x):
        return self.layers(x)

def test_net():
    Net()(gc.ones(1, 3))
"""


@pytest.mark.parametrize("extent", ["short", "full"])
def test_a_script(tmp_path: Path, extent: str) -> None:
    (tmp_path / "script.py").write_text(f"{SCRIPT}\ntest_net()\n")
    variables = {**os.environ, "GRADCORE_TRACEBACK": extent, "PYTHONPATH": ROOT}
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
    )
    files = [line for line in done.stderr.splitlines() if line.startswith("  File ")]
    assert ["script.py" in line for line in files[:3]] == [True, True, extent == "short" or "script.py" in files[2]]
    assert (len(files) <= 5) == (extent == "short")
    assert done.stderr.splitlines()[-1].startswith("RuntimeError: mat1 and mat2 shapes cannot be multiplied")


@pytest.mark.slow
def test_in_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_script.py").write_text(SCRIPT)
    variables = {**os.environ, "PYTHONPATH": ROOT}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "test_script.py"],
        cwd=tmp_path, env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    places = re.findall(r"^(\S+\.py):\d+: ", done.stdout, re.MULTILINE)
    assert places[:2] == ["test_script.py"] * 2
    assert 3 <= len(places) <= 5, done.stdout


def test_in_notebooks() -> None:
    pytest.importorskip("IPython")
    cell = "import gradcore as gc\ngc.ones(2, 3) @ gc.ones(2, 3)"
    program = f"""
    import io, contextlib
    from IPython.core.interactiveshell import InteractiveShell
    shell = InteractiveShell.instance(colors="NoColor")
    shell.run_cell({cell!r})
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], env={**os.environ, "PYTHONPATH": ROOT},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.count("Cell In[") == 1
    assert done.stdout.count("File ") <= 2
    assert "Could not get source" not in done.stdout


# -- generated code ---------------------------------------------------------------------------------------------------


def test_the_source_of_generated_functions_is_found() -> None:
    for function in (gc.mul, gc.Tensor.sum, F.linear, gc.linalg.solve):
        frames_of(function, gc.ones(2), gc.ones(2))
        source = inspect.getsource(function)
        assert source.startswith("def call(")
        linecache.checkcache()
        assert linecache.getlines(function.__code__.co_filename)


def test_what_is_gradcores_own() -> None:
    assert not tracebacks.is_own(sys._getframe())


def test_code_of_users_is_not_kept_alive() -> None:
    scope: dict[str, Any] = {"line": tracebacks.user_line}
    exec("def function():\n    return line()", scope)
    function = scope.pop("function")
    assert function().endswith("in function")
    code = weakref.ref(function.__code__)
    del function
    gc_module.collect()
    assert code() is None
