"""Functions from functions: derivatives of pure functions, which nest to any depth."""

from gradcore.func.forwards import hessian, jacfwd, jvp, linearize
from gradcore.func.reverse import grad, grad_and_value, jacrev, vjp
from gradcore.func.vmap import vmap

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp", "vmap"]
