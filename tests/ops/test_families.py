"""Every module that declares operations is imported when one of them is first looked up, once and as a whole."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gradcore.ops
from gradcore.backends.kernel_rules import MODULES
from gradcore.ops.declare.table import OPS


def run(program: str) -> str:
    """Return what a program prints."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_names_are_those_of_the_declarations() -> None:
    made = run("from gradcore.tools import operation_names; print(operation_names.make(), end='')")
    path = Path(gradcore.ops.__file__).with_name("declare") / "names.py"
    assert path.read_text("utf-8") == made, "write it anew: python -m gradcore.tools.operation_names"


def test_a_module_is_imported_when_an_operation_is_looked_up() -> None:
    program = """
import sys
import gradcore as gc
from gradcore.backends.registry import CPU
from gradcore.functional import digamma
def loaded():
    return [name for name in ("special.gammas", "elementwise.trigonometric", "nn.activations", "linalg.lu")
            if f"gradcore.ops.{name}" in sys.modules]
assert loaded() == ["special.gammas"], loaded()
dir(gc), dir(gc.Tensor), dir(gc.linalg), gc.Tensor.__add__, hasattr(gc.Tensor, "no_such_name")
assert loaded() == ["special.gammas"], loaded()
assert hasattr(gc.Tensor, "tan")
assert loaded() == ["special.gammas", "elementwise.trigonometric"], loaded()
assert CPU.backend.elu.func.__module__ == "gradcore.ops.nn.activations"  # the kernel of an operation never called
assert loaded() == ["special.gammas", "elementwise.trigonometric", "nn.activations"], loaded()
"""
    run(program)


@pytest.mark.slow
def test_threads_see_whole_operations() -> None:
    """Threads that look up the same operations for the first time find each with all of its formulas and kernels."""
    run("""
import random, sys, threading
import gradcore
from gradcore.backends.base import Backend
from gradcore.backends.kernel_rules import MODULES
from gradcore.ops.declare.table import OPS
sys.setswitchinterval(1e-6)
seen, failures, ready = [], [], threading.Barrier(6)
def state(op):
    formulas = [sorted(map(str, table)) for table in (op.vjps, op.differentials, op.jvps)]
    return formulas, op.kernel in Backend.bodies, op.kernel in Backend.elementwise, op.kernel in Backend.slow
kernels = {"add_scaled", "sub_scaled", "div_rounded", "copy_from"}  # of operations with other names
def look_up(seed):
    names = [name for name in MODULES if name not in kernels]
    random.Random(seed).shuffle(names)
    ready.wait()
    try:
        seen.extend((name, OPS[name], state(OPS[name])) for name in names)
    except BaseException as error:
        failures.append(repr(error))
threads = [threading.Thread(target=look_up, args=(seed,)) for seed in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not failures, failures
assert len(seen) == 6 * len(OPS)
assert not [name for name, op, before in seen if OPS[name] is not op or state(op) != before]
""")


@pytest.mark.slow
def test_an_import_that_fails_is_repeated() -> None:
    """After an interrupt in the middle of any declaration, the next look-up finds all operations of the module."""
    run("""
import importlib, sys
import gradcore
from gradcore.backends import kernel_rules
from gradcore.ops.declare import table
for module in ("gradcore.ops.special.bessel", "gradcore.ops.linalg.lu", "gradcore.ops.nn.softmax"):
    names = [name for name, home in kernel_rules.MODULES.items() if home == module]
    for count in range(len(names)):
        def declare(*args):
            global count
            count -= 1
            if count < 0:
                raise KeyboardInterrupt
            kernel_rules.declare(*args)
        table.declare = declare
        try:
            table.OPS[names[-1]]
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError("no interrupt")
        assert not [name for name in names if dict.__contains__(table.OPS, name)]
    table.declare = kernel_rules.declare
    assert all(table.OPS[name].name == name for name in names)
""")


def test_operations_cannot_be_called_inside_their_import() -> None:
    """A finalizer or signal handler that runs inside the import gets an error, and the import goes on."""
    run("""
import gradcore as gc
from gradcore.backends import kernel_rules
from gradcore.ops.declare import table
failures = []
def declare(*args):
    kernel_rules.declare(*args)
    try:
        gc.Tensor.sinh
    except RuntimeError as error:
        failures.append(str(error))
table.declare = declare
assert gc.tensor(0.0).tanh().item() == 0
assert len(failures) > 5 and "is being imported" in failures[0]
assert gc.tensor(0.0).sinh().item() == 0
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_child_does_not_wait_for_an_import_of_another_thread() -> None:
    """A thread that was in the middle of an import when the process was forked does not exist in the child."""
    run("""
import os, signal, threading, time
import gradcore as gc
from gradcore.ops.declare import table
declare, is_inside = table.declare, threading.Event()
def declare_slowly(*args):
    declare(*args)
    if not is_inside.is_set():
        is_inside.set()
        time.sleep(0.1)
table.declare = declare_slowly
thread = threading.Thread(target=lambda: gc.tensor(0.0).sinh())
thread.start()
is_inside.wait()
child = os.fork()
if not child:
    signal.alarm(20)
    os._exit(gc.tensor(0.0).cosh().item() != 1)
assert os.waitpid(child, 0)[1] == 0
thread.join()
""")


@pytest.mark.parametrize("use", ["x.real = 3", "x.imag = 4", "del x.real"])
def test_attributes_can_be_assigned_to_before_they_are_read(use: str) -> None:
    run(f"""
import gradcore as gc
x = gc.tensor([1 + 2j])
try:
    {use}
except AttributeError as error:
    assert {use!r} == "del x.real" and "deleter" in str(error), error
else:
    assert x.tolist() in ([3 + 2j], [1 + 4j])
""")


def test_a_method_that_a_program_replaces_stays() -> None:
    """Also if the replacement calls what lay in the class before, and no one had looked that up."""
    run("""
import gradcore as gc
called = []
def replace(name):
    before = vars(gc.Tensor)[name]
    def method(self, *args):
        called.append(name)
        return before.__get__(self, type(self))(*args)
    setattr(gc.Tensor, name, method)
    return before
before = {name: replace(name) for name in ("cos", "cos_", "__mul__", "__rmul__", "__neg__")}
x = gc.ones(2)
for _ in range(2):
    x.cos(), x.clone().cos_(), x * x, 2 * x, -x
assert called == ["cos", "cos_", "__mul__", "__rmul__", "__neg__"] * 2, called
for name, method in before.items():
    setattr(gc.Tensor, name, method)
x.cos(), x.clone().cos_(), x * x, 2 * x, -x
assert len(called) == 10
""")


@pytest.mark.parametrize("name", ["exp", "bessel_j0", "add_scaled"])
def test_a_name_is_declared_once(name: str) -> None:
    """Also if the module of gradcore's own operation has not been imported."""
    run(f"""
import gradcore
from gradcore.ops.declare.table import elementwise
def {name}(K, self):
    return self
try:
    elementwise()({name})
except TypeError as error:
    assert "declared twice" in str(error)
else:
    raise AssertionError
""")


def test_the_order_of_operations_does_not_depend_on_what_was_looked_up() -> None:
    own = [name for name in MODULES if name in OPS]
    assert list(OPS)[: len(own)] == own
    assert list(OPS.values()) == [OPS[name] for name in OPS]
    assert dict(OPS) == dict(OPS.items()) == {**OPS}
    assert len(OPS) == len(list(OPS.keys()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "use",
    [
        "OPS.copy()", "OPS | {}", "{} | OPS", "dict(reversed([*reversed([*OPS.items()])]))", "dict(OPS)",
        "{name: OPS[name] for name in reversed([*reversed(OPS)])}", "{name: OPS[name] for name in OPS}",
    ],
)  # fmt: skip
def test_a_table_has_all_entries_however_it_is_read(use: str) -> None:
    run(f"""
import gradcore
from gradcore.ops.declare.table import OPS
found = {use}
assert list(found) == list(OPS) and len(found) > 700 and found == OPS and OPS == found
""")


def test_entries_of_a_table_that_were_not_looked_up_can_be_replaced() -> None:
    run("""
from unittest import mock
import gradcore
from gradcore.ops.declare.table import OPS
with mock.patch.dict(OPS, {"lgamma": 1}):
    assert OPS["lgamma"] == 1
assert OPS["lgamma"].name == "lgamma" and OPS["exp"].name == "exp"
""")
    run("""
import gradcore
from gradcore.ops.declare.table import OPS
assert OPS.setdefault("exp", None).name == "exp" and OPS.setdefault("no_such_name", 2) == 2
assert OPS.pop("no_such_name") == 2 and OPS.pop("no_such_name", 3) == 3 and OPS.pop("sinh").name == "sinh"
assert "sinh" not in OPS and "cosh" in OPS
""")


def test_families_are_the_modules_that_declare_operations() -> None:
    """Importing any other module of the folders adds no operation."""
    root = Path(gradcore.ops.__file__).parent
    found = (path.relative_to(root).with_suffix("") for path in root.rglob("*.py") if path.stem != "__init__")
    names = [".".join(path.parts) for path in found]
    assert len(names) > len(gradcore.ops.FAMILIES)
    others = sorted(set(names) - set(gradcore.ops.FAMILIES))
    code = (
        "import importlib, gradcore\n"
        "from gradcore.ops.declare.table import OPS\n"
        "before = set(OPS)\n"
        f"for name in {others!r}: importlib.import_module('gradcore.ops.' + name)\n"
        "assert set(OPS) == before, set(OPS) - before"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_family_declares_something() -> None:
    declared = (op.module for op in OPS.values())  # some by other tests
    homes = {module.removeprefix("gradcore.ops.") for module in declared if module.startswith("gradcore.ops.")}
    assert homes == set(gradcore.ops.FAMILIES)


def test_no_room_is_crowded() -> None:
    """A folder of which a reader sees all at once: at most twelve modules or rooms beside its interface."""
    root = Path(gradcore.ops.__file__).parent
    for folder in (root, *(path for path in root.iterdir() if (path / "__init__.py").exists())):
        entries = {path.stem for path in folder.iterdir() if path.stem[0] != "_"}
        assert len(entries) <= 12, (folder, sorted(entries))
