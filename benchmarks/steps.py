"""What one operation and one node cost, step by step: ``python -m benchmarks.steps``.

The function that gradcore writes for a product (`gradcore.dispatch.fast_path`) is cut after each of its steps, and
what is left is timed: the difference of two neighbours is what a step costs. A last table has calls and nodes of
several operations, beside PyTorch's where that is installed. Times are the smallest of many short runs, all in turns,
on arrays of 16 numbers, where arithmetic costs little.
"""

from __future__ import annotations

import gc as collector
import importlib
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gradcore
from gradcore.autograd.derivatives import PLANS
from gradcore.autograd.engine import run_backward
from gradcore.autograd.modes import local
from gradcore.dispatch import apply
from gradcore.dispatch.fast_path import globals_of, source_of
from gradcore.ops.declare.table import OPS

#: The steps, by the beginning of the first line that does not belong to them any more.
STEPS = (
    ("the call of an empty function", "state = "),
    ("the mode, and whether the first argument is a tensor", "device, dtype"),
    ("its dtype and device, and whether the second is alike", "x1 = "),
    ("the kernel: `numpy.multiply`", "if type(array)"),
    ("the tensor of the result", "e0 = "),
    ("where gradients go, and whether to record", "node = "),
    ("the node: class, device, edges, number", "node.saved = "),
    ("what it saves, and whether shapes differ", "return out"),
)
NODES = 200


def smallest(functions: dict[str, Callable[[], Any]], rounds: int = 200, calls: int = 500) -> dict[str, float]:
    """Return the smallest time of a call of each function, in nanoseconds. The functions are called in turns."""
    best = dict.fromkeys(functions, float("inf"))
    collector.disable()
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.perf_counter()
            for _ in range(calls):
                function()
            best[name] = min(best[name], (time.perf_counter() - start) / calls)
    collector.enable()
    return {name: seconds * 1e9 for name, seconds in best.items()}


def cut_calls(x: Any, y: Any) -> dict[str, Callable[[], Any]]:
    """Return functions that each run the generated code of ``x * y`` up to the end of one step."""
    op = OPS["mul"]
    lines, calls = source_of(op), {}
    for label, following in STEPS:
        end = next(i for i, line in enumerate(lines) if line.startswith(following))
        scope: dict[str, Any] = globals_of(op, apply)
        exec("\n    ".join(["def call(a0, a1):", *lines[:end], "return"]), scope)
        call = scope["call"]
        calls[label] = lambda call=call: call(x, y)
    return calls


def chain(x: Any, factor: Any) -> Any:
    """Multiply `x` by `factor` `NODES` times, and return the last product."""
    for _ in range(NODES):
        x = x * factor
    return x


def run_nodes(lib: Any, step: Callable[[Any], Any], start: Any) -> Callable[[], Any]:
    """Return a function that runs backward through `NODES` nodes, to a leaf without a gradient as in training."""
    out = start
    for _ in range(NODES):
        out = step(out)
    ones = lib.ones(*out.shape)

    def run() -> None:
        start.grad = None
        out.backward(ones, retain_graph=True)

    return run


def operations(lib: Any) -> tuple[dict[str, Callable[[], Any]], dict[str, Callable[[], Any]]]:
    """Return calls of recorded operations, and backward passes through chains of them."""
    values = lib.linspace(0.5, 1.0, 16)
    leaf, square = values.clone().requires_grad_(), values.clone().view(4, 4).requires_grad_()
    x, y, a, b = leaf * 1.0, leaf * 1.0, square * 1.0, square * 1.0
    factor = values.view(4, 4) / 4
    calls = {
        "`x * y`": lambda: x * y,
        "`x.exp()`": lambda: x.exp(),
        "`x.sum()`": lambda: x.sum(),
        "`x.view(4, 4)`": lambda: x.view(4, 4),
        "`cat([x, y])`": lambda: lib.cat([x, y]),
        "`a @ b`, 4 x 4": lambda: a @ b,
    }
    nodes = {
        "`x + c`": run_nodes(lib, lambda x: x + values, leaf),
        "`x * c`": run_nodes(lib, lambda x: x * values, leaf),
        "`x * x`": run_nodes(lib, lambda x: x * x, leaf),
        "`x.tanh()`": run_nodes(lib, lambda x: x.tanh(), leaf),
        "`x.view(16)`": run_nodes(lib, lambda x: x.view(16), leaf),
        "`a @ c`, 4 x 4": run_nodes(lib, lambda a: a @ factor, square),
    }
    return calls, nodes


def print_operations() -> None:
    """Print what calls and nodes take in gradcore and, where it is installed, in PyTorch."""
    libraries = {"gradcore": gradcore}
    if importlib.util.find_spec("torch"):
        libraries["PyTorch"] = torch = importlib.import_module("torch")
        torch.set_num_threads(1)
    made = {name: operations(lib) for name, lib in libraries.items()}
    for kind, title, calls, each in ((0, "calls, recorded", 200, 1), (1, "nodes of backward", 3, NODES)):
        labels = list(made["gradcore"][kind])
        times = smallest({f"{lib} {label}": made[lib][kind][label] for label in labels for lib in made}, 100, calls)
        print(f"\n{title} (ns): {', '.join(made)}")
        for label in labels:
            print("".join(f"{times[f'{lib} {label}'] / each:8.0f}" for lib in made), f" {label}")


def main() -> None:
    """Print the tables."""
    values = gradcore.linspace(0.5, 1.0, 16)
    leaf = values.clone().requires_grad_()
    x, y = leaf * 1.0, values.clone().requires_grad_() * 1.0
    x * y  # from the second call on, the function is its own
    a, b = x.numpy(force=True), y.numpy(force=True)
    times = smallest({
        "nothing": lambda: None, **cut_calls(x, y), "whole": lambda: x * y, "unrecorded": lambda: values * values,
        "multiply": lambda: np.multiply(a, b),
    })  # fmt: skip
    before = times["nothing"]
    print("one operation: `x * y`, recorded (ns)")
    for label, _ in STEPS:
        print(f"{times[label] - before:8.0f}  {label}")
        before = times[label]
    print(f"{times['whole'] - before:8.0f}  Python's operator, the function's return")
    print(f"{times['whole'] - times['nothing']:8.0f}  together")
    print(f"{times['unrecorded'] - times['nothing']:8.0f}  the same where nothing requires grad")
    print(f"{times['multiply'] - times['nothing']:8.0f}  of it `numpy.multiply`")

    root = chain(x, values)
    node, grad, backend = root.grad_fn, a, x.device.backend
    formula = PLANS["arrays"][type(node)][0][0]
    run, ones = local.state.run, gradcore.ones(16)
    times = smallest({
        "multiply": lambda: np.multiply(a, b),
        "formula": lambda: run(formula, backend, grad, node),
        "nothing": lambda: None,
    })  # fmt: skip

    def backward(start: Any) -> None:
        leaf.grad = None
        run_backward([(start, 0, ones)], retain_graph=True, create_graph=False)

    whole = smallest({"chain": lambda: backward(node), "leaf": lambda: backward(x.grad_fn)}, calls=5)
    each = (whole["chain"] - whole["leaf"]) / NODES
    multiply, call = (times[name] - times["nothing"] for name in ("multiply", "formula"))
    print(f"\none node: backward of `x * y` where one of them requires grad (ns), in a chain of {NODES}")
    print(f"{multiply:8.0f}  the formula's arithmetic: `numpy.multiply`")
    print(f"{call - multiply:8.0f}  the formula's call: saved values, namespace, context")
    print(f"{each - call:8.0f}  the loop: order, checks, where the gradient goes")
    print(f"{each:8.0f}  together")
    print(f"{whole['leaf']:8.0f}  a backward call with one node and one leaf")
    print_operations()


if __name__ == "__main__":
    main()
