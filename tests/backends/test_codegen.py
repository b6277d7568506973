"""The intermediate representation of generated kernels, its passes, and its three writers on the same formula."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcore.backends.base import Backend
from gradcore.backends.codegen import emit_cpp, emit_cuda, emit_numpy
from gradcore.backends.codegen.expr import Expr, ExprGraph, MutableExpr, NotFusible, as_output, unwrap
from gradcore.backends.codegen.optimizer import OptimizerKernel, OptimizerKernels, trace_optimizer
from gradcore.backends.codegen.scalars import ScalarParameter, symbolic
from gradcore.backends.codegen.schedule import Input, Kernel, assign_buffers, topological_order
from gradcore.backends.codegen.trace import Tracer, trace
from gradcore.backends.numpy import bits
from tests.backends.test_tiles import numbers, same_bits

F4, F8 = np.dtype("f4"), np.dtype("f8")


def leaves(count: int, dtype: np.dtype[Any] = F4) -> tuple[ExprGraph, list[Expr]]:
    graph = ExprGraph()
    return graph, [graph.input(i, dtype) for i in range(count)]


def kernel_of(formula: Callable[..., Any], *operands: Any, tracer: type[Tracer] = Tracer) -> Kernel:
    named = [(f"x{i}", Input(o) if isinstance(o, np.dtype) else o) for i, o in enumerate(operands)]
    return trace("test", lambda F, *args: [formula(F, *args)], named, tracer(Backend.bodies))


class TestExpressions:
    def test_equal_ones_are_one_object(self) -> None:
        _, (x, y) = leaves(2)
        assert x * y + 1 is x * y + 1.0
        assert x * y is not y * x

    def test_zeros_of_both_signs_are_different_constants(self) -> None:
        graph, (x,) = leaves(1)
        assert x + 0.0 is not x + -0.0
        assert x + ScalarParameter(0.0) is not x + ScalarParameter(-0.0)
        assert [math.copysign(1, scalar) for scalar, _ in graph.parameters] == [1, -1]

    def test_constants_are_folded(self) -> None:
        graph, _ = leaves(0)
        folded = graph.cast(graph.constant(2.75, F8), np.dtype("i4"))
        assert (folded.function, folded.value, folded.dtype) == ("constant", 2, "int32")

    def test_variables_are_assigned_in_place(self) -> None:
        _, (x, y) = leaves(2)
        variable = MutableExpr(x)
        variable *= 2
        variable[...] = variable + y
        assert unwrap(variable) is x * 2 + y
        assert unwrap(y) is y

    def test_an_input_as_an_output_is_copied(self) -> None:
        _, (x,) = leaves(1)
        assert as_output(x).function == "positive"
        assert as_output(x * 2) is x * 2

    @pytest.mark.parametrize("use", [bool, len, iter, lambda x: x[0], lambda x: x.shape, lambda x: x.view("int32")])
    def test_what_is_no_function_of_an_element_is_refused(self, use: Callable[[Any], Any]) -> None:
        _, (x,) = leaves(1)
        with pytest.raises(NotFusible):
            use(x)


class TestScalars:
    def test_equal_parameters_are_one(self) -> None:
        graph, (x,) = leaves(1)
        assert x * ScalarParameter(2.0) is x * ScalarParameter(2.0)
        assert len(graph.parameters) == 1

    def test_equal_symbolic_scalars_are_not(self) -> None:
        """They may be different in the next call."""
        graph, (x,) = leaves(1)
        found, _ = symbolic({"a": 2.0, "b": 2.0})
        assert x * found["a"] is not x * found["b"]
        assert x * found["a"] is x * found["a"]
        assert len(graph.parameters) == 2

    def test_they_are_evaluated_for_other_values(self) -> None:
        found, guards = symbolic({"lr": 0.1, "decay": 0.5, "flag": True})
        scale = 1 - found["lr"] * found["decay"]
        assert scale == 0.95
        assert scale.evaluate({"lr": 1.0, "decay": 0.25, "flag": True}) == 0.75
        assert found["flag"] is True
        assert len(guards) == 1  # the comparison of this test

    def test_guards_are_comparisons(self) -> None:
        found, guards = symbolic({"decay": 0.0})
        assert not found["decay"]
        (guard,) = guards
        assert guard({"decay": 0})
        assert not guard({"decay": 0.5})

    def test_a_selection_of_symbolic_scalars_keeps_the_dtype(self) -> None:
        graph, (x,) = leaves(1)
        found, _ = symbolic({"a": 2.0})
        assert graph.where(x > 0, found["a"], 1).dtype == np.result_type(2.0, 1)
        assert graph.where(x > 0, x, found["a"]).dtype == F4


class TestSchedule:
    def test_operands_come_first_and_dead_expressions_are_left_out(self) -> None:
        _, (x, y) = leaves(2)
        dead, shared = x - y, x * y
        order = topological_order([shared + x, shared * 3])
        assert not any(expr is dead for expr in order)
        position = {id(expr): i for i, expr in enumerate(order)}
        assert len(position) == len(order) == 6
        assert all(position[id(o)] < position[id(expr)] for expr in order for o in expr.operands)

    def test_deep_graphs(self) -> None:
        _, (x,) = leaves(1)
        expr = x
        for _ in range(5000):
            expr = expr * x
        assert len(topological_order([expr])) == 5001

    def test_inputs_and_parameters_that_are_not_read_are_left_out(self) -> None:
        kernel = kernel_of(lambda F, x, y, z, a, b: x * b + z, F4, F4, F4, 0.5, 0.25)
        assert [(i.name, i.position) for i in kernel.inputs] == [("x0", 0), ("x2", 2)]
        assert [p.scalar for p in kernel.parameters] == [0.25]

    def test_results_that_are_inputs_are_not_written(self) -> None:
        named = [("x", Input(F4)), ("y", Input(F4))]
        kernel = trace("test", lambda F, x, y: [y, x + y], named, Tracer(Backend.bodies))
        assert kernel.results == ((False, 1), (True, 0))
        assert len(kernel.outputs) == 1

    def test_printed(self) -> None:
        kernel = kernel_of(lambda F, x, a: F.exp(-x) * a, F4, 0.5)
        assert str(kernel).splitlines() == [
            "test(x0: float32):",
            "    %0: float32 = input x0",
            "    %1: float32 = negative %0",
            "    %2: float32 = exp %1",
            "    %3: float32 = parameter 0.5",
            "    %4: float32 = multiply %2 %3",
            "    return %4: float32",
        ]

    def test_buffers_are_reused_after_the_last_use(self) -> None:
        kernel = kernel_of(lambda F, x: F.exp(F.sin(F.cos(x))) * 2, F4)
        assert assign_buffers(kernel) == ([0, 0, 0, None], [F4])

    def test_no_buffer_is_written_while_it_is_read_later(self) -> None:
        kernel = kernel_of(lambda F, x, y: (F.exp(x) + F.exp(y)) * F.exp(x) - F.where(x > y, F.exp(y), x), F4, F4)
        buffers, dtypes = assign_buffers(kernel)
        computed = kernel.computed
        owner: dict[int, Expr] = {}
        number = {id(expr): buffer for expr, buffer in zip(computed, buffers, strict=True)}
        for expr, buffer in zip(computed, buffers, strict=True):
            for operand in expr.operands:
                if operand.operands:
                    assert owner[number[id(operand)]] is operand
            if buffer is not None:
                assert dtypes[buffer] == expr.dtype
                assert expr.function != "where" or buffer not in {number.get(id(o)) for o in expr.operands}
                owner[buffer] = expr
        assert buffers[-1] is None


class TestWriters:
    """One formula, three targets."""

    @staticmethod
    def formula(F: Any, x: Any, y: Any, slope: float) -> Any:
        return F.where(x > y, F.sqrt(abs(x)), F.maximum(x, y) * slope)

    def test_cuda(self) -> None:
        source = emit_cuda.emit(kernel_of(self.formula, F4, F4, 0.5, tracer=emit_cuda.CudaTracer), 0, 1)
        assert "= v1 ? v3 : v5;" in source
        assert "const float p0" in source

    def test_cpp(self) -> None:
        kernel = emit_cpp.trace_loop(self.formula, [F4, F4, 0.5], Backend.bodies)
        assert kernel is not None
        assert "= chosen(v1, v3, v5);" in emit_cpp.emit(kernel)
        assert not emit_cpp.is_single_function(kernel)
        assert emit_cpp.is_exact(kernel)

    def test_numpy(self) -> None:
        x, y = numbers(0), numbers(1)
        function = emit_numpy.emit(emit_numpy.trace_tile(self.formula, (x, y, 0.5), Backend.bodies), bits.select)
        result = np.empty_like(x)
        with np.errstate(all="ignore"):
            function.call(x, y, *[np.empty(x.shape, dtype) for dtype in function.scratch], result)
            assert same_bits(result, np.where(x > y, np.sqrt(abs(x)), np.maximum(x, y) * np.float32(0.5)))

    def test_functions_that_a_target_lacks_are_refused(self) -> None:
        with pytest.raises(NotFusible, match="there is no zeta on CUDA"):
            kernel_of(lambda F, x: F.zeta(x, x), F4, tracer=emit_cuda.CudaTracer)
        assert emit_cpp.trace_loop(lambda F, x: F.sin(x) * 2, [F4], Backend.bodies) is None
        assert emit_cpp.trace_loop(lambda F, x: (x * 2j).real + x, [F4], Backend.bodies) is None
        with pytest.raises(NotFusible, match="there is no j0 on the CPU"):
            emit_numpy.trace_tile(lambda F, x: F.bessel_j0(x) * 2, (np.ones(3, "f4"),), Backend.bodies)

    def test_the_same_function_of_dead_expressions_is_not(self) -> None:
        def formula(F: Any, x: Any) -> Any:
            F.zeta(x, x)
            return x * 2

        assert len(kernel_of(formula, F4, tracer=emit_cuda.CudaTracer).computed) == 1

    def test_extrema_alone_and_other_dtypes_are_left_to_numpy(self) -> None:
        assert emit_cpp.trace_loop(lambda F, x, y: F.maximum(x, y), [F4, F4], Backend.bodies) is None
        assert emit_cpp.trace_loop(lambda F, x: x * 2, [np.dtype("f2")], Backend.bodies) is None
        assert emit_cpp.trace_loop(lambda F, x: x > 2, [F4], Backend.bodies) is None

    def test_names_go_by_content(self) -> None:
        first, second, third = (
            emit_cpp.trace_loop(lambda F, x, a, f=f: f(F, x) * a, [F4, 0.5], Backend.bodies)
            for f in (lambda F, x: F.exp(x), lambda F, x: F.exp(x), lambda F, x: F.log(x))
        )
        assert first is not None
        assert second is not None
        assert third is not None
        assert emit_cpp.loop_name(first) == emit_cpp.loop_name(second) != emit_cpp.loop_name(third)


class TestOptimizers:
    def test_outputs_are_what_the_formula_assigns(self) -> None:
        def step(F: Any, p: Any, g: Any, momentum: Any, unused: Any, lr: float) -> None:
            momentum *= 0.5
            momentum += g
            p -= lr * momentum

        tracer = Tracer(Backend.bodies)
        optimizer = trace_optimizer(step, F4, 2, {"lr": Input(F4, is_array=False)}, tracer)
        assert optimizer.written == ("p", "s0")
        assert optimizer.arrays == ("g", "p", "s0", "lr", "p", "s0")
        assert optimizer.vectors == (0,)

    @staticmethod
    def decayed(F: Any, p: Any, g: Any, lr: float, decay: float, maximize: bool) -> None:
        if decay != 0:
            g = g + decay * p
        p += lr * g if maximize else -lr * g

    def test_kernels_are_traced_once_for_all_values_with_the_same_outcome(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        built: list[OptimizerKernel] = []
        kernels = OptimizerKernels(lambda: Tracer(Backend.bodies), lambda kernel, dtype: built.append(kernel) or kernel)
        monkeypatch.setattr(self.decayed, "__module__", "gradcore.optim.of_a_test")

        def find(lr: float, decay: float, maximize: bool = False) -> OptimizerKernel | None:
            return kernels.find(self.decayed, F4, 0, {"lr": lr, "decay": decay, "maximize": maximize})

        first = find(0.1, 0)
        assert find(0.25, 0.0) is first
        assert find(0.1, 0.5) is not first
        assert find(0.3, 0.7) is built[1]
        assert find(0.1, 0, maximize=True) is built[2]
        assert len(built) == 3
        (lr,) = built[0].kernel.parameters
        assert lr.scalar.evaluate({"lr": 0.25, "decay": 0, "maximize": False}) == -0.25

    def test_formulas_of_users_are_traced_for_each_value(self) -> None:
        """Nobody knows what they do with a float."""

        def step(F: Any, p: Any, g: Any, lr: float) -> None:
            p -= math.sqrt(lr) * g

        kernels = OptimizerKernels(lambda: Tracer(Backend.bodies), lambda kernel, dtype: kernel)
        found = [kernels.find(step, F4, 0, {"lr": lr}) for lr in (4.0, 9.0, 4.0)]
        assert found[0] is found[2] is not found[1]
        constants = [[e.value for e in each.kernel.nodes if e.function == "constant"] for each in found if each]
        assert constants == [[2.0], [3.0], [2.0]]
