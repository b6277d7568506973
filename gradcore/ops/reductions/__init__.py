"""Operations along dims: sums, extrema, sorting, counts and distances."""
