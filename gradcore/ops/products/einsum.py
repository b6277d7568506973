"""Einstein summation: parsing, and the sequence of contractions of two tensors."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from math import prod
from typing import Any

from gradcore.ops.declare.annotations import Labels
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import composite

#: An operand and the labels of its dims.
Term = tuple[Any, Labels]

#: The first label of dims that an ellipsis covers. Letters have the labels from 0: A-Z, a-z.
_ELLIPSIS = 52


def _letter(label: int) -> str:
    return chr(ord("A") + label) if label < 26 else chr(ord("a") + label - 26)


def _label(letter: str) -> int:
    return ord(letter) - ord("A") if letter < "a" else ord(letter) - ord("a") + 26


# -- equations --------------------------------------------------------------------------------------------------------


def _subscripts(text: str, start: int, operand: str) -> list[int]:
    """Return the labels of one operand or of the output: numbers for letters, and -1 for an ellipsis."""
    labels: list[int] = []
    i = 0
    while i < len(text):
        letter = text[i]
        if letter == ".":
            if text[i : i + 3] != "...":
                rest = "that is not part of any ellipsis" + (" (...)" if operand == "output" else "")
                raise RuntimeError(f"einsum(): found '.' for {operand} {rest}")
            if -1 in labels:
                raise RuntimeError(f"einsum(): found '.' for {operand} for which an ellipsis was already found")
            labels.append(-1)
            i += 3
            continue
        if not (letter.isascii() and letter.isalpha()):
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {start + i} in the equation string, subscripts must be in "
                "[a-zA-Z]"
            )
        labels.append(_label(letter))
        i += 1
    return labels


def _parse_equation(equation: str) -> tuple[list[list[int]], list[int] | None]:
    """Return the labels of each operand, and those of the output or None."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    operands, start = [], 0
    for number, part in enumerate(left.split(",")):
        operands.append(_subscripts(part, start, f"operand {number}"))
        start += len(part) + 1
    return operands, _subscripts(right, len(left) + 2, "output") if arrow else None


def _from_sublists(args: Sequence[Any]) -> tuple[list[Any], list[list[int]], list[int] | None]:
    """Return operands and labels of the form ``einsum(a, [0, 1], b, [1, 2], [0, 2])``."""

    def labels(sublist: Sequence[Any]) -> list[int]:
        sublist = [label if label is Ellipsis else operator.index(label) for label in sublist]
        for label in sublist:
            if label is not Ellipsis and not 0 <= label < _ELLIPSIS:
                raise ValueError(
                    f"einsum(): subscript in subscript list is not within the valid range [0, {_ELLIPSIS})"
                )
        return [-1 if label is Ellipsis else label for label in sublist]

    pairs = len(args) // 2
    operands, lists = list(args[: 2 * pairs : 2]), [labels(each) for each in args[1 : 2 * pairs : 2]]
    return operands, lists, labels(args[-1]) if len(args) % 2 else None


@functools.lru_cache(maxsize=512)
def _resolve_ellipses(
    operands: tuple[Labels, ...], output: Labels | None, ndims: tuple[int, ...]
) -> tuple[list[Labels], Labels]:
    """Return the labels of operands and output with labels of dims in place of ellipses."""
    if len(operands) != len(ndims):
        problem = (
            "fewer operands were provided than" if len(operands) > len(ndims) else "more operands were provided than"
        )
        raise RuntimeError(f"einsum(): {problem} specified in the equation")
    ellipsis_sizes = []
    for number, (labels, ndim) in enumerate(zip(operands, ndims, strict=True)):
        count = len(labels) - (-1 in labels)
        if count > ndim if -1 in labels else count != ndim:
            relation = "is more than" if -1 in labels else "does not match"
            suffix = "" if -1 in labels else " and no ellipsis was given"
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({count}) {relation} the number of dimensions "
                f"({ndim}) for operand {number}{suffix}"
            )
        ellipsis_sizes.append(ndim - count)
    longest = max((n for n, labels in zip(ellipsis_sizes, operands, strict=True) if -1 in labels), default=0)
    ellipsis_labels = tuple(range(_ELLIPSIS, _ELLIPSIS + longest))

    def fill_ellipsis(labels: Labels, n: int) -> Labels:
        if -1 not in labels:
            return labels
        i = labels.index(-1)
        return (*labels[:i], *ellipsis_labels[longest - n :], *labels[i + 1 :])

    inputs = [fill_ellipsis(labels, n) for labels, n in zip(operands, ellipsis_sizes, strict=True)]
    seen = [label for labels in inputs for label in labels]
    if output is None:
        return inputs, (
            *ellipsis_labels,
            *sorted(label for label in set(seen) if label < _ELLIPSIS and seen.count(label) == 1),
        )
    for i, label in enumerate(output):
        if label in output[:i]:
            raise RuntimeError(f"einsum(): output subscript {_letter(label)} appears more than once in the output")
        if label != -1 and label not in seen:
            raise RuntimeError(
                f"einsum(): output subscript {_letter(label)} does not appear in the equation for any input operand"
            )
    return inputs, fill_ellipsis(output, longest)


def _sizes(inputs: Sequence[Labels], shapes: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return the size of every label; size 1 broadcasts."""
    sizes: dict[int, int] = {}
    for number, (labels, shape) in enumerate(zip(inputs, shapes, strict=True)):
        label_sizes: dict[int, int] = {}
        for dim, (label, n) in enumerate(zip(labels, shape, strict=True)):
            if label_sizes.setdefault(label, n) != n:
                raise RuntimeError(
                    f"einsum(): subscript {_letter(label)} is repeated for operand {number} but the sizes don't match, "
                    f"{n} != {label_sizes[label]}"
                )
            previous = sizes.get(label, 1)
            if n != previous and 1 not in (n, previous):
                if label >= _ELLIPSIS:
                    raise RuntimeError(
                        f"einsum(): dimension {dim} covered by ellipsis in operand {number} has size {n} which does "
                        f"not broadcast with previously seen ellipsis with size {previous} for the respective dimension"
                    )
                raise RuntimeError(
                    f"einsum(): subscript {_letter(label)} has size {n} for operand {number} which does not broadcast "
                    f"with previously seen size {previous}"
                )
            sizes[label] = n if previous == 1 else previous
    return sizes


# -- contraction ------------------------------------------------------------------------------------------------------


def _distinct(F: Any, x: Any, labels: Labels, sizes: dict[int, int]) -> Term:
    """Return an operand in which every label occurs once, without the dims of size 1 that broadcast."""
    while len(set(labels)) < len(labels):
        label = next(each for each in labels if labels.count(each) > 1)
        first = labels.index(label)
        second = labels.index(label, first + 1)
        x = F.diagonal(x, 0, first, second)
        labels = (*labels[:first], *labels[first + 1 : second], *labels[second + 1 :], label)
    single = [i for i, label in enumerate(labels) if x.shape[i] == 1 != sizes[label]]
    if single:
        x = F.squeeze(x, tuple(single))
        labels = tuple(label for i, label in enumerate(labels) if i not in single)
    return x, labels


def _sum_out(F: Any, x: Any, labels: Labels, kept_labels: set[int]) -> Term:
    """Return an operand summed over the labels that are not in `kept_labels`."""
    unwanted = [i for i, label in enumerate(labels) if label not in kept_labels]
    if unwanted:
        x = F.sum(x, tuple(unwanted))
        labels = tuple(label for label in labels if label in kept_labels)
    return x, labels


def _cheapest_pair(terms: Sequence[Term], sizes: dict[int, int], output: Labels) -> tuple[int, int]:
    """Return the positions of two terms whose product is smallest compared with the terms themselves."""
    best, result = None, (0, 1)
    for i in range(len(terms)):
        for j in range(i + 1, len(terms)):
            a, b = set(terms[i][1]), set(terms[j][1])
            remaining = (a | b) & _labels_needed_later(terms, i, j, output)
            cost = prod(sizes[label] for label in remaining) - sum(
                prod(sizes[label] for label in each) for each in (a, b)
            )
            if best is None or cost < best:
                best, result = cost, (i, j)
    return result


def _labels_needed_later(terms: Sequence[Term], i: int, j: int, output: Labels) -> set[int]:
    """Return the labels that the output or the terms other than `i` and `j` have."""
    return set(output).union(*(labels for k, (_, labels) in enumerate(terms) if k not in (i, j)))


def _contract_all(F: Any, terms: list[Term], sizes: dict[int, int], output: Labels) -> Term:
    while len(terms) > 1:
        i, j = (0, 1) if len(terms) == 2 else _cheapest_pair(terms, sizes, output)
        (a, of_a), (b, of_b) = terms[i], terms[j]
        remaining = _labels_needed_later(terms, i, j, output)
        out = (
            output if len(terms) == 2 else tuple(label for label in dict.fromkeys((*of_a, *of_b)) if label in remaining)
        )
        rest = [term for k, term in enumerate(terms) if k not in (i, j)]
        terms = [*rest, (F.contract(a, b, of_a, of_b, out), out)]
    return terms[0]


@composite(method=False, samples=lambda: [
    case("ij,jk->ik", floats(2, 3), floats(3, 4)), case("ij->ji", floats(2, 3)), case("ii->i", floats(3, 3)),
    case("ii", floats(3, 3)),
    case("bij,bjk->bik", floats(2, 3, 4), floats(2, 4, 2)), case("i,j->ij", floats(2), floats(3)),
    case("ij", floats(2, 3)),
    case("...ij,...jk->...ik", floats(2, 1, 2, 3), floats(4, 3, 2)),
    case("ij,jk,kl->il", floats(2, 3), floats(3, 4), floats(4, 2)),
    case("bn,anm,bm->ba", floats(2, 3), floats(5, 3, 4), floats(2, 4)), case("ij,j->", floats(2, 3), floats(3)),
    case("i,i->i", floats(3), floats(1)), case("ijk,ilm->jlmk", floats(2, 3, 4), floats(2, 2, 3)),
], autocast="lower:cuda")  # fmt: skip
def einsum(F, *args):
    """Compute sums of products of elements in Einstein's notation.

    Parameters
    ----------
    equation : str
        A letter for every dim of every operand, and after ``->`` those of the result; ``...`` are dims that broadcast.
        Without an arrow the letters that appear once are those of the result, in alphabetical order.
    *operands : Tensor
        Instead of an equation, each operand may be followed by a list of numbers (and Ellipsis) for its dims, and the
        last of them by a list for the result.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import gradcore
    >>> a, b = gradcore.ones(2, 3), gradcore.ones(3, 2)
    >>> gradcore.einsum("ij,jk->ik", a, b)
    tensor([[3., 3.],
            [3., 3.]])
    """
    if not args or (isinstance(args[0], str) and len(args) < 2):
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
            "subscripts list"
        )
    if isinstance(args[0], str):
        operands = list(args[1]) if isinstance(args[1], list | tuple) else list(args[1:])
        lists, output = _parse_equation(args[0])
    elif not hasattr(args[0], "ndim"):
        raise TypeError(f"einsum(): argument 'equation' (position 1) must be str, not {type(args[0]).__name__}")
    else:
        operands, lists, output = _from_sublists(args)
    for i, x in enumerate(operands):
        if not F.is_tensor(x):
            raise TypeError(f"expected Tensor as element {i} in argument 1, but got {type(x).__name__}")
    inputs, out = _resolve_ellipses(
        tuple(map(tuple, lists)), None if output is None else tuple(output), tuple(x.ndim for x in operands)
    )
    sizes = _sizes(inputs, [x.shape for x in operands])
    terms = [_distinct(F, x, labels, sizes) for x, labels in zip(operands, inputs, strict=True)]
    terms = [_sum_out(F, *term, _labels_needed_later(terms, i, i, out)) for i, term in enumerate(terms)]
    result, labels = _contract_all(F, terms, sizes, out)
    return result if labels == out else F.permute(result, tuple(map(labels.index, out)))
