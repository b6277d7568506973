"""Printing: layout, notation, options and suffixes, compared with texts written out here."""

import math

import numpy as np
import pytest

from gradcore.tensor.printing import (
    get_printoptions,
    meta_str,
    printoptions,
    set_printoptions,
    shows_dtype,
    tensor_str,
)

inf, nan = math.inf, math.nan
DEFAULTS = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}


@pytest.fixture(autouse=True)
def default_options():
    before = get_printoptions()
    set_printoptions(profile="default")
    yield
    set_printoptions(**before)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (3, "tensor(3)"),
        (-2.5, "tensor(-2.5000)"),
        (4.0, "tensor(4.)"),
        (1e-9, "tensor(1.0000e-09)"),
        (nan, "tensor(nan)"),
        (True, "tensor(True)"),
        (3.5 + 1j, "tensor(3.5000+1.j)"),
        ([True, False], "tensor([ True, False])"),
        ([1, -20, 300], "tensor([  1, -20, 300])"),
        ([1.0, 2.0], "tensor([1., 2.])"),
        ([1.0, 2.5], "tensor([1.0000, 2.5000])"),
        ([-0.0, 0.0], "tensor([-0., 0.])"),
        ([0.0, -1.0], "tensor([ 0., -1.])"),
        ([1.12345, 1.12355], "tensor([1.1235, 1.1236])"),
        ([[1.0, 2.0], [3.0, 4.0]], "tensor([[1., 2.],\n        [3., 4.]])"),
        ([[[1]], [[2]]], "tensor([[[1]],\n\n        [[2]]])"),
        ([[[1], [2]]], "tensor([[[1],\n         [2]]])"),
        ([[[[1]]], [[[2]]]], "tensor([[[[1]]],\n\n\n        [[[2]]]])"),
    ],
)
def test_values(values, text):
    assert tensor_str(np.array(values)) == text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        # Zeros, infinities and NaNs count neither for the notation nor for the width.
        ([inf, 1.0], "tensor([inf, 1.])"),
        ([-inf, 1.0], "tensor([-inf, 1.])"),
        ([nan, 1.5], "tensor([   nan, 1.5000])"),
        ([nan, inf, -inf, 0.0], "tensor([nan, inf, -inf, 0.])"),
        ([0.0, 1e-5], "tensor([0.0000e+00, 1.0000e-05])"),
        # Scientific notation begins just beyond a ratio of 1000, and beyond 1e8 and 1e-4 themselves.
        ([1.0, 1000.0], "tensor([   1., 1000.])"),
        ([1.0, 1001.0], "tensor([1.0000e+00, 1.0010e+03])"),
        ([1e8], "tensor([100000000.])"),
        ([1e8 + 1], "tensor([1.0000e+08])"),
        ([1e-4], "tensor([0.0001])"),
        ([9e-5], "tensor([9.0000e-05])"),
        ([5e-324, -1.7e308], "tensor([ 4.9407e-324, -1.7000e+308])"),
    ],
)
def test_notation(values, text):
    assert tensor_str(np.array(values)) == text


def test_complex_numbers():
    values = np.array([complex(1, -0.0), complex(nan, -inf), complex(-2, 0.5)])
    assert tensor_str(values) == "tensor([ 1.-0.0000j, nan-infj, -2.+0.5000j])"


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_number_prints_as_the_double_it_is(dtype):
    with printoptions(precision=12):
        assert tensor_str(np.array([0.1], dtype)) == f"tensor([{float(dtype(0.1)):.12f}])"


def test_signalling_nan_gives_no_warning(recwarn):
    assert tensor_str(np.full(9, 0x7F800001, np.uint32).view(np.float32)[:1]) == "tensor([nan])"
    assert not recwarn.list


def test_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert tensor_str(np.array([1.1, -3.0], ml_dtypes.bfloat16)) == "tensor([ 1.1016, -3.0000])"


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((0,), "tensor([])"),
        ((0, 3), "tensor([], size=(0, 3))"),
        ((2, 0, 3), "tensor([], size=(2, 0, 3))"),
    ],
)
def test_empty(shape, text):
    assert tensor_str(np.zeros(shape)) == text


def test_lines_are_broken_at_linewidth():
    assert tensor_str(np.arange(8)) == "tensor([0, 1, 2, 3, 4, 5, 6, 7])"
    with printoptions(linewidth=18):
        lines = ["0, 1, 2,", "3, 4, 5,", "6, 7])"]
        assert tensor_str(np.arange(8)) == "tensor([" + "\n        ".join(lines)
        assert tensor_str(np.arange(8), indent_prefix="Param(") == "Param([" + "\n       ".join(
            ["0, 1, 2, 3,", "4, 5, 6, 7])"]
        )
    with printoptions(linewidth=1):
        assert tensor_str(np.arange(2)) == "tensor([0,\n        1])"


def row_lengths(text):
    """Count the numbers on each line."""
    return [line.count(".") for line in text.splitlines()]


def test_what_counts_for_the_length_of_lines():
    assert row_lengths(tensor_str(np.ones(30))) == [18, 12]
    assert row_lengths(tensor_str(np.zeros(30))) == [24, 6]  # without a number that counts, the width is 1
    assert row_lengths(tensor_str(np.full(30, 1 + 1j))) == [20, 20, 20]  # two each, the sign not counted
    # Line lengths are those of the innermost brackets, which are three characters further in than "tensor(".
    assert row_lengths(tensor_str(np.full((1, 1, 1, 20), 10.5))) == [7, 7, 6]


def test_summary():
    assert tensor_str(np.arange(1000)).count(",") == 999
    assert tensor_str(np.arange(1001)) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"
    assert tensor_str(np.arange(1200).reshape(300, 4)) == (
        "tensor([[   0,    1,    2,    3],\n"
        "        [   4,    5,    6,    7],\n"
        "        [   8,    9,   10,   11],\n"
        "        ...,\n"
        "        [1188, 1189, 1190, 1191],\n"
        "        [1192, 1193, 1194, 1195],\n"
        "        [1196, 1197, 1198, 1199]])"
    )


def test_a_summary_keeps_dimensions_that_the_edges_cover():
    text = tensor_str(np.arange(1200).reshape(6, 200))
    assert text.count("\n") == 5
    assert text.count("...") == 6
    text = tensor_str(np.arange(1200).reshape(200, 6))
    assert text.count("\n") == text.count("...") + 5 == 6


def test_a_summary_chooses_its_notation_by_what_it_shows():
    values = np.ones(1001)
    values[500] = 1e-9
    assert tensor_str(values) == "tensor([1., 1., 1.,  ..., 1., 1., 1.])"


def test_a_summary_takes_only_what_it_shows():
    taken = []

    def to_numpy(part):
        taken.append(part.size)
        return np.asarray(part)

    tensor = np.broadcast_to(np.float32(1), (10_000, 10_000, 4))
    assert tensor_str(tensor, to_numpy=to_numpy).count("1.") == 6 * 6 * 4
    assert sum(taken) == 6 * 6 * 4


def test_summary_without_edgeitems_prints_sizes():
    with printoptions(edgeitems=0, threshold=5):
        assert tensor_str(np.zeros((2, 3))) == "tensor([...], size=(2, 3))"
        assert tensor_str(np.zeros(2)) == "tensor([0., 0.], size=(2,))"
        assert tensor_str(np.zeros((0, 3))) == "tensor([], size=(0, 3))"
    with printoptions(edgeitems=0, threshold=0):
        assert tensor_str(np.float64(2)) == "tensor(2., size=())"


def test_suffixes():
    suffixes = ["grad_fn=<ViewBackward0>"]
    text = tensor_str(np.zeros(2), suffixes=suffixes)
    assert text == "tensor([0., 0.], grad_fn=<ViewBackward0>)"
    text = tensor_str(np.zeros((1, 0)), dtype_name="torch.float16", device="cuda:0", suffixes=suffixes)
    assert text == ("tensor([], device='cuda:0', size=(1, 0), dtype=torch.float16,\n       grad_fn=<ViewBackward0>)")


def test_the_last_line_decides_where_suffixes_go():
    values = np.zeros((2, 15), np.int8)
    lines = tensor_str(values, dtype_name="torch.int8").splitlines()
    assert lines[-1] == "        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]], dtype=torch.int8)"
    lines = tensor_str(np.zeros((2, 20), np.int8), dtype_name="torch.int8").splitlines()
    assert lines[-1] == "       dtype=torch.int8)"


def test_suffixes_go_on_until_the_line_is_full():
    assert tensor_str(np.zeros(()), suffixes=["x" * 67]) == "tensor(0., " + "x" * 67 + ")"
    assert tensor_str(np.zeros(()), suffixes=["x" * 68]) == "tensor(0.,\n       " + "x" * 68 + ")"
    # After a break the indentation counts.
    assert tensor_str(np.zeros(()), suffixes=["x" * 68, "y" * 4]).endswith(",\n       yyyy)")
    assert tensor_str(np.zeros(()), suffixes=["x" * 68, "y" * 3]).endswith("x, yyy)")


def test_meta():
    assert meta_str((2, 3)) == "tensor(..., device='meta', size=(2, 3))"
    assert meta_str([4], "torch.int64") == "tensor(..., device='meta', size=(4,), dtype=torch.int64)"
    assert meta_str((), None, ["requires_grad=True"], indent_prefix="Weight(") == (
        "Weight(..., device='meta', size=(), requires_grad=True)"
    )


@pytest.mark.parametrize(
    ("dtype", "default", "numel", "shown"),
    [
        ("float32", "float32", 1, False),
        ("float32", "float64", 1, True),
        ("float64", "float64", 1, False),
        ("complex64", "float32", 1, False),
        ("complex64", "float16", 1, False),
        ("complex64", "float64", 1, True),
        ("complex128", "float64", 1, False),
        ("int64", "float32", 1, False),
        ("int32", "float32", 1, True),
        ("bool", "float32", 1, False),
        ("bool", "float32", 0, True),
        ("complex64", "float32", 0, True),
        ("float32", "float32", 0, False),
        ("torch.float32", "float32", 1, False),
        ("torch.int8", "torch.float32", 1, True),
    ],
)
def test_shows_dtype(dtype, default, numel, shown):
    assert shows_dtype(dtype, default, numel) is shown


def test_profiles():
    set_printoptions(profile="short")
    assert get_printoptions() == DEFAULTS | {"precision": 2, "edgeitems": 2}
    set_printoptions(profile="full", precision=1)
    assert get_printoptions() == DEFAULTS | {"precision": 1, "threshold": inf}
    assert "..." not in tensor_str(np.zeros(2000))
    set_printoptions(profile="default")
    assert get_printoptions() == DEFAULTS


def test_options_left_out_stay_except_sci_mode():
    set_printoptions(precision=2, sci_mode=True)
    assert tensor_str(np.array([1.0])) == "tensor([1.00e+00])"
    set_printoptions(linewidth=70)
    assert get_printoptions() == DEFAULTS | {"precision": 2, "linewidth": 70}


def test_sci_mode_off():
    with printoptions(sci_mode=False):
        assert tensor_str(np.array([1e-9, 1.0])) == "tensor([0.0000, 1.0000])"


def test_printoptions_restores_also_after_an_error():
    set_printoptions(precision=3, sci_mode=True)

    @printoptions(precision=7, edgeitems=1)
    def fail():
        assert get_printoptions() == DEFAULTS | {"precision": 7, "edgeitems": 1}
        raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert get_printoptions() == DEFAULTS | {"precision": 3, "sci_mode": True}


@pytest.mark.parametrize("wrong", [{"profile": "tiny"}, {"precision": -1}, {"edgeitems": -1}])
def test_wrong_options_change_nothing(wrong):
    before = get_printoptions()
    with pytest.raises(ValueError, match=next(iter(wrong))):
        set_printoptions(linewidth=20, **wrong)
    assert get_printoptions() == before


def test_a_text_is_written_with_one_set_of_options():
    """Options set while a tensor is being printed are for the next one."""

    def to_numpy(part):
        set_printoptions(precision=1)
        return np.asarray(part)

    assert tensor_str(np.array([1.5]), to_numpy=to_numpy) == "tensor([1.5000])"
    assert tensor_str(np.array([1.5])) == "tensor([1.5])"
    assert get_printoptions()["precision"] == 1
