"""A sample of the random programs of `tests.compiler.state_programs`: no change of Python state is missed."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.compiler import state_programs
from tests.compiler.state_programs import CONTAINERS, OBJECTS, OTHERS

#: Programs in which a change was once not seen, one or two for each class of state.
MISSED = [
    "abstract / isinstance(o, A) / map / A.register(B) / A.register(B)",
    "builtin / builtins.NAMED / decorated / builtins.NAMED = 3.0 / builtins.NAMED = 2.0",
    "builtin replaced / len([1]) / direct / builtins.NAMED = 3.0 / builtins.NAMED = 2.0",
    "closure / get.__closure__[0].cell_contents / keyed / put(3.0) / put(2.0)",
    "default / d.__defaults__ / keyed / d.__defaults__ = (3.0,) / d.__defaults__ = (2.0,)",
    "annotations / d.__name__ / direct / d.__name__ = 'qqq' / d.__name__ = 'd'",
    "dispatch / len(d.registry) / caught / d.register(int, lambda v: 5.0) / d.register(str, lambda v: 5.0)",
    "partial / o.value is G / direct / o.value = (1.0,) / o.value = 2.0",
    "identity / t is 1e9 / method / global t; t = float('1e9') / global t; t = 2.0",
    "default dict / f'{c}'[:40] / method / c.default_factory = int / c.default_factory = float",
    "annotations / C.__doc__ / direct / C.__doc__ = 'abc' / C.__doc__ = 'q'",
    "attribute in the place of another / o.value / direct / del C.q; C.value = 7.0 / o.value = 3.0",
    "attribute in the place of another / len(o) / method / del C.q; C.__len__ = lambda s: 7 / o.v = 3.0",
    "name of a module in the place of another / hasattr(o, 'w') / direct / del o.q; o.w = 2.0 / o.value = 3.0",
    "module of a class / o.v / map / M.v = 5.0 / o.v = 3.0",
    "methods of an enum / o + 1 / direct / E.__add__ = lambda s, q: 9 / K[0] = 5.0",
    "aliases / functools.reduce(ga, N, o) / direct / o.value = 3.0 / o.value = 2.0",
    "aliases / p() / direct / o.value = 3.0 / o.value = 2.0",
    "aliases / og(o, N[0]) / direct / o.value = 3.0 / o.value = 2.0",
    "aliases / [*map(F.format, [o])] / direct / o.value = 3.0 / o.value = 2.0",
    "computed dunder / getattr(o, N[1]) / direct / C.__value__ = 4.0 / C.__value__ = 2.0",
    "counting containers / dict.__len__(c) / direct / return D.n / return D.n",
    "imported / importlib.import_module('made_mod').v / direct / m.v = 5.0 / m.v = 2.0",
    "special attributes / tell(lambda: 1 in o) / direct / C.__contains__ = lambda s, v: True / C.__contains__ = None",
    "special attributes / tell(A) / direct / A.__abstractmethods__ = frozenset() / A.__abstractmethods__ = {'m'}",
    "special attributes / len(o) / method / C.__len__ = staticmethod(lambda: 4) / C.__len__ = staticmethod(lambda: 2)",
    "special attributes / float(o) / direct / vars(C)['__float__'].v = 4.0 / C.__float__ = K(2.0)",
    "accessors / drop() / direct / h[0] = 3.0 / h[0] = 2.0",
    "accessors / C.p.__doc__ / direct / C.p.__doc__ = 'abcd' / C.p.__doc__ = 'ab'",
    "registries / len(typing.get_overloads(d)) / direct / typing.clear_overloads() / return None",
    "registries / len(typing.get_type_hints(d)) / direct / d.__annotations__['w'] = int / return None",
    "registries / len(typing.get_type_hints(C)) / direct / C.__annotations__['w'] = int / return None",
    "registries / reprlib.repr([*range(20)]) / direct / reprlib.aRepr.maxlist = 3 / reprlib.aRepr.maxlist = 6",
    "record / c[0] / direct / c[0] = 9.0 / c[0] = 2.0",
    "objects that lead to functions / C.p.w / direct / C.p.w = 5.0 / C.p.w = 2.0",
    "objects that lead to functions / C.p.k / direct / P.k = 5.0 / P.k = 2.0",
    "objects that lead to functions / C.p.__doc__ / direct / C.p.__doc__ = 'abc' / C.p.__doc__ = 'q'",
    "objects that lead to functions / C.t.w / direct / C.t.w = 5.0 / C.t.w = 2.0",
    "objects that lead to functions / s.w / direct / s.w = 5.0 / s.w = 2.0",
    "objects that lead to functions / c.__doc__ / direct / c.__doc__ = 'abc' / c.__doc__ = 'ab'",
    "objects that lead to functions / q.k / direct / Q.k = 5.0 / Q.k = 2.0",
]


@pytest.mark.sampled(24)
@pytest.mark.parametrize("part", range(8))
def test_no_change_of_state_is_missed(part: int) -> None:
    outcomes = [state_programs.check(state_programs.draw(seed)) for seed in range(20 * part, 20 * part + 20)]
    assert [each for each in outcomes if each.status == "different"] == []
    assert Counter(each.status for each in outcomes)["equal"] > 8


@pytest.mark.parametrize("kind", MISSED)
def test_what_was_missed(kind: str) -> None:
    setup = {**OBJECTS, **CONTAINERS, **OTHERS}[kind.partition(" / ")[0]][0]
    assert state_programs.check(state_programs.compose(kind, setup)).status == "equal"
