"""Writes gradcore/torch_names/torch_names.txt, PyTorch's modules: ``python -m tests.oracle.write_torch_names``.

One line for each module: its path, and its names after a letter that says what each is. ``c`` is a class, ``e`` an
exception (large letters where the module defines it), ``f`` a function, ``m`` a module, ``v`` anything else. Numbers
and texts stand behind the name, as JSON after ``=``; regular expressions after ``~``.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
import sys
import types
import warnings
from pathlib import Path

#: Paths that no program imports by itself, or that need what is not there.
_LEFT_OUT = (
    "torch._inductor",
    "torch._dynamo.",
    "torch.testing._internal",
    "torch._export",
    "torch._functorch.",
    "torch.onnx._",
    "torch._higher_order_ops",
    "torch._refs",
    "torch._decomp",
    "torch._prims",
    "torch.utils.benchmark.",
    "torch._logging.",
    "torch.distributed.elastic.",
    "torch.utils.tensorboard",
    "torch._meta",
    "torch.ao.",
    "torch._numpy",
    "torch._strobelight",
    "torch.fx.experimental.",
    "torch.fx.passes.",
    "torch.quantization.fx",
    "torch.utils.hipify",
    "torch._lazy",
    "torch.jit._",
    "torch.cuda._",
    "torch.xpu._",
    "torch.mtia._",
    "torch.export.",
    "torch._vendor",
    "torch._custom",
)
_EXTRA = (
    "functorch",
    "torch.fx.experimental.proxy_tensor",
    "torch.fx.experimental.symbolic_shapes",
    "torch.fx.passes.shape_prop",
    "torch.distributed._tensor",
    "torch.distributed.elastic.multiprocessing",
    "torch.distributed.elastic.multiprocessing.errors",
    "torch._functorch.eager_transforms",
    "torch._functorch.vmap",
    "torch._functorch.apis",
    "torch._dynamo.eval_frame",
    "torch._dynamo.utils",
    "torch.distributed._functional_collectives",
    "torch.ao.quantization",
    "torch.ao.nn",
    "torch.export.exported_program",
    "torch.utils.tensorboard",
    "torch.fx.experimental.const_fold",
)


def kind_of(value: object) -> str:
    if isinstance(value, types.ModuleType):
        return "m"
    if isinstance(value, types.GenericAlias):  # as callable as the class that it names
        return "v"
    if isinstance(value, type):
        return "e" if issubclass(value, BaseException) else "c"
    return "f" if callable(value) and not isinstance(value, type) and hasattr(value, "__name__") else "v"


def names_of(module: types.ModuleType) -> list[str]:
    """Return the names of a module that are its own: not what it imports from other packages."""
    found = []
    for name, value in sorted(vars(module).items()):
        if name.startswith("__") or not name.isidentifier():
            continue
        kind = kind_of(value)
        if kind in "ce" and getattr(value, "__module__", "") == module.__name__ and value.__name__ == name:
            kind = kind.upper()
        if kind == "m" and not value.__name__.startswith("torch"):
            continue
        if kind in "cefCE" and not str(getattr(value, "__module__", "") or "torch").startswith("torch"):
            continue
        constant = ""
        if kind == "v":
            origin = type(value).__module__
            if isinstance(value, (bool, int, float, str)) and len(repr(value)) < 60:
                constant = "=" + json.dumps(value).replace(" ", "\\u0020")
            elif isinstance(value, re.Pattern):
                constant = "~" + json.dumps(value.pattern).replace(" ", "\\u0020")
            elif origin.startswith("typing") or inspect.ismodule(value):
                continue
        found.append(f"{kind}{name}{constant}")
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    import torch

    paths = {"torch", *_EXTRA}
    for info in pkgutil.walk_packages(torch.__path__, "torch.", onerror=lambda name: None):
        if not info.name.startswith(_LEFT_OUT) and "__main__" not in info.name:
            paths.add(info.name)
    for path in sorted(paths):
        try:
            importlib.import_module(path)
        except BaseException as error:
            print(f"{path}: {type(error).__name__}", file=sys.stderr)
    paths |= {name for name in sys.modules if name.startswith(("torch._C", "torch.distributed._tensor."))}
    lines = [" ".join([path, *names_of(sys.modules[path])]) for path in sorted(paths) if path in sys.modules]
    target = Path(__file__).parents[2] / "gradcore" / "torch_names" / "torch_names.txt"
    target.write_text(f"# Names of PyTorch {torch.__version__.split('+')[0]}\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
