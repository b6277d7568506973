"""Array libraries behind one interface: a backend runs every operation of the table on raw arrays.

Here are also the switches of PyTorch's ``backends``, by library, so that programs can go on setting them.
"""

from gradcore.backends import cpu as cpu
from gradcore.backends import cuda as cuda
from gradcore.backends import cudnn as cudnn
from gradcore.backends import mkl as mkl
from gradcore.backends import mkldnn as mkldnn
from gradcore.backends import mps as mps
from gradcore.backends import openmp as openmp
from gradcore.backends.base import Backend
from gradcore.backends.registry import find, register
from gradcore.backends.switches import ProductPrecision, Switches, install

__all__ = ["Backend", "cpu", "cuda", "cudnn", "find", "mkl", "mkldnn", "mps", "openmp", "register"]


class _Module(Switches):
    fp32_precision = ProductPrecision()


install(__name__, _Module)
