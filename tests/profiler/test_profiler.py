"""The profiler: what it notes of operations, of backward and of named parts, and what is made of it."""

from __future__ import annotations

import gzip
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import gradcore as gc
from gradcore.autograd.modes import PROFILE, local
from gradcore.autograd.profiler import profile, record_function
from gradcore.profiler import ProfilerActivity, schedule, tensorboard_trace_handler
from gradcore.profiler import profile as stepwise


def names(prof: Any) -> list[str]:
    return [event.name for event in prof.function_events]


@pytest.fixture
def x() -> Any:
    return gc.ones(3, 4, requires_grad=True)


# -- what is noted ----------------------------------------------------------------------------------------------------


def test_operations_and_nodes_in_their_order(x: Any) -> None:
    with profile() as prof:
        (x * 2).tanh().sum().backward()
    leaf = "torch::autograd::AccumulateGrad"
    nodes = ["SumBackward0", "TanhBackward0", "MulBackward0", leaf]
    ran = [name for node in nodes for name in (f"autograd::engine::evaluate_function: {node}", node)]
    assert names(prof) == ["aten::mul", "aten::tanh", "aten::sum", *ran]
    assert not local.state.mode & PROFILE
    assert x.grad.shape == (3, 4)


def test_calls_within_calls(x: Any) -> None:
    with profile() as prof:
        gc.nn.functional.mse_loss(x, gc.zeros(3, 4))
        x.detach().mul_(3)
    loss = prof.function_events[0]
    assert loss.name == "aten::mse_loss"
    assert loss.cpu_children
    assert all(child.cpu_parent is loss for child in loss.cpu_children)
    assert "aten::mul_" in names(prof)


def test_named_parts(x: Any) -> None:
    @record_function("decorated")
    def twice(t: Any) -> Any:
        """Add."""
        return t + t

    with profile() as prof, record_function("outer"), record_function("inner"):
        twice(x)
    assert names(prof) == ["outer", "inner", "decorated", "aten::add"]
    assert [len(event.cpu_children) for event in prof.function_events] == [1, 1, 1, 0]
    assert twice.__doc__ == "Add."
    with record_function("nobody listens"):
        assert twice(x).shape == x.shape


def test_times_add_up() -> None:
    with profile() as prof, record_function("outer"):
        time.sleep(0.02)
        with record_function("inner"):
            time.sleep(0.03)
    outer, inner = prof.function_events
    assert 30_000 <= inner.cpu_time_total <= outer.cpu_time_total
    assert outer.self_cpu_time_total == pytest.approx(outer.cpu_time_total - inner.cpu_time_total)
    assert 20_000 <= outer.self_cpu_time_total < outer.cpu_time_total - 25_000
    assert prof.self_cpu_time_total == pytest.approx(outer.cpu_time_total)
    assert outer.time_range.start == 0
    assert outer.time_range.start < inner.time_range.start < inner.time_range.end <= outer.time_range.end
    assert outer.time_range.elapsed_us() == pytest.approx(outer.cpu_time_total)


def test_shapes(x: Any) -> None:
    with profile(record_shapes=True) as prof:
        x @ gc.ones(4, 2)
        gc.cat([x, x])
        x + 1
    shapes = {event.name: event.input_shapes for event in prof.function_events}
    assert shapes["aten::matmul"] == [[3, 4], [4, 2]]
    assert shapes["aten::cat"][0] == [[3, 4], [3, 4]]
    assert shapes["aten::add"][:2] == [[3, 4], []]


def test_bytes(x: Any) -> None:
    with profile(profile_memory=True) as prof, record_function("part"):
        y = x * 2
        y.view(12)
        gc.nn.functional.mse_loss(x, y)
        y.sum().backward()
    used = {event.name: event for event in prof.function_events}
    assert used["aten::mul"].cpu_memory_usage == 48
    assert used["aten::view"].cpu_memory_usage == 0
    loss = used["aten::mse_loss"]
    assert loss.cpu_memory_usage == 4
    assert loss.self_cpu_memory_usage == 4 - sum(child.cpu_memory_usage for child in loss.cpu_children)
    assert used["MulBackward0"].cpu_memory_usage == 48
    assert used["part"].cpu_memory_usage == sum(child.cpu_memory_usage for child in used["part"].cpu_children)


def test_places_in_the_program(x: Any) -> None:
    with profile(with_stack=True) as prof:
        y = x * 2
        y.sum().backward()
    first = prof.function_events[0]
    assert "test_profiler.py" in first.stack[0]
    assert first.stack[0].endswith("test_places_in_the_program")
    assert not any("gradcore/autograd" in line or "gradcore/dispatch" in line for line in first.stack)
    (node,) = (event for event in prof.function_events if event.name == "MulBackward0")
    assert node.stack == first.stack


def test_a_node_has_the_number_of_the_call_that_made_it(x: Any) -> None:
    with profile() as prof:
        (x * 2).sum().backward()
    numbers = {event.name: event.sequence_nr for event in prof.function_events}
    assert numbers["aten::mul"] == numbers["MulBackward0"] > 0
    assert numbers["aten::sum"] == numbers["SumBackward0"] != numbers["aten::mul"]


def test_backward_that_is_recorded_shows_its_operations(x: Any) -> None:
    with profile() as prof:
        (x * x).sum().backward(create_graph=True)
    (node,) = (event for event in prof.function_events if event.name == "MulBackward0")
    assert "aten::mul" in [child.name for child in node.cpu_children]
    x.grad = None


def test_what_fails_ends_too(x: Any) -> None:
    with profile() as prof:
        with pytest.raises(RuntimeError), record_function("part"):
            x @ x
        x + 1
    assert names(prof)[:2] == ["part", "aten::matmul"]
    assert names(prof)[-1] == "aten::add"
    assert prof.function_events[-1].cpu_parent is None
    assert all(event.stop >= event.start > 0 for event in prof.function_events)


def test_results_do_not_depend_on_profiling() -> None:
    def gradient() -> Any:
        w = gc.linspace(0, 1, 12).reshape(3, 4).requires_grad_()
        ((w @ w.T).softmax(0).log()[1:] * w[0, 1]).sum().backward()
        return w.grad

    plain = gradient()
    with profile(record_shapes=True, profile_memory=True, with_stack=True):
        assert gradient().equal(plain)
        with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
            anomaly = gc.autograd.detect_anomaly(check_nan=False)
        with anomaly:
            assert gradient().equal(plain)


def test_threads_are_apart(x: Any) -> None:
    with profile() as prof:
        thread = threading.Thread(target=lambda: x + 1)
        thread.start()
        thread.join()
        x * 2
    assert names(prof) == ["aten::mul"]
    assert prof.function_events[0].thread == threading.get_ident()


def test_autocasting_shows_its_conversions(x: Any) -> None:
    with profile() as prof, gc.autocast("cpu"):
        x @ gc.ones(4, 2)
    assert names(prof)[:3] == ["aten::matmul", "aten::_to_copy", "aten::_to_copy"]


def test_steps_of_optimizers_have_a_name(x: Any) -> None:
    optimizer = gc.optim.SGD([x], lr=0.1)
    with profile() as prof:
        (x * 2).sum().backward()
        optimizer.step()
    assert names(prof)[-1] == "Optimizer.step#SGD.step"


# -- misuse -----------------------------------------------------------------------------------------------------------


def test_misuse(x: Any) -> None:
    prof = profile()
    assert repr(prof) == str(prof) == "<unfinished torch.autograd.profile>"
    with pytest.raises(RuntimeError, match="Profiler didn't finish running"):
        prof.key_averages()
    with prof:
        with pytest.raises(RuntimeError, match="already enabled on this thread"):
            profile().__enter__()
        x + 1
    with pytest.raises(RuntimeError, match="not reentrant"):
        prof.__enter__()
    with profile(enabled=False) as off:
        x + 1
    with pytest.raises(RuntimeError, match="Profiler didn't finish running"):
        off.table()


@pytest.mark.skipif(gc.cuda.is_available(), reason="says what happens without CUDA")
def test_without_cuda(x: Any) -> None:
    with pytest.warns(UserWarning, match="CUDA is not available, disabling CUDA profiling"):
        prof = profile(use_cuda=True)
    with prof:
        x + 1
    assert "CUDA" not in prof.table()


# -- what is made of it -----------------------------------------------------------------------------------------------


@pytest.fixture
def recorded() -> Any:
    with profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        for n in (2, 2, 5):
            gc.ones(n, n) * 2
        gc.ones(3) + gc.ones(3)
    return prof


def test_averages(recorded: Any) -> None:
    sums = {each.key: each for each in recorded.key_averages()}
    assert {key: each.count for key, each in sums.items()} == {"aten::mul": 3, "aten::add": 1}
    events = [event for event in recorded.function_events if event.name == "aten::mul"]
    product = sums["aten::mul"]
    assert product.cpu_time_total == pytest.approx(sum(event.cpu_time_total for event in events))
    assert product.cpu_time == pytest.approx(product.cpu_time_total / 3)
    assert product.cpu_memory_usage == 4 * (4 + 4 + 25)
    total = recorded.total_average()
    assert (total.key, total.count, total.cpu_memory_usage) == ("Total", 4, 4 * 33 + 12)


def test_averages_by_shapes_and_places(recorded: Any) -> None:
    by_shape = recorded.key_averages(group_by_input_shape=True)
    assert sorted((each.count, each.input_shapes) for each in by_shape if each.key == "aten::mul") == [
        (1, [[5, 5], []]), (2, [[2, 2], []]),
    ]  # fmt: skip
    by_place = recorded.key_averages(group_by_stack_n=1)
    assert len({each.stack[0] for each in by_place}) == 2


def test_tables(recorded: Any) -> None:
    lines = recorded.key_averages(group_by_input_shape=True).table(sort_by="count", row_limit=2).splitlines()
    columns = [column.strip() for column in lines[1].split("  ") if column.strip()]
    assert columns == [
        "Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "CPU Mem", "Self CPU Mem",
        "# of Calls", "Input Shapes",
    ]  # fmt: skip
    assert len({len(line) for line in lines[:-1]}) == 1
    rows = lines[3:-2]
    assert len(rows) == 2
    assert rows[0].split()[0] == "aten::mul"
    assert rows[0].rstrip().endswith("[[2, 2], []]")
    assert lines[-1].startswith("Self CPU time total: ")
    assert "Source Location" in recorded.key_averages(group_by_stack_n=1).table()
    assert recorded.table(header="THE HEADER").startswith("THE HEADER")
    assert str(recorded) == recorded.function_events.table()
    shortened = recorded.key_averages().table(max_name_column_width=6)
    assert "ate..." in shortened
    with pytest.raises(AttributeError):
        recorded.table(sort_by="beauty")


def test_top_level_events_only(x: Any) -> None:
    with profile() as prof, record_function("outer"):
        x + 1
    text = prof.function_events.table(top_level_events_only=True)
    assert "outer" in text
    assert "aten::add" not in text


def test_units() -> None:
    from gradcore.profiler.events import format_time
    from gradcore.profiler.tables import _memory

    assert [format_time(us) for us in (1.5, 1500, 2.5e6)] == ["1.500us", "1.500ms", "2.500s"]
    assert [_memory(n) for n in (3, -2048, 3 << 20, 5 << 30)] == ["3 B", "-2.00 KB", "3.00 MB", "5.00 GB"]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_chrome_traces(suffix: str, recorded: Any, tmp_path: Path) -> None:
    path = tmp_path / f"trace.json{suffix}"
    recorded.export_chrome_trace(path)
    data = gzip.decompress(path.read_bytes()) if suffix else path.read_bytes()
    events = json.loads(data)["traceEvents"]
    assert [event["name"] for event in events] == names(recorded)
    first, second = events[:2]
    assert first["ph"] == "X"
    assert first["ts"] + first["dur"] <= second["ts"]
    assert first["args"]["Input Dims"] == [[2, 2], []]


def test_stacks(recorded: Any, tmp_path: Path) -> None:
    for event in recorded.function_events:
        event.stop += 5_000_000  # so that no time is rounded to nothing
    recorded.export_stacks(tmp_path / "stacks", "self_cpu_time_total")
    lines = (tmp_path / "stacks").read_text().splitlines()
    assert len(lines) == 2
    place, _, total = lines[0].rpartition(" ")
    assert place.endswith("recorded")
    assert int(total) >= 15_000
    with pytest.raises(ValueError, match="metric should be one of"):
        recorded.function_events.export_stacks(tmp_path / "stacks", "beauty")
    with profile() as prof:
        gc.ones(1) + 1
    with pytest.raises(AssertionError, match="requires with_stack=True"):
        prof.export_stacks(tmp_path / "stacks")


def test_reprs(recorded: Any) -> None:
    assert repr(recorded.function_events[0]).startswith("<FunctionEvent id=0 name=aten::mul cpu_time=")
    assert repr(recorded.key_averages()[0]).startswith("<FunctionEventAvg key=aten::mul self_cpu_time=")


# -- devices ----------------------------------------------------------------------------------------------------------


def test_times_on_a_device(strict: str) -> None:
    from tests.strict.device import COUNTS

    x = gc.ones(4, 4, device="strict:1", requires_grad=True)
    with profile(use_device="strict", profile_memory=True) as prof:
        with record_function("part"):
            y = x * 2
        waited = dict(COUNTS)
        y.sum().backward()
        assert COUNTS["sync"] == waited.get("sync", 0), "profiling waits for the device"
    times = {event.name: event for event in prof.function_events}
    product = times["aten::mul"]
    assert product.device_time_total > 0
    assert product.device_memory_usage == 64
    assert product.cpu_memory_usage == 0
    assert product.cuda_time_total == product.device_time_total == product.self_device_time_total
    assert times["MulBackward0"].device_time_total > 0
    text = prof.key_averages().table(sort_by="self_device_time_total")
    assert "Self STRICT" in text
    assert "Self STRICT time total" in text


# -- step by step -----------------------------------------------------------------------------------------------------


def test_schedules() -> None:
    plan = schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    assert " ".join(plan(step).name for step in range(11)) == (
        "NONE NONE WARMUP RECORD RECORD_AND_SAVE NONE WARMUP RECORD RECORD_AND_SAVE NONE NONE"
    )
    for wrong in ({"wait": -1, "warmup": 0, "active": 1}, {"wait": 0, "warmup": 0, "active": 0}):
        with pytest.raises(AssertionError, match="Invalid profiler schedule arguments"):
            schedule(**wrong)


def test_steps() -> None:
    ready: list[Any] = []
    plan = schedule(wait=1, warmup=1, active=2)
    cpu = [ProfilerActivity.CPU]
    with stepwise(
        activities=cpu,
        schedule=plan,
        on_trace_ready=lambda p: ready.append((p.step_num, [event.name for event in p.events()])),
        record_shapes=True,
    ) as prof:
        for _ in range(7):
            gc.ones(2) + 1
            prof.step()
    assert ready[0] == (4, ["ProfilerStep#2", "aten::add", "ProfilerStep#3", "aten::add"])
    assert ready[1] == (7, ["ProfilerStep#6", "aten::add", "ProfilerStep#7"])
    assert len(ready) == 2
    assert not local.state.mode & PROFILE


def test_a_single_recording(tmp_path: Path) -> None:
    with stepwise(activities=[ProfilerActivity.CPU], on_trace_ready=tensorboard_trace_handler(str(tmp_path))) as prof:
        gc.ones(2) + 1
    assert [event.name for event in prof.events()] == ["aten::add"]
    assert prof.key_averages()[0].count == 1
    (path,) = tmp_path.glob("*.pt.trace.json")
    assert json.loads(path.read_text())["traceEvents"][0]["name"] == "aten::add"


def test_results_before_the_end() -> None:
    with (
        stepwise(activities=[ProfilerActivity.CPU]) as prof,
        pytest.raises(AssertionError, match="have finished"),
    ):
        prof.key_averages()
    with pytest.raises(AssertionError, match="No valid profiler activities found"):
        stepwise(activities=[])
