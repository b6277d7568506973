"""Programs with spectral norms, fused normalizations and grouped softmax. Each takes the library."""

from __future__ import annotations


def filled(T, module):
    """Fill a module with the same numbers in both libraries."""
    module.double()
    state = {}
    for k, (name, t) in enumerate(module.state_dict().items()):
        values = (T.arange(1.0, t.numel() + 1, dtype=T.float64) * (k + 1)).sin().reshape(t.shape)
        values = values.abs() + 0.5 if name.endswith("running_var") else values
        state[name] = values if t.is_floating_point() else t
    module.load_state_dict(state)
    return module


def inputs(T, *shape):
    n = 1
    for size in shape:
        n *= size
    return T.arange(float(n), dtype=T.float64).cos().reshape(shape).requires_grad_()


def trained(T, module, x, steps=1):
    """Results and gradients of some steps, and the state afterwards."""
    found = []
    for _ in range(steps):
        y = module(x)
        (y * y.sin()).sum().backward()
        found.append(y)
    grads = {n: p.grad for n, p in module.named_parameters()}
    return found, x.grad, grads, dict(module.state_dict())


def spectral(T, make, shape, where="utils", **settings):
    norm = T.nn.utils if where == "utils" else T.nn.utils.parametrizations
    module = filled(T, norm.spectral_norm(make(T), **settings))
    texts = [list(module.state_dict()), repr(module)]
    training = trained(T, module, inputs(T, *shape), 2)
    module.eval()
    return [*texts, *training, *trained(T, module, inputs(T, *shape))]


def spectral_metadata(T):
    module = T.nn.Sequential(T.nn.utils.spectral_norm(T.nn.Linear(2, 3)))
    return dict(module.state_dict()._metadata)


def spectral_removed(T):
    module = filled(T, T.nn.utils.spectral_norm(T.nn.Linear(3, 2)))
    x = inputs(T, 4, 3)
    before = module.eval()(x)
    assert T.nn.utils.remove_spectral_norm(module) is module
    names = [n for n, _ in module.named_parameters()], [n for n, _ in module.named_buffers()]
    same = T.allclose(before, module(x)), len(module._forward_pre_hooks), len(module._state_dict_hooks)
    return names, same, type(module.weight).__name__, module.weight, dict(module.state_dict()._metadata)


def spectral_twice(T):
    """Two forwards before one backward, as of generators and critics."""
    module = filled(T, T.nn.utils.spectral_norm(T.nn.Linear(3, 2)))
    a, b = inputs(T, 4, 3), inputs(T, 5, 3)
    (module(a).sum() - module(b).square().sum()).backward()
    return module.weight_orig.grad, a.grad


def fused(T, make, bn, shape, **settings):
    first, norm = filled(T, make(T)).eval(), filled(T, bn(T)).eval()
    first.weight.requires_grad_(False)
    fuse = T.nn.utils.fuse_linear_bn_eval if isinstance(first, T.nn.Linear) else T.nn.utils.fuse_conv_bn_eval
    found = fuse(first, norm, **settings)
    x = inputs(T, *shape)
    assert T.allclose(found(x), norm(first(x)), atol=1e-5)
    return found is first, found.weight, found.bias, repr(found)


def fused_weights(T):
    w, stats = inputs(T, 2, 3), (T.zeros(2).double(), T.ones(2).double() * 3)
    return (
        T.nn.utils.fuse_linear_bn_weights(w, None, *stats, 0.5, T.ones(2).double() * 3, T.ones(2).double()),
        T.nn.utils.fuse_conv_bn_weights(
            inputs(T, 3, 2, 1), T.ones(2).double(), *stats, 0.5, T.ones(2).double() * 2, None, True
        ),
    )


def grouped(T, **settings):
    net = filled(T, T.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [2, 5, 9], 2.0, **settings))
    x, target = inputs(T, 6, 8), T.tensor([0, 4, 11, 1, 7, 10])
    out, loss = net(x, target)
    (loss + (out * out).sum()).backward()
    texts = [repr(net), list(net.state_dict()), net.cutoffs, net.head_size, net.shortlist_size, net.n_clusters]
    alone = net(x[0], target[0])
    grads = {n: p.grad for n, p in net.named_parameters()}
    return [*texts, out, loss, grads, x.grad, net.log_prob(x), net.predict(x), *alone, type(alone)._fields]


def softened(T, **settings):
    T.manual_seed(0)
    logits = inputs(T, 50, 4)
    y = T.nn.functional.gumbel_softmax(logits, **settings)
    y.sum().backward()
    dim = settings.get("dim", -1)
    return (
        y.shape,
        T.allclose(y.sum(dim), T.ones((), dtype=T.float64)),
        bool((y.max(dim)[0] == 1).all()),
        logits.grad.abs().max() < 1e-4,
    )


CONV, BN = (lambda T: T.nn.Conv2d(3, 4, 2)), (lambda T: T.nn.BatchNorm2d(4))
LINEAR = lambda T: T.nn.Linear(3, 2)  # noqa: E731

PROGRAMS = {
    "spectral linear": lambda T: spectral(T, LINEAR, (5, 3)),
    "spectral steps": lambda T: spectral(T, LINEAR, (5, 3), n_power_iterations=3, eps=1e-3),
    "spectral conv": lambda T: spectral(T, CONV, (2, 3, 4, 4)),
    "spectral dim": lambda T: spectral(T, CONV, (2, 3, 4, 4), dim=2),
    "spectral transposed": lambda T: spectral(T, lambda T: T.nn.ConvTranspose1d(3, 4, 2, bias=False), (2, 3, 4)),
    "spectral of a bias": lambda T: list(T.nn.utils.spectral_norm(T.nn.Bilinear(2, 3, 4), "weight").state_dict()),
    "spectral metadata": spectral_metadata,
    "spectral removed": spectral_removed,
    "spectral twice forward": spectral_twice,
    "spectral registered twice": lambda T: T.nn.utils.spectral_norm(T.nn.utils.spectral_norm(LINEAR(T))),
    "spectral of nothing": lambda T: T.nn.utils.spectral_norm(T.nn.Linear(2, 2, bias=False), "bias"),
    "spectral without steps": lambda T: T.nn.utils.spectral_norm(LINEAR(T), n_power_iterations=0),
    "spectral not there": lambda T: T.nn.utils.remove_spectral_norm(LINEAR(T)),
    "spectral parametrization": lambda T: spectral(T, LINEAR, (5, 3), "parametrizations"),
    "spectral parametrization of a conv": lambda T: spectral(T, CONV, (2, 3, 4, 4), "parametrizations", dim=1),
    "spectral parametrization of a vector": lambda T: spectral(T, LINEAR, (5, 3), "parametrizations", name="bias"),
    "spectral parametrization of a dim": lambda T: T.nn.utils.parametrizations.spectral_norm(LINEAR(T), dim=3),
    "spectral parametrization without steps": lambda T: T.nn.utils.parametrizations.spectral_norm(
        LINEAR(T), n_power_iterations=0
    ),
    "fused conv": lambda T: fused(T, CONV, BN, (2, 3, 4, 4)),
    "fused without affine": lambda T: fused(T, CONV, lambda T: T.nn.BatchNorm2d(4, affine=False), (2, 3, 4, 4)),
    "fused transposed": lambda T: fused(
        T, lambda T: T.nn.ConvTranspose2d(3, 4, 2, bias=False), BN, (2, 3, 4, 4), transpose=True
    ),
    "fused linear": lambda T: fused(T, LINEAR, lambda T: T.nn.BatchNorm1d(2), (5, 3)),
    "fused weights": fused_weights,
    "fused in training": lambda T: T.nn.utils.fuse_conv_bn_eval(CONV(T), BN(T)),
    "fused features": lambda T: T.nn.utils.fuse_linear_bn_eval(LINEAR(T).eval(), T.nn.BatchNorm1d(3).eval()),
    "grouped softmax": grouped,
    "grouped softmax with offsets": lambda T: grouped(T, head_bias=True),
    "no cutoffs": lambda T: T.nn.AdaptiveLogSoftmaxWithLoss(4, 5, []),
    "cutoffs that fall": lambda T: T.nn.AdaptiveLogSoftmaxWithLoss(4, 5, [3, 2]),
    "cutoffs too high": lambda T: T.nn.AdaptiveLogSoftmaxWithLoss(4, 5, [5]),
    "targets of another size": lambda T: T.nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2])(T.ones(2, 4), T.zeros(3).long()),
    "targets too high": lambda T: T.nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2])(T.ones(1, 4), T.tensor([7])),
    "targets of two dims": lambda T: T.nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2])(T.ones(1, 4), T.tensor([[1]])),
    "inputs of one dim": lambda T: T.nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2])(T.ones(4), T.zeros(4).long()),
    "gumbel": softened,
    "gumbel hard": lambda T: softened(T, hard=True, tau=0.3),
    "gumbel dim": lambda T: softened(T, hard=True, dim=0),
    "gumbel eps": lambda T: softened(T, eps=0.1),
}
