"""The target Python: a program as a function without loops, one line for each call."""
