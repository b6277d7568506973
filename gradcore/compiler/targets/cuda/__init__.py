"""The writer of CUDA: a program as calls of CuPy, with generated kernels for elementwise groups, in one CUDA graph."""

from gradcore.compiler.targets.cuda.graphs import described, runnable
from gradcore.compiler.targets.cuda.steps import DeviceStep

__all__ = ["DeviceStep", "described", "runnable"]
