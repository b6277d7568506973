"""Settings of the documentation: ``python -m sphinx -W -b html docs docs/_build``."""

import sys
from pathlib import Path

import gradcore

sys.path.append(str(Path(__file__).parent / "_extensions"))

project = "gradcore"
author = "gradcore contributors"
project_copyright = author
version = release = gradcore.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "myst_parser",
    "numpydoc",
    "sphinx_copybutton",
    "reference",
    "benchmark_tables",
]
exclude_patterns = ["_build", "examples"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
html_title = f"gradcore {version}"

nitpicky = False
autodoc_typehints = "none"  # the signatures of numpydoc's sections say it already
autosummary_generate = True
numpydoc_show_class_members = False
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
