"""Import paths and names of PyTorch, and small modules that stand at these paths alone."""
