"""The CUDA target: a program as calls of CuPy and fused kernels, in one CUDA graph."""

from gradcore.compiler.targets.cuda.graphs import describe, runnable
from gradcore.compiler.targets.cuda.steps import DeviceStep

__all__ = ["DeviceStep", "describe", "runnable"]
