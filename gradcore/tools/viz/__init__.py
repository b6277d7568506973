"""Pictures of graphs and programs, the memory that they keep, and loops that keep too many graphs alive."""

from gradcore.tools.viz.memory import MemoryReport, MemoryRow, memory
from gradcore.tools.viz.picture import Picture, graph
from gradcore.tools.viz.programs import program
from gradcore.tools.viz.recording import record
from gradcore.tools.viz.watching import KeptGraphs, watch_graphs
from gradcore.torch_names import paths

__all__ = ["KeptGraphs", "MemoryReport", "MemoryRow", "Picture", "graph", "memory", "program", "record", "watch_graphs"]
paths.show_public(__name__)
