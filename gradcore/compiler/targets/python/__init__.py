"""The Python target: a program as a function with one line for each call."""
