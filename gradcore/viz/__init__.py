"""Seeing graphs and programs: pictures of them, what memory they keep, and loops that keep too many alive."""

from gradcore.torch_names import paths
from gradcore.viz.memory import MemoryReport, MemoryRow, memory
from gradcore.viz.picture import Picture, graph
from gradcore.viz.programs import program
from gradcore.viz.recording import record
from gradcore.viz.watching import KeptGraphs, watch_graphs

__all__ = ["KeptGraphs", "MemoryReport", "MemoryRow", "Picture", "graph", "memory", "program", "record", "watch_graphs"]
paths.show_public(__name__)
