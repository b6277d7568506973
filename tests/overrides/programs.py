"""Programs with subclasses of tensors, as functions of the library: the oracle tests run them with PyTorch, too."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any


def classes(lib: Any) -> Any:
    """Return subclasses and other classes that override calls, as programs define them."""

    class Keeping(lib.Tensor):
        """Inherits everything."""

    class Logging(lib.Tensor):
        """Notes what is called."""

        calls: list[str]

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.calls.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    Logging.calls = []

    class Unit(lib.Tensor):
        """Carries a unit along, and refuses sums of different ones."""

        unit: str

        @staticmethod
        def of(data, unit):
            out = lib.as_tensor(data).as_subclass(Unit)
            out.unit = unit
            return out

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            result = super().__torch_function__(func, types, args, kwargs or {})
            units = [a.unit for a in args if hasattr(a, "unit")]
            if isinstance(result, Unit):
                if func.__name__ in ("add", "sub") and len(set(units)) > 1:
                    raise TypeError(f"{units[0]} and {units[1]}")
                result.unit = "*".join(units) if func.__name__ == "mul" else units[0]
            return result

    class Diagonal:
        """A matrix that is no tensor: the functions that it knows are in a table."""

        table: dict[Any, Any]

        def __init__(self, n, value):
            self.n, self.value = n, value

        def tensor(self):
            return self.value * lib.eye(self.n)

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func not in cls.table or not all(issubclass(t, (lib.Tensor, Diagonal)) for t in types):
                return NotImplemented
            return cls.table[func](*args, **(kwargs or {}))

    def dense(t):
        return t.tensor() if isinstance(t, Diagonal) else t

    Diagonal.table = {
        lib.mean: lambda input: float(input.value) / input.n,
        lib.add: lambda input, other: lib.add(dense(input), dense(other)),
        lib.matmul: lambda input, other: Diagonal(input.n, input.value * other.value),
        lib.cat: lambda tensors, dim=0: lib.cat([dense(t) for t in tensors], dim),
    }

    class Metadata:
        """A wrapper that unwraps its arguments, calls, and wraps the result."""

        def __init__(self, data, metadata=None):
            self.t, self.metadata = lib.as_tensor(data), metadata

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            found = tuple(a.metadata for a in args if hasattr(a, "metadata"))
            plain = [getattr(a, "t", a) for a in args]
            return cls(func(*plain, **(kwargs or {})), metadata=found[0])

    return SimpleNamespace(Keeping=Keeping, Logging=Logging, Unit=Unit, Diagonal=Diagonal, Metadata=Metadata)


def kind(value: Any) -> Any:
    """Convert a result to what both libraries share: names of classes, and tensors as lists."""
    if isinstance(value, (tuple, list)):
        return [kind(v) for v in value]
    if hasattr(value, "tolist") and hasattr(value, "grad_fn"):
        return type(value).__name__, value.detach().tolist(), None if value.grad_fn is None else value.grad_fn.name()
    return value if isinstance(value, (bool, int, float, str, type(None))) else type(value).__name__


# -- programs ---------------------------------------------------------------------------------------------------------


def subclasses_are_kept(lib: Any) -> Any:
    c = classes(lib)
    x = lib.tensor([[1.0, 2.0], [3.0, 4.0]]).as_subclass(c.Keeping)
    p = lib.tensor([1.0, 2.0])
    values = [
        x + 1,
        1 + x,
        p + x,
        x + p,
        x - p,
        p - x,
        2.0 - x,
        2.0 / x,
        x @ x,
        p @ x,
        x**2,
        -x,
        abs(x),
        x > 1,
        x == x,
        x[0],
        x[:, 1],
        x.sum(),
        x.mean(0),
        x.T,
        x.view(4),
        x.reshape(1, 4),
        x.detach(),
        x.clone(),
        x.double(),
        x.max(0),
        x.split(1),
        lib.square(x),
        lib.cat([p, x[0]]),
        lib.stack([p, x[0]]),
        lib.where(x > 1, x, -x),
        lib.zeros_like(x),
        x.new_zeros(2),
        lib.nn.functional.relu(x),
        lib.nn.functional.linear(x, x),
        lib.einsum("ij->i", x),
        lib.add(p, p),
        list(x),
        lib.nn.functional.softmax(0 * x, dim=0),
        x.to(lib.float64),
        lib.ones_like(x),
        x.data,
        lib.as_tensor(x),
    ]
    return kind(values)


def writing_in_place(lib: Any) -> Any:
    c = classes(lib)
    x = lib.tensor([1.0, 2.0]).as_subclass(c.Keeping)
    p = lib.tensor([1.0, 2.0])
    same = x.add_(1)
    x += 1
    x[0] = 7.0
    x.mul_(p)
    return kind([same is x, x, p.add_(x), p, x.zero_()])


def gradients(lib: Any) -> Any:
    c = classes(lib)
    x = lib.tensor([1.0, 2.0]).as_subclass(c.Keeping).requires_grad_()
    y = (x * x + 1).sum()
    y.backward()
    first = x.grad
    other = lib.autograd.grad((x * x).sum(), x)
    w = lib.tensor([3.0, 1.0], requires_grad=True)
    z = (w * x.detach()).sum()
    z.backward()
    return kind([type(y).__name__, x.is_leaf, first, w.grad, type(x.detach()).__name__, x.requires_grad, other])


def second_derivatives(lib: Any) -> Any:
    c = classes(lib)
    c.Logging.calls.clear()
    x = lib.tensor([1.0, 2.0]).as_subclass(c.Logging).requires_grad_()
    y = (x * x * x).sum()
    c.Logging.calls.clear()
    y.backward(create_graph=True)
    calls = list(c.Logging.calls)
    g = x.grad
    x.grad = None
    g.sum().backward()
    return calls, kind(x.grad)


def what_is_logged(lib: Any) -> Any:
    c = classes(lib)
    x = lib.tensor([1.0, 2.0]).as_subclass(c.Logging)
    p = lib.tensor([1.0, 2.0])
    c.Logging.calls.clear()
    (x + p).sum()
    p + x
    2.0 * x
    2.0 / x
    2.0 - x
    x @ p
    p @ x
    x += 1
    x[0]
    x[0] = 1.0
    x.shape  # noqa: B018
    len(x)
    float(x[0])
    x.requires_grad = True
    lib.exp(x)
    lib.nn.functional.relu(x)
    lib.cat([x, p])
    x < p  # noqa: B015
    p < x  # noqa: B015
    x.detach().numpy()
    x.size()
    x.to(lib.float64)
    (x * 2).sum().backward()
    x.grad  # noqa: B018
    return c.Logging.calls


def units(lib: Any) -> Any:
    c = classes(lib)
    metres, seconds = c.Unit.of([1.0, 2.0], "m"), c.Unit.of([3.0, 4.0], "s")
    try:
        lib.add(metres, seconds)
    except TypeError as error:
        refused = str(error)
    return kind([(metres * seconds).unit, (metres + metres).unit, metres.sum().unit, refused])


def functions_of_other_classes(lib: Any) -> Any:
    c = classes(lib)
    d = c.Diagonal(2, 3.0)
    results = [
        lib.mean(d),
        lib.add(d, lib.ones(2, 2)),
        lib.add(lib.ones(2, 2), d),
        lib.matmul(d, d).value,
        lib.cat([d, d]),
    ]
    try:
        lib.mul(d, d)
    except TypeError:
        results.append("TypeError")
    m = c.Metadata([1.0, 2.0], metadata="here")
    total = lib.add(m, m)
    return kind([*results, total.metadata, total.t, type(lib.sum(m)).__name__])


def who_is_asked_first(lib: Any) -> Any:
    asked = []

    def asks(name, base=object):
        def handler(cls, func, types, args=(), kwargs=None):
            asked.append(name)
            return NotImplemented

        return type(name, (base,), {"__torch_function__": classmethod(handler)})

    First, Second = asks("First"), asks("Second")
    Derived = asks("Derived", First)
    for args in ((First(), Second()), (Second(), First()), (First(), Derived()), (First(), Second(), Derived())):
        try:
            lib.stack(list(args))
        except TypeError:
            asked.append("-")
    return asked


def modes(lib: Any) -> Any:
    seen = []

    class Noting(lib.overrides.TorchFunctionMode):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((self.name, func.__name__))
            return func(*args, **(kwargs or {}))

    x = lib.ones(2)
    with Noting("outer"):
        x + 1
        with Noting("inner"):
            lib.nn.functional.relu(x)
            lib.zeros(2, dtype=lib.float64)
            lib.arange(3)
        x.sum()
        x.add_(1)
    x * 2
    return seen, kind(x)


def parameters(lib: Any) -> Any:
    c = classes(lib)
    p = lib.nn.Parameter(lib.ones(2))
    q = lib.nn.Parameter(lib.ones(2).as_subclass(c.Keeping))

    class Own(lib.nn.Parameter):
        pass

    layer = lib.nn.Linear(2, 2)
    layer.weight = lib.nn.Parameter(lib.ones(2, 2).as_subclass(c.Keeping))
    out = layer(lib.ones(2))
    return kind([
        type(p * 2).__name__, type(q).__name__, isinstance(q, lib.nn.Parameter), q.requires_grad,
        isinstance(lib.ones(2), lib.nn.Parameter), type(Own(lib.ones(2)) * 2).__name__, type(out).__name__,
        [name for name, _ in layer.named_parameters()],
    ])  # fmt: skip


def switched_off(lib: Any) -> Any:
    c = classes(lib)
    x = lib.ones(2).as_subclass(c.Keeping)

    class Plain(lib.Tensor):
        __torch_function__ = lib._C._disabled_torch_function_impl

    with lib._C.DisableTorchFunctionSubclass():
        inside = type(x + 1).__name__
    return inside, type(x + 1).__name__, type(lib.ones(2).as_subclass(Plain) + 1).__name__


def questions(lib: Any) -> Any:
    c = classes(lib)
    o = lib.overrides
    x, d = lib.ones(2).as_subclass(c.Keeping), c.Diagonal(2, 1.0)
    asked = [(1,), (lib.ones(2),), (x,), (d, 1), (lib.nn.Parameter(lib.ones(2)),)]
    return [
        [o.has_torch_function(args) for args in asked],
        [o.is_tensor_like(v) for v in (1, lib.ones(2), x, d)],
        o.has_torch_function_unary(x),
        o.has_torch_function_variadic(1, d),
        o.is_tensor_method_or_property(lib.Tensor.add),
        o.is_tensor_method_or_property(lib.Tensor.shape.__get__),
        o.is_tensor_method_or_property(lib.add),
        o.resolve_name(lib.Tensor.add).partition(".")[2],
        o.resolve_name(lib.nn.functional.relu).partition(".")[2],
        lib.add in o.get_overridable_functions()[lib],
        lib.Tensor.add in o.get_overridable_functions()[lib.Tensor],
    ]


def functions_of_ones_own(lib: Any) -> Any:
    c = classes(lib)
    o = lib.overrides

    def twice(x):
        if o.has_torch_function_unary(x):
            return o.handle_torch_function(twice, (x,), x)
        return x * 2

    @o.wrap_torch_function(lambda x: (x,))
    def thrice(x):
        return x * 3

    c.Diagonal.table[twice] = lambda x: c.Diagonal(x.n, 2 * x.value)
    c.Diagonal.table[thrice] = lambda x: c.Diagonal(x.n, 3 * x.value)
    return [
        twice(c.Diagonal(2, 1.0)).value,
        thrice(c.Diagonal(2, 1.0)).value,
        kind(twice(lib.ones(1))),
        kind(thrice(lib.ones(1))),
    ]


def printing(lib: Any) -> Any:
    c = classes(lib)
    x = lib.tensor([1.0, 2.0]).as_subclass(c.Keeping)
    return repr(x), repr(lib.nn.Parameter(lib.ones(1)))


def leaves_and_views(lib: Any) -> Any:
    c = classes(lib)
    p = lib.tensor([1.0, 2.0], requires_grad=True)
    s = p.as_subclass(c.Keeping)
    leaf = lib.Tensor._make_subclass(c.Keeping, lib.ones(2), True)
    view = s.view(2, 1)
    return kind([s.grad_fn.name(), s._base is p, s.is_leaf, leaf.is_leaf, leaf.requires_grad, view, view._base is p])


def copies(lib: Any) -> Any:
    p = lib.nn.Parameter(lib.ones(2))
    return type(copy.deepcopy(p)).__name__, type(copy.copy(p)).__name__


PROGRAMS = (
    copies, functions_of_ones_own, functions_of_other_classes, gradients, leaves_and_views, modes, parameters, printing,
    questions, second_derivatives, subclasses_are_kept, switched_off, units, what_is_logged, who_is_asked_first,
    writing_in_place,
)  # fmt: skip
