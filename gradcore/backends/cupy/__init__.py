"""The CUDA backend: CuPy arrays, and CUDA kernels of this package.

`gradcore.backends.cupy.backend` combines the other modules; the CUDA sources are in ``sources``. The modules are
imported only when a CUDA device is first requested.
"""
