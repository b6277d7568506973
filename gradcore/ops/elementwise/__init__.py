"""Operations on single elements."""
