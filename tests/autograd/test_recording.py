"""There is one way to make a node and one saved tensor: the source is read for others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import gradcore as gc
from gradcore.autograd.op_node import OpNode, slots_of
from gradcore.autograd.record import node_lines, recorder
from gradcore.dispatch.fast_path import has_fast_path, source_of
from gradcore.ops.declare.table import OPS

ROOT = Path(gc.__file__).parent

#: Who gives a node its number in time: `Node.make`, and the same lines for a leaf's accumulator, which every use of a
#: parameter makes; a copy that has its node's; a call of a function once it is done; a call of a compiled function, and
#: a result whose graph such a call has freed.
NUMBERING = {
    ("autograd/node.py", "make"),
    ("autograd/views.py", "gradient_edge"),
    ("autograd/op_node.py", "call_unpack_hooks"),
    ("autograd/function/call.py", "call"),
    ("compiler/autograd/node.py", "as_freed"),
    ("compiler/autograd/node.py", "connect"),
}


def stores(attribute: str, package: str) -> Iterator[tuple[str, str]]:
    """Yield the file and function of each assignment to an attribute of that name."""
    for path in sorted((ROOT / package).rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                for node in ast.walk(function):
                    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr == attribute:
                        yield str(path.relative_to(ROOT)), function.name


@pytest.mark.slow
def test_nodes_are_made_in_one_place() -> None:
    assert set(stores("_seq", ".")) == NUMBERING


def test_no_class_of_a_node_or_tensor_is_switched() -> None:
    assert not [*stores("__class__", "autograd"), *stores("__class__", "dispatch")]


def test_the_fast_path_has_the_lines_of_the_recorder() -> None:
    for op in OPS.values():
        if op.kind in ("composite", "constant") or not (op.differentiable_inputs and op.differentiable):
            continue
        lines, source = list(node_lines(op)), source_of(op) if has_fast_path(op) else []
        assert not source or any(source[i : i + len(lines)] == lines for i in range(len(source))), op.name
        assert callable(recorder(op))


def test_slots_have_one_meaning() -> None:
    for op in OPS.values():
        names = [slot.name for slot in slots_of(op)]
        assert len(set(names)) == len(names), op.name
        for slot in slots_of(op):
            is_tensor = slot.position in op.tensors
            assert (slot.kind in ("tensor", "tensors", "shape")) <= is_tensor, (op.name, slot)
            assert (slot.kind == "setting") <= (slot.position not in op.tensor_like), (op.name, slot)


def test_what_is_freed_keeps_settings_apart() -> None:
    y = gc.rand(3, 4, requires_grad=True).softmax(1)
    node = y.grad_fn
    assert isinstance(node, OpNode)
    y.sum().backward()
    assert node.saved is None
    assert node._saved_dim == 1
