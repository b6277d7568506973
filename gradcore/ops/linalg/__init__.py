"""Linear algebra: factors, systems, functions of matrices."""
