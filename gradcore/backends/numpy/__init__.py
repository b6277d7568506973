"""The CPU: NumPy, with kernels that keep data in cache, use threads, and call BLAS and LAPACK as suits them best.

`gradcore.backends.numpy.backend` puts them together.
"""
