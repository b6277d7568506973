"""Import paths and names of PyTorch, and small modules that exist only at these paths."""
