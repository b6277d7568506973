"""Names that programs take from ``torch._C``."""

from gradcore.dispatch.overriding import DisableTorchFunction, DisableTorchFunctionSubclass
from gradcore.dispatch.overriding import disabled as _disabled_torch_function_impl

__all__ = ["DisableTorchFunction", "DisableTorchFunctionSubclass", "_disabled_torch_function_impl"]
