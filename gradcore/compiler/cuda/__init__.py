"""The writer of CUDA: a program as calls of CuPy, with generated kernels for elementwise groups, in one CUDA graph."""

from gradcore.compiler.cuda.graphs import described, runnable
from gradcore.compiler.cuda.steps import DeviceStep

__all__ = ["DeviceStep", "described", "runnable"]
