"""What the tests of this folder share."""

import re

import pytest


@pytest.fixture
def text_of():
    """Return a function that gives an object's text with every memory address written as ``0x``."""

    def masked(thing):
        return re.sub(r"0x[0-9A-Fa-f]+", "0x", str(thing))

    return masked
