"""Programs with containers, first values, utilities and functional calls. Each takes the library."""

from __future__ import annotations

import numpy as np

from tests.nn.module_programs import net


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


def recurrent_slope(T):
    """Return the gradient of the state of a layer whose inputs are NaN, where the slope of `relu` is one."""
    layer, state = T.nn.RNN(2, 1, nonlinearity="relu"), T.zeros(1, 1, requires_grad=True)
    layer.load_state_dict({name: T.ones_like(w) for name, w in layer.state_dict().items()})
    layer(T.full((3, 2), float("nan")), state)[0].sum().backward()
    return state.grad


def drawn_windows(T):
    """Pool an image without a batch by windows that are drawn for a batch."""
    x, drawn = T.arange(64.0).reshape(1, 4, 4, 4), T.tensor([[[0.1, 0.5, 0.9]], [[0.0, 0.0, 0.0]]])
    return T.nn.functional.fractional_max_pool3d(x, 2, output_size=2, _random_samples=drawn)


def numbers_of_numpy(T):
    """Return settings of a layer of NumPy's types, and a count as a bool."""
    layer = T.nn.LSTM(2, 3, 2, dropout=np.float32(0.25), bidirectional=1)
    return layer.dropout, len(list(layer.parameters()))


PROGRAMS = {
    "recurrent dims": lambda T: T.nn.RNN(2, 3)(T.ones(2)),
    "recurrent size": lambda T: T.nn.RNN(2, 3)(T.ones(2, 3)),
    "recurrent state": lambda T: T.nn.GRU(2, 3)(T.ones(4, 5, 2), T.ones(1, 4, 3)),
    "recurrent cell": lambda T: T.nn.LSTM(2, 3)(T.ones(4, 5, 2), (T.ones(1, 5, 3), T.ones(1, 4, 3))),
    "recurrent dropout": lambda T: T.nn.RNN(2, 3, dropout=0.5),
    "recurrent nonlinearity": lambda T: T.nn.RNN(2, 3, nonlinearity="x"),
    "recurrent projection": lambda T: T.nn.LSTM(2, 3, proj_size=3),
    "recurrent projection below zero": lambda T: T.nn.LSTM(2, 3, proj_size=-1),
    "recurrent bias": lambda T: T.nn.GRU(2, 3, bias=1),
    "recurrent batches": lambda T: T.nn.LSTM(2, 3, batch_first=None),
    "recurrent dropout for certain": lambda T: T.nn.LSTM(2, 3, 2, dropout=True),
    "recurrent numbers of NumPy": numbers_of_numpy,
    "recurrent slope at NaN": recurrent_slope,
    "no layers": lambda T: T.nn.LSTM(2, 3, 0),
    "dims of a cell": lambda T: T.nn.LSTMCell(2, 3)(T.ones(1, 2, 2)),
    "containers": containers,
    "parameter containers": parameter_containers,
    "scalar of one element": lambda T: T.nn.BatchNorm1d(1).load_state_dict(
        {"num_batches_tracked": T.ones(1, dtype=T.int64)}, strict=False
    ),
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
    "no kernel": lambda T: T.nn.functional.conv2d(T.ones(1, 2, 4, 4), T.ones(3, 2, 0, 2)),
    "no volume": lambda T: T.nn.functional.conv3d(T.ones(1, 2, 4, 4, 4), T.ones(3, 2, 1, 0, 2)),
    "drawn windows": drawn_windows,
    "classes of a score": lambda T: T.nn.functional.multilabel_soft_margin_loss(T.ones(2, 1), T.ones(2, 4)),
    "weights of more losses": lambda T: T.nn.functional.binary_cross_entropy_with_logits(
        T.zeros(2, 3), T.zeros(2, 3), T.ones(4, 2, 3)
    ),
    "positive weights of more losses": lambda T: T.nn.functional.binary_cross_entropy_with_logits(
        T.zeros(1), T.zeros(1), pos_weight=T.ones(3)
    ),
    "weights of more probabilities": lambda T: T.nn.functional.binary_cross_entropy(
        T.zeros(()), T.zeros(()), T.ones(1)
    ),
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
