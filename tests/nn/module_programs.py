"""Programs with modules: hooks, state, registration, moves. Each takes the library, PyTorch or gradcore."""

from __future__ import annotations

import copy
import warnings


def net(T):
    class Inner(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = T.nn.Parameter(T.ones(2))
            self.register_buffer("b", T.zeros(2))
            self.register_buffer("temporary", T.zeros(1), persistent=False)

        def forward(self, x, scale=1.0):
            return x * self.w * scale + self.b

    class Net(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Inner(), Inner()
            self.tied = self.first
            self.nothing = None
            self.register_parameter("missing", None)

        def forward(self, x):
            return self.second(self.first(x), scale=2.0).sum()

    return Net()


def before_init(T, what):
    class Early(T.nn.Module):
        def __init__(self):
            self.p = what(T)

    return Early()


def extra_state(T):
    class Counting(T.nn.Module):
        count = 3

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    module, other = T.nn.Sequential(Counting()), T.nn.Sequential(Counting())
    module[0].count = 7
    other.load_state_dict(module.state_dict())
    return list(module.state_dict()), other[0].count, other.load_state_dict({}, strict=False)


def hooks_in_order(T):
    seen = []
    m = T.nn.Linear(2, 2)
    for name in "ab":
        m.register_forward_pre_hook(lambda m, args, name=name: seen.append("pre " + name))
        m.register_forward_hook(lambda m, args, out, name=name: seen.append("post " + name))
        m.register_full_backward_pre_hook(lambda m, grads, name=name: seen.append("back pre " + name))
        m.register_full_backward_hook(lambda m, i, o, name=name: seen.append("back " + name))
    m.register_forward_pre_hook(lambda m, args: seen.append("pre first"), prepend=True)
    m.register_forward_hook(lambda m, args, out: seen.append("post first"), prepend=True)
    m.register_full_backward_hook(lambda m, i, o: seen.append("back first"), prepend=True)
    everywhere = [
        T.nn.modules.module.register_module_forward_pre_hook(lambda m, args: seen.append("every pre")),
        T.nn.modules.module.register_module_forward_hook(lambda m, args, out: seen.append("every post")),
        T.nn.modules.module.register_module_full_backward_hook(lambda m, i, o: seen.append("every back")),
        T.nn.modules.module.register_module_full_backward_pre_hook(lambda m, o: seen.append("every back pre")),
    ]
    m(T.ones(1, 2, requires_grad=True)).sum().backward()
    for handle in everywhere:
        handle.remove()
    m(T.ones(1, 2))
    return seen


def kwargs_hooks(T):
    m = net(T).second
    seen = []
    m.register_forward_pre_hook(lambda m, args, kwargs: (args, {"scale": kwargs["scale"] * 3}), with_kwargs=True)
    m.register_forward_hook(lambda m, args, kwargs, out: seen.append(kwargs), with_kwargs=True)
    return m(T.ones(2), scale=2.0), seen


def always(T):
    seen = []
    m = net(T).second
    m.register_forward_hook(lambda m, args, out: seen.append("not called"))
    m.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    try:
        m("not a tensor" + "", scale=None)
    except Exception as error:
        seen.append(type(error).__name__)
    return seen


def bad_hook(T):
    m = net(T).second
    m.register_forward_pre_hook(lambda m, args, kwargs: 3, with_kwargs=True)
    m(T.ones(2))


def backward_hooks(T, replace):
    m, seen = T.nn.Linear(2, 3), []
    with T.no_grad():
        m.weight.fill_(0.5)
    m.register_full_backward_pre_hook(lambda m, grads: seen.append(grads) or (grads[0] * 2,) * replace or None)
    m.register_full_backward_hook(lambda m, i, o: seen.append((i, o)) or (i[0] * 10,) * replace or None)
    x = T.ones(1, 2, requires_grad=True)
    out = m(x)
    out.sum().backward()
    return out.grad_fn.name(), seen, x.grad


def two_inputs(T):
    class Two(T.nn.Module):
        def forward(self, a, b, c):
            return a * b, a + c

    m, seen = Two(), []
    m.register_full_backward_hook(lambda m, i, o: seen.append((i, o)))
    a, c = T.ones(2, requires_grad=True), T.ones(2, requires_grad=True)
    first, second = m(a, T.ones(2), c)
    first.sum().backward(retain_graph=True)
    (first + second).sum().backward()
    return seen


def without_inputs(T, result=None):
    m, seen = T.nn.Linear(2, 3), []
    m.register_full_backward_hook(lambda m, i, o: seen.append((i, o)) or result)
    m(T.ones(1, 2)).sum().backward()
    return seen


def wrong_number(T):
    m = T.nn.Linear(2, 3)
    m.register_full_backward_hook(lambda m, i, o: (i[0], i[0]))
    m(T.ones(1, 2, requires_grad=True)).sum().backward()


def both_kinds(T):
    m = T.nn.Linear(2, 3)
    m.register_backward_hook(lambda m, i, o: None)
    m.register_full_backward_hook(lambda m, i, o: None)


def older(T):
    m, seen = T.nn.ReLU(), []
    m.register_backward_hook(lambda m, i, o: seen.append((i, o)))
    x = T.ones(2, requires_grad=True) * 1
    m(x).sum().backward()
    return seen


def hook_that_returns_a_list(T):
    m = T.nn.Linear(2, 1)
    m.register_full_backward_hook(lambda m, i, o: [i[0] * 0 + 5])
    x = T.ones(1, 2, requires_grad=True)
    m(x).sum().backward()
    return x.grad


def older_with_warnings(T, forward, *more):
    """Return what an older hook receives, and the warnings about what it misses."""
    m, seen = type("Own", (T.nn.Module,), {"forward": forward})(), []
    m.register_backward_hook(lambda m, i, o: seen.append((len(i), len(o))))
    x = T.ones(2, requires_grad=True)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        out = m(x * 1, *more)
    while not hasattr(out, "grad_fn"):
        out = out[0]
    out.sum().backward()
    return seen, [str(w.message) for w in said]


def double_backward(T):
    m, seen = T.nn.Linear(2, 1), []
    m.register_full_backward_hook(lambda m, i, o: seen.append(i[0].shape))
    x = T.ones(1, 2, requires_grad=True)
    (g,) = T.autograd.grad(m(x).tanh().sum(), x, create_graph=True)
    g.sum().backward()
    return len(seen)


def state_hooks(T):
    seen = []
    m = net(T)
    m.second.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append((prefix, keep)))
    m.second.register_state_dict_post_hook(lambda m, state, prefix, meta: state.pop(prefix + "b") and None)
    m._register_state_dict_hook(lambda m, state, prefix, meta: {"wrapped": state})
    m.first.register_load_state_dict_pre_hook(lambda m, state, prefix, *rest: seen.append((prefix, sorted(state))))
    m.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.remove("second.b"))
    state = m.state_dict()["wrapped"]
    return list(state), m.load_state_dict(state), seen


def post_hook_returns(T):
    m = T.nn.ReLU()
    m.register_state_dict_post_hook(lambda *args: {})
    m.state_dict()


def registration_hooks(T):
    where, seen = T.nn.modules.module, []
    handles = [
        where.register_module_parameter_registration_hook(lambda m, name, p: seen.append(("parameter", name))),
        where.register_module_buffer_registration_hook(lambda m, name, p: seen.append(("buffer", name))),
        where.register_module_module_registration_hook(lambda m, name, p: seen.append(("module", name))),
    ]
    net(T)
    for handle in handles:
        handle.remove()
    net(T)
    return seen


def removed(T, name):
    m = net(T)
    delattr(m.first, name)
    return list(m.state_dict()), hasattr(m.first, name)


def replaced(T):
    m = net(T).first
    m.w = None
    m.b = T.ones(3)
    m.temporary = T.nn.Buffer(T.ones(1))
    m.added = T.nn.Buffer(T.ones(1), persistent=False)
    m.plain = T.ones(1)
    m.b2 = 3
    m.b2 = T.nn.ReLU()
    m.plain = T.nn.Parameter(T.ones(1))
    return list(m.state_dict()), [n for n, _ in m.named_buffers()], [n for n in m.__dict__ if n[0] != "_"], repr(m)


def assigned(T):
    m, given = T.nn.Linear(2, 1), {"weight": T.ones(1, 2), "bias": T.nn.Parameter(T.zeros(1), requires_grad=False)}
    m.load_state_dict(given, assign=True)
    return m.bias is given["bias"], m.bias.requires_grad, m.weight.requires_grad, m.weight


def partly_loaded(T):
    m = T.nn.Sequential(T.nn.Linear(2, 1), T.nn.Linear(1, 1))
    try:
        m.load_state_dict({"0.weight": T.ones(1, 2), "1.weight": T.ones(2, 2), "more": T.ones(1)})
    except RuntimeError as error:
        return str(error), m[0].weight


def moved(T):
    m = net(T)
    w = m.first.w
    m(T.ones(2)).backward()
    m.double()
    first = w is m.first.w, w.dtype, w.grad.dtype, m.first.b.dtype
    m.to(T.float16)
    m.register_buffer("steps", T.zeros(1, dtype=T.int64))
    m.to("cpu", T.float32)
    m.to(T.ones(1, dtype=T.float64))
    return [str(v) for v in first], str(m.steps.dtype), str(m.second.w.dtype), str(m.bfloat16().second.w.dtype)


def meta(T):
    m = T.nn.Linear(2, 3, device="meta")
    empty = m.to_empty(device="cpu").weight.shape
    return empty, T.nn.Linear(2, 3, device="meta").to("cpu")


def zeroed(T):
    m = net(T)
    m(T.ones(2)).backward()
    m.second.w.grad = m.second.w * 2
    m.zero_grad(set_to_none=False)
    found = [p.grad for p in m.parameters()]
    m.zero_grad()
    return found, [p.grad for p in m.parameters()]


def copies(T):
    m = net(T)
    m(T.ones(2)).backward()
    other = copy.deepcopy(m)
    return other.first is other.tied, other.first.w is m.first.w, other.first.w.grad, type(other.first.w).__name__


def shared(T):
    m = net(T)
    names = [[n for n, _ in m.named_parameters(remove_duplicate=d)] for d in (True, False)]
    modules = [[n for n, _ in m.named_modules(remove_duplicate=d)] for d in (True, False)]
    return names, modules, list(m.state_dict()), [n for n, _ in m.named_children()], len(list(m.parameters(False)))


def state_of_meta(T):
    m = T.nn.Linear(1, 1, device="meta")
    return m.load_state_dict({"weight": T.ones(1, 1), "bias": T.ones(1)}, assign=True), m.weight


PROGRAMS = {
    "walks": lambda T: shared(T),
    "extra state": extra_state,
    "order of hooks": hooks_in_order,
    "hooks with kwargs": kwargs_hooks,
    "hooks that are always called": always,
    "wrong pre-hook": bad_hook,
    "backward hooks": lambda T: backward_hooks(T, False),
    "replacing backward hooks": lambda T: backward_hooks(T, True),
    "backward hooks of several tensors": two_inputs,
    "backward hooks without inputs": without_inputs,
    "backward hooks without inputs that return something": lambda T: without_inputs(T, (T.ones(1),)),
    "backward hooks of a wrong number": wrong_number,
    "two kinds of backward hooks": both_kinds,
    "older backward hooks": older,
    "hook that returns a list": hook_that_returns_a_list,
    "older hook of one node": lambda T: older_with_warnings(T, lambda m, x: x.sin()),
    "older hook of several nodes": lambda T: older_with_warnings(T, lambda m, x: x.sin().cos()),
    "older hook of several outputs": lambda T: older_with_warnings(T, lambda m, x: (x.sin(), x.cos())),
    "older hook of a list": lambda T: older_with_warnings(T, lambda m, x: [x.sin()]),
    "older hook with a number": lambda T: older_with_warnings(T, lambda m, x, n: x * n, 3),
    "hooks in double backward": double_backward,
    "a parameter of integers": lambda T: T.nn.Parameter(T.arange(3)),
    "a tensor of integers": lambda T: T.arange(3).requires_grad_(),
    "an attribute of integers": lambda T: setattr(T.arange(3), "requires_grad", True),
    "hooks on state": state_hooks,
    "post-hook that returns": post_hook_returns,
    "hooks on registration": registration_hooks,
    "delete parameter": lambda T: removed(T, "w"),
    "delete buffer": lambda T: removed(T, "b"),
    "delete what is not there": lambda T: removed(T, "q"),
    "assign over": replaced,
    "load by assigning": assigned,
    "load what does not fit": partly_loaded,
    "load into meta": state_of_meta,
    "move": moved,
    "empty": meta,
    "zero_grad": zeroed,
    "copies": copies,
    "not a tensor": lambda T: net(T).load_state_dict({"first.w": 3}, strict=False),
    "not a dictionary": lambda T: net(T).load_state_dict([]),
    "set parameter": lambda T: setattr(net(T).first, "w", T.ones(2)),
    "set parameter to a number": lambda T: setattr(net(T).first, "w", 3),
    "set module": lambda T: setattr(net(T), "first", 3),
    "set buffer": lambda T: setattr(net(T).first, "b", 3),
    "parameter too early": lambda T: before_init(T, lambda T: T.nn.Parameter(T.ones(1))),
    "module too early": lambda T: before_init(T, lambda T: T.nn.ReLU()),
    "buffer too early": lambda T: before_init(T, lambda T: T.nn.Buffer(T.ones(1))),
    "dot": lambda T: net(T).register_parameter("a.b", None),
    "empty name": lambda T: net(T).register_buffer("", None),
    "number as name": lambda T: net(T).register_buffer(3, None),
    "dot in a module": lambda T: net(T).add_module("a.b", None),
    "taken": lambda T: net(T).register_buffer("first", None),
    "taken by a method": lambda T: net(T).add_module("to", None),
    "no module": lambda T: net(T).add_module("x", 3),
    "no parameter": lambda T: net(T).register_parameter("x", T.ones(1)),
    "no tensor": lambda T: net(T).register_buffer("x", "text"),
    "not a leaf": lambda T: net(T).register_parameter("x", T.nn.Parameter(T.ones(1)) * 2),
    "no attribute": lambda T: net(T).elsewhere,
    "no forward": lambda T: T.nn.Module()(1),
    "too many arguments": lambda T: T.nn.Module(3),
    "unknown argument": lambda T: T.nn.Module(x=3),
    "no submodule": lambda T: net(T).get_submodule("first.q"),
    "parameter as submodule": lambda T: net(T).get_submodule("first.w"),
    "get parameter": lambda T: net(T).get_parameter("first.w"),
    "no such parameter": lambda T: net(T).get_parameter("first.q"),
    "buffer as parameter": lambda T: net(T).get_parameter("first.b"),
    "get buffer": lambda T: net(T).get_buffer("first.b"),
    "parameter as buffer": lambda T: net(T).get_buffer("first.w"),
    "set submodule": lambda T: net(T).set_submodule("first.x", T.nn.ReLU()),
    "set submodule strictly": lambda T: net(T).set_submodule("first.x", T.nn.ReLU(), strict=True),
    "set submodule over parameter": lambda T: net(T).set_submodule("first.w", T.nn.ReLU()),
    "mode": lambda T: net(T).train(3),
    "to int": lambda T: net(T).to(T.int64),
}
