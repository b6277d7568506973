"""CUDA: CuPy, with kernels of the package. Its modules are imported only when a CUDA device is first asked for.

`gradcore.backends.cupy.backend` puts them together; the CUDA sources are in ``sources``.
"""
