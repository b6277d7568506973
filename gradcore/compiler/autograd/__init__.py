"""Autograd for compiled functions: backward programs, the node of results, and optimizer steps."""
