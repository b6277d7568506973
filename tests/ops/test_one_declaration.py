"""What is known of an operation stands in its declaration: no other module has a table keyed by operations."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import gradcore
from gradcore.ops.declare.table import OPS

PACKAGE = Path(gradcore.__file__).parent

#: Literals outside `gradcore.ops` that name three operations or more, each a list of something else.
OTHER_LISTS = {
    "names of NumPy's, SciPy's and C++'s functions": {
        "backends/codegen/cpp.py": "_TEMPLATES",
        "backends/codegen/approximate.py": "APPROXIMATE",
        "backends/codegen/emit_cpp.py": "_EXACT _EXTREMA",
        "backends/codegen/emit_cuda.py": "OF_COMPLEX _FUNCTIONS _OF_REALS _SPECIAL",
        "backends/codegen/launch.py": "_NOT_LEFT_TO_CUPY",
        "backends/meta/rules.py": "elementwise _reduction",
        "backends/portable/approximations.py": "DTYPES",
        "backends/portable/elementwise.py": "RENAMED SPECIAL",
        "backends/vmap/functions.py": "_elementwise _reduction",
        "compiler/capture/recorder.py": "_SIZED_BY_VALUES",
        "compiler/program/effects.py": "_TOTAL _WRITERS",
        "compiler/targets/native/source.py": "_Writer",
        "kernels/evaluation.py": "_FUNCTIONS _OF_NUMBERS _call_on_numbers",
        "numpy/__init__.py": "_names",
        "numpy/protocols.py": "_CUPY_NAMES",
        "numpy/reductions.py": "REDUCTIONS",
        "numpy/shaping.py": "_padded_with_values",
        "numpy/table.py": "CONSTANT",
        "numpy/ufuncs.py": "SPECIAL Ufunc _CONSTANT _SCATTERED _SMOOTH",
        "numpy/array_api/functions.py": "_SAME",
        "scipy/ndimage/__init__.py": "LEFT_OUT",
        "sparse/arithmetic.py": "UNARY",
        "sparse/conversion.py": "transpose",
        "sparse/products.py": "matmul mm",
        "sparse/tensor.py": "WORDS",
        "scipy/signal/rates.py": "_BACKGROUND",
        "scipy/special.py": "_MADE _OPERATIONS _existing_names",
    },
    "Python's operators and built-in functions": {
        "backends/codegen/scalars.py": "_ARITHMETIC",
        "backends/stand_ins.py": "METHODS",
        "compiler/capture/arrays.py": "_RECORDED",
        "compiler/capture/local_names.py": "_CONSUMERS",
        "compiler/capture/sizes.py": "_CONVERSIONS",
    },
    "what a compiler does with calls in the place of kernels, names of methods and operators among them": {
        "compiler/targets/python/numpy_calls.py": "_RULES",
        "compiler/targets/native/groups.py": "_LIBRARY",
        "compiler/program/effects.py": "COPIES",
        "compiler/program/passes.py": "_SIMPLER",
    },
    "kernels of one library, where they are written": {
        "backends/cupy/backend.py": "_REPORTING",
        "backends/cupy/rows.py": "CudaRows",
        "backends/numpy/backend.py": "_SEVERAL_STEPS",
        "backends/vmap/backend.py": "_OTHERS",
        "core/config.py": "_OTHER_SOURCES",
        "cuda/check.py": "KERNELS",
    },
    "PyTorch's names of kinds of reductions, nonlinearities and operators": {
        "torch_names/aten.py": "_FUNCTIONS",
        "backends/portable/indexing.py": "Indexing",
        "tensor/neighbours.py": "_einops",
        "nn/init.py": "_GAINS",
    },
    "methods that reshape a tensor in place, which are made there": {"tensor/inplace_views.py": "unsqueeze_"},
}


def _words(node: ast.AST) -> list[str]:
    """Yield the strings of a literal: elements, keys and values, or the words of a text."""
    parts: list[ast.AST | None] = []
    if isinstance(node, (ast.Set, ast.List, ast.Tuple)):
        parts = list(node.elts)
    elif isinstance(node, ast.Dict):
        parts = [
            each for key in (*node.keys, *node.values) for each in (key.elts if isinstance(key, ast.Tuple) else [key])
        ]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.split()
    return [each.value for each in parts if isinstance(each, ast.Constant) and isinstance(each.value, str)]


def _is_table(node: ast.AST) -> bool:
    """Whether a literal names three operations or nodes; of a text, most words must do so."""
    words = _words(node)
    named = {word for word in words if word in OPS or "Backward" in word}
    return len(named) >= 3 and (not isinstance(node, ast.Constant) or len(named) > 0.6 * len(words))


def _tables(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Name (of the variable, or of the function or class at the top) and line of each literal that is a table."""
    for top in tree.body:
        targets = top.targets if isinstance(top, ast.Assign) else [getattr(top, "target", top)]
        name = next((n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)), "")
        name = getattr(top, "name", name)
        if name == "__all__" or (isinstance(top, ast.Expr) and isinstance(top.value, ast.Constant)):
            continue
        docstrings = {
            id(each.body[0].value)
            for each in ast.walk(top)
            if isinstance(each, (ast.FunctionDef, ast.ClassDef)) and isinstance(each.body[0], ast.Expr)
        }
        for node in ast.walk(top):
            if id(node) not in docstrings and _is_table(node):
                yield name, node.lineno


@pytest.mark.slow
def test_no_table_of_operations_outside_their_declarations() -> None:
    allowed = {
        (path, name) for lists in OTHER_LISTS.values() for path, names in lists.items() for name in names.split()
    }
    found = {
        (str(path.relative_to(PACKAGE)), name): line
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] != "ops"
        for name, line in _tables(ast.parse(path.read_text()))
    }
    new = [f"{path}:{found[path, name]}: {name}" for path, name in found if (path, name) not in allowed]
    assert not allowed - set(found), "these are none any more"
    assert not new, "facts about operations belong to their declarations (see gradcore/ops/declare/table.py)"
    assert allowed <= found.keys(), "these lists are gone"


def test_a_table_is_found() -> None:
    text = "_SLOW = frozenset({'exp', 'log', 'sin'})\n_NAMES = '''ExpBackward0 a=b\nLogBackward0 c=d SinBackward0 -e'''"
    assert [name for name, _ in _tables(ast.parse(text))] == ["_SLOW"]
    assert [name for name, _ in _tables(ast.parse("def f(op):\n    return op.name in ('exp', 'log', 'sin')"))] == ["f"]
    assert not list(_tables(ast.parse("__all__ = ['exp', 'log', 'sin']\nx = 'the exp and the log of a sin'")))
