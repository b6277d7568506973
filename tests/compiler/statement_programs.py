"""Random functions that mix statements on Python state with operations on tensors, and changes of the state in between.

A program has one to three features of Python (generators, descriptors, closures, pattern matching, ...) with their state.
Its function is built from statements of these features and of tensors, within loops, branches, `try` and `with`. It is
executed twice, in eager mode and compiled, and results, gradients, errors and state are compared after each call.

``python -m tests.compiler.statement_programs --count 5000`` draws programs and prints differences.
"""

# ruff: noqa: E501 (tables of sources)

from __future__ import annotations

import collections
import contextvars
import decimal
import gc as collector
import linecache
import random
import re
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import gradcore as gc
from tests.compiler.state_programs import parse_options

__all__ = ["FEATURES", "check", "draw"]

#: What modules of all programs begin with.
PRELUDE = """
import abc, array, bisect, collections, contextlib, contextvars, copy, dataclasses, decimal, enum, fractions, functools
import heapq, itertools, logging, math, operator, os, random, re, string, struct, sys, threading, time, types, typing
import warnings, weakref
import numpy as np
import gradcore as gc
from gradcore import nn
F = nn.functional
log = []
"""


class Feature(NamedTuple):
    """Sources of a feature of Python.

    Attributes
    ----------
    setup : str
        What defines the state.
    statements : list of str
        Statements of a function of a tensor `x` and an int `k`, which compute `y`.
    changes : list of str
        Statements between two calls.
    observed : str
        An expression of the state that is compared.
    """

    setup: str
    statements: list[str]
    changes: list[str]
    observed: str


# fmt: off
FEATURES: dict[str, Feature] = {
    "match sequence": Feature(
        "ms = [2.0, 1.0]",
        ["match ms:\n  case [a]: y = y * a\n  case [a, b] if b > 0: y = y * a + b\n  case [a, *r]: y = y * a + len(r)\n  case _: y = y - 1",
         "match (k, ms):\n  case (1, [p, *_]): y = y + p\n  case (2 | 3 as q, l) if len(l) > 1: y = y * q\n  case _: pass"],
        ["ms.append(3.0)", "ms[1] = -1.0", "del ms[1:]", "ms[:] = [4.0, 1.0]", "ms.clear()"],
        "ms",
    ),
    "match mapping": Feature(
        "mm = {'op': 'mul', 'v': 2.0}",
        ["match mm:\n  case {'op': 'mul', 'v': v}: y = y * v\n  case {'op': 'add', 'v': v, **rest}: y = y + v + len(rest)\n  case {}: y = -y"],
        ["mm['op'] = 'add'", "mm['v'] = 5.0", "mm['w'] = 1", "mm.pop('op', 0)", "mm['op'] = 'mul'"],
        "mm",
    ),
    "match class": Feature(
        "class MC:\n"
        "  __match_args__ = ('a', 'b')\n"
        "  def __init__(s): s.a = 1.0; s.b = 2.0\n"
        "  n = 0\n"
        "  @property\n"
        "  def c(s): MC.n += 1; return s.a + MC.n\n"
        "mc = MC()",
        ["match mc:\n  case MC(1.0, b): y = y + b\n  case MC(a, b=2.0): y = y * a\n  case MC(c=c): y = y * c",
         "match mc:\n  case MC(c=c) if c > 2: y = y * c\n  case MC(): y = y + 1"],
        ["mc.a = 3.0", "mc.b = 4.0", "MC.__match_args__ = ('b', 'a')", "mc.a = 1.0", "MC.n = 0"],
        "(mc.a, mc.b, MC.n)",
    ),
    "match enum": Feature(
        "class ME(enum.Enum):\n"
        "  A = 1\n"
        "  B = 2\n"
        "me = ME.A",
        ["match me:\n  case ME.A: y = y * 2\n  case ME.B: y = y - 1"],
        ["global me; me = ME.B", "global me; me = ME.A"],
        "me.name",
    ),
    "walrus comprehension": Feature(
        "wl = [1, 2, 3]",
        ["t = 0; y = y * sum([(t := t + e) for e in wl]) + t",
         "y = y + (n := len(wl)) * (n if any((last := e) > 2 for e in wl) else 1)",
         "y = [z := y * e for e in wl][-1] + z", "if (m := max(wl, default=0)) > 2: y = y + m"],
        ["wl.append(4)", "wl.pop() if wl else 0", "wl[0:1] = [5]", "wl.reverse()"],
        "wl",
    ),
    "getattr chain": Feature(
        "class GA:\n"
        "  def __init__(s, n=None): s.__dict__['n'] = n; s.__dict__['v'] = 2.0\n"
        "  def __getattr__(s, k): log.append(k); r = GA(s); r.__dict__['v'] = s.v + len(k); s.__dict__[k] = r; return r\n"
        "ga = GA()",
        ["y = y * ga.a.bc.v", "y = y + getattr(ga.a, 'q' * (k % 3 + 1)).v", "ga.a.v += 1; y = y * ga.a.v",
         "y = y * hasattr(ga, 'zz')"],
        ["ga.__dict__.clear(); ga.__dict__.update(n=None, v=3.0)", "ga.__dict__.pop('a', 0)", "ga.v = 5.0"],
        "sorted(ga.__dict__)",
    ),
    "counting descriptor": Feature(
        "class CD:\n"
        "  def __set_name__(s, o, n): s.n = n + str(len(n)); log.append(s.n)\n"
        "  def __get__(s, o, t): return s if o is None else o.__dict__.get(s.n, 1.0)\n"
        "  def __set__(s, o, v): o.__dict__[s.n] = v * 2\n"
        "  def __delete__(s, o): o.__dict__.pop(s.n, 0)\n"
        "class CO: val = CD()\n"
        "co = CO()",
        ["co.val = co.val + 1; y = y * co.val", "y = y + co.val", "del co.val; y = y + co.val",
         "y = y * len(CO.val.n)"],
        ["co.val = 4.0", "CO.val.n = 'other'", "CD.__get__ = lambda s, o, t: 3.0", "co.__dict__.clear()"],
        "co.__dict__",
    ),
    "cached property": Feature(
        "class CP:\n"
        "  base = 2.0\n"
        "  @functools.cached_property\n"
        "  def c(s): log.append('c'); return s.base * 2\n"
        "cp = CP()",
        ["y = y * cp.c", "cp.__dict__.pop('c', 0); y = y + cp.c", "y = y * ('c' in vars(cp)) + cp.c"],
        ["CP.base = 3.0", "vars(cp).pop('c', 0)", "cp.c = 7.0", "global cp; cp = CP()"],
        "vars(cp)",
    ),
    "contextvar": Feature(
        "cv = contextvars.ContextVar('cv', default=1.0)",
        ["tk = cv.set(cv.get() + 1)\ny = y * cv.get()\ncv.reset(tk)", "y = y * cv.get()",
         "cv.set(cv.get() * 2); y = y + cv.get()",
         "y = contextvars.copy_context().run(lambda: (cv.set(9.0), y * cv.get())[1])"],
        ["cv.set(3.0)", "cv.set(1.0)"],
        "cv.get()",
    ),
    "generator state": Feature(
        "def gs():\n"
        "  t = 1.0\n"
        "  while True:\n"
        "    got = yield t\n"
        "    t = t + 1 if got is None else got\n"
        "g1 = gs(); next(g1)",
        ["y = y * next(g1)", "y = y + g1.send(float(k))", "y = y * sum(itertools.islice(g1, 2))"],
        ["next(g1)", "g1.send(1.0)", "global g1; g1 = gs(); next(g1)"],
        "g1.gi_frame.f_locals['t']",
    ),
    "yield from": Feature(
        "yf = [1.0, 2.0]\n"
        "def inner(v):\n"
        "  for e in yf:\n"
        "    got = yield v * e\n"
        "    if got is not None: log.append(got)\n"
        "  return len(yf)\n"
        "def outer(v):\n"
        "  n = yield from inner(v)\n"
        "  yield v + n",
        ["for z in outer(y): y = z", "y = sum(outer(y), y * 0)", "go = outer(y); y = next(go) + go.send(k)",
         "*_, y = outer(y)", "go = outer(y); y = next(go); go.close()"],
        ["yf.append(3.0)", "yf.pop() if len(yf) > 1 else 0", "yf[0] = 4.0"],
        "yf",
    ),
    "generator tensors": Feature(
        "gt = {'g': None}\n"
        "def gtf(v):\n"
        "  while True:\n"
        "    v = v * 1.5\n"
        "    v = yield v",
        ["if gt['g'] is None: gt['g'] = gtf(y.detach()); z = next(gt['g'])\nelse: z = gt['g'].send(y.detach())\ny = y + z"],
        ["gt['g'] = None"],
        "0",
    ),
    "exception group": Feature(
        "eg = ['v', 't']\n"
        "def egf():\n"
        "  raise ExceptionGroup('g', [ValueError('v') if e == 'v' else TypeError('t') for e in eg])",
        ["try: egf()\nexcept* ValueError as e: y = y * (1 + len(e.exceptions)); log.append('V')\nexcept* TypeError as e: y = y + len(e.exceptions)",
         "try: egf()\nexcept ExceptionGroup as e:\n  a, b = e.split(ValueError); y = y * (2 if a else 3) + (b is None)"],
        ["eg.append('v')", "eg[:] = ['t']", "eg[:] = ['v']"],
        "eg",
    ),
    "exceptions": Feature(
        "class EX(Exception):\n"
        "  n = 0\n"
        "  def __init__(s, *a): EX.n += 1; super().__init__(*a)\n"
        "ex = [0]\n"
        "def exf(v):\n"
        "  if ex[0] == 1: raise EX('a', ex[0])\n"
        "  if ex[0] == 2: raise KeyError(ex[0])\n"
        "  return v * 2",
        ["try: y = exf(y)\nexcept EX as e: y = y + len(e.args)\nexcept LookupError: y = y - 1\nelse: y = y * 1.5\nfinally: log.append(ex[0])",
         "try:\n  try: y = exf(y)\n  except EX as e: e.add_note('n'); raise ValueError('w') from e\nexcept ValueError as e: y = y * len(e.__cause__.__notes__) + 3\nexcept KeyError as e: y = y + e.args[0]",
         "with contextlib.suppress(EX, KeyError): y = exf(y)\ny = y + EX.n", "if ex[0] == 3: raise EX('out', k)",
         "y = exf(y)",
         "for q in range(3):\n  try:\n    if q == ex[0]: continue\n    if q == 2: break\n    y = y + q\n  finally: log.append(q)\nelse: y = y * 3"],
        ["ex[0] = 1", "ex[0] = 2", "ex[0] = 0", "ex[0] = 3", "EX.n = 0"],
        "EX.n",
    ),
    "async": Feature(
        "class Aw:\n"
        "  def __await__(s): got = yield s; return 2.0 if got is None else got\n"
        "aw = [1]\n"
        "async def af(v): log.append('a'); return v * await Aw() + aw[0]\n"
        "async def ag(v):\n"
        "  for i in range(aw[0]): yield v * i\n"
        "async def ah(v):\n"
        "  async for e in ag(v): v = v + e\n"
        "  return v\n"
        "def drive(c, send=None):\n"
        "  try:\n"
        "    c.send(None)\n"
        "    while True: c.send(send)\n"
        "  except StopIteration as e: return e.value",
        ["y = drive(af(y))", "y = drive(af(y), float(k))", "y = drive(ah(y))"],
        ["aw[0] = 2", "aw[0] = 3", "aw[0] = 1"],
        "aw",
    ),
    "metaclass": Feature(
        "class Mt(type):\n"
        "  made = 0\n"
        "  def __call__(c, *a): Mt.made += 1; o = super().__call__(*a); o.num = Mt.made; return o\n"
        "  def __getattr__(c, n):\n"
        "    if n.startswith('z'): return c.base + len(n)\n"
        "    raise AttributeError(n)\n"
        "  def __len__(c): return c.base\n"
        "  def __iter__(c): return iter(range(c.base))\n"
        "  def __contains__(c, v): return v < c.base\n"
        "  def __getitem__(c, i): return c.base * i\n"
        "class Mc(metaclass=Mt): base = 2",
        ["y = y * Mc().num", "y = y + Mc.zap", "y = y * len(Mc) + sum(Mc) + (1 in Mc)", "y = y * Mc[3]",
         "Mc.base += 1; y = y * Mc.base"],
        ["Mc.base = 3", "Mt.made = 0", "Mt.__len__ = lambda c: 5", "Mc.zap = 1.0"],
        "(Mc.base, Mt.made)",
    ),
    "class counter": Feature(
        "class Cc:\n"
        "  n = 0\n"
        "  def __init__(s): Cc.n += 1; s.i = type(s).n\n"
        "  def __init_subclass__(c): Cc.n += 10",
        ["y = y + Cc().i", "y = y * Cc.n", "class Sub(Cc): pass\ny = y + Sub().i"],
        ["Cc.n = 0", "Cc()"],
        "Cc.n",
    ),
    "property side effect": Feature(
        "class Pp:\n"
        "  def __init__(s): s._v = 1.0; s.r = 0\n"
        "  @property\n"
        "  def v(s): s.r += 1; return s._v * s.r\n"
        "  @v.setter\n"
        "  def v(s, z): s._v = z; log.append('set')\n"
        "  @v.deleter\n"
        "  def v(s): s._v = 9.0\n"
        "pp = Pp()",
        ["y = y * pp.v", "pp.v = pp.v + 1", "pp.v += k; y = y + pp._v", "del pp.v; y = y * pp._v"],
        ["pp.r = 0", "pp._v = 2.0", "Pp.v = 3.0", "pp.v = 1.0"],
        "vars(pp)",
    ),
    "weakref": Feature(
        "class Wr: v = 2.0\n"
        "wk = [Wr()]; wr = weakref.ref(wk[0]); wd = weakref.WeakKeyDictionary({wk[0]: 3.0}); ws = weakref.WeakSet(wk)",
        ["o = wr(); y = y * o.v if o is not None else y - 1", "y = y * (1 + len(wd))", "y = y + sum(wd.values())",
         "y = y + len(ws)", "wq = Wr(); ws.add(wq); y = y + len(ws); del wq; y = y + len(ws)",
         "wk[:] = wk[:1]; y = y + (wr() is None)"],
        ["wk.clear()", "Wr.v = 5.0", "wk[:] = [Wr()]; wd[wk[0]] = 7.0; ws.add(wk[0])"],
        "(len(wd), len(ws))",
    ),
    "finalizer": Feature(
        "class Fz:\n"
        "  def __init__(s, n): s.n = n\n"
        "  def __del__(s): log.append(s.n)\n"
        "fz = []",
        ["Fz(k)\ny = y + len(log)", "fi = Fz('x'); fi = None; y = y * (1 + len(log))",
         "fz.append(Fz('k')); fz[:-1] = []; y = y + len(log)", "for q in [Fz(1), Fz(2)]: y = y + q.n\ndel q",
         "weakref.finalize(Fz('f'), log.append, 'fin'); y = y + len(log)"],
        ["fz.clear()"],
        "len(fz)",
    ),
    "itertools": Feature(
        "it = itertools.count(1); ic = itertools.cycle([1., 2., 3.]); il = [1., 2., 2., 3.]",
        ["y = y * next(it)", "y = y + next(ic)", "y = y * sum(itertools.islice(ic, 2))",
         "y = y + sum(len([*g]) * kk for kk, g in itertools.groupby(il))",
         "ta, tb = itertools.tee(il); y = y + next(ta) + sum(tb)",
         "y = y + sum(itertools.takewhile(lambda v: v < 3, il)) - sum(itertools.dropwhile(lambda v: v < 2, il))",
         "for a, b in itertools.pairwise(il): y = y + a * b", "y = y + sum(itertools.compress(il, [1, 0, 1]))",
         "y = y * [*itertools.accumulate(il, operator.mul)][-1]",
         "y = y + sum(itertools.starmap(pow, [(e, 2) for e in il]))",
         "y = y + len([*itertools.product(il, repeat=2)])",
         "y = y + sum(a or 0 for a, b in itertools.zip_longest(il, [1] * 6))",
         "zp = zip(it, il); y = y + sum(a * b for a, b in zp)"],
        ["next(it)", "next(ic)", "il.append(3.)", "il[0] = 3.", "global it; it = itertools.count(3, 2)"],
        "(repr(it), il)",
    ),
    "named tuple": Feature(
        "class Nt(typing.NamedTuple):\n"
        "  a: float = 1.0\n"
        "  b: float = 2.0\n"
        "  def s(self): return self.a + Nt.w\n"
        "Nt.w = 1.0\n"
        "nt = Nt()",
        ["y = y * nt.s() + nt.b", "a, b = nt; y = y * a - b", "y = y + nt._replace(a=float(k)).a",
         "y = y + sum(nt._asdict().values())", "y = y * Nt._make([k, 1]).s()", "y = y + len(nt._fields) + nt[-1]"],
        ["global nt; nt = Nt(3.0)", "Nt.w = 4.0", "global nt; nt = nt._replace(b=nt.b + 1)", "Nt.s = lambda s: s.a"],
        "nt",
    ),
    "typed dict": Feature(
        "class Td(typing.TypedDict, total=False):\n"
        "  a: float\n"
        "  b: float\n"
        "td: Td = Td(a=1.0)",
        ["y = y * td['a'] + td.get('b', 3.0)", "td['b'] = td.get('b', 0.0) + k; y = y + td['b']",
         "y = y + len(Td.__annotations__) + len(Td.__optional_keys__)"],
        ["td['b'] = 2.0", "td.pop('b', 0)", "td['a'] += 1"],
        "td",
    ),
    "protocol": Feature(
        "@typing.runtime_checkable\n"
        "class Pr(typing.Protocol):\n"
        "  def size(self): ...\n"
        "class Pi: pass\n"
        "pi = Pi()",
        ["y = y * 2 if isinstance(pi, Pr) else y + 1", "y = y + (pi.size() if isinstance(pi, Pr) else 4)"],
        ["Pi.size = lambda s: 3", "pi.size = lambda: 2", "vars(pi).clear()", "Pi.size = None"],
        "0",
    ),
    "formatting": Feature(
        "class Fm:\n"
        "  n = 0\n"
        "  def __format__(s, spec): Fm.n += 1; return spec * Fm.n\n"
        "  def __str__(s): return 's' * Fm.n\n"
        "  def __repr__(s): return 'r' + str(Fm.n)\n"
        "fm = Fm(); tpl = string.Template('$a-$b'); ft = {'a': 'xx', 'b': 1}",
        ["y = y * len(f'{fm:ab}')", "y = y + len(f'{fm!r:>{k + 3}}')", "y = y + len('{:q}{}'.format(fm, k))",
         "y = y + len('%s %r' % (fm, fm))", "y = y + len(tpl.substitute(ft))",
         "y = y + len('{a}{b:03d}'.format_map(ft))", "y = y * int('%(b)03d' % ft)",
         "y = y + len(str(fm)) + len(repr([fm]))", "y = y * float(f'{k:.2e}')"],
        ["Fm.n = 1", "ft['a'] = 'x'", "ft['b'] += 1", "global tpl; tpl = string.Template('$b')"],
        "(Fm.n, ft)",
    ),
    "attrgetter": Feature(
        "class At: pass\n"
        "at = At(); at.b = At(); at.b.c = 2.0; at.l = [1.0, 2.0]; ag_ = operator.attrgetter('b.c'); ig = operator.itemgetter(0, 1); mcl = operator.methodcaller('index', 2.0)",
        ["y = y * ag_(at)", "y = y + sum(ig(at.l))", "y = y + mcl(at.l)",
         "y = y * operator.attrgetter('b.' + 'c')(at)", "at.b.c = operator.iadd(at.b.c, 1.0); y = y + at.b.c",
         "operator.setitem(at.l, 0, operator.getitem(at.l, 0) + 1); y = y * at.l[0]"],
        ["at.b.c = 5.0", "at.l[0] = 4.0", "at.l.insert(0, 1.0)", "at.b = At(); at.b.c = 1.0"],
        "(at.b.c, at.l)",
    ),
    "random": Feature(
        "rr = random.Random(3); rg = np.random.default_rng(4)",
        ["y = y * rr.random()", "y = y + rg.random()", "if rr.random() > 0.5: y = y * 2", "y = y + random.random()",
         "y = y + float(np.random.rand())", "rl = [1, 2, 3]; rr.shuffle(rl); y = y * rl[0]",
         "y = y * rr.choice([1., 2.])", "y = y + gc.tensor(rg.standard_normal(3).astype('f4'))"],
        ["rr.seed(1)", "rr.random()", "random.seed(2)"],
        "rr.getstate()[1][:2]",
    ),
    "environment": Feature(
        "os.environ['MIX_T'] = '1'",
        ["y = y * float(os.environ['MIX_T'])", "os.environ['MIX_T'] = str(k); y = y + len(os.environ['MIX_T'])",
         "y = y * 2 if os.getenv('MIX_T') == '2' else y"],
        ["os.environ['MIX_T'] = '3'", "os.environ['MIX_T'] = '2'"],
        "os.environ['MIX_T']",
    ),
    "lru cache tensors": Feature(
        "lc = {'n': 0}\n"
        "@functools.lru_cache(maxsize=2)\n"
        "def mask(n): lc['n'] += 1; return gc.ones(n) * lc['n']\n"
        "@functools.lru_cache\n"
        "def scl(v): lc['n'] += 1; return v + lc['n']",
        ["y = y * mask(3)", "y = y + mask(3 if k < 2 else 1)", "y = y * scl(k)",
         "y = y + scl(float(k)); y = y * scl.cache_info().misses", "mask(3).add_(1); y = y + mask(3)"],
        ["mask.cache_clear()", "scl.cache_clear()", "mask(2)", "scl(7)"],
        "(lc, mask.cache_info()[1:], scl.cache_info()[1:])",
    ),
    "default mutable": Feature(
        "def dm(v, acc=[], d={'n': 1}): acc.append(len(acc)); d['n'] += 1; return v * len(acc) + d['n']\n"
        "def dt(v, buf=gc.zeros(3)): buf += v.detach().sum(); return v + buf",
        ["y = dm(y)", "y = dm(y, [])", "y = dm(y, d={'n': k})", "y = dt(y)"],
        ["dm.__defaults__[0].clear()", "dm.__defaults__[1]['n'] = 0", "dt.__defaults__[0].zero_()",
         "dt.__defaults__ = (gc.ones(3),)"],
        "(dm.__defaults__, dt.__defaults__[0].tolist())",
    ),
    "nonlocal": Feature(
        "def nlm():\n"
        "  n = 0; h = gc.zeros(3)\n"
        "  def up(v):\n"
        "    nonlocal n, h\n"
        "    n += 1; h = h * 0.5 + v.detach().mean(); return v * n + h\n"
        "  def get(): return n\n"
        "  def rst():\n"
        "    nonlocal n, h\n"
        "    n = 0; h = gc.zeros(3)\n"
        "  return up, get, rst\n"
        "nup, nget, nrst = nlm()",
        ["y = nup(y)", "y = y * (nget() + 1)", "y = nup(nup(y))", "nrst(); y = nup(y)"],
        ["nrst()", "nup(gc.ones(3))"],
        "nget()",
    ),
    "recursion": Feature(
        "rd = {'depth': 2}\n"
        "def rec(v, n): return v if n <= 0 else rec(v * 1.5 + n, n - 1) + rd['depth']\n"
        "rt = (1.0, (2.0, (3.0,)))\n"
        "def walk(t, v):\n"
        "  for e in t: v = walk(e, v) if isinstance(e, tuple) else v * e\n"
        "  return v",
        ["y = rec(y, rd['depth'])", "y = walk(rt, y)",
         "y = (lambda f: f(f, k, y))(lambda f, n, v: v if n < 1 else f(f, n - 1, v + n))"],
        ["rd['depth'] = 3", "global rt; rt = (rt, 2.0)", "rd['depth'] -= 1"],
        "rd",
    ),
    "star": Feature(
        "sa = [1.0, 2.0, 3.0]; sk = {'a': 1.0, 'b': 2.0}\n"
        "def sf(*a, a_=1, **k_): return sum(a) * a_ + len(k_)",
        ["h, *t = sa; y = y * h + len(t)", "*i, j = *sa, k; y = y + sum(i) - j", "y = y + sf(*sa, **sk)",
         "y = y * len([*sa, *sk, *range(k)])", "y = y + sum({**sk, 'a': k}.values())",
         "(p, q), *r = [(1, 2), *sa]; y = y * p + q + len(r)", "y = y + sf(*sa, *sa, a_=k, **{**sk})"],
        ["sa.append(4.0)", "sk['c'] = 1.0", "sa.pop() if len(sa) > 1 else 0", "sk.pop('b', 0)", "sk['a_'] = 3"],
        "(sa, sk)",
    ),
    "index objects": Feature(
        "class Ix:\n"
        "  def __init__(s, v): s.v = v; s.n = 0\n"
        "  def __index__(s): s.n += 1; return s.v\n"
        "ix = Ix(1); iy = Ix(2); ls = [1., 2., 3., 4.]",
        ["y = y + y[ix]", "y = y + y[..., ix:iy].sum()", "y = y * ls[ix] + sum(ls[:iy])",
         "y = y + y[gc.tensor([0, 1])][ix]", "for _ in range(ix): y = y * 2", "y = y + gc.ones(iy, 1).sum()",
         "y = y.roll(ix.v, 0); y = y * (1 + ix.n % 3)", "y = y + bytes(ix)[0] + len(bytes(iy))",
         "ix.v = (ix.v + 1) % 3"],
        ["ix.v = 0", "iy.v = 3", "ix.v = 2", "iy.v = 1"],
        "(ix.v, ix.n, iy.v, iy.n)",
    ),
    "numpy scalars": Feature(
        "nf = np.float32(2.0); ni = np.int64(1); nl = [np.float64(0.5)]; nb = np.bool_(True)",
        ["y = y * nf", "y = y + ni", "y = y[ni] + y", "y = y * nl[0]; nl[0] += 0.5", "y = y * 2 if nb else y",
         "y = y + nf.item() + float(nl[0])", "y = y * np.sqrt(nf)", "y = nf * y",
         "nl.append(np.float32(k)); y = y + sum(nl)", "y = y + (nf == 2.0)"],
        ["global nf; nf = np.float64(2.0)", "global nf; nf = np.float32(3.0)", "global ni; ni = np.int32(2)",
         "nl[:] = [np.float64(1.5)]", "global nb; nb = np.bool_(False)", "global ni; ni = 1"],
        "(repr(nf), nl)",
    ),
    "inplace operators": Feature(
        "class Ip:\n"
        "  def __init__(s, v): s.v = v; s.h = []\n"
        "  def __iadd__(s, o): s.v += o; s.h.append('+'); return s\n"
        "  def __imul__(s, o): return Ip(s.v * o)\n"
        "  def __ior__(s, o): log.append('|'); return s\n"
        "  def __add__(s, o): return s.v + o\n"
        "  __radd__ = __add__\n"
        "  def __rmul__(s, o): return o * s.v\n"
        "  def __matmul__(s, o): return o * s.v + 1\n"
        "  def __rmatmul__(s, o): return o + s.v\n"
        "  def __neg__(s): s.v = -s.v; return s\n"
        "  def __invert__(s): return s.v\n"
        "  def __call__(s, o): s.h.append('c'); return o * len(s.h)\n"
        "ip = [Ip(2.0)]",
        ["ip[0] += 1; y = y * ip[0]", "ip[0] *= 2; y = y + ip[0].v", "ip[0] |= 3; y = y + ip[0]", "y = ip[0] @ y",
         "y = y * ip[0]", "y = ip[0](y)", "y = y + (~ip[0])", "y = y * (-ip[0]).v"],
        ["ip[0].v = 1.0", "ip[0].h.clear()", "ip[0] = Ip(3.0)", "Ip.__iadd__ = lambda s, o: s"],
        "(ip[0].v, ip[0].h)",
    ),
    "module getattr": Feature(
        "mg = types.ModuleType('mix_mg'); sys.modules['mix_mg'] = mg; mgn = [0]\n"
        "def _mga(n):\n"
        "  mgn[0] += 1\n"
        "  if n == 'scale': return 2.0 + mgn[0]\n"
        "  raise AttributeError(n)\n"
        "mg.__getattr__ = _mga",
        ["y = y * mg.scale", "import mix_mg; y = y + mix_mg.scale", "from mix_mg import scale; y = y + scale",
         "y = y + getattr(mg, 'other', 3.0)"],
        ["mg.scale = 5.0", "vars(mg).pop('scale', 0)", "mgn[0] = 0"],
        "mgn",
    ),
    "monkey patch": Feature(
        "class Mk:\n"
        "  def go(s, v): return v * 2\n"
        "  @classmethod\n"
        "  def cl(c, v): return v + c.w\n"
        "  @staticmethod\n"
        "  def st(v): return v - 1\n"
        "  w = 1.0\n"
        "mk = Mk()\n"
        "def mkf(v): return v * 3",
        ["y = mk.go(y)", "y = mk.cl(y)", "y = Mk.st(y)", "y = mkf(y)", "b = mk.go; y = b(y)",
         "y = [f(y) for f in (mk.go, Mk.cl, mkf)][k % 3]",
         "mk.go = (lambda v: v * 1.5) if k == 2 else mk.go; y = mk.go(y)"],
        ["mk.go = types.MethodType(lambda s, v: v * s.w, mk)", "vars(mk).clear()", "Mk.go = lambda s, v: v + 7",
         "Mk.w = 3.0", "Mk.cl = classmethod(lambda c, v: v)", "global mkf; mkf = lambda v: v",
         "mkf.__code__ = (lambda v: v + 5).__code__ if not mkf.__closure__ else mkf.__code__",
         "Mk.st = staticmethod(abs)"],
        "0",
    ),
    "exit stack": Feature(
        "class Es:\n"
        "  def __init__(s, n, sup=False): s.n = n; s.sup = sup\n"
        "  def __enter__(s): log.append(s.n); return s\n"
        "  def __exit__(s, t, e, tb): log.append((s.n, t.__name__ if t else None)); return s.sup\n"
        "es = [Es('a'), Es('b', True)]\n"
        "@contextlib.contextmanager\n"
        "def cm(v):\n"
        "  log.append('in')\n"
        "  try: yield v * 2\n"
        "  except ValueError: log.append('caught')\n"
        "  finally: log.append('fin')\n"
        "class Cdec(contextlib.ContextDecorator):\n"
        "  def __enter__(s): log.append('>'); return s\n"
        "  def __exit__(s, *e): log.append('<')\n"
        "@Cdec()\n"
        "def decd(v): return v * len(log)",
        ["with contextlib.ExitStack() as st:\n  for e in es: y = y + len(st.enter_context(e).n)\n  st.callback(log.append, 'cb')\n  if len(es) > 2: raise ValueError('x')",
         "with es[-1], es[0]:\n  y = y * 2\n  if k == 2: raise KeyError('q')", "with cm(y) as z: y = z + 1",
         "with cm(y) as z:\n  y = z\n  raise ValueError", "y = decd(y)",
         "with contextlib.nullcontext(es) as q: y = y + len(q)",
         "with contextlib.closing(types.SimpleNamespace(close=lambda: log.append('cl'))): y = y + len(log)"],
        ["es.append(Es('c', True))", "es[0].sup = True", "es.reverse()", "es[:] = es[:2]"],
        "len(es)",
    ),
    "side effect dunders": Feature(
        "class Se:\n"
        "  n = 0\n"
        "  def __bool__(s): Se.n += 1; return Se.n % 3 > 0\n"
        "  def __len__(s): Se.n += 1; return 2\n"
        "  def __contains__(s, v): Se.n += 1; return Se.n % 2 == 0\n"
        "  def __eq__(s, o): Se.n += 1; return Se.n % 2 == 1\n"
        "  def __hash__(s): Se.n += 1; return 3\n"
        "  def __iter__(s): Se.n += 1; return iter((1, Se.n))\n"
        "  def __getitem__(s, i): Se.n += 1; return Se.n\n"
        "  def __lt__(s, o): Se.n += 1; return True\n"
        "  def __float__(s): Se.n += 1; return float(Se.n)\n"
        "  def __int__(s): return 2\n"
        "  def __round__(s, n=0): Se.n += 1; return 3.0\n"
        "  def __abs__(s): Se.n += 1; return 4.0\n"
        "  def __reversed__(s): Se.n += 1; return [1]\n"
        "se = Se(); s2 = Se()",
        ["y = y * 2 if se else y + 1", "y = y + len(se)", "y = y * 2 if 1 in se else y", "y = y * (se == s2)",
         "y = y + len({se: 1, s2: 2})", "y = y + sum(se)", "y = y + se[0]", "y = y * float(se)", "y = y + (se < s2)",
         "y = y + round(se) + abs(se)", "a, b = se; y = y * b", "y = y + len(sorted([se, s2, se])) + Se.n",
         "while not se: y = y + 1", "y = y + any([se, s2]) + Se.n", "y = y + len([*reversed(se)]) + Se.n",
         "y = (se and y * 2) if bool(s2) else y", "y = y if not se or s2 else y * 4"],
        ["Se.n = 0", "Se.n = 1", "Se.__bool__ = lambda s: True"],
        "Se.n",
    ),
    "post init": Feature(
        "@dataclasses.dataclass(order=True)\n"
        "class Pd:\n"
        "  a: float = 1.0\n"
        "  l: list = dataclasses.field(default_factory=lambda: log.append('df') or [1.0])\n"
        "  iv: dataclasses.InitVar[float] = 2.0\n"
        "  made: typing.ClassVar[int] = 0\n"
        "  def __post_init__(s, iv): Pd.made += 1; s.d = s.a * iv + Pd.made\n"
        "pd_ = Pd()",
        ["y = y * Pd(float(k)).d", "y = y + pd_.d; pd_.l.append(1.0)",
         "y = y + dataclasses.replace(pd_, a=2.0, iv=1.0).d", "y = y + (pd_ < Pd(2.0)) + Pd.made",
         "y = y + sum(dataclasses.asdict(pd_)['l'])",
         "y = y + sum(getattr(pd_, f.name) for f in dataclasses.fields(pd_) if f.type is float or f.name == 'a')"],
        ["pd_.a = 3.0", "Pd.made = 0", "pd_.l.clear()", "pd_.d = 1.0"],
        "(pd_, Pd.made)",
    ),
    "dict subclass": Feature(
        "class Ds(dict):\n"
        "  def __missing__(s, k): s[k] = len(s) + 1.0; return s[k]\n"
        "  def __setitem__(s, k, v): log.append(k); dict.__setitem__(s, k, v)\n"
        "ds = Ds(); dd = collections.defaultdict(lambda: len(dd) + 1.0)",
        ["y = y * ds[k]", "y = y + dd['a' * k]", "ds['q'] = ds['q'] + 1; y = y + ds['q']",
         "y = y + sum(ds.values()) + len(dd)", "dd['z'] += 1; y = y * dd['z']",
         "y = y + ds.get('n', 2.0) + ds.setdefault('m', 3.0)", "ds.update(u=1.0); y = y + len(ds)"],
        ["ds.clear()", "dd.clear()", "ds['q'] = 1.0", "dict.pop(ds, 'q', 0)"],
        "(ds, dict(dd))",
    ),
    "deque heap": Feature(
        "dq = collections.deque([1., 2.], maxlen=3); hp = [1., 5.]; bl = [1., 3., 5.]",
        ["dq.append(float(k)); y = y * dq[0]", "dq.rotate(1); y = y + dq[-1]",
         "heapq.heappush(hp, heapq.heappop(hp) + 2); y = y + hp[0]",
         "bisect.insort(bl, float(k)); y = y + len(bl) + bl[0]", "y = y + bisect.bisect(bl, k)",
         "y = y * sum(heapq.nsmallest(2, hp))", "dq.appendleft(dq.pop() + 1 if dq else 1.); y = y + sum(dq)"],
        ["dq.clear(); dq.extend([2., 1.])", "hp[:] = [2., 3.]", "del bl[3:]"],
        "(list(dq), hp, bl)",
    ),
    "logging": Feature(
        "lg = logging.getLogger('mix'); lg.propagate = False; lg.disabled = False\n"
        "class Hd(logging.Handler):\n"
        "  def emit(s, r): log.append(r.getMessage())\n"
        "lg.handlers[:] = [Hd()]; lg.setLevel(logging.INFO)",
        ["lg.info('k %d', k)", "lg.debug('d'); y = y * 2 if lg.isEnabledFor(logging.DEBUG) else y",
         "if lg.level == logging.INFO: y = y + 1", "lg.warning(f'{y.shape}')"],
        ["lg.setLevel(logging.DEBUG)", "lg.setLevel(logging.WARNING)", "lg.setLevel(logging.INFO)",
         "lg.disabled = not lg.disabled"],
        "lg.level",
    ),
    "time": Feature(
        "class Ck:\n"
        "  t = 0.0\n"
        "  def __call__(s): Ck.t += 0.5; return Ck.t\n"
        "ck = Ck(); t0 = time.perf_counter()",
        ["y = y * ck()", "tt = time.perf_counter(); y = y * 1; log.append(time.perf_counter() >= tt)",
         "y = y * (2 if time.time() > 1e9 else 3)"],
        ["Ck.t = 0.0", "Ck.__call__ = lambda s: 3.0"],
        "Ck.t",
    ),
    "super chain": Feature(
        "class Sa:\n"
        "  def go(s, v): return v + s.w\n"
        "  w = 1.0\n"
        "class Sb(Sa):\n"
        "  def go(s, v): return super().go(v) * 2\n"
        "class Sc(Sa):\n"
        "  def go(s, v): log.append('c'); return super().go(v) - 1\n"
        "class Sd(Sb, Sc):\n"
        "  def go(s, v): return super().go(v) * __class__.w\n"
        "sd = Sd()",
        ["y = sd.go(y)", "y = super(Sb, sd).go(y)", "y = y + len(type(sd).__mro__)", "y = Sb.go(sd, y)"],
        ["Sa.w = 2.0", "sd.w = 3.0", "Sd.__bases__ = (Sc, Sb)", "Sc.go = lambda s, v: v", "sd.__class__ = Sb",
         "vars(sd).clear()"],
        "(type(sd).__name__, vars(sd))",
    ),
    "partial method": Feature(
        "class Pm:\n"
        "  w = 2.0\n"
        "  def go(s, v, a, b=1.0): return v * a + b * s.w\n"
        "  dbl = functools.partialmethod(go, 2.0)\n"
        "  @functools.singledispatchmethod\n"
        "  def sdm(s, v): return 1.0\n"
        "  @sdm.register\n"
        "  def _(s, v: int): return 2.0 + s.w\n"
        "pm = Pm(); pf = functools.partial(pm.go, a=3.0)",
        ["y = pm.dbl(y)", "y = pm.dbl(y, b=float(k))", "y = pf(y)", "y = y * pm.sdm(k) + pm.sdm('a')",
         "y = functools.partial(pf, b=2.0)(y)", "y = functools.reduce(lambda a, b: a * b, [y, pm.w, 2.0])"],
        ["Pm.w = 3.0", "pm.w = 1.0", "global pf; pf = functools.partial(pm.go, a=4.0)", "pf.keywords['a'] = 5.0",
         "vars(pm).clear()"],
        "(vars(pm), pf.keywords)",
    ),
    "total ordering": Feature(
        "@functools.total_ordering\n"
        "class To:\n"
        "  def __init__(s, v): s.v = v\n"
        "  def __eq__(s, o): return s.v == o.v\n"
        "  def __lt__(s, o): return s.v < o.v\n"
        "ta_, tb_ = To(1.0), To(2.0); tk = functools.cmp_to_key(lambda a, b: b - a)",
        ["y = y * 2 if ta_ >= tb_ else y + 1", "y = y + max([ta_, tb_]).v", "y = y + sorted([1, k, 3], key=tk)[0]",
         "y = y * min(ta_, tb_).v"],
        ["ta_.v = 3.0", "tb_.v = 1.0", "ta_.v = 1.0"],
        "(ta_.v, tb_.v)",
    ),
    "flags": Feature(
        "class Fl(enum.Flag):\n"
        "  A = enum.auto()\n"
        "  B = enum.auto()\n"
        "  C = A | B\n"
        "class Em(enum.IntEnum):\n"
        "  X = 1\n"
        "  Y = 2\n"
        "  @classmethod\n"
        "  def _missing_(c, v): log.append(v); return c.X\n"
        "fl = Fl.A",
        ["y = y * 2 if Fl.B in fl else y + 1", "y = y * Em(k if k < 3 else 7)", "y = y + len(list(Fl)) + fl.value",
         "y = y + Em['Y'] + (fl & Fl.C).value", "y = y + Em.X.value if fl else y"],
        ["global fl; fl = Fl.A | Fl.B", "global fl; fl = Fl(0)", "global fl; fl ^= Fl.B"],
        "fl.value",
    ),
    "bytes": Feature(
        "ba = bytearray(b'\\x01\\x02\\x03\\x04'); mv = memoryview(ba); ar = array.array('d', [1., 2.])",
        ["y = y * ba[0]", "ba[0] += 1; y = y + mv[0]", "y = y + struct.unpack_from('<H', ba)[0]",
         "mv[1:2] = bytes([k]); y = y + ba[1]", "y = y * ar[0] + sum(ar)", "ar[0] *= 2; y = y + ar[0]",
         "y = y + int.from_bytes(ba[:2], 'big')", "y = y + mv.cast('H')[0]"],
        ["ba[0] = 7", "mv[1] = 9", "ar[0] = 3.", "ar.reverse()"],
        "(ba, ar)",
    ),
    "numpy arrays": Feature(
        "na = np.array([1., 2., 3.], 'f4'); nt_ = gc.from_numpy(na); nr = np.zeros(2, [('a', 'f4'), ('b', 'i4')])",
        ["y = y * na[0]", "y = y + nt_", "na.__iadd__(1); y = y + nt_.sum()", "nt_.add_(1); y = y + float(na[1])",
         "y = y * gc.from_numpy(na)", "y = y + gc.tensor(na)", "y = y + float(nr['a'].sum())",
         "nr['b'][0] += 1; y = y + int(nr['b'][0])",
         "na[:] = y.detach().numpy() if y.ndim == 1 else na; y = y + nt_",
         "y = y + np.add(y.detach().numpy(), 1).sum().item()"],
        ["na[0] = 5.", "nt_.zero_()", "na *= 2", "nr['a'] = 1", "global na; na = na.copy()"],
        "(na.tolist(), nr.tolist())",
    ),
    "tensor state": Feature(
        "ts = {'h': gc.zeros(3), 'n': 0}; tl = [gc.ones(3)]; tw = gc.tensor([1., 2., 3.], requires_grad=True); tb = gc.zeros(3)",
        ["ts['h'] = ts['h'] * .5 + y.detach(); y = y + ts['h']", "tl.append(y.detach() * 2); y = y + sum(tl[-2:])",
         "tb.add_(1); y = y * tb", "y = y * tw", "ts['n'] += 1; y = y * ts['n']", "tw.grad = None; y = y * tw",
         "y = y + (tw.grad if tw.grad is not None else 0)", "tl[:] = tl[-2:]; y = y + len(tl)",
         "tw.data = tw.data * 1.1; y = y + tw", "setattr(tb, 'seen', getattr(tb, 'seen', 0) + 1); y = y * tb.seen",
         "with gc.no_grad(): tw.mul_(1.1)\ny = y * tw", "if tb.sum() > 6: y = y * 2", "y = y + tb.sum().item()"],
        ["ts['h'] = gc.ones(3)", "tl.clear(); tl.append(gc.ones(3))", "tb.zero_()", "tw.grad = None", "ts['n'] = 0",
         "tw.requires_grad_(not tw.requires_grad)", "global tb; tb = gc.ones(3)"],
        "(ts['n'], len(tl), tb.tolist(), ts['h'].tolist(), tw.tolist(), None if tw.grad is None else tw.grad.tolist())",
    ),
    "module state": Feature(
        "class Md(nn.Module):\n"
        "  def __init__(s): super().__init__(); gc.manual_seed(0); s.l = nn.Linear(3, 3); s.k = 0; s.register_buffer('b', gc.zeros(3)); s.hist = []\n"
        "  def forward(s, v): s.k += 1; s.b = s.b * .5 + v.detach(); s.hist.append(s.k); return s.l(v) * s.k + s.b\n"
        "  def extra_repr(s): return 'x' * s.k\n"
        "md = Md(); mr = []",
        ["y = md(y)", "y = y * len(md.extra_repr())", "md.b.zero_(); y = md(y)",
         "y = y + sum(p.sum() for p in md.parameters())", "y = y + len(md.state_dict())",
         "md.train(k == 1); y = y * (2 if md.training else 3)",
         "y = y + sum(n.count('.') for n, _ in md.named_parameters())", "for p in md.parameters(): p.grad = None",
         "y = md.l.forward(y)", "setattr(md, 'act', md.__dict__.get('act', 0) + 1); y = y * md.act",
         "y = y + len(list(md.modules()))"],
        ["md.k = 0", "md.l = nn.Linear(3, 3, bias=False)", "md.eval()",
         "mr.append(md.register_forward_hook(lambda m, i, o: o * 2))", "mr and mr.pop().remove()", "md.hist.clear()",
         "md.l.weight.data.mul_(2)", "md.add_module('q', nn.Tanh())", "md.register_buffer('z', gc.ones(1))",
         "Md.forward = lambda s, v: s.l(v) + 1"],
        "(md.k, md.hist, md.b.tolist(), md.l.weight.tolist())",
    ),
    "threads": Feature(
        "tloc = threading.local(); tloc.v = 2.0; lk = threading.Lock(); rlk = threading.RLock(); sem = [0]",
        ["y = y * tloc.v", "got = lk.acquire(timeout=0.001); sem[0] += got\nif got: lk.release()\ny = y + sem[0]",
         "tloc.v += 1; y = y + tloc.v", "with rlk, rlk: y = y * 2", "y = y * 2 if lk.locked() else y + 1",
         "tr = []; t = threading.Thread(target=lambda: tr.append(2.0)); t.start(); t.join(); y = y * tr[0]"],
        ["tloc.v = 1.0", "sem[0] = 0", "global tloc; tloc = threading.local(); tloc.v = 4.0", "lk.acquire(False)",
         "lk.locked() and lk.release()"],
        "(tloc.v, sem)",
    ),
    "copy": Feature(
        "class Cy:\n"
        "  n = 0\n"
        "  def __init__(s): s.v = [1.0]\n"
        "  def __copy__(s): Cy.n += 1; r = Cy(); r.v = s.v; return r\n"
        "  def __deepcopy__(s, memo): Cy.n += 10; r = Cy(); r.v = [*s.v, 2.0]; return r\n"
        "  def __reduce__(s): log.append('red'); return (Cy, ())\n"
        "cy = Cy(); cn = {'a': [1.0, {'b': gc.ones(3)}]}",
        ["y = y * sum(copy.copy(cy).v)", "y = y + sum(copy.deepcopy(cy).v) + Cy.n",
         "z = copy.deepcopy(cn); z['a'][1]['b'].add_(1); y = y + z['a'][1]['b']",
         "z = copy.copy(cn); z['a'][0] += 1; y = y * cn['a'][0]",
         "z = [*cn['a']]; z[0] = 5.0; y = y + z[0] + cn['a'][0]"],
        ["cy.v.append(2.0)", "cn['a'][0] = 3.0", "cn['a'][1]['b'].mul_(2)", "Cy.n = 0"],
        "(cy.v, cn['a'][0], Cy.n)",
    ),
    "globals dynamic": Feature(
        "gdn = 'gdv'; gdv = 2.0\n"
        "def gdf(): return globals()[gdn]",
        ["y = y * gdf()", "y = y + eval('gdv + k', globals(), {'k': k})",
         "exec('gde = gdv * 2', globals()); y = y + gde", "globals()['gdv'] += 1; y = y + gdv",
         "y = y + len([n for n in dir(sys.modules[__name__]) if n == gdn])", "y = y * locals().get('k', 1)"],
        ["global gdv; gdv = 5.0", "global gdn; gdn = 'gdo'; globals()['gdo'] = 3.0", "global gdn; gdn = 'gdv'"],
        "(gdn, gdv)",
    ),
    "loops else": Feature(
        "le = [1, 2, 3, 4]; lm = {'stop': 3}",
        ["for e in le:\n  if e == lm['stop']: break\n  y = y * e\nelse: y = y - 1",
         "n = 0\nwhile n < lm['stop']:\n  n += 1\n  if n == 2: continue\n  y = y + n\nelse: y = y * 2",
         "for i, (a, b) in enumerate(zip(le, le[1:])): y = y + a * b - i", "for e in reversed(le): y = y + e",
         "for e in le:\n  if e > 3: le.remove(e)\n  y = y + e",
         "while (lm['stop'] > 1) and not y.sum() > 100: y = y * 2 + 1; lm['stop'] -= 1"],
        ["lm['stop'] = 2", "lm['stop'] = 5", "le.append(5)", "le[:] = [1, 2]", "lm['stop'] = 3"],
        "(le, lm)",
    ),
    "closures in loops": Feature(
        "cl = [1.0, 2.0]\n"
        "fs_ = [lambda v, i=i: v * cl[i] for i in range(2)]; fl_ = []",
        ["for f in fs_: y = f(y)", "hs = [lambda v: v + e for e in cl]; y = hs[0](y)",
         "fl_.append(lambda v, kk=k: v + kk); y = fl_[-1](y)", "y = fl_[0](y) if fl_ else y",
         "def loc(v, *, w=cl[0]): return v * w\ny = loc(y)",
         "def make():\n  c = y * 2\n  def g(v):\n    nonlocal c\n    c = c + v\n    return c\n  return g\ng = make(); g(y); y = g(y)"],
        ["cl[0] = 3.0", "fs_.reverse()", "fl_.clear()", "cl.append(1.0)", "fs_.append(lambda v: v - 1)"],
        "(cl, len(fs_), len(fl_))",
    ),
    "class in function": Feature(
        "ci = {'w': 2.0}",
        ["class L:\n  w = ci['w'] * k\n  def go(s, v): return v * s.w\ny = L().go(y)",
         "@dataclasses.dataclass\nclass D:\n  v: float = ci['w']\ny = y * D().v",
         "T = type('T', (), {'w': property(lambda s: ci['w'])}); y = y + T().w",
         "E = enum.Enum('E', 'A B'); y = y * E.B.value", "N = collections.namedtuple('N', 'a b'); y = y + N(k, 2).a",
         "S = types.SimpleNamespace(a=y, b=ci['w']); y = S.a * S.b"],
        ["ci['w'] = 3.0", "ci['w'] = 1.0"],
        "ci",
    ),
    "strings": Feature(
        "sx = ['a,b', 'cc']; rx = re.compile(r'(\\w)(,?)')",
        ["y = y * len(sx[0].split(','))", "y = y + len(rx.findall(sx[0]))",
         "sx.append(sx[-1].upper()); y = y + len(sx)", "y = y * 2 if rx.match(sx[-1]).group(1).isupper() else y",
         "y = y + len(''.join(sx)) + ord(sx[0][0])",
         "y = y + len(rx.sub(lambda m: log.append(m.group()) or 'zz', sx[0]))",
         "y = y + sx[0].count('a') + len(sx[0].encode()) + len(sx[0] * k)",
         "y = y * int(str(k).zfill(3).replace('0', '') or 1)"],
        ["sx[0] = 'b'", "sx.pop() if len(sx) > 1 else 0", "global rx; rx = re.compile('.')", "sx[0] += ',d'"],
        "sx",
    ),
    "decimal fraction": Feature(
        "dc = decimal.Decimal('1.5'); import fractions; fr = fractions.Fraction(1, 3); cx = 1 + 2j",
        ["y = y * float(dc)", "y = y + float(fr * k)", "y = y * float(dc / 3)", "y = y * cx.real + abs(cx)",
         "y = y + float(round(dc, k)) + dc.adjusted()"],
        ["global dc; dc = decimal.Decimal(2)", "decimal.getcontext().prec = 3", "decimal.getcontext().prec = 28",
         "global cx; cx = 3j", "global fr; fr = fractions.Fraction(3, 4)"],
        "(dc, fr)",
    ),
    "warnings": Feature(
        "import warnings",
        ["with warnings.catch_warnings(record=True) as cw:\n  warnings.simplefilter('always'); warnings.warn('a'); log.append(len(cw))\ny = y + 1",
         "warnings.warn('u', UserWarning)"],
        [],
        "0",
    ),
    "identity": Feature(
        "ia = [1.0]; ib = ia; io_ = object()",
        ["y = y * 2 if ia is ib else y + 1", "y = y + (id(ia) == id(ib))", "y = y + len({id(ia), id(ib)})",
         "y = y * 3 if io_ in [ia, io_] else y", "y = y * 2 if type(ia) is list else y",
         "z = y; z += 1; y = z if z is y else -y"],
        ["global ib; ib = [1.0]", "global ia; ia = ib", "global io_; io_ = ia"],
        "0",
    ),
    "sys": Feature(
        "class St:\n"
        "  def write(s, t): log.append(t)\n"
        "  def flush(s): pass\n"
        "st_ = St()",
        ["print('k', k, file=st_)", "with contextlib.redirect_stdout(st_): print(k)",
         "y = y * (sys.getrefcount(st_) > 0)", "y = y + len(sys._getframe().f_code.co_name) * 0 + 1",
         "y = y * sys.maxsize.bit_length()", "y = y + (sys.exc_info()[0] is None)"],
        [],
        "0",
    ),
    "transforms": Feature(
        "tfw = gc.tensor([1., 2., 3.]); tfs = [2.0]",
        ["y = gc.func.grad(lambda v: (v * tfw * tfs[0]).sin().sum())(y.detach()) + y",
         "y = y + gc.vmap(lambda r: r * tfs[0])(tfw)",
         "y = y + gc.func.jvp(lambda v: v * tfs[0], (tfw,), (tfw,))[1]",
         "y = y + gc.func.jvp(lambda v: v.clone().mul_(v), (tfw,), (gc.ones(3),))[1]",
         "y = y + gc.func.hessian(lambda v: (v.relu() * tfs[0]).sin().sum())(y.detach()).sum(0)",
         "z = gc.ones(3, requires_grad=True); (z * tfs[0] * y.detach()).sum().backward(); y = y + z.grad"],
        ["tfs[0] = 3.0", "tfw.mul_(2)", "tfs[0] += 1"],
        "(tfs, tfw.tolist())",
    ),
}
# fmt: on
#: Statements of tensors alone.
STATEMENTS = [
    "y = y * 2",
    "y = y + 1",
    "y = y.sin()",
    "y = y.exp().clamp(max=9.0)",
    "y = y * y",
    "float(y.sum())",
    "if y.sum() > 0: y = y - 1",
    "y = y.reshape(-1)[:3].expand(3)",
    "y = F.softmax(y, -1)",
    "y = y.clone().mul_(1.5)",
    "log.append(k)",
    "y = y + x",
    "y = y.relu() + 1",
]  # fmt: skip
#: Functions around the statements.
SHAPES = {
    "function": "def f(x, k):\n  y = x * 1\n{body}  return {result}\n",
    "default": "def f(x, k=1, *, w=1.0):\n  y = x * w\n{body}  return {result}\n",
    "module": "class Layer(nn.Module):\n  def forward(self, x, k):\n    y = x * 1\n{deeper}    return {result}\nf = Layer()\n",
    "method": "class Owner:\n  s = 1.0\n  def go(self, x, k):\n    y = x * self.s\n{deeper}    return {result}\nf = Owner().go\n",
    "closure": "def make():\n  count = [0]\n  def f(x, k):\n    count[0] += 1\n    y = x * count[0]\n{deeper}    return {result}\n  return f\nf = make()\n",
    "helper": "def helper(x, y, k):\n{body}  return y\ndef f(x, k):\n  y = helper(x, x * 1, k)\n  return {result}\n",
    "decorated": "def wrap(g):\n  @functools.wraps(g)\n  def inner(*a, **q):\n    log.append('w'); return g(*a, **q)\n  return inner\n@wrap\ndef f(x, k):\n  y = x * 1\n{body}  return {result}\n",
    "inner": "def f(x, k):\n  y = x * 1\n  def inner(y):\n{deeper}    return y\n  y = inner(y)\n  return {result}\n",
    "generator": "def values(x, k):\n  y = x * 1\n{body}  yield y\ndef f(x, k):\n  for y in values(x, k): pass\n  return {result}\n",
}
RESULTS = ["y", "y", "y", "(y, y.sum())", "{'y': y, 'k': k}", "y.sum()", "(y, len(log))"]


class Call(NamedTuple):
    """A call of the function: the number of the change before it, its arguments, and whether backward follows."""

    change: int | None
    k: int
    requires_grad: bool
    is_matrix: bool
    backward: bool


class Program(NamedTuple):
    """The source of a module with a function `f`, the options of `compile`, and the calls."""

    source: str
    options: dict[str, Any]
    calls: list[Call]


def draw(seed: int) -> Program:
    """Draw features, a function, options and eleven calls."""
    chance = random.Random(seed)
    names = chance.sample([*FEATURES], chance.randint(1, 3))
    features = [FEATURES[name] for name in names]
    body = _draw_block(chance, features, 0)
    shape = chance.choice(["function"] * 4 + [*SHAPES])
    deeper = "".join(f"  {line}\n" for line in body.splitlines())
    text = SHAPES[shape].replace("{body}", body).replace("{deeper}", deeper)
    text = text.replace("{result}", chance.choice(RESULTS))
    source = PRELUDE + "".join(f"{each.setup}\n" for each in features) + text
    changes = [*(change for each in features for change in each.changes), "log.clear()"]
    source += "".join(f"def change{i}():\n  {change}\n" for i, change in enumerate(changes))
    observed = ", ".join(f"repr({each.observed})" for each in features)
    source += f"def observe():\n  return [{observed}, *map(repr, log)]\n"
    options = chance.choice([{}, {}, {}, {"dynamic": True}, {"verify": 1}])
    usual = chance.choice([1, 1, 2])
    calls = []
    for i in range(11):
        change = None if i < 3 or chance.random() < 0.5 else chance.randrange(len(changes))
        k = usual if i < 4 or chance.random() < 0.7 else chance.choice([1, 2, 3])
        is_matrix = i > 2 and chance.random() < 0.25
        calls.append(Call(change, k, chance.random() < 0.5, is_matrix, chance.random() < 0.6))
    return Program(source, options, calls)


def _draw_block(chance: random.Random, features: list[Feature], depth: int) -> str:
    """Draw statements, some within loops, branches, `try` and `with`."""
    text = ""
    for _ in range(chance.randint(1, 4) if depth else chance.randint(2, 5)):
        statements = chance.choice(features).statements if chance.random() < 0.72 else STATEMENTS
        statement, kind = chance.choice(statements), chance.random()
        if kind < 0.72 or depth > 1:
            text += _indent(statement, depth + 1)
        elif kind < 0.78:
            text += _indent("for _i in range(2):", depth + 1) + _indent(statement, depth + 2)
        elif kind < 0.83:
            text += _indent("if k > 1:", depth + 1) + _indent(statement, depth + 2)
            text += _indent("else: y = y * 1.25", depth + 1)
        elif kind < 0.88:
            text += _indent("try:", depth + 1) + _draw_block(chance, features, depth + 1)
            text += _indent("finally: log.append('f')", depth + 1)
        elif kind < 0.92:
            text += _indent("try:", depth + 1) + _indent(statement, depth + 2)
            text += _indent("except Exception as err: y = y + len(type(err).__name__)", depth + 1)
        elif kind < 0.95:
            text += _indent("with gc.no_grad():", depth + 1) + _indent(statement, depth + 2)
        elif kind < 0.97:
            text += _indent("if k == 3: return y * 7", depth + 1)
        else:
            text += _indent("if y.sum() > 2:", depth + 1) + _draw_block(chance, features, depth + 1)
    return text


def _indent(statement: str, depth: int) -> str:
    return "".join(f"{'  ' * depth}{line}\n" for line in statement.split("\n"))


def check(program: Program, cpp: Any = False) -> str:
    """Compare a program, compiled, with itself; return a description of the first difference, or an empty text.

    Python's collector is off meanwhile: when it runs depends on all that is allocated.
    """
    was_enabled = collector.isenabled()
    collector.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _compare(program, cpp)
    finally:
        if was_enabled:
            collector.enable()
        sys.modules.pop(_NAME, None)


_NAME = "statement_program"


def _compare(program: Program, cpp: Any) -> str:
    expected = _run(program, None)
    found = _run(program, cpp)
    for number, (a, b) in enumerate(zip(expected, found, strict=True)):
        if not _is_equal(a, b):
            # A function that differs from itself says nothing about `compile`.
            return "" if not _is_equal(expected, _run(program, None)) else f"call {number}: {b} instead of {a}"
    return ""


def _run(program: Program, cpp: Any) -> list[list[Any]]:
    """Execute a module and call its function, which is compiled unless `cpp` is None; return what a caller sees."""
    gc.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    decimal.getcontext().prec = 28
    module = types.ModuleType(_NAME)
    module.__file__ = f"/nowhere/{_NAME}.py"
    linecache.cache[module.__file__] = len(program.source), None, program.source.splitlines(True), module.__file__
    sys.modules[_NAME] = module
    exec(compile(program.source, module.__file__, "exec"), vars(module))
    namespace = vars(module)
    if cpp is not None:
        namespace["f"] = gc.compile(namespace["f"], options={"cpp": cpp}, **program.options)
    context = contextvars.Context()
    return [context.run(_call, namespace, i, call) for i, call in enumerate(program.calls)]


def _call(namespace: dict[str, Any], number: int, call: Call) -> list[Any]:
    """Make a call, and return its results and the state after it."""
    seen: list[Any] = []
    if call.change is not None:
        try:
            namespace[f"change{call.change}"]()
        except Exception as error:
            seen.append(type(error).__name__)
    values: Any = [[0.5, -1.0, 2.0], [1.0, 0.25, 0.75]] if call.is_matrix else [0.5 + number % 2, -1.0, 2.0]
    x = gc.tensor(values, requires_grad=call.requires_grad)
    try:
        results = [*_leaves(namespace["f"](x, call.k))]
        seen += map(_describe, results)
        differentiable = [t for t in results if isinstance(t, gc.Tensor) and t.requires_grad]
        if call.backward and differentiable:
            sum((t * t).sum() for t in differentiable).backward()  # type: ignore[union-attr]
            seen.append(_describe(x.grad))
    except Exception as error:
        seen.append(_without_addresses(f"{type(error).__name__}: {error}"[:80]))
    del x
    results = differentiable = []
    try:
        return [*seen, *map(_without_addresses, namespace["observe"]())]
    except Exception as error:
        return [*seen, type(error).__name__]


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)
    else:
        yield value


def _describe(value: Any) -> Any:
    """Return what can be compared of a result."""
    if not isinstance(value, gc.Tensor):
        return _without_addresses(repr(value))
    return f"{value.dtype} {value.requires_grad} {value.is_leaf}", value.detach().numpy().copy()


def _without_addresses(text: str) -> str:
    return re.sub("0x[0-9a-f]+", "0x", text)


_NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")


def _is_equal(a: Any, b: Any) -> bool:
    """Compare what calls return; numbers up to rounding."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_is_equal, a, b))
    if isinstance(a, tuple) and isinstance(b, tuple):
        is_alike = a[0] == b[0] and a[1].shape == b[1].shape
        return is_alike and np.allclose(a[1], b[1], rtol=2e-4, atol=1e-5, equal_nan=True)
    if type(a) is not type(b) or _NUMBER.sub("", a) != _NUMBER.sub("", b):
        return False
    numbers = [[*map(float, _NUMBER.findall(text))] for text in (a, b)]
    return np.allclose(*numbers, rtol=1e-3, atol=1e-5)


def main() -> None:
    """Draw programs and print the differences."""
    options = parse_options()
    outcomes = collections.Counter[str]()
    for seed in range(options.first, options.first + options.count):
        program = draw(seed)
        difference = check(program, "wait" if options.wait else False)
        outcomes["different" if difference else "equal"] += 1
        if difference:
            print(seed, program.source[len(PRELUDE) :], program.options, difference, sep="\n   ", flush=True)
    print(outcomes)


if __name__ == "__main__":
    main()
