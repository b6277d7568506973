"""Modules in notebooks: outlines in HTML."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import gradcore as gc
from gradcore import nn


class Reader(HTMLParser):
    """Collects tags and text, and checks that tags are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(module: nn.Module) -> Reader:
    reader = Reader()
    reader.feed(module._repr_html_())
    reader.close()
    assert not reader.open
    return reader


def test_nested_modules() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 2, bias=False)))
    model[0].bias.requires_grad_(False)
    page = read(model)
    assert page.tags.count("details") == 2
    for words in (
        "Sequential() 21 parameters, 3 frozen", "0: Linear(in_features=4, out_features=3, bias=True)",
        "weight 3 x 4, bias 3, 15 parameters, 3 frozen",
        "1: Linear(in_features=3, out_features=2, bias=False) weight 2 x 3",
    ):  # fmt: skip
        assert words in page.text


def test_names_and_settings_are_escaped() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(gc.tensor(1.0))
            self.add_module("<b>", nn.Identity())
            self.gone = None
            self.register_module("none", None)

        def extra_repr(self) -> str:
            return 'a < b,\n  "c"'

    page = read(Odd())
    assert 'Odd(a < b, "c") scale scalar, 1 parameters' in page.text
    assert "<b>: Identity()" in page.text


def test_modules_whose_sizes_are_not_known() -> None:
    assert "the first call decides" in read(nn.Sequential(nn.LazyLinear(3))).text
