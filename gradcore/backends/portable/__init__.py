"""Kernels that are shared by all backends, written against ``xp``, any array library with NumPy's names.

Each module has the kernels of one family. `gradcore.backends.base.Backend` inherits from all of them.
"""
