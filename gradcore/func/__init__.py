"""Function transformations: derivatives of pure functions, which can be nested to any depth."""

from gradcore.func.arrays import checkpoint, elementwise_grad, jacobian, value_and_grad
from gradcore.func.forwards import hessian, jacfwd, jvp, linearize
from gradcore.func.functionalizing import functionalize
from gradcore.func.modules import functional_call, replace_all_batch_norm_modules_, stack_module_state
from gradcore.func.reverse import grad, grad_and_value, jacrev, vjp
from gradcore.func.vmap import vmap
from gradcore.torch_names import paths

__all__ = [
    "checkpoint",
    "elementwise_grad",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "value_and_grad",
    "vjp",
    "vmap",
]

paths.show_public(__name__)
