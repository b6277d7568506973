"""Programs that say ``import torch``, run with gradcore: ``python -m gradcore.as_torch script.py``.

Every module below ``torch`` is then gradcore's module of that name, the same object, for the program and for the
packages that it imports. What gradcore does not have raises an ImportError or an AttributeError that says why.

Examples
--------
>>> import subprocess, sys
>>> program = "import torch; from torch.nn import functional as F; print(F.relu(torch.tensor([-1.0, 2.0])))"
>>> command = f"import gradcore.as_torch; gradcore.as_torch.install(); {program}"
>>> print(subprocess.run([sys.executable, "-c", command], capture_output=True, text=True).stdout)
tensor([0., 2.])
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import runpy
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import gradcore
from gradcore import paths
from gradcore.torch_version import TorchVersion

__all__ = ["install", "main"]

#: The version of PyTorch whose names and behaviour gradcore has.
VERSION = "2.13.0"
#: Packages by the modules that programs know them as.
_PACKAGES = {"torch": "gradcore", "functorch": "gradcore.functorch"}
#: Packages of PyTorch's project that are compiled against it.
_COMPILED = ("torchaudio", "torchtext", "torchvision")


class _Loader(Loader):
    """Gives a module of gradcore under another name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # which Python has just replaced


class _Refusing(Loader):
    """Says why an installed package cannot be imported."""

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
    """Finds ``torch`` and what is below it in gradcore."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top, _, inner = fullname.partition(".")
        if top in _PACKAGES:
            name = f"{_PACKAGES[top]}.{inner}".rstrip(".")
            try:
                found = importlib.util.find_spec(name)
            except ModuleNotFoundError as error:
                raise ModuleNotFoundError(str(error).replace(repr(name), repr(fullname)), name=fullname) from None
            return found and ModuleSpec(
                fullname, _Loader(name), is_package=found.submodule_search_locations is not None
            )
        if fullname in _COMPILED and PathFinder.find_spec(fullname) is not None:
            return ModuleSpec(fullname, _Refusing())
        return None

    def find_distributions(
        self, context: importlib.metadata.DistributionFinder.Context
    ) -> Iterable[importlib.metadata.Distribution]:
        """The distribution ``torch``, where it is asked for."""
        return [_Distribution()] if context.name in ("torch", None) else []


def install() -> None:
    """Make ``import torch`` give gradcore, in this process and from now on.

    `gradcore.__version__` then begins with the version of PyTorch whose names gradcore has, for those who compare it,
    and ends with gradcore's own; `gradcore.__name__` is ``"torch"``.

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
    from gradcore import as_torch  # the module that programs import, not this copy of it

    as_torch.main(sys.argv[1:])
