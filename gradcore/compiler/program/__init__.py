"""The captured program, and passes over it that no target needs to know of."""
