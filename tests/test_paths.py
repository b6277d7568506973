"""Import paths that PyTorch has: every line of the table, drawn ways to import them, and what is said of others."""

import importlib
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradcore as gc
from gradcore.torch_names import paths

PAIRS = sorted((path, name) for path, names in paths.NAMES.items() for name in names if not name.startswith("*"))


@pytest.mark.parametrize("path", sorted(paths.NAMES))
def test_every_path_has_its_names(path):
    module = importlib.import_module(f"gradcore.{path}".rstrip("."))
    for name, (source, defined) in paths.NAMES[path].items():
        home = importlib.import_module(f"gradcore.{source}".rstrip("."))
        if name.startswith("*"):
            public = [each for each in home.__all__ if each not in vars(module) and f"{path}.{each}" not in paths.NAMES]
            assert all(getattr(module, each) is getattr(home, each) for each in public)
        else:
            assert getattr(module, name) is getattr(home, defined)


def test_the_table_says_nothing_that_is_so_anyway():
    """A line for a name that a module defines itself would never be read."""
    for path, name in PAIRS:
        module = importlib.import_module(f"gradcore.{path}".rstrip("."))
        source, defined = paths.NAMES[path][name]
        found = importlib.import_module(f"gradcore.{source}".rstrip("."))
        assert getattr(module, name) is getattr(found, defined), f"{path}.{name} is something else"


WAYS = (
    "import gradcore; found = gradcore.{path}.{name}",
    "import gradcore.{path}; found = gradcore.{path}.{name}",
    "from gradcore.{path} import {name} as found",
    "import gradcore.{path} as module; found = module.{name}",
    "import gradcore, importlib; found = getattr(importlib.import_module('gradcore.{path}'), '{name}')",
)


def hidden(path: str, way: str) -> bool:
    """Whether a way looks the module up in a package that has a function of that name, as PyTorch's has."""
    above, _, name = path.rpartition(".")
    package = importlib.import_module(f"gradcore.{above}".rstrip("."))
    return way in (WAYS[0], WAYS[1], WAYS[3]) and not inspect.ismodule(getattr(package, name))


@given(st.lists(st.tuples(st.sampled_from([pair for pair in PAIRS if pair[0]]), st.sampled_from(WAYS)), max_size=30))
def test_names_are_found_in_every_way_and_order(drawn):
    for (path, name), way in drawn:
        scope = {}
        if hidden(path, way):
            with pytest.raises(AttributeError, match=f"'function' object has no attribute '{name}'"):
                exec(way.format(path=path, name=name), scope)
            continue
        exec(way.format(path=path, name=name), scope)
        source, defined = paths.NAMES[path][name]
        assert scope["found"] is getattr(importlib.import_module(f"gradcore.{source}".rstrip(".")), defined)


DRAWN = zip(WAYS, PAIRS[len(PAIRS) // 3 :: 61], strict=False)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("way", "pair"), [(way, pair) for way, pair in DRAWN if not hidden(pair[0], way)])
def test_names_are_found_first_of_all(way, pair):
    """In a process in which nothing else has been imported."""
    subprocess.run([sys.executable, "-c", way.format(path=pair[0], name=pair[1])], check=True)


@pytest.mark.parametrize("path", sorted({path for path in paths.NAMES if path and not path.startswith("_")}))
def test_everything_of_a_path_can_be_imported(path):
    scope = {}
    exec(f"from gradcore.{path} import *", scope)
    public = {name for name in paths.NAMES[path] if not name.startswith(("_", "*"))}
    module = importlib.import_module(f"gradcore.{path}")
    if "__all__" not in vars(module):
        assert public <= scope.keys()
        assert public <= set(dir(module))


@pytest.mark.parametrize("path", sorted(paths.ABSENT))
def test_what_is_missing_says_why(path):
    why = re.escape(paths.ABSENT[path])
    if path not in paths.NAMES and path != "_subclasses":  # which have some names
        with pytest.raises(ModuleNotFoundError, match=why):
            importlib.import_module(f"gradcore.{path}")
    with pytest.raises(ModuleNotFoundError, match=why):
        importlib.import_module(f"gradcore.{path}.below")


def test_other_names_are_ordinary_errors():
    with pytest.raises(AttributeError, match=r"module 'gradcore' has no attribute 'no_such_name'$"):
        gc.no_such_name  # noqa: B018
    with pytest.raises(AttributeError, match=r"torch\.fx has no counterpart"):
        gc.fx.GraphModule  # noqa: B018
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'gradcore\.no_such_module'$"):
        importlib.import_module("gradcore.no_such_module")
    with pytest.raises(ImportError, match="cannot import name 'NoSuchLayer'"):
        exec("from gradcore.nn.modules.conv import NoSuchLayer")


def test_a_made_module_has_the_names_of_the_package_above():
    assert importlib.import_module("gradcore.distributions.normal").Distribution is gc.distributions.Distribution
    assert not hasattr(importlib.import_module("gradcore.distributions.normal"), "sin")


def test_base_classes_are_bases():
    from gradcore.nn.modules.batchnorm import _BatchNorm
    from gradcore.nn.modules.conv import _ConvNd
    from gradcore.nn.modules.dropout import _DropoutNd
    from gradcore.nn.modules.loss import _Loss, _WeightedLoss
    from gradcore.nn.modules.pooling import _AdaptiveAvgPoolNd, _AvgPoolNd, _MaxPoolNd

    nn = gc.nn
    for base, classes in {
        _BatchNorm: (nn.BatchNorm1d, nn.BatchNorm3d, nn.SyncBatchNorm, nn.LazyBatchNorm2d),
        _ConvNd: (nn.Conv1d, nn.Conv3d, nn.ConvTranspose2d),
        _DropoutNd: (nn.Dropout, nn.Dropout2d, nn.AlphaDropout),
        _Loss: (nn.MSELoss, nn.CTCLoss, nn.TripletMarginWithDistanceLoss, nn.CrossEntropyLoss),
        _WeightedLoss: (nn.CrossEntropyLoss, nn.NLLLoss, nn.BCELoss),
        _MaxPoolNd: (nn.MaxPool1d, nn.MaxPool3d),
        _AvgPoolNd: (nn.AvgPool2d,),
        _AdaptiveAvgPoolNd: (nn.AdaptiveAvgPool1d,),
    }.items():
        assert all(issubclass(cls, base) for cls in classes)

    class Mine(_WeightedLoss):
        def forward(self, input, target):
            return nn.functional.cross_entropy(input, target, self.weight, reduction=self.reduction)

    mine, own = Mine(gc.tensor([1.0, 2.0])), nn.CrossEntropyLoss(gc.tensor([1.0, 2.0]))
    x, y = gc.randn(4, 2), gc.tensor([0, 1, 1, 0])
    assert gc.equal(mine(x, y), own(x, y))
    assert list(mine.state_dict()) == ["weight"]


def test_imports_hide_no_function() -> None:
    """Python binds an imported submodule in its package, where PyTorch has a function of the same name."""
    for path in sorted(paths.NAMES):
        above, _, name = path.rpartition(".")
        package = importlib.import_module(f"gradcore.{above}".rstrip("."))
        before = vars(package).get(name)
        module = importlib.import_module(f"gradcore.{path}".rstrip("."))
        assert vars(package).get(name) is before or before is None or before is module, path
    assert callable(importlib.import_module("gradcore.nn.parallel").data_parallel)


@pytest.mark.slow
def test_modules_that_the_documentation_uses_are_attributes() -> None:
    """In a fresh process ``gc.name`` works for every module of the package that a document or docstring writes so."""
    root = Path(gc.__file__).parent
    texts = [*root.rglob("*.py"), *(root.parent / "docs").rglob("*.md"), root.parent / "README.md"]
    used = {
        name for path in texts for name in re.findall(r"\b(?:gc|gradcore)\.([a-z]\w*)\.\w", path.read_text("utf-8"))
    }
    modules = sorted(n for n in used if importlib.util.find_spec(f"gradcore.{n}") is not None)
    assert {"compiled", "fft", "numpy", "scipy", "viz"} <= set(modules)
    code = f"import gradcore; print([n for n in {modules} if not hasattr(gradcore, n)])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("path", sorted(paths.MOVED))
def test_a_module_in_a_room_is_the_module_of_its_public_path(path: str) -> None:
    module = importlib.import_module(f"gradcore.{paths.MOVED[path]}")
    assert importlib.import_module(f"gradcore.{path}") is module
    above, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(f"gradcore.{above}".rstrip(".")), name)
    assert found is module or callable(found)  # ``gradcore.tensor`` is a function, as in PyTorch
    spec = paths._MovedFinder().find_spec(f"gradcore.{path}")
    assert spec is not None
    assert (spec.submodule_search_locations is not None) == str(module.__file__).endswith("__init__.py")


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "pair", [("fft", "rfft"), ("return_types", "max"), ("random", "seed"), ("viz", "graph"), ("array_api.fft", "fft")]
)
def test_a_module_in_a_room_is_found_first_of_all(way: str, pair: tuple[str, str]) -> None:
    """In a process in which nothing else has been imported."""
    subprocess.run([sys.executable, "-c", way.format(path=pair[0], name=pair[1])], check=True)
