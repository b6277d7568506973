"""Products of matrices, and sums over processes."""
