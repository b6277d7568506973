"""Functions that PyTorch groups by subject: the modules `fft`, `linalg`, `masked` and `special`, and `return_types`.

Programs import them from the top of the package: ``gradcore.fft`` is the module `fft` of this one.
"""
