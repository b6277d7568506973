"""Docstrings, examples and formulas of operations, as users and the reference see them."""

import doctest
import functools
import importlib.util
import inspect
import re
from pathlib import Path

import pytest

import gradcore as gc
from gradcore.ops.declare.documentation import docstring
from gradcore.ops.declare.table import OPS

EXTENSIONS = Path(__file__).parents[1] / "docs/_extensions"


def extension(name):
    """Import a module of the documentation, which finds the others beside it."""
    spec = importlib.util.spec_from_file_location(name, EXTENSIONS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXTENSIONS))
        spec.loader.exec_module(module)
    return module


formulas, derivatives, topics = map(extension, ("formulas", "derivatives", "topics"))

FUNCTIONS = [op for op in OPS.values() if op.function and op.module.startswith("gradcore.ops.")]


def _failures(session: str, name: str) -> int:
    """Return the number of examples in an interactive session that show a wrong result."""
    found = doctest.DocTestParser().get_doctest(session, {"gc": gc, "gradcore": gc}, name, None, None)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.DocTestRunner(optionflags=flags, verbose=False).run(found).failed


@pytest.mark.parametrize("op", FUNCTIONS, ids=lambda op: op.name)
def test_every_function_is_described_and_has_an_example_that_runs(op):
    summary, _, rest = docstring(op).partition("\n\n")
    assert summary.endswith(".")
    assert "Parameters\n----------\n" in rest
    session = rest.partition("Examples\n--------\n")[2]
    assert f"{op.path.rpartition('.')[2]}(" in session
    assert _failures(session, op.path) == 0


@pytest.mark.parametrize(
    "namespace",
    [gc, gc.Tensor, gc.autograd, gc.fft, gc.func, gc.linalg, gc.nn.functional, gc.signal.windows, gc.special],
)
def test_summaries_of_functions_begin_with_a_verb(namespace):
    """Check composed docstrings as well, which ruff does not see."""
    functions = {name: getattr(namespace, name) for name in dir(namespace) if name[0] != "_"}
    summaries = {
        name: inspect.getdoc(function) or ""
        for name, function in functions.items()
        if callable(function) and not isinstance(function, type) and not inspect.isbuiltin(function)
    }
    verb = re.compile(r"(?!(The|A|An|Its|In|Of|For|With|Whether|One) )[A-Z][a-z]+ ")
    assert [f"{name}: {summary[:60]}" for name, summary in summaries.items() if not verb.match(summary)] == []


CLASSES = [name for name in gc.nn.__all__ if isinstance(getattr(gc.nn, name), type)]


@pytest.mark.parametrize("name", CLASSES)
def test_every_module_has_an_example_that_runs(name):
    described = inspect.getdoc(getattr(gc.nn, name))
    session = described.partition("Examples\n--------\n")[2]
    assert name in session
    assert _failures(session, name) == 0


def test_modules_of_functions_describe_their_settings():
    assert "\nreduction : str, default 'mean'\n" in gc.nn.MSELoss.__doc__
    assert "kernel_size, stride, padding, dilation : " in gc.nn.MaxPool2d.__doc__
    assert "\ninput : " not in gc.nn.MaxPool2d.__doc__


def test_a_docstring_follows_from_the_declaration():
    assert docstring(OPS["gcd"]) == (
        "Return the greatest common divisor.\n\n"
        "Parameters\n----------\n"
        "input : Tensor or number\nother : Tensor or number\nout : Tensor, optional\n    A tensor for the result.\n\n"
        "Returns\n-------\nTensor\n    Result of the broadcast shape of the tensors.\n\n"
        "Raises\n------\nNotImplementedError\n    For bools, floating-point numbers and complex numbers.\n\n"
        "Examples\n--------\n>>> gc.gcd(gc.tensor([6, 4, 9]), gc.tensor([4, 10, 6]))\ntensor([2, 2, 3])\n"
    )


def test_sections_of_the_declaration_remain():
    described = docstring(OPS["conv2d"])
    assert "Of shape ``(batch, channels, *sizes)``" in described
    assert described.count("Parameters\n---") == 1


def test_docstrings_of_methods_leave_the_tensor_itself_out():
    described = gc.Tensor.cumsum.__doc__
    assert "dim : int\n    The dim; negative numbers count from the end.\n" in described
    assert "input : " not in described
    assert "out : " not in described


def test_docstrings_of_in_place_methods_say_so():
    described = gc.Tensor.cumsum_.__doc__
    assert described.startswith("Compute `cumsum` in place: the result is written into the tensor.\n\nParameters\n")
    assert described.endswith("Returns\n-------\nTensor\n    The tensor itself.\n")


@pytest.mark.parametrize(("path", "name"), [("", "exp"), ("nn.functional", "relu"), ("linalg", "det")])
def test_functions_have_the_docstring_of_their_declaration(path, name):
    module = functools.reduce(getattr, filter(None, path.split(".")), gc)
    assert getattr(module, name).__doc__ == docstring(
        next(op for op in FUNCTIONS if op.path == f"{path}.{name}".strip("."))
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("exp", [("self", "t * result")]),
        ("mul", [("self", "t * other"), ("other", "t * self")]),
        ("index_select", [("self", "_selected_backward(F, grad, self_shape, dim, index)")]),  # below the declaration
        ("acosh", []),  # of several statements
        ("eq", []),
    ],
)
def test_formulas_are_shown_as_they_are_written(name, expected):
    assert list(formulas.formulas(OPS[name])) == expected


def test_families_of_the_reference_exist_and_are_complete():
    """Each family with functions of users is in one section; the others have none."""
    families = [name for _, _, sections in topics.OPERATIONS for _, names in sections for name in names.split()]
    assert len(families) == len(set(families))
    assert {op.module.removeprefix("gradcore.ops.") for op in FUNCTIONS} <= set(families) <= set(gc.ops.FAMILIES)


def test_the_list_of_derivatives_is_complete():
    lines = derivatives.page()
    listed = [line[9:-2] for line in lines if line.startswith("   * - ``")]
    own = [op for op in OPS.values() if op.module.startswith("gradcore.ops.")]
    assert sorted(listed) == sorted(op.path for op in own if op.differentials or op.vjps)
    assert listed == sorted(listed, key=str.lower)
    row = lines.index("   * - ``mul``")
    assert lines[row + 1 : row + 8] == [
        "     - elementwise", "     - ``self``", "     - ``t * other``",
        "   * - ", "     - ", "     - ``other``", "     - ``t * self``",
    ]  # fmt: skip
