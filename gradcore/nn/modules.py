"""PyTorch's names for where modules and the hooks on all modules are found: ``nn.modules.conv`` and its like."""

from __future__ import annotations

from gradcore.torch_names import paths

__getattr__ = paths.further(__name__)


def __dir__() -> list[str]:
    return paths.later("nn.modules")
