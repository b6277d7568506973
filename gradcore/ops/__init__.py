"""Operations: one declaration each, from which everything else about an operation follows."""
