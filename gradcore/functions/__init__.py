"""The modules of functions that PyTorch has: `fft`, `linalg`, `masked`, `special` and `return_types`.

They are public at the top level: ``gradcore.fft`` is the module `fft` of this package.
"""
