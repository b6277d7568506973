"""Programs with modules that learn the size of their inputs. Each takes the library."""

from __future__ import annotations

import copy
import pickle
import warnings


def quiet(program):
    """Without PyTorch's warning that its lazy modules may change."""

    def run(T):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return program(T)

    return run


def called(T, make, *shape):
    """Return the state of a module before and after its first call."""
    module = make(T.nn)
    before = [repr(module), [repr(t) for t in module.state_dict().values()], module.has_uninitialized_params()]
    out = module(T.rand(*shape))
    hooks = len(module._forward_pre_hooks), len(module._load_state_dict_pre_hooks)
    state = {name: tuple(t.shape) for name, t in module.state_dict().items()}
    kinds = [type(t).__name__ for t in (*module.parameters(), *module.buffers())]
    return [*before, tuple(out.shape), repr(module), type(module).__name__, hooks, state, kinds]


def converted(T):
    module = T.nn.LazyLinear(3).double()
    kinds = [type(p).__name__ for p in module.parameters()], [str(p.dtype) for p in module.parameters()]
    module.to("meta")
    devices = [str(p.device) for p in module.parameters()]
    module = T.nn.LazyBatchNorm1d().to(T.float64)
    return kinds, devices, module(T.ones(2, 5, dtype=T.float64)).dtype, str(module.running_mean.dtype)


def trained(T):
    """Train a lazy module, and return whether its parameters stay the same objects."""
    module = T.nn.LazyLinear(2)
    optimizer = T.optim.SGD(module.parameters(), lr=0.5)
    module(T.ones(1, 3))
    T.nn.init.ones_(module.weight)
    T.nn.init.zeros_(module.bias)
    module(T.ones(1, 3)).sum().backward()
    optimizer.step()
    return module.weight, module.bias


def loaded(T, lazy, full, *shape):
    """From an initialized state into a lazy module."""
    source, module = full(T.nn), lazy(T.nn)
    keys = module.load_state_dict(source.state_dict())
    found = [keys, module.has_uninitialized_params(), repr(module.weight is not None)]
    x = T.rand(*shape)
    return [*found, T.allclose(module(x), source(x)), repr(module), type(module).__name__]


def loaded_lazy(T):
    """From a lazy state into a lazy module."""
    source, module = T.nn.LazyConv1d(2, 3), T.nn.LazyConv1d(2, 3)
    keys = module.load_state_dict(source.state_dict())
    return keys, module.has_uninitialized_params(), tuple(module(T.ones(1, 2, 4)).shape)


def copied(T):
    module = T.nn.LazyLinear(3)
    others = copy.deepcopy(module), pickle.loads(pickle.dumps(module))
    module(T.ones(1, 2))
    found = [repr(other) for other in others]
    return found, [tuple(other(T.ones(1, 5)).shape) for other in others], [repr(other) for other in others]


def own(T):
    class Scale(T.nn.modules.lazy.LazyModuleMixin, T.nn.Module):
        def __init__(self, complete=True):
            super().__init__()
            self.w, self.rest = T.nn.UninitializedParameter(), T.nn.UninitializedParameter()
            self.complete = complete

        def initialize_parameters(self, x, times=1):
            for p in (self.w, self.rest)[: 1 + self.complete]:
                p.materialize(x.shape)
                T.nn.init.constant_(p, float(times))

        def forward(self, x, times=1):
            return x * self.w

    module = Scale()
    first = module(T.ones(2), times=3)
    try:
        Scale(False)(T.ones(2))
    except RuntimeError as error:
        return first, type(module).__name__, module(T.ones(2)), str(error)


def uninitialized(T, use):
    p = T.nn.UninitializedParameter()
    return use(p)


def materialized(T):
    p = T.nn.UninitializedParameter(requires_grad=False, dtype=T.float64)
    b = T.nn.UninitializedBuffer()
    before = isinstance(p, T.nn.Parameter), repr(p), repr(b), p.requires_grad, p.is_leaf, str(p.dtype)
    p.materialize((2, 3))
    b.materialize([4], dtype=T.float16)
    return before, type(p).__name__, tuple(p.shape), p.requires_grad, str(p.dtype), type(b).__name__, b.shape, b.dtype


def refused(T, use):
    """Return the class of error and whether it has PyTorch's advice."""
    try:
        uninitialized(T, use)
    except ValueError as error:
        return str(error).partition(" in ")[0].partition(".")[0], "Call `forward` with a dummy batch" in str(error)


PROGRAMS = {
    name: quiet(program)
    for name, program in {
        "lazy linear": lambda T: called(T, lambda nn: nn.LazyLinear(3), 2, 5, 4),
        "lazy linear without offsets": lambda T: called(T, lambda nn: nn.LazyLinear(3, bias=False), 4),
        "lazy conv": lambda T: called(T, lambda nn: nn.LazyConv2d(4, 3, groups=2), 1, 2, 5, 5),
        "lazy conv of one sample": lambda T: called(T, lambda nn: nn.LazyConv1d(4, 3, 2, bias=False), 2, 5),
        "lazy conv of volumes": lambda T: called(T, lambda nn: nn.LazyConv3d(2, 2, padding="same"), 1, 3, 2, 2, 2),
        "lazy transposed conv": lambda T: called(T, lambda nn: nn.LazyConvTranspose2d(4, 3, groups=2), 1, 2, 5, 5),
        "lazy transposed conv of signals": lambda T: called(
            T, lambda nn: nn.LazyConvTranspose1d(4, 3, 2, 1, 1), 1, 2, 5
        ),
        "lazy batch norm": lambda T: called(T, lambda nn: nn.LazyBatchNorm2d(), 2, 3, 4, 4),
        "lazy batch norm without offsets": lambda T: called(T, lambda nn: nn.LazyBatchNorm1d(1e-3, bias=False), 2, 3),
        "lazy batch norm alone": lambda T: called(T, lambda nn: nn.LazyBatchNorm3d(affine=False), 2, 3, 1, 2, 2),
        "lazy instance norm": lambda T: called(T, lambda nn: nn.LazyInstanceNorm1d(), 2, 3, 4),
        "lazy in a sequence": lambda T: tuple(
            T.nn.Sequential(T.nn.LazyLinear(3), T.nn.LazyLinear(2))(T.ones(4, 5)).shape
        ),
        "lazy channels and groups": lambda T: T.nn.LazyConv1d(4, 3, groups=2)(T.ones(1, 3, 5)),
        "lazy dims": lambda T: T.nn.LazyConv2d(4, 3)(T.ones(3, 5)),
        "lazy converted": converted,
        "lazy trained": trained,
        "lazy loaded": lambda T: loaded(T, lambda nn: nn.LazyLinear(3), lambda nn: nn.Linear(2, 3), 5, 2),
        "lazy norm loaded": lambda T: loaded(
            T, lambda nn: nn.LazyBatchNorm1d().eval(), lambda nn: nn.BatchNorm1d(2).eval(), 5, 2
        )[:-2],
        "lazy loaded from lazy": loaded_lazy,
        "lazy into initialized": lambda T: T.nn.Linear(2, 3).load_state_dict(T.nn.LazyLinear(3).state_dict()),
        "lazy loaded for other inputs": lambda T: loaded(
            T, lambda nn: nn.LazyLinear(3), lambda nn: nn.Linear(2, 3), 5, 4
        ),
        "lazy copied": copied,
        "lazy of one's own": own,
        "lazy without a rule": lambda T: T.nn.modules.lazy.LazyModuleMixin.initialize_parameters(T.nn.LazyLinear(3), 1),
        "materialized": materialized,
        "uninitialized shape": lambda T: uninitialized(T, lambda p: p.shape),
        "uninitialized shared": lambda T: uninitialized(T, lambda p: p.share_memory_()),
        "uninitialized sum": lambda T: refused(T, lambda p: p.sum()),
        "uninitialized operand": lambda T: refused(T, lambda p: T.ones(2) * p),
        "uninitialized filled": lambda T: refused(T, lambda p: T.nn.init.ones_(p)),
    }.items()
}
