"""Array libraries behind one interface: a backend runs every operation of the table on raw arrays.

The package also has the switches of PyTorch's ``backends``, by library, so that programs that set them keep running.
"""

import sys

from gradcore.backends.base import Backend
from gradcore.backends.registry import find, register
from gradcore.backends.switches import ProductPrecision, Switches, cpu, cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["Backend", "cpu", "cuda", "cudnn", "find", "mkl", "mkldnn", "mps", "openmp", "register"]


class _Module(Switches):
    fp32_precision = ProductPrecision()


sys.modules[__name__].__class__ = _Module
