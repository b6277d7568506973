"""Aliases of PyTorch's module paths for layers and hooks, such as ``nn.modules.conv``."""

from __future__ import annotations

from gradcore.torch_names import paths

__getattr__ = paths.further(__name__)


def __dir__() -> list[str]:
    return paths.later("nn.modules")
