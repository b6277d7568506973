"""The memory report: what graphs keep, by operation and line, with each piece of memory counted once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gradcore as gc
from gradcore import nn, viz


def leaf(*shape):
    return gc.ones(*shape, requires_grad=True)


def rows(report):
    return {row.operation: row for row in report.rows}


def test_memory_is_counted_once():
    x = leaf(1000)
    y = x.exp()  # keeps its result
    report = viz.memory((y * y).sum() + (y * 2).sin().sum())
    assert report.total == 8000  # y, and y * 2
    assert report.leaves == 0
    assert rows(report)["ExpBackward0"].saved == 4000
    assert rows(report)["MulBackward0"].saved == 0  # both keep y
    assert rows(report)["MulBackward0"].nodes == 2


def test_views_keep_the_whole_memory():
    x = leaf(1000)
    y = x.tanh()
    small = y[:10]
    report = viz.memory((small * small).sum())
    assert report.total == 4000


def test_leaves_are_counted_apart():
    w, x = leaf(10, 10), gc.ones(5, 10)
    report = viz.memory((x @ w).relu().sum())
    assert (report.total, report.leaves) == (200 + 200, 0)  # x, and the result of relu
    y = leaf(5, 10)
    assert viz.memory(y @ w).leaves == 600


def test_backward_frees():
    x = leaf(1000)
    loss = x.exp().sum()
    assert viz.memory(loss).total == 4000
    loss.backward()
    report = viz.memory(loss)
    assert (report.total, report.freed) == (0, 1)
    assert "1 nodes have been freed" in report.summary


def test_lines_are_rows_of_their_own():
    x = leaf(1000)
    with viz.record():
        y = x
        for _ in range(3):
            y = y.exp()
        y = y.exp()
    report = viz.memory(y)
    found = sorted((row.nodes, row.saved, row.line.text) for row in report.rows if row.line is not None)
    assert found == [(1, 4000, "y = y.exp()"), (3, 12000, "y = y.exp()")]
    assert "test_memory.py" in str(report)


def test_custom_functions_and_what_they_put_on_ctx():
    class Scale(gc.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x.clone())
            ctx.other = gc.ones(100)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    assert rows(viz.memory(Scale.apply(leaf(10))))["ScaleBackward"].saved == 40 + 400


def test_hooks_on_saved_tensors_and_checkpoints():
    x = leaf(1000)
    with gc.autograd.graph.saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
        y = x.exp()
    assert viz.memory(y).total == 2000
    z = gc.utils.checkpoint.checkpoint(lambda x: x.exp().sin().exp(), x * 1, use_reentrant=False)
    assert viz.memory(z).total == 4000  # the argument, from which the rest is computed again


def test_many_rows_are_joined():
    x = leaf(10)
    y = x.exp().sin().tanh().sigmoid().sqrt()
    report = viz.memory(y, limit=3)
    assert [row.operation for row in report.rows][2] == "4 more"
    assert report.total == viz.memory(y, limit=None).total
    assert report.nodes == 6


def test_tables_for_reading():
    net = nn.Linear(4, 2)
    report = viz.memory(net(gc.ones(1, 4)).exp())
    text = str(report)
    assert text.splitlines()[0] == report.summary
    assert text.splitlines()[2].split() == ["operation", "nodes", "saved", "of", "leaves", "line"]
    assert len({line.index("B  ") for line in text.splitlines()[3:] if "B  " in line}) <= 2
    assert "<table>" in report._repr_html_()


def test_cells_of_notebooks_are_named():
    pytest.importorskip("IPython")
    cells = [
        "import gradcore as gc; from gradcore import viz",
        "x = gc.ones(3, requires_grad=True)\nwith viz.record():\n    y = (x * x).exp().sum()",
        "print(viz.memory(y))",
        "print(viz.graph(y)._repr_svg_())",
    ]
    program = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance(colors='NoColor')\n"
        f"for cell in {cells!r}: shell.run_cell(cell, store_history=True)"
    )
    root = str(Path(gc.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": root}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.count("In [2], line 3  y = (x * x).exp().sum()") == 3
    assert done.stdout.count("In [2], line 3") > 3  # in the picture, too
