"""Modules: the same programs in PyTorch and in gradcore, what they return, raise and warn of."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest

import gradcore

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]


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


def containers(T):
    nn = T.nn
    a = nn.Sequential(nn.ReLU(), nn.Tanh()) + nn.Sequential(nn.Sigmoid())
    a += nn.Sequential(nn.GELU())
    a.insert(-1, nn.SiLU())
    a.insert(0, nn.Mish())
    texts = [repr(a * 2), repr(3 * a[:1]), repr(a.pop(-1)), repr(a[1:-1]), repr(a)]
    del a[0]
    a[-1] = nn.Identity()
    texts.append(repr(a))
    layers = nn.ModuleList([nn.ReLU(), nn.ReLU()]) + [nn.Tanh()]  # noqa: RUF005
    layers += [nn.Tanh(), nn.Linear(2, 2), nn.Linear(2, 2)]
    layers.insert(1, nn.Sigmoid())
    del layers[-2:]
    texts += [repr(layers), repr(layers[1:3]), repr(nn.ModuleList()), sorted(layers._modules), len(layers)]
    table = nn.ModuleDict([("a", nn.ReLU()), ("b", nn.Tanh())])
    table.update({"c": nn.GELU()})
    texts += [repr(table), list(table), table.pop("a"), "a" in table, len(table), list(table.items())]
    return [text if isinstance(text, (str, int, list)) else repr(text) for text in texts]


def parameter_containers(T):
    nn = T.nn
    a = nn.ParameterList([T.ones(2, 3), nn.Parameter(T.ones(1)), "text"])
    a += [T.zeros(())]
    a[0] = T.zeros(5)
    table = nn.ParameterDict({"b": T.ones(2), "a": 3}) | nn.ParameterDict({"c": T.zeros(1)})
    first = [repr(a), repr(a[1:]), len(a), [n for n, _ in a.named_parameters()], a[-1]]
    second = [repr(table), list(table), table.get("x", 7), table.setdefault("d", T.ones(1)), table.popitem()]
    second += [table.pop("a"), list(reversed(table)), list(table.keys()), len(table.copy()), "b" in table]
    second += [repr(table.fromkeys(["x", "y"], 1))]
    return first, second


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


def clipped(T, *args, **kwargs):
    p = [T.nn.Parameter(T.ones(2)), T.nn.Parameter(T.ones(3)), T.nn.Parameter(T.ones(3))]
    p[0].grad, p[1].grad = T.tensor([3.0, 4.0]), T.tensor([0.0, 12.0, float(kwargs.pop("last", 0))])
    total = T.nn.utils.clip_grad_norm_(p, *args, **kwargs)
    return total, p[0].grad, p[1].grad, p[2].grad


def vectors(T):
    m = T.nn.Linear(2, 3)
    v = T.nn.utils.parameters_to_vector(m.parameters())
    T.nn.utils.vector_to_parameters(T.arange(9.0), m.parameters())
    return v.shape, v.requires_grad, m.weight, m.bias


def values_clipped(T):
    p = T.nn.Parameter(T.ones(3))
    p.grad = T.tensor([-3.0, 0.5, 4.0])
    T.nn.utils.clip_grad_value_([p], 1)
    return p.grad


def parametrized(T):
    class Symmetric(T.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).transpose(-1, -2)

        def right_inverse(self, a):
            return a.triu()

    P = T.nn.utils.parametrize
    m = T.nn.Linear(3, 3)
    T.nn.init.ones_(m.weight)
    P.register_parametrization(m, "weight", Symmetric())
    texts = [repr(m), sorted(m.state_dict()), P.is_parametrized(m), P.is_parametrized(m, "bias"), m.weight]
    m.weight = T.arange(9.0).reshape(3, 3)
    texts += [m.weight, m.parametrizations.weight.original, [n for n, _ in m.named_parameters()]]
    with P.cached():
        texts.append(m.weight is m.weight)
    texts.append(m.weight is m.weight)
    m(T.ones(1, 3)).sum().backward()
    texts.append(m.parametrizations.weight.original.grad)
    P.remove_parametrizations(m, "weight")
    return [*texts, type(m).__name__, m.weight, repr(m), type(m.weight).__name__]


def normed(T):
    m = T.nn.utils.parametrizations.weight_norm(T.nn.Linear(2, 3))
    T.nn.init.ones_(m.parametrizations.weight.original1)
    T.nn.init.ones_(m.parametrizations.weight.original0)
    return m.weight, sorted(m.state_dict())


def functional(T, names, **kwargs):
    m = net(T)
    values = {name: T.full((2,), float(i + 2)) for i, name in enumerate(names)}
    return T.func.functional_call(m, values, T.ones(2), **kwargs), list(m.parameters())


def functional_buffers(T):
    m = T.nn.BatchNorm1d(2)
    given = {"running_mean": T.zeros(2), "running_var": T.ones(2)}
    T.func.functional_call(m, given, (T.tensor([[1.0, 2.0], [3.0, 6.0]]),))
    given = {"num_batches_tracked": T.tensor(4)}
    T.func.functional_call(m, given, (T.tensor([[1.0, 2.0], [3.0, 6.0]]),))
    return m.running_mean, m.num_batches_tracked, given


def functional_gradient(T):
    m = T.nn.Linear(2, 1)
    values = {n: T.ones_like(p) for n, p in m.named_parameters()}

    def loss(values, x):
        return T.func.functional_call(m, values, (x,)).sum()

    return T.func.grad(loss)(values, T.tensor([[1.0, 2.0]])), m.weight.grad


def functional_fails(T):
    class Failing(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = T.nn.Parameter(T.ones(1))

        def forward(self):
            raise KeyError(float(self.w))

    m = Failing()
    try:
        T.func.functional_call(m, {"w": T.zeros(1)}, ())
    except KeyError as error:
        return str(error), m.w, type(m.w).__name__


def stacked(T, change=None):
    models = [T.nn.BatchNorm1d(2) for _ in range(3)]
    if change is not None:
        models = change(models) or models
    params, buffers = T.func.stack_module_state(models)
    return {k: (v.shape, v.requires_grad, v.is_leaf) for k, v in {**params, **buffers}.items()}


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
    "hooks in double backward": double_backward,
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
    "containers": containers,
    "parameter containers": parameter_containers,
    "copies": copies,
    "not a tensor": lambda T: net(T).load_state_dict({"first.w": 3}, strict=False),
    "not a dictionary": lambda T: net(T).load_state_dict([]),
    "scalar of one element": lambda T: T.nn.BatchNorm1d(1).load_state_dict(
        {"num_batches_tracked": T.ones(1, dtype=T.int64)}, strict=False
    ),
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
    "names": lambda T: [n for n in ("w", "b", "first", "0") if n in dir(T.nn.Sequential(net(T))[0].first)],
    "index": lambda T: T.nn.Sequential(T.nn.ReLU())[1],
    "insert": lambda T: T.nn.Sequential().insert(3, T.nn.ReLU()),
    "add": lambda T: T.nn.Sequential() + 3,
    "times": lambda T: T.nn.Sequential() * 0,
    "index of a list": lambda T: T.nn.ParameterList([])[0],
    "extend": lambda T: T.nn.ModuleList().extend(3),
    "extend parameters": lambda T: T.nn.ParameterList(T.ones(2)),
    "update": lambda T: T.nn.ModuleDict(3),
    "update with triples": lambda T: T.nn.ModuleDict([(1, 2, 3)]),
    "key": lambda T: T.nn.ParameterDict({"a": 1})[3],
    "call of a list": lambda T: T.nn.ParameterList()(),
    "call of a module list": lambda T: T.nn.ModuleList()(1),
    "groups": lambda T: T.nn.Conv2d(3, 4, 2, groups=2),
    "padding": lambda T: T.nn.Conv2d(4, 4, 2, 2, padding="same"),
    "probability": lambda T: T.nn.Dropout(2.0),
    "dims": lambda T: T.nn.BatchNorm2d(2)(T.ones(2, 2)),
    "reduction": lambda T: T.nn.MSELoss(reduction="other")(T.ones(2), T.ones(2)),
    "gain": lambda T: [T.nn.init.calculate_gain(n) for n in ("linear", "tanh", "relu", "leaky_relu", "selu", "conv2d")],
    "gain of slope": lambda T: T.nn.init.calculate_gain("leaky_relu", True),
    "no gain": lambda T: T.nn.init.calculate_gain("x"),
    "fans": lambda T: T.nn.init.xavier_normal_(T.ones(2)),
    "fan mode": lambda T: T.nn.init.kaiming_normal_(T.ones(2, 2), 0, "x"),
    "eye": lambda T: T.nn.init.eye_(T.empty(3, 4)),
    "dirac": lambda T: T.nn.init.dirac_(T.empty(4, 2, 3, 3), 2),
    "dirac dims": lambda T: T.nn.init.dirac_(T.empty(4, 2)),
    "constant": lambda T: T.nn.init.constant_(T.empty(2), 3.0),
    "clip norm": lambda T: clipped(T, 1.0),
    "clip norm of no effect": lambda T: clipped(T, 100.0),
    "clip largest": lambda T: clipped(T, 1.0, float("inf")),
    "clip one-norm": lambda T: clipped(T, 1.0, 1),
    "clip what is not finite": lambda T: clipped(T, 1.0, error_if_nonfinite=True, last="inf"),
    "clip nothing": lambda T: T.nn.utils.clip_grad_norm_([], 1.0),
    "clip values": values_clipped,
    "vectors": vectors,
    "vector": lambda T: T.nn.utils.vector_to_parameters(3, []),
    "parametrizations": parametrized,
    "weight norm": normed,
    "parametrize what is not there": lambda T: T.nn.utils.parametrize.register_parametrization(
        T.nn.Linear(1, 1), "x", T.nn.ReLU()
    ),
    "functional": lambda T: functional(T, ["second.w"]),
    "functional with tied": lambda T: functional(T, ["first.w"]),
    "functional with both tied": lambda T: functional(T, ["first.w", "tied.w"]),
    "functional without ties": lambda T: functional(T, ["first.w"], tie_weights=False),
    "functional strictly": lambda T: functional(T, ["first.w", "x.y"], strict=True),
    "functional unknown": lambda T: functional(T, ["x"]),
    "functional sequences": lambda T: T.func.functional_call(
        T.nn.Linear(1, 1), ({"weight": T.ones(1, 1)}, {"bias": T.ones(1)}), (T.ones(1),)
    ),
    "functional twice": lambda T: T.func.functional_call(T.nn.Linear(1, 1), [{"bias": T.ones(1)}] * 2, T.ones(1)),
    "functional of a list": lambda T: T.func.functional_call(T.nn.Linear(1, 1), [3], T.ones(1)),
    "functional of a number": lambda T: T.func.functional_call(T.nn.Linear(1, 1), 3, T.ones(1)),
    "functional kwargs": lambda T: T.func.functional_call(
        net(T).first, {"w": T.ones(2)}, kwargs={"x": T.ones(2), "scale": 3.0}
    ),
    "functional buffers": functional_buffers,
    "functional gradient": functional_gradient,
    "functional fails": functional_fails,
    "stack": stacked,
    "stack nothing": lambda T: T.func.stack_module_state([]),
    "stack frozen": lambda T: stacked(T, lambda m: [x.requires_grad_(False) for x in m]),
    "stack partly frozen": lambda T: stacked(T, lambda m: m[0].requires_grad_(False) and None),
    "stack of modes": lambda T: stacked(T, lambda m: m[0].eval() and None),
    "stack of classes": lambda T: stacked(T, lambda m: [*m, T.nn.ReLU()]),
}


def described(value):
    """A result as something that both libraries' results can be compared as."""
    if isinstance(value, (torch.Tensor, gradcore.Tensor)):
        kind = str(value.dtype), tuple(value.shape), bool(value.requires_grad)
        return (*kind, None if value.is_meta else np.asarray(value.detach().tolist()).round(5).tolist())
    if isinstance(value, (torch.nn.Module, gradcore.nn.Module)):
        return repr(value)
    if isinstance(value, dict):
        return {key: described(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [described(v) for v in value] if type(value) in (list, tuple) else repr(value)
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def outcome(program, library):
    """What a program returns or raises, and which warnings it gives."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            result = described(program(library))
        except Exception as error:
            result = type(error).__name__, str(error).partition(" See ")[0].partition(" Open an issue")[0]
    return result, [w.category.__name__ for w in seen]


def worded(outcome):
    """An outcome without the names by which the two libraries call themselves."""
    text = repr(outcome)
    for name in (
        "torch.nn.modules.module.",
        "torch.nn.modules.container.",
        "gradcore.nn.module.",
        "gradcore.nn.containers.",
    ):
        text = text.replace(name, "nn.")
    return text.replace("gradcore.nn.", "nn.").replace("torch.nn.", "nn.").replace("gradcore", "torch")


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_programs(program):
    assert worded(outcome(program, gradcore)) == worded(outcome(program, torch))
