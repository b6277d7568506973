"""Versions, as in ``torch.version``: that of gradcore, and None for libraries that gradcore is not built with."""

from __future__ import annotations

from typing import Any

from gradcore.torch_names import paths

__all__ = ["cuda", "debug", "git_version", "hip", "rocm", "xpu"]

#: CUDA comes with CuPy, see `gradcore.show_config`.
cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
git_version = "Unknown"
debug = False


def __getattr__(name: str) -> Any:
    if name == "__version__":
        import gradcore

        return gradcore.__version__
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


paths.show_public(__name__)
