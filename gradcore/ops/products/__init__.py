"""Products of matrices, and linear maps between processes."""
