"""Operations along dims: sums, extrema, order, counts, distances."""
