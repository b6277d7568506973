"""Docstrings, examples and formulas of operations, as users and the reference see them."""

import functools
import importlib.util
from pathlib import Path

import pytest

import gradcore as gc
from gradcore.ops.documentation import docstring
from gradcore.ops.table import OPS

PATH = Path(__file__).parents[1] / "docs/_extensions/examples.py"
SPEC = importlib.util.spec_from_file_location("examples", PATH)
examples = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(examples)

FUNCTIONS = [op for op in OPS.values() if op.function and op.module.startswith("gradcore.ops.")]


@pytest.mark.parametrize("op", FUNCTIONS, ids=lambda op: op.name)
def test_every_function_is_described_and_has_an_example_that_runs(op):
    summary, _, rest = docstring(op).partition("\n\n")
    assert summary.endswith(".")
    assert "Parameters\n----------\n" in rest
    shown = [line for line in examples.example(op) if line.startswith(">>> ")]
    assert f"gc.{op.path}(" in shown[-1]


def test_a_docstring_follows_from_the_declaration():
    assert docstring(OPS["gcd"]) == (
        "Greatest common divisor.\n\n"
        "Parameters\n----------\n"
        "input : Tensor\nother : Tensor\nout : Tensor, optional\n    A tensor for the result.\n\n"
        "Returns\n-------\nTensor\n    Of the shape to which the tensors broadcast.\n\n"
        "Raises\n------\nNotImplementedError\n    For bools, floating-point numbers and complex numbers.\n"
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
    assert described.startswith("`cumsum` in place: the result is written into the tensor.\n\nParameters\n")
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
    assert list(examples.formulas(OPS[name])) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gcd", [">>> input = gc.tensor([6, 4, 3])", ">>> other = gc.tensor([1, 2, 5])", ">>> gc.gcd(input, other)"]),
        ("logsumexp", [">>> input = gc.randn(3, 4)", ">>> gc.logsumexp(input, dim=1).shape"]),
    ],
)
def test_examples_are_calls_as_users_write_them(name, expected):
    *call, result = examples.example(OPS[name])
    assert call == expected
    assert result == {"gcd": "tensor([1, 2, 1])", "logsumexp": "torch.Size([3])"}[name]
