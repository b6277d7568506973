"""The CPU's backend: NumPy, with kernels that keep data in cache, use threads, or call BLAS and LAPACK directly.

`gradcore.backends.numpy.backend` puts them together.
"""
