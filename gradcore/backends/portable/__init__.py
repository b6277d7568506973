"""Kernels for any array library with NumPy's names: written against ``xp``, and shared by all backends.

One family a module; `gradcore.backends.base.Backend` is made of them.
"""
