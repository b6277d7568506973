"""Sphinx extension: writes the pages of the reference, from the table of operations and the public names.

Operations and module classes are grouped by `topics`, everything else by `PAGES`. Further names of the top namespace
share a page, and one more page lists all names from A to Z.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import derivatives
from formulas import formulas
from jinja2.sandbox import SandboxedEnvironment
from numpydoc import docscrape_sphinx
from sphinx.application import Sphinx
from sphinx.util import logging
from topics import LAYERS, OPERATIONS, section_of_layer

import gradcore
from gradcore.core import dtypes
from gradcore.ops.declare.table import OPS, Op
from gradcore.tensor import namespaces

LOG = logging.getLogger(__name__)

#: File, title, and sections: a heading, the prefix under which users find the names, and the module that lists them.
PAGES = (
    ("creation", "Creating tensors", (("From data, filled, in sequences", "gradcore", "gradcore.tensor.creation"),)),
    ("random", "Random numbers", (("", "gradcore", "gradcore.random"),)),
    ("dtypes", "Dtypes, sizes, printing", (
        ("Dtypes", "gradcore", "gradcore.core.dtypes"),
        ("Predicates", "gradcore", "gradcore.tensor.predicates"),
        ("Sizes and layouts", "gradcore", "gradcore.core.size gradcore.tensor.layouts"),
        ("Printing", "gradcore", "gradcore.tensor.printing"),
    )),
    ("devices", "Devices", (
        ("Devices", "gradcore", "gradcore.core.device"),
        ("Configuration", "gradcore", "gradcore.core.config gradcore.core.determinism gradcore.tools.diagnostics"),
        ("Memory and threads of the CPU", "gradcore", "gradcore.backends.numpy.malloc gradcore.backends.numpy.threads"),
        ("Compiled kernels", "gradcore.compiled", "gradcore.compiled"),
        ("CUDA", "gradcore.cuda", "gradcore.cuda"),
        ("Ranges for NVIDIA's profilers", "gradcore.cuda.nvtx", "gradcore.cuda.nvtx"),
        ("What products and attention may do on CUDA", "gradcore.backends.cuda", "gradcore.backends.cuda"),
        ("Switches without an effect", "gradcore.backends.cudnn", "gradcore.backends.cudnn"),
        ("Instructions of the CPU", "gradcore.backends.cpu", "gradcore.backends.cpu"),
        ("Warnings and errors", "gradcore.errors", "gradcore.core.errors"),
    )),
    ("autograd", "Automatic differentiation", (
        ("Gradients", "gradcore.autograd", "gradcore.autograd"),
        ("In the top namespace", "gradcore", "gradcore.autograd.grad_mode gradcore.autograd.anomaly_mode"),
        ("The graph and its hooks", "gradcore.autograd.graph", ""),
        ("Custom functions", "gradcore.autograd.function", "gradcore.autograd.function"),
        ("Forward mode", "gradcore.autograd.forward_ad", "gradcore.autograd.forward_ad"),
        ("Jacobians", "gradcore.autograd.functional", "gradcore.autograd.functional"),
    )),
    ("overrides", "Subclasses of tensors", (("", "gradcore.overrides", "gradcore.overrides"),)),
    ("amp", "Mixed precision", (
        ("", "gradcore.amp", "gradcore.amp"),
        ("Settings of a thread", "gradcore", "gradcore.amp.autocasting"),
        ("Deprecated names", "gradcore.cuda.amp", "gradcore.cuda.amp"),
    )),
    ("profiler", "Profiling", (
        ("", "gradcore.autograd.profiler", "gradcore.autograd.profiler"),
        ("Step by step", "gradcore.profiler", "gradcore.profiler"),
    )),
    ("compiler", "Compiled programs", (("", "gradcore.compiler", "gradcore.compiler"),)),
    ("distributed", "Several processes", (
        ("", "gradcore.distributed", "gradcore.distributed"),
        ("Collectives with derivatives", "gradcore.distributed.nn.functional", "gradcore.distributed.nn.functional"),
        ("Optimisers", "gradcore.distributed.optim", "gradcore.distributed.optim"),
        ("Sharded modules", "gradcore.distributed.fsdp", "gradcore.distributed.fsdp"),
        ("Checkpoints", "gradcore.distributed.checkpoint", "gradcore.distributed.checkpoint"),
        ("State dicts for them", "gradcore.distributed.checkpoint.state_dict", "gradcore.distributed.state_dicts"),
    )),
    ("func", "Function transforms", (("", "gradcore.func", "gradcore.func"),)),
    ("nn", "Neural networks", (
        ("", "gradcore.nn", "gradcore.nn"),
        ("Hooks on all modules", "gradcore.nn.modules.module", "gradcore.nn.module"),
        ("Several devices", "gradcore.nn.parallel", "gradcore.nn.parallel"),
        ("Ways to compute attention", "gradcore.nn.attention", "gradcore.nn.sdpa"),
        ("Initialization", "gradcore.nn.init", "gradcore.nn.init"),
        ("Utilities", "gradcore.nn.utils", "gradcore.nn.utils"),
        ("Sequences", "gradcore.nn.utils.rnn", "gradcore.nn.utils.rnn"),
        ("Pruning", "gradcore.nn.utils.prune", "gradcore.nn.utils.prune"),
        ("Parametrizations", "gradcore.nn.utils.parametrize", "gradcore.nn.utils.parametrize"),
        ("Built-in parametrizations", "gradcore.nn.utils.parametrizations", "gradcore.nn.utils.parametrizations"),
    )),
    ("optim", "Optimisers", (
        ("", "gradcore.optim", "gradcore.optim"),
        ("Learning-rate schedulers", "gradcore.optim.lr_scheduler", "gradcore.optim.lr_scheduler"),
        ("Averages of weights", "gradcore.optim.swa_utils", "gradcore.optim.swa_utils"),
    )),
    ("distributions", "Distributions", (
        ("", "gradcore.distributions", "gradcore.distributions"),
        ("Transforms", "gradcore.distributions.transforms", "gradcore.distributions.transforms"),
        ("Constraints", "gradcore.distributions.constraints", "gradcore.distributions.constraints"),
    )),
    ("sparse", "Sparse matrices", (
        ("", "gradcore.sparse", "gradcore.sparse"),
        ("Making", "gradcore", "gradcore.sparse.making"),
    )),
    ("signal", "Windows", (
        ("", "gradcore.signal.windows", "gradcore.signal.windows"),
        ("Periodic by default", "gradcore", "gradcore.signal.periodic"),
    )),
    ("testing", "Testing", (("", "gradcore.testing", "gradcore.testing"),)),
    ("utils", "Utilities", (("Checkpointing", "gradcore.utils.checkpoint", "gradcore.utils.checkpoint"),)),
    ("data", "Batches of data", (("", "gradcore.utils.data", "gradcore.utils.data"),)),
    ("serialization", "Saving and loading", (
        ("", "gradcore", "gradcore.serialization"),
        ("What files may contain", "gradcore.serialization", "gradcore.serialization"),
        ("Files of safetensors", "gradcore.safetensors", "gradcore.safetensors"),
    )),
    ("viz", "Seeing graphs", (("", "gradcore.viz", "gradcore.viz"),)),
    ("extending", "Custom operations and backends", (
        ("Declaring operations", "gradcore.ops.declare.table", "gradcore.ops.declare.table"),
        ("Describing their calls", "gradcore.ops.declare.samples", "gradcore.ops.declare.samples"),
        ("Registering", "gradcore", "gradcore.tensor.installation"),
        ("CUDA kernels", "gradcore", "gradcore.kernels"),
        ("Backends", "gradcore.backends", "gradcore.backends"),
    )),
)  # fmt: skip

#: What users need of a module that lists more.
CHOSEN = {
    "gradcore.ops.declare.table": ("Op", "elementwise", "linear", "bilinear", "general", "constant", "composite"),
    "gradcore.ops.declare.samples": ("case", "floats", "ints", "bools"),
}  # fmt: skip


def _heading(text: str, mark: str) -> list[str]:
    return [text, mark * len(text), ""]


def _module(path: str) -> ModuleType | None:
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        return None


def _find(path: str) -> Any:
    """Return the public object with a dotted path, or None if there is none."""
    where, _, name = path.rpartition(".")
    module = _module(where)
    return getattr(module, name, None)  # some are imported when first asked for


# -- operations -------------------------------------------------------------------------------------------------------


def _families() -> dict[str, list[Op]]:
    """Group the public operations by the module that declares them."""
    families: dict[str, list[Op]] = {}
    for op in OPS.values():
        if op.function or op.method:
            families.setdefault(op.module, []).append(op)
    return dict(sorted(families.items()))


def _facts(op: Op) -> str:
    """Return a line of facts that the name, signature and description do not give."""
    name = op.method if isinstance(op.method, str) else op.name
    methods = [name, *(a for a in op.aliases if "." not in a and op.method is True)] if op.method else []
    if op.inplace and op.method and "." not in op.path:
        methods.append(f"{name}_")
    facts = [("Method", [f"Tensor.{m}" for m in methods if hasattr(gradcore.Tensor, m)])]
    facts.append(("Also", [a if "." in a else ".".join((*op.path.split(".")[:-1], a)) for a in op.aliases]))
    formulas = op.vjps or op.differentials
    if formulas and isinstance(op.node, str):
        facts.append(("Node", [op.node]))
    reads = sorted({n for f in formulas.values() for n in f.names if n in op.outputs or n in op.names})
    facts.append(("Saves", [n for n in reads if n in op.outputs or op.position[n] in op.tensors]))
    shown = [f"{label}: {', '.join(map(_literal, values))}." for label, values in facts if values]
    return " ".join([f"Kind: {op.kind}.", *shown])


def _literal(name: str) -> str:
    return f"``{name.strip('.')}``"


def _entry(op: Op) -> list[str]:
    directive = "autofunction" if op.function else "automethod"
    path = op.path if op.function else f"Tensor.{op.method if isinstance(op.method, str) else op.name}"
    if op.function and _find(f"gradcore.{op.path}") is None:
        LOG.warning("the operation %s is not at gradcore.%s", op.name, op.path)
        return []
    if not op.function and isinstance(inspect.getattr_static(gradcore.Tensor, path.partition(".")[2]), property):
        directive = "autoattribute"
    signature = "" if directive == "autoattribute" else _signature(op)
    lines = [f".. {directive}:: gradcore.{path}{signature}", "", f"   {_facts(op)}", ""]
    if op.kind == "elementwise" and (written := [f"``{text}`` ({name})" for name, text in formulas(op)]):
        lines += [f"   Differential: {', '.join(written)}.", ""]
    return lines


def _signature(op: Op) -> str:
    """Return the signature as users see it."""
    shown: list[str] = []
    for i, p in enumerate(op.parameters):
        if p.name.startswith("_") or (i == 0 and not op.function):
            continue
        if p.kind is p.VAR_POSITIONAL or (i == 0 and op.varargs):
            shown.append(f"*{p.name}")
            continue
        if p.kind is p.KEYWORD_ONLY and not any(text.startswith("*") for text in shown):
            shown.append("*")
        name = "input" if i == 0 and p.name == "self" else p.name
        shown.append(name if p.default is p.empty else f"{name}={p.default!r}")
    return f"({', '.join(shown)})"


def _topic(title: str, sections: Iterable[tuple[str, str]], families: dict[str, list[Op]]) -> list[str]:
    """Return the page of a topic, and remove the families that it shows from `families`."""
    lines = _heading(title, "=")
    for heading, names in sections:
        lines += _heading(heading, "-")
        for name in names.split():
            module = f"gradcore.ops.{name}"
            notes = (inspect.getdoc(importlib.import_module(module)) or "").partition("\n\n")[2]
            lines += [notes, ""] if notes else []
            for op in sorted(families.pop(module, ()), key=lambda op: op.path):
                lines += _entry(op)
    return lines


# -- everything else --------------------------------------------------------------------------------------------------


def _names(prefix: str, modules: str) -> Iterator[tuple[str, Any]]:
    """Return the names below a prefix that modules list, in their order, without operations."""
    operations = {id(op.call) for op in OPS.values()}
    names: Iterable[str] = CHOSEN.get(prefix, ())
    if not names:
        names = [name for path in modules.split() if (m := _module(path)) for name in getattr(m, "__all__", ())]
    for name in names:
        value = _find(f"{prefix}.{name}")
        if callable(value) and not isinstance(value, gradcore.dtype) and id(value) not in operations:
            yield name, value


def _page(title: str, sections: Iterable[tuple[str, str, str]], seen: set[int]) -> list[str]:
    lines = _heading(title, "=")
    for heading, prefix, modules in sections:
        groups: dict[str, list[str]] = {title: [] for title, _ in LAYERS} if prefix == "gradcore.nn" else {heading: []}
        for name, value in _names(prefix, modules):
            if id(value) in seen:
                continue
            seen.add(id(value))
            group = section_of_layer(name) if prefix == "gradcore.nn" else heading
            if group is None:
                LOG.warning("%s.%s is in no section of the reference", prefix, name)
                continue
            groups[group] += _named(f"{prefix}.{name}", value)
        for group, entries in groups.items():
            if entries:
                lines += (_heading(group, "-") if group else []) + entries
    return lines


def _named(path: str, value: Any) -> list[str]:
    if isinstance(value, type):
        inherited = ["   :inherited-members: object"] if value is gradcore.nn.Module else []
        return [f".. autoclass:: {path}", "   :members:", *inherited, ""]
    if not inspect.isroutine(value):  # an object that can be called
        return [f".. autodata:: {path}", "   :no-value:", ""]
    return [f".. autofunction:: {path}", ""]


_DESCRIBED = re.compile(r"^\.\. auto(?:function|class|method|attribute|data):: (gradcore\.[\w.]+)", re.MULTILINE)


def _index(pages: Iterable[list[str]]) -> list[str]:
    """All names that the pages describe, in the order of the alphabet, with links."""
    paths = {path for lines in pages for line in lines for path in _DESCRIBED.findall(line)}
    letters: dict[str, list[str]] = {}
    for path in sorted(paths, key=lambda path: (path.rpartition(".")[2].lower().lstrip("_"), path)):
        letters.setdefault(path.rpartition(".")[2].lstrip("_")[0].upper(), []).append(path)
    lines = _heading("A to Z", "=")
    for letter, found in letters.items():
        links = [f":py:obj:`{path.removeprefix('gradcore.')} <{path}>`" for path in found]
        lines += [*_heading(letter, "-"), " · ".join(links), ""]
    return lines


def _dtype_table() -> list[str]:
    aliases: dict[str, list[str]] = {}
    for alias, dtype in dtypes.ALIASES.items():
        if alias != dtype.name:
            aliases.setdefault(dtype.name, []).append(alias)
    rows = [".. list-table::", "   :header-rows: 1", ""]
    rows += ["   * - dtype", "     - also", "     - bytes", "     - NumPy"]
    for name, dtype in dtypes.DTYPES.items():
        also = ", ".join(f"``{a}``" for a in aliases.get(dtype.name, ())) or "\\ "
        rows += [f"   * - ``{name}``", f"     - {also}", f"     - {dtype.itemsize}", f"     - ``{dtype.numpy}``"]
    return [*rows, ""]


def _tensor() -> list[str]:
    """Return the page of the class `Tensor`, with the members in its source. Operations are on other pages."""
    own = [
        name
        for name, value in vars(gradcore.Tensor).items()
        if not name.startswith("_") and inspect.unwrap(_function(value)).__module__ == "gradcore.tensor.tensor"
    ]
    lines = _heading("Tensor", "=")
    lines += [".. autoclass:: gradcore.Tensor", f"   :members: {', '.join(own)}", ""]
    lines += _heading("Operations as methods", "-")
    lines += ["The methods below are operations. They are described with the functions of the same name.", ""]
    families = _families()
    for name, _, sections in OPERATIONS:
        ops = [op for _, modules in sections for m in modules.split() for op in families.get(f"gradcore.ops.{m}", ())]
        methods = sorted(op.method if isinstance(op.method, str) else op.name for op in ops if op.method)
        if methods:
            lines += [f":doc:`ops-{name}`", f"   {', '.join(map(_literal, methods))}", ""]
    return lines


def _function(value: Any) -> Any:
    return value.fget if isinstance(value, property) else getattr(value, "__func__", value)


# -- the pages --------------------------------------------------------------------------------------------------------


def _undocumented(seen: set[int]) -> list[str]:
    """Public functions and classes of the top namespace that no page has (methods of tensors are on theirs)."""
    methods = {id(getattr(gradcore.Tensor, name)) for name in namespaces.METHODS}
    known = seen | methods | {id(op.call) for op in OPS.values()} | {id(gradcore.Tensor)}
    legacy = type(gradcore.FloatTensor)
    return [
        name
        for name, value in ((name, getattr(gradcore, name)) for name in dir(gradcore))
        if not name.startswith("_") and callable(value) and id(value) not in known
        and not isinstance(value, legacy) and not name.endswith("_") and value.__module__ != "builtins"
    ]  # fmt: skip


def write(app: Sphinx) -> None:
    """Write the pages into ``docs/generated``."""
    out = Path(app.srcdir) / "generated"
    out.mkdir(exist_ok=True)
    pages = {"tensor": _tensor()}
    families = _families()
    for name, title, sections in OPERATIONS:
        pages[f"ops-{name}"] = _topic(title, sections, families)
    for module in families:
        LOG.warning("the operations of %s are in no section of the reference", module)
    seen: set[int] = set()
    for name, title, sections in PAGES:
        if any(_module(prefix) for _, prefix, _ in sections):
            name = f"api-{name}"
            pages[name] = _page(title, sections, seen)
            if name == "api-dtypes":
                pages[name][3:3] = _dtype_table()
    others = [line for name in _undocumented(seen) for line in _named(f"gradcore.{name}", getattr(gradcore, name))]
    pages["api-others"] = [*_heading("Other names of the top namespace", "="), *others]
    pages["derivatives"] = derivatives.page()
    pages["a-to-z"] = _index(pages.values())
    for old in out.glob("*.rst"):
        if old.stem not in pages:
            old.unlink()
    for name, lines in pages.items():
        text, path = "\n".join(lines) + "\n", out / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def keep_templates() -> None:
    """Let numpydoc use one environment of templates: it makes another one, and compiles its template, per docstring."""
    made: list[SandboxedEnvironment] = []

    def make_once(**options: Any) -> SandboxedEnvironment:
        if not made:
            made.append(SandboxedEnvironment(**options))
        return made[0]

    docscrape_sphinx.SandboxedEnvironment = make_once


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    keep_templates()
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
