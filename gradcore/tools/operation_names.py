"""Generator of the names of operations in `gradcore.ops.declare`: ``python -m gradcore.tools.operation_names``.

Run it after an operation was added, removed or renamed, and before the generator of stub files. A test keeps the file
equal to the declarations.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path

import gradcore
from gradcore.backends import kernel_rules
from gradcore.ops.declare.table import Op
from gradcore.tensor.installation import inplace_method_names, method_names
from gradcore.tensor.namespaces import function_names

__all__ = ["make", "write"]

FOLDER = Path(gradcore.__file__).parent / "ops"
HEADER = '''"""Names of operations by the modules that declare them, so that these are imported when they are needed.

Written by ``python -m gradcore.tools.operation_names``.
"""

__all__ = ["ATTRIBUTES", "DECLARED", "FUNCTIONS", "INPLACE_METHODS", "METHODS", "RESULTS"]
'''


def collect() -> dict[str, list[Op]]:
    """Return the operations of each module below ``gradcore/ops`` that declares some, as its source does now."""
    paths = sorted(path.relative_to(FOLDER).with_suffix("") for path in FOLDER.glob("*/*.py") if path.stem[0] != "_")
    modules = {f"gradcore.ops.{'.'.join(path.parts)}": ".".join(path.parts) for path in paths}
    for module in modules:
        kernel_rules.load(module)
    results: dict[str, list[Op]] = {}
    for op in dict.values(kernel_rules.OPERATIONS):  # those that the present file does not know, too
        if op.module in modules:
            results.setdefault(modules[op.module], []).append(op)
    return {family: sorted(results[family], key=lambda op: op.name) for family in sorted(results)}


def make() -> str:
    """Return the text of the file.

    Raises
    ------
    ValueError
        If operations of several modules have one kernel, which could not be found by its name.
    """
    families = collect()
    homes: dict[str, str] = {}
    for family, ops in families.items():
        for name in (name for op in ops for name in (op.name, op.kernel)):
            if homes.setdefault(name, family) != family:
                raise ValueError(f"{name} is an operation or a kernel of {homes[name]} and of {family}")
    names = {family: sorted(name for name, home in homes.items() if home == family) for family in families}
    every = [op for ops in families.values() for op in ops]
    methods = {name: op.name for op in every for name in method_names(op)}
    inplace_methods = {name: op.name + "_" for op in every for name in inplace_method_names(op)}
    results = {op.output_name: op.name for op in every if op.fields}
    parts = [
        HEADER,
        "#: Operations, and kernels of other names, by the module that declares them.",
        _format_dict("DECLARED", names),
        "#: Methods of tensors, with the name of the operation if it differs.",
        f"METHODS = {_format(_pairs(methods))}",
        "#: In-place methods of tensors, with the name of the function in `gradcore.functional` if it differs.",
        f"INPLACE_METHODS = {_format(_pairs(inplace_methods))}",
        "#: Attributes of tensors that are operations.",
        f"ATTRIBUTES = {_format(sorted(op.name for op in every if op.attribute))}",
        "#: Functions by namespace, with the name in `gradcore.functional` if it differs.",
        _format_dict("FUNCTIONS", {path: _pairs(each) for path, each in sorted(function_names(every).items())}),
        "#: Named tuples of results, with the name of the operation if it differs.",
        f"RESULTS = {_format(_pairs(results))}",
    ]
    return "\n".join(parts) + "\n"


def _pairs(names: Mapping[str, str]) -> list[str]:
    return [name if name == defined else f"{name}={defined}" for name, defined in sorted(names.items())]


def _format(words: Iterable[str]) -> str:
    """Return a string literal of words, in lines of 120 characters if it is longer than one."""
    text = " ".join(words)
    return f'"{text}"' if len(text) < 80 else '"""\n' + textwrap.fill(text, 120, break_on_hyphens=False) + '\n"""'


def _format_dict(name: str, table: Mapping[str, Iterable[str]]) -> str:
    rows = "".join(f'    "{key}": {_format(words)},\n' for key, words in table.items())
    return f"{name} = {{\n{rows}}}"


def write() -> None:
    """Write the file into the package."""
    (FOLDER / "declare/names.py").write_text(make(), "utf-8")


if __name__ == "__main__":
    write()
