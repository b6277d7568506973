"""Draws the pictures of docs/gallery.md: ``python docs/examples/gallery/draw.py``, into docs/images/gallery."""

import importlib
import sys
from pathlib import Path

HERE = Path(__file__).parent
SIZES = {
    "waveform_inversion": (9, 3), "phase_retrieval": (10, 2.2), "tomography": (9, 3), "fitting_ode": (7, 3.2),
    "gaussian_process": (7, 3.2), "registration": (9, 2.5), "optical_system": (7, 4.5),
}  # fmt: skip


def main(folder, names):
    """Run programs and write their pictures."""
    from matplotlib.figure import Figure

    sys.path.insert(0, str(HERE))
    for name in names:
        program = importlib.import_module(name)
        figure = Figure(SIZES[name], layout="constrained")
        program.draw(figure, program.run())
        figure.savefig(folder / f"{name}.png", dpi=80)


if __name__ == "__main__":
    main(HERE.parents[1] / "images" / "gallery", sys.argv[1:] or SIZES)
