"""The programs of docs/gallery.md find what they look for, in a small size."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("scipy")
GALLERY = Path(__file__).parents[1] / "docs" / "examples" / "gallery"


def run(name, **sizes):
    """Run a program of the gallery, and return its result."""
    spec = importlib.util.spec_from_file_location(name, GALLERY / f"{name}.py")
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program.run(**sizes)


def test_waveform_inversion():
    found = run("waveform_inversion", n=24, steps=60, shots=3, iterations=12)
    assert found["after"] < 0.1 * found["before"]


def test_phase_retrieval():
    assert run("phase_retrieval", n=16, patterns=8, iterations=150)["error"] < 0.1


def test_tomography():
    assert run("tomography", n=20, angles=12, iterations=60)["error"] < 0.3


@pytest.mark.slow
def test_fitting_ode():
    found = run("fitting_ode", points=8, end=6.0, noise=0.2)
    assert np.all(abs(found["found"] - [1.1, 0.4, 0.4, 0.1]) < 5 * found["deviations"])


def test_gaussian_process():
    found = run("gaussian_process", points=20)
    assert found["after"] < found["before"] - 1


def test_registration():
    found = run("registration", n=24)
    np.testing.assert_allclose(found["matrix"], [[1.08, 0.17], [-0.15, 0.94]], atol=1e-3)
    np.testing.assert_allclose(found["shift"], [2.0, -1.5], atol=1e-2)


def test_optical_system():
    found = run("optical_system", rays=5)
    assert found["after"] < 0.01 * found["before"]


def test_every_program_has_a_picture_on_the_page():
    page = (GALLERY.parents[1] / "gallery.md").read_text(encoding="utf-8")
    programs = {path.stem for path in GALLERY.glob("*.py")} - {"draw"}
    assert programs == {path.stem for path in (GALLERY.parents[1] / "images" / "gallery").glob("*.png")}
    assert all(f"images/gallery/{name}.png" in page for name in programs)
