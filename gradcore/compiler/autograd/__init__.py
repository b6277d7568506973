"""The history of a program's results: its backward, and steps of optimizers."""
