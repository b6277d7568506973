"""Support for programs that say ``import torch``: ``python -m gradcore.as_torch script.py`` runs them with gradcore.

Every module below ``torch`` is then gradcore's module of that name, the same object, for the program and for the
packages that it imports. Missing modules raise an ImportError that gives the reason, missing names an AttributeError.

Examples
--------
>>> import subprocess, sys
>>> program = "import torch; from torch.nn import functional as F; print(F.relu(torch.tensor([-1.0, 2.0])))"
>>> command = f"import gradcore.as_torch; gradcore.as_torch.install(); {program}"
>>> print(subprocess.run([sys.executable, "-c", command], capture_output=True, text=True).stdout)
tensor([0., 2.])
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import multiprocessing.spawn
import runpy
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import gradcore
from gradcore.torch_names import paths, placeholders
from gradcore.torch_names.torch_version import TorchVersion

__all__ = ["install", "main"]

#: The version of PyTorch whose names and behaviour gradcore has.
VERSION = "2.13.0"
#: Packages by the modules that programs know them as.
_PACKAGES = {"torch": "gradcore", "functorch": "gradcore.functorch"}
_FORMER = {own: package for package, own in _PACKAGES.items()}
#: Packages of PyTorch's project that are compiled against it.
_COMPILED = ("torchaudio", "torchtext", "torchvision")


class _Loader(Loader):
    """Loader that returns a module of gradcore under another name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # Python has just replaced it.
        _complete(module)


class _Refusing(Loader):
    """Loader that raises an error which says why an installed package cannot be imported."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        raise ModuleNotFoundError(
            f"No module named {spec.name!r} with gradcore as torch: {spec.name} is compiled for PyTorch. Use NumPy, "
            "SciPy or Pillow for what it does with data, or run the program with PyTorch.",
            name=spec.name,
        )

    def exec_module(self, module: ModuleType) -> None:
        raise AssertionError("no module was made")


class _Distribution(importlib.metadata.Distribution):
    """Metadata of the version of PyTorch that packages find installed."""

    def read_text(self, filename: str) -> str | None:
        text = f"Metadata-Version: 2.1\nName: torch\nVersion: {gradcore.__version__}\n"
        return text if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Path:
        return Path(gradcore.__file__).parent / str(path)


class _Finder(MetaPathFinder):
    """Finder of ``torch`` and the modules below it in gradcore."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, inner = fullname.partition(".")
        if package in _PACKAGES:
            name = f"{_PACKAGES[package]}.{inner}".rstrip(".")
            try:
                spec = importlib.util.find_spec(name)
            except ModuleNotFoundError as error:
                reason = str(error).replace("'gradcore.", "'torch." if package == "torch" else "'gradcore.")
                reason = reason.replace(repr(name), repr(fullname))
                if fullname not in placeholders.names():
                    raise ModuleNotFoundError(reason, name=fullname) from None
                return ModuleSpec(fullname, placeholders.Placeholders(reason), is_package=True)
            if spec is not None:
                is_package = spec.submodule_search_locations is not None
                return ModuleSpec(fullname, _Loader(name), is_package=is_package)
            if fullname in placeholders.names():
                reason = f"No module named {fullname!r}"
                return ModuleSpec(fullname, placeholders.Placeholders(reason), is_package=True)
            return None
        if fullname in _COMPILED and PathFinder.find_spec(fullname) is not None:
            return ModuleSpec(fullname, _Refusing())
        return None

    def find_distributions(
        self, context: importlib.metadata.DistributionFinder.Context
    ) -> Iterable[importlib.metadata.Distribution]:
        """Return the distribution ``torch`` if it is requested."""
        return [_Distribution()] if context.name in ("torch", None) else []


def _complete(module: ModuleType) -> None:
    """Add the names that only PyTorch has to a module of gradcore, and set PyTorch's module names on its classes."""
    package, _, inner = module.__name__.partition(".")
    if package not in ("gradcore", "torch"):
        return
    inner = f".{paths.former(inner)}".rstrip(".")
    path = _FORMER.get(f"gradcore{inner}", f"torch{inner}")
    placeholders.attach(module, path)
    for name, cls in list(vars(module).items()):
        if isinstance(cls, type) and cls.__module__.partition(".")[0] == "gradcore" and cls.__name__ == name:
            home = _home_of(cls, path)
            if home:
                with contextlib.suppress(NameError):  # of an import for type checkers alone
                    # `typing.get_type_hints` would evaluate them in the module `home`, which has other names
                    vars(cls).get("__annotations__", {}).update(inspect.get_annotations(cls, eval_str=True))
                with contextlib.suppress(TypeError):  # of a class of C
                    cls.__module__ = home


def _home_of(cls: type, path: str) -> str:
    """Return the module in which PyTorch defines a class of this name, if the class is found there; or ""."""
    first = ".".join(path.split(".")[:2])
    for home in placeholders.homes().get(cls.__name__, ()):
        if home == "torch" or (home + ".").startswith(first + "."):
            with contextlib.suppress(ImportError, AttributeError):
                if getattr(importlib.import_module(f"gradcore{home[5:]}"), cls.__name__) is cls:
                    return home
    return ""


class _Inherited:
    """Data that a spawned process reads first, and that makes it install gradcore as `torch`."""

    def __reduce__(self) -> Any:
        lines = f"import sys; sys.path[:] = {sys.path!r}; import gradcore.as_torch; gradcore.as_torch.install()"
        return exec, (lines,)


def _install_in_children() -> None:
    prepare = multiprocessing.spawn.get_preparation_data

    @functools.wraps(prepare)
    def get_preparation_data(name: str) -> dict[str, Any]:
        return {**prepare(name), "gradcore": _Inherited()}

    multiprocessing.spawn.get_preparation_data = get_preparation_data


def install() -> None:
    """Make ``import torch`` give gradcore, in this process and from now on.

    `gradcore.__version__` then begins with the version of PyTorch whose names gradcore has, for programs that
    compare it, and ends with gradcore's own version; `gradcore.__name__` is ``"torch"``.

    Raises
    ------
    RuntimeError
        If PyTorch is imported in this process already.

    Examples
    --------
    >>> import gradcore.as_torch
    >>> gradcore.as_torch.install()  # doctest: +SKIP
    >>> import torch  # doctest: +SKIP
    >>> torch.__version__  # doctest: +SKIP
    '2.13.0+gradcore.0.1.0'
    """
    if sys.modules.get("torch") is gradcore:
        return
    loaded = [name for name in sys.modules if name.partition(".")[0] in _PACKAGES]
    if loaded:
        raise RuntimeError(
            f"PyTorch is imported in this process already ({loaded[0]}), and gradcore cannot take its place: call "
            "gradcore.as_torch.install() before anything imports torch, or run the program with "
            "`python -m gradcore.as_torch`"
        )
    gradcore.__name__ = "torch"
    gradcore.__version__ = TorchVersion(f"{VERSION}+gradcore.{gradcore.__version__}")
    sys.meta_path.insert(0, _Finder())
    sys.modules["torch"] = vars(gradcore)["torch"] = gradcore
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "gradcore" and isinstance(module, ModuleType):
            _complete(module)
    paths.on_public = lambda name: _complete(sys.modules[name])
    _install_in_children()
    # PyTorch's own behaviour, with a warning about the lost history.
    gradcore.set_history_loss("warn")


def main(arguments: Sequence[str]) -> None:
    """Run a script, or a module, as ``python script.py ...`` and ``python -m module ...`` do.

    Parameters
    ----------
    arguments : sequence of str
        The script with its arguments, or ``-m``, the module and its arguments.
    """
    as_module = bool(arguments) and arguments[0] == "-m"
    program = arguments[as_module:]
    if not program or (program[0].startswith("-") and not as_module):
        raise SystemExit("usage: python -m gradcore.as_torch (script.py | -m module) [arguments ...]")
    install()
    sys.argv[:] = program
    if as_module:
        sys.path[0] = ""
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(program[0]).resolve().parent)
        runpy.run_path(program[0], run_name="__main__")


paths.show_public(__name__)

if __name__ == "__main__":
    from gradcore.torch_names import as_torch  # Programs import this module, not the running copy.

    as_torch.main(sys.argv[1:])
