"""Automatic mixed precision: autocasting of operations, and scaling of gradients for float16."""

from gradcore.amp.autocasting import autocast, custom_bwd, custom_fwd, is_autocast_available
from gradcore.amp.scaling import GradScaler
from gradcore.torch_names import paths

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

__getattr__ = paths.further(__name__)
