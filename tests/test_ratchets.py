"""Numbers that may only fall: what was cleaned up does not come back unnoticed.

`ratchets.json` has a number for each count and package (modules that lie directly in ``gradcore/`` count as the package
``.``). A change that lowers a number should lower it there, too: ``python -m tests.test_ratchets`` writes the present
numbers. Raise one only together with a sentence in the commit that says why.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from tests.imports import PACKAGE, PATHS, ROOT, imported_modules
from tests.test_import_layers import layer_of

NUMBERS = Path(__file__).with_name("ratchets.json")
#: First words of docstrings that begin in the middle of a thought.
OPENINGS = re.compile(r"(What|That|Those|One|With|Without|Let|Where|How|Who|Which)\b")
#: First words of the description of a thing. A function says what it does: *Return the ...*, *Return whether ...*.
ARTICLES = re.compile(r"(The|A|An|Whether)\b")
#: Names of the compiler's rules, each for a kernel of that name, or for all kernels with a declaration of one kind.
RULE = re.compile(r"_(lower|move)_")
#: Names of functions that are participles or adverbs, where a verb with an object says what the function does.
PARTICIPLE = re.compile(
    r"_*([a-z]+(ed|en|ly)|told|made|found|kept|held|left|laid|put|built|bound)(_as|_by|_for|_from|_in|_of|_on|_out|_to)*$"
)
#: Names of functions that begin with a preposition or an adjective, where a verb with an object says what they do.
PREPOSITION = re.compile(
    r"_*(of(?=_)|above|after|against|alone|along|before|below|between|both|by|each|few|fewer|for|in|on|over|some|under"
    r"|within|without)(_|$)"
)
#: Names that the pattern for participles matches, and that are verbs or nouns.
VERBS = {
    "apply", "assembly", "children", "embed", "even", "feed", "flatten", "gen", "listen", "multiply", "need",
    "only", "open", "poly", "put", "reply", "screen", "seed", "shed", "shorten", "speed", "supply", "then",
    "tighten", "token", "unflatten", "widen", "searchsorted",
}  # fmt: skip


def package_of(module: str) -> str:
    """Return the first folder of a module's path, or ``.``."""
    inside = PATHS[module].relative_to(PACKAGE).parts
    return inside[0] if len(inside) > 1 else "."


def count_in(module: str) -> dict[str, int]:
    """Return the counts of a module."""
    text = PATHS[module].read_text("utf-8")
    tree = ast.parse(text)
    code = {number for number, line in enumerate(text.splitlines(), 1) if line.strip() and line.lstrip()[0] != "#"}
    any_types = openings = participles = prepositions = nouns = modules = rules = locks = 0
    has_annotations = is_text = False
    for node in ast.walk(tree):
        has_annotations |= isinstance(getattr(node, "annotation", None) or getattr(node, "returns", None), ast.expr)
        is_text |= isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if isinstance(node, ast.Name):
            any_types += node.id == "Any"
            rules += RULE.match(node.id) is not None and isinstance(node.ctx, ast.Store)
        elif isinstance(node, ast.Attribute):
            locks += node.attr in ("Lock", "RLock")
        elif isinstance(node, ast.Compare):
            is_identity = isinstance(node.ops[0], (ast.Is, ast.IsNot))
            modules += is_identity and ast.unparse(node.comparators[0]) in ("np", "numpy")
        elif isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            described = ast.get_docstring(node, clean=False)
            if described is not None:
                openings += OPENINGS.match(described) is not None
                code -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                rules += RULE.match(node.name) is not None
                prepositions += PREPOSITION.match(node.name) is not None
                participles += PARTICIPLE.match(node.name) is not None and node.name.lstrip("_") not in VERBS
                is_property = any("property" in ast.unparse(each) for each in node.decorator_list)
                nouns += not is_property and ARTICLES.match(described or "") is not None
    own = layer_of(module) if module else None
    upward = sum(own is not None and (layer_of(name) or 0) > own for name in imported_modules(module))
    return {
        "Any in types": any_types,
        # Python 3.14 evaluates annotations late, and has them elsewhere until then.
        "modules whose annotations are not text": has_annotations and not is_text,
        "locks that are not from `new_lock`, which an interrupt leaves free": locks,
        "docstrings that begin in the middle of a thought": openings,
        "functions described as things": nouns,
        "functions named by a participle": participles,
        "functions named by a preposition": prepositions,
        "comparisons with the module numpy, not with `NUMPY`": modules,
        "lines of code of the compiler": len(code) if package_of(module) == "compiler" else 0,
        "rules of the compiler for kernels of one name": rules if package_of(module) == "compiler" else 0,
        "imports of a layer above, in functions too": upward,
    }


def find_cycles(imports: Mapping[str, Collection[str]]) -> set[str]:
    """Return the modules that import themselves through others, by Tarjan's algorithm (1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: set[str] = set()

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for name in imports[module]:
            if name not in index:
                visit(name)
                low[module] = min(low[module], low[name])
            elif name in stack:
                low[module] = min(low[module], index[name])
        if low[module] == index[module]:
            component = [stack.pop()]
            while component[-1] != module:
                component.append(stack.pop())
            found.update(component if len(component) > 1 else ())

    for module in imports:
        if module not in index:
            visit(module)
    return found


def loaded_modules() -> list[str]:
    """Return the modules of the package that a program has loaded once it has imported it."""
    code = "import sys, gradcore; print(*(name[9:] for name in sys.modules if name.startswith('gradcore.')))"
    variables = {**os.environ, "GRADCORE_COMPILED": "0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.split() if name in PATHS]


def count_all() -> dict[str, dict[str, int]]:
    """Return the present numbers by count and package, those that are not zero."""
    totals: dict[str, Counter[str]] = {}
    for module in PATHS:
        for count, number in count_in(module).items():
            totals.setdefault(count, Counter())[package_of(module)] += number
    # Whoever imports gradcore's own names imports everything, so the package itself is no part of a cycle.
    cycles = find_cycles({module: imported_modules(module) for module in PATHS if module})
    totals["modules in a cycle of imports, in functions too"] = Counter(map(package_of, cycles))
    totals["modules that `import gradcore` loads"] = Counter(map(package_of, loaded_modules()))
    totals["entries of gradcore/"] = Counter("." for module in PATHS if module and "." not in module)
    return {count: {name: n for name, n in sorted(packages.items()) if n} for count, packages in totals.items()}


@pytest.mark.slow
def test_numbers_only_fall() -> None:
    before = json.loads(NUMBERS.read_text("utf-8"))
    risen = [
        f"{count}: {package} had {before[count].get(package, 0)}, has {number}"
        for count, packages in count_all().items()
        for package, number in packages.items()
        if number > before[count].get(package, 0)
    ]
    assert not risen, "\n".join(risen)


def test_the_counts_see_what_they_count() -> None:
    assert RULE.match("_lower_softmax")
    assert PARTICIPLE.match("laid_out_as")
    assert PARTICIPLE.match("_plainly")
    assert not PARTICIPLE.match("remove_copies")
    assert OPENINGS.match("What a value is made of.")
    assert not OPENINGS.match("Whether it is so.")
    assert find_cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d", "a"}}) == {"b", "c"}


if __name__ == "__main__":
    NUMBERS.write_text(json.dumps(count_all(), indent=1) + "\n", "utf-8")
