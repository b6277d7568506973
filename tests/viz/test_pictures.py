"""Pictures of graphs: what is on the cards, where they stand, and the files."""

import re
import stat
import sys
from xml.etree import ElementTree

import pytest

import gradcore as gc
from gradcore import nn, viz
from gradcore.viz.layout import lay_out


def leaf(*shape):
    return gc.ones(*shape, requires_grad=True)


def titles(picture):
    return [vertex.title for vertex in picture.vertices]


def card(picture, title):
    (found,) = (vertex for vertex in picture.vertices if vertex.title == title)
    return found


def test_cards_say_what_nodes_are_and_keep():
    w, x = leaf(2, 3), leaf(3)
    picture = viz.graph((w @ x).exp().sum(), {"w": w, "x": x})
    assert titles(picture) == ["result", "sum", "exp", "mv", "w", "x"] or titles(picture)[:4] == [
        "result", "sum", "exp", "mv"
    ]  # fmt: skip
    assert card(picture, "result").facts == ["scalar  f32"]
    assert card(picture, "exp").saved == ["result  2  f32"]
    assert card(picture, "w").kind == "leaf"
    assert card(picture, "w").facts == ["2 × 3  f32"]  # noqa: RUF001
    assert picture.summary == "5 nodes · 8 B kept for backward"


def test_names_come_from_modules_and_for_results():
    net = nn.Sequential(nn.Linear(2, 1), nn.Tanh())
    loss = net(gc.ones(1, 2)).sum()
    assert {"0.weight", "0.bias"} <= set(titles(viz.graph(loss, net)))
    assert titles(viz.graph(loss, {"loss": loss}))[0] == "loss"


def test_recorded_graphs_have_lines_shapes_and_names_of_calls():
    x = leaf(2, 3)
    with viz.record():
        y = x.t()
        z = y.sin_() if False else y.sin().sum()
    picture = viz.graph(z, {"x": x})
    line = test_recorded_graphs_have_lines_shapes_and_names_of_calls.__code__.co_firstlineno + 3
    assert card(picture, "t").facts == ["3 × 2  f32", f"test_pictures.py:{line}"]  # noqa: RUF001
    assert card(picture, "t").kind == "view"
    assert card(picture, "sin").details["source"] == "z = y.sin_() if False else y.sin().sum()"


def test_lines_are_those_of_the_user_inside_modules_and_formulas():
    net, x = nn.Linear(3, 1), leaf(1, 3)
    with viz.record():
        out = net(x).exp()
        (g,) = gc.autograd.grad(out.sum(), x, create_graph=True)
    picture = viz.graph(g.sum())
    places = {fact for vertex in picture.vertices for fact in vertex.facts if ":" in fact}
    assert places
    assert all(place.startswith("test_pictures.py:") for place in places)
    assert any("in backward" in vertex.facts for vertex in picture.vertices)


def test_anomaly_detection_gives_lines_too():
    x = leaf(2)
    with gc.autograd.set_detect_anomaly(True):
        y = x.exp()
    assert any(fact.startswith("test_pictures.py:") for fact in card(viz.graph(y), "exp").facts)


def test_times_of_forward_and_backward():
    x = leaf(50)
    with viz.record(times=True):
        y = x.exp().sum()
        y.backward()
    (times,) = (fact for fact in card(viz.graph(y), "exp").facts if "forward" in fact)
    assert re.fullmatch(r"forward [\d.]+ [mµ]s · backward [\d.]+ [mµ]s", times)


def test_writes_custom_functions_and_freed_nodes():
    class Double(gc.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = leaf(3)
    y = Double.apply(x)
    y[0].mul_(2)
    z = y.exp().sum()
    picture = viz.graph(z)
    assert card(picture, "Double").kind == "function"
    assert card(picture, "Double").saved == ["saved_tensors[0]  3  f32"]
    assert card(picture, "CopySlices: mul").kind == "view"
    z.backward()
    assert card(viz.graph(z), "exp").saved == ["freed"]


def test_writes_of_numbers_and_tensors_are_recorded():
    x = leaf(3, 3)
    with viz.record():
        y = x * 2
        y[0] = 1
        y[1, :] = x[0]
        y.fill_(gc.tensor(2.0))
        y.zero_()
    found = titles(viz.graph(y.sum()))
    assert found[:3] == ["result", "sum", "zero_"]


def test_a_written_part_is_a_card_of_its_own():
    x = leaf(3, 3)
    with viz.record():
        y = x * 2
        y[0] = 1
    assert titles(viz.graph(y, {"x": x})) == ["result", "CopySlices: fill", "mul", "x"]


def test_several_results_and_outputs():
    x = leaf(2, 2)
    values, vectors = gc.linalg.eigh(x + x.t())
    picture = viz.graph([values.sum(), {"v": vectors}])
    assert titles(picture)[:2] == ["result", "result 2"]
    assert any(label == "output 1" for *_, label in picture._description.edges)
    assert viz.graph(gc.autograd.graph.get_gradient_edge(values)).summary.startswith("4 nodes")


def test_large_graphs_are_drawn_in_groups():
    x = leaf(3)
    y = x
    with viz.record():
        for _ in range(200):
            y = y.sin()
            y = y * x
    picture = viz.graph(y.sum(), {"x": x})
    assert [(v.title, v.count) for v in picture.vertices] == [
        ("result", 1), ("sum", 1), ("mul", 200), ("sin", 200), ("x", 1)
    ]  # fmt: skip
    assert card(picture, "mul").saved == ["4.7 KiB saved"] or card(picture, "mul").saved
    edges = {(a, b): count for a, b, count, _ in picture._description.edges}
    assert edges[3, 2] == 200
    assert edges[2, 3] == 199
    assert "like nodes are grouped" in picture.svg


def test_depth_does_not_matter():
    y = leaf(1)
    for _ in range(20_000):
        y = y + 1.0
    picture = viz.graph(y)
    assert card(picture, "add").count == 20_000
    assert "20,000" in picture.svg
    assert viz.memory(y).nodes == 20_001


def test_without_a_graph_there_is_an_error():
    with pytest.raises(RuntimeError, match="there is no graph"):
        viz.graph(gc.ones(2))
    assert titles(viz.graph(leaf(2), {"nothing": 3})) == ["leaf"]


# -- files --------------------------------------------------------------------------------------------------------


@pytest.fixture
def picture():
    x = leaf(2)
    with viz.record():
        return viz.graph((x * 'a<b&"c"'.count("a")).exp().sum(), {'<x> & "y"': x}, engine="own")


def test_svg_is_a_document_that_notebooks_show(picture):
    root = ElementTree.fromstring(picture.svg)
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert '<x> & "y"' in texts
    assert "kept for backward" in texts
    assert picture._repr_svg_() == picture.svg
    # As many cards as vertices, inside the drawing, and none over another one.
    cards = [g for g in root.iter("{http://www.w3.org/2000/svg}g") if "vertex" in g.get("class", "")]
    assert len(cards) == len(picture.vertices)


def test_page_needs_nothing_else(picture):
    assert picture.svg in picture.html
    assert not re.search(r'(src|href)="|@import|https?://(?!www\.w3\.org)', picture.html)


def test_dot_text(picture):
    assert picture.dot.startswith("digraph")
    assert '"<x> & \\"y\\"\\n2  f32"' in picture.dot
    assert picture.dot.count("->") == len(picture.vertices) - 1


@pytest.mark.parametrize("suffix", ["svg", "html", "dot"])
def test_suffixes_of_files(picture, tmp_path, suffix):
    picture.save(tmp_path / f"graph.{suffix}")
    assert (tmp_path / f"graph.{suffix}").read_text(encoding="utf-8") == getattr(picture, suffix)


def test_other_suffixes_are_refused(picture, tmp_path):
    with pytest.raises(ValueError, match=r"must be \.svg, \.html or \.dot"):
        picture.save(tmp_path / "graph.png")


# -- Graphviz -----------------------------------------------------------------------------------------------------

PROGRAM = """#!{python}
import re, sys
text = sys.stdin.read()
boxes = re.findall(r"n(\\d+) \\[width", text)
print("graph 1 4 6")
for i in boxes:
    print(f"node n{{i}} 2 {{float(i) + 0.5}} 1 1 x solid box black lightgrey")
for a, b, number in re.findall(r'n(\\d+) -> n(\\d+) \\[label="(\\d+)"', text):
    points = [(2, int(a)), (2, int(a) - 0.3), (2, int(b) + 1.3), (2, int(b) + 1)]
    print(f"edge n{{a}} n{{b}} 4", *(c for p in points for c in p), number, 2, 2, "solid black")
print("stop")
"""


def test_graphviz_places_the_cards_where_it_is_installed(tmp_path, monkeypatch):
    program = tmp_path / "dot"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", str(tmp_path))
    x = leaf(2)
    y = x.exp().sum()
    text = viz.graph(y, engine="dot").svg
    assert text == viz.graph(y).svg
    assert text != viz.graph(y, engine="own").svg
    ElementTree.fromstring(text)


def test_without_graphviz(monkeypatch):
    monkeypatch.setenv("PATH", "")
    y = leaf(2).exp()
    assert viz.graph(y).svg == viz.graph(y, engine="own").svg
    with pytest.raises(RuntimeError, match="`dot` cannot be run"):
        _ = viz.graph(y, engine="dot").svg
    with pytest.raises(ValueError, match="engine must be"):
        viz.graph(y, engine="neato")


# -- layout -------------------------------------------------------------------------------------------------------

GRAPHS = {
    "chain": (4, [(0, 1), (1, 2), (2, 3)]),
    "diamond": (4, [(0, 1), (0, 2), (1, 3), (2, 3)]),
    "crossed": (4, [(0, 3), (1, 2)]),
    "long edge": (4, [(0, 1), (1, 2), (2, 3), (0, 3)]),
    "cycle": (3, [(0, 1), (1, 2), (2, 0)]),
    "loop": (2, [(0, 0), (0, 1)]),
    "parts": (4, [(0, 1)]),
    "one": (1, []),
    "ladder": (12, [(i, i + 2) for i in range(10)] + [(i, i + 1) for i in range(0, 12, 2)]),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_nothing_overlaps(name):
    n, edges = GRAPHS[name]
    sizes = [(40.0 + 30 * (i % 3), 20.0 + 10 * (i % 2)) for i in range(n)]
    layout = lay_out(sizes, edges)
    assert len(layout.routes) == len(edges)
    for i, ((x, y), (w, h)) in enumerate(zip(layout.centres, sizes, strict=True)):
        assert x - w / 2 >= -1e-6 <= layout.width - x - w / 2
        assert y - h / 2 >= -1e-6 <= layout.height - y - h / 2
        for (u, v), (p, q) in zip(layout.centres[:i], sizes, strict=False):
            assert abs(x - u) >= (w + p) / 2 - 1e-6 or abs(y - v) >= (h + q) / 2 - 1e-6


@pytest.mark.parametrize("name", [name for name in GRAPHS if name not in ("cycle", "loop")])
def test_edges_lead_down(name):
    n, edges = GRAPHS[name]
    layout = lay_out([(50.0, 20.0)] * n, edges)
    for (a, b), route in zip(edges, layout.routes, strict=True):
        assert layout.centres[a][1] < layout.centres[b][1]
        heights = [y for _, y in route]
        assert heights == sorted(heights)


def test_edges_do_not_cross_where_they_need_not():
    layout = lay_out([(50.0, 20.0)] * 4, GRAPHS["crossed"][1])
    (x0, _), (x1, _), (x2, _), (x3, _) = layout.centres
    assert (x0 - x1) * (x3 - x2) > 0
    assert x0 == x3
