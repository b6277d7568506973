"""The CUDA target: a program as calls of CuPy and fused kernels, in one CUDA graph."""
