"""Where nodes were recorded and with what: kept while anomaly detection is on, made into text when it is asked for."""

from __future__ import annotations

import linecache
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType, FrameType
from typing import Any

import numpy as np

from gradcore.autograd.modes import local
from gradcore.autograd.variables import Variable
from gradcore.backends.vmap import all_samples

__all__ = ["Origin", "explain_failure", "first_not_finite", "is_finite", "origin_of"]


class Origin(Sequence[str]):
    """What is known of the call that recorded a node; as a sequence, the lines of the traceback of that call.

    Attributes
    ----------
    parent : Node or None
        The node during whose backward this one was recorded.
    inputs, outputs : tuple
        Shape and dtype of each tensor.
    finite : object
        Whether the outputs had neither infinities nor nan: a bool or, on another device, their sum.
    suspects : tuple of int
        If they had: which of the inputs had, too.
    """

    __slots__ = ("finite", "inputs", "outputs", "parent", "places", "suspects")

    def __init__(self, frame: FrameType | None, parent: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        places: list[Any] = []
        while frame is not None:
            places += frame.f_code, frame.f_lasti
            frame = frame.f_back
        self.places = places
        self.parent = parent
        self.inputs, self.outputs = _kinds(inputs), _kinds(outputs)
        self.finite: Any = True
        self.suspects: tuple[int, ...] = ()
        for t in outputs:
            finite = _finite_later(t)
            if finite is not True:
                self.finite = finite
                if finite is False:
                    self.suspects = tuple(i for i, t in enumerate(inputs) if _finite_later(t) is False)
                break

    def __iter__(self) -> Iterator[str]:
        """Lines as those of a traceback, the outermost call first."""
        for i in range(len(self.places) - 2, -1, -2):
            code, line, text = self.line(i)
            yield f'  File "{code.co_filename}", line {line}, in {code.co_name}\n' + (f"    {text}\n" if text else "")

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]

    def __len__(self) -> int:
        return len(self.places) // 2

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, (Origin, list)) else NotImplemented

    def __repr__(self) -> str:
        return repr(list(self))

    def __str__(self) -> str:
        return "".join(self)

    def line(self, i: int = 0) -> tuple[CodeType, int, str]:
        """The code, the number and the text of a line: by default the user's line that recorded the node."""
        code, place = self.places[i], self.places[i + 1]
        line = next((n for start, end, n in code.co_lines() if start <= place < end and n), code.co_firstlineno)
        return code, line, linecache.getline(code.co_filename, line).strip()

    @property
    def was_finite(self) -> bool:
        """Whether the outputs were finite."""
        return self.finite if isinstance(self.finite, bool) else math.isfinite(float(self.finite))


#: What the file names of gradcore's own code begin with, also of code that is made when a function is first called.
_OWN = (os.path.dirname(os.path.dirname(__file__)), "<gradcore")


def users_frame() -> FrameType | None:
    """The innermost frame outside of gradcore."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return frame


def _kinds(tensors: Iterable[Any]) -> tuple[Any, ...]:
    return tuple([(t._array.shape, t._dtype) for t in tensors if isinstance(t, Variable)])


def _finite_later(t: Any) -> Any:
    """Whether a tensor's elements are finite: on the CPU a bool, elsewhere their sum, for which nobody has to wait."""
    if not isinstance(t, Variable) or t._dtype.category < 2:
        return True
    array = all_samples(t._array)
    if array.__class__ is np.ndarray:
        return is_finite(array)
    return array.real.sum() if t._device.type == "cuda" else True


def is_finite(array: Any) -> bool:
    """Whether an array has neither infinities nor nan; one pass without a temporary array where it has not."""
    kind = array.dtype.kind
    if kind == "f":
        total = array.item() if array.size == 1 else local.state.run(array.sum)
        if math.isfinite(total):
            return True
    elif kind not in "cV":
        return True
    return bool(local.state.run(_exactly_finite, array))


def _exactly_finite(array: Any) -> Any:
    return (array - array == 0).all()


def origin_of(node: Any) -> Origin | None:
    """What was noted when a node was recorded, or None."""
    found = node.metadata.get("traceback_")
    return found if isinstance(found, Origin) else None


# -- text -------------------------------------------------------------------------------------------------------------


def first_not_finite(nodes: Iterable[Any]) -> Any:
    """The earliest of the nodes behind `nodes` (and of these) whose result was not finite, or None."""
    seen = set(nodes)
    stack = list(seen)
    found = None
    while stack:
        node = stack.pop()
        origin = origin_of(node)
        if origin is not None and not origin.was_finite and (found is None or node._seq < found._seq):
            found = node
        for edge in node._edges:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                stack.append(edge[0])
    return found


def describe(node: Any) -> list[str]:
    """Lines about the call that recorded a node."""
    origin = origin_of(node)
    if origin is None:
        return [f"{type(node).__name__}, recorded where anomaly detection was off"]
    code, line, text = origin.line() if origin.places else (None, 0, "")
    where = "" if code is None else f", recorded at {code.co_filename}:{line} in {code.co_name}"
    shapes = [
        ", ".join(f"{dtype.name}{list(shape)}" for shape, dtype in each) for each in (origin.inputs, origin.outputs)
    ]
    lines = [f"{type(node).__name__}{where}", *([f"    {text}"] if text else [])]
    if shapes[0] or shapes[1]:
        lines.append(f"  ({shapes[0]}) -> ({shapes[1]})")
    return lines


def _what(array: Any) -> str:
    """How many elements of an array are not finite, and where the first of them is."""
    array = getattr(array, "_array", array)
    host = np.asarray(array.get() if hasattr(array, "get") else array)
    bad = ~local.state.run(lambda: host - host == 0)
    place = tuple(int(i) for i in np.argwhere(bad)[0]) if host.ndim else ()
    value = host[place]
    count = int(bad.sum())
    return f"{value} at index {place}" + (f", and {count - 1} more elements are not finite" if count > 1 else "")


def explain_forward(node: Any) -> list[str]:
    """Lines about the first result that was not finite."""
    origin = origin_of(node)
    lines = ["The first value that was not finite is the result of", *describe(node)]
    if origin is not None and origin.suspects:
        which = ", ".join(map(str, origin.suspects))
        lines.append(f"  whose input {which} was not finite: it was made before, or is not recorded.")
    elif origin is not None and origin.inputs:
        lines.append("  whose inputs were finite.")
    return lines


def explain_failure(node: Any, i: int, grad: Any, piece: Any, first_infinite: Any) -> str:
    """Why backward of `node` gave nan for its edge `i`: what arrived, and what was not finite before."""
    lines = [*describe(node), f"  The gradient for input {i} is {_what(piece)}."]
    arrived = [g for g in (grad if type(grad) is list else [grad]) if g is not None]
    bad = [g for g in arrived if not is_finite(getattr(g, "_array", g))]
    if bad:
        lines.append(f"  The gradient that arrived was not finite either: {_what(bad[0])}.")
    else:
        lines.append("  The gradient that arrived was finite: the derivative itself is not, at these inputs.")
    if first_infinite is not None and first_infinite[0] is not node:
        lines += [f"The first gradient that was not finite is that for input {first_infinite[1]} of"]
        lines += describe(first_infinite[0])
    culprit = first_not_finite([node])
    if culprit is not None:
        lines += explain_forward(culprit)
    else:
        lines.append("All values that were recorded before were finite.")
    return "\n".join(lines)
