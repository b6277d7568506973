"""Operations that read and write by tensors of indices."""
