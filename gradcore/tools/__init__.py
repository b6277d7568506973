"""Tools: pictures of graphs, profiler, compilation of kernels, reports of the environment, stub files."""
