"""Random programs by kinds of Python state: where a value is, how a function reads it, how it changes between calls.

A program is the source of a module. It is executed twice: the functions of one copy are compiled, those of the other
run eagerly, so that state which moves on with each call (an iterator, a counter) can be compared too.

``python -m tests.compiler.state_programs --count 10000`` draws programs and counts differences and reasons of refusals.
"""

# ruff: noqa: E501 (tables of sources, one program to a line)

from __future__ import annotations

import argparse
import collections
import linecache
import random
import re
import sys
import types
import warnings
from typing import Any, NamedTuple

import numpy as np

import gradcore as gc

__all__ = ["CONTAINERS", "OBJECTS", "OTHERS", "Outcome", "check", "compose", "draw", "parse_options"]

#: What modules of all programs begin with.
PRELUDE = """
import abc, array, builtins, collections, contextvars, copy, ctypes, dataclasses, decimal, enum, fractions, functools
import heapq, importlib, inspect, io, itertools, json, operator, os, pickle, pprint, queue, re, string, struct
import sys, threading, types, typing, weakref
import numpy as np
import gradcore as gc
G, OTHER, LIST = 2.0, object(), [2.0, 1.0]

def number(v):
    if isinstance(v, (bool, int, float)):
        return float(v) + 1.5 * isinstance(v, bool) + .25 * isinstance(v, int)
    if isinstance(v, str):
        v = bytes(re.sub('0x[0-9a-f]+', '', v) if '0x' in v else v, 'utf8')  # addresses differ between copies
    if isinstance(v, bytes):
        return float(sum(v))
    if isinstance(v, dict):
        return sum(number(k) + 2 * number(e) for k, e in v.items())
    if isinstance(v, (list, tuple, set, frozenset)):
        return sum((i + 1) * number(e) for i, e in enumerate(v)) + 10. * len(v)
    return 7.0
"""

#: Objects ``o`` with an attribute ``value``: their source, how it is set to ``{}``.
OBJECTS: dict[str, tuple[str, str]] = {
    "plain": ("class C:\n  pass\no = C(); o.value = 2.0", "o.value = {}"),
    "inherited": ("class B:\n  value = 2.0\nclass C(B): pass\no = C()", "B.value = {}"),
    "shadowing": ("class C:\n  value = 2.0\no = C()", "o.value = {}"),
    "class": ("class o:\n  value = 2.0", "o.value = {}"),
    "metaclass": ("class M(type):\n  value = 2.0\nclass o(metaclass=M): pass", "M.value = {}"),
    "slots": ("class C:\n  __slots__ = 'value', 'x'\no = C(); o.value = 2.0", "o.value = {}"),
    "slots and dict": ("class B:\n  __slots__ = 'value',\nclass C(B): pass\no = C(); o.value = 2.0", "o.value = {}"),
    "dataclass": ("@dataclasses.dataclass\nclass C:\n  value: object = 2.0\no = C()", "o.value = {}"),
    "dataclass with slots": ("@dataclasses.dataclass(slots=True)\nclass C:\n  value: object = 2.0\no = C()", "o.value = {}"),
    "frozen": ("@dataclasses.dataclass(frozen=True)\nclass C:\n  value: object = 2.0\no = C()",
               "object.__setattr__(o, 'value', {})"),
    "property": ("class C:\n  @property\n  def value(self): return self.h\no = C(); o.h = 2.0", "o.h = {}"),
    "property of a list": ("h = [2.0]\nclass C:\n  @property\n  def value(self): return h[0]\no = C()", "h[0] = {}"),
    "descriptor": ("class D:\n  def __get__(self, o, t): return self.v\nclass C:\n  value = D()\nC.value; D.v = 2.0\no = C()",
                   "D.v = {}") ,
    "data descriptor": ("T = {}\nclass D:\n  def __get__(self, o, t): return T[id(o)]\n  def __set__(self, o, v): T[id(o)] = v\n"
                        "class C:\n  value = D()\no = C(); o.value = 2.0", "o.value = {}"),
    "weak descriptor": ("class D:\n  T = weakref.WeakKeyDictionary()\n  def __get__(self, o, t): return self.T[o]\n"
                        "class C:\n  value = D()\no = C(); D.T[o] = 2.0", "D.T[o] = {}"),
    "cached property": ("h = [2.0]\nclass C:\n  @functools.cached_property\n  def value(self): return h[0]\no = C()",
                        "h[0] = {}; o.__dict__.pop('value', None)"),
    "getattr": ("class C:\n  def __getattr__(self, n):\n    if n not in T: raise AttributeError(n)\n    return T[n]\n"
                "T = {'value': 2.0}\no = C()", "T['value'] = {}"),
    "getattribute": ("T = {'value': 2.0}\nclass C:\n  def __getattribute__(self, n):\n"
                     "    return T[n] if n in T else object.__getattribute__(self, n)\no = C()", "T['value'] = {}"),
    "getattr of a module": ("o = types.ModuleType('made'); T = {'value': 2.0}\n"
                            "def look(n):\n  if n not in T: raise AttributeError(n)\n  return T[n]\no.__getattr__ = look",
                            "T['value'] = {}"),
    "namespace": ("o = types.SimpleNamespace(value=2.0)", "o.value = {}"),
    "arguments": ("import argparse\no = argparse.Namespace(value=2.0)", "o.value = {}"),
    "module": ("o = types.ModuleType('made'); o.value = 2.0", "o.value = {}"),
    "function": ("def o(): pass\no.value = 2.0", "o.value = {}"),
    "partial": ("o = functools.partial(int); o.value = 2.0", "o.value = {}"),
    "enum": ("class C(enum.Enum):\n  A = 1\no = C.A; o.__dict__.setdefault('extra', 0)\nC.A._value_ = 2.0", "o._value_ = {}"),
    "exception": ("class C(Exception): pass\no = C('a'); o.value = 2.0", "o.value = {}"),
    "local": ("o = threading.local(); o.value = 2.0", "o.value = {}"),
    "own int": ("class C(int): pass\no = C(3); o.value = 2.0", "o.value = {}"),
    "own float": ("class C(float): pass\no = C(3); o.value = 2.0", "o.value = {}"),
    "own str": ("class C(str): pass\no = C('a'); o.value = 2.0", "o.value = {}"),
    "own tuple": ("class C(tuple): pass\no = C((1., 2.)); o.value = 2.0", "o.value = {}"),
    "own dict": ("class C(dict): pass\no = C(a=1); o.value = 2.0", "o.value = {}"),
    "named tuple": ("class C(typing.NamedTuple):\n  value: object = 2.0\no = C()", "global o; o = C({})"),
    "ctypes": ("o = ctypes.c_double(2.0)", "o.value = {}"),
    "structure": ("class C(ctypes.Structure):\n  _fields_ = [('value', ctypes.c_double)]\no = C(2.0)", "o.value = {}"),
    "module of layers": ("class C(gc.nn.Module):\n  pass\no = C(); o.value = 2.0", "o.value = {}"),
    "init subclass": ("class B:\n  def __init_subclass__(cls, v, **k): cls.value = v\nclass o(B, v=2.0): pass", "o.value = {}"),
    "weak proxy": ("class C: pass\nkeep = C(); keep.value = 2.0\no = weakref.proxy(keep)", "keep.value = {}"),
    "user's wrapper": ("class C: pass\nclass W:\n  def __init__(self, i): self.__dict__['i'] = i\n"
                       "  def __getattr__(self, n): return getattr(self.__dict__['i'], n)\nkeep = C(); keep.value = 2.0\no = W(keep)",
                       "keep.value = {}"),
}  # fmt: skip
#: How the attribute is read.
OF_OBJECTS = [
    "o.value", "getattr(o, 'val' + 'ue')", "getattr(o, 'value', 5.0)", "vars(o)['value']", "o.__dict__['value']",
    "operator.attrgetter('value')(o)", "'{0.value}'.format(o)", "f'{o.value!r}'", "[*vars(o).values()]",
    "dict(inspect.getmembers(o)).get('value')", "o.__getattribute__('value')", "object.__getattribute__(o, 'value')",
    "hasattr(o, 'extra')", "len(vars(o))", "copy.copy(o).value", "len(pickle.dumps(o.value))", "json.dumps(o.value)",
    "[getattr(o, n) for n in dir(o) if n == 'value']", "dataclasses.astuple(o)", "dataclasses.asdict(o)",
    "dataclasses.replace(o).value", "o == type(o)(2.0)", "inspect.getattr_static(o, 'value')", "o.value is G",
    "o.value == 2", "type(o.value).__name__", "isinstance(o.value, float)", "matched(o)", "list(map(operator.attrgetter('value'), [o]))",
    "sum(e.value for e in [o])", "(lambda p: p.value)(o)", "functools.reduce(lambda a, n: getattr(a, n), ['value'], o)",
    "string.Formatter().format('{0.value}', o)", "sorted([o], key=lambda e: e.value)[0].value", "'%(value)s' % vars(o)",
    "max([o, o], key=operator.attrgetter('value')).value", "bool(o.value)", "next(iter([o])).value", "repr(o.value)",
    "[e for e in vars(o).items()]", "{**vars(o)}", "o.value if o.value else 3.0", "copy.deepcopy(o.value)", "hash(o.value)",
    "[n for n in dir(o) if n[0] != '_']", "operator.methodcaller('__getattribute__', 'value')(o)", "type(o).__name__",
    "str(getattr(o, '__dict__', 0).get('value') if hasattr(o, '__dict__') else 0)", "getattr(type(o), 'value', 9.0)",
]  # fmt: skip

#: Containers ``c`` whose first element is 2.0, and what else changes them.
CONTAINERS: dict[str, tuple[str, list[str]]] = {
    "list": ("c = [2.0, 1.0]", ["c.append(5.0)", "c.reverse()", "c.pop()", "c[:] = []", "global c; c = [*c]", "c.sort()"]),
    "dict": ("c = {0: 2.0, 'a': 1.0}", ["c['b'] = 4.0", "del c['a']", "c.update(a=7.0)", "global c; c = {**c}",
                                        "c[0] = c.pop(0)"]),
    "set": ("c = {2.0, 1.0}", ["c.add(9.0)", "c.discard(1.0)", "c.clear()"]),
    "frozenset": ("c = frozenset([2.0, 1.0])", ["global c; c = c | {9.0}"]),
    "tuple": ("c = (2.0, 1.0)", ["global c; c = (2.0, 1.0, 3.0)", "global c; c = (2, 1.0)"]),
    "tuple of a list": ("e = [2.0]\nc = (e, 1.0)", ["e[0] = 4.0", "e.append(2.0)"]),
    "deque": ("c = collections.deque([2.0, 1.0], maxlen=3)", ["c.append(5.0)", "c.rotate()", "c.popleft()"]),
    "ordered dict": ("c = collections.OrderedDict(a=2.0, b=1.0)", ["c.move_to_end('a')", "c.popitem()", "c['b'] = 5.0"]),
    "default dict": ("c = collections.defaultdict(float, {0: 2.0})", ["c[1] += 3", "c.default_factory = int"]),
    "counter": ("c = collections.Counter([2, 2, 1])", ["c.update([2])", "c.subtract([1])", "c[7] += 1"]),
    "chain map": ("c = collections.ChainMap({'b': 1.0}, {0: 2.0})", ["c.maps[1][0] = 5.0", "c['q'] = 1.0",
                                                                      "c.maps.insert(0, {0: 9.0})"]),
    "user list": ("c = collections.UserList([2.0, 1.0])", ["c.append(3.0)", "c.data = [5.0]"]),
    "user dict": ("c = collections.UserDict({0: 2.0})", ["c[1] = 3.0", "c.data = {0: 9.0}"]),
    "own list": ("class S(list): pass\nc = S([2.0, 1.0])", ["c.append(3.0)", "c.reverse()", "S.__len__ = lambda s: 9",
                                                              "S.__getitem__ = lambda s, i: 9.0"]),
    "own dict": ("class S(dict):\n  def __missing__(s, k): return 8.0\nc = S({0: 2.0})",
                 ["c[1] = 3.0", "S.__missing__ = lambda s, k: 7.0", "del c[0]"]),
    "own set": ("class S(set): pass\nc = S([2.0])", ["c.add(3.0)", "S.__contains__ = lambda s, k: True"]),
    "own deque": ("class S(collections.deque): pass\nc = S([2.0, 1.0])", ["c.append(3.0)", "c.rotate()"]),
    "own tuple": ("class S(tuple): pass\nc = S((2.0, 1.0))", ["global c; c = S((5.0,))", "S.__len__ = lambda s: 9",
                                                              "c.q = 3"]),
    "own counter": ("class S(collections.Counter): pass\nc = S('aab')", ["c.update('b')", "c['z'] = 3"]),
    "bytearray": ("c = bytearray([2, 1])", ["c.append(9)", "c[1] = 7", "del c[0]"]),
    "bytes": ("c = b'ab'", ["global c; c = b'abc'"]),
    "str": ("c = 'ab'", ["global c; c = 'abc'"]),
    "array": ("c = array.array('d', [2.0, 1.0])", ["c.append(9.0)", "c[1] = 7.0", "c.reverse()"]),
    "memoryview": ("m = bytearray(b'ab')\nc = memoryview(m)", ["m[0] = 9", "c[1] = 3"]),
    "ndarray": ("c = np.array([2.0, 1.0])", ["c[1] = 9.0", "c *= 2", "c.resize(3, refcheck=False)"]),
    "numpy scalar": ("c = [np.float64(2.0)]", ["c[0] = np.float32(2.0)", "c[0] = 2.0"]),
    "record": ("c = np.zeros(1, 'f8,f8')[0]; c[0] = 2.0", ["c[0] = 9.0", "c['f1'] = 5.0"]),
    "ctypes array": ("c = (ctypes.c_double * 2)(2.0, 1.0)", ["c[1] = 9.0", "ctypes.memset(c, 0, 8)"]),
    "range": ("c = range(2, 5)", ["global c; c = range(2, 6)", "global c; c = range(2, 5, 2)"]),
    "mapping proxy": ("m = {0: 2.0}\nc = types.MappingProxyType(m)", ["m[1] = 4.0", "m[0] = 5.0"]),
    "keys": ("m = {0: 2.0}\nc = m.keys()", ["m[1] = 4.0", "del m[0]"]),
    "values": ("m = {0: 2.0}\nc = m.values()", ["m[1] = 4.0", "m[0] = 5.0"]),
    "items": ("m = {0: 2.0}\nc = m.items()", ["m[1] = 4.0", "m[0] = 5.0"]),
    "sequence": ("class S:\n  def __init__(s): s.d = [2.0, 1.0]\n  def __getitem__(s, i): return s.d[i]\n"
                 "  def __len__(s): return len(s.d)\nc = S()", ["c.d.append(3.0)", "c.d = [9.0]", "S.__len__ = lambda s: 5",
                                                                "S.__bool__ = lambda s: False"]),
    "iterable": ("class S:\n  d = [2.0, 1.0]\n  def __iter__(s): yield from s.d\n  def __contains__(s, v): return v in s.d\n"
                 "c = S()", ["S.d.append(3.0)", "S.d = [9.0]", "S.__iter__ = lambda s: iter([4.0])"]),
    "numeric": ("class S:\n  v = 2.0\n  def __float__(s): return s.v\n  def __eq__(s, o): return s.v == 2.0\n"
                "  def __hash__(s): return int(s.v)\n  def __bool__(s): return s.v > 2\n  def __len__(s): return 3\nc = S()",
                ["c.v = 9.0", "S.v = 9.0", "S.__eq__ = lambda s, o: False", "S.__format__ = lambda s, f: 'q'"]),
    "heap": ("c = [2.0, 9.0]\nheapq.heapify(c)", ["heapq.heappush(c, 1.0)", "heapq.heapreplace(c, 7.0)"]),
    "queue": ("c = queue.SimpleQueue()\nc.put(2.0)", ["c.put(4.0)", "c.get_nowait()"]),
    "text": ("c = io.StringIO('2\\n1\\n')", ["c.seek(0)", "c.write('7')"]),
    "iterator": ("c = iter([2.0, 1.0, 4.0, 6.0] * 9)", ["next(c)", "global c; c = iter([9.0] * 9)"]),
    "iterator of a list": ("m = [2.0] * 3\nc = iter(m)", ["m.append(9.0)", "next(c, 0)"]),
    "generator": ("def g():\n  for i in range(90): yield float(i)\nc = g()", ["next(c)"]),
    "weak values": ("class C: pass\nkeep = [C()]\nc = weakref.WeakValueDictionary({0: keep[0]})", ["keep.clear()",
                                                                                                  "c[1] = keep[0]"]),
    "weak set": ("class C: pass\nkeep = [C(), C()]\nc = weakref.WeakSet(keep)", ["keep.pop()"]),
    "flags": ("class F(enum.Flag):\n  A = 1\n  B = 2\nc = [F.A]", ["c[0] = F.A | F.B", "c[0] = F.B"]),
    "enum class": ("class c(enum.Enum):\n  A = 2.0\n  B = 1.0", ["c.A._value_ = 5.0", "c.A.q = 1"]),
    "parameters": ("c = gc.nn.ParameterList([gc.ones(2)])", ["c.append(gc.ones(3))", "c.q = 1"]),
    "layers": ("c = gc.nn.Sequential(gc.nn.Tanh())", ["c.append(gc.nn.ReLU())", "c.training = False"]),
    "shape": ("c = [gc.ones(2, 3).shape]", ["c[0] = gc.ones(3).shape"]),
    "decimal": ("c = [decimal.Decimal(2)]", ["c[0] = decimal.Decimal('2.00')", "c[0] = 5"]),
    "fraction": ("c = [fractions.Fraction(2)]", ["c[0] = fractions.Fraction(5, 2)"]),
}  # fmt: skip
OF_CONTAINERS = [
    "c[0]", "len(c)", "bool(c)", "sum(c)", "list(c)", "max(c)", "2.0 in c", "9.0 in c", "c == [2.0, 1.0]", "repr(c)[:40]",
    "'{0[0]}'.format(c)", "'%s' % (c,)", "sorted(c)", "[*c]", "matched(c)", "next(iter(c))", "list(map(number, c))", "any(c)",
    "all(c)", "c is LIST", "[*zip(c, c)]", "[*enumerate(c)]", "[*reversed(c)]", "copy.copy(c)", "operator.itemgetter(0)(c)",
    "functools.reduce(lambda a, b: b, c)", "[*itertools.accumulate(c)]", "min(c, key=number)", "hash(tuple(c))", "str(c)[:30]",
    "tuple(c)", "set(c)", "dict(c)", "dict.fromkeys(c)", "[e for e in c if e]", "{e: 1 for e in c}", "c[-1]", "c[:1]",
    "unpacked(c)", "next(c)", "next(c, 7.0)", "c.get(0, 3.0)", "c.get('z', 3.0)", "[*c.items()]", "[*c.values()]", "c.maxlen",
    "c.index(2.0)", "c.count(2.0)", "list.__len__(c)", "dict.__len__(c)", "c.__len__()", "c.copy()", "operator.length_hint(c)",
    "[float(c)]", "type(c).__len__(c)", "c != c", "f'{c}'[:40]", "format(c)[:30]", "struct.pack('d', c[0])", "c.qsize()",
    "c.read()", "c.getvalue()", "c.contents.value", "bytes(c)", "number(c)", "float(np.sum(c))", "np.array(c).tolist()",
    "json.dumps(c)", "pprint.pformat(c)[:40]", "copy.deepcopy(c)", "[*c.keys()]", "c.most_common(1)", "c.elements()",
    "vars(c)", "c.A.value", "[m.value for m in c]", "isinstance(c, list)", "iter(c) is c", "[*itertools.islice(c, 2)]",
    "[*filter(None, c)]", "len([*c])", "c and 1.0", "not c", "c.maps[0]", "id(c) == FIRST", "c[len(c) - 1]", "c.value", "c.__class__.__name__",
]  # fmt: skip

#: Other state: its source, expressions that read it, statements that change it, and one that changes it back.
OTHERS: dict[str, tuple[str, list[str], list[str]]] = {
    "global": ("", ["G", "globals()['G']", "sys.modules[__name__].G", "importlib.import_module(__name__).G", "eval('G')",
                    "__import__(__name__).G", "vars(sys.modules[__name__])['G']", "number.__globals__['G']", "(lambda: G)()",
                    "[G for _ in range(2)]", "inspect.currentframe().f_globals['G']", "sys._getframe().f_globals['G']"],
               ["global G; G = 3.0", "global G; G = 2", "globals().update(G=5.0)", "global G; del G"]),
    "closure": ("def make():\n  v = 2.0\n  def get(): return v\n  def put(n):\n    nonlocal v; v = n\n  return get, put\nget, put = make()",
                ["get()", "get.__closure__[0].cell_contents", "inspect.getclosurevars(get).nonlocals", "[*map(lambda _: get(), [1])]"],
                ["put(3.0)", "put(2)", "get.__closure__[0].cell_contents = 4.0", "del get.__closure__[0].cell_contents"]),
    "default": ("def d(v=2.0, *, w=1.0): return v + w", ["d()", "d.__defaults__", "d.__kwdefaults__", "functools.partial(d)()",
                                                         "inspect.signature(d).parameters['v'].default", "(lambda f=d: f())()"],
                ["d.__defaults__ = (3.0,)", "d.__kwdefaults__ = {'w': 5.0}", "d.__kwdefaults__['w'] = 4.0",
                 "d.__code__ = (lambda v=0, *, w=0: 9.0).__code__"]),
    "method": ("class C:\n  def m(self): return 2.0\n  @classmethod\n  def k(cls): return cls.v\n  @staticmethod\n  def s(): return C.v\n"
               "  v = 2.0\n  def __call__(self): return self.m()\no = C()", ["o.m()", "C.k()", "o.s()", "C.m(o)", "o()", "o.m.__func__(o)",
                                                                    "operator.methodcaller('m')(o)", "getattr(o, 'm')()", "super(C, o).__hash__ is None"],
               ["C.m = lambda s: 5.0", "o.m = lambda: 6.0", "C.v = 7.0", "C.__call__ = lambda s: 8.0", "C.k = lambda: 4.0"]),
    "class of an object": ("class A:\n  v = 2.0\n  def m(self): return 1.0\nclass B:\n  v = 3.0\n  def m(self): return 4.0\no = A()",
                           ["o.v", "o.m()", "type(o) is A", "isinstance(o, B)", "o.__class__.__name__", "type(o).__mro__[0].v",
                            "issubclass(type(o), B)"], ["o.__class__ = B"]),
    "bases": ("class A:\n  v = 2.0\nclass B:\n  v = 3.0\nclass C(A): pass\no = C()",
              ["o.v", "C.v", "issubclass(C, B)", "isinstance(o, A)", "len(C.__mro__)", "C.__bases__[0].v", "len(A.__subclasses__())"],
              ["C.__bases__ = (B,)", "A.v = 7.0", "type('D', (A,), {})"]),
    "abstract": ("class A(abc.ABC): pass\nclass B: pass\no = B()", ["isinstance(o, A)", "issubclass(B, A)"], ["A.register(B)"]),
    "abstract of the library": ("from collections.abc import Sized\nimport numbers\nclass B: pass\no = B()",
        ["isinstance(o, Sized)", "isinstance(o, collections.abc.Sequence)", "isinstance(o, numbers.Number)", "issubclass(B, typing.Sized)"],
        ["Sized.register(B); collections.abc.Sequence.register(B); numbers.Number.register(B)", "B.__len__ = lambda s: 0"]),
    "dispatch": ("@functools.singledispatch\ndef d(v): return 2.0", ["d(1)", "d.dispatch(int)(1)", "len(d.registry)"],
                 ["d.register(int, lambda v: 5.0)"]),
    "cache": ("h = [2.0]\n@functools.lru_cache\ndef d(k=0): return h[0] + k", ["d()", "d(1)", "d.cache_info().hits", "d.__wrapped__()"],
              ["h[0] = 3.0; d.cache_clear()", "h[0] = 3.0", "d(5)"]),
    "context": ("V = contextvars.ContextVar('V', default=2.0)", ["V.get()", "contextvars.copy_context().get(V, 1.0)"], ["V.set(3.0)"]),
    "environment": ("os.environ['GC_T'] = 'a'", ["os.environ['GC_T']", "os.getenv('GC_T')", "'GC_U' in os.environ",
                                                  "os.environ.get('GC_T')"], ["os.environ['GC_T'] = 'b'"]),
    "builtin": ("builtins.NAMED = 2.0", ["NAMED", "builtins.NAMED", "vars(builtins)['NAMED']"], ["builtins.NAMED = 3.0"]),
    "builtin replaced": ("", ["len([1])", "abs(-2.0)"], ["globals()['len'] = lambda v: 9", "globals()['abs'] = lambda v: 9.0"]),
    "decimal context": ("", ["float(decimal.Decimal(1).__truediv__(3))", "decimal.getcontext().prec"], ["decimal.getcontext().prec = 4"]),
    "settings": ("", ["gc.get_num_threads()", "gc.get_float32_matmul_precision()", "gc.get_default_dtype().itemsize", "gc.is_grad_enabled()",
                      "gc.are_deterministic_algorithms_enabled()", "gc.initial_seed()", "sys.getrecursionlimit()", "np.geterr()['over']"],
                 ["gc.set_num_threads(1)", "gc.set_float32_matmul_precision('high')", "gc.manual_seed(77)", "sys.setrecursionlimit(2222)"]),
    "training": ("m = gc.nn.Dropout(0.0)", ["m.training", "m.p", "len([*m.modules()])", "m.extra_repr()"],
                 ["m.eval()", "m.p = .25", "m.train(False)", "m.add_module('q', gc.nn.Tanh())"]),
    "counter": ("n = 0\ndef count():\n  global n\n  n += 1\n  return n", ["count()", "n"], ["count()"]),
    "endless": ("c, d = itertools.cycle([2.0, 1.0, 3.0]), itertools.count()", ["next(c)", "[*itertools.islice(c, 2)]", "next(d)",
                "copy.copy(d).__next__()", "repr(d)", "[*zip([1], d)]", "(lambda n=d.__next__: n())()"], ["next(c)", "next(d)"]),
    "pointer": ("m = ctypes.c_double(2.0)\nc = ctypes.pointer(m)", ["c[0]", "c.contents.value", "bool(c)"],
                ["m.value = 4.0", "c[0] = 9.0", "c.contents = ctypes.c_double(5.0)"]),
    "appended": ("h = []", ["h.append(1.0) or len(h)", "h.extend([1.0]) or sum(h)", "setattr(number, 'q', len(h)) or number.q"], ["h.clear()"]),
    "attribute set": ("class C: n = 0\no = C()", ["setattr(o, 'n', o.n + 1) or o.n", "vars(o).update(n=o.n + 1) or o.n", "o.n"], ["o.n = 9"]),
    "imported": ("m = types.ModuleType('made_mod'); m.v = 2.0; sys.modules['made_mod'] = m",
                 ["__import__('made_mod').v", "sys.modules['made_mod'].v", "importlib.import_module('made_mod').v", "imported()"],
                 ["m.v = 5.0", "n = types.ModuleType('made_mod'); n.v = 7.0; sys.modules['made_mod'] = n"]),
    "identity": ("a = [1.0]; b = a; t = 1e9", ["a is b", "id(a) == id(b)", "operator.is_(a, b)", "a in [b]", "t is 1e9", "{id(a): 2}.get(id(b))"],
                 ["global b; b = [1.0]", "global a, b; a = b = [2.0]", "global t; t = float('1e9')"]),
    "object compared": ("class C:\n  v = 1\n  def __eq__(s, o): return s.v == o.v\n  def __lt__(s, o): return s.v < o.v\n"
                        "  def __hash__(s): return s.v\na, b = C(), C()", ["a == b", "a < b", "a in [b]", "sorted([a, b])[0] is a",
                        "{a: 1}.get(b)", "hash(a)", "a != b", "max(a, b) is a"],
                        ["a.v = 2", "C.__eq__ = lambda s, o: False", "C.__lt__ = lambda s, o: True"]),
    "frame": ("def outer():\n  hidden = G\n  return inner()\ndef inner(): return sys._getframe(1).f_locals['hidden']", ["outer()"],
              ["global G; G = 4.0"]),
    "signs": ("z = 0.0", ["1.0 if str(z)[0] == '-' else 2.0", "np.copysign(1.0, z)", "z", "repr(z)"], ["global z; z = -0.0", "global z; z = 0"]),
    "random": ("import random as r\nr.seed(1)", ["r.random()", "np.random.rand()", "r.Random(3).random()", "gc.rand(1).item()"], ["r.seed(5)"]),
    "context manager": ("h = [2.0]\nclass C:\n  def __enter__(s): return h[0]\n  def __exit__(s, *e): return False\no = C()",
                        ["entered()"], ["h[0] = 4.0", "C.__enter__ = lambda s: 9.0"]),
    "dynamic code": ("code = compile('G + 1', 'made', 'eval')", ["eval(code)", "eval('G')", "eval('q', {'q': G})"],
                     ["global G; G = 4.0", "global code; code = compile('G + 2', 'made', 'eval')"]),
    "operator": ("class C:\n  v = 2.0\n  def __mul__(s, o): return s.v * o\n  def __neg__(s): return -s.v\n  def __index__(s): return 1\n"
                 "  def __getitem__(s, k): return s.v\no = C()", ["o * 2", "-o", "[5.0, 6.0][o]", "o['a']", "operator.mul(o, 3)", "operator.index(o)"],
                 ["o.v = 5.0", "C.__mul__ = lambda s, p: 9.0", "C.__index__ = lambda s: 0", "C.__neg__ = lambda s: 4.0"]),
    "annotations": ("class C:\n  v: int = 2\ndef d(a: int): pass", ["len(C.__annotations__)", "d.__annotations__['a'].__name__", "typing.get_type_hints(C)['v'].__name__",
                    "C.__doc__", "d.__doc__", "d.__name__"], ["C.__annotations__['w'] = int", "d.__annotations__['a'] = float", "C.__doc__ = 'abc'", "d.__name__ = 'qqq'"]),
    "special attributes": (
        "class A(abc.ABC):\n  @abc.abstractmethod\n  def m(s): pass\nclass K:\n  def __init__(s, v): s.v = v\n  def __call__(s): return s.v\n"
        "class C:\n  __contains__ = None\n  __len__ = staticmethod(lambda: 2)\n  __float__ = K(2.0)\no = C()\n"
        "def tell(f):\n  try: return bool(f())\n  except TypeError: return 5.0",
        ["tell(lambda: 1 in o)", "tell(A)", "len(o)", "float(o)"],
        ["C.__contains__ = lambda s, v: True", "A.__abstractmethods__ = frozenset()", "C.__len__ = staticmethod(lambda: 4)",
         "C.__float__ = K(3.0)", "vars(C)['__float__'].v = 4.0"]),
    "accessors": ("h = [2.0]\nclass C:\n  @property\n  def p(s): 'ab'; return 1.0\n  @p.deleter\n  def p(s): s.q = h[0]\no = C(); o.q = 1.0\n"
                  "def drop():\n  del o.p\n  return o.q", ["drop()", "C.p.__doc__"], ["h[0] = 3.0", "C.p.__doc__ = 'abcd'"]),
    "objects that lead to functions": (
        "class P(property):\n  k = 2.0\n  def m(s): return s.k\nclass Slotted(property): __slots__ = ('w', '__doc__')\n"
        "class Q(functools.partial): k = 2.0\nclass C:\n  p, t = P(lambda s: 1.0), Slotted(lambda s: 1.0)\n  @staticmethod\n  def s(): 'ab'\n"
        "  @classmethod\n  def c(cls): 'ab'\ns, c, q = vars(C)['s'], vars(C)['c'], Q(len)\nC.p.w = C.t.w = s.w = c.w = q.w = 2.0",
        ["C.p.w", "C.p.k", "C.p.m()", "C.p.__doc__", "C.t.w", "s.w", "s.__doc__", "C.s.__doc__", "c.w", "c.__doc__", "q.k", "q.w", "q([1])"],
        ["C.p.w = 5.0", "P.k = 5.0", "P.m = lambda s: 5.0", "C.p.__doc__ = 'abc'", "C.t.w = 5.0", "s.w = 5.0", "s.__doc__ = 'abc'",
         "C.s.__doc__ = 'abc'", "c.w = 5.0", "c.__doc__ = 'abc'", "Q.k = 5.0", "q.w = 5.0", "Q.__call__ = lambda s, v: 5.0"]),
    "registries": (
        "import reprlib; reprlib.aRepr.maxlist = 6\n@typing.overload\ndef d(v: int): ...\ndef d(v: int): return v\nclass C: v: int = 1",
        ["len(typing.get_overloads(d))", "len(typing.get_type_hints(d))", "len(typing.get_type_hints(C))",
         "reprlib.repr([*range(20)])", "reprlib.aRepr.maxlist"],
        ["typing.clear_overloads()", "d.__annotations__['w'] = int", "C.__annotations__['w'] = int", "reprlib.aRepr.maxlist = 3"]),
    "attribute in the place of another": (
        "class B:\n  value = 2.0\n  def m(s): return 2.0\n  def __len__(s): return 2\nclass C(B):\n  q = 1.0\no = C(); o.z = 1.0",
        ["o.value", "C.value", "o.m()", "[*map(C.m, [o])]", "len(o)", "bool(o)", "getattr(o, 'w', 5.0)", "hasattr(C, 'w')", "tried()"],
        ["del C.q; C.value = 7.0", "del o.z; o.value = 7.0", "del C.q; C.m = lambda s: 7.0", "del C.q; C.__len__ = lambda s: 7",
         "del C.q; C.__bool__ = lambda s: False", "del C.q; C.w = 3.0", "del o.z; o.w = 3.0"]),
    "name of a module in the place of another": ("o = types.ModuleType('made'); o.q = 1.0; o.value = 2.0; N = ['value']",
        ["getattr(o, 'w', 5.0)", "hasattr(o, 'w')", "tried()", "getattr(o, N[0])", "[*map(getattr, [o], N)]"],
        ["del o.q; o.w = 2.0", "o.value = 3.0"]),
    "module of a class": ("class M(types.ModuleType):\n  v = 2.0\n  @property\n  def value(s): return s.v\no = M('made')", ["o.value", "o.v"],
        ["M.v = 5.0", "o.v = 3.0", "M.value = 8.0", "o.__class__ = types.ModuleType"]),
    "methods of an enum": ("K = [2.0]\nclass E(enum.IntEnum):\n  A = 1\n  def m(s): return K[0]\n  @property\n  def p(s): return s.m() + 1\no = E.A",
        ["o.m()", "o.p", "E['A'].m()", "E(1).p", "o + 1", "f'{o}'"],
        ["K[0] = 5.0", "E.m = lambda s: 8.0", "E.p = 3.0", "E.__add__ = lambda s, q: 9", "E.__str__ = lambda s: 'abc'"]),
    "aliases": ("ga, og, ag, vs = getattr, object.__getattribute__, operator.attrgetter, vars\nN, F = ['value'], '{0.value}'\n"
        "class C: pass\no = C(); o.value = 2.0\np = functools.partial(getattr, o, 'value')",
        ["ga(o, N[0])", "[*map(ga, [o], N)]", "functools.reduce(ga, N, o)", "functools.partial(ga, o)(N[0])", "p()", "og(o, N[0])",
         "[*map(og, [o], N)]", "ag(N[0])(o)", "[*map(ag(N[0]), [o])]", "vs(o)[N[0]]", "[*map('{0.value}'.format, [o])]",
         "[*map(F.format, [o])]", "[*map(str.format, [F], [o])]"], ["o.value = 3.0", "o.value = 'abc'"]),
    "computed dunder": ("class C:\n  __value__ = 2.0\no = C(); N = ['__doc__', '__value__']",
        ["getattr(C, N[0])", "getattr(o, N[1])", "operator.attrgetter(N[1])(o)"], ["C.__doc__ = 'abc'", "C.__value__ = 4.0"]),
    "counting containers": ("class D(dict):\n  n = 0\n  def __getitem__(s, k):\n    D.n += 1\n    return dict.__getitem__(s, k)\n"
        "  def __iter__(s):\n    D.n += 1\n    return dict.__iter__(s)\n  def __len__(s):\n    D.n += 1\n    return dict.__len__(s)\nc = D(a=2.0)",
        ["dict.__len__(c)", "'a' in c", "dict.get(c, 'a')"], ["return D.n", "dict.__setitem__(c, 'a', 4.0)"]),
    "protocol": ("@typing.runtime_checkable\nclass P(typing.Protocol):\n  value: float\nclass C:\n  q = 1.0\no = C()", ["isinstance(o, P)"],
        ["del C.q; C.value = 2.0", "o.value = 3.0"]),
    "functions made in loops": ("fs = []\nB = [1.0]\nfor i in range(3):\n  def mk(i=i):\n    def f(): return float(i) + B[0]\n    def s(v):\n"
        "      nonlocal i\n      i = v\n    return f, s\n  fs.append(mk())", ["fs[0][0]() + 10 * fs[2][0]()", "sum(f() for f, _ in fs)"],
        ["fs[2][1](9)", "B[0] = 4.0", "fs.pop()", "fs.reverse()"]),
    "finalizer": ("log = []\nclass D:\n  def __del__(s): log.append(1)\ndef f():\n  D()\n  return 2.0", ["f()"], ["return len(log)"]),
    "weak reference": ("class C: v = 2.0\nkeep = [C()]\nr = weakref.ref(keep[0])", ["r() is None", "r().v", "bool(r())"], ["keep.clear()", "C.v = 3.0"]),
}  # fmt: skip

#: What stands after the state: functions that expressions call.
HELPERS = """
def matched(v):
    match v:
        case [a, *b]:
            return a
        case {0: a}:
            return a
        case C(value=a):
            return a
    return 3.0

def unpacked(v):
    a, *b = v
    return [a, len(b)]

def imported():
    import made_mod
    return made_mod.v

def tried():
    try:
        return o.w
    except AttributeError:
        return 4.0

def entered():
    with o as v:
        return v
"""
#: How the function comes to the expression. Operations are exact, so that programs in C++ have the same bits.
WAYS = {
    "direct": "def function(x):\n  return (x * number({read})).neg() + 1",
    "helper": "def helper():\n  return {read}\ndef function(x):\n  y = x + 1\n  return y * number(helper())",
    "branch": "def function(x):\n  if number({read}) > 12.3:\n    return x * 2\n  return x.square() * number({read})",
    "caught": "def function(x):\n  try:\n    v = number({read})\n  except Exception as e:\n    v = float(len(type(e).__name__))\n  return x * v + 1",
    "map": "def helper(_):\n  return {read}\ndef function(x):\n  return x * number(list(map(helper, [0, 1])))",
    "method": "class Holder:\n  def read(self):\n    return {read}\nholder = Holder()\ndef function(x):\n  return x.neg() * number(holder.read())",
    "default": "helper = lambda: {read}\ndef function(x, f=helper):\n  return x * number(f()) + x",
    "partial": "def helper(x, k):\n  return x * k * number({read})\nfunction = functools.partial(helper, k=2.0)",
    "decorated": "def wrap(f):\n  @functools.wraps(f)\n  def inner(*a):\n    return f(*a)\n  return inner\n@wrap\ndef function(x):\n  return x * number({read})",
    "module": "class Layer(gc.nn.Module):\n  def forward(self, x):\n    return x * number({read})\nfunction = Layer()",
    "comprehension": "def function(x):\n  return sum([x * number({read}) for _ in range(2)])",
    "keyed": "def function(x):\n  return x * number(sorted([1, 2], key=lambda k: number({read}) * k))+ number({read})",
    "split": "def function(x):\n  y = x * 2\n  float(y.sum()); v = number({read})\n  return y * v",
}  # fmt: skip
_VALUES = ["3.0", "2", "True", "-2.0", "'ab'", "[2.0]", "None", "2.5", "(1.0,)", "LIST", "float('2.0')"]


class Program(NamedTuple):
    """A module's source, the statement that changes its state, and its kind in words."""

    source: str
    kind: str
    is_package: bool


class Outcome(NamedTuple):
    """Result of a drawn program: ``equal``, ``different``, ``error`` or ``eager`` (it fails in eager mode as well)."""

    status: str
    kind: str
    reason: str


def draw(seed: int) -> Program:
    """Draw a kind of state, a way of reading it, and a change."""
    chance = random.Random(seed)
    family = chance.choice(["object", "container", "container", "other"])
    if family == "object":
        name = chance.choice([*OBJECTS])
        setup, put = OBJECTS[name]
        read, change = chance.choice(OF_OBJECTS), put.format(chance.choice(_VALUES))
        if chance.random() < 0.1:
            change = chance.choice(["o.extra = 1", "del o.value", "o.value = o.value"])
        back = put.format("2.0")
    elif family == "container":
        name = chance.choice([*CONTAINERS])
        setup, changes = CONTAINERS[name]
        read = chance.choice(OF_CONTAINERS)
        value = chance.choice(_VALUES)
        change = chance.choice([*changes, f"c[0] = {value}"])
        back = chance.choice([*changes, "c[0] = 2.0"])
    else:
        name = chance.choice([*OTHERS])
        setup, reads, changes = OTHERS[name]
        read, change, back = chance.choice(reads), chance.choice(changes), chance.choice(changes)
    way = chance.choice([*WAYS])
    return compose(f"{name} / {read} / {way} / {change} / {back}", setup, chance.random() < 0.5)


def compose(kind: str, setup: str, is_package: bool = False) -> Program:
    """Return the program of a kind: ``"name / read / way / change / back"``, with the source of the state."""
    _, read, way, change, back = kind.split(" / ")
    body = WAYS[way].replace("{read}", read)
    first = "FIRST = id(c)\n" if "FIRST" in read else ""
    source = f"{PRELUDE}{setup}\n{first}{HELPERS}\n{body}\ndef change():\n  {change}\ndef back():\n  {back}\n"
    return Program(source, kind, is_package)


def _load(program: Program, name: str) -> dict[str, Any] | None:
    """Execute a module; return its namespace, or None if its state cannot be made."""
    folder = "/nowhere/site-packages" if program.is_package else "/nowhere/beside"
    module = types.ModuleType(name)
    module.__file__ = f"{folder}/{name}.py"
    sys.modules[name] = module
    linecache.cache[module.__file__] = (len(program.source), None, program.source.splitlines(True), module.__file__)
    try:
        exec(compile(program.source, module.__file__, "exec"), vars(module))
    except Exception:
        return None
    return vars(module)


def _called(call: Any, *args: Any) -> Any:
    """Return what a call gives, as something that can be compared."""
    try:
        result = call(*args)
    except Exception as error:
        return type(error).__name__
    return repr(result.tolist()) if isinstance(result, gc.Tensor) else repr(result)


def check(program: Program, cpp: Any = False) -> Outcome:
    """Compare a program, compiled, with itself: before, after and after another change of its state."""
    settings = gc.get_num_threads(), gc.get_float32_matmul_precision(), sys.getrecursionlimit()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _compare(program, cpp)
    finally:
        gc.set_num_threads(settings[0])
        gc.set_float32_matmul_precision(settings[1])
        sys.setrecursionlimit(settings[2])
        for name in ("state_program", "made_mod"):
            sys.modules.pop(name, None)


def _compare(program: Program, cpp: Any) -> Outcome:
    """Run the eager copy first, then the compiled one, each from the beginning."""
    import decimal

    found: list[list[Any]] = []
    compiled: Any = None
    settings = gc.get_num_threads(), gc.get_float32_matmul_precision(), sys.getrecursionlimit()
    for is_compiled in (False, True, False, False):
        if len(found) == 2 and found[0] == found[1]:
            break
        gc.set_num_threads(settings[0])
        gc.set_float32_matmul_precision(settings[1])
        sys.setrecursionlimit(settings[2])
        decimal.getcontext().prec = 28
        gc.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        namespace = _load(program, "state_program")
        if namespace is None:
            return Outcome("eager", program.kind, "the state cannot be made")
        call = namespace["function"]
        if is_compiled:
            call = compiled = gc.compile(call, options={"cpp": cpp})
        x, out = gc.ones(2) * 0.5, []
        for count, step in ((4, "change"), (3, "back"), (3, None)):
            out += [_called(call, x) for _ in range(count)]
            if step is not None:
                out.append(_called(namespace[step]))
        found.append(out)
    function = getattr(compiled, "_compiled_call_impl", compiled)
    reason = "" if function._specializations else str(function._left)
    if found[0] == found[1]:
        failed = all(each.isidentifier() for each in found[0][:4])
        return Outcome("eager" if failed else "equal", program.kind, reason)
    if found[0] != found[2] or found[0] != found[3]:
        return Outcome("eager", program.kind, "it differs between two copies, as addresses do")
    first = next(i for i, (a, b) in enumerate(zip(*found[:2], strict=True)) if a != b)
    return Outcome("different", program.kind, f"call {first}: {found[1][first]} instead of {found[0][first]}")


def parse_options() -> argparse.Namespace:
    """Return the command line's number of programs, the first seed, and whether C++ is built."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--wait", action="store_true", help="with C++")
    return parser.parse_args()


def main() -> None:
    """Draw programs and count."""
    options = parse_options()
    statuses, reasons = collections.Counter[str](), collections.Counter[str]()
    for seed in range(options.first, options.first + options.count):
        outcome = check(draw(seed), "wait" if options.wait else False)
        refused = outcome.status == "equal" and outcome.reason
        statuses[outcome.status + (", refused" if refused else "")] += 1
        if refused:
            reasons[re.sub(r"\(.*?\)|\d+|'.*?'", "", outcome.reason)[:90]] += 1
        if outcome.status == "different":
            print(seed, outcome.kind, outcome.reason, sep="\n   ", flush=True)
    print(statuses, *reasons.most_common(60), sep="\n")


if __name__ == "__main__":
    main()
